// Forms from JSON Schema. A field that is unset is not sent; null and empty text are values of their own.

import { afterClick, button, fill, focusIn, h, newId, say, search } from './dom.js';
import { isObject, Malformed, nameOf, parse, problemLine, stringify } from './json.js';
import { marked, visible } from './result.js';
import { branchesOf, fitsPattern, initial, isSecret, kindOf, mentionsSecret, nearestBranch, openedStart, optionsOf, partsAt, partsOf, problemsIn, propertiesOf, resolve, withoutNull } from './schema.js';

const UNSET = undefined;

const INPUTS = 'input, textarea, select, button.add';
const MOST = 100;

/** Makes a form for a schema: { element, get(), set(value), check() }. `onchange` is told of each change. */
export function createForm(schema, start, onchange = () => {}) {
  const summary = h('div.summary', { role: 'alert', tabIndex: -1 });
  const element = h('form.form', { novalidate: true, onsubmit: (event) => event.preventDefault() });
  const touched = new WeakSet();
  let editor;
  const build = (value) => {
    fill(summary);
    editor = field({ root: schema, schema, parts: partsOf([schema], schema), name: '', path: [], isRequired: true, changed: onchange, count: { left: 500 } }, value);
    fill(element, summary, editor.element);
  };
  build(start === UNSET ? initial(schema, schema) : start);
  const around = (it) => it?.closest('[data-path]');
  const problems = () => problemsIn(schema, editor.get() ?? {});
  /** Finds the innermost field that is shown for a path, or for the nearest path around it. */
  const finder = () => {
    const fields = new Map([...element.querySelectorAll('[data-path]')].filter((it) => !it.closest('[hidden]')).map((it) => [it.dataset.path, it]));
    return (path) => fields.get(path.map((_, index) => JSON.stringify(path.slice(0, path.length - index))).find((it) => fields.has(it)) ?? '[]');
  };
  /** The input of a field, or the first one inside of it. */
  const inputOf = (it) => {
    const inputs = [...it.querySelectorAll(INPUTS)];
    return inputs.find((input) => around(input) === it) ?? inputs[0] ?? it;
  };
  /** Shows what is wrong with one field. */
  const mark = (it, errors) => {
    const { length } = JSON.parse(it.dataset.path);
    fill(it.querySelector(':scope > .problem'), errors.slice(0, MOST).map(({ path, message }) => h('span', visible(problemLine(path.slice(length), message)), ' ')));
    const input = inputOf(it);
    if (around(input) !== it) return;
    if (errors.length) input.setAttribute('aria-invalid', 'true');
    else input.removeAttribute('aria-invalid');
  };
  const showErrors = (errors) => {
    element.querySelectorAll('.problem:not(:empty)').forEach((it) => it.replaceChildren());
    element.querySelectorAll('[aria-invalid]').forEach((it) => it.removeAttribute('aria-invalid'));
    const find = finder();
    const fields = new Map(errors.map(({ path }) => [find(path), []]));
    for (const error of errors) fields.get(find(error.path)).push(error);
    fields.forEach((its, it) => mark(it, its));
    const links = errors.slice(0, MOST).map(({ path, message }) => h('li', button(visible(problemLine(path.length ? path : ['arguments'], message)), () => inputOf(find(path)).focus(), { class: 'linklike' })));
    fill(summary, errors.length ? [h('p', errors.length === 1 ? '1 problem' : `${errors.length} problems`), h('ul', links)] : null, errors.length > MOST ? h('p', `the first ${MOST} of them`) : null);
    return errors;
  };
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
      const own = errors.filter(({ path }) => find(path) === it && (isWhole || JSON.stringify(path) === it.dataset.path));
      mark(it, own);
      if (own.length) say(own.map(({ path, message }) => problemLine(path, message)).join(', '));
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
function fieldIn(at, key, more, value) {
  return field({ ...at, isOpened: false, name: nameOf(key), parts: partsAt(at.parts, key, at.root), path: [...at.path, key], ...more }, value);
}

/** Makes the field of one value: { element, get() }. */
function field(at, value) {
  at.count.left -= 1;
  const whole = resolve(at.schema, at.root);
  const { schema, isNullable } = withoutNull(whole, at.root);
  const kind = kindOf(schema, at.root);
  const make = MAKERS[kind] ?? jsonField;
  const inner = { ...at, schema, kind, isHidden: at.isHidden || isSecret(at.parts), about: whole.description ?? schema.description, title: whole.title ?? schema.title };
  const makeFor = (start) => {
    const editor = make(inner, start);
    // A value that the field cannot show is shown as JSON.
    return start !== UNSET && editor.get() === UNSET ? jsonField({ ...inner, kind: 'json' }, start) : editor;
  };
  if (!isNullable) return makeFor(value);
  const isNull = value === null;
  const editor = makeFor(isNull ? UNSET : value);
  const place = h('div', { hidden: isNull }, editor.element);
  const box = h('input', { type: 'checkbox', checked: isNull, onchange: () => { place.hidden = box.checked; at.changed(); } });
  return {
    element: h('div.nullable', { 'data-path': JSON.stringify(at.path) }, place, h('label.switch', box, visible(` ${at.name || 'the value'} is null`)), h('div.problem')),
    get: () => (box.checked ? null : editor.get()),
  };
}

// Names and texts of a schema come from an upstream.
function labelOf(at, note = '') {
  return [h('span.name', visible(at.name || at.title || 'value')), at.isRequired ? h('span.star', { 'aria-hidden': 'true' }, ' *') : null, h('span.muted', visible(` ${KINDS[at.kind] ?? at.kind}${note}`))];
}

/** The frame of a field with one control: label, description, control, problem. */
function framed(at, control, ...more) {
  control.id ||= newId('f');
  const [about, problem] = [newId('about'), newId('problem')];
  control.setAttribute('aria-describedby', `${about} ${problem}`);
  if (at.isRequired) control.setAttribute('aria-required', 'true');
  const notes = [at.schema.format, at.schema.deprecated ? 'deprecated' : '', at.isRequired ? '' : 'optional'].filter(Boolean).map((it) => `, ${it}`);
  return h('div.field', { 'data-path': JSON.stringify(at.path) },
    h('label', { for: control.id }, labelOf(at, notes.join(''))),
    h('div.about', { id: about, hidden: !at.about }, visible(at.about ?? '')),
    h('div.control', control, ...more),
    h('div.problem', { id: problem }));
}

/** The frame of a field with several controls. */
function group(at, ...content) {
  const [about, problem] = [newId('about'), newId('problem')];
  const isInner = at.path.length > 0;
  return h(isInner ? 'fieldset' : 'fieldset.outer', { 'data-path': JSON.stringify(at.path), 'aria-describedby': `${about} ${problem}` },
    isInner ? h('legend', labelOf(at)) : h('legend.hidden', visible(at.title || 'Arguments')),
    h('div.about', { id: about, hidden: !at.about || !isInner }, visible(at.about ?? '')),
    content, h('div.problem', { id: problem }));
}

const KINDS = { multi: 'choices', enum: 'choice', json: 'JSON', union: 'one of several' };
const INPUT_MODES = { __proto__: null, email: 'email', uri: 'url', url: 'url', 'uri-reference': 'url' };
const EXAMPLES = { __proto__: null, date: '2026-11-22', time: '09:30:00Z', 'date-time': '2026-11-22T09:30:00Z', duration: 'PT5M' };

function stringField(at, start) {
  let isSet = typeof start === 'string';
  const example = EXAMPLES[at.schema.format] ?? (Array.isArray(at.schema.examples) ? at.schema.examples[0] : undefined);
  const props = { spellcheck: 'false', autocomplete: 'off', placeholder: marked(example), inputmode: INPUT_MODES[at.schema.format], value: isSet ? start : '' };
  const input = at.isHidden ? h('input', { ...props, type: 'password' }) : h('textarea', { ...props, rows: 1 });
  const state = h('span.muted');
  const put = (text) => {
    input.value = text ?? '';
    isSet = text !== UNSET;
    update();
    at.changed();
  };
  const unset = button('Unset', () => put(UNSET), { class: 'small', 'aria-label': `Unset ${at.name}` });
  const update = () => {
    state.textContent = isSet ? (input.value === '' ? 'empty text' : '') : 'not sent';
    unset.hidden = !isSet;
    if (!at.isHidden) input.rows = Math.min(12, input.value.split('\n').length);
  };
  input.addEventListener('input', () => { isSet = true; update(); at.changed(); });
  input.addEventListener('change', () => {
    if (at.schema.pattern && fitsPattern(at.schema.pattern, input.value) === UNSET) state.textContent = 'only the server checks the pattern';
  });
  update();
  // A required text may be meant to be empty; this says so without typing.
  const blank = at.isRequired || at.isOpened ? button('Empty', () => put(''), { class: 'small', 'aria-label': `Make ${at.name} empty text` }) : null;
  return { element: framed(at, input, state, blank, unset), get: () => (isSet ? input.value : UNSET) };
}

function numberField(at, start) {
  const shown = ['number', 'bigint', 'string'].includes(typeof start) ? String(start) : '';
  const input = h('input', { type: at.isHidden ? 'password' : 'text', inputmode: at.kind === 'integer' ? 'numeric' : 'decimal', autocomplete: 'off', value: shown, placeholder: range(at.schema), oninput: at.changed });
  return {
    element: framed(at, input),
    get() {
      const text = input.value.trim();
      // Text that is no number is kept as it is, so that the check says what was found.
      return text === '' ? UNSET : /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text) ? parse(text) : text;
    },
  };
}

