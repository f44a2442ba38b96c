// Our Views with the real server behind the official AppBridge: the tools that a View calls are the server's.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { eventually, launch, openView, serveHost } from "./own-views-host.mjs";
import { UI_EXTENSION, UI_MIME_TYPE, readView, startOnPipe } from "./own-views-html.mjs";

const upstream = {
  command: process.execPath,
  args: [fileURLToPath(new URL("own-views-upstream.mjs", import.meta.url))],
};

let browser, site, server;
before(async () => {
  [browser, site, server] = await Promise.all([launch(), serveHost(), startOnPipe({ servers: { large: upstream } })]);
});
after(async () => {
  await browser.close();
  site.close();
  await server.close();
});

/** Calls a tool as an agent does, and opens the View of its result. */
async function call(view, name, args) {
  const result = await server.client.callTool({ name, arguments: args });
  const { text: html } = await readView(server.client, view);
  return openView(browser, site, { html, client: server.client, input: args, result });
}

test("each View is listed, linked to its tools, and read as one page of the right type", async () => {
  const { tools } = await server.client.listTools();
  const uris = Object.fromEntries(tools.map((tool) => [tool.name, tool._meta?.ui?.resourceUri]));
  const wanted = {
    encodePlantUML: "diagram",
    decodePlantUML: "diagram",
    am7_vector_search: "search",
    list_artifacts: "artifacts",
    read_artifact: "artifacts",
  };
  for (const [tool, view] of Object.entries(wanted)) assert.equal(uris[tool], `ui://marquetry/${view}.html`, tool);
  assert.equal(uris.large__table, undefined);
  assert.ok(UI_EXTENSION in (server.client.getServerCapabilities().extensions ?? {}));
  for (const name of ["diagram", "search", "artifacts"]) {
    const content = await readView(server.client, name);
    assert.equal(content.mimeType, UI_MIME_TYPE);
    assert.equal(content.uri, `ui://marquetry/${name}.html`);
    assert.match(content.text, /^<!doctype html>/);
    assert.equal(content._meta?.ui?.csp, undefined, "a View of ours needs no network");
  }
});

test("a diagram is encoded, edited and decoded", async () => {
  const view = await call("diagram", "encodePlantUML", { plantumlCode: "Bob -> Alice : hello" });
  await eventually(
    "the link",
    async () =>
      (await view.frame.inputValue("#url")) ===
      "https://www.plantuml.com/plantuml/svg/SyfFKj2rKt3CoKnELR1Io4ZDoSa70000",
  );
  await view.frame.fill("#source", "A --> B");
  await eventually("the new link", async () => (await view.frame.inputValue("#url")).endsWith("/svg/SrJGrRLJS080"));
  await view.frame.selectOption("#format", "png");
  await eventually("another format", async () => (await view.frame.inputValue("#url")).endsWith("/png/SrJGrRLJS080"));
  await view.frame.locator("summary").click();
  await view.frame.fill("#code", "SyfFKj2rKt3CoKnELR1Io4ZDoSa70000");
  await view.frame.click("#decode");
  await eventually("the text", async () => (await view.frame.inputValue("#source")).includes("Bob -> Alice : hello"));
  await view.frame.fill("#code", "!!!");
  await view.frame.click("#decode");
  await view.frame.waitForSelector("#decode-problem >> text=Failed to decode PlantUML code");
  assert.deepEqual(view.errors, []);
  await view.close();
});

test("a document is found, and the passage is shown where it stands", async () => {
  const paragraphs = Array.from(
    { length: 80 },
    (_, index) =>
      `Paragraph ${index}. ${index === 40 ? "The Baker’s secret — sourdough rests for nineteen hours." : "Flour is milled from grain, and water is added to it before the work begins."}`,
  );
  const content = paragraphs.join("\n\n");
  const created = await server.client.callTool({
    name: "am7_create_object",
    arguments: { type: "data.data", name: "Baking", content },
  });
  const { uri } = created.structuredContent;
  await server.client.callTool({ name: "am7_vectorize", arguments: { uri } });
  const view = await call("search", "am7_vector_search", { query: "how long does sourdough rest", limit: 3 });
  await view.frame.waitForSelector("#results > li");
  const first = view.frame.locator("#results > li").first();
  assert.match(await first.locator(".text").first().textContent(), /nineteen hours/);
  await first.locator("button", { hasText: "In its source" }).click();
  await first.locator(".passage").waitFor();
  assert.match(await first.locator(".passage").textContent(), /nineteen hours/);
  // The source was cut at the bytes that the passage names: no warning that it has changed.
  assert.equal(await first.locator(".source [role=status]").isVisible(), false);
  await view.frame.fill("#query", "grain");
  await view.frame.press("#query", "Enter");
  await eventually(
    "another search",
    async () => (await view.frame.locator("#results mark").allTextContents()).includes("grain"),
    {
      state: async () => ({
        summary: await view.frame.textContent("#summary"),
        status: await view.frame.textContent("#status"),
        query: await view.frame.inputValue("#query"),
        focus: await view.frame.evaluate(() => `${document.activeElement?.id} ${document.hasFocus()}`),
        sent: view.transport.received.slice(-3),
        received: JSON.stringify(view.transport.sent.at(-1)).slice(0, 500),
      }),
    },
  );
  assert.deepEqual(view.errors, []);
  await view.close();
});

test("a large answer is an artifact that is read in pieces as a table", async () => {
  await server.client.callTool({ name: "large__table", arguments: {} });
  const view = await call("artifacts", "list_artifacts", {});
  await view.frame.locator("#list button").first().click();
  await eventually("the table", async () => /rows/.test(await view.frame.textContent("#foot")));
  const all = view.frame.locator("#foot button", { hasText: "Read all rows" });
  if (await all.isVisible()) await all.click();
  await eventually("all rows", async () => /^9,000 rows/.test(await view.frame.textContent("#foot")));
  await view.frame.click("#tab-Text");
  await view.frame.fill("[aria-label='Find in the text']", "8999,");
  await eventually("the last line", async () => /1 of 1/.test(await view.frame.textContent("#tools")));
  await view.frame.click("#tab-Details");
  await eventually("its origin", async () => /table/.test(await view.frame.textContent("dl.details")));
  assert.deepEqual(view.errors, []);
  await view.close();
});
