// The record of calls, and the log of messages.

import { data, list, text } from './api.js';
import { badge, button, bytes, consent, copy, download, duration, empty, fill, filterBox, h, hasWords, link, svg, table, tabs, time, to, virtualList } from './dom.js';
import { openQuestions } from './home.js';
import { parse, stringify } from './json.js';
import { literal, resultView, tree, visible } from './result.js';
import { openView } from './view-host.js';

// A View may list more tools than a page can show.
const MAX_VIEW_TOOLS = 50;
const OUTCOMES = ['ok', 'tool_failed', 'rpc_error', 'gateway_error', 'cancelled', 'input_required', 'running'];

export async function calls(context) {
  return context.name ? one(context) : all(context);
}

/** A list of calls that grows as they come. */
async function all(context) {
  let kept = (await data('calls')).calls;
  const chosen = context.query.get('outcome') ?? '';
  const progress = new Map();
  const row = (it) => h('a', { href: to('calls', it.id), class: 'callrow' }, badge(it.outcome), h('span.grow', it.tool), it.outcome === 'running' && progress.has(it.id) ? h('span.muted', progressText(progress.get(it.id))) : null, h('span', duration(it.us)), h('span.wide', it.shown_bytes === null ? '' : `${bytes(it.said_bytes ?? it.shown_bytes)} › ${bytes(it.shown_bytes)}`), time(it.started));
  const fits = () => {
    const outcome = select.value;
    return kept.filter((it) => (!outcome || it.outcome === outcome) && hasWords(`${it.tool} ${it.server ?? ''} ${it.client ?? ''}`, filter.value));
  };
  const draw = () => {
    const found = fits();
    rows.update(found);
    count.textContent = `${found.length} calls`;
    nothing.hidden = found.length > 0;
  };
  const filter = filterBox(context, 'Filter calls', () => draw());
  const select = h('select', { 'aria-label': 'Outcome', onchange: () => { draw(); context.setQuery({ outcome: select.value }); } }, h('option', { value: '' }, 'all outcomes'), OUTCOMES.map((it) => h('option', { value: it, selected: it === chosen }, it.replaceAll('_', ' '))));
  const count = h('span.muted');
  const nothing = empty('No call fits.', link('#/tools', 'Call a tool'));
  const rows = virtualList('Calls', [], row);
  const more = button('Older calls', async () => {
    const older = (await data(`calls?before=${encodeURIComponent(kept[kept.length - 1]?.id ?? '')}`)).calls;
    kept = [...kept, ...older];
    more.hidden = !older.length;
    draw();
  }, { hidden: kept.length < 200 });
  const put = (event) => {
    const at = kept.findIndex((it) => it.id === event.detail.id);
    if (at >= 0) kept[at] = event.detail;
    else kept = [event.detail, ...kept].slice(0, 5000);
    draw();
  };
  context.on('call.started', put);
  context.on('call.ended', (event) => { progress.delete(event.detail.id); put(event); });
  context.on('call.progress', ({ detail }) => {
    if (!kept.some((it) => it.id === detail.id && it.outcome === 'running')) return;
    progress.set(detail.id, detail);
    draw();
  });
  draw();
  return [h('div.bar', filter, select, count), nothing, rows.element, more];
}

/** The past calls of one tool. */
export function pastCalls(context, tool) {
  const box = h('div', 'loading…');
  data(`calls?tool=${encodeURIComponent(tool)}`).then(({ calls: found }) => {
    if (!found.length) return fill(box, empty('The tool was not called since the server started.'));
    return fill(box, table('Past calls', ['Call', 'Outcome', 'Time', 'Model sees'], found.map((it) => [link(to('calls', it.id), time(it.started)), badge(it.outcome), duration(it.us), bytes(it.shown_bytes)])));
  }, (error) => fill(box, error.message));
  return box;
}

/** Progress in a few words: '3 of 10, reading'. */
export const progressText = ({ progress, total, message }) => `${progress}${total === undefined || total === null ? '' : ` of ${total}`}${message ? `, ${message}` : ''}`;

