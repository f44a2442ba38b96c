/** Removes blocks from text for people, and groups them by subject. */
import { attributeText, findTag } from "./markup.js";
import { parse } from "./parse.js";
import { Splicer } from "./splice.js";
import { checkOptions, checkText, trim } from "./text.js";
import { Am7Uri, encodeSegment } from "./uri.js";

const OPTIONS = ["showEphemeral", "showReasoning", "renderResources", "mediaBase"];

export class McpContextFilter {
  constructor(options = {}) {
    checkOptions(options, OPTIONS);
    this.showEphemeral = options.showEphemeral ?? false;
    this.showReasoning = options.showReasoning ?? false;
    this.renderResources = options.renderResources ?? true;
    this.mediaBase = options.mediaBase ?? "";
  }

  /**
   * Returns the text to show, trimmed, and all blocks by subject. The text contains exactly the blocks that stay, and
   * text that comes together where a block was removed never forms a new one.
   */
  filter(content) {
    checkText(content, "the text");
    const contexts = { citations: [], reminders: [], keyframes: [], metrics: [], reasoning: [], resources: [] };
    if (findTag(content, 0) < 0) return { content: trim(content), contexts };
    const shown = new Splicer();
    let from = 0;
    for (const block of parse(content).blocks) {
      shown.pushBetween(content.slice(from, block.start));
      from = block.end;
      if (!this.#hides(block)) shown.pushBlock(this.#shown(block));
      const subject = subjectOf(block);
      if (subject !== undefined) contexts[subject].push(block);
    }
    shown.pushBetween(content.slice(from));
    return { content: trim(shown.toString()), contexts };
  }

  #hides(block) {
    return (block.ephemeral && !this.showEphemeral) || (block.type === "reasoning" && !this.showReasoning);
  }

  #shown(block) {
    return this.renderResources && block.inline && isMedia(block) ? this.#image(block) : block.raw;
  }

  /** Returns an image. It has a source only if the URI names media; a pending resource has none. */
  #image(block) {
    const source = mediaUrl(block.uri, this.mediaBase);
    const src = source === undefined ? "" : attributeText("src", source);
    const alt = attributeText("alt", block.tags.join(", "));
    const data = attributeText("data-mcp-uri", block.uri) + attributeText("data-mcp-tags", block.tags.join(","));
    return `<img${src}${alt}${data} />`;
  }
}

/** Returns `BASE/media/ORGANISATION/TYPE/ID` of a URI that names media; `undefined` for every other text. */
export function mediaUrl(text, base = "") {
  const uri = Am7Uri.tryParse(text);
  if (!uri?.isMedia) return undefined;
  const segments = [...uri.organization.split("/"), uri.objectType, uri.id];
  return `${base}/media/${segments.map(encodeSegment).join("/")}`;
}

/** Returns the list of a block. The first rule that fits decides. */
function subjectOf(block) {
  const isAbout = (part) => block.uri?.includes(part) ?? false;
  if (isAbout("/citations/") || isAbout("/vector/")) return "citations";
  if (isAbout("/reminder/")) return "reminders";
  if (isAbout("/keyframe/")) return "keyframes";
  if (isAbout("/metrics/")) return "metrics";
  if (isMedia(block)) return "resources";
  return block.type === "reasoning" ? "reasoning" : undefined;
}

function isMedia(block) {
  return block.uri?.includes("/media/") ?? false;
}
