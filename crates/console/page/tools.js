// Tools: the list, a form for each, and the result beside it.

import { Failure, data, list, rpc } from "./api.js";
import { callParts, pastCalls, progressBar } from "./calls.js";
import { badge, button, chosen, duration, empty, fill, h, link, newId, panes, say, sideList, tabs, to } from "./dom.js";
import { createForm } from "./form.js";
import { isEqual, parse, problemLine, problemText, stringify } from "./json.js";
import { markdown, tree, visible } from "./result.js";
import { problemsIn, withoutSecrets } from "./schema.js";

const INPUTS = "marquetry.inputs.";

/** The last ten inputs of a tool, kept by this browser. */
function pastInputs(name) {
  try {
    return JSON.parse(localStorage.getItem(INPUTS + name) ?? "[]").filter((it) => typeof it === "string");
  } catch {
    return [];
  }
}

function remember(name, args, schema) {
  try {
    // The schema may have marked a secret after an earlier input was kept.
    const all = [args, ...pastInputs(name).map(parse)].map((it) => stringify(withoutSecrets(it, schema) ?? {}));
    localStorage.setItem(
      INPUTS + name,
      JSON.stringify([...new Set(all)].filter((it) => it.length <= 10_000).slice(0, 10)),
    );
  } catch {
    /* If the store is full, only the history is lost. */
  }
}

export async function tools(context) {
  const fetch = () => list("tools/list", "tools");
  const all = await fetch();
  const notice = h("div", { role: "status" });
  const tool = all.find((it) => it.name === context.name);
  const side = sideList(context, "Tools", all, {
    text: (it) => `${it.name} ${it.title ?? ""} ${it.description ?? ""}`,
    href: (it) => to("tools", it.name),
    name: (it) => it.name,
    isCurrent: (it) => it.name === context.name,
    kind: "tools",
    fetch,
    changed: (next) =>
      fill(
        notice,
        context.name
          ? changeOf(
              tool,
              next.find((it) => it.name === context.name),
              context,
            )
          : null,
      ),
  });
  const back = ["#/tools", "All tools"];
  if (!context.name)
    return chosen(
      side,
      false,
      back,
      all.length ? empty("Choose a tool.") : empty("No server offers a tool.", link("#/servers", "See why")),
    );
  const detail = tool
    ? await one(context, tool)
    : empty(`No tool is called ${context.name}.`, "It may come back with its server: ", link("#/servers", "Servers"));
  return chosen(side, true, back, notice, detail);
}

/** Says what has become of a tool whose form is open. The form stays until its user wants the new one. */
function changeOf(before, now, context) {
  const anew = button("Load the new form", context.again, { class: "small" });
  if (!before) return now ? h("p.warn", "The tool is available now. ", anew) : null;
  if (!now) return h("p.warn", "The server does not offer this tool any more. It may come back.");
  return isEqual(before.inputSchema, now.inputSchema)
    ? null
    : h("p.warn", "The schema of the tool has changed; this form has the old one. ", anew);
}

