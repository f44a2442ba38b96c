// Shows what a tool answered: text as the model reads it, JSON as a tree, tables, pictures, sounds.

import { result as ask } from "./api.js";
import { badge, button, bytes, copy, download, empty, fill, h, lazily, link, table } from "./dom.js";
import { isObject, parse, stringify } from "./json.js";
import { check } from "./schema.js";

const HIDDEN =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]|[\u{e0000}-\u{e007f}]/gu;
const CHUNK = 16_384;
/** Characters up to which a text is laid out at once. */
const SHORT = 4_096;

/** Text with characters that a reader does not see made visible. */
export function visible(value) {
  const text = String(value);
  const parts = [];
  let from = 0;
  for (const match of text.matchAll(HIDDEN)) {
    parts.push(text.slice(from, match.index));
    const code = match[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    parts.push(h("span.mark", { title: `U+${code}` }, `‹${code}›`));
    from = match.index + match[0].length;
  }
  parts.push(text.slice(from));
  return parts;
}

/** The same as text, for attributes. */
export const marked = (value) =>
  value === undefined
    ? undefined
    : visible(value)
        .map((it) => it.textContent ?? it)
        .join("");

/**
 * A text of any length. The browser lays out only the seen parts of a long one. A short one takes
 * no more room than it needs.
 */
export function literal(text, label = "Text") {
  const attributes = { tabIndex: 0, role: "group", "aria-label": label };
  if (text.length <= SHORT) return h("pre.literal", attributes, ...visible(text));
  const box = h("pre.literal", attributes);
  let at = 0;
  while (at < text.length) {
    let end = Math.min(text.length, at + CHUNK);
    const line = text.lastIndexOf("\n", end);
    if (end < text.length && line > at) end = line + 1;
    box.append(h("span.chunk", ...visible(text.slice(at, end)).filter((it) => it !== "")));
    at = end;
  }
  return box;
}

/** JSON as a tree whose parts are made when they are opened; large ones in groups of 100. */
export function tree(value, name = "", path = "$", isOpen = true) {
  if (value === null || typeof value !== "object") {
    return h(
      "div.leaf",
      name === "" ? null : h("span.key", `${name}: `),
      h("span", { class: `v ${value === null ? "null" : typeof value}` }, ...visible(stringify(value))),
    );
  }
  const entries = Array.isArray(value) ? value.map((item, index) => [index, item]) : Object.entries(value);
  const head = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  return lazy(
    h("span", name === "" ? null : h("span.key", `${name}: `), h("span.muted", head)),
    isOpen && entries.length <= 100,
    () => members(entries, path),
    path,
  );
}

function members(entries, path) {
  const one = ([key, item]) =>
    tree(item, String(key), `${path}${typeof key === "number" ? `[${key}]` : `.${key}`}`, false);
  if (entries.length <= 100) return entries.map(one);
  const groups = [];
  for (let at = 0; at < entries.length; at += 100) {
    const part = entries.slice(at, at + 100);
    groups.push(lazy(h("span.muted", `${at} to ${at + part.length - 1}`), at === 0, () => part.map(one)));
  }
  return groups.length > 100
    ? [groups.slice(0, 100), h("p", `${groups.length - 100} groups more; download the whole`)]
    : groups;
}

function lazy(head, isOpen, make, path) {
  const details = h("details", { open: isOpen }, h("summary", head));
  const fillOnce = () => {
    if (details.open && details.childElementCount === 1)
      details.append(
        h(
          "div.branch",
          path
            ? button("copy path", () => copy(path), { class: "small quiet", "aria-label": `Copy the path ${path}` })
            : null,
          make(),
        ),
      );
  };
  details.addEventListener("toggle", fillOnce);
  fillOnce();
  return details;
}

/**
 * Markdown as elements: headings, lists, code, links. HTML in it stays text. `decode` changes each
 * part once the Markdown is parsed, before it becomes a text node or the address of a link.
 */
export function markdown(text, decode = (it) => it) {
  const box = h("div.markdown");
  const lines = text.slice(0, 200_000).split("\n");
  let list;
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at];
    const fence = /^\s*(```|~~~)/.exec(line);
    if (fence) {
      const end = lines.findIndex((it, index) => index > at && it.trim().startsWith(fence[1]));
      const stop = end < 0 ? lines.length : end;
      const code = decode(lines.slice(at + 1, stop).join("\n"));
      box.append(h("pre.literal", ...visible(code).filter((it) => it !== "")));
      at = stop;
      list = undefined;
      continue;
    }
    if (isRow(line) && SEPARATOR.test(lines[at + 1] ?? "")) {
      const rows = lines.slice(at).findIndex((it) => !isRow(it));
      const end = rows < 0 ? lines.length : at + rows;
      box.append(
        tableOf(
          [lines[at], ...lines.slice(at + 2, end)].map((it) => cellsOf(it, decode)),
          "Table",
        ),
      );
      at = end - 1;
      list = undefined;
      continue;
    }
    const heading = /^(#{1,6})\s+(.*)$/.exec(line);
    const item = /^\s*([-*+]|\d+[.)])\s+(.*)$/.exec(line);
    if (heading) {
      box.append(h(heading[1].length < 3 ? "h2" : "h3", {}, inline(heading[2], decode)));
    } else if (item) {
      const tag = /\d/.test(item[1]) ? "ol" : "ul";
      if (list?.tagName !== tag.toUpperCase()) {
        list = h(tag, {});
        box.append(list);
      }
      list.append(h("li", inline(item[2], decode)));
      continue;
    } else if (line.trim()) {
      const last = box.lastElementChild;
      const parts = inline(line, decode);
      if (last?.tagName === "P" && at > 0 && lines[at - 1].trim()) last.append("\n", ...parts);
      else box.append(h("p", parts));
    }
    list = undefined;
  }
  return box;
}

const isRow = (line) => /^\s*\|.*\|\s*$/.test(line);
const SEPARATOR = /^\s*\|[\s:|-]*-[\s:|-]*\|\s*$/;
const cellsOf = (line, decode) =>
  line
    .trim()
    .slice(1, -1)
    .split(/(?<!\\)\|/)
    .map((it) => inline(it.trim(), decode));

function inline(text, decode) {
  const parts = [];
  let from = 0;
  for (const match of text.matchAll(/`([^`]+)`|\*\*([^*]+)\*\*|!?\[([^\]]*)\]\(([^)\s]+)[^)]*\)/g)) {
    parts.push(...visible(decode(text.slice(from, match.index))));
    if (match[1] !== undefined) parts.push(h("code", ...visible(decode(match[1]))));
    else if (match[2] !== undefined) parts.push(h("strong", ...visible(decode(match[2]))));
    else parts.push(...outside(decode(match[4]), decode(match[3])));
    from = match.index + match[0].length;
  }
  parts.push(...visible(decode(text.slice(from))));
  return parts.filter((it) => it !== "");
}

