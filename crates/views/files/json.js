// JSON as values: exact numbers, tables out of lists of objects, and a tree whose parts are made when they are opened.
import { count, el, shown } from "./page.js";
import { MAX_COLUMNS } from "./csv.js";

/** A number that JavaScript cannot hold: it is shown as it was written. */
export class ExactNumber {
  constructor(text) {
    this.text = text;
  }

  toString() {
    return this.text;
  }

  toJSON() {
    // Only shown, never sent: a text keeps the digits.
    return this.text;
  }
}

/** Parses JSON. Numbers that would change are kept as they are written. */
export function parseJson(text) {
  return JSON.parse(text, (_, value, context) => {
    if (typeof value !== "number" || context?.source === undefined) return value;
    const { source } = context;
    return String(value) === source ? value : new ExactNumber(source);
  });
}

/** Parses one JSON value a line. Throws an error that names the line. */
export function parseJsonLines(text) {
  const values = [];
  text.split("\n").forEach((line, index) => {
    if (line.trim() === "") return;
    try {
      values.push(parseJson(line));
    } catch (error) {
      throw new Error(`line ${index + 1}: ${error.message}`);
    }
  });
  return values;
}

/** A list of objects, or of lists, as a table: `{columns, rows}`; undefined for other values. */
export function tableOf(value) {
  const list = listIn(value);
  if (!list || list.length === 0) return undefined;
  const isObject = (item) =>
    item !== null && typeof item === "object" && !Array.isArray(item) && !(item instanceof ExactNumber);
  if (list.every(isObject)) {
    const names = new Set();
    for (const item of list) {
      for (const name of Object.keys(item)) if (names.size < MAX_COLUMNS) names.add(name);
    }
    const columns = [...names];
    return {
      columns,
      rows: list.map((item) => columns.map((name) => (Object.hasOwn(item, name) ? item[name] : undefined))),
    };
  }
  if (list.every(Array.isArray)) {
    const width = Math.min(
      MAX_COLUMNS,
      list.reduce((most, item) => Math.max(most, item.length), 0),
    );
    return {
      columns: Array.from({ length: width }, (_, index) => String(index)),
      rows: list.map((item) => item.slice(0, width)),
    };
  }
  return undefined;
}

/** The list that a value is or has as its only list, such as `{"items": [...], "next": "x"}`. */
function listIn(value) {
  if (Array.isArray(value)) return value;
  if (value === null || typeof value !== "object") return undefined;
  const lists = Object.values(value).filter((member) => Array.isArray(member) && member.length > 0);
  return lists.length === 1 ? lists[0] : undefined;
}

/** A value in one line, for a cell. */
export function cellText(value) {
  if (value === undefined) return "";
  if (typeof value === "string") return value;
  if (value instanceof ExactNumber) return value.text;
  return JSON.stringify(value);
}

const GROUP = 100;
const MAX_STRING = 2_000;

/** A value as a tree. Members are made when their parent is opened, in groups of 100. */
export function jsonTree(value) {
  const tree = el("div", { class: "tree" });
  const root = node(undefined, value);
  tree.append(root);
  if (root.tagName === "DETAILS") root.open = true;
  return tree;
}

function isBranch(value) {
  return value !== null && typeof value === "object" && !(value instanceof ExactNumber);
}

function node(key, value) {
  const label =
    key === undefined ? [] : [el("span", { class: "key" }, shown(typeof key === "number" ? String(key) : key)), ": "];
  if (!isBranch(value)) return el("div", { class: "leaf" }, ...label, leaf(value));
  const isList = Array.isArray(value);
  const keys = isList ? value.length : Object.keys(value).length;
  const about = isList ? `[${count(keys)}]` : `{${count(keys)}}`;
  if (keys === 0) return el("div", { class: "leaf" }, ...label, el("span", { class: "about" }, isList ? "[]" : "{}"));
  const entries = () => (isList ? Array.from(value, (item, index) => [index, item]) : Object.entries(value));
  return branch([...label, el("span", { class: "about" }, about, isList ? "" : keysOf(value))], () =>
    groups(entries()),
  );
}

/** The first keys of an object, so that it can be told from others while it is closed. */
function keysOf(value) {
  const names = Object.keys(value)
    .slice(0, 4)
    .map((name) => (name.length > 24 ? `${name.slice(0, 24)}…` : name));
  const fragment = document.createDocumentFragment();
  fragment.append(" ", shown(names.join(", ")), Object.keys(value).length > 4 ? ", …" : "");
  return fragment;
}

function branch(summary, children) {
  const details = el("details", {}, el("summary", {}, ...summary));
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) {
      details.append(el("ul", {}, ...children().map((child) => el("li", {}, child))));
    }
  });
  return details;
}

function groups(entries) {
  if (entries.length <= GROUP) return entries.map(([key, value]) => node(key, value));
  // Groups of groups: a list of a million has no node with more than 100 below it.
  let size = GROUP;
  while (entries.length / size > GROUP) size *= GROUP;
  const parts = [];
  for (let at = 0; at < entries.length; at += size) {
    const part = entries.slice(at, at + size);
    parts.push(
      branch([el("span", { class: "about" }, `${count(at)} … ${count(at + part.length - 1)}`)], () => groups(part)),
    );
  }
  return parts;
}

function leaf(value) {
  if (typeof value === "string") {
    const text =
      value.length > MAX_STRING ? `${value.slice(0, MAX_STRING)}… (${count(value.length)} characters)` : value;
    return el("span", { class: "string" }, "“", shown(text), "”");
  }
  const isNumber = typeof value === "number" || value instanceof ExactNumber;
  return el("span", { class: isNumber ? "number" : "word" }, String(value));
}
