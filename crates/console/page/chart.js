// Charts in SVG. Each has a title, and a table with the same numbers.

import { duration, fill, h, svg, table } from "./dom.js";

export const percent = (share) => `${Math.round(share * 100)} %`;
const ms = (count) => (count === undefined ? "–" : count === 0 ? "0" : duration(Math.round(count * 1000)));

/** A figure that is drawn again when its width changes. `draw` makes the SVG for a width. */
function figure(title, draw, heads, rows) {
  const place = h("div.chart-place");
  let last = 0;
  const redraw = (width) => {
    if (width < 40 || Math.abs(width - last) < 2) return;
    last = width;
    fill(place, draw(width));
  };
  redraw(600);
  new ResizeObserver(([entry]) => redraw(entry.contentRect.width)).observe(place);
  return h(
    "figure.chart-box",
    h("figcaption", title),
    place,
    h("details", h("summary", "As a table"), table(title, heads, rows)),
  );
}

const LEFT = 44;
const TOP = 8;
const HEIGHT = 150;

/**
 * The frame of a chart over time: horizontal lines with their labels, and the first and the last
 * label of the points.
 */
function frame(width, points, lines) {
  const bottom = TOP + HEIGHT;
  return [
    lines.map(([y, label]) => [
      svg("line", { x1: LEFT, x2: width - 8, y1: y, y2: y, class: "grid" }),
      svg("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, label),
    ]),
    svg("text", { x: LEFT, y: bottom + 18 }, points[0]?.label ?? ""),
    points.length > 1 ? svg("text", { x: width - 8, y: bottom + 18, "text-anchor": "end" }, points.at(-1).label) : null,
  ];
}

const across = (width, count) => (index) =>
  count === 1 ? (LEFT + width - 8) / 2 : LEFT + 6 + (index / (count - 1)) * (width - LEFT - 20);
const path = (list) => list.map(([x, y], index) => `${index ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

/** Runs of points that have a value: a line is broken where there is none. */
function stretches(points, has) {
  const all = [];
  points.forEach((point, index) => {
    if (!has(point)) return;
    if (index && has(points[index - 1])) all.at(-1).push(index);
    else all.push([index]);
  });
  return all;
}

/**
 * The share of trials that passed, with Wilson's interval. A point is { label, count, of, low, high
 * }; without trials with a verdict `of` is 0.
 */
export function passRate(title, points) {
  const has = (it) => it.of > 0;
  const known = points.filter(has);
  const last = known.at(-1);
  const y = (share) => TOP + (1 - share) * HEIGHT;
  return figure(
    title,
    (width) => {
      const x = across(width, points.length);
      const about = last
        ? `${title}: ${points.length} points, the last ${percent(last.count / last.of)}, between ${percent(last.low)} and ${percent(last.high)}`
        : `${title}: no verdict`;
      return svg(
        "svg",
        { viewBox: `0 0 ${width} ${HEIGHT + 34}`, class: "plot", role: "img", "aria-label": about },
        frame(
          width,
          points,
          [1, 0.5, 0].map((share) => [y(share), percent(share)]),
        ),
        stretches(points, has).map((indexes) => {
          const up = indexes.map((at) => [x(at), y(points[at].high)]);
          const down = indexes.map((at) => [x(at), y(points[at].low)]).reverse();
          return [
            indexes.length > 1
              ? svg("path", { d: `${path([...up, ...down])}Z`, class: "band" })
              : svg("line", { x1: up[0][0], x2: up[0][0], y1: up[0][1], y2: down[0][1], class: "whisker" }),
            svg("path", { d: path(indexes.map((at) => [x(at), y(points[at].count / points[at].of)])), class: "line" }),
          ];
        }),
        points.map((it, index) =>
          has(it)
            ? svg(
                "circle",
                { cx: x(index), cy: y(it.count / it.of), r: points.length > 60 ? 2 : 3.5, class: "dot" },
                svg("title", null, `${it.label}: ${it.count} of ${it.of}`),
              )
            : null,
        ),
      );
    },
    ["When", "Passed", "Rate", "95 % interval"],
    points.map((it) => [
      it.label,
      `${it.count} of ${it.of}`,
      it.of ? percent(it.count / it.of) : "no verdict",
      it.of ? `${percent(it.low)} to ${percent(it.high)}` : "–",
    ]),
  );
}

/** The median and the 95 % quantile of durations. A point is { label, p50, p95, of }, in milliseconds. */
export function latency(title, points) {
  const most = Math.max(1, ...points.map((it) => it.p95 ?? 0));
  const y = (value) => TOP + (1 - value / most) * HEIGHT;
  const last = points.at(-1);
  return figure(
    title,
    (width) => {
      const x = across(width, points.length);
      const line = (member, kind) =>
        stretches(points, (it) => it[member] !== undefined).map((indexes) =>
          svg("path", { d: path(indexes.map((at) => [x(at), y(points[at][member])])), class: kind }),
        );
      const dots = (member) =>
        points.map((it, index) =>
          it[member] === undefined
            ? null
            : svg(
                "circle",
                { cx: x(index), cy: y(it[member]), r: 2.5, class: "dot" },
                svg("title", null, `${it.label}: ${ms(it[member])}`),
              ),
        );
      return svg(
        "svg",
        {
          viewBox: `0 0 ${width} ${HEIGHT + 34}`,
          class: "plot",
          role: "img",
          "aria-label": `${title}: at last a median of ${ms(last?.p50 ?? 0)} and 95 % within ${ms(last?.p95 ?? 0)}`,
        },
        frame(
          width,
          points,
          [1, 0.5, 0].map((share) => [y(share * most), ms(share * most)]),
        ),
        line("p95", "line dashed"),
        line("p50", "line"),
        dots("p50"),
        dots("p95"),
      );
    },
    ["When", "Results", "Median", "95 %"],
    points.map((it) => [it.label, it.of, ms(it.p50), ms(it.p95)]),
  );
}

/** Returns a quantile of sorted numbers. */
export const quantile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];

/**
 * Returns the parts of the time line: busy stretches in scale, and idle ones between them, which
 * are folded when they are longer than half of the busy time and than 200 ms. Each is { from, to,
 * isFolded }.
 */
export function fold(spans) {
  const sorted = spans.map(({ start, ms: length }) => [start, start + Math.max(0, length)]).sort((a, b) => a[0] - b[0]);
  const busy = [];
  for (const [from, to] of sorted) {
    const before = busy.at(-1);
    if (before && from <= before.to) before.to = Math.max(before.to, to);
    else busy.push({ from, to });
  }
  const total = busy.reduce((sum, it) => sum + it.to - it.from, 0);
  const parts = [];
  for (const it of busy) {
    const before = parts.at(-1);
    const gap = before ? it.from - before.to : 0;
    if (before && gap > Math.max(200, total / 2))
      parts.push({ from: before.to, to: it.from, isFolded: true }, { ...it });
    else if (before) before.to = it.to;
    else parts.push({ ...it });
  }
  return parts;
}

const ROW = 26;
const FOLDED = 26;

/**
 * The course of a trial. A span is { label, kind, start, ms, href, isBad, about }; `start` in
 * milliseconds from the beginning. Idle time is folded, so that it squeezes nothing.
 */
export function timeline(title, spans) {
  const parts = fold(spans);
  const folded = parts.filter((it) => it.isFolded);
  const busy = Math.max(
    1,
    parts.filter((it) => !it.isFolded).reduce((sum, it) => sum + it.to - it.from, 0),
  );
  return figure(
    title,
    (width) => {
      const isNarrow = width < 560;
      const left = isNarrow ? 4 : Math.min(260, width * 0.35);
      const row = isNarrow ? 44 : ROW;
      const right = isNarrow ? 64 : 72;
      const scale = Math.max(20, width - left - right - folded.length * FOLDED) / busy;
      let used = left;
      const laid = parts.map((part) => {
        const begin = used;
        used += part.isFolded ? FOLDED : (part.to - part.from) * scale;
        return { ...part, begin, end: used };
      });
      const x = (at) => {
        const part = laid.find((it) => at <= it.to) ?? laid.at(-1);
        return part.begin + ((at - part.from) / Math.max(1e-9, part.to - part.from)) * (part.end - part.begin);
      };
      const head = folded.length ? 20 : 4;
      const height = head + spans.length * row + 4;
      const most = Math.floor((isNarrow ? width - right : left - 8) / 7);
      return svg(
        "svg",
        { viewBox: `0 0 ${width} ${height}`, class: "plot", role: "group", "aria-label": title },
        laid
          .filter((it) => it.isFolded)
          .map((it) => [
            svg(
              "rect",
              { x: it.begin + 2, y: head, width: FOLDED - 4, height: height - head - 4, class: "idle" },
              svg("title", null, `idle for ${ms(it.to - it.from)}`),
            ),
            svg("text", { x: it.begin + FOLDED / 2, y: 13, "text-anchor": "middle" }, `⋯ ${ms(it.to - it.from)}`),
          ]),
        spans.map((it, index) => {
          const y = head + index * row;
          const begin = x(it.start);
          const bar = Math.max(3, x(it.start + it.ms) - begin);
          const label = it.label.length > most ? `${it.label.slice(0, Math.max(1, most - 1))}…` : it.label;
          return svg(
            "a",
            { href: it.href, "data-step": it.step },
            svg("rect", { x: 0, y, width, height: row - 2, class: "row-back" }),
            svg(
              "text",
              { x: isNarrow ? 4 : left - 8, y: y + 16, "text-anchor": isNarrow ? "start" : "end", class: "label" },
              it.isBad ? "✗ " : "",
              label,
              " ",
            ),
            svg("rect", {
              x: begin,
              y: isNarrow ? y + 22 : y + 5,
              width: bar,
              height: 14,
              rx: 2,
              class: `span ${it.kind}${it.isBad ? " failed" : ""}`,
            }),
            svg("text", { x: Math.min(begin + bar + 5, width - right + 8), y: isNarrow ? y + 34 : y + 16 }, ms(it.ms)),
          );
        }),
      );
    },
    ["Step", "Kind", "Begins after", "Takes", "About"],
    spans.map((it) => [it.label, it.kind, ms(it.start), ms(it.ms), `${it.isBad ? "failed " : ""}${it.about ?? ""}`]),
  );
}
