// One result of a test: its trials as turns and calls, the verdict with its evidence, and people's verdicts.

import { duration, empty, failure, fill, h, link, newId, say, table } from "./dom.js";
import { timeline } from "./chart.js";
import { literal, resultView, tree } from "./result.js";
import { inTests, kappaText, mark, when } from "./tests.js";
import { get, post } from "./tests-data.js";

const ms = (count) => (count ? duration(Math.round(count * 1000)) : "0 ms");
const count = (number, what) => `${number} ${what}${number === 1 ? "" : "s"}`;
const tokens = (usage) => `${usage.inputTokens} + ${usage.outputTokens} tokens${usage.estimated ? ", estimated" : ""}`;

export async function result(context, id) {
  const path = `results/${encodeURIComponent(id)}`;
  const [it, said] = await Promise.all([get(path), get(`${path}/overrides`)]);
  const wanted = Number(context.query.get("trial") ?? NaN);
  const trial =
    it.trials.find((one) => one.index === wanted) ?? it.trials.find((one) => one.status === it.status) ?? it.trials[0];
  context.title.textContent = it.testCase.name || "Test without a name";
  const at = (index) => `${inTests("result", id)}?trial=${index}`;
  return [
    h(
      "p",
      mark(it.status),
      ` ${ms(it.duration)}, `,
      when(it.timestamp),
      " ",
      it.testCase.name ? link(inTests("case", it.testCase.name), "All results of this case") : null,
      " ",
      it.runId ? link(inTests("run", it.runId), "Its run") : null,
    ),
    it.error ? h("div.failure", h("p", it.error)) : null,
    it.trials.length > 1
      ? h(
          "nav.trials",
          { "aria-label": "Trials" },
          it.trials.map((one) =>
            h(
              "a",
              { href: at(one.index), "aria-current": one === trial ? "true" : undefined },
              `Trial ${one.index + 1}`,
              mark(one.status),
              said.items.some((other) => other.trial === one.index) ? h("span.muted", "checked") : null,
            ),
          ),
        )
      : null,
    trial
      ? oneTrial(
          context,
          id,
          trial,
          said.items.filter((other) => other.trial === trial.index),
          at(trial.index),
        )
      : empty("The case has no trial.", it.error ?? ""),
    caseOf(it.testCase),
  ];
}

function caseOf(test) {
  const { name, prompt, ...rest } = test;
  return h(
    "section.card",
    h("h2", "Case"),
    h("h3", "Prompt"),
    prompt ? literal(prompt, "Prompt") : empty("The case has no prompt."),
    h("details", h("summary", "The whole case"), tree(rest, "case")),
  );
}

/**
 * The steps of a trial with their places in time, in milliseconds. Turns have no clock time: calls
 * have, and turns go before theirs.
 */
export function stepsOf(trial, at) {
  const first = trial.turns.find((it) => it.calls.length);
  const origin = first
    ? Date.parse(trial.toolCalls[first.calls[0]]?.timestamp) -
      trial.turns.slice(0, trial.turns.indexOf(first) + 1).reduce((sum, it) => sum + it.durationMs, 0)
    : 0;
  const steps = [];
  let end = 0;
  const put = (step) => {
    steps.push({ href: `${at}&step=${step.step}`, ...step });
    end = Math.max(end, step.start + step.ms);
  };
  const seen = new Set();
  const call = (index) => {
    const it = trial.toolCalls[index];
    if (!it || seen.has(index)) return;
    seen.add(index);
    const start = Date.parse(it.timestamp) - origin;
    put({
      step: `c${index}`,
      kind: "call",
      label: it.toolName,
      start: Number.isFinite(start) ? Math.max(0, start) : end,
      ms: it.executionTimeMs,
      isBad: !it.success,
      about: it.serverId,
      it,
    });
  };
  trial.turns.forEach((turn, index) => {
    const begins = Date.parse(trial.toolCalls[turn.calls[0]]?.timestamp) - origin - turn.durationMs;
    put({
      step: `t${index}`,
      kind: "turn",
      label: `Turn ${index + 1}`,
      start: Number.isFinite(begins) ? Math.max(0, begins) : end,
      ms: turn.durationMs,
      about: turn.calls.length ? `asks for ${count(turn.calls.length, "call")}` : "answers",
      it: turn,
    });
    turn.calls.forEach(call);
  });
  trial.toolCalls.forEach((_, index) => call(index));
  trial.votes.forEach((vote, index) =>
    put({
      step: `v${index}`,
      kind: "vote",
      label: `Vote ${index + 1}`,
      start: end,
      ms: vote.durationMs,
      isBad: false,
      about: vote.passed ? "passed" : "failed",
      it: vote,
    }),
  );
  return steps;
}

