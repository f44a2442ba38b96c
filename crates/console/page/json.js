// JSON whose integers stay exact: those beyond 2^53 are BigInt.

// Numbers of 16 digits and more are marked as text before they are read, since reading would round them.
const MARK = '\ue0b1';
const LONG = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

export function parse(text) {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  // Malformed text is reported as it was written.
  const rounded = JSON.parse(text);
  if (text.length > 1 << 20) return rounded;
  const marked = text.replace(LONG, (token) => (/^-?\d{16,}$/.test(token) && !Number.isSafeInteger(Number(token)) ? `"${MARK}${token}"` : token));
  return JSON.parse(marked, (key, value) => (typeof value === 'string' && /^\ue0b1-?\d+$/.test(value) ? BigInt(value.slice(1)) : value));
}

export function stringify(value, indent = 0, level = 0) {
  if (typeof value === 'bigint') return value.toString();
  if (value === null || typeof value !== 'object') return JSON.stringify(value) ?? 'null';
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  const parts = Array.isArray(value)
    ? value.map((item) => stringify(item, indent, level + 1))
    : Object.entries(value).filter(([, item]) => item !== undefined)
      .map(([key, item]) => `${JSON.stringify(key)}:${indent ? ' ' : ''}${stringify(item, indent, level + 1)}`);
  if (!parts.length) return open + close;
  if (!indent) return open + parts.join(',') + close;
  const pad = ' '.repeat(indent * (level + 1));
  return `${open}\n${pad}${parts.join(`,\n${pad}`)}\n${' '.repeat(indent * level)}${close}`;
}

/** Says where JSON text is wrong: { message, line }. */
export function problemOf(text) {
  try {
    parse(text);
    return undefined;
  } catch (error) {
    const at = /position (\d+)/.exec(error.message);
    const found = /line (\d+)/.exec(error.message);
    const line = found ? Number(found[1]) : text.slice(0, at ? Number(at[1]) : text.length).split('\n').length;
    return { message: error.message, line };
  }
}

export const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);

export function isEqual(a, b) {
  if (a === b) return true;
  if (typeof a === 'bigint' || typeof b === 'bigint') {
    return (typeof a === 'bigint' || typeof a === 'number') && (typeof b === 'bigint' || typeof b === 'number') && a == b;
  }
  if (a === null || b === null || typeof a !== 'object' || typeof b !== 'object' || Array.isArray(a) !== Array.isArray(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && isEqual(a[key], b[key]));
}

/** What the server puts in the place of secrets. */
export const HIDDEN = '(hidden)';

/** A value without members whose values the server hides. */
export function withoutHidden(value) {
  if (Array.isArray(value)) return value.filter((it) => it !== HIDDEN).map(withoutHidden);
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([, it]) => it !== HIDDEN).map(([name, it]) => [name, withoutHidden(it)]));
}
