// The record of calls.

import { data, list, text } from "./api.js";
import {
  KEPT_RULE,
  badge,
  button,
  bytes,
  duration,
  empty,
  fill,
  filterBox,
  h,
  hasWords,
  lazily,
  link,
  svg,
  table,
  tabs,
  time,
  to,
  virtualList,
} from "./dom.js";
import { openQuestions } from "./home.js";
import { parse, stringify, withoutHidden } from "./json.js";
import { resultView, tree, visible } from "./result.js";
import { withoutSecrets } from "./schema.js";

const OUTCOMES = ["ok", "tool_failed", "rpc_error", "gateway_error", "cancelled", "input_required", "running"];

export async function calls(context) {
  return context.name ? one(context) : all(context);
}

/** A list of calls that grows as they come. */
async function all(context) {
  let kept = (await data("calls")).calls;
  const chosen = context.query.get("outcome") ?? "";
  const progress = new Map();
  const row = (it) =>
    h(
      "a",
      { href: to("calls", it.id), class: "callrow" },
      badge(it.outcome),
      h("span.grow", it.tool),
      it.outcome === "running" && progress.has(it.id) ? h("span.muted", progressText(progress.get(it.id))) : null,
      h("span.wide", duration(it.us)),
      h(
        "span.wide",
        it.shown_bytes === null ? "" : `${bytes(it.said_bytes ?? it.shown_bytes)} › ${bytes(it.shown_bytes)}`,
      ),
      it.kept_tokens
        ? h("span.wide.muted", { title: KEPT_RULE }, `−${it.kept_tokens.toLocaleString("en")} tokens`)
        : null,
      time(it.started),
    );
  const fits = () => {
    const outcome = select.value;
    return kept.filter(
      (it) =>
        (!outcome || it.outcome === outcome) &&
        hasWords(`${it.tool} ${it.server ?? ""} ${it.client ?? ""}`, filter.value),
    );
  };
  const draw = () => {
    const found = fits();
    rows.update(found);
    count.textContent = `${found.length} ${found.length === 1 ? "call" : "calls"}`;
    nothing.hidden = found.length > 0;
    fill(
      nothing,
      h("p", kept.length ? "No call matches." : "No tool has been called since the server started."),
      h("p", link("#/tools", "Call a tool")),
    );
  };
  const filter = filterBox(context, "Filter calls", () => draw());
  const select = h(
    "select",
    {
      "aria-label": "Outcome",
      onchange: () => {
        draw();
        context.setQuery({ outcome: select.value });
      },
    },
    h("option", { value: "" }, "all outcomes"),
    OUTCOMES.map((it) => h("option", { value: it, selected: it === chosen }, it.replaceAll("_", " "))),
  );
  const count = h("span.muted");
  const nothing = empty();
  const rows = virtualList("Calls", [], row);
  const more = button(
    "Older calls",
    async () => {
      const older = (await data(`calls?before=${encodeURIComponent(kept[kept.length - 1]?.id ?? "")}`)).calls;
      kept = [...kept, ...older];
      more.hidden = !older.length;
      draw();
    },
    { hidden: kept.length < 200 },
  );
  const put = (event) => {
    const at = kept.findIndex((it) => it.id === event.detail.id);
    if (at >= 0) kept[at] = event.detail;
    else kept = [event.detail, ...kept].slice(0, 5000);
    draw();
  };
  context.onReset(async () => {
    kept = (await data("calls")).calls;
    progress.clear();
    draw();
  });
  context.on("call.started", put);
  context.on("call.ended", (event) => {
    progress.delete(event.detail.id);
    put(event);
  });
  context.on("call.progress", ({ detail }) => {
    if (!kept.some((it) => it.id === detail.id && it.outcome === "running")) return;
    progress.set(detail.id, detail);
    draw();
  });
  draw();
  return [h("div.bar", filter, select, count), nothing, rows.element, more];
}

