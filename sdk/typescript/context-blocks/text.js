/** Functions on text that follow Unicode and ASCII as the Rust crate does, not as the methods of `String` do. */

/** White space of Unicode. `String.prototype.trim` also removes U+FEFF, and keeps U+0085. */
export const SPACE = "\\t-\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const SPACE_CHARACTER = new RegExp(`[${SPACE}]`);

/** Finds the next match of a pattern with the flag `g` at or after `from`; -1 if there is none. */
export function search(pattern, text, from) {
  pattern.lastIndex = from;
  return pattern.exec(text)?.index ?? -1;
}

/** Removes white space of Unicode at both ends. */
export function trim(text) {
  return trimEnd(text.slice(countStart(text)));
}

/** Removes white space of Unicode at the end. */
export function trimEnd(text) {
  let end = text.length;
  while (end > 0 && SPACE_CHARACTER.test(text[end - 1])) end -= 1;
  return text.slice(0, end);
}

function countStart(text) {
  let start = 0;
  while (start < text.length && SPACE_CHARACTER.test(text[start])) start += 1;
  return start;
}

/** Returns the position of the next character that is no ASCII white space (of HTML: no vertical tab). */
export function skipSpaces(text, from) {
  let at = from;
  while (isAsciiSpace(text.charCodeAt(at))) at += 1;
  return at;
}

export function isAsciiSpace(code) {
  return code === 0x20 || code === 0x0a || code === 0x09 || code === 0x0d || code === 0x0c;
}

/** Converts the letters A to Z to lower case. `toLowerCase` would make a `k` of the Kelvin sign. */
export function lowerAscii(text) {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}

/** Returns whether `text` has `start` at a position, in any ASCII case. `start` is in lower case. */
export function hasAt(text, start, at) {
  return lowerAscii(text.slice(at, at + start.length)) === start;
}

/** Replaces halves of surrogate pairs by U+FFFD, as an encoder of UTF-8 does. */
export function wellFormed(text) {
  return text.replace(/[\ud800-\udfff]/gu, "\ufffd");
}

/** Number of bytes of the text in UTF-8. */
export function utf8Length(text) {
  return new TextEncoder().encode(text).length;
}

/** Throws unless a value is text. */
export function checkText(value, name) {
  if (typeof value !== "string")
    throw new TypeError(`${name} must be a string, not ${value === null ? "null" : typeof value}`);
}

/** Throws if an object has other options than these. */
export function checkOptions(options, known) {
  const unknown = Object.keys(options).find((name) => !known.includes(name));
  if (unknown !== undefined) throw new TypeError(`unknown option ${unknown}; the options are ${known.join(", ")}`);
}