/** A bar of progress with its words; without a total it has no end. */
export function progressBar(it) {
  // A tool may send numbers that are too large for a bar.
  const isBounded = [it.progress, it.total].every(Number.isFinite) && it.total > 0;
  return h('p', h('progress', { 'aria-label': 'Progress', ...(isBounded ? { max: it.total, value: Math.min(it.progress, it.total) } : {}) }), ` ${progressText(it)}`);
}

async function one(context) {
  const record = await data(`calls/${encodeURIComponent(context.name)}`);
  const isRunning = record.outcome === 'running';
  const progress = h('div');
  const state = isRunning ? await data('state') : undefined;
  context.on('call.progress', ({ detail }) => { if (isRunning && detail.id === record.id) fill(progress, progressBar(detail)); });
  context.title.textContent = record.tool;
  const [tools, shown] = await Promise.all([list('tools/list', 'tools').catch(() => []), record.model?.kept ? text(`calls/${record.id}/shown`) : undefined]);
  const tool = tools.find((it) => it.name === record.tool);
  const result = shown === undefined ? undefined : parse(shown);
  // A View stays as it is; it gets the result itself.
  context.on('call.ended', ({ detail }) => { if (detail.id === record.id && record.outcome === 'running' && !document.querySelector('.view')) context.again(); });
  const args = record.arguments.json;
  return [
    h('p', badge(record.outcome), ` ${duration(record.us)} `, time(record.started), ` ${record.server ? `server ${record.server}, ` : ''}${record.client ? `called by ${record.client}` : ''}`),
    progress, isRunning ? openQuestions(context, state.questions, (it) => it.call === record.id) : null,
    record.problem ? h('div.failure', h('p', `${record.problem.code ?? ''} ${record.problem.message}`)) : null,
    h('p', tool ? link(`#/tools/${encodeURIComponent(record.tool)}${args ? `?args=${encodeURIComponent(args)}` : ''}`, 'Call it again') : null, ' ', link(`#/calls`, 'All calls')),
    h('details', h('summary', `Arguments, ${bytes(record.arguments.bytes)}`), args ? tree(parse(args)) : empty(record.arguments.bytes ? 'They were too large to be kept.' : 'The call had none.')),
    callParts({ record, result, tool, context, tab: context.query.get('tab') ?? 'result', isOwnPage: true }),
  ];
}

/** The tabs of a call. */
export function callParts({ record, result, tool, sent, context, tab, isOwnPage }) {
  const box = h('div');
  const draw = (current, focus) => {
    fill(box, tabs('The call', [
      ['result', 'Result', () => (result ? resultView(result, tool?.outputSchema) : empty(record && !record.model ? 'The call has no result.' : 'The result was too large to be kept.'))],
      ['model', 'Model', () => (record ? modelView(record) : empty('The call has no record.'))],
      ['messages', 'Messages', () => messagesOf(record, sent)],
      ['timeline', 'Timeline', () => (record ? timeline(record) : empty('The call has no record.'))],
      ['view', 'View', () => viewOf(record, tool, context)],
      ['save', 'Save', () => (record && result ? scenarioOf(record, result) : empty('A scenario needs a call with a result.'))],
    ], current, (next, isFocused) => {
      if (isOwnPage) context.setQuery({ tab: next === 'result' ? undefined : next });
      draw(next, isFocused);
    }));
    if (focus) box.querySelector('[role=tab][aria-selected=true]')?.focus();
  };
  draw(tab);
  return box;
}

