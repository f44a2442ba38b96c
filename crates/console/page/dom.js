// Builds elements. Text becomes text nodes, never markup.

const PROPERTIES = new Set([
  "value",
  "checked",
  "disabled",
  "selected",
  "open",
  "indeterminate",
  "htmlFor",
  "tabIndex",
  "hidden",
  "readOnly",
]);

/** Creates an element of a tag with classes, as 'p.muted', with properties, listeners (`onclick`) and children. */
export function h(tag, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  element.classList.add(...classes);
  const [props] = children;
  if (props?.constructor === Object) set(element, children.shift());
  element.append(...nodes(children));
  return element;
}

/** Creates an SVG element. */
export function svg(tag, props, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(props ?? {})) element.setAttribute(name, value);
  element.append(...nodes(children));
  return element;
}

function set(element, props) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null) continue;
    if (name.startsWith("aria-")) {
      element.setAttribute(name, String(value));
      continue;
    }
    if (value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (PROPERTIES.has(name)) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
}

function nodes(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== undefined && child !== null && child !== false && child !== "")
    .map((child) => (child instanceof Node ? child : String(child)));
}

/** Replaces what an element contains. */
export function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

const keyOf = (it) => it.getAttribute("href") ?? it.getAttribute("aria-label") ?? it.textContent;

/** Replaces what is inside of an element, as `fill` does. The focus stays on the link or the button that it was on. */
export function refill(element, ...children) {
  const focused = document.activeElement;
  const key = element.contains(focused) ? keyOf(focused) : undefined;
  fill(element, ...children);
  if (key !== undefined)
    [...element.querySelectorAll("a, button, [tabindex]")]
      .find((it) => keyOf(it) === key)
      ?.focus({ preventScroll: true });
}

let lastId = 0;
/** Returns an id that no other element has. */
export function newId(prefix = "n") {
  lastId += 1;
  return `${prefix}${lastId}`;
}

export function button(label, onclick, props = {}) {
  return h("button", { type: "button", onclick, ...props }, label);
}

let isPressed = false;
const waiting = [];
addEventListener(
  "pointerdown",
  () => {
    isPressed = true;
  },
  true,
);
// The list of a select swallows the end of the click; a key shows that the click is over.
for (const name of ["pointerup", "pointercancel", "keydown"])
  addEventListener(
    name,
    () =>
      setTimeout(() => {
        isPressed = false;
        waiting.splice(0).forEach((act) => act());
      }),
    true,
  );
/** Acts now, or after the current click: a button that moves under the pointer is not clicked. */
export const afterClick = (act) => (isPressed ? waiting.push(act) : act());

/** Moves the focus to the first control inside of an element. */
export const focusIn = (element) => element?.querySelector("input, textarea, select, button")?.focus();

/** A small field that filters what is beside it. */
export const search = (label, oninput, isShown) =>
  h("input", {
    type: "search",
    class: "narrow",
    placeholder: "filter",
    "aria-label": label,
    hidden: !isShown,
    oninput,
  });

/** The address of one thing of a page. */
export const to = (page, name) => `#/${page}/${encodeURIComponent(name)}`;

export function link(href, ...children) {
  return h("a", { href }, ...children);
}

/** A state in a word and a colour; the word is enough. */
export function badge(state, text = state) {
  const kind =
    {
      ok: "ok",
      ready: "ok",
      running: "busy",
      starting: "busy",
      restarting: "busy",
      input_required: "busy",
      cancelled: "warn",
      degraded: "warn",
      suspect: "warn",
      backing_off: "warn",
      disabled: "muted",
    }[state] ?? "bad";
  return h("span", { class: `badge ${kind}` }, String(text).replaceAll("_", " "));
}

/**
 * Shows a dialog above the page. Escape closes it, and the focus goes back. `close` is called once,
 * however it ends.
 */
export function dialog(label, close, ...children) {
  const element = h(
    "dialog",
    {
      "aria-label": label,
      onclose: () => {
        element.remove();
        close?.();
      },
    },
    ...children,
  );
  document.body.append(element);
  element.showModal();
  return element;
}

/** An empty list says why it is empty, and what to do. */
export function empty(why, ...next) {
  return h("div.empty", h("p", why), next.length ? h("p", ...next) : null);
}

/** A failure names its cause, and offers to try again. */
export function failure(error, retry) {
  const since = new Date().toLocaleTimeString();
  return h(
    "div.failure",
    { role: "alert" },
    h("p", h("strong", "Failed: "), error.message ?? String(error)),
    h("p.muted", `at ${since}`),
    retry ? button("Try again", retry) : null,
  );
}

/** A placeholder for content that is loaded when it is needed. */
export function lazily(load) {
  const place = h("div", "loading…");
  load().then(
    (content) => fill(place, content),
    (error) => fill(place, failure(error)),
  );
  return place;
}

