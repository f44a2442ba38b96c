// The diagram View with the official AppBridge: text, link, picture, mistakes, decoding.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { DIAGRAM, diagramCall, diagramTools } from "./own-views-fixtures.mjs";
import { eventually, launch, openView, serveHost } from "./own-views-host.mjs";
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

const open = (options = {}) =>
  openView(browser, site, { html: views.html("diagram"), tools: diagramTools(), ...diagramCall(), ...options });
const drawn = (view) => view.frame.waitForSelector("#picture:not([hidden])");

test("the text, its link and its picture are shown; the result's link is not asked for again", async () => {
  const view = await open();
  await drawn(view);
  assert.equal(await view.frame.inputValue("#source"), DIAGRAM);
  assert.match(await view.frame.inputValue("#url"), /^https:\/\/www\.plantuml\.com\/plantuml\/svg\/[0-9a-f]+$/);
  assert.match(await view.frame.textContent("#length-text"), /^\d+ characters$/);
  assert.equal(await view.frame.textContent("#kind"), "sequence (2 participants)");
  assert.match(await view.frame.getAttribute("#picture", "src"), /^data:image\/svg\+xml;base64,/);
  assert.deepEqual(view.seen.calls.map((call) => call.name).sort(), ["checkPlantUML", "renderPlantUML"]);
  assert.deepEqual(view.errors, []);
  await view.close();
});

test("an edit is encoded once typing pauses, drawn, and told to the model", async () => {
  const view = await open();
  await drawn(view);
  view.seen.calls.length = 0;
  await view.frame.focus("#source");
  await view.page.keyboard.press("Control+End");
  await view.page.keyboard.type("\n' more", { delay: 5 });
  // A slow machine may pause between two keys.
  await eventually(
    "the model is told of all",
    () => view.seen.contexts.at(-1)?.structuredContent.plantumlCode === `${DIAGRAM}\n' more`,
  );
  const encoded = view.seen.calls.filter((call) => call.name === "encodePlantUML");
  assert.ok(encoded.length < "\n' more".length, `${encoded.length} calls`);
  assert.deepEqual(encoded.at(-1).args, { plantumlCode: `${DIAGRAM}\n' more`, format: "svg" });
  const context = view.seen.contexts.at(-1);
  assert.ok(context.content[0].text.endsWith(`${DIAGRAM}\n' more`));
  await view.close();
});

test("the link of an edit does not wait for the picture of the text before", async () => {
  const tools = diagramTools();
  const render = tools.renderPlantUML;
  let go;
  const held = new Promise((resolve) => (go = resolve));
  tools.renderPlantUML = async (...args) => {
    await held;
    return render(...args);
  };
  const view = await open({ tools });
  await eventually("the engine draws", () => view.seen.calls.some((call) => call.name === "renderPlantUML"));
  const before = await view.frame.inputValue("#url");
  const text = "@startuml\nA -> B\n@enduml";
  await view.frame.fill("#source", text);
  await eventually("the new link", async () => ![before, ""].includes(await view.frame.inputValue("#url")));
  assert.equal(view.seen.calls.filter((call) => call.name === "renderPlantUML").length, 1, "one picture at a time");
  go();
  await drawn(view);
  assert.equal(view.seen.calls.filter((call) => call.name === "renderPlantUML").at(-1).args.plantumlCode, text);
  await view.close();
});

test("a mistake is marked on its line, can be gone to by keyboard, and keeps the last picture pale", async () => {
  const view = await open();
  await drawn(view);
  await view.frame.fill("#source", "@startuml\nA -> B\noops\n@enduml");
  const button = view.frame.locator(".problems button");
  await button.waitFor();
  assert.equal(await button.textContent(), "Line 3: Syntax Error?");
  assert.equal(await view.frame.getAttribute("#source", "aria-invalid"), "true");
  assert.equal(await view.frame.evaluate(() => document.querySelector(".line-mark").style.top), "48px");
  await view.frame.waitForSelector("#frame[data-is-old]");
  await button.focus();
  await view.page.keyboard.press("Enter");
  assert.deepEqual(
    await view.frame.evaluate(() => [
      document.activeElement.id,
      document.activeElement.value.slice(document.activeElement.selectionStart, document.activeElement.selectionEnd),
    ]),
    ["source", "oops"],
  );
  await view.frame.fill("#source", DIAGRAM);
  await view.frame.waitForSelector("#frame:not([data-is-old])");
  assert.equal(await view.frame.getAttribute("#source", "aria-invalid"), null);
  await view.close();
});

test("what cannot be encoded is not sent: empty, too large", async () => {
  const view = await open();
  await drawn(view);
  view.seen.calls.length = 0;
  await view.frame.fill("#source", " \n ");
  await view.frame.waitForSelector("text=Write a diagram, or open one from its link.");
  await view.frame.fill("#source", "x".repeat(51_201));
  await view.frame.waitForSelector("text=at most 51,200");
  await new Promise((resolve) => setTimeout(resolve, 400));
  assert.deepEqual(view.seen.calls, []);
  assert.equal(await view.frame.inputValue("#url"), "");
  assert.equal(await view.frame.isDisabled("#copy-url"), true);
  await view.frame.fill("#source", "x".repeat(3_000));
  await view.frame.waitForSelector("text=some servers refuse it");
  assert.equal(await view.frame.getAttribute("#length", "data-kind"), "warn");
  await view.close();
});

