// Forms from JSON Schema. A field that is unset is not sent; null and empty text are values of their own.

import { afterClick, button, fill, focusIn, h, say, search } from "./dom.js";
import { choiceField, constField, group, jsonField, multiField, numberField, stringField } from "./fields.js";
import { isObject, Malformed, nameOf, problemLine, stringify } from "./json.js";
import { marked, visible } from "./result.js";
import {
  branchesOf,
  initial,
  isSecret,
  kindOf,
  nearestBranch,
  openedStart,
  partsAt,
  partsOf,
  problemsIn,
  propertiesOf,
  resolve,
  withoutNull,
} from "./schema.js";

const UNSET = undefined;

const INPUTS = "input, textarea, select, button.add";
const MOST = 100;

/**
 * Makes a form for a schema: { element, get(), set(value), check() }. `onchange` is called for each
 * change. The form of a question shows every field, under its title: people answer it who do not
 * know the schema.
 */
export function createForm(schema, start, onchange = () => {}, isQuestion = false) {
  const summary = h("div.summary", { role: "alert", tabIndex: -1 });
  const element = h("form.form", { novalidate: true, onsubmit: (event) => event.preventDefault() });
  const touched = new WeakSet();
  let editor;
  const build = (value) => {
    fill(summary);
    editor = field(
      {
        root: schema,
        schema,
        parts: partsOf([schema], schema),
        name: "",
        path: [],
        isRequired: true,
        changed: onchange,
        isQuestion,
        count: { left: 500 },
      },
      value,
    );
    fill(element, summary, editor.element);
  };
  build(start === UNSET ? initial(schema, schema) : start);
  const around = (it) => it?.closest("[data-path]");
  const problems = () => problemsIn(schema, editor.get() ?? {});
  /** Finds the innermost field that is shown for a path, or for the nearest path around it. */
  const finder = () => {
    const fields = new Map(
      [...element.querySelectorAll("[data-path]")]
        .filter((it) => !it.closest("[hidden]"))
        .map((it) => [it.dataset.path, it]),
    );
    return (path) =>
      fields.get(
        path.map((_, index) => JSON.stringify(path.slice(0, path.length - index))).find((it) => fields.has(it)) ?? "[]",
      );
  };
  /** The input of a field, or the first one inside of it. */
  const inputOf = (it) => {
    const inputs = [...it.querySelectorAll(INPUTS)];
    return inputs.find((input) => around(input) === it) ?? inputs[0] ?? it;
  };
  /** Shows what is wrong with one field. */
  const mark = (it, errors) => {
    const { length } = JSON.parse(it.dataset.path);
    fill(
      it.querySelector(":scope > .problem"),
      errors
        .slice(0, MOST)
        .map(({ path, message }) => h("span", visible(problemLine(path.slice(length), message)), " ")),
    );
    const input = inputOf(it);
    if (around(input) !== it) return;
    if (errors.length) input.setAttribute("aria-invalid", "true");
    else input.removeAttribute("aria-invalid");
  };
  const showErrors = (errors) => {
    element.querySelectorAll(".problem:not(:empty)").forEach((it) => it.replaceChildren());
    element.querySelectorAll("[aria-invalid]").forEach((it) => it.removeAttribute("aria-invalid"));
    const find = finder();
    const fields = new Map(errors.map(({ path }) => [find(path), []]));
    for (const error of errors) fields.get(find(error.path)).push(error);
    fields.forEach((its, it) => mark(it, its));
    const links = errors.slice(0, MOST).map(({ path, message }) =>
      h(
        "li",
        button(visible(problemLine(path.length ? path : ["arguments"], message)), () => inputOf(find(path)).focus(), {
          class: "linklike",
        }),
      ),
    );
    fill(
      summary,
      errors.length ? [h("p", errors.length === 1 ? "1 problem" : `${errors.length} problems`), h("ul", links)] : null,
      errors.length > MOST ? h("p", `the first ${MOST} of them`) : null,
    );
    return errors;
  };
  const touch = ({ target, type }) => {
    if (type === "click" && !target.closest("button")) return;
    for (let it = around(target); it; it = around(it.parentElement)) touched.add(it);
  };
  for (const name of ["input", "change", "click"]) element.addEventListener(name, touch);
  // A field that was changed is checked when the focus leaves it. Only Run reports missing values of other fields.
  element.addEventListener("focusout", ({ target, relatedTarget }) =>
    afterClick(() => {
      const left = [];
      for (let it = around(target); it && !it.contains(relatedTarget); it = around(it.parentElement))
        if (touched.has(it) && it.dataset.path !== "[]") left.push(it);
      if (!left.length || !element.contains(target)) return;
      const errors = problems();
      if (summary.firstChild) {
        showErrors(errors);
        return;
      }
      const find = finder();
      for (const it of left) {
        const isWhole = !it.querySelector("[data-path]");
        const own = errors.filter(
          ({ path }) => find(path) === it && (isWhole || JSON.stringify(path) === it.dataset.path),
        );
        mark(it, own);
        if (own.length) say(own.map(({ path, message }) => problemLine(path, message)).join(", "));
      }
    }),
  );
  return {
    element,
    get: () => editor.get(),
    set: build,
    showErrors,
    /** Checks the values, shows what is wrong at the fields, and returns it. */
    check: () => showErrors(problems()),
    focusFirstError() {
      (element.querySelector("[aria-invalid]") ?? summary).focus();
    },
  };
}

