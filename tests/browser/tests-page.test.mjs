// The pages of tests: every state by its link, the override of a verdict, live progress, users,
// hostile texts, many results.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { after, before, test } from "node:test";
import {
  THEMES,
  WIDTHS,
  findings,
  go,
  has,
  openPage,
  shown,
  startBrowser,
  startServer,
  withoutIndentation,
} from "./support.mjs";
import { ask, runBatch, startModel } from "./tests-fixtures.mjs";
import { ATTACKS } from "./upstream.mjs";

const ENABLED = { ENABLE_TESTING: "true" };
const environment = () => ({ ...ENABLED, CUSTOM_BASE_URL: model.url });
const at = (kind, name) => `#/tests/${encodeURIComponent(name === undefined ? kind : `${kind}/${name}`)}`;
const checked = (name, prompt, more = {}) => ({
  name,
  prompt,
  judgeConfig: model.config,
  checklist: ["The text was echoed", "Nothing else was done"],
  repetitions: 5,
  ...more,
});

let model;
let server;
let browser;
let first;
let second;

before(async () => {
  [model, browser] = await Promise.all([startModel(), startBrowser()]);
  server = await startServer({ env: environment() });
  const cases = (isBad) => [
    checked("echoes a text", 'call echo {"text":"hello"}\nsay It says hello.', { expectedTools: ["echo"] }),
    checked(
      "finds the rows",
      `call rows\ncall slow {"ms":60}\n${isBad ? "judge no\n" : ""}evidence Call 1 answered with a table.`,
      { expectedTools: ["rows", "slow"], matching: "exact" },
    ),
    checked("survives a failure", 'call fails\ncall echo {"text":"again"}', {
      expectedTools: isBad ? ["form"] : ["echo"],
    }),
    { name: "has no judge", prompt: "x" },
  ];
  first = await runBatch(server, "before the change", cases(false));
  second = await runBatch(server, "after the change", cases(true));
});
after(async () => {
  await browser?.close();
  await server?.stop();
  await model?.stop();
});

const PAGES = () => [
  ["runs", "#/tests", "after the change"],
  ["run", at("run", second.run.id), "finds the rows"],
  ["run-failed", `${at("run", second.run.id)}?status=failed`, "2 of 4 results"],
  ["result", at("result", first.results[0].id), "The judge’s answers"],
  ["trial", `${at("result", second.results[2].id)}?trial=3`, "Failed checks"],
  ["step", `${at("result", second.results[1].id)}?trial=0&step=c0`, "Arguments"],
  ["vote", `${at("result", second.results[1].id)}?trial=0&step=v0`, "Call 1 answered with a table"],
  ["broken", at("result", second.results[3].id), "no judge|judgeConfig|agentConfig|no trial"],
  ["cases", at("cases"), "finds the rows"],
  ["cases-filtered", `${at("cases")}?q=rows`, "1 of 4 cases"],
  ["case", at("case", "finds the rows"), "50 % \\(5 of 10"],
  ["results", at("results"), "8 of 8 results"],
  ["compare", `${at("compare")}?a=${first.run.id}&b=${second.run.id}`, "regression"],
  ["compare-half", `${at("compare")}?b=${second.run.id}`, "Choose two runs"],
  ["judges", at("judges"), "has checked a verdict|κ"],
  ["nowhere", at("nowhere"), "does not exist"],
  ["no-run", at("run", "none"), "no run has the id"],
  ["no-result", at("result", "none"), "no result has the id"],
  ["no-case", at("case", "none"), "No result of this case"],
];

