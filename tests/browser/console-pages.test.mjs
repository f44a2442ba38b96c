// Every page by its link, at three widths, in both themes: no foreign request, nothing wider than
// the window. Axe-core finds nothing in the light theme on a wide screen, and nothing in the dark
// one on a narrow screen. At two widths between them, nothing is wider than the window and no bar
// is covered.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { after, before, test } from "node:test";
import { THEMES, WIDTHS, callTool, findings, go, has, openPage, startBrowser, startServer } from "./support.mjs";

let server;
let browser;
let call;
let artifact;

before(async () => {
  [server, browser] = await Promise.all([startServer(), startBrowser()]);
  const large = await callTool(server, "lab__large", { kib: 100 });
  call = large.id;
  artifact = (await callTool(server, "list_artifacts", {})).result.structuredContent.artifacts[0].name;
  const { result } = await callTool(server, "am7_create_object", {
    type: "data.data",
    name: "Baking",
    content: "Sourdough rests for nineteen hours.",
  });
  await callTool(server, "am7_vectorize", { uri: result.structuredContent.uri });
  await callTool(server, "lab__form", { path: "a", mode: "read" });
  await callTool(server, "lab__fails");
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const PAGES = () => [
  ["home", "#/", "Last calls"],
  ["servers", "#/servers", "lab"],
  ["server", "#/servers/lab", "Standard error"],
  ["tools", "#/tools", "lab__form|encodePlantUML"],
  ["tool", "#/tools/lab__form", "Arguments"],
  ["tool-json", "#/tools/lab__form?tab=json", "JSON"],
  ["tool-schema", "#/tools/lab__form?tab=schema", "As the agent gets it"],
  ["calls", "#/calls", "lab__large|list_artifacts"],
  ["call", `#/calls/${call}`, "lab__large"],
  ["call-model", `#/calls/${call}?tab=model`, "Upstream sent"],
  ["call-messages", `#/calls/${call}?tab=messages`, "In the log"],
  ["call-timeline", `#/calls/${call}?tab=timeline`, "upstream answered"],
  ["call-save", `#/calls/${call}?tab=save`, "marquetry test"],
  ["messages", "#/messages", "messages"],
  ["resources", "#/resources", "notes"],
  ["resource", "#/resources?uri=lab%3Anotes", "Notes"],
  ["prompts", "#/prompts", "greet"],
  ["prompt", "#/prompts/lab__greet", "who"],
  ["artifacts", "#/artifacts", "lab__large"],
  ["artifact", `#/artifacts/${encodeURIComponent(artifact)}?version=0`, "0123456789abcde"],
  ["knowledge", "#/knowledge", "Search the documents"],
  ["found", "#/knowledge?q=how+long+does+sourdough+rest", "Press Enter to search"],
  ["calls-filtered", "#/calls?q=fails&outcome=tool_failed", "lab__fails"],
  ["messages-filtered", "#/messages?q=tools%2Fcall", "tools/call"],
  ["tool-filled", `#/tools/lab__form?args=${encodeURIComponent('{"path":"/x","mode":"read"}')}`, "Arguments"],
  ["revisions", "#/revisions", "lab__echo"],
  ["revision", `#/revisions/lab__echo?args=${encodeURIComponent('{"text":"hi"}')}`, "Arguments as JSON"],
  ["nowhere", "#/nowhere", "does not exist"],
];

for (const theme of THEMES) {
  for (const width of WIDTHS) {
    test(`every page by its link, ${width} px, ${theme}`, { timeout: 120_000 }, async () => {
      const page = await openPage(browser, server, "#/", { width, theme });
      const wrong = [];
      for (const [name, hash, text] of PAGES()) {
        await go(page, hash);
        await has(page, text, name);
        assert.equal(await page.locator(".failure").filter({ hasText: "Failed" }).count(), 0, name);
        wrong.push(...(await findings(page)).map((it) => `${name}: ${it}`));
        const over = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        if (over > 0) wrong.push(`${name}: ${over} px too wide`);
        const folder = process.env.MARQUETRY_SCREENSHOTS;
        if (folder) {
          mkdirSync(folder, { recursive: true });
          await page.screenshot({ path: `${folder}/${name}-${width}-${theme}.png` });
        }
      }
      assert.deepEqual([...wrong, ...page.problems], []);
      await page.context().close();
    });
  }
}

for (const width of [768, 1024]) {
  test(`nothing is too wide and no bar is covered, ${width} px`, { timeout: 60_000 }, async () => {
    const page = await openPage(browser, server, "#/", { width });
    const wrong = [];
    for (const [name, hash, text] of PAGES()) {
      await go(page, hash);
      await has(page, text, name);
      const over = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      if (over > 0) wrong.push(`${name}: ${over} px too wide`);
    }
    // A low window, so that the page is scrolled and its bars stick.
    await page.setViewportSize({ width, height: 400 });
    await go(page, "#/tools/lab__form");
    const bottom = await page.locator("header").evaluate((it) => it.getBoundingClientRect().bottom);
    await page.evaluate(() => window.scrollTo(0, 150));
    for (const bar of [".runbar", ".side"]) {
      const top = await page.locator(bar).evaluate((it) => it.getBoundingClientRect().top);
      if (top < bottom - 1) wrong.push(`${bar} begins at ${top} px, under the header, which ends at ${bottom} px`);
    }
    assert.deepEqual([...wrong, ...page.problems], []);
    await page.context().close();
  });
}

test("a link shows its state again, and Back works", async () => {
  const page = await openPage(browser, server, "#/calls?q=fails&outcome=tool_failed");
  assert.equal(await page.locator("input[type=search]").inputValue(), "fails");
  assert.equal(await page.locator("main [role=list] a").count(), 1);
  await page.locator("main [role=list] a").click();
  await page.waitForFunction(() => location.hash.startsWith("#/calls/"));
  await page.goBack();
  await page.waitForFunction(() => location.hash === "#/calls?q=fails&outcome=tool_failed");
  await page.context().close();
});

test("a link fills the form and runs nothing", async () => {
  const before = (await (await fetch(`${server.url}/api/console/state`)).json()).stats.calls;
  const args = encodeURIComponent(JSON.stringify({ path: "/etc", mode: "write", deep: { on: true, words: ["x"] } }));
  const page = await openPage(browser, server, `#/tools/lab__form?args=${args}`);
  assert.equal(await page.getByLabel(/^path/).inputValue(), "/etc");
  await page.waitForTimeout(200);
  const now = (await (await fetch(`${server.url}/api/console/state`)).json()).stats.calls;
  assert.equal(now, before);
  await page.context().close();
});

test("the policy refuses scripts of text, frames and foreign hosts", async () => {
  const page = await openPage(browser, server);
  const refused = await page.evaluate(async () => {
    const found = [];
    document.addEventListener("securitypolicyviolation", (event) => found.push(event.effectiveDirective));
    try {
      document.createElement("div").innerHTML = "<b>x</b>";
    } catch {
      found.push("trusted types");
    }
    const frame = document.createElement("iframe");
    frame.src = "http://127.0.0.1:9/";
    document.body.append(frame);
    await fetch("http://127.0.0.1:9/").catch(() => {});
    const image = new Image();
    image.src = "http://127.0.0.1:9/x.png";
    document.body.append(image);
    const wanted = ["trusted types", "frame-src", "connect-src", "img-src"];
    const missing = () => wanted.filter((it) => !found.includes(it));
    for (let tries = 0; missing().length && tries < 200; tries += 1) await new Promise((done) => setTimeout(done, 50));
    return missing();
  });
  assert.deepEqual(refused, [], "each is refused");
  await page.context().close();
});
