/** Finds blocks in one scan from left to right. The content of a block is opaque. */
import { McpContext } from "./block.js";
import { findClosing, findOpening, readStartTag } from "./markup.js";
import { checkText, hasAt, trim } from "./text.js";

/** Number of problems that {@link parse} reports; further ones are dropped. */
export const MAX_PROBLEMS = 100;

const ELEMENTS = ["context", "resource"];

/** Parses a text: its blocks, and the tags that are no complete blocks and stay text. */
export function parse(text) {
  checkText(text, "the text");
  const blocks = [];
  const problems = [];
  const report = (kind, element, at) => {
    if (problems.length < MAX_PROBLEMS) problems.push({ kind, element, at });
  };
  // Elements without an end tag in the rest of the text. Each is searched for once, so that many unclosed blocks still
  // cost one pass.
  const unclosed = new Set();
  let at = 0;
  for (let start = findOpening(text, 0); start >= 0; start = findOpening(text, at)) {
    at = start + 1;
    const tag = readStartTag(text, start);
    if (tag === undefined) {
      const element = ELEMENTS.find((name) => hasAt(text, name, start + "<mcp:".length));
      if (element !== undefined) report("malformed-tag", element, start);
      continue;
    }
    const element = tag.name;
    if (!ELEMENTS.includes(element)) continue;
    at = tag.end;
    let closing = { start: tag.end, end: tag.end };
    if (!tag.closed) {
      closing = unclosed.has(element) ? undefined : findClosing(text, tag.end, element);
      if (closing === undefined) {
        unclosed.add(element);
        report("unclosed", element, start);
        continue;
      }
    }
    at = closing.end;
    const body = trim(text.slice(tag.end, closing.start));
    blocks.push(new McpContext(element, tag.attributes, body, text.slice(start, at), start));
  }
  return { blocks, problems };
}

/** Parser of blocks, in the form of the other classes. */
export class McpContextParser {
  /** Returns the blocks of a text in order, without overlap. */
  static parse(content) {
    return parse(content).blocks;
  }
}