/** The View of a call, and the log of its messages. */
function viewOf(record, tool, context) {
  const uri = tool?._meta?.ui?.resourceUri ?? tool?._meta?.['ui/resourceUri'];
  if (!uri || !record) return empty('The tool has no View.');
  const place = h('div');
  const notes = h('div', { role: 'status' });
  const provided = h('section', { 'aria-label': 'Tools of the View' });
  const told = (kind, value) => {
    if (kind === 'appTools') viewTools(provided, value, (name, args) => opened.then((it) => it.callTool(name, args))).catch((error) => told('error', error.message));
    if (kind === 'error' || kind === 'note') notes.append(h('p', { class: kind === 'error' ? 'bad' : 'warn' }, value));
    if (kind === 'log') notes.append(h('p.muted', `${value.level ?? 'log'}: `, typeof value.data === 'string' ? value.data : stringify(value.data ?? null)));
    while (notes.childElementCount > 100) notes.firstChild.remove();
  };
  const ended = record.outcome === 'running' ? new Promise((done) => {
    context.on('call.ended', ({ detail }) => { if (detail.id === record.id) done(data(`calls/${record.id}`)); });
  }) : undefined;
  const opened = openView(place, { record, uri, ended, told });
  opened.catch((error) => told('error', error.message));
  return [place, notes, provided, h('details', h('summary', 'Messages between the View and the program'), auditOf(record, context))];
}

/** The tools that a View provides, each with a form and its last result. */
async function viewTools(box, all, callTool) {
  if (!all.length) { fill(box); return; }
  const { createForm } = await import('./form.js');
  fill(box, h('h2', 'Tools of the View'), all.slice(0, MAX_VIEW_TOOLS).map(({ tool, needsConsent }) => {
    const form = createForm(tool.inputSchema ?? { type: 'object' });
    const output = h('div', { 'aria-live': 'polite' });
    const run = button('Run', async () => {
      if (form.check().length) { form.focusFirstError(); return; }
      const args = form.get() ?? {};
      if (needsConsent && !(await consent('Run a tool of the View?', visible(`${tool.name} ${stringify(args)}`), 'Run it'))) return;
      run.disabled = true;
      fill(output, 'the View works…');
      try {
        fill(output, resultView(await callTool(tool.name, args), tool.outputSchema));
      } catch (error) {
        fill(output, h('p.bad', error.message));
      }
      run.disabled = false;
    }, { 'aria-label': `Run ${tool.name}` });
    return h('details', h('summary', tool.title ? `${tool.title} (${tool.name})` : tool.name), tool.description ? h('p', tool.description) : null, form.element, h('p', run), output);
  }), all.length > MAX_VIEW_TOOLS ? h('p.muted', `the first ${MAX_VIEW_TOOLS} of ${all.length}`) : null);
}

/** One line for each message of the Views of a call. */
function auditOf(record, context) {
  const rows = h('ol.audit');
  const seen = new Set();
  const add = (it) => {
    const key = `${it.view} ${it.sequence}`;
    if (it.call !== record.id || seen.has(key)) return;
    seen.add(key);
    rows.append(h('li', { class: it.verdict.is === 'accepted' ? '' : 'bad' }, `View ${it.view} ${it.direction.replace('-', ' ')} ${it.kind} `, h('strong', it.method ?? ''), ` ${it.id ?? ''} ${bytes(it.bytes)} ${it.verdict.is}${it.verdict.why ? `: ${it.verdict.why}` : ''} `, time(it.at)));
    while (rows.childElementCount > 1000) rows.firstChild.remove();
  };
  context.on('view.message', ({ detail }) => add(detail));
  data(`views/audit?call=${encodeURIComponent(record.id)}`).then(({ records }) => records.forEach(add), (error) => rows.append(error.message));
  return rows;
}

