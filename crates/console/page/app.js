// The frame of the page: addresses, navigation, keys, the token.

import { begin, data, follow, isLate, list, live, liveState, post, token } from "./api.js";
import { button, dialog, empty, failure, fill, h, hasWords, link, newId, say, to } from "./dom.js";
import { home, servers } from "./home.js";

// Pages load their modules when they are first shown; those of the first page are part of the frame.
const PAGES = {
  "": { label: "Home", key: "h", make: home },
  servers: { label: "Servers", key: "s", make: servers },
  tools: { label: "Tools", key: "t", make: async (it) => (await import("./tools.js")).tools(it) },
  calls: { label: "Calls", key: "c", make: async (it) => (await import("./calls.js")).calls(it) },
  messages: { label: "Messages", key: "m", make: async (it) => (await import("./messages.js")).messages(it) },
  resources: { label: "Resources", key: "r", make: async (it) => (await import("./content.js")).resources(it) },
  prompts: { label: "Prompts", key: "p", make: async (it) => (await import("./content.js")).prompts(it) },
  artifacts: { label: "Artifacts", key: "a", make: async (it) => (await import("./content.js")).artifacts(it) },
  knowledge: { label: "Knowledge", key: "k", make: async (it) => (await import("./content.js")).knowledge(it) },
  chat: { label: "Chat", key: "o", make: async (it) => (await import("./chat.js")).chat(it) },
  revisions: { label: "Revisions", key: "i", make: async (it) => (await import("./revisions.js")).revisions(it) },
  tests: { label: "Tests", key: "e", make: async (it) => (await import("./tests.js")).tests(it) },
};

/** The address: #/PAGE/NAME?tab=… as { page, name, query }. */
function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [page, ...rest] = path.split("/");
  let name;
  try {
    name = decodeURIComponent(rest.join("/"));
  } catch {
    name = rest.join("/");
  }
  return { page, name, query: new URLSearchParams(query ?? "") };
}

/** Changes members of the address's query. Switching a tab replaces the entry of the history. */
function setQuery(changes, { replace = true } = {}) {
  const { page, name, query } = route();
  for (const [key, value] of Object.entries(changes)) {
    if (value === undefined || value === "") query.delete(key);
    else query.set(key, value);
  }
  const text = query.toString();
  const hash = `#/${page}${name ? `/${encodeURIComponent(name)}` : ""}${text ? `?${text}` : ""}`;
  if (replace) history.replaceState(null, "", hash);
  else history.pushState(null, "", hash);
}

const main = h("main", { id: "main", tabIndex: -1 });
const nav = h("nav", { "aria-label": "Pages" });
const age = h("span.age", { id: "age" });
let shown;
let left = [];

async function show() {
  const at = route();
  const known = PAGES[at.page];
  const isSame = shown && shown.page === at.page && shown.name === at.name;
  left.forEach((stop) => stop());
  left = [];
  fill(
    nav,
    Object.entries(PAGES).map(([id, page]) =>
      h("a", { href: `#/${id}`, "aria-current": id === at.page ? "page" : undefined }, page.label),
    ),
  );
  const title = h("h1", { tabIndex: -1 }, at.name || known?.label || "No such page");
  const body = h("div.body");
  document.title = `${at.name ? `${at.name} · ` : ""}${known?.label ?? ""} · Marquetry`;
  fill(main, title, body);
  // The focus tells users of a screen reader that the page has changed. The first page needs no focus.
  if (shown && !isSame) title.focus({ preventScroll: true });
  shown = at;
  if (!known) {
    fill(body, empty("This page does not exist.", link("#/", "Go to the first page")));
    main.dataset.ready = location.hash;
    return;
  }
  /**
   * The context of a page: the address, and ways to change it and to listen to events. When events
   * were lost, `onReset` lets a page fetch its data again; text that the user has typed, and parts
   * that are open or running, stay.
   */
  const context = {
    ...at,
    setQuery,
    title,
    again: show,
    on(name, listener) {
      // A page that was left while it loaded gets no events.
      if (shown !== at) return;
      live.addEventListener(name, listener);
      left.push(() => live.removeEventListener(name, listener));
    },
    onReset: (fetchAnew) =>
      context.on("reset", async () => {
        await fetchAnew().catch(() => {});
      }),
    onLeave: (stop) => {
      if (shown === at) left.push(stop);
      else stop();
    },
    isShown: () => shown === at,
  };
  try {
    fill(body, h("p.muted", { "data-loading": "" }, "loading…"));
    const content = await known.make(context);
    if (shown === at) fill(body, content);
  } catch (error) {
    if (shown === at) fill(body, failure(error, show));
  }
  if (shown === at) main.dataset.ready = location.hash || "#/";
}