function oneTrial(context, id, trial, said, at) {
  const steps = stepsOf(trial, at);
  const wanted = context.query.get("step");
  return [
    trial.error ? h("div.failure", h("p", trial.error)) : null,
    h(
      "section",
      h("h2", "Course"),
      steps.length
        ? [
            timeline("Turns, calls and votes", steps),
            h(
              "p.legend",
              [
                ["turn", "turn of the model"],
                ["call", "call of a tool"],
                ["failed", "call that failed"],
                ["vote", "vote of the judge"],
              ].map(([kind, label]) => h("span", h("i", { class: kind }), label)),
            ),
          ]
        : empty("The trial ended before the model had answered."),
      h(
        "p.muted",
        `${count(trial.turns.length, "turn")}, ${count(trial.toolCalls.length, "call")}, ${count(trial.votes.length, "vote")}; ${tokens(trial.usage)}; ${ms(trial.workMs)} of work in ${ms(trial.durationMs)}`,
      ),
    ),
    h("div.beside", verdictOf(trial), opinions(id, trial, said)),
    h(
      "section",
      h("h2", "Steps"),
      h(
        "ol.steps",
        { "aria-label": "Steps" },
        steps.map((step) => h("li", stepDetails(context, step, wanted === step.step))),
      ),
    ),
    h(
      "section.card",
      h("h2", "Answer of the model"),
      trial.answer ? literal(trial.answer, "Answer") : empty("The model ended without an answer."),
    ),
  ];
}

/** A step whose content is made when it is opened. */
function stepDetails(context, step, isOpen) {
  const summary = h(
    "summary",
    h("strong.name", step.label),
    h("span.muted", step.about),
    h("span", ms(step.ms)),
    step.isBad ? mark("failed") : null,
  );
  const box = h(
    "details",
    {
      "data-step": step.step,
      ontoggle: () => {
        if (!box.open) return;
        if (box.childElementCount === 1) box.append(h("div", contentOf(step)));
        context.setQuery({ step: step.step });
      },
    },
    summary,
  );
  if (isOpen) {
    box.open = true;
    // The link of a step leads to it, once it is in the page.
    setTimeout(() => {
      if (box.isConnected) {
        summary.focus();
        box.scrollIntoView({ block: "nearest" });
      }
    });
  }
  return box;
}

function contentOf({ kind, it }) {
  if (kind === "turn")
    return [
      it.text ? literal(it.text, "Text of the model") : h("p.muted", "The model only called tools."),
      h("p.muted", tokens(it.usage)),
    ];
  if (kind === "vote") {
    return [
      h(
        "p",
        mark(it.passed ? "passed" : "failed"),
        " ",
        h("span.name", it.model),
        " ",
        h("code", it.promptHash.slice(0, 12)),
      ),
      it.reasoning ? literal(it.reasoning, "Reasoning") : null,
      answers(
        it.answers.map((answer) => ({ isYes: answer.yes, item: answer.item, note: "", evidence: answer.evidence })),
      ),
      it.suggestions ? h("p", it.suggestions) : null,
      h("p.muted", tokens(it.usage)),
    ];
  }
  return [
    h("p.muted", `server ${it.serverId}`),
    it.error ? h("p.bad", it.error) : null,
    h("h3", "Arguments"),
    tree(it.parameters),
    h("h3", "Result"),
    it.response ? resultView(it.response) : empty("The call has no result."),
  ];
}

const answers = (list) =>
  h(
    "ul.checks",
    list.map(({ isYes, item, note, evidence }) =>
      h(
        "li",
        { class: isYes ? "yes" : "no" },
        h(
          "p",
          mark(isYes ? "passed" : "failed", isYes ? "yes" : "no"),
          " ",
          h("span.name", item),
          " ",
          h("span.muted", note),
        ),
        evidence ? h("blockquote", literal(evidence, "Evidence")) : null,
      ),
    ),
  );

