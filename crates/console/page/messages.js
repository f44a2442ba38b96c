// The log of messages.

import { data } from './api.js';
import { button, bytes, copy, download, empty, fill, h, link, time, to, virtualList } from './dom.js';
import { parse, stringify } from './json.js';
import { literal, tree } from './result.js';

/** The messages of one call: those that this page exchanged, and those in the log. */
export function messagesOf(record, sent) {
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
