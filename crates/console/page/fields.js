// Fields of a form with one value each, and the frames around fields. Each maker returns { element, get() }.

import { button, h, newId, search } from "./dom.js";
import { Malformed, parse, stringify } from "./json.js";
import { marked, visible } from "./result.js";
import { fitsPattern, mentionsSecret, optionsOf, resolve } from "./schema.js";

const UNSET = undefined;

// Names and texts of a schema come from an upstream.
function labelOf(at, note = "") {
  return [
    h("span.name", visible((at.isQuestion && at.title) || at.name || at.title || "value")),
    at.isRequired ? h("span.star", { "aria-hidden": "true" }, " *") : null,
    h("span.muted", visible(` ${KINDS[at.kind] ?? at.kind}${note}`)),
  ];
}

/** The frame of a field with one control: label, description, control, problem. */
function framed(at, control, ...more) {
  control.id ||= newId("f");
  const [about, problem] = [newId("about"), newId("problem")];
  control.setAttribute("aria-describedby", `${about} ${problem}`);
  if (at.isRequired) control.setAttribute("aria-required", "true");
  const notes = [at.schema.format, at.schema.deprecated ? "deprecated" : "", at.isRequired ? "" : "optional"]
    .filter(Boolean)
    .map((it) => `, ${it}`);
  return h(
    "div.field",
    { "data-path": JSON.stringify(at.path) },
    h("label", { for: control.id }, labelOf(at, notes.join(""))),
    h("div.about", { id: about, hidden: !at.about }, visible(at.about ?? "")),
    h("div.control", control, ...more),
    h("div.problem", { id: problem }),
  );
}

/** The frame of a field with several controls. */
export function group(at, ...content) {
  const [about, problem] = [newId("about"), newId("problem")];
  const isInner = at.path.length > 0;
  return h(
    isInner ? "fieldset" : "fieldset.outer",
    { "data-path": JSON.stringify(at.path), "aria-describedby": `${about} ${problem}` },
    isInner ? h("legend", labelOf(at)) : h("legend.hidden", visible(at.title || "Arguments")),
    h("div.about", { id: about, hidden: !at.about || !isInner }, visible(at.about ?? "")),
    content,
    h("div.problem", { id: problem }),
  );
}

const KINDS = { multi: "choices", enum: "choice", json: "JSON", union: "one of several" };
const INPUT_MODES = { __proto__: null, email: "email", uri: "url", url: "url", "uri-reference": "url" };
const EXAMPLES = {
  __proto__: null,
  date: "2026-11-22",
  time: "09:30:00Z",
  "date-time": "2026-11-22T09:30:00Z",
  duration: "PT5M",
};

export function stringField(at, start) {
  let isSet = typeof start === "string";
  const example = EXAMPLES[at.schema.format] ?? (Array.isArray(at.schema.examples) ? at.schema.examples[0] : undefined);
  const props = {
    spellcheck: "false",
    autocomplete: "off",
    placeholder: marked(example),
    inputmode: INPUT_MODES[at.schema.format],
    value: isSet ? start : "",
  };
  const input = at.isHidden ? h("input", { ...props, type: "password" }) : h("textarea", { ...props, rows: 1 });
  const state = h("span.muted");
  const put = (text) => {
    input.value = text ?? "";
    isSet = text !== UNSET;
    update();
    at.changed();
  };
  const unset = button("Unset", () => put(UNSET), { class: "small", "aria-label": `Unset ${at.name}` });
  const update = () => {
    state.textContent = isSet ? (input.value === "" ? "empty text" : "") : "not sent";
    unset.hidden = !isSet;
    if (!at.isHidden) input.rows = Math.min(12, input.value.split("\n").length);
  };
  input.addEventListener("input", () => {
    isSet = true;
    update();
    at.changed();
  });
  input.addEventListener("change", () => {
    if (at.schema.pattern && fitsPattern(at.schema.pattern, input.value) === UNSET)
      state.textContent = "only the server checks the pattern";
  });
  update();
  // A required text may be meant to be empty; this says so without typing.
  const blank =
    at.isRequired || at.isOpened
      ? button("Empty", () => put(""), { class: "small", "aria-label": `Make ${at.name} empty text` })
      : null;
  return { element: framed(at, input, state, blank, unset), get: () => (isSet ? input.value : UNSET) };
}

