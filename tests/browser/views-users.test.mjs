// Two users with tokens: each has their own Views, what these said, and artifacts. An administrator
// sees the logs of all.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { callTool, openCallView, openPage, startBrowser, startServer, upstream } from "./support.mjs";
import { labUpstream, openRawView } from "./views-lab.mjs";

const WORDS = {
  ANNA: "annas-secret-word-0123456789abcdef",
  BERT: "berts-secret-word-0123456789abcdef",
  ROOT: "roots-secret-word-0123456789abcdef",
};
const config =
  "[auth.tokens]\nanna = { env = 'ANNA' }\nbert = { env = 'BERT' }\nroot = { env = 'ROOT', scopes = ['admin'] }\n";

let server;
let browser;
before(async () => {
  [server, browser] = await Promise.all([
    startServer({ config, env: WORDS, servers: { lab: labUpstream(), data: upstream } }),
    startBrowser(),
  ]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const get = (path, token) =>
  fetch(`${server.url}/api/console/${path}`, token ? { headers: { Authorization: `Bearer ${token}` } } : {});

/**
 * Reads the events of a viewer from now on. What it returns ends that, when a text has come if one
 * is named, and returns all.
 */
async function eventsOf(token) {
  const controller = new AbortController();
  const response = await fetch(`${server.url}/api/console/events`, {
    headers: { Authorization: `Bearer ${token}` },
    signal: controller.signal,
  });
  let text = "";
  const over = (async () => {
    for await (const chunk of response.body) text += Buffer.from(chunk).toString();
  })().catch(() => {});
  return async (wanted = "") => {
    for (let tries = 0; !text.includes(wanted) && tries < 400; tries += 1)
      await new Promise((done) => setTimeout(done, 25));
    controller.abort();
    await over;
    return text;
  };
}

test("what a View said stays with its user", { timeout: 60_000 }, async () => {
  const [annas, berts] = await Promise.all([eventsOf(WORDS.ANNA), eventsOf(WORDS.BERT)]);
  const page = await openPage(browser, server, "#/", { token: WORDS.ANNA });
  const view = await openRawView(page, server, "lab__raw", { token: WORDS.ANNA });
  await view.frame.evaluate(() =>
    ask("ui/update-model-context", { content: [{ type: "text", text: "the secret of anna" }] }),
  );
  await view.frame.evaluate(() => {
    globalThis.sent = ask("ui/message", { role: "user", content: [{ type: "text", text: "anna speaks" }] });
  });
  await page.locator("dialog[open]").getByRole("button", { name: "Send it" }).click();
  assert.ok((await view.frame.evaluate(() => globalThis.sent)).result);
  const conversation = async (token) => JSON.stringify(await (await get("conversation", token)).json());
  assert.match(await conversation(WORDS.ANNA), /anna speaks.*the secret of anna/);
  assert.doesNotMatch(await conversation(WORDS.BERT), /anna/);
  assert.equal((await get("conversation")).status, 401);

  const audit = async (token) => (await (await get(`views/audit?call=${view.id}`, token)).json()).records;
  assert.ok((await audit(WORDS.ANNA)).length > 5);
  assert.deepEqual(await audit(WORDS.BERT), []);
  assert.ok((await audit(WORDS.ROOT)).length > 5, "an administrator sees the log");
  assert.equal((await get("views/audit")).status, 401);
  assert.match(await annas("view.message"), /view\.message/);
  // Bert's stream has what came before this, too.
  await callTool(server, "lab__echo", { text: "x" }, WORDS.BERT);
  assert.doesNotMatch(await berts("call.ended"), /view\.message|lab__raw/);

  // The page of the other user does not find the call, and has no View to show.
  const other = await openPage(browser, server, "#/", { token: WORDS.BERT });
  await other.evaluate((hash) => {
    location.hash = hash;
  }, `#/calls/${view.id}?tab=view`);
  await other.waitForFunction(() =>
    /no such call|not found|404|another user/i.test(document.querySelector("main").innerText),
  );
  assert.equal(await other.locator("main iframe").count(), 0);
  await other.context().close();
  await page.context().close();
});

test("the hosting of Views needs the token", { timeout: 60_000 }, async () => {
  const view = JSON.stringify({
    tool: "lab__raw",
    contents: {
      contents: [{ uri: "ui://lab/raw.html", mimeType: "text/html;profile=mcp-app", text: "<!doctype html><p>" }],
    },
  });
  const open = (token) =>
    fetch(`${server.url}/api/console/views`, {
      method: "POST",
      headers: { "Content-Type": "application/json", ...(token ? { Authorization: `Bearer ${token}` } : {}) },
      body: view,
    });
  for (const token of [undefined, "wrong", `${WORDS.ANNA}x`]) assert.equal((await open(token)).status, 401, token);
  const annas = await open(WORDS.ANNA);
  assert.equal(annas.status, 200);
});

test("the browser of artifacts shows each user their own", { timeout: 60_000 }, async () => {
  await callTool(server, "data__large", { kib: 100 }, WORDS.ANNA);
  for (const [token, seen] of [
    [WORDS.ANNA, /data__large/],
    [WORDS.BERT, /No artifact|none|nothing|no answer/i],
  ]) {
    const { id } = await callTool(server, "list_artifacts", {}, token);
    const page = await openPage(browser, server, "#/", { token });
    const view = await openCallView(page, id);
    await view.locator("#list-note").filter({ hasNotText: "Waiting" }).waitFor();
    const text = await view.locator("body").innerText();
    assert.match(text, seen, token);
    if (token === WORDS.BERT) assert.doesNotMatch(text, /data__large/);
    await page.context().close();
  }
});
