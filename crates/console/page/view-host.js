// Shows the View of a tool. The rules are in the program; this module passes messages on and does
// what the program asks.

import { base, list, post, result, text } from "./api.js";
import { consent } from "./consent.js";
import { button, download, h } from "./dom.js";
import { HIDDEN, parse, stringify, withoutHidden } from "./json.js";
import { visible } from "./result.js";
import { DARK, surroundings } from "./surroundings.js";

// Bytes that may wait for the server.
const MAX_WAITING = 32 << 20;
const encoder = new TextEncoder();
const sizeOf = (json) => encoder.encode(json).length;

/**
 * Shows the View of a call in `container`; `ended` resolves when a running call is over. `own` has
 * the arguments and the result of a call that this page has made, of which a record leaves out
 * secrets. `told(kind, value)` receives reports of the View. Returns `{ close, callTool,
 * ping, setTheme, setWidth, enlarge }`.
 */
export async function openView(container, { record, uri, ended, own, told = () => {} }) {
  const call = record.id;
  const { tool } = record;
  const contents = await result("resources/read", { uri });
  const listing = await listed(uri, contents);
  const view = await post("views", {
    tool,
    contents,
    listing,
    context: surroundings(container, { displayMode: "inline" }),
    call,
  });
  for (const note of view.notes) told("note", note);
  if (!view.frame) throw new Error("this server has no second port for Views (console.views_port)");
  const { origin } = new URL(view.frame);
  if (origin === location.origin) throw new Error("Views need another origin than this page (console.views_origin)");
  const running = new Map();
  const answers = new Map();
  let nextCall = 1;
  let isClosed = false;
  let room = view.maxMessages;
  let roomAt = performance.now();
  let mode = "inline";
  let theme;
  let isLeft = false;
  const inlineSize = {};
  let focused;

  const frame = h("iframe", {
    title: `View of ${tool}`,
    sandbox: "allow-scripts allow-same-origin allow-forms",
    allow: view.allow || undefined,
    referrerpolicy: "no-referrer",
  });
  const inline = button("Close", () => leave(), { "aria-label": "Leave the full screen" });
  const box = h(
    "div",
    {
      class: view.prefersBorder === false ? "view" : "view view-border",
      onkeydown: (event) => {
        if (event.key === "Escape") leave();
      },
    },
    h("div.bar", h("strong.grow", tool), inline),
    frame,
  );
  const socket = new WebSocket(new URL("api/console/views/socket", base).href.replace(/^http/, "ws"), [
    "marquetry-view",
    view.ticket,
  ]);
  const waiting = [];

  const tell = (json) => {
    if (isClosed) return;
    if (socket.bufferedAmount > MAX_WAITING) fail("The View sends faster than the server reads.");
    else if (socket.readyState === WebSocket.OPEN) socket.send(json);
    else waiting.push(json);
  };
  /** Tells the program what happened, in order. */
  const happened = (what) => {
    let json = stringify(what);
    if (sizeOf(json) > view.maxSocketBytes) {
      const message = `it is larger than ${view.maxSocketBytes} bytes`;
      if (what.callAppTool) return apply.appAnswer({ ...what.callAppTool, error: message });
      // The next step of progress tells as much.
      if (what.progress) return;
      json = stringify(
        what.answer
          ? { answer: { token: what.answer.token, error: { code: -32000, message } } }
          : { cancelled: message },
      );
    }
    tell(json);
  };
  const fail = (why) => {
    if (isClosed) return;
    if (!isLeft) told("error", why);
    remove();
  };
  const closed = () => new Error("the View was closed");
  const remove = () => {
    if (isClosed) return;
    show("inline");
    isClosed = true;
    clearInterval(watch);
    removeEventListener("message", onMessage);
    sizes.disconnect();
    DARK.removeEventListener("change", changed);
    for (const controller of running.values()) controller.abort();
    for (const { reject } of answers.values()) reject(closed());
    told("appTools", []);
    socket.close();
    box.remove();
  };
  socket.onopen = () => waiting.splice(0).forEach((json) => socket.send(json));
  socket.onclose = (event) => fail(event.reason || "The connection to the View was lost.");
  socket.onmessage = (event) => {
    const [[name, value]] = Object.entries(JSON.parse(event.data));
    apply[name]?.(value);
  };
  /** Whether a window is the View's document, or in it. */
  const isInside = (it) => it != null && it !== it.parent && (it.parent === frame.contentWindow || isInside(it.parent));
  const hasRoom = () => {
    const now = performance.now();
    room = Math.min(view.maxMessages, room + ((now - roomAt) / 1000) * view.messagesPerSecond) - 1;
    roomAt = now;
    return room >= 0;
  };
  const flooded = () => fail("The View was removed: it sends too many messages.");
  const onMessage = (event) => {
    // The proxy counts the messages that it passes on. Messages past it count here: they keep this page busy.
    if (isInside(event.source) && !hasRoom()) return flooded();
    if (event.source !== frame.contentWindow || event.origin !== origin) return;
    // The proxy says these; it passes no such message of the View on.
    if (event.data?.method === "ui/notifications/sandbox-left") return fail("The View left its document.");
    if (event.data?.method === "ui/notifications/sandbox-flooded") return flooded();
    let json;
    try {
      json = JSON.stringify(event.data);
    } catch {
      /* Values that are not JSON are not messages. */
    }
    if (json === undefined) return;
    const bytes = sizeOf(json);
    if (bytes > view.maxMessageBytes) {
      const { id, method } = event.data;
      const isRequest = typeof method === "string" && (typeof id === "string" || Number.isInteger(id));
      happened({ tooLong: { id: isRequest ? id : null, bytes } });
    } else tell(`{"message":${json}}`);
  };
  const send = (message) => frame.contentWindow?.postMessage(message, origin);
  const changed = () => happened({ context: surroundings(container, { displayMode: mode, theme, frame }) });
  // The height of a View in the page is the one that the View asked for: it is no news.
  const sizeNow = () => `${frame.clientWidth} ${mode === "fullscreen" ? frame.clientHeight : ""}`;
  let size;
  const sizes = new ResizeObserver(() => {
    if (isLeft || size === sizeNow()) return;
    size = sizeNow();
    changed();
  });
  const leave = () => {
    if (mode !== "inline") happened({ displayMode: "inline" });
  };

  /** Covers the page with the View, or puts it back. The frame stays where it is: a frame that moves loads again. */
  const show = (next) => {
    if (mode === next) return;
    mode = next;
    box.dataset.mode = mode;
    const isFull = mode === "fullscreen";
    // An element that becomes inert loses the focus.
    if (isFull) focused = document.activeElement;
    for (let it = box; it !== document.body && it.parentElement; it = it.parentElement) {
      for (const other of it.parentElement.children) if (other !== it) other.inert = isFull;
    }
    Object.assign(frame.style, isFull ? { height: "", width: "" } : inlineSize);
    (isFull ? inline : focused)?.focus();
    size = sizeNow();
    changed();
  };

  /** Shows the questions of a tool below the View, also in full screen. Returns the answers for its call. */
  const answersFor = async (name, found, signal, resend) => {
    const { activeElement } = document;
    const output = h("div");
    box.append(output);
    try {
      return await (await import("./questions.js")).answersTo(found, { output, name, signal, resend });
    } finally {
      output.remove();
      if (document.activeElement === document.body) activeElement.focus();
    }
  };
  const perform = {
    openLink: async ({ url }, { signal }) => {
      if (!(await consent("This View wants to open a link.", visible(url), "Open the link", signal)))
        throw new Error("Link opening denied by user");
      window.open(url, "_blank", "noopener,noreferrer");
      return {};
    },
    setDisplayMode: (next) => {
      show(next);
      return { mode };
    },
    download: async (files, { signal }) => {
      if (
        !(await consent(
          "This View wants to save files.",
          visible(files.map((file) => `${file.name}${file.link ? ` from ${file.link}` : ""}`).join("\n")),
          "Save them",
          signal,
        ))
      )
        throw new Error("Download denied by user");
      files.forEach(save);
      return {};
    },
    callTool: async ({ tool: name, schema, arguments: given, wantsProgress }, { token, signal }) => {
      if (!name) throw new Error("the server has no such tool any more");
      const onmessage = ({ method, params }) => {
        if (!wantsProgress || method !== "notifications/progress") return;
        const { progressToken, ...progress } = params;
        happened({ progress: { token, params: progress } });
      };
      const call = (more, signal) =>
        result("tools/call", { name, arguments: given, ...more }, { signal, schema, onmessage });
      let found = await call({}, signal);
      while (found.resultType === "input_required")
        found = await call(await answersFor(name, found, signal, call), signal);
      return found;
    },
    // A View reads and lists the resources of its own server only.
    forward: ({ server, method, params }, { signal }) => result(method, params, { signal, server }),
    sample: () => {
      throw new Error("this host has no model");
    },
  };
  const request = async ({ token, ...asked }) => {
    const [[name, what]] = Object.entries(asked);
    const controller = new AbortController();
    const { signal } = controller;
    running.set(token, controller);
    try {
      if (name === "addMessage") {
        const { content } = what;
        if (
          !(await consent(
            "This View wants to send a message as you.",
            visible(content.map((item) => item.text ?? `[${item.type}]`).join("\n")),
            "Send it",
            signal,
          ))
        )
          throw new Error("Message denied by user");
        happened({ addMessage: { token } });
        told("message", content);
      } else happened({ answer: { token, result: await perform[name](what, { token, signal }) } });
    } catch (error) {
      if (!signal.aborted)
        happened({
          answer: { token, error: { code: error.data?.code ?? -32000, message: error.data?.message ?? error.message } },
        });
    } finally {
      running.delete(token);
    }
  };
  const apply = {
    send,
    sendToSandbox: send,
    resize: ({ width, height }) => {
      if (height !== undefined) inlineSize.height = `${height}px`;
      if (width !== undefined) inlineSize.width = `${width}px`;
      if (mode === "inline") Object.assign(frame.style, inlineSize);
    },
    showMode: show,
    request,
    cancel: ({ token }) => running.get(token)?.abort(),
    modelContext: (value) => told("modelContext", value),
    log: (entry) => told("log", entry),
    appTools: (tools) => told("appTools", tools),
    appAnswer: ({ call: number, result: found, error }) => {
      const { resolve, reject } = answers.get(number) ?? {};
      answers.delete(number);
      if (error === undefined) resolve?.(found);
      else reject?.(new Error(error));
    },
    alive: (isAlive) => told("alive", isAlive),
    remove: ({ reason }) => fail(reason),
  };
  // A frame that is taken out of the page is gone; so are all when the tab of the browser closes.
  const watch = setInterval(() => {
    if (!box.isConnected) remove();
  }, 1000);

  // The listener is there before the frame is: the proxy says once that it is ready.
  addEventListener("message", onMessage);
  DARK.addEventListener("change", changed);
  frame.src = view.frame;
  container.append(box);
  // The window, the panes, and a question below a View in full screen change the size of its frame.
  sizes.observe(frame);
  happened({ input: own?.args ?? recorded(record.arguments, told) });
  const over = async () => {
    const { outcome, problem, upstream, model, same } = await (ended ?? record);
    // The View gets the agent's own words. An agent that disconnects gives no reason.
    if (outcome === "cancelled")
      return happened({ cancelled: problem?.message ?? "the agent cancelled the call, or disconnected" });
    if (own && (same || !upstream)) return happened({ result: own.result });
    // The View gets the whole answer of the server; the model sees a part of it. The page that made
    // the call gets it as it was written, as it would have without a capture.
    const part = own ? "original" : upstream ? "said" : "shown";
    const said = await text(`calls/${encodeURIComponent(call)}/${part}`).catch(() => undefined);
    if (said !== undefined) return happened({ result: parse(said) });
    if (own) {
      told("note", "The View gets what the model sees: the whole result was too large to store.");
      return happened({ result: own.result });
    }
    const why =
      (upstream ?? model) ? "the result was too large to store" : (problem?.message ?? "the call has no result");
    told("note", `The View gets no result: ${why}.`);
    return happened({ cancelled: why });
  };
  over().catch((error) => fail(error.message));

  return {
    /** Calls a tool of the View. */
    callTool: (name, given = {}) =>
      new Promise((resolve, reject) => {
        if (isClosed) reject(closed());
        const number = nextCall++;
        answers.set(number, { resolve, reject });
        happened({ callAppTool: { call: number, name, arguments: given } });
      }),
    ping: () => happened({ ping: {} }),
    /** Lets the View save its state, and removes it. It continues, hidden, until it has answered or its time is up. */
    close(reason = "the page is left") {
      if (isClosed || isLeft) return;
      show("inline");
      isLeft = true;
      // A frame that moves in another way loads again. A browser without this drops the View at once.
      if (document.body.moveBefore && box.isConnected) {
        document.body.moveBefore(box, null);
        box.hidden = true;
        box.inert = true;
      }
      happened({ teardown: { reason } });
    },
    /** Shows the View in a theme, or in that of the page. */
    setTheme(next) {
      theme = next;
      frame.style.colorScheme = next ?? "";
      changed();
    },
    /** Gives the View a width in pixels, or that of the page. */
    setWidth(pixels) {
      container.style.maxWidth = pixels ? `${pixels}px` : "";
      changed();
    },
    /** Covers the page with the View, if it can be shown so. */
    enlarge: () => happened({ displayMode: "fullscreen" }),
  };
}

function save({ name, mimeType, data: encoded, link }) {
  if (link === undefined)
    download(
      name,
      Uint8Array.from(atob(encoded), (it) => it.charCodeAt(0)),
      mimeType,
    );
  else window.open(link, "_blank", "noopener,noreferrer");
}

/** The metadata of the View in `resources/list`, which counts only if its contents have none. */
async function listed(uri, { contents = [] }) {
  if (contents.some((it) => it._meta?.ui)) return undefined;
  const all = await list("resources/list", "resources").catch(() => []);
  return all.find((it) => it.uri === uri)?._meta;
}

/** The recorded arguments of a call, as far as they were kept. */
function recorded({ json, bytes }, told) {
  if (!json) {
    if (bytes) told("note", "The arguments were too large to store; the View gets none.");
    return {};
  }
  if (json.includes(HIDDEN)) told("note", "Secret arguments are not recorded; the View gets the others.");
  return withoutHidden(parse(json));
}