/** Makes the field of a member or an item, which is secret if all around it is. */
function fieldIn(at, key, more, value) {
  return field(
    {
      ...at,
      isOpened: false,
      name: nameOf(key),
      parts: partsAt(at.parts, key, at.root),
      path: [...at.path, key],
      ...more,
    },
    value,
  );
}

/** Makes the field of one value: { element, get() }. */
function field(at, value) {
  at.count.left -= 1;
  const whole = resolve(at.schema, at.root);
  const { schema, isNullable } = withoutNull(whole, at.root);
  let kind = kindOf(schema, at.root);
  // The choices of MCP's questions have no `uniqueItems`.
  if (at.isQuestion && kind === "array" && kindOf(resolve(schema.items, at.root), at.root) === "enum") kind = "multi";
  const make = MAKERS[kind] ?? jsonField;
  const inner = {
    ...at,
    schema,
    kind,
    isHidden: at.isHidden || isSecret(at.parts),
    about: whole.description ?? schema.description,
    title: whole.title ?? schema.title,
  };
  const makeFor = (start) => {
    const editor = make(inner, start);
    // A value that the field cannot show is shown as JSON.
    return start !== UNSET && editor.get() === UNSET ? jsonField({ ...inner, kind: "json" }, start) : editor;
  };
  if (!isNullable) return makeFor(value);
  const isNull = value === null;
  const editor = makeFor(isNull ? UNSET : value);
  const place = h("div", { hidden: isNull }, editor.element);
  const box = h("input", {
    type: "checkbox",
    checked: isNull,
    onchange: () => {
      place.hidden = box.checked;
      at.changed();
    },
  });
  return {
    element: h(
      "div.nullable",
      { "data-path": JSON.stringify(at.path) },
      place,
      h("label.switch", box, visible(` ${at.name || "the value"} is null`)),
      h("div.problem"),
    ),
    get: () => (box.checked ? null : editor.get()),
  };
}

const removeButton = (name, act, title) =>
  button("×", act, { class: "small remove", "aria-label": `Remove ${name}`, title });

