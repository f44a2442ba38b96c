// The View of a call: its frame, what it says, its tools, and the log of its messages.

import { data, list, live } from "./api.js";
import { consent } from "./consent.js";
import { button, bytes, empty, fill, h, newId, time } from "./dom.js";
import { createForm } from "./form.js";
import { stringify } from "./json.js";
import { marked, resultView, visible } from "./result.js";
import { openView } from "./view-host.js";

// A View may list more tools than a page can show.
const MAX_VIEW_TOOLS = 50;

// Messages of a View that its panel shows, and characters of each.
const MAX_TOLD = 50;
const MAX_TEXT = 10_000;

// Records of the messages of a call's Views that its panel shows.
const MAX_AUDIT = 1_000;

/**
 * The panel of a call whose tool has a View. The View is closed when `signal` says that the panel
 * is left; `own` is as for openView.
 */
export function viewOf({ record, tool, signal, own }) {
  const uri = tool?._meta?.ui?.resourceUri ?? tool?._meta?.["ui/resourceUri"];
  if (!uri || !record) return empty("The tool has no View.");
  if (signal.aborted) return null;
  const panel = h("div");
  let load = new AbortController();
  signal.addEventListener("abort", () => load.abort(), { once: true });
  const open = () => {
    load.abort();
    load = new AbortController();
    fill(panel, panelOf({ record, uri, signal: load.signal, own, again: open }));
  };
  open();
  return panel;
}

/** Makes the elements of one load of the View; `signal` ends it. */
function panelOf({ record, uri, signal, own, again }) {
  const place = h("div");
  const notes = h("div", { role: "status" });
  const blocked = h("ul.warn");
  const model = toldToModel();
  const serverTools = list("tools/list", "tools").catch(() => []);
  const provided = h("section", { "aria-label": "Tools of the View" });
  const told = (kind, value) => {
    if (kind === "appTools")
      viewTools(provided, value, serverTools, (name, args) => opened.then((it) => it.callTool(name, args)));
    if (kind === "modelContext" || kind === "message") model.add(kind, value);
    if (kind === "error" || kind === "note")
      notes.append(h("p", { class: kind === "error" ? "bad" : "warn" }, visible(value)));
    if (kind === "log")
      notes.append(
        h(
          "p.muted",
          visible(
            `${value.level ?? "log"}: ${typeof value.data === "string" ? value.data : stringify(value.data ?? null)}`.slice(
              0,
              MAX_TEXT,
            ),
          ),
        ),
      );
    while (notes.childElementCount > 100) notes.firstChild.remove();
  };
  const ended =
    record.outcome === "running"
      ? new Promise((done) => {
          const look = () =>
            data(`calls/${record.id}`).then(
              (now) => {
                if (now.outcome !== "running") done(now);
              },
              () => {},
            );
          live.addEventListener(
            "call.ended",
            ({ detail }) => {
              if (detail.id === record.id) look();
            },
            { signal },
          );
          live.addEventListener("reset", look, { signal });
          // It may have ended since its record was fetched.
          look();
        })
      : undefined;
  const opened = openView(place, { record, uri, ended, own, told });
  let view;
  opened.then(
    (it) => {
      view = it;
    },
    (error) => told("error", error.message),
  );
  // At once, if possible: a panel that is left is removed from the page, and its frame with it.
  const close = () =>
    view
      ? view.close()
      : opened.then(
          (it) => it.close(),
          () => {},
        );
  signal.addEventListener("abort", close, { once: true });
  return [
    switches(opened, again),
    place,
    h("div", { role: "status", "aria-label": "Blocked by the policy of the View" }, blocked),
    notes,
    model.element,
    provided,
    h("details", h("summary", "Messages between the View and the program"), auditOf(record, signal, blocked)),
  ];
}

/** How the View is shown: theme, width, the whole page; and a new start. */
function switches(opened, restart) {
  const choice = (label, options, choose) => {
    const select = h(
      "select",
      {
        id: newId("view"),
        onchange: () =>
          opened.then(
            (it) => choose(it, options[select.value]),
            () => {},
          ),
      },
      Object.keys(options).map((it) => h("option", { value: it }, it)),
    );
    return h("label", { for: select.id }, `${label} `, select);
  };
  return h(
    "div.bar",
    { role: "group", "aria-label": "How the View is shown" },
    choice("Theme", { "like the page": undefined, light: "light", dark: "dark" }, (it, theme) => it.setTheme(theme)),
    choice("Width", { "like the page": undefined, "phone, 390 px": 390, "tablet, 768 px": 768 }, (it, pixels) =>
      it.setWidth(pixels),
    ),
    button(
      "Full screen",
      () =>
        opened.then(
          (it) => it.enlarge(),
          () => {},
        ),
      { class: "small" },
    ),
    button("Load again", restart, { class: "small" }),
  );
}