/** A link of another's text shows where it leads, and leads to http and https alone. */
export function outside(url, text = url) {
  if (!/^https?:\/\//i.test(url)) return [...visible(text), " (", ...visible(url), ")"];
  return [
    h("a", { href: url, rel: "noopener noreferrer nofollow", target: "_blank" }, ...visible(text)),
    ...(text === url ? [] : [" (", ...visible(url), ")"]),
  ];
}

/** Rows of comma-separated text. */
export function csv(text) {
  const rows = [[]];
  let cell = "";
  let isQuoted = false;
  for (let at = 0; at < text.length; at += 1) {
    const c = text[at];
    if (isQuoted) {
      if (c === '"' && text[at + 1] === '"') {
        cell += '"';
        at += 1;
      } else if (c === '"') isQuoted = false;
      else cell += c;
    } else if (c === '"' && cell === "") isQuoted = true;
    else if (c === ",") {
      rows[rows.length - 1].push(cell);
      cell = "";
    } else if (c === "\n") {
      rows[rows.length - 1].push(cell.replace(/\r$/, ""));
      cell = "";
      rows.push([]);
      if (rows.length > 202) break;
    } else cell += c;
  }
  if (cell !== "" || rows[rows.length - 1].length) rows[rows.length - 1].push(cell);
  else rows.pop();
  return rows;
}

function tableOf(rows, label) {
  const [heads, ...body] = rows;
  return h(
    "div",
    table(
      label,
      heads,
      body.slice(0, 200).map((row) => row.map((it) => (Array.isArray(it) ? it : visible(String(it))))),
    ),
    body.length > 200 ? h("p.muted", "the first 200 rows") : null,
  );
}

/** Objects with the same members as rows. */
function rowsOf(value) {
  if (!Array.isArray(value) || value.length < 2 || !value.every(isObject)) return undefined;
  const heads = [...new Set(value.slice(0, 200).flatMap(Object.keys))];
  if (!heads.length || heads.length > 30) return undefined;
  return [
    heads,
    ...value
      .slice(0, 201)
      .map((row) =>
        heads.map((head) =>
          row[head] === undefined ? "" : typeof row[head] === "string" ? row[head] : stringify(row[head]),
        ),
      ),
  ];
}

// Signs that a text is Markdown: a heading with a line of its own, a fence, bold text, a link, a table.
const MARKDOWN =
  /^#{1,6} \S.*\n\s*\n|^```|\*\*[^\s*][^*\n]*\*\*|\[[^\]\n]+\]\(https?:|^\s*\|.+\|[ \t]*\n\s*\|[ :|-]+\|\s*$/m;
/** Characters up to which Markdown is rendered without a click. */
const RENDERED = 50_000;

/** A block of text with switches for what it may be read as; first as people read it. */
export function textBlock(text, mimeType = "") {
  const literally = ["As the model reads it", () => literal(text)];
  const value = jsonOf(text);
  const pictures = svgsOf(value ?? text);
  const forms = pictures.length ? [["Picture", () => pictures.map(svgPicture)]] : [];
  if (value !== undefined) {
    const rows = rowsOf(value);
    if (rows) forms.push(["Table", () => tableOf(rows, "Objects")]);
    forms.push(literally, ["JSON", () => tree(value)]);
  } else if (/csv/.test(mimeType)) forms.push(["Table", () => tableOf(csv(text), "Rows")], literally);
  else {
    const isMarkdown =
      text.length <= RENDERED && !pictures.length && (/markdown/.test(mimeType) || MARKDOWN.test(text));
    const rendered = ["Rendered", () => markdown(text)];
    forms.push(...(isMarkdown ? [rendered, literally] : [literally, rendered]));
  }
  const place = h("div", forms[0][1]());
  const buttons = forms.map(([label, make], index) =>
    button(
      label,
      () => {
        fill(place, make());
        buttons.forEach((it, other) => it.setAttribute("aria-pressed", other === index));
      },
      { class: "small", "aria-pressed": index === 0 },
    ),
  );
  return h(
    "div.block",
    h(
      "div.bar",
      h("span.muted", `text, ${bytes(new Blob([text]).size)}`),
      buttons,
      button("Copy", () => copy(text), { class: "small" }),
      text.length > 100_000
        ? button("Download", () => download("text.txt", text, "text/plain"), { class: "small" })
        : null,
    ),
    place,
  );
}

function jsonOf(text) {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    return parse(text);
  } catch {
    return undefined;
  }
}