export function numberField(at, start) {
  const shown = ["number", "bigint", "string"].includes(typeof start) ? String(start) : "";
  const input = h("input", {
    type: at.isHidden ? "password" : "text",
    inputmode: at.kind === "integer" ? "numeric" : "decimal",
    autocomplete: "off",
    value: shown,
    placeholder: range(at.schema),
    oninput: at.changed,
  });
  return {
    element: framed(at, input),
    get() {
      const text = input.value.trim();
      // Text that is not a number is kept unchanged, so that the check names the found text.
      return text === "" ? UNSET : /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text) ? parse(text) : text;
    },
  };
}

const range = ({ minimum, maximum }) =>
  [
    ["from", minimum],
    ["to", maximum],
  ]
    .filter(([, it]) => it !== undefined)
    .map((it) => it.join(" "))
    .join(" ");

export function choiceField(at, start) {
  const options = optionsOf(at.schema, at.root);
  const chosen = options.findIndex((it) => start !== UNSET && stringify(it.value) === stringify(start));
  const select = h(
    "select",
    { onchange: at.changed },
    h("option", { value: "" }, at.isRequired ? "choose…" : "not sent"),
    options.map((it, index) =>
      h("option", { value: index, selected: index === chosen, title: marked(it.about) }, visible(it.label)),
    ),
  );
  const filter = search(
    `Filter ${at.name}`,
    () => {
      const wanted = filter.value.toLowerCase();
      [...select.options].forEach((option, index) => {
        option.hidden = index > 0 && !option.textContent.toLowerCase().includes(wanted);
      });
    },
    options.length >= 8,
  );
  return {
    element: framed(at, select, filter),
    get: () => (select.value === "" ? UNSET : options[Number(select.value)].value),
  };
}

export function constField(at, start) {
  const value = at.kind === "null" ? null : at.schema.const;
  const text = h("output", visible(stringify(value)));
  if (at.isRequired) return { element: framed(at, text), get: () => value };
  const box = h("input", { type: "checkbox", checked: start !== UNSET, onchange: at.changed });
  return { element: framed(at, box, text), get: () => (box.checked ? value : UNSET) };
}

export function multiField(at, start) {
  const options = optionsOf(resolve(at.schema.items, at.root), at.root);
  const has = (value) => Array.isArray(start) && start.some((it) => stringify(it) === stringify(value));
  let isSet = Array.isArray(start);
  const boxes = options.map((it) =>
    h("input", {
      type: "checkbox",
      id: newId("c"),
      checked: has(it.value),
      onchange: () => {
        isSet = true;
        at.changed();
      },
    }),
  );
  return {
    element: group(
      at,
      h(
        "div.choices",
        boxes.map((box, index) => h("label", { for: box.id }, box, visible(` ${options[index].label}`))),
      ),
    ),
    get() {
      const values = options.filter((_, index) => boxes[index].checked).map((it) => it.value);
      return values.length || isSet || at.isRequired ? values : UNSET;
    },
  };
}

/** The text of a value, as JSON. */
export function jsonField(at, start) {
  const input = h(at.isHidden ? "input" : "textarea", {
    type: at.isHidden ? "password" : undefined,
    autocomplete: "off",
    rows: 3,
    spellcheck: "false",
    class: "code",
    value: start === UNSET ? "" : stringify(start, at.isHidden ? 0 : 2),
    oninput: at.changed,
  });
  const note =
    !at.isHidden &&
    mentionsSecret(at.parts, at.root) &&
    h("span.muted", "A secret in this text is visible while you type, and is not stored.");
  return {
    element: framed(at, input, note),
    get() {
      if (!input.value.trim()) return UNSET;
      try {
        return parse(input.value);
      } catch {
        return new Malformed(input.value);
      }
    },
  };
}
