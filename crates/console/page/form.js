// Forms from JSON Schema. A field that is unset is not sent; null and empty text are values of their own.

import { afterClick, button, fill, h, newId, say } from './dom.js';
import { isObject, Malformed, parse, stringify } from './json.js';
import { visible } from './result.js';
import { branchesOf, check, initial, isSecret, kindOf, mentionsSecret, nearestBranch, optionsOf, partsAt, partsOf, problemsIn, propertiesOf, resolve, withoutNull } from './schema.js';

const UNSET = undefined;

const INPUTS = 'input, textarea, select, button.add';
const MOST_SHOWN = 50;

/** Makes a form for a schema: { element, get(), set(value), check() }. `onchange` is told of each change. */
export function createForm(schema, start, onchange = () => {}) {
  const root = schema;
  const summary = h('div.summary', { role: 'alert', tabIndex: -1 });
  const box = h('div');
  const element = h('form.form', { novalidate: true, onsubmit: (event) => event.preventDefault() }, summary, box);
  const touched = new WeakSet();
  let editor;
  const build = (value) => {
    fill(summary);
    editor = field({ root, schema, parts: partsOf([schema], root), name: '', path: [], isRequired: true, changed: onchange }, value);
    fill(box, editor.element);
  };
  build(start === UNSET ? initial(schema, root) : start);
  const problems = () => problemsIn(schema, editor.get() ?? {});
  /** Finds the innermost field that is shown for a path, or for the nearest path around it. */
  const finder = () => {
    const fields = new Map([...element.querySelectorAll('[data-path]')].filter((it) => !it.closest('[hidden]')).map((it) => [it.dataset.path, it]));
    return (path) => fields.get(path.map((_, index) => JSON.stringify(path.slice(0, path.length - index))).find((it) => fields.has(it)) ?? '[]');
  };
  /** Shows what is wrong with one field. Returns its input, or the first one inside of it. */
  const mark = (it, messages) => {
    fill(it.querySelector(':scope > .problem'), messages.map((message) => h('span', visible(message), ' ')));
    const inputs = [...it.querySelectorAll(INPUTS)];
    const own = inputs.find((input) => input.closest('[data-path]') === it);
    if (messages.length) own?.setAttribute('aria-invalid', 'true');
    else own?.removeAttribute('aria-invalid');
    return own ?? inputs[0] ?? it;
  };
  const showErrors = (errors) => {
    element.querySelectorAll('.problem:not(:empty)').forEach((it) => it.replaceChildren());
    element.querySelectorAll('[aria-invalid]').forEach((it) => it.removeAttribute('aria-invalid'));
    const find = finder();
    const all = new Map();
    for (const { path, message } of errors) {
      const it = find(path);
      all.set(it, [...all.get(it) ?? [], message]);
    }
    all.forEach((messages, it) => mark(it, messages));
    const links = errors.slice(0, MOST_SHOWN).map(({ path, message }) => h('li', button(visible(`${path.join('.') || 'arguments'}: ${message}`), () => {
      const it = find(path);
      mark(it, all.get(it)).focus();
    }, { class: 'linklike' })));
    fill(summary, errors.length ? [h('p', errors.length === 1 ? '1 problem' : `${errors.length} problems`), h('ul', links)] : null, errors.length > MOST_SHOWN ? h('p', `the first ${MOST_SHOWN} of them`) : null);
    return errors;
  };
  const around = (it) => it?.closest('[data-path]');
  const touch = ({ target, type }) => {
    if (type === 'click' && !target.closest('button')) return;
    for (let it = around(target); it; it = around(it.parentElement)) touched.add(it);
  };
  for (const name of ['input', 'change', 'click']) element.addEventListener(name, touch);
  // A field that was changed is checked when the focus leaves it. What others lack is told by Run alone.
  element.addEventListener('focusout', ({ target, relatedTarget }) => afterClick(() => {
    const left = [];
    for (let it = around(target); it && !it.contains(relatedTarget); it = around(it.parentElement)) if (touched.has(it) && it.dataset.path !== '[]') left.push(it);
    if (!left.length || !element.contains(target)) return;
    const errors = problems();
    if (summary.firstChild) { showErrors(errors); return; }
    const find = finder();
    for (const it of left) {
      const isWhole = !it.querySelector('[data-path]');
      const own = errors.filter(({ path }) => find(path) === it && (isWhole || JSON.stringify(path) === it.dataset.path)).map(({ message }) => message);
      mark(it, own);
      if (own.length) say(`${JSON.parse(it.dataset.path).join('.')}: ${own.join(', ')}`);
    }
  }));
  return {
    element,
    get: () => editor.get(),
    set: build,
    showErrors,
    /** Checks the values, shows what is wrong at the fields, and returns it. */
    check: () => showErrors(problems()),
    focusFirstError() {
      (element.querySelector('[aria-invalid]') ?? summary).focus();
    },
  };
}