for (const theme of THEMES) {
  for (const width of WIDTHS) {
    test(`every page of tests by its link, ${width} px, ${theme}`, { timeout: 120_000 }, async () => {
      const page = await openPage(browser, server, "#/", { width, theme });
      const wrong = [];
      for (const [name, hash, text] of PAGES()) {
        await go(page, hash);
        await has(page, text, name);
        wrong.push(...(await findings(page)).map((it) => `${name}: ${it}`));
        const over = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        if (over > 0) wrong.push(`${name}: ${over} px too wide`);
        const isCovering = await page.evaluate(() =>
          [...document.querySelectorAll("main nav")].some((it) => getComputedStyle(it).position === "fixed"),
        );
        if (isCovering) wrong.push(`${name}: a navigation of the page covers another`);
        const folder = process.env.MARQUETRY_SCREENSHOTS;
        if (folder) {
          mkdirSync(folder, { recursive: true });
          await page.screenshot({ path: `${folder}/tests-${name}-${width}-${theme}.png` });
        }
      }
      assert.deepEqual([...wrong, ...page.problems], []);
      await page.context().close();
    });
  }
}

test("a page of tests loads at most 12 modules and 150,000 bytes", async () => {
  const context = await browser.newContext();
  const page = await context.newPage();
  const loaded = [];
  // The files alone: the body of a stream of events has no end.
  page.on("response", (response) => {
    if (/^\/(console\/.*)?$/.test(new URL(response.url()).pathname)) loaded.push(response);
  });
  await page.goto(`${server.url}/${at("result", second.results[1].id)}`);
  await shown(page);
  const sizes = await Promise.all(
    loaded.map(async (it) => [new URL(it.url()).pathname, withoutIndentation(await it.text())]),
  );
  const modules = sizes.filter(([path]) => path.endsWith(".js"));
  assert.ok(
    modules.some(([path]) => path.endsWith("/trial.js")),
    JSON.stringify(sizes),
  );
  assert.ok(modules.length <= 12, JSON.stringify(modules));
  assert.ok(sizes.reduce((sum, [, size]) => sum + size, 0) <= 150_000, JSON.stringify(sizes));
  await context.close();
});

test("the course of a trial has each turn, call and vote, by keyboard, and its table says the same", async () => {
  const page = await openPage(browser, server, `${at("result", second.results[2].id)}?trial=0`);
  const bars = page.locator("svg a[data-step]");
  const names = await bars.evaluateAll((all) => all.map((it) => it.dataset.step));
  assert.deepEqual(names, ["t0", "c0", "t1", "c1", "t2", "v0", "v1", "v2"]);
  await page.locator("figure summary").click();
  assert.equal(await page.locator("figure tbody tr").count(), 8);
  assert.match(await page.locator("figure tbody").innerText(), /fails\s+call[^\n]*failed lab/);
  await bars.nth(1).focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction(
    () => location.hash.includes("step=c0") && document.activeElement?.matches("[data-step=c0] summary"),
  );
  assert.match(await page.locator("details[data-step=c0]").innerText(), /the disk is full/);
  assert.equal(await page.locator("details[data-step][open]").count(), 1);
  await page.keyboard.press("Enter");
  assert.equal(await page.locator("details[data-step][open]").count(), 0);
  await page.context().close();
});

test("a verdict is overridden by keyboard, with who and why, and the judge is measured anew", {
  timeout: 60_000,
}, async () => {
  const [echo, rows] = first.results;
  await ask(server, `results/${echo.id}/overrides`, { trial: 0, passed: true, reason: "It echoes.", author: "bob" });
  await ask(server, `results/${second.results[1].id}/overrides`, {
    trial: 0,
    passed: false,
    reason: "There is no table.",
    author: "bob",
  });
  const before = await ask(server, "judges");
  assert.deepEqual([before.items.length, before.items[0].kappa], [1, 1]);
  const page = await openPage(browser, server, `${at("result", rows.id)}?trial=2`);
  await page.getByText("Record a verdict").focus();
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Space");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Tab");
  await page.keyboard.type("<b>One row</b> is missing.");
  await page.keyboard.press("Tab");
  await page.keyboard.type("ann");
  await page.keyboard.press("Enter");
  await page.getByText("Stored. κ of this judge against people: 0.40").waitFor();
  assert.match(
    await page.getByRole("group", { name: "People’s verdicts" }).innerText(),
    /failed\s+ann\s+<b>One row<\/b> is missing\./,
  );
  const { items } = await ask(server, `results/${rows.id}/overrides`);
  assert.deepEqual(
    items.map((it) => [it.trial, it.passed, it.author, it.reason]),
    [[2, false, "ann", "<b>One row</b> is missing."]],
  );
  const now = await ask(server, "judges");
  assert.ok(Math.abs(now.items[0].kappa - 0.4) < 1e-9, JSON.stringify(now.items[0]));
  await go(page, at("judges"));
  assert.match(await page.locator("main").innerText(), /0\.40, fair/);
  assert.deepEqual([...page.problems, ...(await findings(page))], []);
  await page.context().close();
});