function objectField(at, start) {
  const value = isObject(start) ? start : {};
  const properties = propertiesOf(at.schema, at.root);
  const names = new Set(Object.keys(properties));
  const required = new Set(Array.isArray(at.schema.required) ? at.schema.required : []);
  const shown = new Map();
  const place = h("div.members");
  const more = h("div.more");
  let isSet = start !== UNSET || at.isRequired || at.isOpened;
  const open = (name, initialValue, focus) => {
    const isRequired = required.has(name);
    const editor = fieldIn(
      at,
      name,
      {
        schema: properties[name],
        isRequired,
        isOpened: !isRequired && !at.isQuestion,
        changed: () => {
          isSet = true;
          at.changed();
        },
      },
      initialValue,
    );
    const remove =
      isRequired || at.isQuestion
        ? null
        : removeButton(
            nameOf(name),
            () => {
              shown.delete(name);
              row.remove();
              offer();
              at.changed();
              more.querySelector("button")?.focus();
            },
            marked(`do not send ${name}`),
          );
    const row = h("div.member", editor.element, remove);
    shown.set(name, editor);
    place.append(row);
    if (focus) focusIn(row);
  };
  const filter = search(`Filter the members of ${at.name || "the arguments"}`, () => offer(), names.size > MOST);
  const offer = () => {
    const rest = [...names].filter(
      (name) => !shown.has(name) && name.toLowerCase().includes(filter.value.toLowerCase()),
    );
    fill(
      more,
      rest.slice(0, MOST).map((name) =>
        button(
          visible(`+ ${nameOf(name)}${required.has(name) ? " *" : ""}`),
          () => {
            isSet = true;
            open(name, openedStart(properties[name], at.root), true);
            offer();
            at.changed();
          },
          { class: "add small", title: marked(resolve(properties[name], at.root).description) },
        ),
      ),
      rest.length > MOST ? `and ${rest.length - MOST} more` : null,
    );
  };
  for (const name of names) {
    const begins = Object.hasOwn(value, name) ? value[name] : UNSET;
    // A schema may require members without end. Those are opened by their buttons.
    if (begins !== UNSET || ((required.has(name) || at.isQuestion) && at.count.left > 0 && at.path.length < 10))
      open(name, begins);
  }
  offer();
  const others = Object.fromEntries(Object.entries(value).filter(([name]) => !names.has(name)));
  const takesMore =
    at.schema.additionalProperties === true ||
    (at.schema.additionalProperties && typeof at.schema.additionalProperties === "object");
  const rest =
    takesMore || Object.keys(others).length
      ? rowsOfMap(
          {
            ...at,
            changed: () => {
              isSet = true;
              at.changed();
            },
          },
          others,
        )
      : undefined;
  const none = !names.size && !rest ? h("p.muted", "takes no arguments") : null;
  return {
    element: group(at, place, filter, more, rest ? h("div.others", rest.element) : null, none),
    get() {
      const members = [...names].map((name) => [name, shown.get(name)?.get()]).filter(([, member]) => member !== UNSET);
      const all = [...members, ...(rest?.members() ?? [])];
      return all.length || isSet ? objectOf(all) : UNSET;
    },
  };
}

/**
 * Makes an object of names and values. One with a name twice, or with a value that has no name,
 * stays as text until it is corrected.
 */
function objectOf(members) {
  const names = members.map(([name]) => name);
  const twice = names.find((name, index) => name !== undefined && names.indexOf(name) < index);
  const problem = names.includes(undefined)
    ? "a value has no name"
    : twice === undefined
      ? ""
      : `the name ${nameOf(twice)} is used twice`;
  if (!problem) return Object.fromEntries(members);
  return new Malformed(
    `{${members.map(([name, value]) => `${stringify(name ?? "")}:${stringify(value)}`).join(",")}}`,
    problem,
  );
}

/**
 * Makes the rows of a map, which has members of any name: { element, members() }. The name of a row
 * without one is undefined.
 */
function rowsOfMap(at, start) {
  const schema = at.schema.additionalProperties === undefined ? true : at.schema.additionalProperties;
  let rows = [];
  const place = h("div");
  const add = (name, value, focus) => {
    const key = h("input", {
      type: "text",
      value: name ?? "",
      placeholder: "name",
      "aria-label": "Name",
      oninput: at.changed,
      autocomplete: "off",
    });
    const editor = fieldIn(at, name || "?", { schema, name: "value", isRequired: true }, value);
    // An empty name is one only where it came with the value.
    const row = { editor, name: () => (key.value === "" && name !== "" ? UNSET : key.value) };
    row.element = h(
      "div.pair",
      key,
      editor.element,
      removeButton(name || "the row", () => {
        rows = rows.filter((it) => it !== row);
        row.element.remove();
        at.changed();
      }),
    );
    rows.push(row);
    place.append(row.element);
    if (focus) key.focus();
  };
  Object.entries(start ?? {}).forEach(([name, value]) => add(name, value));
  return {
    element: h(
      "div",
      place,
      button(
        "+ name and value",
        () => {
          add(UNSET, initial(schema, at.root), true);
          at.changed();
        },
        { class: "add small" },
      ),
    ),
    members: () => rows.map((row) => [row.name(), row.editor.get()]).filter(([, value]) => value !== UNSET),
  };
}

function mapField(at, start) {
  let isSet = start !== UNSET || at.isRequired;
  const rows = rowsOfMap(
    {
      ...at,
      changed: () => {
        isSet = true;
        at.changed();
      },
    },
    isObject(start) ? start : {},
  );
  return { element: group(at, rows.element), get: () => (isSet ? objectOf(rows.members()) : UNSET) };
}