async function one(context, tool) {
  const schema = tool.inputSchema ?? {};
  let args;
  let note;
  const given = context.query.get("args");
  if (given !== null) {
    try {
      args = parse(given);
    } catch {
      note = h("p.bad", { role: "alert" }, "The arguments in the address are not JSON; the form is empty.");
    }
  }
  // Malformed JSON is kept when its tab is left. If the form is changed after that, the form
  // counts, and the text can be brought back.
  let malformed;
  let isFormNewer = false;
  let lastGood;
  const output = h(
    "section.output",
    { "aria-label": "Result", "aria-live": "off" },
    empty("The result appears here.", h("kbd", "Ctrl+Enter"), " runs the tool."),
  );
  const form = createForm(schema, args, () => {
    isFormNewer = true;
  });
  const raw = h("textarea.code", {
    rows: 12,
    spellcheck: "false",
    "aria-label": "Arguments as JSON",
    id: newId("json"),
  });
  const rawProblem = h("div.problem", { role: "status" });
  const earlier = h("p.warn");
  let tab = ["form", "json", "schema", "past"].includes(context.query.get("tab")) ? context.query.get("tab") : "form";
  const showProblem = () => {
    rawProblem.textContent = problemText(raw.value.trim() || "{}");
  };
  raw.addEventListener("input", () => {
    showProblem();
    if (!rawProblem.textContent) lastGood = raw.value;
  });
  /** The JSON that counts now, if it is not the form that counts. */
  const currentText = () => (tab === "json" ? raw.value : tab === "form" || isFormNewer ? undefined : malformed);
  /** The arguments as the visible tab has them. JSON that is malformed is not sent. */
  const current = () => (currentText() === undefined ? (form.get() ?? {}) : parse(currentText().trim() || "{}"));
  const toForm = () => {
    malformed = problemText(raw.value.trim() || "{}") ? raw.value : undefined;
    const text = malformed === undefined ? raw.value : lastGood;
    if (text !== undefined) form.set(parse(text.trim() || "{}"));
    isFormNewer = false;
  };
  const toJson = () => {
    raw.value = malformed === undefined || isFormNewer ? stringify(form.get() ?? {}, 2) : malformed;
    lastGood = undefined;
    showProblem();
    const text = isFormNewer ? malformed : undefined;
    fill(
      earlier,
      text === undefined
        ? null
        : [
            "The form was changed after the JSON was left malformed. This is the JSON of the form. ",
            button(
              "Bring the malformed JSON back",
              () => {
                raw.value = text;
                fill(earlier);
                showProblem();
                raw.focus();
              },
              { class: "small" },
            ),
          ],
    );
  };
  const left = h("section.input", { "aria-label": "Arguments" });
  const choose = (next, focus) => {
    if (next !== tab) {
      if (tab === "json") toForm();
      else if (next === "json") toJson();
      tab = next;
      context.setQuery({ tab: next === "form" ? undefined : next });
    }
    draw();
    if (focus) left.querySelector("[role=tab][aria-selected=true]")?.focus();
  };
  const past = pastInputs(tool.name);
  const draw = () =>
    fill(
      left,
      tabs(
        "Arguments",
        [
          [
            "form",
            "Form",
            () => [
              malformed === undefined || isFormNewer
                ? null
                : h(
                    "p.warn",
                    { role: "status" },
                    `The JSON is malformed (${problemText(malformed)}). The form shows its last well-formed value. `,
                    button(
                      "Back to the JSON",
                      () => {
                        choose("json");
                        raw.focus();
                      },
                      { class: "small" },
                    ),
                  ),
              form.element,
              past.length
                ? h(
                    "p",
                    h(
                      "label",
                      "Earlier inputs ",
                      h(
                        "select",
                        {
                          onchange: (event) => {
                            if (event.target.value !== "") form.set(parse(past[Number(event.target.value)]));
                            isFormNewer = true;
                          },
                        },
                        h("option", { value: "" }, "choose…"),
                        past.map((it, index) => h("option", { value: index }, it.slice(0, 80))),
                      ),
                    ),
                  )
                : null,
            ],
          ],
          ["json", "JSON", () => [earlier, raw, rawProblem]],
          [
            "schema",
            "Schema",
            () => [
              h("h2", "As the agent gets it"),
              tree(schema),
              tool.outputSchema ? [h("h2", "Output"), tree(tool.outputSchema)] : null,
              tool.annotations ? [h("h2", "Hints"), tree(tool.annotations)] : null,
            ],
          ],
          ["past", "Past calls", () => pastCalls(tool.name)],
        ],
        tab,
        choose,
      ),
    );
  if (tab === "json") raw.value = stringify(args ?? form.get() ?? {}, 2);
  draw();

  let running;
  // The View of a result is asked before the next result takes its place.
  let leaveResult = () => {};
  const ofResult = {
    ...context,
    onLeave: (leave) => {
      leaveResult = leave;
    },
  };
  const runButton = button("Run", () => run(false), { class: "primary", "data-run": "" });
  const status = h("span", { role: "status" });
  const stop = button("Stop", () => running?.abort(), { hidden: true });
  const run = async (isForced) => {
    if (running) return;
    let now;
    try {
      now = current();
    } catch {
      if (tab !== "json") choose("json");
      fill(status, h("span.bad", `The JSON is malformed: ${problemText(raw.value)}`));
      raw.focus();
      return;
    }
    const errors = tab === "form" ? form.check() : problemsIn(schema, now);
    const isMalformed = errors.some((it) => it.isMalformed);
    if (errors.length && (isMalformed || !isForced)) {
      if (tab === "form") form.focusFirstError();
      fill(
        status,
        `${errors.length === 1 ? "1 problem" : `${errors.length} problems`}${tab === "form" ? "" : `: ${problemLine(errors[0].path, errors[0].message)}`} `,
        isMalformed ? "Malformed JSON cannot be sent." : button("Send anyway", () => run(true), { class: "small" }),
      );
      return;
    }
    remember(tool.name, now, schema);
    running = new AbortController();
    stop.hidden = false;
    fill(status, badge("running"));
    const onPast = (progress) => {
      if (running) fill(status, badge("running"), progressBar(progress));
    };
    try {
      await send(tool, now, {
        output,
        leave: () => leaveResult(),
        signal: running.signal,
        onProgress: onPast,
        form,
        context: ofResult,
      });
      fill(status);
    } catch (error) {
      fill(status);
      leaveResult();
      if (error.name === "AbortError")
        fill(output, h("p.warn", "You stopped the call. The tool may have done its work."));
      else
        fill(
          output,
          gatewayFailure(error, () => run(true)),
        );
    }
    running = undefined;
    stop.hidden = true;
  };
  context.onLeave(() => {
    running?.abort();
    leaveResult();
  });
  return [
    tool.title && tool.title !== tool.name ? h("p", h("strong", visible(tool.title))) : null,
    tool.description
      ? h(
          "details.description",
          { open: tool.description.length < 300 },
          h("summary", "Description"),
          markdown(tool.description),
        )
      : null,
    note,
    h(
      "div.runbar",
      runButton,
      stop,
      status,
      button(
        "Link",
        () => {
          const text = safeArgs();
          context.setQuery({ args: text });
          say(
            text === undefined
              ? "The arguments are malformed; the address has none"
              : "The address has the arguments now",
          );
        },
        { class: "small", title: "puts the arguments into the address" },
      ),
      button(
        "Compare revisions",
        () => {
          const text = safeArgs();
          if (text === undefined) run(false);
          else location.hash = `${to("revisions", tool.name)}?args=${encodeURIComponent(text)}`;
        },
        { class: "small", title: "makes this call as clients of other revisions do" },
      ),
    ),
    panes("form", "pair-of-panes", left, output),
  ];
  function safeArgs() {
    try {
      const now = current();
      return problemsIn(schema, now).some((it) => it.isMalformed)
        ? undefined
        : stringify(withoutSecrets(now, schema) ?? {});
    } catch {
      return undefined;
    }
  }
}

