// Lists beside what is chosen from them, with a handle between.

import { h, hasWords, link, virtualList } from './dom.js';

/** A field whose words are kept in the address. */
export function filterBox(context, label, draw) {
  const box = h('input', { type: 'search', placeholder: 'filter', 'aria-label': label, value: context.query.get('q') ?? '', oninput: () => { draw(box.value); context.setQuery({ q: box.value }); } });
  return box;
}

/** A list at the side of a page, with a filter that searches `text`. */
export function sideList(context, label, items, { text, href, name, isCurrent, note = '' }) {
  const fitting = (words) => items.filter((it) => hasWords(text(it), words));
  const rows = virtualList(label, fitting(context.query.get('q') ?? ''), (it) => h('a', { href: href(it), 'aria-current': isCurrent(it) ? 'true' : undefined, title: name(it) }, name(it)));
  const count = h('p.muted', { role: 'status' });
  const draw = (words) => {
    const found = fitting(words);
    rows.update(found);
    count.textContent = `${found.length} of ${items.length} ${label.toLowerCase()}${note}`;
  };
  const filter = filterBox(context, `Filter ${label.toLowerCase()}`, draw);
  draw(filter.value);
  return h('div.side', filter, count, rows.element);
}

/** A list and what is chosen from it. On a narrow screen one of them is seen, and `back` leads to the list. */
export function chosen(side, isChosen, [href, label], ...detail) {
  return panes('list', isChosen ? 'split has-detail' : 'split', side, h('div.detail', link(href, `‹ ${label}`), ...detail));
}

/** Two panes with a border that the pointer or the arrow keys move. */
export function panes(name, kind, first, second) {
  const key = `marquetry.split.${name}`;
  let now = Number(localStorage.getItem(key)) || (name === 'list' ? 20 : 40);
  const set = (percent) => {
    now = Math.round(Math.min(80, Math.max(10, percent)));
    box.style.setProperty('--first', `${now}fr`);
    box.style.setProperty('--second', `${100 - now}fr`);
    handle.setAttribute('aria-valuenow', now);
    localStorage.setItem(key, now);
  };
  const handle = h('div.handle', { role: 'separator', tabIndex: 0, 'aria-label': 'Width of the first pane', 'aria-orientation': 'vertical', 'aria-valuemin': 10, 'aria-valuemax': 80,
    onkeydown: (event) => {
      const step = { ArrowLeft: -2, ArrowRight: 2, Home: -99, End: 99 }[event.key];
      if (step) { event.preventDefault(); set(now + step); }
    },
    // Without this the browser drags text.
    onmousedown: (event) => event.preventDefault(),
    onpointerdown: (event) => handle.setPointerCapture(event.pointerId),
    onpointermove: (event) => {
      if (!handle.hasPointerCapture(event.pointerId)) return;
      const { left, width } = box.getBoundingClientRect();
      set(((event.clientX - left) / width) * 100);
    } });
  const box = h('div', { class: kind }, first, handle, second);
  set(now);
  return box;
}