function arrayField(at, start) {
  let isSet = Array.isArray(start) || at.isOpened;
  let rows = [];
  const place = h("div.items");
  const all = () => rows.map((row) => row.editor.get());
  const rebuild = (values, focus) => {
    rows = values.map((value, index) => {
      const name = `item ${index + 1}`;
      const editor = fieldIn(at, index, { schema: at.schema.items, name, isRequired: true, isOpened: true }, value);
      const moves = [
        ["↑", "up", -1],
        ["↓", "down", 1],
      ].map(([sign, where, step]) =>
        button(
          sign,
          () => {
            const now = all();
            [now[index], now[index + step]] = [now[index + step], now[index]];
            rebuild(now, index + step);
            at.changed();
          },
          { class: "small", disabled: !(index + step in values), "aria-label": `Move ${name} ${where}` },
        ),
      );
      const element = h(
        "div.item",
        editor.element,
        h(
          "div.tools",
          moves,
          removeButton(name, () => {
            rebuild(
              all().filter((_, it) => it !== index),
              Math.max(0, index - 1),
            );
            at.changed();
          }),
        ),
      );
      return { editor, element };
    });
    fill(
      place,
      rows.map((row) => row.element),
    );
    if (focus !== undefined) focusIn(rows[focus]?.element);
  };
  rebuild(Array.isArray(start) ? start : []);
  const add = button(
    "+ item",
    () => {
      isSet = true;
      rebuild([...all(), initial(at.schema.items, at.root)], rows.length);
      at.changed();
    },
    { class: "add small", "aria-label": `Add an item to ${at.name || "the list"}` },
  );
  return { element: group(at, place, add), get: () => (rows.length || isSet || at.isRequired ? all() : UNSET) };
}

function tupleField(at, start) {
  const fixed = Array.isArray(at.schema.prefixItems) ? at.schema.prefixItems : at.schema.items;
  const values = Array.isArray(start) ? start : [];
  const least = at.schema.minItems ?? 0;
  const editors = fixed.map((schema, index) =>
    fieldIn(
      at,
      index,
      { schema, name: `item ${index + 1}`, isRequired: index < least },
      index < values.length ? values[index] : initial(schema, at.root, index < least),
    ),
  );
  return {
    element: group(
      at,
      editors.map((editor) => editor.element),
    ),
    get() {
      const found = editors.map((editor) => editor.get());
      while (found.length && found[found.length - 1] === UNSET) found.pop();
      // Items beyond the fixed ones come from the JSON tab, and stay.
      const all = [
        ...found.map((it) => (it === UNSET ? new Malformed("", "has no value, but later items have") : it)),
        ...(found.length === fixed.length ? values.slice(fixed.length) : []),
      ];
      return all.length || at.isRequired ? all : UNSET;
    },
  };
}

function unionField(at, start) {
  const branches = branchesOf(at.schema, at.root);
  const kept = new Map();
  const place = h("div");
  let current = start === UNSET ? -1 : nearestBranch(branches, start, at.root);
  const select = h(
    "select",
    {
      "aria-label": `Kind of ${at.name || "value"}`,
      onchange: () => {
        show(Number(select.value));
        at.changed();
      },
    },
    h("option", { value: -1 }, at.isRequired ? "choose…" : "not sent"),
    branches.map((it, index) => h("option", { value: index }, visible(it.label))),
  );
  const show = (index, value) => {
    current = index;
    select.value = String(index);
    // Values that were typed for another branch return with it.
    if (index >= 0 && !kept.has(index)) {
      const branch = branches[index].schema;
      kept.set(
        index,
        field(
          { ...at, schema: branch, name: at.name || branches[index].label, isRequired: true, isOpened: true },
          value === UNSET ? initial(branch, at.root) : value,
        ),
      );
    }
    fill(place, index >= 0 ? kept.get(index).element : null);
  };
  show(current, start);
  return { element: group(at, select, place), get: () => (current < 0 ? UNSET : kept.get(current).get()) };
}

const MAKERS = {
  string: stringField,
  number: numberField,
  integer: numberField,
  boolean: choiceField,
  const: constField,
  null: constField,
  enum: choiceField,
  multi: multiField,
  object: objectField,
  map: mapField,
  array: arrayField,
  tuple: tupleField,
  union: unionField,
  json: jsonField,
};
