/** Writes blocks. Nothing in their content can open or close a block. */
import { addMarks, chooseMark } from "./datamark.js";
import { fromPlain, writeJson } from "./json.js";
import { attributeText } from "./markup.js";
import { checkOptions, checkText, wellFormed } from "./text.js";

const CONTEXT_OPTIONS = ["type", "schema", "uri", "id", "ephemeral", "untrusted", "datamarked"];
const INLINE_OPTIONS = ["uri", "type", "tags", "pending"];

export class McpContextBuilder {
  #out = "";

  /** Adds a context block around data. */
  add(context, data) {
    this.#out += `${contextText(context, fromPlain(data))}\n`;
    return this;
  }

  /** Adds a block of type `resource` about a URI. */
  addResource(uri, schema, data, options = {}) {
    checkOptions(options, ["id", "ephemeral", "untrusted", "datamarked"]);
    return this.add({ ...options, type: "resource", uri, schema }, data);
  }

  /** Adds an ephemeral block with the steps of a model's reasoning. */
  addReasoning(steps) {
    return this.add(REASONING, { steps: Array.from(steps, String) });
  }

  /** Adds a resource that is shown inline. Unlike a context block it does not end with a line break. */
  addInline(resource) {
    this.#out += inlineText(resource);
    return this;
  }

  /** Returns the text of all blocks in the order in which they were added. */
  build() {
    return this.#out;
  }
}

export const REASONING = Object.freeze({ type: "reasoning", schema: "urn:am7:llm:reasoning", ephemeral: true });

/** Returns a context block without the line break at its end. `json` is a value of `json.js`. */
export function contextText(context, json) {
  checkOptions(context, CONTEXT_OPTIONS);
  checkText(context.type, "type");
  checkText(context.schema, "schema");
  // The mark is an attribute, so it must be chosen before the body is written.
  const mark = context.datamarked ? chooseMark(json) : undefined;
  const data = mark === undefined ? json : addMarks(json, mark);
  const attributes = [
    ["type", context.type],
    ["uri", context.uri],
    ["id", context.id],
    ["ephemeral", context.ephemeral ? "true" : undefined],
    ["trust", context.untrusted ? "untrusted" : undefined],
    ["datamark", mark],
  ];
  const body = writeJson(new Map(Object.entries({ schema: wellFormed(context.schema), data })));
  return `<mcp:context${attributesText(attributes)}>\n${body}\n</mcp:context>`;
}

/** Returns an `mcp:resource`. */
export function inlineText(resource) {
  checkOptions(resource, INLINE_OPTIONS);
  checkText(resource.uri, "uri");
  const tags = Array.isArray(resource.tags) ? resource.tags.join(",") : (resource.tags ?? "");
  const attributes = [
    ["uri", resource.uri],
    ["type", resource.type],
    ["tags", tags],
    ["resolve", resource.pending ? "true" : undefined],
  ];
  return `<mcp:resource${attributesText(attributes)} />`;
}

function attributesText(attributes) {
  return attributes
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => {
      checkText(value, name);
      return attributeText(name, value);
    })
    .join("");
}
