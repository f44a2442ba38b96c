/**
 * Finds and parses the tags of blocks. An attribute value has no `<`, so an unclosed tag ends at
 * the next one, and a text full of unclosed tags still costs one pass.
 */
import { isAsciiSpace, lowerAscii, search, skipSpaces, wellFormed } from "./text.js";

// Without the flag `u`, `i` compares letters of ASCII with letters of ASCII alone.
const OPENING = /<mcp:/gi;
const TAG = /<\/?mcp:/gi;
const CLOSINGS = new Map(
  ["context", "resource", "tags", "thumbnail"].map((name) => [
    name,
    new RegExp(`</mcp:${name}[\\t\\n\\f\\r ]*>`, "gi"),
  ]),
);
const ELEMENT_NAME_END = /[\t\n\f\r />\x3c]/g;
const ATTRIBUTE_NAME_END = /[\t\n\f\r =/>\x3c"']/g;
const UNQUOTED_END = /[\t\n\f\r >\x3c"']|\/>/g;
const QUOTED_END = { '"': /["\x3c]/g, "'": /['\x3c]/g };

/** Finds the next `<mcp:` at or after `from`; -1 if there is none. */
export function findOpening(text, from) {
  return search(OPENING, text, from);
}

/** Finds the next `<mcp:` or `</mcp:` at or after `from`; -1 if there is none. */
export function findTag(text, from) {
  return search(TAG, text, from);
}

/** Finds the next `</mcp:NAME>` at or after `from`. Returns its start and its end. */
export function findClosing(text, from, name) {
  const pattern = CLOSINGS.get(name);
  const start = search(pattern, text, from);
  return start < 0 ? undefined : { start, end: pattern.lastIndex };
}

/** Returns the positions of all opening and closing tags of blocks, in order. */
export function tagPositions(text) {
  return Array.from(text.matchAll(TAG), (match) => match.index);
}

/** Escapes all opening and closing tags of blocks. */
export function escapeTags(text) {
  return text.replace(TAG, (tag) => `&#60;${tag.slice(1)}`);
}

/** Parses the start tag whose `<mcp:` is at `start`; `undefined` if it does not end before the next tag begins. */
export function readStartTag(text, start) {
  const nameStart = start + "<mcp:".length;
  const nameEnd = search(ELEMENT_NAME_END, text, nameStart);
  if (nameEnd < 0) return undefined;
  const name = lowerAscii(text.slice(nameStart, nameEnd));
  const attributes = [];
  let at = nameEnd;
  for (;;) {
    at = skipSeparators(text, at);
    if (text.startsWith("/>", at)) return { name, attributes, closed: true, end: at + 2 };
    if (text[at] === ">") return { name, attributes, closed: false, end: at + 1 };
    const attribute = readAttribute(text, at);
    if (attribute === undefined) return undefined;
    attributes.push(attribute);
    at = attribute.end;
  }
}

/** Returns the value of the first attribute of this name (in any ASCII case), with entities replaced. */
export function attributeValue(attributes, name) {
  const found = attributes.find((attribute) => lowerAscii(attribute.name) === lowerAscii(name));
  return found === undefined ? undefined : unescapeText(found.value);
}

/** Skips white space and stray slashes, which separate attributes as in HTML. */
function skipSeparators(text, from) {
  let at = from;
  while (isAsciiSpace(text.charCodeAt(at)) || (text[at] === "/" && text[at + 1] !== ">")) at += 1;
  return at;
}

function readAttribute(text, at) {
  const found = search(ATTRIBUTE_NAME_END, text, at);
  const nameEnd = found < 0 ? text.length : found;
  if (nameEnd === at) return undefined;
  const name = text.slice(at, nameEnd);
  const equals = skipSpaces(text, nameEnd);
  if (text[equals] !== "=") return { name, value: "", end: nameEnd };
  const valueStart = skipSpaces(text, equals + 1);
  const quote = text[valueStart];
  if (quote !== '"' && quote !== "'") {
    const end = unquotedEnd(text, valueStart);
    return end === undefined ? undefined : { name, value: text.slice(valueStart, end), end };
  }
  const valueEnd = search(QUOTED_END[quote], text, valueStart + 1);
  if (valueEnd < 0 || text[valueEnd] !== quote) return undefined;
  return { name, value: text.slice(valueStart + 1, valueEnd), end: valueEnd + 1 };
}

/** Returns the end of a value without quotes; `undefined` if it is empty or contains a character that needs quotes. */
function unquotedEnd(text, start) {
  const found = search(UNQUOTED_END, text, start);
  const end = found < 0 ? text.length : found;
  return end === start || "<\"'".includes(text[end] ?? " ") ? undefined : end;
}

const ENTITIES = { lt: "<", gt: ">", amp: "&", quot: '"', apos: "'" };
const ENTITY = /&(?:(lt|gt|amp|quot|apos)|#(?:([0-9]{1,7})|[xX]([0-9a-fA-F]{1,6})));/g;

/** Replaces numeric entities and those of XML. Other text stays. */
export function unescapeText(text) {
  return text.replace(ENTITY, (whole, name, decimal, hexadecimal) => {
    if (name !== undefined) return ENTITIES[name];
    const code = decimal === undefined ? Number.parseInt(hexadecimal, 16) : Number(decimal);
    const isCharacter = code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
    return isCharacter ? String.fromCodePoint(code) : whole;
  });
}

const ESCAPES = new Map([
  ["<", "&lt;"],
  [">", "&gt;"],
  ["&", "&amp;"],
  ['"', "&quot;"],
  ["'", "&#39;"],
  // A parser would read a line break as one, but it breaks the line that people read.
  ["\n", "&#10;"],
  ["\r", "&#13;"],
  ["\u2028", "&#x2028;"],
  ["\u2029", "&#x2029;"],
]);

/** Returns ` name="value"`, with escapes for an attribute or for HTML. */
export function attributeText(name, value) {
  const escaped = wellFormed(value).replace(/[<>&"'\n\r\u2028\u2029]/g, (character) => ESCAPES.get(character));
  return ` ${name}="${escaped}"`;
}
