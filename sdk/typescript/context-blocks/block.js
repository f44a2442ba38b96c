/** A parsed block: its attributes and its payload. */
import { removeMarks } from "./datamark.js";
import { plainJson, readJson } from "./json.js";
import { attributeValue, findClosing, findOpening, readStartTag, unescapeText } from "./markup.js";
import { lowerAscii, trim } from "./text.js";

const TRUSTS = ["server", "caller", "untrusted"];

export class McpContext {
  #attributes;
  #body;

  constructor(element, attributes, body, raw, start) {
    this.#attributes = attributes;
    this.#body = body;
    this.inline = element === "resource";
    this.type = this.inline ? "resource" : (this.attribute("type") ?? "");
    this.uri = this.attribute("uri");
    this.ephemeral = this.#is("ephemeral", "true");
    this.raw = raw;
    this.start = start;
    this.end = start + raw.length;
    if (this.inline) this.resourceType = this.attribute("type");
  }

  get id() {
    return this.attribute("id");
  }

  get trust() {
    const trust = lowerAscii(this.attribute("trust") ?? "");
    return TRUSTS.includes(trust) ? trust : undefined;
  }

  get untrusted() {
    return this.trust === "untrusted";
  }

  get pending() {
    return this.#is("resolve", "true");
  }

  get tags() {
    if (!this.inline) return undefined;
    const tags = this.attribute("tags") ?? this.#child("tags") ?? "";
    return tags
      .split(",")
      .map(trim)
      .filter((tag) => tag !== "");
  }

  get thumbnail() {
    return this.attribute("thumbnail") ?? this.#child("thumbnail");
  }

  get body() {
    return this.#body;
  }

  get data() {
    return this.inline ? undefined : plainJson(this.#json());
  }

  attribute(name) {
    return attributeValue(this.#attributes, name);
  }

  payload() {
    const json = this.#json();
    const schema = json instanceof Map ? json.get("schema") : undefined;
    if (typeof schema !== "string") return { data: plainJson(json) };
    const fields = new Map(json);
    fields.delete("schema");
    const holdsDataAlone = fields.size === 1 && fields.has("data");
    return { schema, data: plainJson(holdsDataAlone ? fields.get("data") : fields) };
  }

  /** Returns what `JSON.stringify` writes: the fields of the seed's parser. */
  toJSON() {
    const { type, uri, ephemeral, raw, start, end, inline, resourceType, tags, data } = this;
    const common = { type, uri, ephemeral, raw, start, end };
    return inline ? { ...common, inline, resourceType, tags } : { ...common, data };
  }

  #is(name, value) {
    return lowerAscii(this.attribute(name) ?? "") === value;
  }

  /** Parses the body. Text that is not JSON becomes `{raw: text}` (seed 003, `McpContextParser.js`). */
  #json() {
    const json = readJson(this.#body) ?? new Map([["raw", this.#body]]);
    const [mark] = this.attribute("datamark") ?? "";
    return mark === undefined ? json : removeMarks(json, mark);
  }

  /** Returns the text of the first child `<mcp:NAME>`. */
  #child(name) {
    const body = this.#body;
    let from = 0;
    for (let start = findOpening(body, from); start >= 0; start = findOpening(body, from)) {
      const tag = readStartTag(body, start);
      if (tag?.name === name && !tag.closed) {
        const closing = findClosing(body, tag.end, name);
        return closing && unescapeText(trim(body.slice(tag.end, closing.start)));
      }
      from = tag?.end ?? start + 1;
    }
    return undefined;
  }
}