function askForToken(why) {
  const input = h("input", {
    type: "password",
    id: newId("token"),
    autocomplete: "off",
    required: true,
    pattern: "\\s*[!-~]+\\s*",
    title: "ASCII characters without spaces",
  });
  const form = h(
    "form.form.token",
    {
      onsubmit: (event) => {
        event.preventDefault();
        token.set(input.value.trim());
        document.getElementById("token")?.remove();
        start();
      },
    },
    h("h2", "A token is required"),
    why ? h("p.bad", { role: "alert" }, why) : null,
    h("label", { for: input.id }, "Token"),
    input,
    h("p.muted", "It is stored only in this tab, and sent only to this server."),
    h("button", { type: "submit" }, "Use this token"),
  );
  document.getElementById("token")?.remove();
  dialog("Token", undefined, form).id = "token";
  input.focus();
}

document.addEventListener("token-needed", (event) => {
  if (!document.getElementById("token")) askForToken(event.detail);
});

/** Finds pages, tools, servers, prompts, resources, artifacts and the last calls by a part of their names. */
async function palette() {
  if (document.getElementById("palette")) return;
  const close = () => box.close();
  const results = h("div", { role: "listbox", id: newId("found"), "aria-label": "Found", class: "found" });
  let all = Object.entries(PAGES).map(([id, page]) => ({
    label: page.label,
    name: page.label,
    href: `#/${id}`,
    rank: 0,
  }));
  let found = all;
  let at = 0;
  const draw = () => {
    // What begins with the words comes first; then pages and tools before what there is most of: old calls.
    const words = input.value.trim().toLowerCase();
    const order = ({ name, rank }) => rank + (name.toLowerCase().startsWith(words) ? 0 : 10);
    found = all
      .filter((it) => hasWords(it.label, words))
      .sort((a, b) => order(a) - order(b))
      .slice(0, 30);
    at = Math.min(at, Math.max(0, found.length - 1));
    fill(
      results,
      found.map((it, index) =>
        h(
          "a",
          { href: it.href, role: "option", id: `found${index}`, "aria-selected": index === at, onclick: close },
          it.label,
        ),
      ),
    );
    input.setAttribute("aria-activedescendant", `found${at}`);
  };
  const input = h("input", {
    type: "search",
    placeholder: "page, tool, server, resource, prompt, call",
    "aria-label": "Go to",
    role: "combobox",
    "aria-expanded": "true",
    "aria-controls": results.id,
    oninput: () => {
      at = 0;
      draw();
    },
    onkeydown: (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) {
        event.preventDefault();
        at = (at + step + found.length) % Math.max(1, found.length);
        draw();
      }
      if (event.key === "Enter" && found[at]) {
        event.preventDefault();
        close();
        location.hash = found[at].href;
      }
    },
  });
  const box = dialog("Go to", undefined, input, results);
  box.id = "palette";
  box.addEventListener("click", (event) => {
    if (event.target === box) close();
  });
  draw();
  input.focus();
  const add = (rank, getting, entry) =>
    getting.then(
      (found) => {
        all = [
          ...all,
          ...found.slice(0, 2000).map((it) => {
            const [label, kind, href] = entry(it);
            return { label: `${label}  ${kind}`, name: label, href, rank };
          }),
        ];
        draw();
      },
      () => {},
    );
  add(1, list("tools/list", "tools"), (it) => [it.name, "tool", to("tools", it.name)]);
  add(
    2,
    data("state").then((it) => it.server?.upstreams ?? []),
    (it) => [it.name, "server", to("servers", it.name)],
  );
  add(3, list("prompts/list", "prompts"), (it) => [it.name, "prompt", to("prompts", it.name)]);
  add(4, list("resources/list", "resources"), (it) =>
    it.uri.startsWith("artifact:")
      ? [it.name, "artifact", to("artifacts", it.name)]
      : [it.title ?? it.name ?? it.uri, "resource", `#/resources?uri=${encodeURIComponent(it.uri)}`],
  );
  // Calls come after all else, also those of a tool whose name begins with the words.
  add(
    20,
    data("calls").then((it) => it.calls),
    (it) => [`${it.tool} ${new Date(it.started).toLocaleTimeString()}`, "call", to("calls", it.id)],
  );
}