/** Calls the tool, answers its questions, and shows what comes. */
async function send(tool, args, shown, extra = {}) {
  const { output, leave, signal, onProgress, form, context } = shown;
  const messages = [];
  const answer = await rpc(
    "tools/call",
    { name: tool.name, arguments: args, ...extra },
    {
      signal,
      schema: tool.inputSchema,
      onmessage: (message) => {
        messages.push(message);
        if (message.method === "notifications/progress") onProgress(message.params ?? {});
      },
    },
  );
  leave();
  if (answer.error) {
    fill(output, refusedView(answer), answer.call ? recordLink(answer) : null);
    say("The call was refused");
    const path = /^\/?([\w/.]+)/
      .exec(answer.error.data?.path ?? answer.error.data?.instancePath ?? "")?.[1]
      ?.split(/[/.]/)
      .filter(Boolean);
    if (path) form.showErrors([{ path, message: answer.error.message }]);
    return;
  }
  const { result: found } = answer;
  if (found.resultType === "input_required") {
    const resend = (more) =>
      rpc("tools/call", { name: tool.name, arguments: args, ...more }, { schema: tool.inputSchema });
    const { answersTo } = await import("./questions.js");
    await send(tool, args, shown, await answersTo(found, { output, name: tool.name, signal, resend }));
    return;
  }
  say(found.isError ? "The tool failed" : "The result is there");
  const record = answer.call ? await data(`calls/${answer.call}`).catch(() => undefined) : undefined;
  fill(
    output,
    h(
      "p",
      badge(record?.outcome ?? (found.isError ? "tool_failed" : "ok")),
      ` ${duration(Math.round(answer.ms * 1000))} `,
      recordLink(answer),
    ),
    callParts({ call: { record, result: found }, tool, sent: answer.messages, context, tab: "result" }),
  );
}

function recordLink(answer) {
  return answer.call ? link(`#/calls/${answer.call}`, "Its record") : null;
}

/** An error of the protocol: the tool was not reached. */
export function refusedView({ error, status }) {
  const advice = {
    "-32602": "The arguments or the name are wrong. Look at the schema.",
    "-32601": "The server does not know this method.",
    "-32020": "A header contradicts the body.",
    "-32603": "Internal error. The log of the server has details.",
  }[error.code];
  return h(
    "div.failure",
    { role: "alert" },
    h("p", h("strong", `Refused (${error.code ?? status}): `), visible(error.message ?? "no reason")),
    advice ? h("p", advice) : null,
    error.data === undefined ? null : tree(error.data, "data"),
  );
}

function gatewayFailure(error, retry) {
  const isTransport = error instanceof Failure && !error.status;
  return h(
    "div.failure",
    { role: "alert" },
    h("p", h("strong", isTransport ? "No connection: " : "Failed: "), error.message),
    isTransport ? h("p", "The call may have reached the tool.") : null,
    button("Try again", retry),
  );
}