test("two runs are chosen by keyboard, and the address has them", async () => {
  const page = await openPage(browser, server, at("compare"));
  await page.getByLabel("Before").selectOption(first.run.id);
  await page.waitForFunction((id) => location.hash.includes(`a=${id}`), first.run.id);
  await page.getByLabel("After").selectOption(second.run.id);
  await page.getByRole("table").waitFor();
  const rows = await page.locator("tbody tr").allInnerTexts();
  assert.deepEqual(
    rows.map((row) => row.split("\t").at(-1)),
    ["regression", "regression", "too few trials", "no regression"],
  );
  await page.getByRole("button", { name: "Swap" }).click();
  await page.waitForFunction((id) => location.hash.includes(`a=${id}`), second.run.id);
  await page.getByText("no regression, higher").first().waitFor();
  await page.context().close();
});

test("a running batch is followed live, also over a restart in mid-stream", { timeout: 90_000 }, async () => {
  const own = await startServer({ env: environment() });
  const port = Number(new URL(own.url).port);
  const page = await openPage(browser, own, "#/tests");
  // Between the end of the first and that of the others there is time to look, also on a busy machine.
  const cases = ["one", "two", "three"].map((name, index) => ({
    name,
    prompt: `wait ${300 + Math.min(index, 1) * 4000}\ncall slow {"ms":1500}`,
    agentConfig: model.config,
    expectedTools: ["slow"],
  }));
  const batch = runBatch(own, "watched", cases);
  const row = page.locator("main [role=list] a").filter({ hasText: "watched" });
  await row.waitFor();
  await row.click();
  await page.getByRole("heading", { name: "Running" }).waitFor();
  await page.getByText(/three: (trial|connected|calls|the model)/).waitFor();
  await page.getByText(/[12] of 3 tests have ended/).waitFor();
  assert.deepEqual(await findings(page), []);
  const { run } = await batch;
  await page.locator(".progress").waitFor({ state: "hidden" });
  await page.getByText("3 of 3 results").waitFor();
  assert.match(await page.locator(".numbers").innerText(), /3\s*passed/);
  assert.equal(run.passedTests, 3);
  // The server ends while a batch runs; the page hears of the next batch of the server that comes after it.
  await go(page, "#/tests");
  const lost = runBatch(own, "lost", [
    { name: "slow", prompt: "wait 60000", agentConfig: model.config, expectedTools: [] },
  ]).catch((error) => error);
  await page.locator("main [role=list] a").filter({ hasText: "lost" }).waitFor();
  await own.stop("SIGKILL");
  await lost;
  const next = await startServer({ env: environment(), port });
  await runBatch(next, "of the next server", [{ ...cases[0], name: "four" }]);
  await page.locator("main [role=list] a").filter({ hasText: "of the next server" }).waitFor({ timeout: 15_000 });
  assert.deepEqual(
    page.problems.filter((it) => !/ERR_|network|fetch/i.test(it)),
    [],
  );
  await page.context().close();
  const streams = await Promise.all(
    ["api/test/events", "api/console/events"].map((path) => fetch(`${next.url}/${path}`)),
  );
  const began = Date.now();
  await Promise.all([next.stop(), ...streams.map((stream) => stream.text())]);
  // The grace for requests at the end is 5 s.
  assert.ok(Date.now() - began < 4_500, `a stream of events held the server for ${Date.now() - began} ms`);
});

