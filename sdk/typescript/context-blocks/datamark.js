/**
 * Datamarking: marks the white space of retrieved text, so that a model can tell the text from
 * instructions (Hines et al. 2024, "spotlighting", arXiv:2403.14720).
 */
import { mapStrings } from "./json.js";
import { SPACE } from "./text.js";

/** White space, and characters that separate words invisibly. */
const SPACES = new RegExp(`[${SPACE}\\u115f\\u1160\\u180e\\u200b\\u2060\\u2800\\u3164\\ufeff\\uffa0]`, "g");
/** The private use area: these characters have no meaning in other text. */
const [FIRST_MARK, LAST_MARK] = [0xe000, 0xf8ff];

/** Chooses a private character that no string of the value contains; none when the strings contain all 6,400. */
export function chooseMark(value) {
  const used = new Set();
  mapStrings(value, (text) => {
    for (const [character] of text.matchAll(/[\ue000-\uf8ff]/g)) used.add(character);
    return text;
  });
  for (let code = FIRST_MARK; code <= LAST_MARK; code += 1) {
    const mark = String.fromCharCode(code);
    if (!used.has(mark)) return mark;
  }
  return undefined;
}

/** Marks white space: the mark replaces a space, and precedes other white space, which tells which it was. */
export function addMarks(value, mark) {
  return mapStrings(value, (text) => text.replace(SPACES, (space) => (space === " " ? mark : mark + space)));
}

/** Removes the marks. */
export function removeMarks(value, mark) {
  return mapStrings(value, (text) => {
    const parts = text.split(mark);
    const replaced = parts.map((part, index) => {
      if (index === 0) return part;
      // Two marks may follow each other, and text from outside may name white space as its mark.
      const next = part === "" && index < parts.length - 1 ? mark : part;
      return isMarkedSpace(next) ? part : ` ${part}`;
    });
    return replaced.join("");
  });
}

function isMarkedSpace(text) {
  return text !== "" && text[0] !== " " && text[0].search(SPACES) === 0;
}
