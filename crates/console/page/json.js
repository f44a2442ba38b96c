// JSON whose integers stay exact: those beyond 2^53 are BigInt.

// Numbers of 16 digits and more are marked as text before they are read, since reading would round them.
const MARK = "\ue0b1";
const LONG = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

export function parse(text) {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  // Malformed text is reported as it was written.
  const rounded = JSON.parse(text);
  if (text.length > 1 << 20) return rounded;
  const marked = text.replace(LONG, (token) =>
    /^-?\d{16,}$/.test(token) && !Number.isSafeInteger(Number(token)) ? `"${MARK}${token}"` : token,
  );
  return JSON.parse(marked, (_key, value) =>
    typeof value === "string" && /^\ue0b1-?\d+$/.test(value) ? BigInt(value.slice(1)) : value,
  );
}

/** Writes JSON. Members and items that are undefined are left out; malformed parts stay as they were typed. */
export function stringify(value, indent = 0, level = 0) {
  if (value instanceof Malformed) return value.text;
  if (typeof value === "bigint") return value.toString();
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  const parts = Array.isArray(value)
    ? value.filter((item) => item !== undefined).map((item) => stringify(item, indent, level + 1))
    : Object.entries(value)
        .filter(([, item]) => item !== undefined)
        .map(([key, item]) => `${JSON.stringify(key)}:${indent ? " " : ""}${stringify(item, indent, level + 1)}`);
  if (!parts.length) return open + close;
  if (!indent) return open + parts.join(",") + close;
  const pad = " ".repeat(indent * (level + 1));
  return `${open}\n${pad}${parts.join(`,\n${pad}`)}\n${" ".repeat(indent * level)}${close}`;
}

const TOKEN =
  /[ \t\n\r]*([{}[\],:]|"(?:[^"\\\0-\x1f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*"|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)?/y;

/** Returns the position at which text is not JSON any more. Not all messages of browsers name it. */
function endOfJson(text) {
  const open = [];
  let wanted = "value";
  for (TOKEN.lastIndex = 0; ; ) {
    const [, token = ""] = TOKEN.exec(text);
    const inside = open.at(-1);
    if (
      (token === "}" && inside === "{" && /end|first/.test(wanted)) ||
      (token === "]" && inside === "[" && /end|first/.test(wanted))
    ) {
      open.pop();
      wanted = "end";
    } else if (/value/.test(wanted) && /^[^}\],:]/.test(token)) {
      wanted = { "{": "first key", "[": "first value" }[token] ?? "end";
      if (wanted !== "end") open.push(token);
    } else if (/key/.test(wanted) && token[0] === '"') wanted = ":";
    else if (wanted === ":" && token === ":") wanted = "value";
    else if (wanted === "end" && token === "," && inside) wanted = inside === "{" ? "key" : "value";
    else return TOKEN.lastIndex - token.length;
  }
}

/** Says where JSON text is wrong: { message, line, column }; undefined if it is JSON. */
export function problemOf(text) {
  try {
    parse(text);
    return undefined;
  } catch (error) {
    const lines = text.slice(0, endOfJson(text)).split("\n");
    return {
      message: error.message.replace(/ in JSON at position.*|, (\.{3})?".*is not valid JSON$/s, ""),
      line: lines.length,
      column: lines.at(-1).length + 1,
    };
  }
}

/** Says in one line where JSON text is wrong; empty if it is JSON. */
export function problemText(text) {
  const found = problemOf(text);
  return found ? `line ${found.line}, column ${found.column}: ${found.message}` : "";
}

/**
 * Text that was typed as JSON and is malformed, or that cannot be sent for another `problem`. It
 * stays in a value until it is corrected, so that it is neither lost nor sent as a text.
 */
export class Malformed {
  constructor(text, problem = `malformed JSON, ${problemText(text)}`) {
    this.text = text;
    this.problem = problem;
  }
}

/** Returns the name of a member or an item. */
export const nameOf = (key) => (key === "" ? "(empty name)" : String(key));

/** Says what is wrong, and where. */
export const problemLine = (path, message) => (path.length ? `${path.map(nameOf).join(".")}: ${message}` : message);

/** Returns the malformed parts of a value as problems: [{ path, message, isMalformed }]. */
export function malformedIn(value, path = []) {
  if (value instanceof Malformed) return [{ path, message: value.problem, isMalformed: true }];
  if (value === null || typeof value !== "object") return [];
  return Object.entries(value).flatMap(([key, item]) =>
    malformedIn(item, [...path, Array.isArray(value) ? Number(key) : key]),
  );
}

export const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

export function isEqual(a, b) {
  if (a === b) return true;
  if (typeof a === "bigint" || typeof b === "bigint") {
    return (
      // biome-ignore lint/suspicious/noDoubleEquals: only == compares a BigInt with a number
      (typeof a === "bigint" || typeof a === "number") && (typeof b === "bigint" || typeof b === "number") && a == b
    );
  }
  if (
    a === null ||
    b === null ||
    typeof a !== "object" ||
    typeof b !== "object" ||
    Array.isArray(a) !== Array.isArray(b)
  )
    return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && isEqual(a[key], b[key]));
}

/** The text by which the server replaces secrets. */
export const HIDDEN = "(hidden)";

/** Texts may have a secret inside: `curl -u me:(hidden)`. */
const isHidden = (value) => typeof value === "string" && value.includes(HIDDEN);

/** A value without members whose values the server hides. */
export function withoutHidden(value) {
  if (Array.isArray(value)) return value.filter((it) => !isHidden(it)).map(withoutHidden);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, it]) => !isHidden(it))
      .map(([name, it]) => [name, withoutHidden(it)]),
  );
}
