// The View's side of MCP Apps (SEP-1865, protocol version 2026-01-26).
//
// A View is a page in a frame. It talks with the host that embeds it in JSON-RPC 2.0 objects over
// `postMessage`. The host is another origin, and this page usually has none (a sandboxed frame), so
// the window a message comes from says who sent it.
//
//     const view = new View({ name: "clock", version: "1.0.0", displayModes: ["inline", "fullscreen"] });
//     view.on("result", (result) => show(result.structuredContent));
//     await view.connect();
//     const answer = await view.callTool("get_time", { zone: "UTC" });
//
// This file uses no other file, and touches the document only in `applyContext` and `watchSize`.

/** The version of the protocol between View and host. */
export const PROTOCOL_VERSION = "2026-01-26";

/** Time that the host has to answer a request, in milliseconds. Progress starts it again. */
export const DEFAULT_TIMEOUT_MS = 60_000;

/** Time that the handlers of "teardown" have before the host gets its answer, in milliseconds. */
const TEARDOWN_MS = 1_000;

/** Requests that may wait for an answer at once, in each direction. */
const MAX_IN_FLIGHT = 64;

const METHOD_NOT_FOUND = -32601;
const REQUEST_FAILED = -32000;

/**
 * A request that failed: refused by the host (`code` is that of JSON-RPC), or not answered in time
 * (`code` is undefined).
 */
export class HostError extends Error {
  constructor(message, { code, data, reason = "refused" } = {}) {
    super(message);
    this.name = "HostError";
    this.code = code;
    this.data = data;
    /** "refused", "timeout", "cancelled", "closed", "unsupported" or "no-host". */
    this.reason = reason;
  }
}

/**
 * The connection to the host.
 *
 * Events: "input" (complete arguments of the tool), "partial-input" (arguments so far), "result" (a
 * CallToolResult), "cancelled" (a reason or undefined), "context" (the host context as it is now,
 * and what of it changed), "teardown" (a reason; the host waits for the handler's promise),
 * "list-changed" ("tools", "resources" or "prompts").
 */
export class View {
  #window;
  #info;
  #displayModes;
  #timeoutMs;
  #handlers = new Map();
  #pending = new Map();
  #answering = new Map();
  #nextId = 1;
  #state = "new";
  #origin = "*";
  #listener = (event) => this.#receive(event);

  /** Name and version of the host, once connected. */
  hostInfo = {};
  /** The capabilities of the host, once connected; `can` reads them. */
  hostCapabilities = {};
  /** Theme, styles, display mode and more, as it is now. */
  hostContext = {};

  constructor({
    name,
    version,
    title,
    displayModes = ["inline"],
    timeoutMs = DEFAULT_TIMEOUT_MS,
    window = globalThis.window,
  }) {
    this.#info = title === undefined ? { name, version } : { name, version, title };
    this.#displayModes = displayModes;
    this.#timeoutMs = timeoutMs;
    this.#window = window;
  }

  /** Whether messages can be sent. */
  get isConnected() {
    return this.#state === "ready";
  }

  /** Adds a handler of an event. Register all before `connect`: the host sends the input at once. */
  on(event, handler) {
    const handlers = this.#handlers.get(event) ?? [];
    handlers.push(handler);
    this.#handlers.set(event, handlers);
    return this;
  }