/** Tabs whose names are in the address. `tabs` is a list of [id, label, make]. */
export function tabs(label, list, current, choose) {
  const strip = h("div", { role: "tablist", "aria-label": label, class: "tabs" });
  const panel = h("div", { role: "tabpanel", class: "panel", id: newId("panel"), tabIndex: 0 });
  const shown = list.find(([id]) => id === current) ?? list[0];
  const buttons = list.map(([id, text]) =>
    h(
      "button",
      {
        type: "button",
        role: "tab",
        id: newId("tab"),
        "aria-controls": panel.id,
        "aria-selected": id === shown[0] ? "true" : "false",
        tabIndex: id === shown[0] ? 0 : -1,
        "data-tab": id,
        onclick: () => choose(id),
      },
      text,
    ),
  );
  panel.setAttribute("aria-labelledby", buttons[list.indexOf(shown)].id);
  strip.append(...buttons);
  strip.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = (list.findIndex(([id]) => id === shown[0]) + step + list.length) % list.length;
    choose(list[next][0], true);
  });
  try {
    panel.append(...nodes([shown[2]()]));
  } catch (error) {
    panel.append(failure(error));
  }
  return h("div.tabbed", strip, panel);
}

/** A table with a header row. Cells are nodes or text. */
export function table(label, heads, rows) {
  return h(
    "div.scroll",
    { tabIndex: 0, role: "group", "aria-label": label },
    h(
      "table",
      h(
        "thead",
        h(
          "tr",
          heads.map((head) => h("th", { scope: "col" }, head)),
        ),
      ),
      h(
        "tbody",
        rows.map((cells) =>
          h(
            "tr",
            cells.map((cell) => h("td", cell)),
          ),
        ),
      ),
    ),
  );
}

// Rows that are offered as text: those that are drawn at once need no other way to be read.
const LONG = 50;

/**
 * A list of links that is drawn only where it is seen. Rows have one height; `row` makes the link
 * of one item. The list is one stop of the Tab key, and arrow keys move in it. It begins at the
 * item that `isCurrent` knows.
 */
export function virtualList(label, items, row, isCurrent = () => false) {
  // A finger needs more room than the pointer of a mouse.
  const height = matchMedia("(pointer: fine)").matches ? 28 : 36;
  const list = h("div.rows", { role: "list", "aria-label": label });
  const before = h("div.spacer");
  const after = h("div.spacer");
  const box = h("div.virtual", { tabIndex: -1 }, before, list, after);
  box.style.setProperty("--row", `${height}px`);
  const asText = button(
    `All ${label.toLowerCase()} as text`,
    async () => (await import("./as-text.js")).openAsText(label, items, row),
    { class: "small" },
  );
  let shown = "";
  let active = items.findIndex(isCurrent);
  const linkAt = (index) => list.querySelector(`[aria-posinset="${index + 1}"] a`);
  list.addEventListener("focusin", ({ target }) => {
    list.querySelectorAll('[tabindex="0"]').forEach((it) => {
      it.tabIndex = -1;
    });
    active = target.closest("[aria-posinset]").ariaPosInSet - 1;
    target.tabIndex = 0;
  });
  box.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(box.clientHeight / height) - 1);
    const step = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: page,
      PageUp: -page,
      Home: -Infinity,
      End: Infinity,
    }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(items.length - 1, active + step));
    if (!linkAt(next)) {
      box.scrollTop = next * height - box.clientHeight / 2;
      draw();
    }
    linkAt(next)?.focus();
  });
  const draw = () => {
    const room = box.clientHeight || 600;
    const first = Math.max(0, Math.floor(box.scrollTop / height) - 10);
    const last = Math.min(items.length, Math.ceil((box.scrollTop + room) / height) + 10);
    const key = `${first}-${last}-${items.length}`;
    if (key === shown) return;
    shown = key;
    asText.hidden = items.length < LONG;
    // The order is in attributes too: assistive technology sees only the rows that are drawn.
    const focused = list.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const reached = active >= first && active < last ? active : Math.floor(box.scrollTop / height);
    fill(
      list,
      items.slice(first, last).map((item, index) => {
        const link = row(item);
        link.tabIndex = first + index === reached ? 0 : -1;
        return h(
          "div",
          { role: "listitem", class: "row", "aria-setsize": items.length, "aria-posinset": first + index + 1 },
          link,
        );
      }),
    );
    // A row that was scrolled away loses the focus; the keys go on working from the list.
    if (focused !== null)
      ([...list.querySelectorAll("a")].find((it) => it.getAttribute("href") === focused) ?? box).focus({
        preventScroll: true,
      });
    before.style.height = `${first * height}px`;
    after.style.height = `${(items.length - last) * height}px`;
  };
  let asked = false;
  const later = () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };
  box.addEventListener("scroll", later, { passive: true });
  // The size is known when the list has its place on the page.
  let isPlaced = active < 0;
  new ResizeObserver(() => {
    if (!isPlaced) box.scrollTop = active * height - box.clientHeight / 2;
    isPlaced = true;
    later();
  }).observe(box);
  draw();
  return {
    element: h("div", box, asText),
    /** Shows other items; the position stays. */
    update(next) {
      items = next;
      shown = "";
      later();
    },
  };
}