/** What the upstream said beside what the model sees, and the setting that decided. */
function modelView(record) {
  const { upstream, model, capture, decided } = record;
  const tokens = (count) => (count === undefined ? '' : `about ${Math.ceil(count / 4)} tokens`);
  const rows = [['Upstream said', upstream ? bytes(upstream.bytes) : '–', tokens(upstream?.bytes)], ['Model sees', model ? bytes(model.bytes) : '–', tokens(model?.bytes)]];
  const why = !upstream ? 'The tool belongs to this server: its answer goes to the model as it is.'
    : record.same ? 'The answer goes to the model as the upstream wrote it.'
      : capture?.message ?? 'The answer was changed.';
  const place = h('div');
  const show = (part, label) => button(`Show ${label}`, async () => {
    fill(place, 'loading…');
    const found = await text(`calls/${record.id}/${part}`).catch((error) => error.message);
    fill(place, h('h2', label), literal(found, label));
  }, { class: 'small' });
  return [
    table('Sizes', ['What', 'Bytes', 'Tokens, estimated'], rows), h('p', why),
    decided ? h('p', 'Decided by ', h('code', decided.setting), ` = ${decided.value} (${bytes(decided.value)}), beyond it: ${decided.then}. It is set in `, h('code', '[artifacts]'), ', or for a server or a tool in ', h('code', 'capture'), '.') : null,
    decided && upstream && !record.same ? limits(upstream.bytes, decided.value) : null,
    capture?.save?.artifacts?.length ? h('p', 'Saved: ', capture.save.artifacts.map((it) => [link(to('artifacts', it.name), it.name), ' '])) : null,
    capture ? tree(capture, 'report') : null,
    h('p', upstream?.kept ? show('said', 'what the upstream said') : null, ' ', model?.kept ? show('shown', 'what the model sees') : null), place,
  ];
}

/** What another limit would give the model. */
function limits(said, now) {
  const all = [...new Set([4096, 16_384, 65_536, 262_144, now])].sort((a, b) => a - b);
  return h('details', h('summary', 'What another limit gives'), table('Limits', ['Limit', 'Text that fits', 'Left out'], all.map((limit) => [`${bytes(limit)}${limit === now ? ' (now)' : ''}`, bytes(Math.min(said, limit)), bytes(Math.max(0, said - limit))])));
}

function messagesOf(record, sent) {
  const box = h('div');
  const own = (sent ?? []).map((message, index) => h('details', { open: index === 0 }, h('summary', `${index === 0 ? '→' : '←'} ${message.method ?? (message.error ? 'error' : 'result')}`), tree(message)));
  if (own.length) box.append(h('h2', 'Between this page and the server'), ...own);
  if (!record) return box;
  const logged = h('div', 'loading…');
  box.append(h('h2', 'In the log'), logged);
  data(`messages?call=${encodeURIComponent(record.id)}`).then(({ messages: found }) => {
    if (!found.length) return fill(logged, empty('The log has no message of this call any more.'));
    return fill(logged, found.reverse().map(messageRow));
  }, (error) => fill(logged, error.message));
  return box;
}

function messageRow(head) {
  const details = h('details', h('summary', messageLine(head)));
  details.addEventListener('toggle', async () => {
    if (!details.open || details.childElementCount > 1) return;
    const place = h('div', 'loading…');
    details.append(place);
    try {
      fill(place, messageBody(await data(`messages/${head.id}`)));
    } catch (error) {
      fill(place, error.message);
    }
  });
  return details;
}

function messageLine(head) {
  return [h('span.arrow', { title: head.sent ? 'sent by this server' : 'received by this server' }, head.sent ? '→ ' : '← '), `${head.side} ${head.peer} `, h('strong', head.kind), ` ${bytes(head.bytes)} `, time(head.at)];
}

function messageBody(message) {
  const parts = [message.is_cut ? h('p.warn', `the first 64 KiB of ${bytes(message.bytes)}`) : null];
  try {
    parts.push(tree(parse(message.text)));
  } catch {
    parts.push(literal(message.text));
  }
  parts.push(button('Copy', () => copy(message.text), { class: 'small' }));
  return parts;
}

