/** Joins text so that no tag of a block arises at a joint. */
import { escapeTags } from "./markup.js";
import { hasAt } from "./text.js";

const TAGS = ["<mcp:", "</mcp:"];
/** Most characters of a tag that can be in the text before a joint. */
const TAIL = "</mcp:".length - 1;

export class Splicer {
  #parts = [];
  /** The last characters, which are not in the parts. */
  #tail = "";

  /** Appends a block, or what replaces it. */
  pushBlock(text) {
    const joined = this.#tail + text;
    const split = Math.max(joined.length - TAIL, 0);
    this.#parts.push(joined.slice(0, split));
    this.#tail = joined.slice(split);
  }

  /** Appends text between blocks with its tags escaped, including a tag that begins at the end of the text so far. */
  pushBetween(text) {
    // A block that was removed before this text may have been in the middle of a tag.
    const at = this.#tail.lastIndexOf("<");
    const begun = this.#tail.slice(Math.max(at, 0));
    const continues =
      at >= 0 &&
      TAGS.some((tag) => hasAt(begun, tag.slice(0, begun.length), 0) && hasAt(text, tag.slice(begun.length), 0));
    if (continues) this.#tail = `${this.#tail.slice(0, at)}&#60;${begun.slice(1)}`;
    this.pushBlock(escapeTags(text));
  }

  toString() {
    return this.#parts.join("") + this.#tail;
  }
}