export function bytes(count) {
  if (count === undefined || count === null) return "";
  if (count < 1024) return `${count} B`;
  if (count < 1 << 20) return `${(count / 1024).toFixed(count < 10240 ? 1 : 0)} KiB`;
  return `${(count / (1 << 20)).toFixed(1)} MiB`;
}

export function duration(us) {
  if (us === undefined || us === null) return "";
  if (us < 1000) return `${us} µs`;
  if (us < 1e6) return `${(us / 1000).toFixed(us < 1e4 ? 1 : 0)} ms`;
  return `${(us / 1e6).toFixed(1)} s`;
}

export function time(ms) {
  return h(
    "time",
    { datetime: new Date(ms).toISOString(), title: new Date(ms).toLocaleString() },
    new Date(ms).toLocaleTimeString(),
  );
}

/** Announces a change of the page to assistive technology. */
export function say(text) {
  const region = document.getElementById("status");
  if (region) region.textContent = text;
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied");
  } catch {
    say("The browser does not let this page copy");
  }
}

export function download(name, text, type = "application/octet-stream") {
  const url = URL.createObjectURL(new Blob([text], { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

export function hasWords(text, words) {
  const low = text.toLowerCase();
  return words
    .toLowerCase()
    .split(/\s+/)
    .filter(Boolean)
    .every((word) => low.includes(word));
}

// Lists beside what is chosen from them, with a handle between.

/** A field whose words are kept in the address. */
export function filterBox(context, label, draw) {
  const box = h("input", {
    type: "search",
    placeholder: "filter",
    "aria-label": label,
    value: context.query.get("q") ?? "",
    oninput: () => {
      draw(box.value);
      context.setQuery({ q: box.value });
    },
  });
  return box;
}

/**
 * A list at the side of a page, with a filter that searches `text`. `fetch` gets its items again
 * when the list `kind` of the server has changed; `changed` receives them.
 */
export function sideList(
  context,
  label,
  items,
  { text, href, name, isCurrent, note = "", kind, fetch, changed = () => {} },
) {
  const fitting = (words) => items.filter((it) => hasWords(text(it), words));
  const rows = virtualList(
    label,
    fitting(context.query.get("q") ?? ""),
    (it) => h("a", { href: href(it), "aria-current": isCurrent(it) ? "true" : undefined, title: name(it) }, name(it)),
    isCurrent,
  );
  const count = h("p.muted", { role: "status" });
  const draw = (words) => {
    const found = fitting(words);
    rows.update(found);
    count.textContent = `${found.length} of ${items.length} ${label.toLowerCase()}${note}`;
  };
  const filter = filterBox(context, `Filter ${label.toLowerCase()}`, draw);
  draw(filter.value);
  const refresh = async () => {
    items = await fetch();
    draw(filter.value);
    changed(items);
  };
  let asked;
  context.on("catalog", ({ detail }) => {
    if (detail.changed === kind)
      asked ??= setTimeout(() => {
        asked = undefined;
        refresh().catch(() => {});
      }, 100);
  });
  context.onReset(refresh);
  context.onLeave(() => clearTimeout(asked));
  return h("div.side", filter, count, rows.element);
}

/** A list and what is chosen from it. On a narrow screen one of them is seen, and `back` leads to the list. */
export function chosen(side, isChosen, [href, label], ...detail) {
  return panes(
    "list",
    isChosen ? "split has-detail" : "split",
    side,
    h("div.detail", link(href, `‹ ${label}`), ...detail),
  );
}

/** Two panes with a border that the pointer or the arrow keys move. */
export function panes(name, kind, first, second) {
  const key = `marquetry.split.${name}`;
  let now = Number(localStorage.getItem(key)) || (name === "list" ? 20 : 40);
  const set = (percent) => {
    now = Math.round(Math.min(80, Math.max(10, percent)));
    box.style.setProperty("--first", `${now}fr`);
    box.style.setProperty("--second", `${100 - now}fr`);
    handle.setAttribute("aria-valuenow", now);
    localStorage.setItem(key, now);
  };
  const handle = h("div.handle", {
    role: "separator",
    tabIndex: 0,
    "aria-label": "Width of the first pane",
    "aria-orientation": "vertical",
    "aria-valuemin": 10,
    "aria-valuemax": 80,
    onkeydown: (event) => {
      const step = { ArrowLeft: -2, ArrowRight: 2, Home: -99, End: 99 }[event.key];
      if (step) {
        event.preventDefault();
        set(now + step);
      }
    },
    // Without this the browser drags text.
    onmousedown: (event) => event.preventDefault(),
    onpointerdown: (event) => handle.setPointerCapture(event.pointerId),
    onpointermove: (event) => {
      if (!handle.hasPointerCapture(event.pointerId)) return;
      const { left, width } = box.getBoundingClientRect();
      set(((event.clientX - left) / width) * 100);
    },
  });
  const box = h("div", { class: kind }, first, handle, second);
  set(now);
  return box;
}

/** How the tokens that an answer kept from the model are estimated. */
export const KEPT_RULE =
  "Tokens are estimated without a tokenizer, from the first 16 KiB of an answer; images and other binary data count as bytes alone.";