function verdictOf(trial) {
  const { verdict } = trial;
  const confidence = `${Math.round(verdict.confidence * 100)} %`;
  return h(
    "section.card",
    h("h2", "Verdict"),
    h(
      "p",
      mark(trial.status),
      trial.votes.length ? ` ${count(trial.votes.length, "vote")}, ${confidence} for it; ` : " by checks alone; ",
      `tool accuracy ${verdict.toolAccuracy.toFixed(2)}`,
    ),
    verdict.reasoning ? literal(verdict.reasoning, "Reasoning") : null,
    verdict.suggestions ? h("p", h("strong", "To change: "), h("span.name", verdict.suggestions)) : null,
    verdict.items?.length
      ? [
          h("h3", "The judge’s answers"),
          answers(
            verdict.items.map((it) => ({
              isYes: it.yes > it.no,
              item: it.item,
              note: `${it.yes} yes, ${it.no} no`,
              evidence: it.evidence,
            })),
          ),
        ]
      : null,
    trial.checks.length
      ? [
          h("h3", "Checks"),
          h(
            "ul.checks",
            trial.checks.map((it) =>
              h(
                "li",
                { class: it.passed ? "yes" : "no" },
                h(
                  "p",
                  mark(it.passed ? "passed" : "failed"),
                  " ",
                  h("strong", it.name),
                  " ",
                  h("span.name", it.detail),
                ),
                it.passed || (it.expected ?? it.actual) === undefined
                  ? null
                  : h(
                      "div.beside",
                      h("div", h("h4", "Expected"), tree(it.expected ?? null)),
                      h("div", h("h4", "Found"), tree(it.actual ?? null)),
                    ),
              ),
            ),
          ),
        ]
      : null,
  );
}

/** People's verdicts on the trial, and a form for a verdict. */
function opinions(id, trial, said) {
  const kappa = h("p", { role: "status" });
  const vote = trial.votes[0];
  const tell = async (prefix) => {
    if (!vote) return;
    const { items } = await get("judges");
    const found = items.find((it) => it.model === vote.model && it.promptHash === vote.promptHash);
    fill(
      kappa,
      found
        ? `${prefix}κ of this judge against people: ${kappaText(found.kappa)}.`
        : "No person has checked a verdict of this judge yet.",
    );
  };
  tell("").catch(() => {});
  const list = h("div");
  const drawList = () =>
    fill(
      list,
      said.length
        ? table(
            "People’s verdicts",
            ["Verdict", "Who", "Why", "When"],
            said.map((it) => [
              mark(it.passed ? "passed" : "failed"),
              h("span.name", it.author),
              h("span.name", it.reason),
              when(it.timestamp),
            ]),
          )
        : h(
            "p.muted",
            "No person has checked this trial. Your verdict does not change the result; it measures the judge.",
          ),
    );
  drawList();
  const [yes, no, reason, author] = ["yes", "no", "reason", "author"].map(newId);
  const group = newId("verdict");
  const radio = (elementId, value, label) =>
    h(
      "label",
      { for: elementId },
      h("input", { type: "radio", id: elementId, name: group, value, required: true }),
      label,
    );
  const why = h("textarea", { id: reason, rows: 2, required: true, maxlength: 4000 });
  const who = h("input", {
    type: "text",
    id: author,
    maxlength: 60,
    value: localStorage.getItem("marquetry.author") ?? "",
    autocomplete: "name",
  });
  const problem = h("div");
  // A server with authentication knows the caller.
  const isKnown = document.documentElement.dataset.token === "needed";
  const form = h(
    "form.override",
    {
      onsubmit: async (event) => {
        event.preventDefault();
        fill(problem);
        const passed = form.querySelector(`input[name=${group}]:checked`)?.value === "passed";
        const name = who.value.trim();
        if (!isKnown) localStorage.setItem("marquetry.author", name);
        try {
          const stored = await post(`results/${encodeURIComponent(id)}/overrides`, {
            trial: trial.index,
            passed,
            reason: why.value,
            ...(isKnown || !name ? {} : { author: name }),
          });
          said = [...said.filter((it) => it.author !== stored.author), stored];
          drawList();
          why.value = "";
          say("Your verdict is stored");
          await tell("Stored. ");
          if (!vote) fill(kappa, "Stored.");
        } catch (error) {
          fill(problem, failure(error));
        }
      },
    },
    h(
      "fieldset",
      h("legend.hidden", "Your verdict"),
      radio(yes, "passed", "it passed"),
      radio(no, "failed", "it failed"),
    ),
    h("label", { for: reason }, "Why"),
    why,
    isKnown ? null : [h("label", { for: author }, "Your name"), who],
    h("p", h("button", { type: "submit" }, "Store my verdict")),
    problem,
  );
  return h(
    "section.card",
    h("h2", "Checked by people"),
    list,
    kappa,
    h("details", { open: false }, h("summary", said.length ? "Record another verdict" : "Record a verdict"), form),
  );
}
