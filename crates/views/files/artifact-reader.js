// Reads an artifact in pieces through the tool read_artifact.
import { contentOf, textOf } from "./page.js";

/** Key in `_meta` of an answer of read_artifact: which part it is. */
const REPORT = "marquetry/read";
/** Size of the first piece, which is seen soon, and of the others, in bytes. The server may give less. */
const FIRST_PIECE = 64 << 10;
const PIECE = 256 << 10;
/** Most bytes of one artifact that the page holds. */
export const MAX_BYTES_HELD = 32 << 20;

/**
 * The kind of an artifact by its MIME type: "table", "json", "json-lines", "picture", "sound",
 * "film", "text" or "bytes".
 */
export function kindOf(mimeType) {
  const type = String(mimeType ?? "")
    .split(";")[0]
    .trim()
    .toLowerCase();
  if (["text/csv", "text/tab-separated-values", "application/csv"].includes(type)) return "table";
  if (["application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"].includes(type))
    return "json-lines";
  if (type === "application/json" || type === "text/json" || type.endsWith("+json")) return "json";
  if (type.startsWith("image/")) return "picture";
  if (type.startsWith("audio/")) return "sound";
  if (type.startsWith("video/")) return "film";
  if (type.startsWith("text/") || type.endsWith("+xml") || type.endsWith("+yaml")) return "text";
  if (
    [
      "application/xml",
      "application/yaml",
      "application/x-yaml",
      "application/toml",
      "application/javascript",
      "application/x-sh",
      "application/sql",
    ].includes(type)
  )
    return "text";
  return "bytes";
}

/** Decodes base64. Throws an error if the text is not base64. */
export function bytesOf(base64) {
  const binary = atob(base64.replace(/\s/g, ""));
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}

/** One answer of read_artifact: `{text | bytes, start, end, size, next, version}`. */
export function pieceOf(result, start) {
  const report = result._meta?.[REPORT] ?? {};
  const [block] = contentOf(result);
  const piece = { start, version: report.version, size: report.size_bytes };
  if (block?.type === "text" && report.end_byte === 0 && report.size_bytes > 0)
    return { ...piece, end: start, note: block.text };
  if (block?.type === "text") piece.text = String(block.text);
  else if (block?.type === "image" || block?.type === "audio") piece.bytes = bytesOf(block.data);
  else if (block?.type === "resource" && typeof block.resource?.blob === "string")
    piece.bytes = bytesOf(block.resource.blob);
  else if (block?.type === "resource" && typeof block.resource?.text === "string") piece.text = block.resource.text;
  else throw new Error("read_artifact gave an answer that this page does not understand");
  piece.start = Number.isInteger(report.start_byte) ? report.start_byte : start;
  const length = piece.bytes ? piece.bytes.length : new TextEncoder().encode(piece.text).length;
  piece.end = Number.isInteger(report.end_byte) ? report.end_byte : piece.start + length;
  return piece;
}

/** The pieces of one version of an artifact, in order. */
export class ArtifactReader {
  #view;
  #tool;
  #artifact;
  #decoder = new TextDecoder("utf-8");
  /** How many bytes were read. */
  at = 0;
  /** Whether some bytes were not text. */
  isBinary = false;

  constructor(view, tool, artifact) {
    this.#view = view;
    this.#tool = tool;
    this.#artifact = artifact;
  }

  get isDone() {
    return this.at >= this.#artifact.size;
  }

  /** Whether the page holds as much as it may. */
  get isFull() {
    return this.at >= MAX_BYTES_HELD;
  }

  /** The next piece: text, or bytes. */
  async next(signal) {
    const { name, version } = this.#artifact;
    const args = { name, start_byte: this.at, max_bytes: this.at === 0 ? FIRST_PIECE : PIECE };
    if (version !== undefined) args.version = version;
    const result = await this.#view.callTool(this.#tool, args, { signal });
    if (result.isError) throw new Error(textOf(result) || "read_artifact failed without giving a reason");
    const piece = pieceOf(result, this.at);
    if (piece.end <= this.at && this.#artifact.size > 0) throw new Error("read_artifact gave no bytes");
    this.at = piece.end;
    if (piece.bytes) this.isBinary = true;
    return piece;
  }

  /** The next piece as text; bytes that are not UTF-8 become U+FFFD. */
  async nextText(signal) {
    const piece = await this.next(signal);
    return piece.text ?? this.#decoder.decode(piece.bytes, { stream: !this.isDone });
  }

  /** The remaining bytes, in one array. `onPiece` is called after each piece. */
  async restOfBytes(signal, onPiece = () => {}) {
    const parts = [];
    while (!this.isDone) {
      if (this.isFull) throw new Error("the artifact is too large for this page");
      const piece = await this.next(signal);
      parts.push(piece.bytes ?? new TextEncoder().encode(piece.text));
      onPiece();
    }
    return new Blob(parts);
  }
}

/** Bytes as a `data:` URL, which a page without an origin may show. A type that is not one of media becomes bytes. */
export function dataUrl(blob, mimeType) {
  const type = String(mimeType).split(";")[0].trim().toLowerCase();
  const safe = /^(?:image|audio|video)\/[a-z0-9.+-]{1,60}$/.test(type) ? type : "application/octet-stream";
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(new Blob([blob], { type: safe }));
  });
}

/** The first bytes as people read them: place, hexadecimal, characters. */
export function hexOf(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const row = bytes.subarray(at, at + 16);
    const hex = Array.from(row, (byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const text = Array.from(row, (byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${hex.padEnd(47)}  ${text}`);
  }
  return lines.join("\n");
}
