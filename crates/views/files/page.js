// Functions that the pages of all Views share: elements, text that is shown as it is, the start of a page.
import { View, applyContext, watchSize } from "./view.js";

/**
 * Makes an element. Members of `properties` are attributes; a function is a listener of the event of that name.
 * Children are elements or texts; text is never read as HTML.
 */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined && value !== null) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

/** The element with this id. */
export function byId(id) {
  return document.getElementById(id);
}

// Characters that are not seen but change what is: controls, direction marks, zero width, tags.
// Joiners (U+200C, U+200D) are left alone:
// emoji and several scripts need them.
const HIDDEN =
  /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u00AD\u061C\u180E\u200B\u200E\u200F\u202A-\u202E\u2060-\u206F\uFEFF\uFFF9-\uFFFB\u{E0000}-\u{E007F}]/gu;

/** The name of a character, such as U+202E. */
export function codePoint(character) {
  return `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** The hidden characters of a text. */
export function hiddenCharacters(text) {
  return text.match(HIDDEN) ?? [];
}

/**
 * A text as nodes in which hidden characters are seen by their names. What `find` matches is
 * marked: a text, or a global RegExp.
 */
export function shown(text, find = "") {
  const fragment = document.createDocumentFragment();
  let at = 0;
  for (const match of text.matchAll(HIDDEN)) {
    addMarked(fragment, text.slice(at, match.index), find);
    fragment.append(el("span", { class: "hidden-character", title: "a hidden character" }, codePoint(match[0])));
    at = match.index + match[0].length;
  }
  addMarked(fragment, text.slice(at), find);
  return fragment;
}

function addMarked(fragment, text, find) {
  let at = 0;
  for (const [start, end] of occurrences(text, find)) {
    fragment.append(text.slice(at, start), el("mark", {}, text.slice(start, end)));
    at = end;
  }
  if (at < text.length) fragment.append(text.slice(at));
}

/** Where a text or a global RegExp occurs, without overlaps, whatever the case. */
export function occurrences(text, find) {
  if (find === "" || text === "") return [];
  const pattern = find instanceof RegExp ? find : literal(find);
  return Array.from(text.matchAll(pattern), (match) => [match.index, match.index + match[0].length]).filter(
    ([start, end]) => end > start,
  );
}

/** A pattern that matches this text, whatever its case. */
export function literal(text) {
  return new RegExp(text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&"), "giu");
}

/** The answer of a tool as data: its structured content, or its text if that is JSON. */
export function structured(result) {
  if (result.structuredContent !== null && typeof result.structuredContent === "object")
    return result.structuredContent;
  for (const block of contentOf(result)) {
    if (block.type !== "text") continue;
    try {
      const value = JSON.parse(block.text);
      if (value !== null && typeof value === "object") return value;
    } catch {
      // The text is for people.
    }
  }
  return undefined;
}

/** The content blocks of a result that are objects. */
export function contentOf(result) {
  const content = Array.isArray(result.content) ? result.content : [];
  return content.filter((block) => block !== null && typeof block === "object");
}

/** The texts of a result. */
export function textOf(result) {
  const texts = contentOf(result).filter((block) => block.type === "text" && typeof block.text === "string");
  return texts.map((block) => block.text).join("\n");
}

/** Calls a tool and resolves with its data; an error of the tool rejects. */
export async function ask(view, name, args, options) {
  const result = await view.callTool(name, args, options);
  if (result.isError) throw new Error(textOf(result) || `${name} failed without giving a reason`);
  const data = structured(result);
  if (data === undefined) throw new Error(`${name} gave an answer that this page does not understand`);
  return data;
}

/** An error in a sentence. */
export function plain(error) {
  const text = String(error?.message ?? error).trim();
  return text === ""
    ? "It failed without giving a reason."
    : text[0].toUpperCase() + text.slice(1) + (/[.!?…]$/.test(text) ? "" : ".");
}

/** A number with separators. */
export function count(number) {
  try {
    return Number(number).toLocaleString(document.documentElement.dataset.locale ?? "en");
  } catch {
    // The host's locale is not valid.
    return String(number);
  }
}

/** A number of bytes for people. */
export function bytes(number) {
  if (number < 1024) return `${count(number)} B`;
  const [unit, size] = number < 1 << 20 ? ["KiB", number / 1024] : ["MiB", number / (1 << 20)];
  return `${size < 10 ? size.toFixed(1) : count(Math.round(size))} ${unit}`;
}

/** Calls a function once calls of it have paused for so long. */
export function debounced(milliseconds, work) {
  let timer;
  const run = (...values) => {
    clearTimeout(timer);
    timer = setTimeout(work, milliseconds, ...values);
  };
  run.cancel = () => clearTimeout(timer);
  return run;
}

/** Shows a message in an element: "info", "ok", "warn" or "bad"; an empty one hides it. */
export function say(element, text, kind = "info") {
  element.dataset.kind = kind;
  element.replaceChildren(shown(text));
  element.hidden = text === "";
}

/** Copies a text. A frame may lack the right to the clipboard; then the older command is tried. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const before = document.activeElement;
    const field = el("textarea", { class: "off-screen", "aria-hidden": "true", tabindex: "-1" });
    field.value = text;
    document.body.append(field);
    field.select();
    const isCopied = document.execCommand("copy");
    field.remove();
    before?.focus?.({ preventScroll: true });
    return isCopied;
  }
}

/**
 * Does work when a button is pressed, and on Enter in a field. A frame without `allow-forms`
 * neither submits a form nor reports the attempt, so these pages have no forms.
 */
export function submits(field, button, work) {
  button?.addEventListener("click", work);
  field.addEventListener("keydown", (event) => {
    // Enter also ends the input of a word in Chinese or Japanese.
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    work();
  });
}

/** Makes a button copy what `text` returns, and say so on itself. */
export function copyButton(button, text) {
  const label = button.textContent;
  let timer;
  button.addEventListener("click", async () => {
    const isCopied = await copy(text());
    button.textContent = isCopied ? "Copied" : "Not allowed here";
    clearTimeout(timer);
    timer = setTimeout(() => (button.textContent = label), 1_600);
  });
}

/**
 * The connection of this page, with theme, size reports and the button for full screen. Register
 * events, then call `open`.
 */
export function page(name, title) {
  const version = document.querySelector("meta[name=version]")?.content ?? "0";
  const view = new View({ name, version, title, displayModes: ["inline", "fullscreen"] });
  view.on("context", (context) => applyContext(document, context));
  const button = byId("fullscreen");
  const modeOf = (context) => context.displayMode ?? "inline";
  view.on("context", (context) => {
    const offered = Array.isArray(context.availableDisplayModes) ? context.availableDisplayModes : [];
    const isFull = modeOf(context) === "fullscreen";
    button.hidden = !offered.includes(isFull ? "inline" : "fullscreen");
    button.textContent = isFull ? "Leave full screen" : "Full screen";
    button.setAttribute("aria-pressed", String(isFull));
  });
  button.addEventListener("click", async () => {
    const next = modeOf(view.hostContext) === "fullscreen" ? "inline" : "fullscreen";
    try {
      await view.requestDisplayMode(next);
    } catch (error) {
      view.log("warning", plain(error));
    }
  });
  return view;
}

/** Connects a page; a page without a host says so. */
export async function open(view) {
  try {
    await view.connect();
    watchSize(view, window);
  } catch (error) {
    say(byId("status"), plain(error), "bad");
  }
}

/**
 * The names under which the host knows tools of the server: `{encodePlantUML: "encodePlantUML"}`. A
 * gateway may have put a prefix before them. A tool that is not there is undefined. A host that
 * cannot list tools is taken to know all by their own names.
 */
export async function namesOf(view, names) {
  let listed;
  try {
    listed = (await view.listTools()).map((tool) => tool?.name).filter((name) => typeof name === "string");
  } catch {
    return Object.fromEntries(names.map((name) => [name, name]));
  }
  const find = (name) =>
    listed.includes(name)
      ? name
      : listed.find((other) => other.endsWith(name) && /[_\-./:]/.test(other.at(-name.length - 1)));
  return Object.fromEntries(names.map((name) => [name, find(name)]));
}
