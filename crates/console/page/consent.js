// Asks the user to agree to what a View wants.

import { button, dialog, h } from "./dom.js";

let last = Promise.resolve();
/**
 * Asks for consent, one question after the other. Resolves to whether the user agreed; `signal`
 * takes the question back.
 */
export const consent = (...about) => (last = last.then(() => ask(...about)));

function ask(question, detail, yes, signal) {
  return new Promise((done) => {
    if (signal?.aborted) {
      done(false);
      return;
    }
    const box = dialog(
      question,
      () => done(box.returnValue === "yes"),
      h("h2", question),
      h("pre.literal", { tabIndex: 0, "aria-label": "Details" }, detail),
      h(
        "p",
        button("No", () => box.close(), { autofocus: true }),
        " ",
        button(yes, () => box.close("yes")),
      ),
    );
    signal?.addEventListener("abort", () => box.close());
  });
}