/** The past calls of one tool. */
export function pastCalls(tool) {
  const box = h("div", "loading…");
  data(`calls?tool=${encodeURIComponent(tool)}`).then(
    ({ calls: found }) => {
      if (!found.length) return fill(box, empty("The tool has not been called since the server started."));
      return fill(
        box,
        table(
          "Past calls",
          ["Call", "Outcome", "Time", "Model sees"],
          found.map((it) => [
            link(to("calls", it.id), time(it.started)),
            badge(it.outcome),
            duration(it.us),
            bytes(it.shown_bytes),
          ]),
        ),
      );
    },
    (error) => fill(box, error.message),
  );
  return box;
}

/** Progress in a few words: '3 of 10, reading'. */
export const progressText = ({ progress, total, message }) =>
  `${progress}${total === undefined || total === null ? "" : ` of ${total}`}${message ? `, ${message}` : ""}`;

/** A bar of progress with its words; without a total it has no end. */
export function progressBar(it) {
  // A tool may send numbers that are too large for a bar.
  const isBounded = [it.progress, it.total].every(Number.isFinite) && it.total > 0;
  return h(
    "p",
    h("progress", {
      "aria-label": "Progress",
      ...(isBounded ? { max: it.total, value: Math.min(it.progress, it.total) } : {}),
    }),
    ` ${progressText(it)}`,
  );
}

async function one(context) {
  const fetched = () => data(`calls/${encodeURIComponent(context.name)}`);
  const progress = h("div");
  // Events are followed before the record is fetched: a call may end while its page loads.
  const ended = new Promise((done) =>
    context.on("call.ended", ({ detail }) => {
      if (detail.id === context.name) done();
    }),
  );
  context.on("call.progress", ({ detail }) => {
    if (detail.id === context.name) fill(progress, progressBar(detail));
  });
  const call = { record: await fetched() };
  const isRunning = call.record.outcome === "running";
  const head = h("div");
  if (isRunning) {
    // A View stays as it is; it gets the result itself. What is around it is drawn anew.
    const refresh = async () => {
      if (!context.isShown()) return;
      if (!document.querySelector(".view")) {
        context.again();
        return;
      }
      call.record = await fetched();
      call.result = await resultOf(call.record);
      fill(head, aboutCall(call.record));
    };
    ended.then(refresh);
    context.onReset(async () => {
      if ((await fetched()).outcome !== "running") await refresh();
    });
    if (call.record.progress && !progress.firstChild) fill(progress, progressBar(call.record.progress));
  }
  const state = isRunning ? await data("state") : undefined;
  context.title.textContent = call.record.tool;
  const tools = await list("tools/list", "tools").catch(() => []);
  call.result = await resultOf(call.record);
  const { record } = call;
  const tool = tools.find((it) => it.name === record.tool);
  const args = record.arguments.json;
  fill(
    head,
    aboutCall(record),
    isRunning ? [progress, openQuestions(context, state.questions, (it) => it.call === record.id)] : null,
  );
  return [
    head,
    h("p", tool ? again(record, tool) : null, " ", link(`#/calls`, "All calls")),
    h(
      "details",
      h("summary", `Arguments, ${bytes(record.arguments.bytes)}`),
      args
        ? tree(parse(args))
        : empty(record.arguments.bytes ? "The arguments were too large to store." : "The call had no arguments."),
    ),
    callParts({ call, tool, context, tab: context.query.get("tab") ?? "result", isOwnPage: true }),
  ];
}

/** The result of a recorded call, as the model has got it; undefined without one. */
const resultOf = async ({ id, model }) => (model?.kept ? parse(await text(`calls/${id}/shown`)) : undefined);

/** How a call ended, when, and where. */
function aboutCall(record) {
  return [
    h(
      "p",
      badge(record.outcome),
      ` ${duration(record.us)} `,
      time(record.started),
      ` ${record.server ? `server ${record.server}, ` : ""}${record.client ? `called by ${record.client}` : ""}`,
    ),
    record.problem ? h("div.failure", h("p", `${record.problem.code ?? ""} `, visible(record.problem.message))) : null,
  ];
}