const range = ({ minimum, maximum }) => [['from', minimum], ['to', maximum]].filter(([, it]) => it !== undefined).map((it) => it.join(' ')).join(' ');

function choiceField(at, start) {
  const options = optionsOf(at.schema, at.root);
  const chosen = options.findIndex((it) => start !== UNSET && stringify(it.value) === stringify(start));
  const select = h('select', { onchange: at.changed }, h('option', { value: '' }, at.isRequired ? 'choose…' : 'not sent'),
    options.map((it, index) => h('option', { value: index, selected: index === chosen, title: marked(it.about) }, visible(it.label))));
  const filter = search(`Filter ${at.name}`, () => {
    const wanted = filter.value.toLowerCase();
    [...select.options].forEach((option, index) => { option.hidden = index > 0 && !option.textContent.toLowerCase().includes(wanted); });
  }, options.length >= 8);
  return { element: framed(at, select, filter), get: () => (select.value === '' ? UNSET : options[Number(select.value)].value) };
}

function constField(at, start) {
  const value = at.kind === 'null' ? null : at.schema.const;
  const text = h('output', visible(stringify(value)));
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
    element: group(at, h('div.choices', boxes.map((box, index) => h('label', { for: box.id }, box, visible(` ${options[index].label}`))))),
    get() {
      const values = options.filter((_, index) => boxes[index].checked).map((it) => it.value);
      return values.length || isSet || at.isRequired ? values : UNSET;
    },
  };
}