test("a link is decoded into the text, which can be put back; a wrong code is said at its field", async () => {
  const view = await open();
  await drawn(view);
  await view.frame.locator("summary").focus();
  await view.page.keyboard.press("Enter");
  await view.page.keyboard.press("Tab");
  await view.page.keyboard.type("no code!");
  await view.page.keyboard.press("Enter");
  await view.frame.waitForSelector("#decode-problem >> text=is in no code");
  assert.equal(await view.frame.getAttribute("#code", "aria-invalid"), "true");
  await view.frame.fill("#code", `https://www.plantuml.com/plantuml/svg/${Buffer.from("Eve -> Bob").toString("hex")}`);
  await view.page.keyboard.press("Enter");
  await eventually("the text is decoded", async () => (await view.frame.inputValue("#source")) === "Eve -> Bob");
  await view.frame.click("#undo");
  assert.equal(await view.frame.inputValue("#source"), DIAGRAM);
  await view.close();
});

test("the picture is an image in which nothing runs, and is moved and zoomed by keys, wheel and pointer", async () => {
  const view = await open();
  await drawn(view);
  const width = () =>
    view.frame.evaluate(() => Math.round(document.getElementById("picture").getBoundingClientRect().width));
  const left = () =>
    view.frame.evaluate(() => Math.round(document.getElementById("picture").getBoundingClientRect().left));
  const fit = await width();
  await view.frame.focus("#frame");
  await view.page.keyboard.press("+");
  assert.equal(await width(), Math.round(fit * 1.25));
  const before = await left();
  await view.page.keyboard.press("ArrowRight");
  assert.equal(await left(), before - 40);
  await view.page.keyboard.press("0");
  assert.equal(await width(), fit);
  const box = await (await view.frame.$("#frame")).boundingBox();
  await view.page.mouse.move(box.x + 100, box.y + 100);
  await view.page.keyboard.down("Control");
  await view.page.mouse.wheel(0, -100);
  await view.page.keyboard.up("Control");
  await eventually("the wheel zooms", async () => (await width()) > fit);
  const start = await left();
  await view.page.mouse.down();
  await view.page.mouse.move(box.x + 130, box.y + 100, { steps: 3 });
  await view.page.mouse.up();
  assert.equal(await left(), start + 30);
  await view.frame.click("#zoom-fit");
  assert.equal(await width(), fit);
  assert.deepEqual(
    view.requests.filter((url) => url.includes("evil")),
    [],
  );
  assert.deepEqual(view.errors, []);
  await view.close();
});

test("without an engine the View says where the link leads, and opens it by the host", async () => {
  const view = await open({ tools: diagramTools({ engine: false }) });
  await view.frame.waitForSelector("text=it sends the diagram to www.plantuml.com");
  await view.frame.click("#open-instead");
  await eventually("the link is opened", () => view.seen.links.length === 1);
  assert.equal(view.seen.links[0], await view.frame.inputValue("#url"));
  assert.deepEqual(view.seen.calls, []);
  await view.close();
});

test("the text grows while the model writes it; the result of decodePlantUML fills it", async () => {
  const view = await open({ input: undefined, result: undefined });
  await view.bridge.sendToolInputPartial({ arguments: { plantumlCode: "A ->" } });
  await eventually("the part is seen", async () => (await view.frame.inputValue("#source")) === "A ->");
  assert.equal(await view.frame.getAttribute("#source", "readonly"), "");
  await view.bridge.sendToolInput({ arguments: { code: "SyfF" } });
  await view.bridge.sendToolResult({ content: [], structuredContent: { plantumlCode: "A -> B" } });
  await drawn(view);
  assert.equal(await view.frame.inputValue("#source"), "A -> B");
  assert.equal(await view.frame.inputValue("#code"), "SyfF");
  assert.equal(await view.frame.getAttribute("#source", "readonly"), null);
  await view.close();
});

test("link and code are copied, and the diagram is sent to the conversation", async () => {
  const view = await open();
  await drawn(view);
  await view.frame.click("#copy-url");
  await view.frame.waitForSelector("#copy-url >> text=Copied");
  await view.frame.focus("#source");
  await view.page.keyboard.press("Control+A");
  await view.page.keyboard.press("Control+V");
  assert.match(await view.frame.inputValue("#source"), /^https:\/\/www\.plantuml\.com\//);
  await view.frame.click("#tell");
  await eventually("the message is sent", () => view.seen.messages.length === 1);
  assert.equal(view.seen.messages[0].role, "user");
  assert.match(view.seen.messages[0].content[0].text, /```plantuml\nhttps:/);
  await view.close();
});
