// A list as a text, which can be searched, selected and copied as a whole.

import { button, copy, dialog, h } from "./dom.js";

// A text has an end.
const MOST_LINES = 10_000;

/** Shows the rows of a list as a text, which can be searched, selected and copied as a whole. */
export function openAsText(label, items, row) {
  const lines = items.slice(0, MOST_LINES).map((item) =>
    [...row(item).childNodes]
      .map((it) => it.textContent)
      .filter(Boolean)
      .join("  "),
  );
  const chunks = [];
  for (let at = 0; at < lines.length; at += 200)
    chunks.push(h("span.chunk", `${lines.slice(at, at + 200).join("\n")}\n`));
  const box = dialog(
    `${label} as text`,
    undefined,
    h("h2", `${label} as text`),
    items.length > lines.length ? h("p.muted", `the first ${lines.length} of ${items.length}`) : null,
    h("pre.literal", { tabIndex: 0, role: "group", "aria-label": label }, chunks),
    h(
      "p",
      button("Copy", () => copy(lines.join("\n"))),
      " ",
      button("Close", () => box.close(), { autofocus: true }),
    ),
  );
}