const removeButton = (name, act, title) => button('×', act, { class: 'small remove', 'aria-label': `Remove ${name}`, title });

function objectField(at, start) {
  const value = isObject(start) ? start : {};
  const properties = propertiesOf(at.schema, at.root);
  const names = new Set(Object.keys(properties));
  const required = new Set(Array.isArray(at.schema.required) ? at.schema.required : []);
  const shown = new Map();
  const place = h('div.members');
  const more = h('div.more');
  let isSet = start !== UNSET || at.isRequired || at.isOpened;
  const open = (name, initialValue, focus) => {
    const isRequired = required.has(name);
    const editor = fieldIn(at, name, { schema: properties[name], isRequired, isOpened: !isRequired, changed: () => { isSet = true; at.changed(); } }, initialValue);
    const remove = isRequired ? null : removeButton(nameOf(name), () => { shown.delete(name); row.remove(); offer(); at.changed(); more.querySelector('button')?.focus(); }, marked(`do not send ${name}`));
    const row = h('div.member', editor.element, remove);
    shown.set(name, editor);
    place.append(row);
    if (focus) focusIn(row);
  };
  const filter = search(`Filter the members of ${at.name || 'the arguments'}`, () => offer(), names.size > MOST);
  const offer = () => {
    const rest = [...names].filter((name) => !shown.has(name) && name.toLowerCase().includes(filter.value.toLowerCase()));
    fill(more, rest.slice(0, MOST).map((name) => button(visible(`+ ${nameOf(name)}${required.has(name) ? ' *' : ''}`), () => {
      isSet = true;
      open(name, openedStart(properties[name], at.root), true);
      offer();
      at.changed();
    }, { class: 'add small', title: marked(resolve(properties[name], at.root).description) })), rest.length > MOST ? `and ${rest.length - MOST} more` : null);
  };
  for (const name of names) {
    const begins = Object.hasOwn(value, name) ? value[name] : UNSET;
    // A schema may demand members without end. Those are opened by their buttons.
    if (begins !== UNSET || (required.has(name) && at.count.left > 0 && at.path.length < 10)) open(name, begins);
  }
  offer();
  const others = Object.fromEntries(Object.entries(value).filter(([name]) => !names.has(name)));
  const takesMore = at.schema.additionalProperties === true || (at.schema.additionalProperties && typeof at.schema.additionalProperties === 'object');
  const rest = takesMore || Object.keys(others).length ? rowsOfMap({ ...at, changed: () => { isSet = true; at.changed(); } }, others) : undefined;
  const none = !names.size && !rest ? h('p.muted', 'takes no arguments') : null;
  return {
    element: group(at, place, filter, more, rest ? h('div.others', rest.element) : null, none),
    get() {
      const members = [...names].map((name) => [name, shown.get(name)?.get()]).filter(([, member]) => member !== UNSET);
      const found = Object.fromEntries([...members, ...Object.entries(rest?.get() ?? {})]);
      return Object.keys(found).length || isSet ? found : UNSET;
    },
  };
}

