// The first page, and the servers.

import { data, post } from "./api.js";
import {
  KEPT_RULE,
  badge,
  button,
  bytes,
  copy,
  duration,
  empty,
  failure,
  fill,
  h,
  link,
  refill,
  table,
  time,
  to,
} from "./dom.js";
import { literal, tree, visible } from "./result.js";

const root = document.documentElement.dataset;

/** Says how a client connects. */
function connect() {
  const server = { type: "http", url: root.endpoint };
  if (root.token) server.headers = { Authorization: "Bearer YOUR_TOKEN" };
  const text = JSON.stringify({ mcpServers: { marquetry: server } }, null, 2);
  return h(
    "section.card",
    h("h2", "Connect"),
    h("p", "Agents use ", h("code", root.endpoint), root.token ? " with a token." : "."),
    h("pre", { tabIndex: 0, "aria-label": "Configuration for a client" }, text),
    button("Copy", () => copy(text), { class: "small" }),
  );
}

function callsTable(list) {
  if (!list.length) return empty("No tool has been called since the server started.", link("#/tools", "Call one"));
  return table(
    "Last calls",
    ["Call", "Outcome", "Time", "Upstream sent", "Model sees", "At"],
    list.map((call) => [
      link(to("calls", call.id), call.tool),
      badge(call.outcome),
      duration(call.us),
      bytes(call.said_bytes),
      bytes(call.shown_bytes),
      time(call.started),
    ]),
  );
}

/** What shortened answers kept from models: newest day first, then the most tokens. */
function savingsTable(rows) {
  if (!rows.length) return empty("Every answer of the last 30 days was shown whole.");
  const count = (number) => number.toLocaleString("en");
  return table(
    "By day and tool, last 30 days",
    ["Day", "Tool", "Answers", "Bytes", "Tokens"],
    rows.slice(0, 50).map((it) => [it.day, it.tool, count(it.answers), bytes(it.bytes), count(it.tokens)]),
  );
}

/** The questions of servers that wait for an answer; `fits` chooses them. They come and go with the events. */
export function openQuestions(context, open, fits = () => true) {
  const box = h("section.card", { role: "status", "aria-label": "Open questions", hidden: true });
  const all = new Map(open.map((it) => [it.id, it]));
  const draw = () => {
    const found = [...all.values()].filter(fits);
    box.hidden = !found.length;
    fill(
      box,
      h("h2", "Waiting for an answer"),
      found.slice(0, 20).map((it) => {
        const shown = h("div");
        import("./open-question.js").then(({ show }) => fill(shown, show(it)));
        return shown;
      }),
      found.length > 20 ? h("p.muted", `and ${found.length - 20} more`) : null,
      h("p.muted", "The client that made a call answers, too."),
    );
  };
  context.on("question", ({ detail }) => {
    if (detail.state === "open" && all.size < 1000) all.set(detail.id, detail);
    else all.delete(detail.id);
    draw();
  });
  context.onReset(async () => {
    const { questions } = await data("state");
    all.clear();
    questions.forEach((it) => all.set(it.id, it));
    draw();
  });
  draw();
  return box;
}

export async function home(context) {
  const numbers = h("div.numbers");
  const last = h("section.card");
  const upstreams = h("section.card");
  const kept = h("section.card");
  let status;
  const count = (stats) => {
    const number = (label, value) => h("div", h("strong", value), h("span.muted", label));
    fill(
      numbers,
      status ? number("server", badge(status)) : null,
      number("calls kept", stats.calls),
      number("failed", stats.failed),
      number("running", stats.running),
      number("median", duration(stats.p50_us) || "–"),
      number("95 %", duration(stats.p95_us) || "–"),
      number("withheld from the model", bytes(stats.kept_from_model_bytes)),
    );
  };
  const draw = async () => {
    const [state, { calls }, { savings }] = await Promise.all([data("state"), data("calls"), data("savings")]);
    status = state.server?.status;
    count(state.stats);
    refill(last, h("h2", "Last calls"), callsTable(calls.slice(0, 10)));
    refill(upstreams, h("h2", "Servers"), serversTable(state));
    refill(kept, h("h2", "Kept from the model"), savingsTable(savings), h("p.muted", KEPT_RULE));
    return state;
  };
  const { questions } = await draw();
  let asked;
  // A series of calls without a pause does not postpone it forever.
  const later = () => {
    asked ??= setTimeout(() => {
      asked = undefined;
      draw().catch(() => {});
    }, 150);
  };
  context.onReset(draw);
  context.on("call.ended", later);
  context.on("call.started", later);
  context.on("server.state", later);
  context.on("stats", ({ detail }) => count(detail));
  context.onLeave(() => clearTimeout(asked));
  return [numbers, openQuestions(context, questions), last, kept, upstreams, connect()];
}

function serversTable(state) {
  if (!state.server)
    return empty("The state of servers is shown to administrators.", 'Use a token with the scope "admin".');
  const list = state.server.upstreams;
  if (!list.length)
    return empty("No server is configured.", "Give the program your mcp.json: marquetry serve --mcp-config mcp.json");
  return table(
    "Servers",
    ["Name", "State", "Tools", "Restarts", "Transport", "Why"],
    list.map((it) => [
      link(to("servers", it.name), it.name),
      badge(it.state),
      it.tools,
      it.restarts,
      it.transport,
      it.problem ?? "",
    ]),
  );
}