test("hostile names, answers, evidence and verdicts stay text", { timeout: 60_000 }, async () => {
  const own = await startServer({ env: environment() });
  const line = ATTACKS.join(" ").replaceAll("\u0000", "");
  const attack = {
    name: line,
    prompt: `call echo ${JSON.stringify({ text: line })}\nevidence ${line}\nsay ${line}\njudge no`,
    judgeConfig: model.config,
    checklist: [line],
    systemPrompt: line,
  };
  const { run, results } = await runBatch(own, line, [attack]);
  const [result] = results;
  assert.equal(result.status, "failed", result.error);
  await ask(own, `results/${result.id}/overrides`, { trial: 0, passed: true, reason: line, author: line.slice(0, 60) });
  const page = await openPage(browser, own, "#/tests");
  for (const hash of [
    "#/tests",
    at("run", run.id),
    at("cases"),
    at("case", line),
    at("results"),
    `${at("compare")}?a=${run.id}&b=${run.id}`,
    at("judges"),
    ...["t0", "c0", "t1", "v0"].map((step) => `${at("result", result.id)}?trial=0&step=${step}`),
  ]) {
    await go(page, hash);
    await page.waitForTimeout(80);
    await page.locator("main details").evaluateAll((all) =>
      all.forEach((it) => {
        it.open = true;
      }),
    );
    const found = await page.evaluate(() => ({
      hacked: window.hacked,
      odd: document.querySelectorAll("main script, main iframe, main img, main [onload], main [onerror], main b")
        .length,
      // A link in an answer is shown as one if it leads to http or https; it opens in a page of its own.
      links: [...document.querySelectorAll("main a")]
        .filter((it) => !(it.getAttribute("href") ?? "#").startsWith("#"))
        .filter((it) => !(/^https?:/.test(it.href) && it.rel.includes("noopener"))).length,
    }));
    assert.deepEqual(found, { hacked: undefined, odd: 0, links: 0 }, hash);
    assert.match(await page.locator("main").innerText(), hash === at("judges") ? /scripted/ : /onerror/, hash);
  }
  assert.deepEqual([...page.problems, ...page.foreign], []);
  await page.context().close();
  await own.stop();
});

test("a server without tests says how to enable them", async () => {
  const own = await startServer();
  const page = await openPage(browser, own, "#/tests");
  const text = await page.locator("main").innerText();
  assert.match(text, /not enabled/);
  assert.match(text, /\[testing\]\s+enabled = true/);
  assert.match(text, /ENABLE_TESTING=true marquetry serve/);
  assert.deepEqual([...page.problems, ...(await findings(page))], []);
  await page.context().close();
  await own.stop();
});