/** Makes the field of a member or an item, which is secret if all around it is. */
function fieldIn({ root, changed, isHidden, parts, path }, key, more, value) {
  return field({ root, changed, isHidden, name: String(key), parts: partsAt(parts, key, root), path: [...path, key], ...more }, value);
}

/** Makes the field of one value: { element, get() }. */
function field(at, value) {
  const whole = resolve(at.schema, at.root);
  const { schema, isNullable } = withoutNull(whole, at.root);
  const kind = kindOf(schema, at.root);
  const make = MAKERS[kind] ?? jsonField;
  const inner = { ...at, schema, kind, isHidden: at.isHidden || isSecret(at.parts), about: whole.description ?? schema.description, title: whole.title ?? schema.title };
  if (!isNullable) return make(inner, value);
  let isNull = value === null;
  let editor = make(inner, isNull ? UNSET : value);
  const place = h('div', editor.element);
  const id = newId('null');
  const box = h('input', { type: 'checkbox', id, checked: isNull, onchange: () => {
    isNull = box.checked;
    place.hidden = isNull;
    at.changed();
  } });
  place.hidden = isNull;
  const label = at.name || 'the value';
  return {
    element: h('div.nullable', { 'data-path': JSON.stringify(at.path) }, place, h('label', { for: id, class: 'switch' }, box, ` ${label} is null`), h('div.problem')),
    get: () => (isNull ? null : editor.get()),
  };
}

/** The frame of a field with one control: label, description, control, problem. */
function framed(at, control, ...more) {
  control.id ||= newId('f');
  const about = newId('about');
  const problem = newId('problem');
  control.setAttribute('aria-describedby', `${about} ${problem}`);
  if (at.isRequired) control.setAttribute('aria-required', 'true');
  const note = [at.schema.format, at.schema.deprecated ? 'deprecated' : '', at.isRequired ? '' : 'optional'].filter(Boolean).join(', ');
  return h('div.field', { 'data-path': JSON.stringify(at.path) },
    h('label', { for: control.id }, h('span.name', at.name || at.title || 'value'), at.isRequired ? h('span.star', { 'aria-hidden': 'true' }, ' *') : null,
      h('span.muted', ` ${kindName(at)}${note ? `, ${note}` : ''}`)),
    at.about ? h('div.about', { id: about }, at.about) : h('span', { id: about, hidden: true }),
    h('div.control', control, ...more),
    h('div.problem', { id: problem }));
}

function kindName(at) {
  return { multi: 'choices', enum: 'choice', map: 'map', json: 'JSON', union: 'one of several' }[at.kind] ?? at.kind;
}

const INPUT_MODES = { email: 'email', uri: 'url', url: 'url', 'uri-reference': 'url' };
const EXAMPLES = { date: '2026-11-22', time: '09:30:00Z', 'date-time': '2026-11-22T09:30:00Z', duration: 'PT5M' };

function stringField(at, start) {
  let isSet = typeof start === 'string';
  const example = EXAMPLES[at.schema.format] ?? (Array.isArray(at.schema.examples) ? at.schema.examples[0] : undefined);
  const props = { spellcheck: 'false', autocomplete: 'off', placeholder: example, inputmode: INPUT_MODES[at.schema.format], value: isSet ? start : '' };
  const input = at.isHidden ? h('input', { ...props, type: 'password' }) : h('textarea', { ...props, rows: 1 });
  const state = h('span.muted');
  const unset = button('Unset', () => { input.value = ''; isSet = false; update(); at.changed(); }, { class: 'small', 'aria-label': `Unset ${at.name}` });
  const update = () => {
    state.textContent = isSet ? (input.value === '' ? 'empty text' : '') : 'not sent';
    unset.hidden = !isSet;
    if (!at.isHidden) input.rows = Math.min(12, input.value.split('\n').length);
  };
  input.addEventListener('input', () => { isSet = true; update(); at.changed(); });
  update();
  // A required text may be meant to be empty; this says so without typing.
  const blank = at.isRequired || at.isOpened ? button('Empty', () => { input.value = ''; isSet = true; update(); at.changed(); }, { class: 'small', 'aria-label': `Make ${at.name} empty text` }) : null;
  return { element: framed(at, input, state, blank, unset), get: () => (isSet ? input.value : UNSET) };
}