export async function servers(context) {
  const box = h("div");
  const log = context.name ? await liveLog(context) : undefined;
  const draw = async () => refill(box, context.name ? await one(context, log) : serversTable(await data("state")));
  await draw();
  context.onReset(draw);
  if (context.name) context.on("catalog", () => draw().catch(() => {}));
  context.on("server.state", () => draw().catch((error) => fill(box, failure(error, context.again))));
  return box;
}

/** Open questions of a server, and what it logs while this page is open. */
async function liveLog(context) {
  const isIts = (it) => it.server === context.name;
  const { questions } = await data("state");
  const lines = h("ol.audit");
  const nothing = empty("Messages of the server come here while this page is open.");
  context.on("server.log", ({ detail }) => {
    if (!isIts(detail)) return;
    const isBad = /^(error|critical|alert|emergency)$/.test(detail.level ?? "");
    lines.append(
      h(
        "li",
        { class: isBad ? "bad" : "" },
        time(detail.at),
        ` ${detail.level ?? detail.source} `,
        detail.logger ? `${detail.logger}: ` : "",
        visible(detail.text),
      ),
    );
    while (lines.childElementCount > 500) lines.firstChild.remove();
    nothing.hidden = true;
  });
  return [
    openQuestions(context, questions, isIts),
    h(
      "section.card",
      h("h2", "Log"),
      nothing,
      h("div.scroll", { tabIndex: 0, role: "group", "aria-label": "Log" }, lines),
    ),
  ];
}

async function one(context, log) {
  const path = `servers/${encodeURIComponent(context.name)}`;
  const [state, details] = await Promise.all([data("state"), data(path)]);
  const found = state.server?.upstreams.find((it) => it.name === context.name);
  if (!found) return empty(`No server is called ${context.name}.`, link("#/servers", "All servers"));
  const said = h("div", { role: "status" });
  const act = (text) =>
    button(text, async () => {
      try {
        fill(said, visible((await post(`${path}/${text.toLowerCase()}`)).said));
      } catch (error) {
        fill(said, h("span.bad", error.message));
      }
    });
  const acts = found.state === "disabled" ? ["Enable"] : ["Restart", "Reload", "Disable"];
  const { interface: lists, connection } = details;
  // A server without a connection has no lists to compare.
  const changes = connection ? compared(context.name, lists) : null;
  return [
    h(
      "p",
      badge(found.state),
      " ",
      visible(found.problem ?? ""),
      found.retry_in_ms
        ? `${found.problem ? ". " : ""}It restarts within ${Math.ceil(found.retry_in_ms / 1000)} s.`
        : "",
    ),
    h("p", ...acts.flatMap((it) => [act(it), " "]), said),
    log[0],
    connection
      ? h(
          "section.card",
          h("h2", "Connection"),
          h(
            "p",
            visible(
              `${connection.info.name} ${connection.info.version}, MCP ${connection.revision}, ${found.transport}, restarts: ${found.restarts}`,
            ),
          ),
          tree(connection.capabilities, "capabilities"),
        )
      : null,
    found.refused
      ? h(
          "section.card",
          h("h2", "Refused names"),
          table(
            "Refused names",
            ["Kind", "Name", "Why"],
            found.refused.map((it) => [it.kind, visible(it.name), visible(it.why)]),
          ),
        )
      : null,
    h(
      "section.card",
      h("h2", "Interface"),
      changes,
      h(
        "p",
        `${lists.tools.length} tools, ${lists.prompts.length} prompts, ${lists.resources.length} resources. `,
        link(`#/tools?q=${encodeURIComponent(context.name)}`, "Its tools"),
      ),
      details.instructions ? h("details", h("summary", "Instructions"), literal(details.instructions)) : null,
    ),
    log[1],
    h(
      "section.card",
      h("h2", "Standard error"),
      details.stderr.length
        ? literal(details.stderr.join("\n"), "Standard error")
        : empty("The server has written nothing to standard error since its start."),
    ),
  ];
}

/**
 * Compares the lists of a server with those that its user has seen. Changes are shown until the
 * user says that they are seen.
 */
function compared(name, lists) {
  const key = `marquetry.interface.${name}`;
  const now = { tools: lists.tools, prompts: lists.prompts };
  const keep = () => {
    try {
      localStorage.setItem(key, JSON.stringify({ ...now, at: Date.now() }));
    } catch {
      /* If the store is full, only the comparison is lost. */
    }
  };
  let before;
  try {
    before = JSON.parse(localStorage.getItem(key) ?? "null");
  } catch {
    before = null;
  }
  if (!before) {
    keep();
    return null;
  }
  const since = before.at ? new Date(before.at).toLocaleString() : "your last visit";
  const lines = ["tools", "prompts"].flatMap((kind) => [
    ...now[kind].filter((it) => !before[kind]?.includes(it)).map((it) => `+ ${it}`),
    ...(before[kind] ?? []).filter((it) => !now[kind].includes(it)).map((it) => `− ${it}`),
  ]);
  if (!lines.length) {
    keep();
    return h("p.muted", `unchanged since ${since}`);
  }
  const box = h(
    "div",
    { tabIndex: -1 },
    h("p", `Changed since ${since}:`),
    h("pre", { tabIndex: 0, "aria-label": "Changes" }, lines.join("\n")),
    button(
      "Seen",
      () => {
        keep();
        // The focus stays here when the button goes.
        fill(box, h("p.muted", "you have seen all changes")).focus();
      },
      { class: "small" },
    ),
  );
  return box;
}