test("tests are for administrators, and an override is in the name of its caller", { timeout: 60_000 }, async () => {
  const config = "[auth.tokens]\nann = { env = 'ANN', scopes = ['admin'] }\nbob = { env = 'BOB' }\n";
  const [ann, bob] = ["anns-secret-word-0123456789abcdef", "bobs-secret-word-0123456789abcdef"];
  const own = await startServer({ env: { ...environment(), ANN: ann, BOB: bob }, config });
  const { results } = await runBatch(own, "of ann", [checked("one", 'call echo {"text":"x"}', { repetitions: 1 })], {
    token: ann,
  });
  for (const path of [
    "runs",
    "outcomes",
    "cases",
    "judges",
    "events",
    `results/${results[0].id}`,
    `results/${results[0].id}/overrides`,
    "history?name=one",
  ]) {
    for (const [token, status] of [
      [bob, 403],
      ["wrong-token-0123456789", 401],
      [undefined, 403],
    ]) {
      const response = await fetch(`${own.url}/api/test/${path}`, {
        headers: token ? { Authorization: `Bearer ${token}` } : {},
      });
      assert.equal(response.status, status, `${path} ${token}`);
      await response.body?.cancel();
    }
  }
  await assert.rejects(
    ask(own, `results/${results[0].id}/overrides`, { trial: 0, passed: true, reason: "x", author: "bob" }, ann),
    /403.*not the caller/,
  );
  const other = await openPage(browser, own, "#/tests", { token: bob });
  assert.match(await other.locator("main").innerText(), /scope admin/);
  await other.context().close();
  const page = await openPage(browser, own, at("result", results[0].id), { token: ann });
  await page.getByText("Record a verdict").click();
  assert.equal(await page.getByLabel("Your name").count(), 0);
  await page.getByLabel("it passed").check();
  await page.getByLabel("Why").fill("The call is right.");
  await page.getByRole("button", { name: "Store my verdict" }).click();
  await page.getByText("The call is right.").waitFor();
  const { items } = await ask(own, `results/${results[0].id}/overrides`, undefined, ann);
  assert.equal(items.length, 1);
  assert.match(items[0].author, /ann/);
  for (const headers of [
    { Origin: "http://127.0.0.1:1" },
    { Origin: "null" },
    { "Sec-Fetch-Site": "same-site" },
    { Host: "evil.example" },
  ]) {
    const response = await fetch(`${own.url}/api/test/runs`, {
      headers: { Authorization: `Bearer ${ann}`, ...headers },
    });
    if (!("Host" in headers)) assert.equal(response.status, 403, JSON.stringify(headers));
  }
  await page.context().close();
  await own.stop();
});

test('two clicks on "Older runs" show these runs once', { timeout: 60_000 }, async (context) => {
  const own = await startServer({ env: environment() });
  context.after(() => own.stop());
  for (let batch = 0; batch < 60; batch += 1)
    await runBatch(own, `batch ${batch}`, [{ name: "no prompt", prompt: "" }]);
  const page = await openPage(browser, own, "#/tests");
  const listed = (count) =>
    page.locator(`[role=listitem][aria-setsize="${count}"]`).first().waitFor({ timeout: 10_000 });
  await listed(50);
  await page.getByRole("button", { name: "Older runs" }).evaluate((button) => {
    button.click();
    button.click();
  });
  await listed(60);
  await page.waitForTimeout(300);
  await listed(60);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("10,000 results are shown quickly", { timeout: 180_000 }, async () => {
  const own = await startServer({ env: environment() });
  for (let batch = 0; batch < 10; batch += 1)
    await runBatch(
      own,
      `batch ${batch}`,
      Array.from({ length: 1000 }, (_, index) => ({ name: `case ${index % 500}`, prompt: "x" })),
    );
  assert.equal((await ask(own, "outcomes?limit=10000")).items.length, 10_000);
  const page = await openPage(browser, own, "#/");
  const run = (await ask(own, "runs")).items[0];
  const took = {};
  for (const [name, hash, text] of [
    ["runs", "#/tests", "batch 9"],
    ["run", at("run", run.id), "1000 of 1000 results"],
    ["cases", at("cases"), "500 of 500 cases"],
    ["case", at("case", "case 7"), "20 of 20 results"],
    ["results", at("results"), "10000 of 10000 results"],
    ["compare", `${at("compare")}?a=${run.id}&b=${run.id}`, "case 499"],
  ]) {
    const began = Date.now();
    await go(page, hash);
    await page.getByText(text).first().waitFor();
    took[name] = Date.now() - began;
    assert.ok((await page.evaluate(() => document.querySelectorAll("*").length)) < 5000, name);
  }
  console.log(`10,000 results: ${JSON.stringify(took)} ms`);
  for (const [name, ms] of Object.entries(took)) assert.ok(ms < 2000, `${name} took ${ms} ms`);
  await page.context().close();
  await own.stop();
});
