// The life of a View in the console, beyond its handshake: tools that it provides, ping, downloads,
// its end. The official class `App` where the View behaves, a View without a library where it does
// not.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { callTool, openCallView, openPage, startBrowser, startServer } from "./support.mjs";
import { labUpstream, openLabView, openRawView } from "./views-lab.mjs";

let server;
let browser;
before(async () => {
  [server, browser] = await Promise.all([
    startServer({ servers: { lab: labUpstream(), other: labUpstream(undefined, "other") } }),
    startBrowser(),
  ]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const opened = () => openPage(browser, server);
const until = async (what, holds) => {
  for (let at = 0; at < 200; at += 1) {
    const found = await holds();
    if (found) return found;
    await new Promise((done) => setTimeout(done, 50));
  }
  return assert.fail(`it does not come about: ${what}`);
};

test("the official App starts at id 0, and provides tools that the page calls until the View is closed", {
  timeout: 60_000,
}, async () => {
  const page = await opened();
  const view = await openLabView(page, server, "lab__app", { args: { a: 1 } });
  const first = (await view.audit()).find((it) => it.direction === "from-view");
  assert.deepEqual([first.method, first.id, first.verdict.is], ["ui/initialize", "0", "accepted"]);
  await until("the page knows the tools", async () => (await view.told("appTools")).length > 0);
  assert.deepEqual(
    (await view.told("appTools")).at(-1).map(({ tool, needsConsent }) => [tool.name, needsConsent]),
    [
      ["shout", false],
      ["erase", true],
    ],
  );
  const call = (given) =>
    view.handle(
      `(it, given) => it.callTool(given.name, given.given).catch((error) => ({ refused: error.message }))`,
      given,
    );
  const answer = await call({ name: "shout", given: { text: "hello" } });
  assert.deepEqual([answer.content, answer.structuredContent], [[{ type: "text", text: "HELLO" }], { name: "shout" }]);
  assert.match((await call({ name: "whisper", given: {} })).refused, /whisper/, "a tool that the View does not list");
  const failed = await call({ name: "shout", given: { fail: true } });
  assert.ok(failed.isError || /no voice/.test(failed.refused), JSON.stringify(failed));
  await view.handle("(it) => it.ping()");
  await until("the View answers to ping", async () => (await view.told("alive")).includes(true));
  // The tool result of the upstream arrived whole, with what the model does not see.
  const seen = await view.frame.evaluate(() => told);
  assert.deepEqual(seen[0], ["input", { a: 1 }]);
  assert.deepEqual([seen[1][1].structuredContent, seen[1][1]._meta.own], [{ given: { a: 1 } }, 1]);
  assert.equal(seen.length, 2);
  await view.handle("(it) => it.close('the test is over')");
  await view.isGone();
  // The View was asked before it was removed, and had the time to answer.
  const audit = await view.audit();
  const asked = audit.find((it) => it.method === "ui/resource-teardown" && it.direction === "to-view");
  assert.ok(
    audit.some((it) => it.direction === "from-view" && it.kind === "result" && it.id === asked.id),
    "the View answered to its teardown",
  );
  assert.match(
    (await call({ name: "shout", given: { text: "x" } }).catch(() => ({ refused: "closed" }))).refused,
    /closed/,
  );
  await page.context().close();
});

test("a call of a tool of the View that is too large fails alone", { timeout: 60_000 }, async () => {
  const own = await startServer({
    servers: { lab: labUpstream() },
    config: "[console]\nmax_view_message_bytes = 20000\n",
  });
  const page = await openPage(browser, own);
  const view = await openLabView(page, own, "lab__app");
  await until("the page knows the tools", async () => (await view.told("appTools")).length > 0);
  const shout = (length) =>
    view.handle(
      '(it, length) => it.callTool("shout", { text: "x".repeat(length) }).then((found) => found.content[0].text, (error) => error.message)',
      length,
    );
  assert.match(await shout(2 << 20), /larger than \d+ bytes/);
  assert.equal(await shout(3), "XXX", "the View goes on");
  await page.context().close();
  await own.stop();
});

test("a step of progress that is too large ends nothing", { timeout: 60_000 }, async () => {
  const own = await startServer({
    servers: { lab: labUpstream() },
    config: "[console]\nmax_view_message_bytes = 20000\n",
  });
  const shown = callTool(own, "lab__raw", { ms: 5_000 });
  const { id } = await until("the call runs", async () =>
    (await (await fetch(`${own.url}/api/console/calls`)).json()).calls.find((it) => it.outcome === "running"),
  );
  const page = await openPage(browser, own);
  const body = (await openCallView(page, id)).locator("body");
  await body.evaluate(() => start());
  const { result } = await body.evaluate(() =>
    ask("tools/call", { name: "helper", arguments: { progress: 2 << 20 }, _meta: { progressToken: 1 } }),
  );
  assert.equal(result.content[0].text, "helper was called");
  await shown;
  const ends = () =>
    body.evaluate(() => got.map(({ data }) => data.method).filter((it) => /tool-(result|cancelled)$/.test(it)));
  await until("the View has its result", async () => (await ends()).length > 0);
  assert.deepEqual(await ends(), ["ui/notifications/tool-result"]);
  await page.context().close();
  await own.stop();
});

// seed: 001/mcp-apps-life-05
test("a View that does not answer is removed after its time", { timeout: 60_000 }, async () => {
  const page = await opened();
  const view = await openRawView(page, server);
  await view.handle("(it) => it.ping()");
  const began = Date.now();
  await view.handle("(it) => it.close()");
  await view.isGone();
  const took = Date.now() - began;
  assert.ok(took >= 1_500 && took < 8_000, `${took} ms; the limit is 2 s`);
  await page.context().close();
});

test("a View that does not answer to ping is said to be dead", { timeout: 60_000 }, async () => {
  const page = await opened();
  const view = await openRawView(page, server);
  await view.handle("(it) => it.ping()");
  await until("the page is told", async () => (await view.told("alive")).includes(false));
  assert.equal(await view.isThere(), true, "it is not removed for that");
  await page.context().close();
});

test("a View asks to be removed", { timeout: 60_000 }, async () => {
  const page = await opened();
  const view = await openLabView(page, server, "lab__app");
  await view.frame.evaluate(() => app.requestTeardown());
  await view.isGone();
  const audit = await view.audit();
  assert.ok(
    audit.some((it) => it.method === "ui/resource-teardown" && it.direction === "to-view"),
    "by the same way as the page does it",
  );
  await page.context().close();
});

test("files are saved with the consent of the user, under a name without a path", { timeout: 60_000 }, async () => {
  const page = await opened();
  const view = await openLabView(page, server, "lab__app");
  const save = (contents) =>
    view.frame.evaluate((contents) => {
      app.downloadFile({ contents }).then(
        (it) => {
          globalThis.saved = it;
        },
        (error) => {
          globalThis.saved = { refused: error.message };
        },
      );
    }, contents);
  const saved = () =>
    view.frame.waitForFunction(() => globalThis.saved, undefined, { polling: 50 }).then((it) => it.jsonValue());
  const dialog = page.locator("dialog[open]");
  await save([
    {
      type: "resource",
      resource: { uri: "file:///../../etc/pass\u202Ewd.txt", mimeType: "text/plain", text: "of the View" },
    },
  ]);
  await dialog.waitFor();
  assert.match(await dialog.innerText(), /wants to save files/);
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    dialog.getByRole("button", { name: "Save" }).click(),
  ]);
  assert.doesNotMatch(download.suggestedFilename(), /[/\\]|\.\.|\u202E/);
  assert.equal(await readFile(await download.path(), "utf8"), "of the View");
  assert.deepEqual(await saved(), {});
  // Refused by the user, and by the rules.
  await view.frame.evaluate(() => {
    globalThis.saved = undefined;
  });
  await save([{ type: "resource", resource: { uri: "file:///b.bin", blob: "AAEC" } }]);
  await dialog.waitFor();
  await page.keyboard.press("Escape");
  assert.match(JSON.stringify(await saved()), /denied/i);
  await view.frame.evaluate(() => {
    globalThis.saved = undefined;
  });
  await save([{ type: "resource_link", uri: "file:///etc/passwd", name: "x" }]);
  assert.match(JSON.stringify(await saved()), /refused|isError/);
  assert.equal(await dialog.count(), 0, "nobody is asked for what is refused anyway");
  await page.context().close();
});

test("sampling is refused, since the console has no model", { timeout: 60_000 }, async () => {
  const page = await opened();
  const view = await openRawView(page, server);
  assert.equal(view.answer.hostCapabilities.sampling, undefined);
  const { error } = await view.frame.evaluate(() =>
    ask("sampling/createMessage", { messages: [{ role: "user", content: { type: "text", text: "x" } }], maxTokens: 5 }),
  );
  assert.ok([-32000, -32601].includes(error.code), JSON.stringify(error));
  await page.context().close();
});

test("a View calls the tools of its own server that are for Views, under the names of that server, and no others", {
  timeout: 60_000,
}, async () => {
  const page = await opened();
  const view = await openRawView(page, server);
  const call = (name) => view.frame.evaluate((name) => ask("tools/call", { name, arguments: {} }), name);
  assert.equal((await call("helper")).result.content[0].text, "helper was called");
  for (const name of [
    "secret",
    "other__helper",
    "other__app",
    "list_artifacts",
    "am7_vector_search",
    "absent",
    "__proto__",
  ]) {
    const { error } = await call(name);
    assert.equal(error?.code, -32000, `${name}: ${JSON.stringify(error)}`);
  }
  const listed = (await view.frame.evaluate(() => ask("tools/list"))).result.tools.map(({ name }) => name);
  assert.ok(listed.includes("helper") && listed.includes("raw"), listed.join());
  assert.deepEqual(
    listed.filter((name) => ["secret", "list_artifacts"].includes(name) || name.startsWith("other__")),
    [],
  );
  const ask = async (method, params) =>
    await view.frame.evaluate(([method, params]) => globalThis.ask(method, params), [method, params]);
  // The Views of Marquetry itself are listed, too: they are documents without data.
  const resources = (await ask("resources/list")).result.resources
    .map(({ uri }) => uri)
    .filter((uri) => !uri.startsWith("ui://marquetry/"));
  assert.deepEqual(resources, ["lab:notes-of-lab", "ui://lab/listed.html"]);
  assert.equal((await ask("resources/read", { uri: "lab:notes-of-lab" })).result.contents[0].text, "notes");
  // Resources of others, and what belongs to the console.
  for (const uri of ["lab:notes-of-other", "artifact://x?version=0", "am7://x", "file:///etc/passwd"]) {
    const { error, result } = await view.frame.evaluate((uri) => ask("resources/read", { uri }), uri);
    assert.ok(error, `${uri}: ${JSON.stringify(result)}`);
  }
  for (const method of [
    "initialize",
    "server/discover",
    "logging/setLevel",
    "completion/complete",
    "elicitation/create",
    "roots/list",
    "ui/resource-teardown",
    "nonsense",
  ]) {
    const { error } = await view.frame.evaluate((method) => ask(method), method);
    assert.ok(error, method);
  }
  await page.context().close();
});

test("a View calls a tool whose arguments headers repeat", { timeout: 60_000 }, async () => {
  const page = await opened();
  const view = await openRawView(page, server);
  const given = { region: "Köln", options: { limit: 7 } };
  const { result, error } = await view.frame.evaluate(
    (given) => ask("tools/call", { name: "located", arguments: given }),
    given,
  );
  assert.deepEqual(result?.structuredContent, { given }, JSON.stringify(error));
  await page.context().close();
});

test("a message of a View arrives as the JSON that it is", { timeout: 60_000 }, async () => {
  const page = await opened();
  const view = await openRawView(page, server);
  const { result } = await view.frame.evaluate(() =>
    ask("tools/call", { name: "helper", arguments: { at: new Date(0), list: [undefined, 1], gone: undefined } }),
  );
  assert.deepEqual(result.structuredContent.given, { at: "1970-01-01T00:00:00.000Z", list: [null, 1] });
  await page.context().close();
});

test("what a tool asks in the call of a View is shown below the View, and answered there", {
  timeout: 60_000,
}, async () => {
  const page = await opened();
  const view = await openRawView(page, server);
  const call = () =>
    view.frame.evaluate(() => {
      globalThis.outcome = undefined;
      ask("tools/call", { name: "asks", arguments: {} }).then((it) => {
        globalThis.outcome = it;
      });
    });
  const outcome = () =>
    view.frame.waitForFunction(() => globalThis.outcome, undefined, { polling: 50 }).then((it) => it.jsonValue());
  const question = page.getByRole("region", { name: "Question" });
  await view.handle("(it) => it.enlarge()");
  await page.waitForSelector(".view[data-mode=fullscreen]");
  await call();
  await question.waitFor();
  assert.match(await question.innerText(), /lab__asks asks: .*Which room\?/);
  await question.getByLabel(/^Room|^room/).fill("blue");
  await question.getByRole("button", { name: "Answer" }).click();
  assert.deepEqual((await outcome()).result.structuredContent, {
    given: { action: "accept", content: { room: "blue" } },
  });
  assert.equal(await question.count(), 0);
  await call();
  await question.getByRole("button", { name: "Decline" }).click();
  assert.deepEqual((await outcome()).result.structuredContent, { given: { action: "decline" } });
  // The tool is told of a question that nobody answers any more.
  await call();
  await question.waitFor();
  await view.handle("(it) => it.close()");
  await view.isGone();
  await until(
    "the question is withdrawn",
    async () => (await (await fetch(`${server.url}/api/console/state`)).json()).questions.length === 0,
  );
  assert.equal(await question.count(), 0);
  await page.context().close();
});

test("two Views of one page do not reach each other", { timeout: 60_000 }, async () => {
  const page = await opened();
  const one = await openRawView(page, server, "lab__raw");
  const two = await openRawView(page, server, "lab__raw");
  await two.frame.evaluate(() => {
    got.length = 0;
  });
  const tried = await one.frame.evaluate(async () => {
    const outcomes = {};
    const forged = { jsonrpc: "2.0", method: "ui/notifications/tool-input", params: { arguments: { forged: true } } };
    for (let at = 0; at < top.frames.length; at += 1) {
      const proxy = top.frames[at];
      if (proxy === parent) continue;
      // Any window may post to any other; what comes of it is for the receiver.
      proxy.postMessage(forged, "*");
      proxy.postMessage(
        { jsonrpc: "2.0", method: "ui/notifications/sandbox-resource-ready", params: { html: "<h1>forged" } },
        "*",
      );
      for (const [name, work] of [
        ["document", () => proxy.document],
        ["inner document", () => proxy.frames[0].document],
        [
          "navigation",
          () => {
            proxy.location = "about:blank";
          },
        ],
        [
          "inner navigation",
          () => {
            proxy.frames[0].location = "about:blank";
          },
        ],
        ["name", () => proxy.name],
      ]) {
        try {
          work();
          outcomes[name] = "allowed";
        } catch (error) {
          outcomes[name] = error.name;
        }
      }
    }
    await new Promise((done) => setTimeout(done, 400));
    return outcomes;
  });
  assert.deepEqual(tried, {
    document: "SecurityError",
    "inner document": "SecurityError",
    navigation: "SecurityError",
    "inner navigation": "SecurityError",
    name: "SecurityError",
  });
  assert.equal(await two.isThere(), true);
  assert.deepEqual(
    (await two.frame.evaluate(() => got)).filter((it) => it.fromHost),
    [],
    "nothing came from its host",
  );
  assert.equal(await two.frame.evaluate(() => document.querySelector("h1")), null);
  // Each goes on with its own host.
  assert.ok((await one.frame.evaluate(() => ask("ping"))).result);
  assert.ok((await two.frame.evaluate(() => ask("ping"))).result);
  // Nothing of the first was taken for the second.
  assert.deepEqual(
    (await two.audit()).filter((it) => it.verdict.is !== "accepted"),
    [],
  );
  await page.context().close();
});