function numberField(at, start) {
  const shown = typeof start === 'number' || typeof start === 'bigint' ? stringify(start) : typeof start === 'string' ? start : '';
  const input = h('input', { type: at.isHidden ? 'password' : 'text', inputmode: at.kind === 'integer' ? 'numeric' : 'decimal', autocomplete: 'off', value: shown, placeholder: range(at.schema), oninput: at.changed });
  return {
    element: framed(at, input),
    get() {
      const text = input.value.trim();
      if (text === '') return UNSET;
      // Text that is no number is kept as it is, so that the check says what was found.
      if (!/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text)) return text;
      return parse(text);
    },
  };
}

function range({ minimum, maximum }) {
  if (minimum !== undefined && maximum !== undefined) return `${minimum} to ${maximum}`;
  if (minimum !== undefined) return `from ${minimum}`;
  return maximum === undefined ? undefined : `to ${maximum}`;
}

function choiceField(at, start) {
  const options = optionsOf(at.schema, at.root);
  const chosen = options.findIndex((it) => start !== UNSET && stringify(it.value) === stringify(start));
  const select = h('select', { onchange: at.changed }, h('option', { value: '' }, at.isRequired ? 'choose…' : 'not sent'),
    options.map((it, index) => h('option', { value: index, selected: index === chosen, title: it.about }, it.label)));
  const more = [];
  if (options.length >= 8) {
    more.push(h('input', { type: 'search', class: 'narrow', placeholder: 'filter', 'aria-label': `Filter ${at.name}`, oninput: (event) => {
      const wanted = event.target.value.toLowerCase();
      [...select.options].forEach((option, index) => { option.hidden = index > 0 && !option.textContent.toLowerCase().includes(wanted); });
    } }));
  }
  return { element: framed(at, select, more), get: () => (select.value === '' ? UNSET : options[Number(select.value)].value) };
}

function constField(at, start) {
  const value = at.kind === 'null' ? null : at.schema.const;
  const text = h('output', stringify(value));
  if (at.isRequired) return { element: framed(at, text), get: () => value };
  const box = h('input', { type: 'checkbox', checked: start !== UNSET, onchange: at.changed });
  return { element: framed(at, box, text), get: () => (box.checked ? value : UNSET) };
}

function multiField(at, start) {
  const options = optionsOf(resolve(at.schema.items, at.root), at.root);
  const has = (value) => Array.isArray(start) && start.some((it) => stringify(it) === stringify(value));
  let isSet = Array.isArray(start);
  const boxes = options.map((it) => h('input', { type: 'checkbox', id: newId('c'), checked: has(it.value), onchange: () => { isSet = true; at.changed(); } }));
  return {
    element: group(at, h('div.choices', boxes.map((box, index) => h('label', { for: box.id }, box, ` ${options[index].label}`)))),
    get() {
      const values = options.filter((_, index) => boxes[index].checked).map((it) => it.value);
      return values.length || isSet || at.isRequired ? values : UNSET;
    },
  };
}

/** The frame of a field with several controls. */
function group(at, ...content) {
  const about = newId('about');
  const problem = newId('problem');
  return h('fieldset', { 'data-path': JSON.stringify(at.path), 'aria-describedby': `${about} ${problem}`, class: at.path.length ? '' : 'outer' },
    at.path.length ? h('legend', h('span.name', at.name), at.isRequired ? h('span.star', { 'aria-hidden': 'true' }, ' *') : null, h('span.muted', ` ${kindName(at)}`)) : h('legend.hidden', at.title || 'Arguments'),
    at.about && at.path.length ? h('div.about', { id: about }, at.about) : h('span', { id: about, hidden: true }),
    content, h('div.problem', { id: problem }));
}