/** The last context that the View has given the model, and its messages. */
function toldToModel() {
  const of = (content) =>
    visible(
      [content]
        .flat()
        .map((it) => (typeof it === "string" ? it : (it?.text ?? stringify(it))))
        .join("\n")
        .slice(0, MAX_TEXT),
    );
  const now = h("pre.literal", { tabIndex: 0, "aria-label": "Context for the model" });
  const said = h("ol");
  const element = h("details", { hidden: true }, h("summary", "Context that the View gives the model"), now, said);
  return {
    element,
    add(kind, value) {
      element.hidden = false;
      if (kind === "message") said.append(h("li", "message: ", of(value)));
      else
        fill(
          now,
          of([...(value?.content ?? []), ...(value?.structuredContent === undefined ? [] : [value.structuredContent])]),
        );
      while (said.childElementCount > MAX_TOLD) said.firstChild.remove();
    },
  };
}

/**
 * The tools that a View provides, each with a form and its last result. They are the View's,
 * whatever names it gives them.
 */
async function viewTools(box, all, serverTools, callTool) {
  const ofServers = new Set((await serverTools).flatMap(({ name }) => [name, name.split("__").at(-1)]));
  if (!all.length) {
    fill(box);
    return;
  }
  fill(
    box,
    h("h2", "Tools of the View"),
    all.slice(0, MAX_VIEW_TOOLS).map(({ tool, needsConsent }) => {
      const form = createForm(tool.inputSchema ?? { type: "object" });
      const output = h("div", { "aria-live": "polite" });
      const run = button(
        "Run",
        async () => {
          if (form.check().length) {
            form.focusFirstError();
            return;
          }
          const args = form.get() ?? {};
          if (
            needsConsent &&
            !(await consent("Run a tool of the View?", visible(`${tool.name} ${stringify(args)}`), "Run it"))
          )
            return;
          run.disabled = true;
          fill(output, "the View is running the tool…");
          try {
            fill(output, resultView(await callTool(tool.name, args), tool.outputSchema));
          } catch (error) {
            fill(output, h("p.bad", visible(error.message)));
          }
          run.disabled = false;
        },
        { "aria-label": marked(`Run ${tool.name}`) },
      );
      return h(
        "details",
        h("summary", visible(tool.title ? `${tool.title} (${tool.name})` : tool.name)),
        ofServers.has(tool.name)
          ? h("p.warn", "A server has a tool of this name, too. This one belongs to the View, and runs in it.")
          : null,
        tool.description ? h("p", visible(tool.description)) : null,
        form.element,
        h("p", run),
        output,
      );
    }),
    all.length > MAX_VIEW_TOOLS ? h("p.muted", `the first ${MAX_VIEW_TOOLS} of ${all.length}`) : null,
  );
}

/**
 * One line for each message of the Views of a call, in the order in which they came. What the
 * policy of a View has blocked is in the list `blocked`, too.
 */
function auditOf(record, signal, blocked) {
  const rows = h("ol.audit");
  const all = new Map();
  const add = (its) => {
    for (const it of its) if (it.call === record.id) all.set(`${it.view} ${it.sequence}`, it);
    const reasons = new Set([...all.values()].filter((it) => it.kind === "blocked").map((it) => it.verdict.why));
    if (reasons.size > blocked.childElementCount)
      fill(
        blocked,
        [...reasons].map((it) => h("li", visible(it))),
      );
    const sorted = [...all.entries()].sort(([, a], [, b]) => a.at - b.at || a.view - b.view || a.sequence - b.sequence);
    sorted.splice(0, sorted.length - MAX_AUDIT).forEach(([key]) => all.delete(key));
    fill(
      rows,
      sorted.map(
        ([, it]) =>
          (it.line ??= h(
            "li",
            { class: it.verdict.is === "accepted" ? "" : "bad" },
            `View ${it.view} ${it.direction.replace("-", " ")} ${it.kind} `,
            h("strong", it.method ?? ""),
            ` ${it.id ?? ""} ${it.bytes ? bytes(it.bytes) : ""} ${it.verdict.is}${it.verdict.why ? `: ${it.verdict.why}` : ""} `,
            time(it.at),
          )),
      ),
    );
  };
  let waiting = [];
  // Many come at a time; the list changes once for all.
  live.addEventListener(
    "view.message",
    ({ detail }) => {
      if (!waiting.length)
        queueMicrotask(() => {
          const its = waiting;
          waiting = [];
          add(its);
        });
      waiting.push(detail);
    },
    { signal },
  );
  const fetchAll = async () => add((await data(`views/audit?call=${encodeURIComponent(record.id)}`)).records);
  live.addEventListener("reset", () => fetchAll().catch(() => {}), { signal });
  fetchAll().catch((error) => rows.append(error.message));
  return rows;
}
