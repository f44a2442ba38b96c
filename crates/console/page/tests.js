// Tests with a model: runs, cases, results, comparison of runs, judges. One result is in trial.js.

import { base } from "./api.js";
import {
  button,
  duration,
  empty,
  failure,
  fill,
  filterBox,
  h,
  hasWords,
  link,
  newId,
  say,
  table,
  virtualList,
} from "./dom.js";
import { latency, passRate, percent, quantile } from "./chart.js";
import { get, isEnabled, watch } from "./tests-data.js";

const KINDS = {
  passed: "ok",
  completed: "ok",
  running: "busy",
  failed: "bad",
  error: "warn",
  regression: "bad",
  none: "ok",
  insufficient_data: "muted",
};

/** A status in a word and a colour. */
export const mark = (status, text = status) =>
  h("span", { class: `badge ${KINDS[status] ?? "muted"}` }, String(text).replaceAll("_", " "));

/** A date and a time: results are older than a day. */
export function when(timestamp) {
  const date = new Date(timestamp);
  return h(
    "time",
    { datetime: timestamp, title: date.toLocaleString() },
    date.toLocaleString(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" }),
  );
}
const whenText = (timestamp) => when(timestamp).textContent;

/** A share as people read it: with its numbers and its interval. */
export function rateText(rate) {
  if (!rate || rate.of === 0) return "no verdict";
  return `${percent(rate.count / rate.of)} (${rate.count} of ${rate.of}; ${percent(rate.interval.low)} to ${percent(rate.interval.high)})`;
}

export const inTests = (kind, name) => `#/tests/${encodeURIComponent(name === undefined ? kind : `${kind}/${name}`)}`;

const PARTS = [
  ["", "Runs"],
  ["cases", "Cases"],
  ["results", "Results"],
  ["compare", "Compare"],
  ["judges", "Judges"],
];
const PAGES = {
  "": runs,
  run,
  cases,
  case: oneCase,
  results,
  compare,
  judges,
  result: async (context, id) => (await import("./trial.js")).result(context, id),
};

let styled;
/** Loads the rules of these pages once. */
function style() {
  styled ??= new Promise((done) => {
    const sheet = h("link", {
      rel: "stylesheet",
      href: new URL("console/tests.css", base).href,
      onload: done,
      onerror: done,
    });
    document.head.append(sheet);
  });
  return styled;
}

export async function tests(context) {
  await style();
  const [kind, name] = context.name.split(/\/(.*)/s);
  const top = h(
    "nav.subnav",
    { "aria-label": "Tests" },
    PARTS.map(([id, label]) =>
      h("a", { href: id ? inTests(id) : "#/tests", "aria-current": id === kind ? "page" : undefined }, label),
    ),
  );
  context.title.textContent = PARTS.find(([id]) => id === kind)?.[1] ?? name ?? kind;
  if (!kind) context.title.textContent = "Tests";
  try {
    const make = PAGES[kind];
    if (!make) return [top, empty("This page does not exist.", link("#/tests", "All runs"))];
    return [top, await make(context, name)];
  } catch (error) {
    if (error.status === 404 && !(await isEnabled())) return notEnabled();
    if (error.status === 403) return empty(`Starting tests runs programs on the server: ${error.message}.`);
    return [top, failure(error, context.again)];
  }
}

function notEnabled() {
  const settings = "[testing]\nenabled = true";
  return [
    empty("Tests with a model are not enabled on this server."),
    h(
      "section.card",
      h("h2", "How to enable them"),
      h("p", "Set this in the configuration, and start the server again:"),
      h("pre", { tabIndex: 0, "aria-label": "Setting" }, settings),
      h("p", "Or start it once with the variable:"),
      h("pre", { tabIndex: 0, "aria-label": "Command" }, "ENABLE_TESTING=true marquetry serve"),
      h(
        "p",
        'Anyone who may start tests can run programs as the user of this server: without authentication, every program on this machine; with authentication, callers with the scope "admin". Results of ',
        h("code", "marquetry test"),
        " and of ",
        h("code", "marquetry test-server"),
        " are stored in the same database, and are shown here, too.",
      ),
    ),
  ];
}

const verdictOf = (it) =>
  it.status === "running"
    ? mark("running")
    : it.status === "failed"
      ? mark("failed", "ended early")
      : it.failedTests
        ? mark("failed", `${it.failedTests} failed`)
        : it.errorTests
          ? mark("error", `${it.errorTests} without a verdict`)
          : mark("passed");
const took = (it) => (it.completedAt ? duration((Date.parse(it.completedAt) - Date.parse(it.startedAt)) * 1000) : "");
const number = (label, value) => h("div", h("strong", value), h("span.muted", label));

/** Calls a function once for many events in a short time. */
function batched(context, act, pause = 100) {
  let asked;
  context.onLeave(() => clearTimeout(asked));
  return () => {
    asked ??= setTimeout(() => {
      asked = undefined;
      act();
    }, pause);
  };
}

async function runs(context) {
  let page = await get("runs", { limit: 50 });
  let kept = page.items;
  const chart = h("section");
  const nothing = empty(
    "No run is stored yet.",
    "Start one: ",
    h("code", "marquetry test FILE…"),
    ", or ",
    h("code", "POST /api/test/batch"),
  );
  const rows = virtualList("Runs", [], (it) =>
    h(
      "a",
      { href: inTests("run", it.id) },
      verdictOf(it),
      h("span.name", it.name || it.id),
      h("span", `${it.passedTests} of ${it.totalTests}`),
      h("span.wide", took(it)),
      h("span.wide", when(it.startedAt)),
    ),
  );
  let isFetching = false;
  const more = button("Older runs", async () => {
    // A second click would add the same runs twice.
    if (isFetching) return;
    isFetching = true;
    try {
      page = await get("runs", { limit: 200, cursor: page.nextCursor });
      const ids = new Set(kept.map((it) => it.id));
      kept = [...kept, ...page.items.filter((it) => !ids.has(it.id))];
      draw();
    } finally {
      isFetching = false;
    }
  });
  const draw = () => {
    rows.update(kept);
    nothing.hidden = kept.length > 0;
    rows.element.hidden = !kept.length;
    more.hidden = !page.nextCursor;
    const ended = kept
      .filter((it) => it.status !== "running")
      .slice(0, 100)
      .reverse();
    fill(
      chart,
      ended.length > 1
        ? passRate(
            "Tests that passed, run by run",
            ended.map((it) => point(whenText(it.startedAt), it.passedTests, it.passedTests + it.failedTests)),
          )
        : null,
    );
  };
  const refresh = async () => {
    const newest = await get("runs", { limit: 50 });
    if (kept.length <= 50) page = newest;
    const ids = new Set(newest.items.map((it) => it.id));
    kept = [...newest.items, ...kept.filter((it) => !ids.has(it.id))];
    draw();
  };
  const later = batched(context, () => refresh().catch(() => {}), 300);
  watch(context, undefined, refresh, (name) => {
    if (name !== "progress") later();
  });
  draw();
  return [chart, nothing, rows.element, more];
}

/** A point of the pass rate, with Wilson's interval at 95 %. */
function point(label, count, of) {
  const square = 1.959964 ** 2;
  const share = of ? count / of : 0;
  const middle = share + square / (2 * of);
  const spread = Math.sqrt(square * ((share * (1 - share)) / of + square / (4 * of * of)));
  const whole = 1 + square / of;
  return {
    label,
    count,
    of,
    low: of ? Math.max(0, (middle - spread) / whole) : 0,
    high: of ? Math.min(1, (middle + spread) / whole) : 1,
  };
}

/** A list of results with a filter and the status in the address. */
function outcomeList(context, label, items, { isOfCase = false } = {}) {
  const chosenStatus = context.query.get("status") ?? "";
  const select = h(
    "select",
    {
      "aria-label": "Status",
      onchange: () => {
        context.setQuery({ status: select.value });
        draw();
      },
    },
    ["", "passed", "failed", "error"].map((it) =>
      h("option", { value: it, selected: it === chosenStatus }, it || "every status"),
    ),
  );
  const count = h("span.muted", { role: "status" });
  const rows = virtualList(label, [], (it) =>
    h(
      "a",
      { href: inTests("result", it.resultId) },
      mark(it.status),
      isOfCase ? null : h("span.name", it.testName),
      h(
        isOfCase ? "span.name" : "span.wide",
        `${it.trials.passed} of ${it.trials.passed + it.trials.failed + it.trials.errors} trials`,
      ),
      h("span.wide", duration(it.durationMs * 1000)),
      when(it.timestamp),
    ),
  );
  const draw = () => {
    const found = items.filter(
      (it) => (!select.value || it.status === select.value) && hasWords(it.testName, filter.value),
    );
    rows.update(found);
    count.textContent = `${found.length} of ${items.length} results`;
  };
  const filter = filterBox(context, "Filter results", () => draw());
  draw();
  return {
    element: h("div", h("div.bar", isOfCase ? null : filter, select, count), rows.element),
    update(next) {
      items = next;
      draw();
    },
  };
}

async function run(context, id) {
  let [it, { items }] = await Promise.all([
    get(`runs/${encodeURIComponent(id)}`),
    get("outcomes", { run: id, limit: 10_000 }),
  ]);
  context.title.textContent = it.name || "Run";
  const head = h("div.numbers");
  const progress = h("section.progress");
  const bar = h("progress", { "aria-label": "Tests that have ended" });
  const words = h("p", { role: "status" });
  const steps = h("ul", { "aria-label": "What the tests do" });
  const now = new Map();
  let isHeard = false;
  const list = outcomeList(context, "Results", items);
  const draw = () => {
    fill(
      head,
      number("state", verdictOf(it)),
      number("passed", it.passedTests),
      number("failed", it.failedTests),
      number("without a verdict", it.errorTests),
      number("tests", it.totalTests),
      took(it) ? number("took", took(it)) : null,
      number("began", when(it.startedAt)),
    );
    progress.hidden = it.status !== "running";
    const done = it.passedTests + it.failedTests + it.errorTests;
    bar.max = Math.max(1, it.totalTests);
    bar.value = done;
    const text = `${done} of ${it.totalTests} tests have ended`;
    if (words.textContent !== text) words.textContent = text;
    const shown = [...now.values()].slice(-16);
    fill(
      steps,
      shown.map((step) => h("li", h("span.name", step.testName), `: ${stepText(step)}`)),
      isHeard
        ? null
        : h(
            "li.muted",
            "No step has been reported since this page was opened: the run may belong to another process, which may have ended.",
          ),
    );
  };
  const refresh = async () => {
    [it, { items }] = await Promise.all([
      get(`runs/${encodeURIComponent(id)}`),
      get("outcomes", { run: id, limit: 10_000 }),
    ]);
    now.clear();
    list.update(items);
    draw();
  };
  const later = batched(context, draw);
  const on = (name, event) => {
    if (name === "progress") {
      isHeard = true;
      now.delete(event.index);
      now.set(event.index, event);
    } else if (name === "ended") {
      now.delete(event.index);
      items = [event.outcome, ...items.filter((other) => other.resultId !== event.outcome.resultId)];
      const count = (status) => items.filter((other) => other.status === status).length;
      it = { ...it, passedTests: count("passed"), failedTests: count("failed"), errorTests: count("error") };
      list.update(items);
    } else if (name === "runEnded") {
      it = event;
      refresh().catch(() => {});
      say(`The run has ended: ${it.passedTests} passed, ${it.failedTests} failed`);
    }
    later();
  };
  if (it.status === "running") watch(context, id, refresh, on);
  draw();
  fill(progress, h("h2", "Running"), bar, words, steps);
  return [
    head,
    h(
      "p",
      link(`${inTests("compare")}?b=${encodeURIComponent(id)}`, "Compare with another run"),
      " ",
      h("span.muted", id),
    ),
    progress,
    items.length || it.status === "running" ? list.element : empty("The run has no result."),
  ];
}

function stepText({ step, detail = "", success }) {
  const names = {
    trialStarted: `trial ${detail}`,
    connected: `connected to ${detail}`,
    turn: `the model answered, ${detail}`,
    callStarted: `calls ${detail}`,
    callEnded: `${detail} ${success ? "answered" : "failed"}`,
    vote: `${detail}: ${success ? "yes" : "no"}`,
    trialEnded: `trial ended, ${detail}`,
  };
  return names[step] ?? step;
}

async function results(context) {
  let { items } = await get("outcomes", { limit: 10_000 });
  if (!items.length) return empty("No result is stored yet.", "Run a case: ", h("code", "marquetry test FILE…"));
  const list = outcomeList(context, "Results", items);
  const refresh = batched(
    context,
    async () => {
      ({ items } = await get("outcomes", { limit: 10_000 }));
      list.update(items);
    },
    1000,
  );
  watch(
    context,
    undefined,
    () => {},
    (name) => {
      if (name === "ended") refresh();
    },
  );
  return list.element;
}

async function cases(context) {
  const { items } = await get("cases");
  if (!items.length) return empty("No result is stored yet.", "Run a case: ", h("code", "marquetry test FILE…"));
  const rows = virtualList("Cases", items, (it) =>
    h(
      "a",
      { href: inTests("case", it.testName) },
      h("span.name", it.testName),
      h("span.wide", `verdict changed ${it.flips.count} of ${it.flips.of} times`),
      h("span", rateText(it.passRate)),
    ),
  );
  const count = h("span.muted", { role: "status" });
  const draw = () => {
    const found = items.filter((it) => hasWords(it.testName, filter.value));
    rows.update(found);
    count.textContent = `${found.length} of ${items.length} cases, the most varying first`;
  };
  const filter = filterBox(context, "Filter cases", draw);
  draw();
  return [h("div.bar", filter, count), rows.element];
}

/** Puts results, oldest first, into at most `most` groups of one size. */
function grouped(entries, most) {
  const size = Math.max(1, Math.ceil(entries.length / most));
  return Array.from({ length: Math.ceil(entries.length / size) }, (_, at) => entries.slice(at * size, (at + 1) * size));
}

async function oneCase(context, name) {
  context.title.textContent = name;
  const history = await get("history", { name, limit: 10_000 });
  if (!history.entries.length) return empty("No result of this case is stored.", link(inTests("cases"), "All cases"));
  const groups = grouped([...history.entries].reverse(), 60);
  const sum = (group, member) => group.reduce((total, it) => total + it.trials[member], 0);
  const label = (group) => whenText(group[0].timestamp);
  const share = (value) => (value === undefined ? "–" : percent(value));
  return [
    h(
      "div.numbers",
      number("pass rate", rateText(history.passRate)),
      number("one of 3 passes", share(history.passAt3)),
      number("all of 3 pass", share(history.passHat3)),
      number("trials without a verdict", history.errors),
      number("results", history.entries.length),
    ),
    h(
      "div.beside",
      passRate(
        "Trials that passed",
        groups.map((group) => point(label(group), sum(group, "passed"), sum(group, "passed") + sum(group, "failed"))),
      ),
      h(
        "div",
        latency(
          "Duration",
          groups.map((group) => {
            const sorted = group.map((it) => it.durationMs).sort((a, b) => a - b);
            return { label: label(group), p50: quantile(sorted, 0.5), p95: quantile(sorted, 0.95), of: group.length };
          }),
        ),
        h("p.legend", h("span", h("i.solid"), "median"), h("span", h("i.dashed"), "95 %")),
      ),
    ),
    groups.length < history.entries.length
      ? h("p.muted", `Each point stands for up to ${groups[0].length} results.`)
      : null,
    h("h2", "Results"),
    outcomeList(context, "Results", history.entries, { isOfCase: true }).element,
  ];
}

async function compare(context) {
  const { items } = await get("runs", { limit: 200 });
  const [a, b] = ["a", "b"].map((side) => context.query.get(side) ?? "");
  const choose = (label, side, value) => {
    const id = newId("run");
    const known =
      items.some((it) => it.id === value) || !value ? items : [{ id: value, startedAt: undefined }, ...items];
    const select = h(
      "select",
      {
        id,
        onchange: () => {
          context.setQuery({ [side]: select.value }, { replace: false });
          context.again();
        },
      },
      h("option", { value: "" }, "choose a run"),
      known.map((it) =>
        h(
          "option",
          { value: it.id, selected: it.id === value },
          `${it.name ?? it.id}${it.startedAt ? `, ${whenText(it.startedAt)}, ${it.passedTests} of ${it.totalTests}` : ""}`,
        ),
      ),
    );
    return h("div.field", h("label", { for: id }, label), select);
  };
  const form = h(
    "div.bar",
    choose("Before", "a", a),
    choose("After", "b", b),
    button("Swap", () => {
      context.setQuery({ a: b, b: a }, { replace: false });
      context.again();
    }),
  );
  if (items.length < 2 && !(a && b))
    return [form, empty("Two runs are needed to compare them.", link("#/tests", "All runs"))];
  if (!a || !b) return [form, empty("Choose two runs.")];
  const found = await get("compare", { base: a, new: b });
  const order = { regression: 0, insufficient_data: 1, none: 2 };
  const sorted = [...found.cases].sort(
    (x, y) =>
      order[x.change] - order[y.change] ||
      (x.new.rate ?? 0) - (x.base.rate ?? 0) - ((y.new.rate ?? 0) - (y.base.rate ?? 0)),
  );
  const rows = sorted
    .slice(0, 500)
    .map((it) => [
      h("a.name", { href: inTests("case", it.testName) }, it.testName),
      rateText(it.base),
      rateText(it.new),
      mark(it.change, changeText(it)),
    ]);
  return [
    form,
    h(
      "p",
      mark(found.verdict, changeText({ change: found.verdict })),
      ` All trials together: ${rateText(found.all.base)} before, ${rateText(found.all.new)} after.`,
    ),
    h("p", link(inTests("run", a), "The run before"), " ", link(inTests("run", b), "The run after")),
    h("div.changes", table("Cases of both runs", ["Case", "Before", "After", "Change"], rows)),
    sorted.length > 500 ? h("p.muted", `500 of ${sorted.length} cases are shown, the largest drops first.`) : null,
    h(
      "p.muted",
      "A regression is shown at 95 % confidence. It requires at least 5 trials with a verdict in each run; repetitions of a case count.",
    ),
  ];
}

function changeText({ change, base, new: after }) {
  if (change === "regression") return "regression";
  if (change === "insufficient_data") return "too few trials";
  return (after?.rate ?? 0) > (base?.rate ?? 0) ? "no regression, higher" : "no regression";
}

/** Cohen's κ in words of Landis and Koch, 1977. */
export function kappaText(kappa) {
  if (kappa === undefined || kappa === null) return "not defined: both always gave the same verdict";
  const words =
    [
      [0.8, "almost perfect"],
      [0.6, "substantial"],
      [0.4, "moderate"],
      [0.2, "fair"],
      [0, "slight"],
    ].find(([least]) => kappa > least)?.[1] ?? "no more than chance";
  return `${kappa.toFixed(2)}, ${words}`;
}

async function judges() {
  const { items } = await get("judges");
  if (!items.length)
    return empty(
      "No person has checked a verdict of a judge yet.",
      "Open a result, and record whether its trial passed.",
    );
  const rows = items.map((it) => [
    h("span.name", it.model),
    h("code", it.promptHash.slice(0, 12)),
    kappaText(it.kappa),
    `${percent(it.agreement)} (${percent(it.interval.low)} to ${percent(it.interval.high)})`,
    it.verdicts.bothPassed + it.verdicts.bothFailed + it.verdicts.onlyJudgePassed + it.verdicts.onlyHumanPassed,
    it.verdicts.bothPassed,
    it.verdicts.bothFailed,
    it.verdicts.onlyJudgePassed,
    it.verdicts.onlyHumanPassed,
  ]);
  return [
    h(
      "p",
      "How well each judge agrees with people, by its model and its instructions. κ leaves out agreement by chance; 0.6 over 100 trials is the aim.",
    ),
    table(
      "Judges",
      [
        "Model",
        "Instructions",
        "κ",
        "Agreement",
        "Trials",
        "Both passed",
        "Both failed",
        "Only judge passed",
        "Only person passed",
      ],
      rows,
    ),
  ];
}
