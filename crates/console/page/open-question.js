// A question that waits for an answer: of a server to its client, or before a call to its user.

import { post } from "./api.js";
import { badge, button, failure, fill, h, link, to } from "./dom.js";
import { visible } from "./result.js";

const WHAT = {
  "elicitation/create": "asks",
  "sampling/createMessage": "asks a model",
  "roots/list": "asks for the folders of the client",
};

/** A question of a server, which its client answers. */
function upstreamQuestion(it) {
  return h(
    "p",
    badge("input_required", "question"),
    " ",
    h("strong", it.server),
    ` ${WHAT[it.method] ?? it.method}`,
    it.message ? [": ", h("q", visible(it.message))] : ".",
    " ",
    it.call ? link(to("calls", it.call), it.tool ?? "Its call") : null,
  );
}

/** A call that a person must allow, with the ways to answer. */
function approval(it) {
  const said = h("p", { role: "status" });
  const choose = async (decision) => {
    try {
      fill(said, (await post(`approvals/${it.approval}`, { decision })).said);
    } catch (error) {
      fill(said, failure(error));
    }
  };
  const choices = it.choices.map(([name, title]) => [button(title, () => choose(name), { class: "small" }), " "]);
  return h(
    "div",
    h("p", badge("input_required", "question"), " A call of ", h("strong", it.server), " waits for you."),
    h("pre", { tabIndex: 0, "aria-label": "Call" }, visible(it.message)),
    h("p", choices),
    said,
  );
}

/** Shows a question; its user may answer one before a call here. */
export const show = (it) => (it.approval ? approval(it) : upstreamQuestion(it));