  /** Greets the host. Rejects if there is no host, if it does not answer, or if it speaks another version. */
  async connect() {
    if (this.#state !== "new") throw new HostError("this View has already been connected", { reason: "closed" });
    if (!this.#window.parent || this.#window.parent === this.#window) {
      this.#state = "closed";
      throw new HostError("this page must be shown by a host of MCP Apps", { reason: "no-host" });
    }
    this.#state = "greeting";
    this.#window.addEventListener("message", this.#listener);
    try {
      const answer = await this.request("ui/initialize", {
        appInfo: this.#info,
        appCapabilities: { availableDisplayModes: this.#displayModes },
        protocolVersion: PROTOCOL_VERSION,
      });
      if (answer.protocolVersion !== PROTOCOL_VERSION) {
        throw new HostError(
          `the host speaks version ${String(answer.protocolVersion)}, this View ${PROTOCOL_VERSION}`,
          { reason: "unsupported" },
        );
      }
      this.hostInfo = object(answer.hostInfo);
      this.hostCapabilities = object(answer.hostCapabilities);
      this.hostContext = object(answer.hostContext);
    } catch (error) {
      this.close();
      throw error;
    }
    this.#state = "ready";
    this.#emit("context", this.hostContext, this.hostContext);
    this.notify("ui/notifications/initialized", {});
  }

  /** Ends the connection. Requests that wait are rejected, and later messages are ignored. */
  close() {
    if (this.#state === "closed") return;
    this.#state = "closed";
    this.#window.removeEventListener("message", this.#listener);
    for (const id of [...this.#pending.keys()]) {
      this.#settle(id)?.reject(new HostError("the View was closed", { reason: "closed" }));
    }
    for (const controller of this.#answering.values()) controller.abort();
    this.#answering.clear();
  }

  /** Whether the host offers this: a name such as "serverTools", or "message.text" for one of its kinds. */
  can(capability) {
    let value = this.hostCapabilities;
    for (const name of capability.split(".")) {
      if (value === null || typeof value !== "object" || !Object.hasOwn(value, name)) return false;
      value = value[name];
    }
    return value !== false && value !== null && value !== undefined;
  }

  /**
   * Calls a tool of the server that this View is from. Resolves with its CallToolResult, which may have `isError`.
   * `onProgress` gets the parameters of each progress notification; each starts `timeoutMs` again.
   */
  async callTool(name, args = {}, options = {}) {
    this.#need("serverTools", "calls of tools");
    return object(await this.request("tools/call", { name, arguments: args }, { ...options, hasProgress: true }));
  }

  /** Lists the tools of the server that this View may call: all pages. Not every host offers this. */
  async listTools() {
    this.#need("serverTools", "calls of tools");
    return this.#pages("tools/list", "tools");
  }

  /** Reads a resource of the server. */
  async readResource(uri, options = {}) {
    this.#need("serverResources", "reading resources");
    return object(await this.request("resources/read", { uri }, options));
  }

  /** Lists the resources of the server: all pages. */
  async listResources() {
    this.#need("serverResources", "reading resources");
    return this.#pages("resources/list", "resources");
  }

  /** Asks the host to open a link outside of the frame. */
  async openLink(url) {
    this.#need("openLinks", "opening links");
    this.#accepted(await this.request("ui/open-link", { url }), "the link was not opened");
  }

  /** Asks the host to add a message of the user to the conversation: a text, or content blocks. */
  async sendMessage(content) {
    this.#need("message", "messages to the conversation");
    const blocks = typeof content === "string" ? [{ type: "text", text: content }] : content;
    this.#accepted(await this.request("ui/message", { role: "user", content: blocks }), "the message was not accepted");
  }

  /** Replaces what this View adds to the model's next turn; without content and structured content, nothing. */
  async setModelContext({ content, structuredContent } = {}) {
    this.#need("updateModelContext", "context for the model");
    const blocks = typeof content === "string" ? [{ type: "text", text: content }] : content;
    const params = {};
    if (blocks !== undefined) params.content = blocks;
    if (structuredContent !== undefined) params.structuredContent = structuredContent;
    await this.request("ui/update-model-context", params);
  }

  /** Asks the host to save files: embedded resources or resource links. */
  async downloadFile(contents) {
    this.#need("downloadFile", "saving files");
    this.#accepted(await this.request("ui/download-file", { contents }), "the file was not saved");
  }

  /**
   * Asks for a display mode, and resolves with the one that the host chose. A mode that the host
   * does not offer is not asked for.
   */
  async requestDisplayMode(mode) {
    const current = this.hostContext.displayMode ?? "inline";
    const offered = this.hostContext.availableDisplayModes;
    if (!this.#displayModes.includes(mode) || !Array.isArray(offered) || !offered.includes(mode)) return current;
    const chosen = (await this.request("ui/request-display-mode", { mode })).mode;
    if (typeof chosen !== "string") return current;
    this.#changeContext({ displayMode: chosen });
    return chosen;
  }

  /** Writes a line to the host's log of this View, if it keeps one. */
  log(level, data) {
    if (this.can("logging")) this.notify("notifications/message", { level, logger: this.#info.name, data });
  }

  /** Tells the host how large the content is, in CSS pixels. */
  reportSize(width, height) {
    this.notify("ui/notifications/size-changed", { width, height });
  }

  /** Asks the host to take this View down. */
  requestTeardown() {
    this.notify("ui/notifications/request-teardown", {});
  }

  /** Sends a notification. Nothing is sent before the host was greeted. */
  notify(method, params) {
    if (this.#state === "ready") this.#post({ jsonrpc: "2.0", method, params });
  }

  /** Sends a request. `signal` cancels it. Rejects with a `HostError`. */
  request(method, params = {}, { timeoutMs = this.#timeoutMs, signal, onProgress, hasProgress = false } = {}) {
    if (this.#state !== "ready" && method !== "ui/initialize") {
      return Promise.reject(new HostError(`${method}: the View is not connected`, { reason: "closed" }));
    }
    if (signal?.aborted) return Promise.reject(new HostError(`${method} was cancelled`, { reason: "cancelled" }));
    if (this.#pending.size >= MAX_IN_FLIGHT) {
      return Promise.reject(
        new HostError(`${method}: ${MAX_IN_FLIGHT} requests wait for the host already`, { reason: "refused" }),
      );
    }
    const id = this.#nextId++;
    const sent = hasProgress || onProgress ? { ...params, _meta: { ...params._meta, progressToken: id } } : params;
    return new Promise((resolve, reject) => {
      const giveUp = (reason, message) => {
        this.#settle(id)?.reject(new HostError(message, { reason }));
        this.notify("notifications/cancelled", { requestId: id, reason: message });
      };
      const cancel = () => giveUp("cancelled", `${method} was cancelled`);
      const expire = () => giveUp("timeout", `${method} was not answered within ${timeoutMs / 1000} s`);
      const start = () => (timeoutMs > 0 ? setTimeout(expire, timeoutMs) : undefined);
      const request = { resolve, reject, signal, cancel, onProgress, timer: start() };
      request.restart = () => {
        clearTimeout(request.timer);
        request.timer = start();
      };
      signal?.addEventListener("abort", cancel);
      this.#pending.set(id, request);
      try {
        this.#post({ jsonrpc: "2.0", id, method, params: sent });
      } catch (error) {
        // A value that cannot be cloned, such as a function.
        this.#settle(id);
        reject(new HostError(`${method} cannot be sent: ${error.message}`, { reason: "refused" }));
      }
    });
  }

  async #pages(method, member) {
    const MAX_PAGES = 100;
    const all = [];
    let cursor;
    for (let page = 0; page < MAX_PAGES; page++) {
      const answer = object(await this.request(method, cursor === undefined ? {} : { cursor }));
      if (Array.isArray(answer[member])) all.push(...answer[member]);
      cursor = answer.nextCursor;
      if (typeof cursor !== "string") break;
    }
    return all;
  }

  #need(capability, what) {
    if (!this.can(capability)) throw new HostError(`this host does not offer ${what}`, { reason: "unsupported" });
  }

  #accepted(answer, problem) {
    if (answer?.isError) throw new HostError(problem, { code: REQUEST_FAILED });
  }

  #post(message) {
    this.#window.parent.postMessage(message, this.#origin);
  }

  #receive(event) {
    if (event.source !== this.#window.parent) return;
    if (this.#origin !== "*" && event.origin !== this.#origin) return;
    const message = event.data;
    if (message === null || typeof message !== "object" || message.jsonrpc !== "2.0") return;
    // The two sides number their requests separately: a message with a method is never an answer. An id may be 0.
    const hasId = typeof message.id === "string" || typeof message.id === "number";
    if (typeof message.method === "string") {
      if (hasId) this.#answer(message.id, message.method, object(message.params));
      else this.#take(message.method, object(message.params));
    } else if (hasId) {
      this.#complete(message, event.origin);
    }
  }

  #complete(message, origin) {
    const request = this.#settle(message.id);
    if (!request) return;
    if (message.error !== null && typeof message.error === "object") {
      const { code, data } = message.error;
      request.reject(new HostError(String(message.error.message ?? "the host refused"), { code, data }));
    } else {
      // From now on only the origin that answered is talked to. A sandboxed host has none.
      if (this.#origin === "*" && /^https?:\/\//.test(origin)) this.#origin = origin;
      request.resolve(object(message.result));
    }
  }

  /** Takes a request out of those that wait. */
  #settle(id) {
    const request = this.#pending.get(id);
    if (!request) return undefined;
    this.#pending.delete(id);
    clearTimeout(request.timer);
    request.signal?.removeEventListener("abort", request.cancel);
    return request;
  }

  #take(method, params) {
    switch (method) {
      case "ui/notifications/tool-input":
        return this.#emit("input", object(params.arguments));
      case "ui/notifications/tool-input-partial":
        return this.#emit("partial-input", object(params.arguments));
      case "ui/notifications/tool-result":
        return this.#emit("result", params);
      case "ui/notifications/tool-cancelled":
        return this.#emit("cancelled", params.reason);
      case "ui/notifications/host-context-changed":
        return this.#changeContext(params);
      case "notifications/progress":
        return this.#progress(params);
      case "notifications/cancelled":
        return this.#answering.get(params.requestId)?.abort();
      case "notifications/tools/list_changed":
        return this.#emit("list-changed", "tools");
      case "notifications/resources/list_changed":
        return this.#emit("list-changed", "resources");
      case "notifications/prompts/list_changed":
        return this.#emit("list-changed", "prompts");
      default:
        return undefined;
    }
  }

  #progress(params) {
    const request = this.#pending.get(params.progressToken);
    if (!request) return;
    request.restart();
    request.onProgress?.(params);
  }

  /** Merges a change of the host context: each member is replaced as a whole. */
  #changeContext(change) {
    this.hostContext = { ...this.hostContext, ...change };
    this.#emit("context", this.hostContext, change);
  }

  async #answer(id, method, params) {
    const respond = (answer) => this.#state !== "closed" && this.#post({ jsonrpc: "2.0", id, ...answer });
    if (this.#answering.size >= MAX_IN_FLIGHT) {
      respond({ error: { code: REQUEST_FAILED, message: "too many requests at once" } });
      return;
    }
    switch (method) {
      case "ping":
        respond({ result: {} });
        return;
      case "ui/resource-teardown": {
        const controller = new AbortController();
        this.#answering.set(id, controller);
        let timer;
        const enough = new Promise((resolve) => (timer = setTimeout(resolve, TEARDOWN_MS)));
        await Promise.race([Promise.all(this.#emit("teardown", params.reason, controller.signal)), enough]);
        clearTimeout(timer);
        respond({ result: {} });
        this.close();
        return;
      }
      default:
        respond({ error: { code: METHOD_NOT_FOUND, message: `this View has no method ${method.slice(0, 100)}` } });
    }
  }

  /** Calls the handlers of an event. A handler that fails does not stop the others. */
  #emit(event, ...values) {
    const failed = (error) => {
      console.error(error);
      this.log("error", `${event}: ${error?.message ?? error}`);
    };
    return (this.#handlers.get(event) ?? []).map(async (handler) => {
      try {
        await handler(...values);
      } catch (error) {
        failed(error);
      }
    });
  }
}

/**
 * Shows the host's theme: colour scheme, CSS variables, fonts, insets and display mode. `data-fill`
 * is set on the root where the frame's height is not the page's to choose, so that the page fills
 * it.
 */
export function applyContext(document, context) {
  const root = document.documentElement;
  const { theme, styles, safeAreaInsets, containerDimensions } = context;
  if (theme === "light" || theme === "dark") {
    root.dataset.theme = theme;
    root.style.colorScheme = theme;
  }
  for (const [name, value] of Object.entries(object(styles?.variables))) {
    if (name.startsWith("--") && typeof value === "string") root.style.setProperty(name, value);
  }
  const fonts = styles?.css?.fonts;
  if (typeof fonts === "string" && !document.getElementById("__mcp-host-fonts")) {
    const style = document.createElement("style");
    style.id = "__mcp-host-fonts";
    style.textContent = fonts;
    document.head.append(style);
  }
  for (const side of ["top", "right", "bottom", "left"]) {
    const inset = Number(object(safeAreaInsets)[side]);
    if (inset >= 0) root.style.setProperty(`--inset-${side}`, `${inset}px`);
  }
  root.dataset.displayMode = String(context.displayMode ?? "inline");
  const isFilled = root.dataset.displayMode !== "inline" || typeof object(containerDimensions).height === "number";
  root.toggleAttribute("data-fill", isFilled);
  if (typeof context.locale === "string" && /^[A-Za-z0-9-]{2,35}$/.test(context.locale))
    root.dataset.locale = context.locale;
}

/** Reports the height of the page's content whenever it changes, unless the page fills a frame of fixed height. */
export function watchSize(view, window) {
  const { document } = window;
  let last = "";
  let isPlanned = false;
  const measure = () => {
    isPlanned = false;
    if (document.documentElement.hasAttribute("data-fill")) return;
    const height = Math.ceil(document.body.getBoundingClientRect().height);
    const size = `${window.innerWidth} ${height}`;
    if (size === last) return;
    last = size;
    view.reportSize(window.innerWidth, height);
  };
  // Once a frame: a page that lays itself out in steps reports the last.
  const plan = () => {
    if (isPlanned) return;
    isPlanned = true;
    window.requestAnimationFrame(measure);
  };
  const observer = new window.ResizeObserver(plan);
  observer.observe(document.body);
  view.on("context", plan);
  view.on("teardown", () => observer.disconnect());
  plan();
}

function object(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};
}
