/** Converts the older forms of context into blocks, and images back. */
import { REASONING, contextText, inlineText } from "./build.js";
import { readJsonAt } from "./json.js";
import { parse } from "./parse.js";
import { Splicer } from "./splice.js";
import { checkText, hasAt, search, skipSpaces, trim, utf8Length } from "./text.js";

const IMAGE = "${image.";
/** Much longer than an id and a few tags. */
const MAX_IMAGE_BYTES = 1024;
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const CITATIONS = { opening: "--- BEGIN CITATIONS ---", closing: "--- END CITATIONS ---" };
const THINKING = [
  { opening: "<think>", closing: /<\/think>/gi },
  { opening: "<thought>", closing: /<\/thought>/gi },
];
const STATES = [
  { opening: "(Reminder:", uri: "am7://reminder/legacy", schema: "urn:am7:narrative:reminder" },
  { opening: "(KeyFrame:", uri: "am7://keyframe/legacy", schema: "urn:am7:narrative:keyframe" },
  { opening: "(Metrics:", uri: "am7://metrics/legacy", schema: "urn:am7:biometric:face-analysis" },
];
/**
 * The first character of a form. The rest is looked at without taking it, since one form may begin
 * inside of another.
 */
const OPENING = new RegExp(
  [
    /\$(?=\{image\.)/,
    /-(?=-- BEGIN CITATIONS ---)/,
    /\((?=(?:Reminder|KeyFrame|Metrics):)/,
    /<(?=[tT][hH](?:[iI][nN][kK]|[oO][uU][gG][hH][tT])>)/,
  ]
    .map((pattern) => pattern.source)
    .join("|"),
  "g",
);
const MEDIA = "am7://media/";
const PENDING = "pending";

export class LegacyTokenAdapter {
  /**
   * Converts the older forms into blocks. Use it for text that the system itself has stored; for text of users, use
   * `neutralize`.
   */
  static upgrade(content) {
    checkText(content, "the text");
    const reader = new FormReader(content);
    const { blocks } = parse(content);
    const upgraded = new Splicer();
    let written = 0;
    let next = 0;
    for (const at of openingPositions(content)) {
      // Forms inside of a block, or of the form before, are content.
      while (next < blocks.length && blocks[next].end <= at) next += 1;
      if (at < written || (next < blocks.length && blocks[next].start <= at)) continue;
      const form = reader.read(at);
      // A form may contain blocks, but not end inside of one.
      if (form === undefined || isInsideBlock(form.end, blocks, next)) continue;
      pushWithBlocks(content.slice(written, at), upgraded);
      upgraded.pushBlock(form.text);
      written = form.end;
    }
    if (written === 0) return content;
    pushWithBlocks(content.slice(written), upgraded);
    return upgraded.toString();
  }

  /**
   * Converts `mcp:resource` elements of `am7://media/…` back into `${image.…}`, for people who edit
   * the text. A resource that such a token cannot express stays unchanged.
   */
  static downgrade(content) {
    checkText(content, "the text");
    let downgraded = "";
    let written = 0;
    for (const block of parse(content).blocks) {
      const token = tokenOf(block);
      if (token === undefined) continue;
      downgraded += content.slice(written, block.start) + token;
      written = block.end;
    }
    return downgraded + content.slice(written);
  }
}

/** Returns the positions where a form may begin, in order. */
export function openingPositions(text) {
  return Array.from(text.matchAll(OPENING), (match) => match.index);
}

function isInsideBlock(at, blocks, next) {
  for (let index = next; index < blocks.length && blocks[index].start < at; index += 1) {
    if (blocks[index].end > at) return true;
  }
  return false;
}

/** Copies text with its blocks. The new blocks must not close a tag that was never closed. */
function pushWithBlocks(text, out) {
  let from = 0;
  for (const block of parse(text).blocks) {
    out.pushBetween(text.slice(from, block.start));
    out.pushBlock(block.raw);
    from = block.end;
  }
  out.pushBetween(text.slice(from));
}

/** Reads forms. Each closing mark that does not occur in the rest of the text is searched for once. */
class FormReader {
  #text;
  #unclosed = new Set();

  constructor(text) {
    this.#text = text;
  }

  /** Reads the form at a position. Returns the text that replaces it, and its end. */
  read(at) {
    const text = this.#text;
    if (text.startsWith(IMAGE, at)) {
      const image = readImage(text, at);
      return image && { text: imageText(image), end: image.end };
    }
    if (text.startsWith(CITATIONS.opening, at)) return this.#citations(at + CITATIONS.opening.length);
    const thinking = THINKING.find(({ opening }) => hasAt(text, opening, at));
    if (thinking !== undefined) return this.#reasoning(thinking, at + thinking.opening.length);
    const state = STATES.find(({ opening }) => text.startsWith(opening, at));
    return this.#state(state, at + state.opening.length);
  }

  #citations(start) {
    const end = this.#until(CITATIONS, () => this.#text.indexOf(CITATIONS.closing, start));
    if (end === undefined) return undefined;
    const content = trim(this.#text.slice(start, end));
    const context = {
      type: "resource",
      uri: "am7://citations/legacy",
      schema: "urn:am7:vector:search-result",
      ephemeral: true,
      untrusted: true,
    };
    const results = new Map([["results", [new Map([["content", content]])]]]);
    return { text: contextText(context, results), end: end + CITATIONS.closing.length };
  }

  #reasoning(thinking, start) {
    const end = this.#until(thinking, () => search(thinking.closing, this.#text, start));
    if (end === undefined) return undefined;
    const step = trim(this.#text.slice(start, end));
    const steps = step === "" ? [] : [step];
    return {
      text: contextText(REASONING, new Map([["steps", steps]])),
      end: end + "</".length + thinking.opening.length - 1,
    };
  }

  /** Reads the object of `(Reminder: {…})` and its like. */
  #state({ uri, schema }, start) {
    const text = this.#text;
    const objectStart = skipSpaces(text, start);
    if (text[objectStart] !== "{") return undefined;
    const context = { type: "resource", uri, schema, ephemeral: true };
    const json = readJsonAt(text, objectStart);
    if (json !== undefined) {
      const end = skipSpaces(text, json.end);
      if (text[end] === ")") return { text: contextText(context, json.value), end: end + 1 };
    }
    // Models write such objects themselves: people should not see one that is not JSON, either.
    const end = this.#until(STATES, () => text.indexOf("})", objectStart));
    if (end === undefined) return undefined;
    const raw = new Map([["raw", text.slice(objectStart, end + 1)]]);
    return { text: contextText(context, raw), end: end + "})".length };
  }

  /** Returns the position of a closing mark. If there is none, the mark is not searched for again. */
  #until(form, find) {
    if (this.#unclosed.has(form)) return undefined;
    const found = find();
    if (found >= 0) return found;
    this.#unclosed.add(form);
    return undefined;
  }
}

/** Reads `${image.…}` at a position: its id, its tags and its end. */
function readImage(text, at) {
  const start = at + IMAGE.length;
  const length = text.slice(start, start + MAX_IMAGE_BYTES).indexOf("}");
  if (length <= 0) return undefined;
  const inner = text.slice(start, start + length);
  if (utf8Length(inner) >= MAX_IMAGE_BYTES) return undefined;
  const end = start + length + 1;
  const dot = inner.indexOf(".");
  if (dot < 0) return UUID.test(inner) ? { id: inner, tags: "", end } : { id: undefined, tags: inner, end };
  const first = inner.slice(0, dot);
  const rest = inner.slice(dot + 1);
  if (first === "" || rest === "") return undefined;
  return first.includes(",") ? { id: undefined, tags: `${first},${rest}`, end } : { id: first, tags: rest, end };
}

function imageText({ id, tags }) {
  return inlineText({ uri: MEDIA + (id ?? PENDING), tags, pending: id === undefined });
}

/** Returns the token that expresses the same as a resource, if there is one. */
function tokenOf(block) {
  if (!block.inline || !block.uri?.startsWith(MEDIA)) return undefined;
  const name = block.uri.slice(MEDIA.length);
  if (name === "" || /[/?]/.test(name)) return undefined;
  const tags = block.attribute("tags") ?? block.tags.join(",");
  const id = name === PENDING ? undefined : name;
  const parts = id !== undefined && tags !== "" ? [id, tags] : [id ?? tags];
  const token = `${IMAGE}${parts.join(".")}}`;
  // A token with a dot in its id or a brace in its tags would be read differently.
  const image = readImage(token, 0);
  return image?.end === token.length && image.id === id && image.tags === tags ? token : undefined;
}
