// Views of calls that an agent made over the gateway: what the View is told is what the agent sent.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openCallView, openPage, startBrowser, startServer, within } from "./support.mjs";
import { labUpstream } from "./views-lab.mjs";

let server;
let browser;
before(async () => {
  [server, browser] = await Promise.all([startServer({ servers: { lab: labUpstream() } }), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const until = async (what, holds) => {
  for (let at = 0; at < 200; at += 1) {
    const found = await holds();
    if (found) return found;
    await new Promise((done) => setTimeout(done, 50));
  }
  return assert.fail(`it does not come about: ${what}`);
};

/**
 * An agent with a session. `call` sends `tools/call`, `cancel` gives a reason; both return the
 * promise of the response.
 */
async function agent() {
  const headers = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
  const post = (message) =>
    fetch(`${server.url}/mcp`, {
      method: "POST",
      headers,
      body: JSON.stringify({ jsonrpc: "2.0", ...message }),
      signal: AbortSignal.timeout(30_000),
    });
  const first = await post({
    id: 0,
    method: "initialize",
    params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "agent", version: "1" } },
  });
  Object.assign(headers, {
    "Mcp-Session-Id": first.headers.get("mcp-session-id"),
    "MCP-Protocol-Version": "2025-11-25",
  });
  await first.text();
  await (await post({ method: "notifications/initialized" })).text();
  return {
    call: (id, name, args) => post({ id, method: "tools/call", params: { name, arguments: args } }),
    cancel: (requestId, reason) => post({ method: "notifications/cancelled", params: { requestId, reason } }),
  };
}

const recorded = async (path) => (await fetch(`${server.url}/api/console/${path}`)).json();
const running = () =>
  until("the call runs", async () => (await recorded("calls")).calls.find((it) => it.outcome === "running"));

/** What the host told a View of the lab since it was loaded, as [method, params]. */
const told = (body) =>
  body.evaluate(() =>
    got.filter(({ data, fromHost }) => fromHost && data.method).map(({ data }) => [data.method, data.params]),
  );

// seed: 001/mcp-apps-life-04
test("an agent cancels a call that has a View: the upstream stops, and the View gets the reason of the agent", {
  timeout: 60_000,
}, async () => {
  const { call, cancel } = await agent();
  const answer = call(1, "lab__raw", { ms: 20_000, word: "w" });
  const { id } = await running();
  const page = await openPage(browser, server);
  const body = (await openCallView(page, id)).locator("body");
  await body.evaluate(() => start());
  await until("the View has its arguments", async () => (await told(body)).length > 0);
  assert.deepEqual(await told(body), [["ui/notifications/tool-input", { arguments: { ms: 20_000, word: "w" } }]]);
  const reason = "the user pressed “Stop” <b>&\u2028";
  assert.equal((await cancel(1, reason)).status, 202);
  await until("the View is told of the end", async () => (await told(body)).length > 1);
  assert.deepEqual((await told(body)).slice(1), [["ui/notifications/tool-cancelled", { reason }]]);
  // The agent's request ends at once, and so does the work of the upstream, whose call takes 20 s.
  await within(
    answer.then((it) => it.text()),
    "the request of the agent ends",
    5_000,
  );
  const notes = await until("the upstream is told", async () => {
    const found = await (await call(2, "lab__cancellations", {})).text();
    return found.includes('"tool":"raw"') && found;
  });
  assert.match(notes, /"cancelled":\[\{"tool":"raw","stopped":true\}\]/);
  const record = await recorded(`calls/${id}`);
  assert.deepEqual(
    [record.outcome, record.problem, record.upstream, record.model],
    ["cancelled", { message: reason }, null, null],
  );
  // The View of a call that ended before is told the same.
  await page.evaluate(() => {
    location.hash = "#/";
  });
  await page.locator("main iframe").waitFor({ state: "detached" });
  const again = (await openCallView(page, id)).locator("body");
  await again.evaluate(() => start());
  await until("the View is told of the end", async () => (await told(again)).length > 1);
  assert.deepEqual((await told(again))[1], ["ui/notifications/tool-cancelled", { reason }]);
  await page.context().close();
});

// seed: 001/mcp-apps-life-04
test("an agent that cancels without a reason, or disconnects, leaves a View that says so", {
  timeout: 60_000,
}, async () => {
  const { call, cancel } = await agent();
  const answer = call(1, "lab__raw", { ms: 20_000 });
  const { id } = await running();
  await cancel(1, undefined);
  await answer.then((it) => it.text());
  assert.equal(
    (
      await until("the call has ended", async () => {
        const it = await recorded(`calls/${id}`);
        return it.outcome !== "running" && it;
      })
    ).problem,
    null,
  );
  const page = await openPage(browser, server);
  const body = (await openCallView(page, id)).locator("body");
  await body.evaluate(() => start());
  await until("the View is told of the end", async () => (await told(body)).length > 1);
  assert.deepEqual((await told(body))[1], [
    "ui/notifications/tool-cancelled",
    { reason: "the agent cancelled the call, or disconnected" },
  ]);
  await page.context().close();
});

// seed: 001/mcp-apps-life-01
// seed: 001/mcp-apps-life-03
test("a View gets exactly the arguments of the call of the agent, once, and then its result", {
  timeout: 60_000,
}, async () => {
  const { call } = await agent();
  const given = {
    city: "Köln",
    days: [1, 2.5, -3],
    nested: { deep: [{ empty: {}, none: null, list: [] }], yes: true, text: "" },
    "": "no name",
    quote: '"</script>\u2028',
  };
  const answer = await (await call(1, "lab__raw", given)).text();
  assert.match(answer, /raw was called/);
  const { id } = (await recorded("calls")).calls[0];
  const page = await openPage(browser, server);
  const body = (await openCallView(page, id)).locator("body");
  assert.deepEqual(await told(body), [], "nothing comes before the View is ready");
  await body.evaluate(() => start());
  await until("the View has its result", async () => (await told(body)).length > 1);
  const [input, result, ...more] = await told(body);
  assert.deepEqual(input, ["ui/notifications/tool-input", { arguments: given }]);
  assert.deepEqual(
    [result[0], result[1].content, result[1].structuredContent, more],
    ["ui/notifications/tool-result", [{ type: "text", text: "raw was called" }], { given }, []],
  );
  await page.context().close();
});

// seed: 001/mcp-apps-ctx-06
test("a View is offered the fonts of the page, and they load nothing", { timeout: 60_000 }, async () => {
  const { call } = await agent();
  await (await call(1, "lab__raw", {})).text();
  const { id } = (await recorded("calls")).calls[0];
  const page = await openPage(browser, server);
  const body = (await openCallView(page, id)).locator("body");
  const { result } = await body.evaluate(() => start());
  const { css, variables } = result.hostContext.styles;
  const faces = css.fonts.match(/@font-face \{[^}]*\}/g);
  assert.equal(faces.join("\n"), css.fonts, "nothing but rules of fonts");
  assert.ok(
    faces.every((it) => /src: local\("[^"]+"\)(, local\("[^"]+"\))*;/.test(it)),
    css.fonts,
  );
  assert.doesNotMatch(css.fonts, /url\(|@import|https?:/);
  assert.match(variables["--font-mono"], /"Marquetry Mono"/, "a variable names the family that the rules define");
  // The View that inserts them, as the official App does, has the family; what it cannot fetch it does not try.
  const rules = await body.evaluate((_, fonts) => {
    const style = document.head.appendChild(document.createElement("style"));
    style.textContent = fonts;
    return [...style.sheet.cssRules].map((it) => [it.constructor.name, it.style.getPropertyValue("font-family")]);
  }, css.fonts);
  assert.deepEqual(rules, [
    ["CSSFontFaceRule", '"Marquetry Mono"'],
    ["CSSFontFaceRule", '"Marquetry Mono"'],
  ]);
  const blocked = await body.evaluate(async () => {
    const found = [];
    document.addEventListener("securitypolicyviolation", (event) => found.push(event.effectiveDirective));
    await document.fonts.load('16px "Marquetry Mono"').catch(() => {});
    return found;
  });
  assert.deepEqual([blocked, page.foreign], [[], []]);
  // A font with an address would not be offered: the policy of a View forbids to fetch it.
  const offered = await page.evaluate(async () => {
    const base = document.querySelector("script[src]").src.replace("app.js", "");
    const { fonts } = await import(`${base}surroundings.js`);
    const sheet = new CSSStyleSheet();
    sheet.insertRule('@font-face { font-family: Fetched; src: url("fetched.woff2"); }');
    sheet.insertRule('@font-face { font-family: Near; src: local("Near"); }');
    return fonts([sheet]);
  });
  assert.match(offered, /Near/);
  assert.doesNotMatch(offered, /Fetched/);
  await page.context().close();
});

// seed: 001/mcp-apps-life-06
// seed: 001/mcp-apps-ctx-04
// seed: 001/mcp-apps-ctx-05
test("the frame follows the size that a View reports, and the host context has it", { timeout: 60_000 }, async () => {
  const { call } = await agent();
  await (await call(1, "lab__raw", {})).text();
  const { id } = (await recorded("calls")).calls[0];
  const page = await openPage(browser, server);
  const body = (await openCallView(page, id)).locator("body");
  const first = (await body.evaluate(() => start())).result.hostContext;
  assert.equal(first["marquetry/frameSize"], undefined, "no size was reported yet");
  const report = (size) =>
    body.evaluate((_, params) => send({ jsonrpc: "2.0", method: "ui/notifications/size-changed", params }), size);
  const height = (pixels) =>
    page.waitForFunction(
      (wanted) => document.querySelector("main iframe").getBoundingClientRect().height === wanted,
      pixels,
    );
  await report({ width: 300, height: 234 });
  await height(234);
  await report({ height: 90_000 });
  await height(first.containerDimensions.maxHeight);
  const next = (
    await body.evaluate(() =>
      ask("ui/initialize", {
        appInfo: { name: "raw", version: "1" },
        appCapabilities: {},
        protocolVersion: "2026-01-26",
      }),
    )
  ).result.hostContext;
  assert.deepEqual(next["marquetry/frameSize"], { height: first.containerDimensions.maxHeight }, "the width is fixed");
  assert.deepEqual(next.containerDimensions, first.containerDimensions, "the room is the same");
  assert.ok(
    !(await told(body)).some(
      ([method, params]) => method === "ui/notifications/host-context-changed" && "marquetry/frameSize" in params,
    ),
  );
  // Over the whole page both axes are fixed: the View fills the frame, and its reports change nothing.
  await page.getByRole("button", { name: "Full screen" }).click();
  await page.waitForSelector(".view[data-mode=fullscreen]");
  await until("the View is told of its new room", async () =>
    (await told(body)).some(
      ([method, params]) =>
        method === "ui/notifications/host-context-changed" && params.containerDimensions?.height > 0,
    ),
  );
  const whole = await page.locator("main iframe").boundingBox();
  await report({ width: 100, height: 50 });
  await body.evaluate(() => ask("ping"));
  assert.deepEqual(await page.locator("main iframe").boundingBox(), whole);
  const room = (await told(body)).findLast(([, params]) => params.containerDimensions)[1].containerDimensions;
  assert.deepEqual(room, { width: 1280, height: 752 });
  assert.deepEqual({ width: whole.width, height: whole.height }, room);
  assert.deepEqual(await body.evaluate(() => ({ width: innerWidth, height: innerHeight })), room);
  await page.keyboard.press("Escape");
  await page.waitForSelector(".view[data-mode=inline]");
  await page.context().close();
});