function objectField(at, start) {
  const value = isObject(start) ? start : {};
  const properties = propertiesOf(at.schema, at.root);
  const required = at.schema.required ?? [];
  const shown = new Map();
  const place = h('div.members');
  const more = h('div.more');
  let isSet = start !== UNSET || at.isRequired || at.isOpened;
  const open = (name, initialValue, focus) => {
    const isRequired = required.includes(name);
    const editor = fieldIn(at, name, { schema: properties[name], isRequired, isOpened: !isRequired, changed: () => { isSet = true; at.changed(); } }, initialValue);
    const remove = isRequired ? null : button('×', () => { shown.delete(name); row.remove(); offer(); at.changed(); more.querySelector('button')?.focus(); }, { class: 'small remove', 'aria-label': `Remove ${name}`, title: `do not send ${name}` });
    const row = h('div.member', editor.element, remove);
    shown.set(name, editor);
    place.append(row);
    if (focus) row.querySelector('input, textarea, select, button')?.focus();
    offer();
  };
  const offer = () => {
    const rest = Object.keys(properties).filter((name) => !shown.has(name));
    fill(more, rest.map((name) => button(`+ ${name}`, () => { isSet = true; open(name, initial(properties[name], at.root, true) ?? openedStart(properties[name], at.root), true); at.changed(); }, { class: 'add small', title: resolve(properties[name], at.root).description })));
  };
  for (const name of Object.keys(properties)) {
    const begins = Object.hasOwn(value, name) ? value[name] : UNSET;
    if (required.includes(name) || begins !== UNSET) open(name, begins);
  }
  offer();
  const names = new Set(Object.keys(properties));
  const others = Object.fromEntries(Object.entries(value).filter(([name]) => !names.has(name)));
  const takesMore = at.schema.additionalProperties === true || (at.schema.additionalProperties && typeof at.schema.additionalProperties === 'object');
  const rest = takesMore || Object.keys(others).length ? rowsOfMap({ ...at, changed: () => { isSet = true; at.changed(); } }, others) : undefined;
  const none = !Object.keys(properties).length && !rest ? h('p.muted', 'takes no arguments') : null;
  return {
    element: group(at, place, more, rest ? h('div.others', rest.element) : null, none),
    get() {
      const found = {};
      for (const name of Object.keys(properties)) {
        const member = shown.get(name)?.get();
        if (member !== UNSET) found[name] = member;
      }
      Object.assign(found, rest?.get());
      return Object.keys(found).length || isSet ? found : UNSET;
    },
  };
}

/** An optional map or list that was opened is sent, empty as it is. */
function openedStart(schema, root) {
  const { schema: plain } = withoutNull(resolve(schema, root), root);
  return { map: {}, array: [], multi: [] }[kindOf(plain, root)];
}

function rowsOfMap(at, start) {
  const schema = at.schema.additionalProperties === undefined ? true : at.schema.additionalProperties;
  let rows = [];
  const place = h('div');
  const add = (name, value, focus) => {
    const key = h('input', { type: 'text', value: name, placeholder: 'name', 'aria-label': 'Name', oninput: at.changed, autocomplete: 'off' });
    const editor = fieldIn(at, name || '?', { schema, name: 'value', isRequired: true }, value);
    const row = { key, editor };
    row.element = h('div.pair', key, editor.element, button('×', () => { rows = rows.filter((it) => it !== row); row.element.remove(); at.changed(); }, { class: 'small remove', 'aria-label': `Remove ${name || 'the row'}` }));
    rows.push(row);
    place.append(row.element);
    if (focus) key.focus();
  };
  Object.entries(start ?? {}).forEach(([name, value]) => add(name, value));
  return {
    element: h('div', place, button('+ name and value', () => { add('', initial(schema, at.root), true); at.changed(); }, { class: 'add small' })),
    get: () => Object.fromEntries(rows.filter((row) => row.key.value !== '').map((row) => [row.key.value, row.editor.get()]).filter(([, value]) => value !== UNSET)),
    size: () => rows.length,
  };
}

function mapField(at, start) {
  const isSet = start !== UNSET || at.isRequired;
  let wasTouched = false;
  const inner = { ...at, changed: () => { wasTouched = true; at.changed(); } };
  const rows = rowsOfMap(inner, isObject(start) ? start : {});
  return { element: group(at, rows.element), get: () => (rows.size() || isSet || wasTouched ? rows.get() : UNSET) };
}

