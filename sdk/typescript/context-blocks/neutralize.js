/** Makes text from outside harmless. */
import { openingPositions } from "./legacy.js";
import { tagPositions } from "./markup.js";
import { checkText } from "./text.js";

/**
 * Escapes the tags of blocks, and the older forms that `LegacyTokenAdapter.upgrade` would convert:
 * their first character becomes a numeric entity. Apply it to a whole message: a part that ends in
 * the middle of a tag could be completed by the next part.
 */
export function neutralize(text) {
  checkText(text, "the text");
  const positions = new Set([...tagPositions(text), ...openingPositions(text)]);
  let from = 0;
  let plain = "";
  for (const at of Array.from(positions).sort((a, b) => a - b)) {
    plain += `${text.slice(from, at)}&#${text.charCodeAt(at)};`;
    from = at + 1;
  }
  return plain + text.slice(from);
}