const KEYS = "marquetry.keys";
const keysAreOn = () => localStorage.getItem(KEYS) !== "off";

function help() {
  if (document.getElementById("help")) return;
  const rows = [
    ["Ctrl+K", "go to a page, a server or a tool"],
    ["Ctrl+Enter", "run the tool"],
    ["/", "filter"],
    ["j k Enter", "down, up, open"],
    ["Esc", "close"],
    ...Object.values(PAGES).map((page) => [`g ${page.key}`, page.label]),
    ["?", "this help"],
  ];
  const works = h("input", {
    type: "checkbox",
    id: newId("keys"),
    checked: keysAreOn(),
    onchange: () => localStorage.setItem(KEYS, works.checked ? "on" : "off"),
  });
  const box = dialog(
    "Keys",
    undefined,
    h("h2", "Keys"),
    h(
      "dl",
      rows.map(([key, what]) => [h("dt", h("kbd", key)), h("dd", what)]),
    ),
    h("label", { for: works.id, class: "switch" }, works, " enable single-key shortcuts"),
    button("Close", () => box.close(), { autofocus: true }),
  );
  box.id = "help";
}

let began;
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    palette();
    return;
  }
  // A dialog or a View in full screen covers the page and takes its keys. A View that was left is
  // inert, too, but covers nothing.
  const isCovered = document.querySelector("dialog, header[inert]");
  if (event.ctrlKey && event.key === "Enter") {
    if (!isCovered) document.querySelector("[data-run]")?.click();
    return;
  }
  const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
  if (isTyping && event.key === "Escape") event.target.blur();
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || !keysAreOn() || isCovered) return;
  if (began === "g") {
    began = undefined;
    const [id] = Object.entries(PAGES).find(([, page]) => page.key === event.key) ?? [];
    if (id !== undefined) location.hash = `#/${id}`;
    return;
  }
  if (event.key === "g") {
    began = "g";
    setTimeout(() => {
      began = undefined;
    }, 1500);
  } else if (event.key === "/") {
    const filter = main.querySelector("input[type=search]");
    if (filter) {
      event.preventDefault();
      filter.focus();
    }
  } else if (event.key === "?") help();
  else if (event.key === "j" || event.key === "k") {
    const links = [...main.querySelectorAll("[role=list] a")];
    const at = links.indexOf(document.activeElement) + (event.key === "j" ? 1 : -1);
    links[Math.max(0, Math.min(links.length - 1, at))]?.focus();
  }
});

function showAge() {
  const { state, since } = liveState();
  const seconds = Math.round((Date.now() - since) / 1000);
  const text = isLate()
    ? "waiting for the server; if many windows show it, close one"
    : ({ live: "live", connecting: "connecting", paused: "paused", refused: "not live" }[state] ??
      `connection lost; the data is ${seconds} s old`);
  if (age.textContent !== text) age.textContent = text;
  age.dataset.state = state;
}
live.addEventListener("state", () => {
  showAge();
  if (liveState().state === "lost") say("The connection to the server is lost");
});
setInterval(showAge, 1000);

// The frame of the document gives way to the page.
document.body.replaceChildren(
  link("#main", "Skip to the content"),
  h(
    "header",
    h("a", { href: "#/", class: "brand" }, "Marquetry"),
    nav,
    h(
      "div.right",
      age,
      button("Go to…", palette, { class: "small", "aria-keyshortcuts": "Control+K" }),
      button("?", help, { class: "small", "aria-label": "Keys" }),
    ),
  ),
  main,
  h("div", { id: "status", role: "status", class: "hidden" }),
);
// Sticky elements stay visible below the header, regardless of the number of its lines.
const header = document.body.querySelector("header");
new ResizeObserver(() => document.documentElement.style.setProperty("--header", `${header.offsetHeight}px`)).observe(
  header,
);
const skip = document.body.querySelector("a");
skip.className = "skip";
skip.addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener("hashchange", show);

/** The link that the server printed has a code, which works once and for a minute. */
async function takeCode() {
  const code = /^#code=([\w-]+)$/.exec(location.hash)?.[1];
  if (!code) return;
  history.replaceState(null, "", "#/");
  try {
    token.set((await post("session", { code })).token);
  } catch {
    /* The token is asked for. */
  }
}

async function start() {
  await begin();
  await show();
  follow();
}

await takeCode();
start();
