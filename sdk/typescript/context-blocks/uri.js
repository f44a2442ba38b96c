/**
 * Parses `am7://` URIs of objects, media and searches. Parsing is strict, since URIs become links
 * and names of files: each segment may contain only an allow-list of characters after percent-
 * decoding.
 */
import { utf8Length } from "./text.js";

const SCHEME = "am7://";
const MAX_BYTES = 2048;
const SEGMENT = /^[\p{Alphabetic}\p{N}\-._~@:+=, ]+$/u;
const QUERY_REFUSED = /[\p{Cc}\p{White_Space}"'`;\\<>#]/u;
const DECODED_QUERY_REFUSED = /(?![\t\n\r])\p{Cc}/u;

export class Am7Uri {
  #query;

  constructor(organization, objectType, id, isMedia, query) {
    this.organization = organization;
    this.objectType = objectType;
    this.id = id;
    this.isMedia = isMedia;
    this.isVectorSearch = id === undefined;
    this.#query = query;
  }

  /** Parses a URI. Throws a `SyntaxError` if the text is not a valid one. */
  static parse(text) {
    if (utf8Length(text) > MAX_BYTES) throw new SyntaxError(`the URI has more than ${MAX_BYTES} bytes`);
    if (!text.startsWith(SCHEME)) throw new SyntaxError(`the URI does not begin with ${SCHEME}`);
    const queryStart = text.indexOf("?");
    const path = text.slice(SCHEME.length, queryStart < 0 ? text.length : queryStart);
    const query = queryStart < 0 ? undefined : text.slice(queryStart + 1);
    if (query !== undefined) checkQuery(query);
    const segments = path.split("/").map(decodeSegment);
    if (segments.length < 3) throw new SyntaxError("the URI needs an organisation, a type and an id");
    const uri = Am7Uri.#of(segments, query);
    // Writing percent-encodes some characters, at three times their length.
    if (utf8Length(uri.toString()) > MAX_BYTES) throw new SyntaxError(`the URI has more than ${MAX_BYTES} bytes`);
    if (!uri.isVectorSearch && uri.organization.includes("/") && !uri.objectType.includes(".")) {
      throw new SyntaxError(
        "the organisation has several segments, but no segment has a dot that marks it as the type",
      );
    }
    return uri;
  }

  /** Parses a URI; `undefined` if the text is not a valid one. */
  static tryParse(text) {
    if (typeof text !== "string") return undefined;
    try {
      return Am7Uri.parse(text);
    } catch (error) {
      if (error instanceof SyntaxError) return undefined;
      throw error;
    }
  }

  static #of(segments, query) {
    const [kind, id] = segments.slice(-2);
    const before = segments.slice(0, -2);
    if (kind === "vector" && id === "search") return new Am7Uri(before.join("/"), undefined, undefined, false, query);
    const isMedia = before.length > 1 && before.at(-1) === "media";
    const organization = isMedia ? before.slice(0, -1) : before;
    return new Am7Uri(organization.join("/"), kind, id, isMedia, query);
  }

  /** Returns a query parameter as it was written: `hello+world`. */
  rawQueryParam(name) {
    const pairs = (this.#query ?? "").split("&").map((pair) => {
      const equals = pair.indexOf("=");
      return equals < 0 ? [pair, ""] : [pair.slice(0, equals), pair.slice(equals + 1)];
    });
    return pairs.find(([found]) => decodeQuery(found) === name)?.[1];
  }

  /** Returns a query parameter decoded: `hello world`. */
  queryParam(name) {
    const raw = this.rawQueryParam(name);
    return raw === undefined ? undefined : decodeQuery(raw);
  }

  toString() {
    const segments = this.organization.split("/");
    if (this.isMedia) segments.push("media");
    segments.push(...(this.isVectorSearch ? ["vector", "search"] : [this.objectType, this.id]));
    const query = this.#query === undefined ? "" : `?${this.#query}`;
    return `${SCHEME}${segments.map(encodeSegment).join("/")}${query}`;
  }
}

/** Writes a segment of a path with percent-encoding. */
export function encodeSegment(segment) {
  const encoded = encodeURIComponent(segment).replace(/[!'()*]/g, percentEncoded);
  return encoded.replace(/%(?:40|3A|2B|3D|2C)/g, decodeURIComponent);
}

function percentEncoded(character) {
  return `%${character.charCodeAt(0).toString(16).toUpperCase()}`;
}

function decodeSegment(raw) {
  if (raw.includes(" ")) throw new SyntaxError("a segment of the URI contains a space");
  const decoded = percentDecoded(raw);
  if (decoded === "." || decoded === "..") throw new SyntaxError("a segment of the URI is `.` or `..`");
  if (!SEGMENT.test(decoded))
    throw new SyntaxError("a segment of the URI is empty or contains a character that is not allowed");
  return decoded;
}

function checkQuery(query) {
  const isRefused = QUERY_REFUSED.test(query) || DECODED_QUERY_REFUSED.test(percentDecoded(query));
  if (isRefused) throw new SyntaxError("the query of the URI contains a character that is not allowed");
}

function decodeQuery(raw) {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(percentBytes(raw.replaceAll("+", " ")));
}

/** Decodes `%XX`; other percent signs stay. Throws a `SyntaxError` if the bytes are not UTF-8. */
function percentDecoded(text) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(percentBytes(text));
  } catch {
    throw new SyntaxError("the percent-encoded bytes of the URI are not UTF-8");
  }
}

function percentBytes(text) {
  const bytes = [];
  for (const part of text.split(/(%[0-9a-fA-F]{2})/)) {
    if (/^%[0-9a-fA-F]{2}$/.test(part)) bytes.push(Number.parseInt(part.slice(1), 16));
    else bytes.push(...new TextEncoder().encode(part));
  }
  return new Uint8Array(bytes);
}
