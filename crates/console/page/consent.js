// Asks the user to agree to what a View wants.

import { button, dialog, h } from "./dom.js";

// A View can make the user click again and again where the button will appear. Clicks count after
// this time without one, in milliseconds: longer than the time between two of a double click.
const READING_TIME = 700;

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
    const agree = button(yes, () => box.close("yes"), { disabled: true });
    let timer;
    const wait = () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        agree.disabled = false;
      }, READING_TIME);
    };
    const box = dialog(
      question,
      () => done(box.returnValue === "yes"),
      h("h2", question),
      h("pre.literal", { tabIndex: 0, "aria-label": "Details" }, detail),
      h(
        "p",
        button("No", () => box.close(), { autofocus: true }),
        " ",
        agree,
      ),
    );
    wait();
    box.addEventListener("pointerdown", () => agree.disabled && wait());
    signal?.addEventListener("abort", () => box.close());
  });
}
