// The log of messages.

import { data } from "./api.js";
import { button, bytes, copy, download, empty, fill, h, link, time, to, virtualList } from "./dom.js";
import { parse, stringify, withoutHidden } from "./json.js";
import { literal, tree } from "./result.js";

// Messages of one answer of the server, and messages that a page shows.
const PAGE = 200;
const MOST = 10_000;

/** The messages of one call: those that this page exchanged, and those in the log. */
export function messagesOf(record, sent) {
  const box = h("div");
  const own = (sent ?? []).map((message, index) =>
    h(
      "details",
      { open: index === 0 },
      h("summary", `${index === 0 ? "→" : "←"} ${message.method ?? (message.error ? "error" : "result")}`),
      tree(message),
    ),
  );
  if (own.length) box.append(h("h2", "Between this page and the server"), ...own);
  if (!record) return box;
  const logged = h("div", "loading…");
  box.append(h("h2", "In the log"), logged);
  data(`messages?call=${encodeURIComponent(record.id)}`).then(
    ({ messages: found }) => {
      if (!found.length) return fill(logged, empty("The log has no message of this call any more."));
      return fill(logged, found.reverse().map(messageRow));
    },
    (error) => fill(logged, error.message),
  );
  return box;
}

function messageRow(head) {
  const details = h("details", h("summary", messageLine(head)));
  details.addEventListener("toggle", async () => {
    if (!details.open || details.childElementCount > 1) return;
    const place = h("div", "loading…");
    details.append(place);
    try {
      fill(place, messageBody(await data(`messages/${head.id}`)));
    } catch (error) {
      fill(place, error.message);
    }
  });
  return details;
}

function messageLine(head) {
  return [
    h("span.arrow", { title: head.sent ? "sent by this server" : "received by this server" }, head.sent ? "→ " : "← "),
    h("span.grow", `${head.side === head.peer ? "" : `${head.side} `}${head.peer} `, h("strong", head.kind)),
    " ",
    h("span", bytes(head.bytes)),
    " ",
    time(head.at),
  ];
}

function messageBody(message) {
  const parts = [message.is_cut ? h("p.warn", `the first 64 KiB of ${bytes(message.bytes)}`) : null];
  try {
    parts.push(tree(parse(message.text)));
  } catch {
    parts.push(literal(message.text));
  }
  parts.push(button("Copy", () => copy(message.text), { class: "small" }));
  return parts;
}

/** Messages that this tab keeps until they are unpinned, also when the server has dropped them. */
const PINS = "marquetry.pins";
const MAX_PINS = 20;
const pins = () => JSON.parse(sessionStorage.getItem(PINS) ?? "[]");

function pinButton(message) {
  const isPinned = () => pins().some((it) => it.id === message.id);
  const pin = button("", () => {
    const others = pins().filter((it) => it.id !== message.id);
    sessionStorage.setItem(PINS, JSON.stringify(isPinned() ? others : [message, ...others].slice(0, MAX_PINS)));
    draw();
  });
  const draw = () => {
    pin.textContent = isPinned() ? "Unpin" : "Pin";
  };
  draw();
  return pin;
}

/**
 * A link that fills the form of a tool with the arguments of a message of an agent, so that the
 * call can be made again.
 */
function callAgain(message) {
  try {
    const { method, params } = parse(message.text);
    if (message.side !== "agent" || message.sent || method !== "tools/call") return null;
    return link(
      `${to("tools", params.name)}?args=${encodeURIComponent(stringify(withoutHidden(params.arguments ?? {})))}`,
      "Call it again",
    );
  } catch {
    return null;
  }
}

/** Gets the whole messages of a list, the newest first, and saves them as a file. */
async function exportAll(heads, { status, signal }) {
  const found = [];
  // Browsers allow six requests to a host; events have one.
  for (let at = 0; at < heads.length && !signal.aborted; at += 4) {
    const part = await Promise.all(heads.slice(at, at + 4).map((it) => data(`messages/${it.id}`).catch(() => it)));
    found.push(...part);
    status.textContent = `${found.length} of ${heads.length}`;
  }
  download("messages.json", stringify(found, 2), "application/json");
  status.textContent = `${found.length} messages are saved${signal.aborted ? "; you stopped it" : ""}.`;
}

/** The log of messages. */
export async function messages(context) {
  return context.name ? one(context) : all(context);
}

