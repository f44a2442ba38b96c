// Calls of tools from the page: by keyboard alone, hostile answers, a restart in mid-stream, tokens.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { execFile } from "node:child_process";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { after, before, test } from "node:test";
import { callTool, findings, go, has, openPage, program, startBrowser, startServer } from "./support.mjs";

let server;
let browser;
const scenarios = mkdtempSync(join(tmpdir(), "marquetry-scenario-"));
before(async () => {
  server = await startServer({ config: `[console]\nscenarios_directory = '${scenarios}'\n` });
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  await server?.stop();
  rmSync(scenarios, { recursive: true, force: true });
});

async function focusOn(page, name) {
  for (let at = 0; at < 120; at += 1) {
    await page.keyboard.press("Tab");
    const label = await page.evaluate(() => {
      const it = document.activeElement;
      return it.getAttribute("aria-label") ?? it.labels?.[0]?.innerText ?? it.innerText ?? "";
    });
    if (name.test(label)) return;
  }
  assert.fail(`the keyboard does not reach ${name}`);
}

test("arguments that a tool marks are repeated in headers", { timeout: 60_000 }, async () => {
  const page = await openPage(browser, server);
  const sent = async (tool, args) => {
    await go(page, `#/tools/${tool}?args=${encodeURIComponent(JSON.stringify(args))}`);
    const [request] = await Promise.all([
      page.waitForRequest((it) => it.headers()["mcp-name"] === tool),
      page.getByRole("button", { name: "Run", exact: true }).click(),
    ]);
    await page.waitForSelector(".output .badge.ok");
    return Object.entries(request.headers())
      .filter(([name]) => name.startsWith("mcp-param-"))
      .sort();
  };
  assert.deepEqual(await sent("lab__located", { region: "eu 1", options: { limit: 7 } }), [
    ["mcp-param-limit", "7"],
    ["mcp-param-region", "eu 1"],
  ]);
  assert.deepEqual(await sent("lab__located", { region: "Köln" }), [["mcp-param-region", "=?base64?S8O2bG4=?="]]);
  assert.deepEqual(await sent("lab__unlocated", { size: "x" }), []);
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a call by keyboard alone", { timeout: 60_000 }, async () => {
  const page = await openPage(browser, server, "#/");
  await page.keyboard.press("Control+k");
  await page.keyboard.type("lab__form");
  await page.waitForFunction(() => document.querySelector("[role=option]")?.textContent.includes("lab__form"));
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector("main")?.dataset.ready === "#/tools/lab__form");
  // Run first: the problems take the focus to the first field.
  await page.keyboard.press("Control+Enter");
  await page.waitForFunction(() => document.activeElement.getAttribute("aria-invalid") === "true");
  await page.keyboard.type("/etc/hosts");
  await focusOn(page, /^mode/);
  await page.keyboard.press("ArrowDown");
  await focusOn(page, /^\+ big/);
  await page.keyboard.press("Enter");
  await page.keyboard.type("12345678901234567890");
  await page.keyboard.press("Control+Enter");
  await page.waitForSelector(".output .badge.ok");
  const id = (await page.locator(".output a", { hasText: "Its record" }).getAttribute("href")).split("/").at(-1);
  const record = await (await fetch(`${server.url}/api/console/calls/${id}`)).json();
  // Integers beyond 2^53 arrive exactly, and what is unset is not sent.
  assert.equal(record.arguments.json, '{"path":"/etc/hosts","mode":"read","limit":10,"big":12345678901234567890}');
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("Ctrl+Enter in a dialog runs no tool of the page below it", { timeout: 60_000 }, async () => {
  const page = await openPage(browser, server, `#/tools/lab__echo?args=${encodeURIComponent('{"text":"x"}')}`);
  const before = (await (await fetch(`${server.url}/api/console/state`)).json()).stats.calls;
  await page.keyboard.press("Control+k");
  await page.keyboard.type("Prompts");
  await page.keyboard.press("Control+Enter");
  await page.waitForFunction(() => document.querySelector("main")?.dataset.ready === "#/prompts");
  await page.getByRole("button", { name: "Keys" }).click();
  await go(page, `#/tools/lab__echo?args=${encodeURIComponent('{"text":"z"}')}`);
  await page.keyboard.press("Control+Enter");
  // A call would be counted before the next one.
  await callTool(server, "lab__echo", { text: "y" });
  assert.equal((await (await fetch(`${server.url}/api/console/state`)).json()).stats.calls, before + 1);
  await page.context().close();
});

test("wrong arguments are told at their fields, and can be sent anyway", async () => {
  const page = await openPage(
    browser,
    server,
    `#/tools/lab__form?args=${encodeURIComponent('{"path":"a","mode":"read","limit":1000}')}`,
  );
  await page.getByRole("button", { name: "Run" }).click();
  await page.waitForSelector(".summary li");
  assert.match(await page.locator(".summary").innerText(), /limit: expected at most 100, found 1000/);
  assert.match(await page.evaluate(() => document.activeElement.value), /1000/);
  await page.getByRole("button", { name: "Send anyway" }).click();
  await page.waitForSelector(".output .badge");
  await page.context().close();
});

test("the form and the JSON edit the same, and malformed JSON is kept", async () => {
  const page = await openPage(browser, server, "#/tools/lab__form");
  await page.getByLabel(/^path/).fill("x");
  await page.getByRole("tab", { name: "JSON" }).click();
  const json = page.getByLabel("Arguments as JSON");
  assert.deepEqual(JSON.parse(await json.inputValue()), { path: "x", limit: 10 });
  await json.fill('{\n"path": "y",\n"mode" "read"}');
  const problem = page.locator(".input .problem").last();
  assert.match(await problem.innerText(), /line 3, column 8: /);
  const note = page.locator(".input .warn");
  const malformed = await json.inputValue();
  // The form says so, and has what was well-formed last.
  await json.fill('{"path": "z"}');
  await json.fill(malformed);
  await page.getByRole("tab", { name: "Form" }).click();
  assert.match(await note.innerText(), /The JSON is malformed \(line 3, column 8: .*its last well-formed value/);
  assert.equal(await page.getByLabel(/^path/).inputValue(), "z");
  await page.getByRole("button", { name: "Back to the JSON" }).click();
  assert.equal(await json.inputValue(), malformed);
  assert.match(await problem.innerText(), /line 3, column 8: /);
  // It is not sent, also from a tab that shows neither.
  await page.getByRole("tab", { name: "Schema" }).click();
  await page.getByRole("button", { name: "Run" }).click();
  assert.match(await page.locator(".runbar").innerText(), /malformed: line 3/);
  assert.equal(await json.inputValue(), malformed);
  // After a change of the form, the JSON is that of the form, and the malformed text can be brought back.
  await page.getByRole("tab", { name: "Form" }).click();
  await page.getByLabel(/^path/).fill("changed");
  await page.getByRole("tab", { name: "JSON" }).click();
  assert.deepEqual(JSON.parse(await json.inputValue()), { path: "changed" });
  assert.equal(await problem.innerText(), "");
  await page.getByRole("button", { name: "Bring the malformed JSON back" }).click();
  assert.equal(await json.inputValue(), malformed);
  await page.getByRole("tab", { name: "Form" }).click();
  assert.equal(await page.getByLabel(/^path/).inputValue(), "changed");
  await page.getByRole("tab", { name: "JSON" }).click();
  await json.fill('{"path": "y", "mode": "read", "note": null}');
  await page.getByRole("tab", { name: "Form" }).click();
  assert.equal(await page.getByLabel(/^path/).inputValue(), "y");
  assert.ok(await page.getByLabel(/note is null/).isChecked());
  await page.context().close();
});

test("a field that was changed is checked when it is left, and others are not", async () => {
  const page = await openPage(browser, server, "#/tools/lab__form");
  const problems = page.locator(".input .problem:not(:empty)");
  await page.getByLabel(/^path/).focus();
  await page.keyboard.press("Tab");
  await page.getByLabel(/^limit/).fill("1000");
  assert.equal(await problems.count(), 0, "nothing is told while one types");
  await page.keyboard.press("Tab");
  assert.deepEqual(await problems.allInnerTexts(), ["expected at most 100, found 1000"]);
  assert.equal(await page.getByLabel(/^limit/).getAttribute("aria-invalid"), "true");
  assert.equal(await page.locator(".summary li").count(), 0, "the summary belongs to Run");
  assert.match(await page.locator("#status").textContent(), /limit: expected at most 100/);
  assert.deepEqual(await findings(page), []);
  await page.getByLabel(/^limit/).fill("100");
  await page.keyboard.press("Tab");
  assert.equal(await problems.count(), 0);
  assert.equal(await page.locator(".input [aria-invalid]").count(), 0);
  // A list is checked when all of it is left, and an item when the next one is entered.
  await page.getByRole("button", { name: "+ deep" }).click();
  await page.getByRole("button", { name: "+ words" }).click();
  await page.getByRole("button", { name: "Add an item to words" }).click();
  await page.keyboard.type("x");
  await page.getByRole("button", { name: "Unset item 1" }).click();
  await page.getByLabel(/^limit/).focus();
  assert.deepEqual(await problems.allInnerTexts(), ["has no value; fill it in or remove it"]);
  await page.getByRole("button", { name: "Run" }).click();
  assert.match(await page.locator(".summary").innerText(), /4 problems/);
  assert.deepEqual(await findings(page), []);
  // After Run, a field that is mended leaves the summary.
  await page.getByLabel(/^path/).fill("a");
  await page.getByLabel(/^limit/).focus();
  assert.match(await page.locator(".summary").innerText(), /3 problems/);
  await page.context().close();
});

test("the form of a prompt checks a field when it is left", async () => {
  const page = await openPage(browser, server, "#/prompts/lab__greet");
  await page.getByLabel(/^who/).fill("x");
  await page.getByRole("button", { name: "Unset who" }).click();
  await page.getByRole("button", { name: "Get" }).focus();
  assert.deepEqual(await page.locator(".problem:not(:empty)").allInnerTexts(), ["is required"]);
  assert.equal(await page.locator(".summary li").count(), 0);
  await page.context().close();
});

test("malformed JSON of a field is neither sent nor lost, and an unset item is not null", async () => {
  const page = await openPage(
    browser,
    server,
    `#/tools/lab__form?args=${encodeURIComponent('{"path":"a","mode":"read","any":{"b":1},"deep":{"on":true,"words":["x","y"]}}')}`,
  );
  const any = page.getByLabel(/^any/);
  await any.fill('{"b": 1,\n  oops}');
  await page.getByRole("button", { name: "Unset item 1" }).click();
  const before = (await (await fetch(`${server.url}/api/console/state`)).json()).stats.calls;
  await page.getByRole("button", { name: "Run" }).click();
  await page.waitForSelector(".summary li");
  assert.match(
    await page.locator(".summary").innerText(),
    /any: malformed JSON, line 2, column 3: .*deep\.words\.0: has no value/s,
  );
  assert.match(await page.locator(".runbar").innerText(), /Malformed JSON cannot be sent/);
  assert.equal(await page.getByRole("button", { name: "Send anyway" }).count(), 0);
  await page.getByRole("button", { name: "Compare revisions" }).click();
  assert.match(await page.locator(".runbar").innerText(), /Malformed JSON cannot be sent/);
  assert.match(page.url(), /#\/tools/);
  // A link has no part of it, and the JSON shows it as it was typed.
  await page.getByRole("button", { name: "Link" }).click();
  await page.waitForFunction(() => !location.hash.includes("args"));
  await page.getByRole("tab", { name: "JSON" }).click();
  assert.match(await page.getByLabel("Arguments as JSON").inputValue(), /"any": \{"b": 1,\n {2}oops\}/);
  assert.match(await page.locator(".input .problem").last().innerText(), /line \d+, column 3: /);
  await page.getByRole("tab", { name: "Form" }).click();
  assert.equal(await any.inputValue(), '{"b": 1,\n  oops}');
  await any.fill("[2]");
  await page.getByRole("button", { name: "Run" }).click();
  assert.match(await page.locator(".summary").innerText(), /1 problem\s+deep\.words\.0/);
  assert.equal((await (await fetch(`${server.url}/api/console/state`)).json()).stats.calls, before);
  await page.getByRole("button", { name: "Send anyway" }).click();
  await page.waitForSelector(".output .badge.ok");
  const id = (await page.locator(".output a", { hasText: "Its record" }).getAttribute("href")).split("/").at(-1);
  const record = await (await fetch(`${server.url}/api/console/calls/${id}`)).json();
  assert.deepEqual(JSON.parse(record.arguments.json), {
    path: "a",
    mode: "read",
    any: [2],
    deep: { on: true, words: ["y"] },
  });
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("hostile names, descriptions and answers stay text", { timeout: 60_000 }, async () => {
  const page = await openPage(browser, server, "#/tools/lab__attack");
  const isClean = async (where) => {
    assert.equal(await page.evaluate(() => window.hacked), undefined, where);
    assert.equal(
      await page.locator('main script, main iframe, main [onload], main [onerror], main a[href^="javascript"]').count(),
      0,
      where,
    );
  };
  await isClean("form");
  assert.equal(await page.locator("main strong .mark", { hasText: "202E" }).count(), 1, "the title of the tool");
  await page.getByRole("button", { name: "Run" }).click();
  await page.waitForSelector(".output .badge");
  for (const name of ["Rendered", "JSON", "As the model reads it"]) {
    const button = page.locator(".output .bar button", { hasText: name }).first();
    if (await button.count()) await button.click();
    await isClean(name);
  }
  for (const details of await page.locator(".output details").all())
    await details.evaluate((it) => {
      it.open = true;
    });
  assert.ok(
    (await page.locator(".mark", { hasText: "202E" }).count()) > 0,
    "a character that changes the direction is marked",
  );
  for (const hash of [
    "#/calls",
    "#/messages",
    "#/resources?uri=lab%3Aattack",
    "#/",
    `#/tools/${encodeURIComponent("<img src=x onerror=window.hacked=1>")}`,
    "#/%E0%A4%A",
    "#/tools/x?args=%7B",
  ]) {
    await page.evaluate((next) => {
      location.hash = next;
    }, hash);
    await page.waitForTimeout(150);
    await isClean(hash);
  }
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a link to a resource opens in its place, and the result stays", async () => {
  const page = await openPage(browser, server, `#/tools/lab__located?args=${encodeURIComponent('{"region":"eu"}')}`);
  await page.getByRole("button", { name: "Run" }).click();
  await page.locator(".output summary", { hasText: "link to notes‹200B›" }).press("Enter");
  await page.locator(".output .markdown h2", { hasText: "Notes" }).waitFor();
  assert.equal(await page.getByLabel(/^region/).inputValue(), "eu");
  assert.deepEqual([await findings(page), page.problems], [[], []]);
  await page.context().close();
});

test("hidden characters are marked where a link leads and in the problem of a call", async () => {
  const page = await openPage(
    browser,
    server,
    `#/tools/lab__echo?args=${encodeURIComponent('{"text":"[docs](https://a.example/\\u200bx)"}')}`,
  );
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByRole("button", { name: "Rendered" }).click();
  assert.equal(await page.locator(".output .markdown").innerText(), "docs (https://a.example/‹200B›x)");
  // The problem of a call is a text of its server.
  const id = (await page.locator(".output a", { hasText: "Its record" }).getAttribute("href")).split("/").at(-1);
  await page.route(`**/api/console/calls/${id}`, async (route) =>
    route.fulfill({ json: { ...(await (await route.fetch()).json()), problem: { code: 7, message: "no\u202e" } } }),
  );
  await go(page, `#/calls/${id}`);
  assert.equal(await page.locator(".failure").innerText(), "7 no‹202E›");
  await page.context().close();
});

test("the home page follows calls of others, and a restart in mid-stream", { timeout: 90_000 }, async () => {
  const own = await startServer();
  const page = await openPage(browser, own, "#/calls");
  await page.waitForSelector(".age[data-state=live]");
  await callTool(own, "lab__echo", { text: "first" });
  await page.waitForFunction(() => document.querySelectorAll("main [role=list] a").length === 1);
  const port = new URL(own.url).port;
  await own.stop();
  await page.waitForSelector(".age[data-state=lost]");
  assert.match(await page.locator(".age").innerText(), /lost; the data is \d+ s old/);
  const again = await startServer({ port });
  await page.waitForSelector(".age[data-state=live]", { timeout: 20_000 });
  // The new run knows no calls, and the page has fetched that anew.
  await page.waitForFunction(() => document.querySelectorAll("main [role=list] a").length === 0);
  await callTool(again, "lab__echo", { text: "second" });
  await callTool(again, "lab__fails");
  await page.waitForFunction(() => document.querySelectorAll("main [role=list] a").length === 2);
  assert.deepEqual(
    page.problems.filter((it) => !/ERR_CONNECTION|ERR_INCOMPLETE/.test(it)),
    [],
  );
  await page.context().close();
  await again.stop();
});

test("a call that runs while the server ends says that it may have reached the tool, and is repeated", {
  timeout: 60_000,
}, async () => {
  const own = await startServer();
  const page = await openPage(browser, own, `#/tools/lab__slow?args=${encodeURIComponent('{"ms":60000}')}`);
  await page.getByRole("button", { name: "Run" }).click();
  await page.waitForSelector(".runbar .badge");
  const port = new URL(own.url).port;
  await own.stop("SIGKILL");
  await page.waitForSelector(".output .failure");
  assert.match(await page.locator(".output").innerText(), /No connection: .*The call may have reached the tool/s);
  const again = await startServer({ port });
  await page.waitForSelector(".age[data-state=live]", { timeout: 20_000 });
  await page.getByRole("button", { name: "+ ms" }).or(page.getByLabel(/^ms/)).first().waitFor();
  await page.getByLabel(/^ms/).fill("1");
  await page.getByRole("button", { name: "Run" }).click();
  await page.waitForSelector(".output .badge.ok");
  await page.context().close();
  await again.stop();
});

test("a wrong token shows nothing, and two users see their own calls alone", { timeout: 90_000 }, async () => {
  const config =
    "[auth.tokens]\nanna = { env = 'ANNA' }\nbert = { env = 'BERT' }\nroot = { env = 'ROOT', scopes = ['admin'] }\n";
  const words = {
    ANNA: "annas-secret-word-0123456789abcdef",
    BERT: "berts-secret-word-0123456789abcdef",
    ROOT: "roots-secret-word-0123456789abcdef",
  };
  const own = await startServer({ config, env: words });
  const annas = (await callTool(own, "lab__echo", { text: "of anna" }, words.ANNA)).id;
  const berts = (await callTool(own, "lab__echo", { text: "of bert" }, words.BERT)).id;
  const get = (path, token) =>
    fetch(`${own.url}/api/console/${path}`, token ? { headers: { Authorization: `Bearer ${token}` } } : {});
  for (const path of [
    "state",
    "calls",
    `calls/${annas}`,
    `calls/${annas}/shown`,
    "events",
    "messages",
    "servers/lab",
  ]) {
    assert.equal((await get(path)).status, 401, path);
    assert.equal((await get(path, "wrong")).status, 401, path);
  }
  for (const path of [`calls/${berts}`, `calls/${berts}/said`, `calls/${berts}/shown`])
    assert.equal((await get(path, words.ANNA)).status, 404, path);
  assert.equal((await get("servers/lab", words.ANNA)).status, 403);
  assert.equal((await get(`calls/${berts}`, words.ROOT)).status, 200);

  const page = await openPage(browser, own, "#/calls", { token: "wrong" });
  await page.waitForSelector("#token");
  assert.doesNotMatch(await page.locator("main").innerText(), /lab__/);
  assert.match(await page.locator("#token").innerText(), /not accepted/);
  await page.getByLabel("Token", { exact: true }).last().fill(words.ANNA);
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelectorAll("main [role=list] a").length === 1);
  await callTool(own, "lab__echo", { text: "again of bert" }, words.BERT);
  await callTool(own, "lab__echo", { text: "again of anna" }, words.ANNA);
  await page.waitForFunction(() => document.querySelectorAll("main [role=list] a").length === 2);
  assert.equal(await page.evaluate(() => document.cookie), "");
  await go(page, "#/servers");
  assert.match(await page.locator("main").innerText(), /administrators/);
  await page.context().close();
  await own.stop();
});

test("a token that no header can hold is asked for again", { timeout: 60_000 }, async () => {
  const own = await startServer({
    config: "[auth.tokens]\nanna = { env = 'ANNA' }\n",
    env: { ANNA: "annas-secret-word-0123456789abcdef" },
  });
  const page = await openPage(browser, own, "#/calls", { token: "wörd→" });
  const input = page.locator("#token input");
  await input.waitFor();
  assert.doesNotMatch(await page.locator("main").innerText(), /does not answer/);
  await input.fill("wörd→");
  await page.keyboard.press("Enter");
  assert.equal(await input.evaluate((it) => it.matches(":invalid")), true);
  assert.equal(await input.inputValue(), "wörd→", "the dialog stays");
  await input.fill(" annas-secret-word-0123456789abcdef ");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.getElementById("token") === null);
  await has(page, "No tool has been called");
  await page.context().close();
  await own.stop();
});

test("the printed link logs in once", { timeout: 60_000 }, async () => {
  const own = await startServer({
    config: "[auth.tokens]\nanna = { env = 'ANNA' }\n",
    env: { ANNA: "annas-secret-word-0123456789abcdef" },
  });
  const link = /console\s+(http\S+#code=\w+)/.exec(own.text())[1];
  const code = link.split("#code=")[1];
  const page = await openPage(browser, own, `#code=${code}`, { wait: false });
  await page.waitForFunction(() => /Last calls/.test(document.querySelector("main")?.innerText ?? ""));
  assert.equal(await page.locator("#token").count(), 0);
  assert.ok(!page.url().includes(code), "the code leaves the address");
  const again = await fetch(`${own.url}/api/console/session`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ code }),
  });
  assert.equal(again.status, 403);
  await page.context().close();
  await own.stop();
});

test("a page of another origin, another port of this machine and a rebound host call nothing", {
  timeout: 60_000,
}, async () => {
  const before = (await (await fetch(`${server.url}/api/console/state`)).json()).stats.calls;
  const other = createServer((_, response) => response.end("<!doctype html><title>other</title>")).listen(
    0,
    "127.0.0.1",
  );
  await new Promise((done) => other.once("listening", done));
  const page = await (await browser.newContext()).newPage();
  await page.goto(`http://127.0.0.1:${other.address().port}/`);
  const answers = await page.evaluate(async (url) => {
    const out = {};
    for (const [name, path, options] of [
      ["state", "api/console/state", {}],
      ["calls", "api/console/calls", {}],
      ["events", "api/console/events", {}],
      ["restart", "api/console/servers/lab/restart", { method: "POST" }],
    ]) {
      out[name] = await fetch(`${url}/${path}`, options).then(
        async (it) => `${it.status} ${(await it.text()).slice(0, 80)}`,
        () => "blocked",
      );
    }
    return out;
  }, server.url);
  for (const [name, answer] of Object.entries(answers)) assert.match(answer, /^(blocked|403)/, `${name}: ${answer}`);
  // A name that was rebound to this machine is refused, whatever is asked for.
  const { request } = await import("node:http");
  const { hostname, port } = new URL(server.url);
  for (const path of ["/", "/api/console/state", "/console/app.js", "/mcp"]) {
    const status = await new Promise((done) =>
      request({ hostname, port, path, headers: { Host: "evil.example" } }, (it) => {
        it.resume();
        done(it.statusCode);
      }).end(),
    );
    assert.equal(status, 403, path);
  }
  other.close();
  const state = await (await fetch(`${server.url}/api/console/state`)).json();
  assert.equal(state.stats.calls, before);
  assert.equal(state.server.upstreams[0].restarts, 0);
  await page.context().close();
});

test("a saved scenario is run by marquetry test", { timeout: 60_000 }, async () => {
  const { id } = await callTool(server, "lab__echo", { text: 'at 2026-11-22T10:00:00Z "quoted" ${x}' });
  const page = await openPage(browser, server, `#/calls/${id}?tab=save`);
  const yaml = await page.getByLabel("Scenario").innerText();
  const save = page.getByRole("button", { name: "Save to the folder" });
  await save.click();
  await page.getByText(`Saved as ${join(scenarios, "lab__echo.yaml")}`).waitFor();
  assert.equal(readFileSync(join(scenarios, "lab__echo.yaml"), "utf8").trim(), yaml.trim());
  await save.click();
  await page.getByText("exists already; choose another name").waitFor();
  const post = (body) =>
    fetch(`${server.url}/api/console/scenarios`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
  assert.equal((await post({ name: "../elsewhere", yaml })).status, 400);
  assert.equal((await post({ name: "long", yaml: "x".repeat(1_100_000) })).status, 413);
  assert.deepEqual(readdirSync(scenarios), ["lab__echo.yaml"]);
  const run = promisify(execFile)(program, ["test", scenarios]);
  const { stdout, stderr } = await run.catch((error) => assert.fail(`${error.stdout}${error.stderr}\n${yaml}`));
  assert.match(stdout + stderr, /pass|ok|1/i);
  await page.context().close();
});

test("a server is restarted by its button", { timeout: 60_000 }, async () => {
  const page = await openPage(browser, server, "#/servers/lab");
  await page.getByRole("button", { name: "Restart" }).click();
  await page.waitForFunction(() => /restarts: 1/.test(document.querySelector("main").innerText), undefined, {
    timeout: 20_000,
  });
  assert.equal((await callTool(server, "lab__echo", { text: "after" })).result.content[0].text, "after");
  await page.context().close();
});

test("a call whose arguments were too large says so, and offers no empty form", async (t) => {
  const own = await startServer({ config: "[console]\nmax_calls_bytes = 8000000\n" });
  t.after(() => own.stop());
  for (const [length, why] of [
    [2_000_000, "were too large to store"],
    [600_000, "are too long for an address"],
  ]) {
    const { id } = await callTool(own, "lab__echo", { text: "x".repeat(length) });
    const page = await openPage(browser, own, `#/calls/${id}`);
    await page.getByText(`It cannot be called again from here: its arguments ${why}.`).waitFor();
    assert.equal(await page.getByRole("link", { name: "Call it again" }).count(), 0);
    await page.context().close();
  }
});

test("secrets are neither recorded nor kept by the browser, nor in links", async () => {
  const page = await openPage(
    browser,
    server,
    `#/tools/lab__form?args=${encodeURIComponent('{"path":"a","mode":"read"}')}`,
  );
  await page.getByRole("button", { name: "+ password" }).click();
  await page.getByLabel(/^password/).fill("xyzzy-1234");
  // Optional parameters come as a reference or null.
  await page.getByRole("button", { name: "+ pin" }).click();
  await page.getByLabel(/^pin/).first().fill("xyzzy-5678");
  await page.getByRole("button", { name: "Run" }).click();
  await page.waitForSelector(".output .badge.ok");
  const stored = await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }));
  assert.ok(!stored.includes("xyzzy") && stored.includes("path"), stored);
  await page.getByRole("button", { name: "Link" }).click();
  await page.waitForFunction(() => location.hash.includes("path"));
  assert.ok(!page.url().includes("xyzzy"), page.url());
  const id = (await page.locator(".output a", { hasText: "Its record" }).getAttribute("href")).split("/").at(-1);
  const record = await (await fetch(`${server.url}/api/console/calls/${id}`)).text();
  assert.ok(!record.includes("xyzzy") && record.includes("(hidden)"), record);
  await page.getByRole("button", { name: "Compare revisions" }).click();
  await page.waitForFunction(() => location.hash.startsWith("#/revisions"));
  assert.ok(page.url().includes("path") && !page.url().includes("xyzzy"), page.url());
  // A form for the same call has no secret, and nothing in its place.
  await go(page, `#/calls/${id}`);
  await page.getByRole("link", { name: "Call it again" }).click();
  await page.waitForFunction(() => document.querySelector("main")?.dataset.ready?.startsWith("#/tools/lab__form"));
  assert.equal(await page.getByLabel(/^path/).inputValue(), "a");
  await page.getByRole("button", { name: "+ password" }).waitFor();
  await page.getByRole("button", { name: "+ pin" }).waitFor();
  assert.ok(!decodeURIComponent(page.url()).includes("(hidden)"), page.url());
  await page.context().close();
});