function rowsOfMap(at, start) {
  const schema = at.schema.additionalProperties === undefined ? true : at.schema.additionalProperties;
  let rows = [];
  const place = h('div');
  const add = (name, value, focus) => {
    const key = h('input', { type: 'text', value: name, placeholder: 'name', 'aria-label': 'Name', oninput: at.changed, autocomplete: 'off' });
    const editor = fieldIn(at, name || '?', { schema, name: 'value', isRequired: true }, value);
    const row = { key, editor };
    row.element = h('div.pair', key, editor.element, removeButton(name || 'the row', () => { rows = rows.filter((it) => it !== row); row.element.remove(); at.changed(); }));
    rows.push(row);
    place.append(row.element);
    if (focus) key.focus();
  };
  Object.entries(start ?? {}).forEach(([name, value]) => add(name, value));
  return {
    element: h('div', place, button('+ name and value', () => { add('', initial(schema, at.root), true); at.changed(); }, { class: 'add small' })),
    get: () => Object.fromEntries(rows.filter((row) => row.key.value !== '').map((row) => [row.key.value, row.editor.get()]).filter(([, value]) => value !== UNSET)),
  };
}

function mapField(at, start) {
  let isSet = start !== UNSET || at.isRequired;
  const rows = rowsOfMap({ ...at, changed: () => { isSet = true; at.changed(); } }, isObject(start) ? start : {});
  return { element: group(at, rows.element), get: () => (isSet ? rows.get() : UNSET) };
}

function arrayField(at, start) {
  let isSet = Array.isArray(start) || at.isOpened;
  let rows = [];
  const place = h('div.items');
  const all = () => rows.map((row) => row.editor.get());
  const rebuild = (values, focus) => {
    rows = values.map((value, index) => {
      const name = `item ${index + 1}`;
      const editor = fieldIn(at, index, { schema: at.schema.items, name, isRequired: true, isOpened: true }, value);
      const moves = [['↑', 'up', -1], ['↓', 'down', 1]].map(([sign, where, step]) => button(sign, () => {
        const now = all();
        [now[index], now[index + step]] = [now[index + step], now[index]];
        rebuild(now, index + step);
        at.changed();
      }, { class: 'small', disabled: !(index + step in values), 'aria-label': `Move ${name} ${where}` }));
      const element = h('div.item', editor.element, h('div.tools', moves,
        removeButton(name, () => { rebuild(all().filter((_, it) => it !== index), Math.max(0, index - 1)); at.changed(); })));
      return { editor, element };
    });
    fill(place, rows.map((row) => row.element));
    if (focus !== undefined) focusIn(rows[focus]?.element);
  };
  rebuild(Array.isArray(start) ? start : []);
  const add = button('+ item', () => { isSet = true; rebuild([...all(), initial(at.schema.items, at.root)], rows.length); at.changed(); }, { class: 'add small', 'aria-label': `Add an item to ${at.name || 'the list'}` });
  return { element: group(at, place, add), get: () => (rows.length || isSet || at.isRequired ? all() : UNSET) };
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
      const all = [...found.map((it) => it === UNSET ? new Malformed('') : it), ...(found.length === fixed.length ? values.slice(fixed.length) : [])];
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
    h('option', { value: -1 }, at.isRequired ? 'choose…' : 'not sent'), branches.map((it, index) => h('option', { value: index }, visible(it.label))));
  const show = (index, value) => {
    current = index;
    select.value = String(index);
    // What was typed for another branch comes back with it.
    if (index >= 0 && !kept.has(index)) {
      const branch = branches[index].schema;
      kept.set(index, field({ ...at, schema: branch, name: at.name || branches[index].label, isRequired: true, isOpened: true }, value === UNSET ? initial(branch, at.root) : value));
    }
    fill(place, index >= 0 ? kept.get(index).element : null);
  };
  show(current, start);
  return { element: group(at, select, place), get: () => (current < 0 ? UNSET : kept.get(current).get()) };
}

function jsonField(at, start) {
  const input = h(at.isHidden ? 'input' : 'textarea', { type: at.isHidden ? 'password' : undefined, autocomplete: 'off', rows: 3, spellcheck: 'false', class: 'code', value: start === UNSET ? '' : stringify(start, at.isHidden ? 0 : 2), oninput: at.changed });
  const note = !at.isHidden && mentionsSecret(at.parts, at.root) && h('span.muted', 'A secret in it is shown as you type it, and not kept.');
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
