// Passages of a search as values: order, citation, words to mark, a place in a source.

/** Most passages that are shown; `am7_vector_search` gives at most 100. */
const MAX_PASSAGES = 200;

const STOP_WORDS = new Set(
  "a an and are as at be but by can did do does for from had has have how in is it its not of on or that the their this to was were what when where which who why will with".split(
    " ",
  ),
);

/** Scripts that do not put spaces between words. */
const UNSPACED = /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u;

/** The passages in the data of a result; other items are left out. */
export function passagesOf(data) {
  const list = Array.isArray(data?.results) ? data.results.slice(0, MAX_PASSAGES) : [];
  return list
    .filter((passage) => passage !== null && typeof passage === "object" && typeof passage.text === "string")
    .map((passage, index) => ({ ...passage, index }));
}

/** The title of a passage's source. */
export function titleOf(passage) {
  const title = typeof passage.sourceTitle === "string" ? passage.sourceTitle.trim() : "";
  if (title !== "") return title;
  if (typeof passage.sourceFile === "string") return passage.sourceFile.split(/[\\/]/).at(-1);
  return String(passage.sourceUri ?? passage.uri ?? "a source without a name");
}

/** Where in its source a passage is, for people. */
export function placeOf(passage) {
  const parts = [];
  if (typeof passage.sourceFile === "string" && passage.sourceFile !== titleOf(passage)) parts.push(passage.sourceFile);
  if (Number.isInteger(passage.page)) parts.push(`page ${passage.page}`);
  if (typeof passage.chapterTitle === "string" && passage.chapterTitle.trim() !== "")
    parts.push(`“${passage.chapterTitle.trim()}”`);
  if (Number.isInteger(passage.chunk) && Number.isInteger(passage.chunkCount))
    parts.push(`passage ${passage.chunk + 1} of ${passage.chunkCount}`);
  return parts.join(" · ");
}

/** A citation in one line. */
export function citationOf(passage) {
  const parts = [titleOf(passage)];
  if (typeof passage.sourceFile === "string" && passage.sourceFile !== parts[0]) parts.push(passage.sourceFile);
  if (Number.isInteger(passage.page)) parts.push(`page ${passage.page}`);
  if (typeof passage.chapterTitle === "string" && passage.chapterTitle.trim() !== "")
    parts.push(`“${passage.chapterTitle.trim()}”`);
  const source = typeof passage.sourceUri === "string" ? ` <${passage.sourceUri}>` : "";
  return parts.join(", ").replace(/\s+/g, " ") + source;
}

/**
 * Passages with their citations, as Markdown: quoted, so that what a document says does not look
 * like anything else.
 */
export function quoted(passages) {
  const quote = (text) =>
    text
      .trim()
      .split(/\r?\n/)
      .map((line) => `> ${line}`)
      .join("\n");
  return passages
    .map((passage, index) => `[${index + 1}] ${citationOf(passage)}\n\n${quote(passage.text)}`)
    .join("\n\n");
}

/** The passages in another order: "best", "meaning", "words" or "source". Those without a rank come last. */
export function ordered(passages, order) {
  const rank = (value) => (Number.isInteger(value) ? value : Infinity);
  const compare = {
    best: (left, right) => left.index - right.index,
    meaning: (left, right) => rank(left.semanticRank) - rank(right.semanticRank) || left.index - right.index,
    words: (left, right) => rank(left.keywordRank) - rank(right.keywordRank) || left.index - right.index,
    source: (left, right) =>
      compareTexts(titleOf(left), titleOf(right)) ||
      compareTexts(String(left.sourceUri), String(right.sourceUri)) ||
      rank(left.start) - rank(right.start),
  }[order];
  return [...passages].sort((left, right) => compare(left, right) || 0);
}

function compareTexts(left, right) {
  return left < right ? -1 : left > right ? 1 : 0;
}

/** A pattern for the words of a question that are worth marking. */
export function patternOf(query) {
  const MOST = 16;
  const words = (query.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []).filter(
    (word) => UNSPACED.test(word) || (word.length > 1 && !STOP_WORDS.has(word)),
  );
  const unique = [...new Set(words)].slice(0, MOST).sort((left, right) => right.length - left.length);
  if (unique.length === 0) return "";
  // A word of letters is marked where a word begins, so that "art" is not marked in "start".
  const parts = unique.map((word) => (UNSPACED.test(word) ? word : `(?<![\\p{L}\\p{N}])${word}`));
  return new RegExp(parts.join("|"), "giu");
}

/**
 * Whether a part of a source still has the text of a passage. Passages have other quotes and spaces,
 * and very long ones are cut.
 */
export function isStillIn(source, passage) {
  const letters = (text) =>
    (
      text
        .normalize("NFKC")
        .toLowerCase()
        .match(/[\p{L}\p{N}]+/gu) ?? []
    ).join("");
  const [said] = passage.split("… (cut; resources/read of ");
  return letters(source).startsWith(letters(said));
}

/** Cuts a text at two places, given in bytes of UTF-8 from a first byte on: what is before, between and after. */
export function cutAt(text, first, start, end) {
  const encoded = new TextEncoder().encode(text);
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const from = Math.min(encoded.length, Math.max(0, start - first));
  const to = Math.min(encoded.length, Math.max(from, end - first));
  const part = (a, b) => decoder.decode(encoded.subarray(a, b));
  return [part(0, from), part(from, to), part(to, encoded.length)];
}