test("an answer is shown as people read it before its JSON, and a diagram as a picture", {
  timeout: 60_000,
}, async () => {
  const page = await openPage(browser, server, "#/tools/lab__report");
  await page.getByRole("button", { name: "Run" }).click();
  const result = page.locator(".output .result");
  await result.locator("h2", { hasText: "Report" }).waitFor();
  const places = await result.evaluate((it) =>
    [".markdown", "h2 + table, .markdown table", "img.picture", "details"].map(
      (selector) => it.querySelector(selector)?.getBoundingClientRect().top ?? -1,
    ),
  );
  assert.ok(places.every((it) => it > 0) && places[0] < places[2] && places[2] < places[3], String(places));
  assert.match(await result.locator(".markdown p").innerText(), /First line\nsecond line/);
  await page.getByRole("button", { name: "As the model reads it" }).click();
  await result.locator(".literal", { hasText: "# Report" }).waitFor();
  await go(page, "#/tools/lab__drawing");
  await page.getByRole("button", { name: "Run" }).click();
  const picture = page.locator(".output img.picture");
  await picture.waitFor();
  await page.waitForFunction(() => document.querySelector(".output img.picture").naturalWidth === 40);
  assert.equal(await picture.count(), 1);
  assert.deepEqual([await page.evaluate(() => window.hacked), page.problems], [undefined, []]);
  await page.context().close();
});

test("what begins with the words is found first, and old calls come last", { timeout: 60_000 }, async () => {
  for (let times = 0; times < 3; times += 1) await callTool(server, "lab__echo", { text: "x" });
  const page = await openPage(browser, server);
  await page.keyboard.press("Control+k");
  const first = (count) =>
    page
      .locator("#palette [role=option]")
      .evaluateAll((all, count) => all.slice(0, count).map((it) => it.innerText), count);
  await page.keyboard.type("lab__echo");
  await page.locator("#palette [role=option]", { hasText: /call$/ }).first().waitFor();
  assert.match((await first(1))[0], /^lab__echo\s+tool$/);
  await page.locator("#palette input").fill("tools");
  assert.equal((await first(1))[0], "Tools");
  await page.context().close();
});
