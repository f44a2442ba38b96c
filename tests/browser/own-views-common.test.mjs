// What holds for each of our Views in a sandboxed frame without an origin, under the policy of a
// View that declares nothing, with the official AppBridge as the host.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import {
  artifactTools,
  artifacts,
  data,
  diagramCall,
  diagramTools,
  failed,
  passage,
  searchTools,
} from "./own-views-fixtures.mjs";
import { ALL_CAPABILITIES, eventually, launch, openView, serveHost } from "./own-views-host.mjs";
import { ownViews } from "./own-views-html.mjs";

let browser, site, views;
before(async () => {
  [browser, site, views] = await Promise.all([launch(), serveHost(), ownViews()]);
});
after(async () => {
  await browser.close();
  site.close();
  await views.close();
});

/** How each View is opened. */
const OPENED = {
  diagram: () => ({ tools: diagramTools(), ...diagramCall() }),
  search: () => ({
    tools: searchTools(),
    input: { query: "how long does the dough rest" },
    result: data({ results: [passage(3), passage(7)] }),
  }),
  artifacts: () => {
    const tools = artifactTools(artifacts());
    return { tools, input: {}, result: tools.list_artifacts({}) };
  },
};

const open = (name, options = {}) => openView(browser, site, { html: views.html(name), ...OPENED[name](), ...options });

/** Waits until the result of the call is seen. */
function settled(view, name) {
  const seen = { diagram: "#picture:not([hidden])", search: "#results > li", artifacts: "#list > li" }[name];
  return view.frame.waitForSelector(seen);
}