const SVG = /^\s*(?:<\?xml[^>]*\?>\s*)?(?:<!--.*?-->\s*|<!DOCTYPE[^>]*>\s*)*<svg[\s>]/is;
/** The pictures that a text is, or that are members of an object, as `renderPlantUML` answers. */
const svgsOf = (value) =>
  (isObject(value) ? Object.values(value) : [value]).filter((it) => typeof it === "string" && SVG.test(it));

// An image runs no scripts and loads nothing, whatever its SVG contains.
const svgPicture = (text) => picture(new Blob([text], { type: "image/svg+xml" }));

function picture(blob) {
  const src = URL.createObjectURL(blob);
  const onload = () => URL.revokeObjectURL(src);
  return h("img", { src, onload, alt: `picture that the tool returned, ${blob.type}`, class: "picture" });
}

const PICTURES = /^image\/(png|jpeg|gif|webp|avif|bmp|svg\+xml)$/;
const SOUNDS = /^audio\/[\w.+-]+$/;

/** Bytes in base64 as a picture, a sound, or a file. HTML is shown as text, never run. */
export function binary(data, mimeType) {
  let raw;
  try {
    raw = Uint8Array.from(atob(data), (it) => it.charCodeAt(0));
  } catch {
    return h("p.bad", `the data is not valid base64 (${bytes(data.length)} of ${mimeType})`);
  }
  const blob = new Blob([raw], { type: mimeType });
  const name = `file.${(mimeType.split("/")[1] ?? "bin").replace(/[^a-z0-9]/gi, "") || "bin"}`;
  const bar = h(
    "div.bar",
    h("span.muted", `${mimeType || "bytes"}, ${bytes(raw.length)}`),
    button("Download", () => download(name, raw), { class: "small" }),
  );
  let shown = null;
  if (PICTURES.test(mimeType)) shown = picture(blob);
  else if (SOUNDS.test(mimeType))
    shown = h("audio", {
      src: URL.createObjectURL(blob),
      controls: true,
      "aria-label": `sound that the tool returned, ${mimeType}`,
    });
  else if (/^text\/|json|xml|javascript/.test(mimeType)) shown = literal(new TextDecoder().decode(raw));
  return h("div.block", bar, shown);
}