async function one(context) {
  const pinned = pins().find((it) => it.id === context.name);
  const message = pinned ?? (await data(`messages/${encodeURIComponent(context.name)}`));
  return [
    h("p", messageLine(message)),
    h("p", pinButton(message), " ", callAgain(message)),
    message.call ? h("p", link(to("calls", message.call), "Its call")) : null,
    messageBody(message),
    h("p", link("#/messages", "All messages")),
  ];
}

async function all(context) {
  let kept = [];
  let waiting = [];
  const page = async (before) =>
    (
      await data(
        `messages?q=${encodeURIComponent(filter.value)}${before ? `&before=${encodeURIComponent(before)}` : ""}`,
      )
    ).messages;
  let searches = 0;
  const fetchAll = async () => {
    searches += 1;
    kept = await page();
    waiting = [];
    older.hidden = kept.length < PAGE;
    draw();
  };
  const row = (it) => h("a", { href: to("messages", it.id), class: "callrow" }, messageLine(it));
  const rows = virtualList("Messages", [], row);
  const count = h("span.muted");
  const nothing = empty();
  let hidesOwn = false;
  const hide = button(
    "Hide the console’s own",
    () => {
      hidesOwn = !hidesOwn;
      hide.setAttribute("aria-pressed", hidesOwn);
      draw();
    },
    { "aria-pressed": "false" },
  );
  const draw = () => {
    const found = hidesOwn ? kept.filter((it) => !/^(marquetry-)?console\b/.test(it.peer)) : kept;
    rows.update(found);
    count.textContent = `${found.length} messages`;
    nothing.hidden = found.length > 0;
    fill(
      nothing,
      filter.value || kept.length
        ? "No message matches."
        : "The log is empty. Messages of agents, servers and Views appear here.",
    );
  };
  /** Adds messages that are not there yet: an event may tell of one that was fetched. */
  const add = (found) => {
    const known = new Set(kept.slice(0, 1000).map((it) => it.id));
    kept = [...found.filter((it) => !known.has(it.id)), ...kept].slice(0, MOST);
    draw();
  };
  /** Adds the messages that have come; older ones that were fetched stay. */
  const fetchNew = async () => {
    const search = searches;
    const found = await page();
    if (search === searches) add(found);
  };
  let asked;
  const soon = (fetch, after) => {
    clearTimeout(asked);
    asked = setTimeout(() => {
      asked = undefined;
      fetch().catch(() => {});
    }, after);
  };
  const filter = h("input", {
    type: "search",
    placeholder: "text in messages",
    "aria-label": "Search messages",
    value: context.query.get("q") ?? "",
    oninput: () => {
      context.setQuery({ q: filter.value });
      soon(fetchAll, 150);
    },
  });
  let isPaused = false;
  const pause = button(
    "Pause",
    () => {
      isPaused = !isPaused;
      pause.setAttribute("aria-pressed", isPaused);
      if (!isPaused) fetchAll();
    },
    { "aria-pressed": "false" },
  );
  const older = button("Older messages", async () => {
    const found = await page(kept.at(-1)?.id);
    kept = [...kept, ...found];
    older.hidden = found.length < PAGE;
    draw();
  });
  context.on("message", (event) => {
    if (isPaused) return;
    // Only the server can search the texts: an event does not have them.
    if (filter.value) {
      if (!asked) soon(fetchNew, 500);
      return;
    }
    // Many come at a time; the list changes once for all.
    if (!waiting.length)
      queueMicrotask(() => {
        add(waiting.reverse());
        waiting = [];
      });
    waiting.push(event.detail);
  });
  context.onReset(fetchAll);
  let exporting;
  const status = h("span.muted", { role: "status" });
  const save = button(
    "Export",
    async () => {
      if (exporting) {
        exporting.abort();
        return;
      }
      exporting = new AbortController();
      save.textContent = "Stop";
      await exportAll(kept, { status, signal: exporting.signal });
      save.textContent = "Export";
      exporting = undefined;
    },
    { class: "small" },
  );
  context.onLeave(() => {
    clearTimeout(asked);
    exporting?.abort();
  });
  await fetchAll();
  return [
    h("div.bar", filter, pause, hide, count, save, status),
    pins().length ? h("details", { open: true }, h("summary", "Pinned"), pins().map(row)) : null,
    nothing,
    rows.element,
    older,
  ];
}