for (const name of Object.keys(OPENED)) {
  test(`${name}: handshake, input, result, size and theme`, async () => {
    const view = await open(name);
    await settled(view, name);
    const methods = view.transport.received
      .map((message) => message.method)
      .filter((method) => !method?.includes("sandbox"));
    assert.deepEqual(methods.slice(0, 2), ["ui/initialize", "ui/notifications/initialized"]);
    assert.deepEqual(view.bridge.getAppCapabilities(), { availableDisplayModes: ["inline", "fullscreen"] });
    assert.equal(view.bridge.getAppVersion().name, `marquetry-${name}`);
    assert.equal(await view.frame.evaluate(() => origin), "null");
    // The frame gets the height of its content: nothing of the page scrolls.
    await eventually("the frame is as high as the page", () =>
      view.frame.evaluate(() => document.documentElement.scrollHeight <= innerHeight),
    );
    const sizes = view.seen.sizes.length;
    assert.equal(await view.frame.evaluate(() => getComputedStyle(document.documentElement).colorScheme), "light");
    const page = () => view.frame.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    assert.equal(await page(), "rgb(255, 255, 255)");
    await view.setContext({ theme: "dark" });
    await eventually("the page is dark", async () => (await page()) === "rgb(15, 18, 22)");
    await view.setContext({ styles: { variables: { "--color-background-primary": "rgb(1, 2, 3)" } } });
    await eventually("the host's colour", async () => (await page()) === "rgb(1, 2, 3)");
    await new Promise((resolve) => setTimeout(resolve, 200));
    assert.ok(view.seen.sizes.length <= sizes + 1, "the size does not change for ever");
    assert.deepEqual(view.errors, []);
    await view.close();
  });

  test(`${name}: full screen and back, by the keyboard`, async () => {
    const view = await open(name);
    await settled(view, name);
    await view.frame.focus("#fullscreen");
    await view.page.keyboard.press("Enter");
    await view.frame.waitForSelector("html[data-fill]");
    assert.equal(await view.frame.textContent("#fullscreen"), "Leave full screen");
    assert.equal(await view.frame.evaluate(() => document.body.getBoundingClientRect().height === innerHeight), true);
    await view.page.keyboard.press("Enter");
    await view.frame.waitForSelector("html:not([data-fill])");
    assert.deepEqual(view.seen.modes, ["fullscreen", "inline"]);
    // A host without full screen shows no button.
    await view.setContext({ availableDisplayModes: ["inline"] });
    await view.frame.waitForSelector("#fullscreen", { state: "hidden" });
    await view.close();
  });

  test(`${name}: ping and teardown are answered, and then nothing more is sent`, async () => {
    const view = await open(name);
    await settled(view, name);
    await view.transport.send({ jsonrpc: "2.0", id: "ping", method: "ping" });
    await eventually("the answer to ping", () =>
      view.transport.received.some((message) => message.id === "ping" && JSON.stringify(message.result) === "{}"),
    );
    assert.deepEqual(await view.bridge.teardownResource({}), {});
    const sent = view.transport.received.length;
    await view.setContext({ theme: "dark" });
    await view.frame.evaluate(() => document.body.append("x".repeat(9_000)));
    await new Promise((resolve) => setTimeout(resolve, 150));
    assert.equal(view.transport.received.length, sent);
    await view.close();
  });

  test(`${name}: the policy holds, no request leaves the page, and nothing is stored`, async () => {
    const view = await open(name);
    await settled(view, name);
    const own = new URL(site.url).origin;
    const tried = await view.frame.evaluate(async (url) => {
      const outcomes = {};
      outcomes.fetch = await fetch(url).then(
        () => "done",
        () => "blocked",
      );
      outcomes.image = await new Promise((resolve) =>
        Object.assign(new Image(), {
          onload: () => resolve("done"),
          onerror: () => resolve("blocked"),
          src: `${url}/pixel.png`,
        }),
      );
      try {
        // biome-ignore lint/security/noGlobalEval: the policy of the page must refuse it
        outcomes.eval = eval("'done'");
      } catch {
        outcomes.eval = "blocked";
      }
      try {
        outcomes.storage = localStorage.length >= 0 && "done";
      } catch {
        outcomes.storage = "blocked";
      }
      try {
        outcomes.parent = parent.document && "done";
      } catch {
        outcomes.parent = "blocked";
      }
      return outcomes;
    }, "http://127.0.0.1:9");
    assert.deepEqual(tried, {
      fetch: "blocked",
      image: "blocked",
      eval: "blocked",
      storage: "blocked",
      parent: "blocked",
    });
    const foreign = view.requests.filter(
      (url) => !/^(?:data|about|blob):/.test(url) && !url.startsWith("http://127.0.0.1:"),
    );
    assert.deepEqual(foreign, []);
    assert.ok(view.requests.some((url) => url.startsWith(own)));
    await view.close();
  });

  test(`${name}: at each width and in both schemes nothing is cut, and axe finds nothing`, async () => {
    const view = await open(name, { viewport: { width: 1280, height: 900 } });
    await settled(view, name);
    if (name === "search") await view.frame.check("#passage-0 input");
    if (name === "artifacts") {
      await view.frame.locator("#list button", { hasText: "cities.csv" }).click();
      await view.frame.waitForSelector(".table-view .line");
    }
    await view.frame.evaluate(await axe());
    for (const theme of ["light", "dark"]) {
      await view.page.emulateMedia({ colorScheme: theme });
      await view.setContext({ theme });
      await eventually(`the page is ${theme}`, () =>
        view.frame.evaluate((wanted) => getComputedStyle(document.documentElement).colorScheme === wanted, theme),
      );
      for (const width of [1280, 390, 320]) {
        const at = `${width} px, ${theme}`;
        await view.page.setViewportSize({ width, height: 900 });
        await eventually(`the View is ${width} px wide`, () =>
          view.frame.evaluate((wanted) => innerWidth === wanted, width),
        );
        assert.equal(
          await view.frame.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
          true,
          `${at}: the page scrolls sideways`,
        );
        const found = await view.frame.evaluate(async () => {
          // Colours that change with the theme do so in a transition. One that is replaced never ends.
          const over = Promise.allSettled(document.getAnimations().map((it) => it.finished));
          await Promise.race([over, new Promise((done) => setTimeout(done, 1_000))]);
          const { violations } = await axe.run(document, { resultTypes: ["violations"] });
          return violations.map(
            ({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 120)).join(" | ")}`,
          );
        });
        assert.deepEqual(found, [], at);
      }
    }
    await view.discard();
  });

  test(`${name}: a host that offers nothing, a tool that failed and a call that was cancelled are said`, async () => {
    const bare = await open(name, { capabilities: {}, tools: {} });
    if (name !== "diagram") await settled(bare, name);
    assert.deepEqual(bare.errors, []);
    assert.deepEqual(
      bare.transport.received.filter(
        (message) => message.id !== undefined && message.method !== "ui/initialize" && message.method,
      ),
      [],
    );
    await bare.close();
    const wrong = await open(name, { result: failed("the disk <b>is</b> full") });
    await wrong.frame.waitForSelector("text=The disk <b>is</b> full");
    await wrong.close();
    const stopped = await open(name, { result: undefined });
    await stopped.bridge.sendToolCancelled({ reason: "user <i>said</i> so" });
    await stopped.frame.waitForSelector("text=cancelled: user <i>said</i> so");
    await stopped.close();
  });
}

let axeSource;
async function axe() {
  axeSource ??= await readFile(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
  return axeSource;
}

test("a page without a host says so", async () => {
  const page = await browser.newPage();
  await page.setContent(views.html("diagram"));
  await page.waitForSelector("text=by a host of MCP Apps");
  await page.close();
});

test("a host that calls tools but lists none, and one with prefixes before the names", async () => {
  const unlisted = await open("diagram", { listed: null });
  await unlisted.frame.waitForSelector("#picture:not([hidden])");
  await unlisted.close();
  const none = await open("diagram", { listed: null, tools: diagramTools({ engine: false }) });
  await none.frame.waitForSelector("text=no PlantUML engine of its own");
  await none.close();
  const tools = Object.fromEntries(Object.entries(searchTools()).map(([name, tool]) => [`gate__${name}`, tool]));
  const prefixed = await open("search", { tools });
  await prefixed.frame.fill("#query", "salt");
  await prefixed.page.keyboard.press("Enter");
  await eventually("the search is called", () =>
    prefixed.seen.calls.some((call) => call.name === "gate__am7_vector_search"),
  );
  await prefixed.close();
});

test("what a host lacks is not offered", async () => {
  const { message, updateModelContext, openLinks, downloadFile, ...rest } = ALL_CAPABILITIES;
  const diagram = await open("diagram", { capabilities: rest });
  await settled(diagram, "diagram");
  for (const id of ["tell", "open-url"]) assert.equal(await diagram.frame.isVisible(`#${id}`), false, id);
  await diagram.close();
  const search = await open("search", { capabilities: rest });
  await settled(search, "search");
  await search.frame.check("#passage-0 input");
  for (const id of ["give-chosen", "ask-chosen"]) assert.equal(await search.frame.isVisible(`#${id}`), false, id);
  await search.close();
});
