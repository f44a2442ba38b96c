// The panel of a View: its end when it is left, metadata of the list, theme and width, what the
// model is told, and calls with secrets.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { callTool, go, openCallView, openPage, startBrowser, startServer } from "./support.mjs";
import { labUpstream, openRawView } from "./views-lab.mjs";

let target;
let server;
let browser;
before(async () => {
  target = createServer((_, response) =>
    response.writeHead(200, { "Access-Control-Allow-Origin": "*" }).end("x"),
  ).listen(0, "127.0.0.1");
  await new Promise((done) => target.once("listening", done));
  [server, browser] = await Promise.all([
    startServer({ servers: { lab: labUpstream(`http://127.0.0.1:${target.address().port}`) } }),
    startBrowser(),
  ]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
  target?.close();
});

const auditOf = async (id) => (await (await fetch(`${server.url}/api/console/views/audit?call=${id}`)).json()).records;
const until = async (holds) => {
  for (let at = 0; at < 300; at += 1) {
    if (await holds()) return;
    await new Promise((done) => setTimeout(done, 50));
  }
  assert.fail("it does not come about");
};

const run = (page) => page.getByRole("button", { name: "Run", exact: true }).click();
const openRecorded = async (page) => {
  const { id } = await callTool(server, "lab__app", { a: 1 });
  await openCallView(page, id);
  return id;
};
const openOwn = async (page) => {
  await go(page, "#/tools/lab__app");
  await run(page);
  await page.getByRole("tab", { name: "View", exact: true }).click();
  return (await page.locator(".output a", { hasText: "Its record" }).getAttribute("href")).split("/").at(-1);
};

for (const [what, open, leave] of [
  ["its tab is left", openRecorded, (page) => page.getByRole("tab", { name: "Result" }).click()],
  ["its page is left", openRecorded, (page) => go(page, "#/prompts")],
  ["its tool runs again", openOwn, run],
]) {
  test(`a View is asked before it ends when ${what}`, { timeout: 60_000 }, async () => {
    const page = await openPage(browser, server);
    const id = await open(page);
    await page.frameLocator("main iframe").frameLocator("iframe").locator("#log", { hasText: "connected" }).waitFor();
    await leave(page);
    await until(async () => {
      const audit = await auditOf(id);
      const asked = audit.find((it) => it.method === "ui/resource-teardown" && it.direction === "to-view");
      return asked && audit.some((it) => it.direction === "from-view" && it.kind === "result" && it.id === asked.id);
    });
    await page.waitForFunction(() => document.querySelector(".view") === null);
    assert.deepEqual(
      page.problems.filter((it) => !/^foreign request: .*\/view\//.test(it)),
      [],
    );
    await page.context().close();
  });
}

test("metadata of a View in the list of resources counts if its contents have none", { timeout: 60_000 }, async () => {
  const page = await openPage(browser, server);
  const view = await openRawView(page, server, "lab__listed");
  const url = `http://127.0.0.1:${target.address().port}`;
  assert.equal(
    await view.frame.evaluate(
      (url) =>
        fetch(url).then(
          (it) => it.text(),
          () => "blocked",
        ),
      url,
    ),
    "x",
  );
  assert.equal(await page.locator(".view-border").count(), 0);
  // `csp-audit-log`: the program's log has the policy of each View.
  await until(() => server.text().includes("a View is opened") && server.text().includes(`connect-src ${url}`));
  const other = await openRawView(page, server, "lab__raw");
  assert.equal(
    await other.frame.evaluate(
      (url) =>
        fetch(url).then(
          (it) => it.text(),
          () => "blocked",
        ),
      url,
    ),
    "blocked",
  );
  await page.context().close();
});

// seed: 001/mcp-apps-ctx-01
// seed: 001/mcp-apps-life-07
test("a View gets the colours of the page, and follows the switches of its panel", { timeout: 60_000 }, async () => {
  const { id } = await callTool(server, "lab__raw", {});
  const page = await openPage(browser, server);
  const view = await openCallView(page, id);
  const body = view.locator("body");
  const { hostContext } = await body.evaluate(async () => (await start()).result);
  const { variables } = hostContext.styles;
  assert.equal(Object.keys(variables).length, 76);
  assert.equal(variables["--color-background-primary"], "light-dark(#fff, #0f1216)");
  assert.ok(
    Object.values(variables).every((it) => typeof it === "string" && it),
    JSON.stringify(variables),
  );
  const told = (member) =>
    body.evaluate(
      (_, name) =>
        got
          .map(({ data }) => data)
          .filter((it) => it.method === "ui/notifications/host-context-changed")
          .map(({ params }) => params[name])
          .filter((it) => it !== undefined),
      member,
    );
  const other = hostContext.theme === "dark" ? "light" : "dark";
  await page.getByLabel("Theme").selectOption(other);
  await until(async () => (await told("theme")).at(-1) === other);
  await page.getByLabel("Width").selectOption("phone, 390 px");
  await until(async () => (await told("containerDimensions")).at(-1)?.width === 390);
  assert.ok((await page.locator("main iframe").boundingBox()).width <= 390);
  await page.getByRole("button", { name: "Full screen" }).click();
  await page.waitForSelector(".view[data-mode=fullscreen]");
  await page.keyboard.press("Escape");
  await page.waitForSelector(".view[data-mode=inline]");
  assert.equal(
    await page.evaluate(() => document.activeElement.textContent),
    "Full screen",
    "the focus is where it was",
  );
  await page.getByRole("button", { name: "Load again" }).click();
  await view.locator("#log", { hasText: "loaded" }).waitFor();
  await page.context().close();
});

test("a View that is loaded again leaves nothing behind", { timeout: 60_000 }, async () => {
  const { id } = await callTool(server, "lab__raw", {});
  const page = await openPage(browser, server);
  const view = await openCallView(page, id);
  /** How many lists of messages hear of a message. */
  const lists = () =>
    page.evaluate(async () => {
      const { live } = await import(document.querySelector("script[src]").src.replace("app.js", "api.js"));
      let heard = 0;
      live.dispatchEvent(
        new CustomEvent("view.message", {
          detail: {
            get call() {
              heard += 1;
              return "";
            },
          },
        }),
      );
      await new Promise((done) => setTimeout(done));
      return heard;
    });
  for (let load = 0; load < 3; load += 1) {
    await view.locator("#log", { hasText: "loaded" }).waitFor();
    assert.equal(await lists(), 1);
    await page.getByRole("button", { name: "Load again" }).click();
  }
  await page.getByRole("tab", { name: "Result", exact: true }).click();
  assert.equal(await lists(), 0);
  await page.context().close();
});

test("the panel shows what the View tells the model", { timeout: 60_000 }, async () => {
  const { id } = await callTool(server, "lab__raw", {});
  const page = await openPage(browser, server);
  const body = (await openCallView(page, id)).locator("body");
  await body.evaluate(() => start());
  await body.evaluate(() => ask("ui/update-model-context", { content: [{ type: "text", text: "first" }] }));
  await body.evaluate(() =>
    ask("ui/update-model-context", {
      content: [{ type: "text", text: "the second\u202e<img src=x>" }],
      structuredContent: { chosen: 7 },
    }),
  );
  await page.getByText("Context that the View gives the model").click();
  const context = page.getByLabel("Context for the model");
  await until(async () => (await context.innerText()).includes("the second"));
  assert.equal(await context.innerText(), 'the second‹202E›<img src=x>\n{"chosen":7}');
  await page.context().close();
});

test("a View gets the secrets of the call that its page makes, and none of a recorded one", {
  timeout: 60_000,
}, async () => {
  const page = await openPage(browser, server, `#/tools/lab__raw?args=${encodeURIComponent('{"word":"w"}')}`);
  await page.getByRole("button", { name: "+ pin" }).click();
  await page.getByLabel(/^pin/).fill("xyzzy");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await page.getByRole("tab", { name: "View", exact: true }).click();
  const given = async () => {
    const body = page.frameLocator("main iframe").frameLocator("iframe").locator("body");
    await body.evaluate(() => start());
    const find = (method) =>
      body.evaluate((_, name) => got.map(({ data }) => data).find((it) => it.method === name)?.params, method);
    await until(() => find("ui/notifications/tool-result"));
    return [
      (await find("ui/notifications/tool-input")).arguments,
      (await find("ui/notifications/tool-result")).structuredContent,
    ];
  };
  await page.frameLocator("main iframe").frameLocator("iframe").locator("#log", { hasText: "loaded" }).waitFor();
  assert.deepEqual(await given(), [{ word: "w", pin: "xyzzy" }, { given: { word: "w", pin: "xyzzy" } }]);
  const id = (await page.locator(".output a", { hasText: "Its record" }).getAttribute("href")).split("/").at(-1);
  await go(page, `#/calls/${id}?tab=view`);
  await page.getByText("Secret arguments are not recorded; the View gets the others.").waitFor();
  await page.frameLocator("main iframe").frameLocator("iframe").locator("#log", { hasText: "loaded" }).waitFor();
  assert.deepEqual(await given(), [{ word: "w" }, { given: { word: "w", pin: "(hidden)" } }]);
  await page.context().close();
});

test("a tool of the View that has the name of a tool of a server says so", { timeout: 60_000 }, async () => {
  const { id } = await callTool(server, "lab__app", {});
  const page = await openPage(browser, server);
  const view = await openCallView(page, id);
  await view.locator("#log", { hasText: "connected" }).waitFor();
  await view.locator("body").evaluate(() => {
    app.sendLog({ level: "info", data: "a line\u202e of the log" });
    app.onlisttools = async () => ({
      tools: ["secret", "other"].map((name) => ({
        name,
        title: `${name}\u200b of it`,
        description: "hidden\u202etext",
        inputSchema: { type: "object" },
      })),
    });
    app.sendToolListChanged();
  });
  const tools = page.getByRole("region", { name: "Tools of the View" });
  await tools.getByText("other‹200B› of it (other)", { exact: true }).waitFor();
  await page.getByText('info: "a line‹202E› of the log"', { exact: true }).waitFor();
  assert.equal(await tools.getByText("A server has a tool of this name, too.").count(), 1);
  assert.equal(await tools.getByText("hidden‹202E›text").count(), 2);
  await page.context().close();
});

test("the tools of a View that was removed are gone", { timeout: 60_000 }, async () => {
  const { id } = await callTool(server, "lab__app", {});
  const page = await openPage(browser, server);
  const view = await openCallView(page, id);
  const tools = page.getByRole("region", { name: "Tools of the View" });
  await tools.getByText("shout", { exact: true }).waitFor();
  // The View leaves its document.
  await view.locator("body").evaluate(() => {
    location.reload();
  });
  await page.getByText("The View left its document.").waitFor();
  await tools.getByText("shout", { exact: true }).waitFor({ state: "detached" });
  assert.equal(await tools.innerText(), "");
  await page.context().close();
});

test("Views are framed from the origin that is set, which must not be that of the page", {
  timeout: 60_000,
}, async () => {
  // A reverse proxy in the place of the port of Views: the browser reaches the same program under another name.
  const port = await new Promise((done) => {
    const free = createServer().listen(0, "127.0.0.1", () => {
      const { port: found } = free.address();
      free.close(() => done(found));
    });
  });
  const own = await startServer({
    servers: { lab: labUpstream() },
    config: `[console]\nviews_port = ${port}\nviews_origin = 'http://localhost:${port}'\n`,
  });
  const { id } = await callTool(own, "lab__app", {});
  const page = await openPage(browser, own);
  const view = await openCallView(page, id);
  await view.locator("#log", { hasText: "connected" }).waitFor();
  assert.ok((await page.locator("main iframe").getAttribute("src")).startsWith(`http://localhost:${port}/view/`));
  await page.context().close();
  await own.stop();
});
