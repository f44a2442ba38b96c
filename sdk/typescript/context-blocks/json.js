/**
 * Reads and writes JSON without loss. `JSON.parse` rounds large integers, moves keys such as "1"
 * to the front, and accepts halves of surrogate pairs and numbers without a value, which the Rust
 * crate refuses.
 *
 * A value is `null`, a boolean, a string, a {@link JsonNumber}, an array, or a `Map` for an
 * object.
 */
import { search, wellFormed } from "./text.js";

/** Levels of arrays and objects that are read, as serde_json does. */
const MAX_DEPTH = 127;
const STRING_MARK = /["\\\u0000-\u001f]/g;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;

/** A number as it is written. */
class JsonNumber {
  constructor(text) {
    this.text = text;
  }
}

/** Reads a text that is one JSON value; `undefined` if it is not. */
export function readJson(text) {
  const found = readJsonAt(text, 0);
  if (found === undefined) return undefined;
  return skipJsonSpaces(text, found.end) === text.length ? found.value : undefined;
}

/** Reads the JSON value at a position of a text. Returns the value and its end; `undefined` if there is none. */
export function readJsonAt(text, at) {
  const reader = new Reader(text, at);
  try {
    const value = reader.value(0);
    return { value, end: reader.at };
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Converts a value to what `JSON.parse` would return. */
export function plainJson(value) {
  if (value instanceof JsonNumber) return Number(value.text);
  if (Array.isArray(value)) return value.map(plainJson);
  // `fromEntries` makes a field of "__proto__", an assignment would not.
  if (value instanceof Map) return Object.fromEntries(Array.from(value, ([name, item]) => [name, plainJson(item)]));
  return value;
}

/** Returns a value with all its strings changed; the names of fields stay. */
export function mapStrings(value, change) {
  if (typeof value === "string") return change(value);
  if (Array.isArray(value)) return value.map((item) => mapStrings(item, change));
  if (value instanceof Map) return new Map(Array.from(value, ([name, item]) => [name, mapStrings(item, change)]));
  return value;
}

/** Converts a value of JavaScript, as `JSON.stringify` would write it. */
export function fromPlain(plain) {
  const text = JSON.stringify(plain);
  if (text === undefined) throw new TypeError("the data cannot be written as JSON");
  return fromParsed(JSON.parse(text));
}

function fromParsed(parsed) {
  if (typeof parsed === "string") return wellFormed(parsed);
  if (typeof parsed === "number") return new JsonNumber(Object.is(parsed, -0) ? "-0.0" : String(parsed));
  if (parsed === null || typeof parsed === "boolean") return parsed;
  if (Array.isArray(parsed)) return parsed.map(fromParsed);
  return new Map(Object.entries(parsed).map(([name, item]) => [wellFormed(name), fromParsed(item)]));
}

/** Writes a value as compact JSON without the characters of markup. */
export function writeJson(value) {
  return write(value).replace(
    /[<>&\u2028\u2029]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

function write(value) {
  if (value instanceof JsonNumber) return value.text;
  if (Array.isArray(value)) return `[${value.map(write).join(",")}]`;
  if (!(value instanceof Map)) return JSON.stringify(value);
  return `{${Array.from(value, ([name, item]) => `${JSON.stringify(name)}:${write(item)}`).join(",")}}`;
}

class Reader {
  constructor(text, at) {
    this.text = text;
    this.at = at;
  }

  value(depth) {
    this.#skipSpaces();
    switch (this.text[this.at]) {
      case "{":
        return this.#object(depth + 1);
      case "[":
        return this.#array(depth + 1);
      case '"':
        return this.#string();
      case "t":
        return this.#word("true", true);
      case "f":
        return this.#word("false", false);
      case "n":
        return this.#word("null", null);
      default:
        return this.#number();
    }
  }

  #object(depth) {
    const fields = new Map();
    this.#items(depth, "}", () => {
      this.#skipSpaces();
      if (this.text[this.at] !== '"') throw new SyntaxError("a name must be a string");
      const name = this.#string();
      this.#skipSpaces();
      this.#word(":");
      fields.set(name, this.value(depth));
    });
    return fields;
  }

  #array(depth) {
    const items = [];
    this.#items(depth, "]", () => items.push(this.value(depth)));
    return items;
  }

  /** Reads items, separated by commas, until the closing character. */
  #items(depth, closing, readItem) {
    if (depth > MAX_DEPTH) throw new SyntaxError("too many levels");
    this.at += 1;
    this.#skipSpaces();
    if (this.text[this.at] !== closing) {
      for (;;) {
        readItem();
        this.#skipSpaces();
        if (this.text[this.at] === closing) break;
        this.#word(",");
      }
    }
    this.at += 1;
  }

  #string() {
    const start = this.at;
    let end = start + 1;
    for (;;) {
      end = search(STRING_MARK, this.text, end);
      if (end < 0 || this.text.charCodeAt(end) < 0x20) throw new SyntaxError("a string does not end");
      if (this.text[end] === '"') break;
      end += 2;
    }
    this.at = end + 1;
    const decoded = JSON.parse(this.text.slice(start, this.at));
    if (decoded !== wellFormed(decoded)) throw new SyntaxError("a string contains half of a surrogate pair");
    return decoded;
  }

  #number() {
    NUMBER.lastIndex = this.at;
    const text = NUMBER.exec(this.text)?.[0];
    if (text === undefined || !Number.isFinite(Number(text))) throw new SyntaxError("not a number");
    this.at += text.length;
    return new JsonNumber(isExactInteger(text) ? text : floatText(Number(text)));
  }

  #word(word, value) {
    if (!this.text.startsWith(word, this.at)) throw new SyntaxError(`${word} is missing`);
    this.at += word.length;
    return value;
  }

  #skipSpaces() {
    this.at = skipJsonSpaces(this.text, this.at);
  }
}

function skipJsonSpaces(text, from) {
  let at = from;
  while (" \n\r\t".includes(text[at] ?? "x")) at += 1;
  return at;
}

/** Returns whether the crate keeps a number as an integer of 64 bits. */
function isExactInteger(text) {
  if (/[.eE]/.test(text) || text === "-0") return false;
  // No integer of 64 bits has more than 19 digits and a sign, or 20 digits.
  if (text.length > 20) return false;
  const integer = BigInt(text);
  return integer >= -(2n ** 63n) && integer < 2n ** 64n;
}

/** Writes a number with a fraction or an exponent, as the crate does. */
function floatText(number) {
  if (Object.is(number, -0)) return "-0.0";
  const size = Math.abs(number);
  if (size !== 0 && (size < 1e-5 || size >= 1e16)) return number.toExponential();
  return Number.isInteger(number) ? `${number}.0` : String(number);
}