function contents(resource) {
  const { uri, mimeType = "", text, blob } = resource ?? {};
  const head = h(
    "div.bar",
    "resource ",
    link(`#/resources?uri=${encodeURIComponent(uri ?? "")}`, ...visible(String(uri))),
  );
  if (typeof text === "string") return h("div.block", head, textBlock(text, mimeType));
  return h("div.block", head, typeof blob === "string" ? binary(blob, mimeType) : tree(resource));
}
export { contents as resourceBlock };

/** Reads a resource and shows its contents. */
async function linked(uri) {
  const { contents: found = [] } = await ask("resources/read", { uri });
  return found.length ? found.map(contents) : empty("The resource has no contents.");
}

function block(item) {
  switch (item?.type) {
    case "text":
      return textBlock(String(item.text));
    case "image":
    case "audio":
      return binary(String(item.data), String(item.mimeType ?? ""));
    case "resource":
      return contents(item.resource);
    case "resource_link":
      return h(
        "div.block",
        lazy(
          h(
            "span",
            "link to ",
            visible(item.name ?? item.uri),
            h("span.muted", visible(` ${item.mimeType ?? ""} ${bytes(item.size)}`)),
          ),
          false,
          () => lazily(() => linked(item.uri)),
        ),
        item.description ? h("p", ...visible(item.description)) : null,
      );
    default:
      return h(
        "div.block",
        h("p.muted", `a block of type ${stringify(item?.type ?? null)}, which this page does not know`),
        tree(item),
      );
  }
}

/** The result of a tool call. */
export function resultView(result, outputSchema) {
  const parts = [];
  if (result.isError) {
    const [what, why] = result._meta?.["marquetry/upstream"]
      ? ["no answer", "The tool did not answer: its server could not be reached, or exited."]
      : ["the tool failed", "The tool ran, and reported a failure."];
    parts.push(
      h("p.bad", { role: "alert" }, badge("failed", what), ` ${why} The model sees this text, and may try again.`),
    );
  }
  const blocks = Array.isArray(result.content) ? result.content : [];
  parts.push(blocks.slice(0, 200).map(block));
  if (blocks.length > 200) parts.push(h("p", `${blocks.length - 200} more blocks`));
  const hasPicture = blocks.some(({ type, text }) => type === "text" && svgsOf(jsonOf(text) ?? text).length);
  if (result.structuredContent !== undefined) {
    const errors = outputSchema ? check(outputSchema, result.structuredContent) : [];
    const rows = rowsOf(result.structuredContent) ?? firstRows(result.structuredContent);
    parts.push(
      h(
        "section.block",
        h(
          "h2",
          "Structured content ",
          outputSchema
            ? badge(errors.length ? "bad" : "ok", errors.length ? "violates its schema" : "matches its schema")
            : null,
        ),
        errors.length
          ? h(
              "ul",
              errors.slice(0, 20).map((it) => h("li", `${it.path.join(".") || "the whole"}: ${it.message}`)),
            )
          : null,
        hasPicture ? null : svgsOf(result.structuredContent).map(svgPicture),
        rows ? tableOf(rows, "Structured content") : null,
        tree(result.structuredContent),
      ),
    );
  }
  if (!blocks.length && result.structuredContent === undefined) parts.push(h("p.muted", "The answer has no content."));
  return h("div.result", parts);
}

function firstRows(value) {
  const lists = isObject(value) ? Object.values(value).filter(Array.isArray) : [];
  return lists.length === 1 ? rowsOf(lists[0]) : undefined;
}