function arrayField(at, start) {
  let isSet = Array.isArray(start) || at.isOpened;
  let rows = [];
  const place = h('div.items');
  const rebuild = (values, focus) => {
    rows = values.map((value, index) => {
      const editor = fieldIn(at, index, { schema: at.schema.items, name: `item ${index + 1}`, isRequired: true, isOpened: true }, value);
      const move = (step) => () => {
        const now = rows.map((row) => row.editor.get());
        [now[index], now[index + step]] = [now[index + step], now[index]];
        rebuild(now, index + step);
        at.changed();
      };
      const element = h('div.item', editor.element, h('div', { class: 'tools' },
        button('↑', move(-1), { class: 'small', disabled: index === 0, 'aria-label': `Move item ${index + 1} up` }),
        button('↓', move(1), { class: 'small', disabled: index === values.length - 1, 'aria-label': `Move item ${index + 1} down` }),
        button('×', () => { rebuild(rows.map((row) => row.editor.get()).filter((_, it) => it !== index), Math.max(0, index - 1)); at.changed(); }, { class: 'small', 'aria-label': `Remove item ${index + 1}` })));
      return { editor, element };
    });
    fill(place, rows.map((row) => row.element));
    if (focus !== undefined) rows[focus]?.element.querySelector('input, textarea, select, button')?.focus();
  };
  rebuild(Array.isArray(start) ? start : []);
  const add = button('+ item', () => { isSet = true; rebuild([...rows.map((row) => row.editor.get()), initial(at.schema.items, at.root)], rows.length); at.changed(); }, { class: 'add small', 'aria-label': `Add an item to ${at.name || 'the list'}` });
  return { element: group(at, place, add), get: () => (rows.length || isSet || at.isRequired ? rows.map((row) => row.editor.get()) : UNSET) };
}

function tupleField(at, start) {
  const fixed = Array.isArray(at.schema.prefixItems) ? at.schema.prefixItems : at.schema.items;
  const values = Array.isArray(start) ? start : [];
  const least = at.schema.minItems ?? 0;
  const editors = fixed.map((schema, index) => fieldIn(at, index, { schema, name: `item ${index + 1}`, isRequired: index < least }, index < values.length ? values[index] : initial(schema, at.root, index < least)));
  return {
    element: group(at, editors.map((editor) => editor.element)),
    get() {
      const found = editors.map((editor) => editor.get());
      while (found.length && found[found.length - 1] === UNSET) found.pop();
      // Items beyond the fixed ones come from the JSON tab, and stay.
      const all = [...found.map((it) => it ?? (it === null ? null : new Malformed(''))), ...(found.length === fixed.length ? values.slice(fixed.length) : [])];
      return all.length || at.isRequired ? all : UNSET;
    },
  };
}

function unionField(at, start) {
  const branches = branchesOf(at.schema, at.root);
  const kept = new Map();
  const place = h('div');
  let current = start === UNSET ? -1 : nearestBranch(branches, start, at.root);
  const select = h('select', { 'aria-label': `Kind of ${at.name || 'value'}`, onchange: () => { show(Number(select.value)); at.changed(); } },
    h('option', { value: -1 }, at.isRequired ? 'choose…' : 'not sent'), branches.map((it, index) => h('option', { value: index }, it.label)));
  const show = (index, value) => {
    current = index;
    select.value = String(index);
    // What was typed for another branch comes back with it.
    if (index >= 0 && !kept.has(index)) {
      const branch = branches[index].schema;
      kept.set(index, field({ ...at, schema: branch, name: at.name || branches[index].label, isRequired: true, isOpened: true }, value ?? initial(branch, at.root)));
    }
    fill(place, index >= 0 ? kept.get(index).element : null);
  };
  show(current, start);
  return { element: group(at, select, place), get: () => (current < 0 ? UNSET : kept.get(current).get()) };
}

function jsonField(at, start) {
  const input = h(at.isHidden ? 'input' : 'textarea', { type: at.isHidden ? 'password' : undefined, autocomplete: 'off', rows: 3, spellcheck: 'false', class: 'code', value: start === UNSET ? '' : stringify(start, at.isHidden ? 0 : 2), oninput: at.changed });
  const note = !at.isHidden && mentionsSecret(at.parts, at.root) ? h('span.muted', 'A secret in it is shown as you type it, and not kept.') : null;
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

const MAKERS = {
  string: stringField, number: numberField, integer: numberField, boolean: choiceField, const: constField, null: constField, enum: choiceField,
  multi: multiField, object: objectField, map: mapField, array: arrayField, tuple: tupleField, union: unionField, json: jsonField,
};
