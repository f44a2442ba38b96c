// Questions that a tool asks during a call.

import { badge, button, fill, h, say } from "./dom.js";
import { createForm } from "./form.js";
import { visible } from "./result.js";

/**
 * Shows the questions of the tool `name` in `output`. Returns the answers with which the call is sent again;
 * `resend` sends the call that `signal` stops, since other questions of the tool's server would
 * wait for these.
 */
export async function answersTo({ inputRequests = {}, requestState }, { resend, ...shown }) {
  const giveUp = () => {
    const inputResponses = Object.fromEntries(Object.keys(inputRequests).map((key) => [key, { action: "cancel" }]));
    resend({ inputResponses, requestState }).catch(() => {});
  };
  // The window may be closed, or leave for another address.
  addEventListener("pagehide", giveUp);
  try {
    return { inputResponses: await questions(inputRequests, shown), requestState };
  } catch (error) {
    giveUp();
    throw error;
  } finally {
    removeEventListener("pagehide", giveUp);
  }
}

function questions(requests, { output, name, signal }) {
  return new Promise((done, failed) => {
    signal.throwIfAborted();
    signal.addEventListener("abort", () => failed(signal.reason), { once: true });
    const entries = Object.entries(requests);
    const forms = new Map();
    const choices = {};
    const parts = entries.map(([key, request]) => {
      const { params = {} } = request;
      const who = h("p.asked", h("strong", `${name} asks: `), visible(params.message ?? ""));
      if (request.method !== "elicitation/create")
        return h("div", who, h("p.warn", `This page does not answer ${request.method}.`));
      if (params.mode === "url")
        return h(
          "div",
          who,
          h(
            "p",
            "Visit ",
            h(
              "a",
              { href: /^https?:/.test(params.url) ? params.url : "#", target: "_blank", rel: "noopener noreferrer" },
              visible(params.url),
            ),
            " first.",
          ),
        );
      const form = createForm(params.requestedSchema ?? {}, undefined, undefined, true);
      forms.set(key, form);
      return h("div", who, form.element);
    });
    const finish = (action) => {
      for (const [key, request] of entries) {
        const form = forms.get(key);
        if (action === "accept" && form && form.check().length) {
          form.focusFirstError();
          return;
        }
        choices[key] =
          request.method !== "elicitation/create"
            ? { action: "cancel" }
            : action === "accept" && form
              ? { action, content: form.get() ?? {} }
              : { action };
      }
      fill(output, h("p", badge("running")));
      done(choices);
    };
    fill(
      output,
      h(
        "section.card.question",
        { "aria-label": "Question", tabIndex: -1 },
        parts,
        h(
          "p",
          button("Answer", () => finish("accept"), { class: "primary" }),
          " ",
          button("Decline", () => finish("decline")),
          " ",
          button("Cancel", () => finish("cancel")),
        ),
      ),
    );
    output.querySelector("input, textarea, select, button")?.focus();
    say("The tool asks something");
  });
}