/** The link to a form with the arguments of a call. Secrets, which the record hides, are unset there. */
function again({ arguments: { json, bytes: size } }, tool) {
  const refused = (why) => `It cannot be called again from here: its arguments ${why}.`;
  if (!json && size) return refused("were too large to store");
  const args = json
    ? `?args=${encodeURIComponent(stringify(withoutSecrets(withoutHidden(parse(json)), tool.inputSchema) ?? {}))}`
    : "";
  // Browsers do not follow addresses of several megabytes.
  return args.length > 500_000
    ? refused("are too long for an address")
    : link(`${to("tools", tool.name)}${args}`, "Call it again");
}

/** The tabs of a call. The record and the result in `call` may change: each tab shows them as they are when it opens. */
export function callParts({ call, tool, sent, context, tab, isOwnPage }) {
  const box = h("div");
  let tabOpen = new AbortController();
  const draw = (current, focus) => {
    tabOpen.abort();
    tabOpen = new AbortController();
    const { signal } = tabOpen;
    const { record, result } = call;
    fill(
      box,
      tabs(
        "The call",
        [
          [
            "result",
            "Result",
            () =>
              result
                ? resultView(result, tool?.outputSchema)
                : empty(record && !record.model ? "The call has no result." : "The result was too large to store."),
          ],
          [
            "model",
            "Model",
            () =>
              record
                ? lazily(async () => (await import("./model.js")).modelView(record))
                : empty("The call has no record."),
          ],
          ["messages", "Messages", () => lazily(async () => (await import("./messages.js")).messagesOf(record, sent))],
          ["timeline", "Timeline", () => (record ? timeline(record) : empty("The call has no record."))],
          [
            "view",
            "View",
            () =>
              lazily(async () =>
                (await import("./view-panel.js")).viewOf({
                  record,
                  tool,
                  signal,
                  own: sent && { args: sent[0].params.arguments, result },
                }),
              ),
          ],
          [
            "save",
            "Save",
            () =>
              record && result
                ? lazily(async () => (await import("./scenario.js")).scenarioView(record, result, tool))
                : empty("A scenario needs a call with a result."),
          ],
        ],
        current,
        (next, isFocused) => {
          if (isOwnPage) context.setQuery({ tab: next === "result" ? undefined : next });
          draw(next, isFocused);
        },
      ),
    );
    if (focus) box.querySelector("[role=tab][aria-selected=true]")?.focus();
  };
  draw(tab);
  context.onLeave(() => tabOpen.abort());
  return box;
}

/** The course of a call as a bar for each step. */
function timeline(record) {
  const steps = record.steps.map((it) => ({ name: it.name, at: it.at_us }));
  const total = Math.max(1, record.us ?? steps[steps.length - 1]?.at ?? 1);
  const names = { answered: "upstream answered", captured: "answer captured" };
  let from = 0;
  const parts = [...steps, { name: "sent to the agent", at: total }].map((it) => {
    const part = { name: names[it.name] ?? it.name, from, to: it.at };
    from = it.at;
    return part;
  });
  const y = (index) => 8 + index * 26;
  return [
    svg(
      "svg",
      {
        viewBox: `0 0 400 ${16 + parts.length * 26}`,
        class: "chart",
        role: "img",
        "aria-label": `Course of the call: ${parts.map((it) => `${it.name} after ${duration(it.to)}`).join(", ")}`,
      },
      parts.map((it, index) =>
        svg("rect", {
          x: (it.from / total) * 396,
          y: y(index),
          width: Math.max(2, ((it.to - it.from) / total) * 396),
          height: 14,
          class: "span",
        }),
      ),
    ),
    table(
      "Timeline",
      ["Step", "From", "To", "Took"],
      parts.map((it) => [it.name, duration(it.from), duration(it.to), duration(it.to - it.from)]),
    ),
  ];
}