/** The course of a call as a bar for each step. */
function timeline(record) {
  const steps = record.steps.map((it) => ({ name: it.name, at: it.at_us }));
  const total = Math.max(1, record.us ?? steps[steps.length - 1]?.at ?? 1);
  const names = { answered: 'upstream answered', captured: 'answer captured' };
  let from = 0;
  const parts = [...steps, { name: 'sent to the agent', at: total }].map((it) => {
    const part = { name: names[it.name] ?? it.name, from, to: it.at };
    from = it.at;
    return part;
  });
  const y = (index) => 8 + index * 26;
  return [
    svg('svg', { viewBox: `0 0 400 ${16 + parts.length * 26}`, class: 'chart', role: 'img', 'aria-label': `Course of the call: ${parts.map((it) => `${it.name} after ${duration(it.to)}`).join(', ')}` },
      parts.map((it, index) => svg('rect', { x: (it.from / total) * 396, y: y(index), width: Math.max(2, ((it.to - it.from) / total) * 396), height: 14, class: 'span' }))),
    table('Timeline', ['Step', 'From', 'To', 'Took'], parts.map((it) => [it.name, duration(it.from), duration(it.to), duration(it.to - it.from)])),
  ];
}

/** The call as a scenario; its module is loaded when it is wanted. */
function scenarioOf(record, result) {
  const place = h('div');
  import('./scenario.js').then((it) => fill(place, it.scenarioView(record, result)), (error) => fill(place, h('p.bad', error.message)));
  return place;
}

/** Messages that this tab keeps until they are unpinned, also when the server has dropped them. */
const PINS = 'marquetry.pins';
const MAX_PINS = 20;
const pins = () => JSON.parse(sessionStorage.getItem(PINS) ?? '[]');

function pinButton(message) {
  const isPinned = () => pins().some((it) => it.id === message.id);
  const pin = button('', () => {
    const others = pins().filter((it) => it.id !== message.id);
    sessionStorage.setItem(PINS, JSON.stringify(isPinned() ? others : [message, ...others].slice(0, MAX_PINS)));
    draw();
  });
  const draw = () => { pin.textContent = isPinned() ? 'Unpin' : 'Pin'; };
  draw();
  return pin;
}

/** The log of messages. */
export async function messages(context) {
  if (context.name) {
    const pinned = pins().find((it) => it.id === context.name);
    const message = pinned ?? await data(`messages/${encodeURIComponent(context.name)}`);
    return [h('p', messageLine(message)), h('p', pinButton(message)), message.call ? h('p', link(to('calls', message.call), 'Its call')) : null, messageBody(message), h('p', link('#/messages', 'All messages'))];
  }
  let kept = [];
  const fetchAll = async () => { kept = (await data(`messages?q=${encodeURIComponent(filter.value)}`)).messages; draw(); };
  const row = (it) => h('a', { href: to('messages', it.id), class: 'callrow' }, messageLine(it));
  const rows = virtualList('Messages', [], row);
  const count = h('span.muted');
  const nothing = empty('The log has no such message.', 'It fills as agents, servers and Views speak.');
  const draw = () => { rows.update(kept); count.textContent = `${kept.length} messages`; nothing.hidden = kept.length > 0; };
  let asked;
  const filter = h('input', { type: 'search', placeholder: 'text in messages', 'aria-label': 'Search messages', value: context.query.get('q') ?? '', oninput: () => {
    context.setQuery({ q: filter.value });
    clearTimeout(asked);
    asked = setTimeout(fetchAll, 150);
  } });
  let isPaused = false;
  const pause = button('Pause', () => { isPaused = !isPaused; pause.setAttribute('aria-pressed', isPaused); if (!isPaused) fetchAll(); }, { 'aria-pressed': 'false' });
  let waiting = [];
  context.on('message', (event) => {
    if (isPaused || filter.value) return;
    // Many come at a time; the list changes once for all.
    if (!waiting.length) queueMicrotask(() => { kept = [...waiting.reverse(), ...kept].slice(0, 10_000); waiting = []; draw(); });
    waiting.push(event.detail);
  });
  context.onLeave(() => clearTimeout(asked));
  await fetchAll();
  return [h('div.bar', filter, pause, count, button('Export', () => download('messages.json', stringify(kept, 2), 'application/json'), { class: 'small' })),
    pins().length ? h('details', { open: true }, h('summary', 'Pinned'), pins().map(row)) : null, nothing, rows.element];
}
