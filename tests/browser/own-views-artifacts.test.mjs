// The artifact browser with the official AppBridge: every kind of artifact, large ones in pieces, versions, saving.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { artifactTools, artifacts } from "./own-views-fixtures.mjs";
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

const open = ({ store = artifacts(), ...options } = {}) => {
  const tools = artifactTools(store);
  return openView(browser, site, {
    html: views.html("artifacts"),
    tools,
    input: {},
    result: tools.list_artifacts({}),
    ...options,
  });
};

/** Opens the View and an artifact in it. */
async function openOne(name, options) {
  const view = await open(options);
  await view.frame.locator("#list button", { hasText: name }).first().click();
  await view.frame.waitForSelector("#tabs [aria-selected=true]");
  return view;
}

const text = (view, selector) => view.frame.locator(selector).first().textContent();
const becomes = (view, selector, pattern) =>
  eventually(`${selector} is ${pattern}`, async () => pattern.test(await text(view, selector).catch(() => "")));

test("the list is that of the result; it is filtered, goes on, and is walked through by keys", async () => {
  const store = Object.fromEntries(
    Array.from({ length: 130 }, (_, index) => [
      `a${String(index).padStart(3, "0")}.txt`,
      ["text/plain", Buffer.from("x")],
    ]),
  );
  const view = await open({ store, result: artifactTools(store).list_artifacts({ limit: 50 }) });
  await becomes(view, "#list-note", /^50 artifacts, and more$/);
  assert.deepEqual(view.seen.calls, []);
  // Two clicks at once show one page.
  await view.frame.locator("#more").evaluate((button) => {
    button.click();
    button.click();
  });
  await becomes(view, "#list-note", /^130 artifacts$/);
  await view.frame.locator("#list").evaluate(() => new Promise((resolve) => setTimeout(resolve, 200)));
  assert.equal(await text(view, "#list-note"), "130 artifacts");
  await view.frame.fill("#filter", "a12");
  await becomes(view, "#list-note", /^10 artifacts$/);
  await view.frame.focus("#list button");
  for (const key of ["ArrowDown", "ArrowDown", "End", "ArrowUp", "Enter"]) await view.page.keyboard.press(key);
  assert.equal(await text(view, "#name"), "a128.txt");
  await view.frame.fill("#filter", "no such name");
  await becomes(view, "#list-note", /No name or type contains this text/);
  await view.close();
});

test("CSV is a table that is read on, filtered, sorted and walked through by keys", async () => {
  const view = await openOne("cities.csv");
  await becomes(view, "#foot", /rows so far/);
  const reads = () => view.seen.calls.filter((call) => call.name === "read_artifact").length;
  assert.equal(reads(), 1, "only the first piece");
  assert.deepEqual(await view.frame.locator(".table-view [role=columnheader]").allTextContents(), [
    "Row",
    "id",
    "city",
    "people",
    "note",
  ]);
  assert.deepEqual(await view.frame.locator(".table-view .line").nth(1).locator("[role=gridcell]").allTextContents(), [
    "1",
    "Town, 東京",
    "7919",
    "two ⏎ lines 1",
  ]);
  await view.frame.focus(".table-view");
  for (const key of ["ArrowDown", "ArrowRight", "End"]) await view.page.keyboard.press(key);
  await becomes(view, ".cell-value", /^note, row 2: two\nlines 1$/);
  assert.equal(
    await view.frame.evaluate(
      () =>
        document.getElementById(document.querySelector(".table-view").getAttribute("aria-activedescendant"))
          .textContent,
    ),
    "two ⏎ lines 1",
  );
  // Sorting by keys: up to the header, and Enter.
  for (const key of ["ArrowUp", "ArrowUp", "ArrowLeft", "Enter", "Enter"]) await view.page.keyboard.press(key);
  assert.equal(await view.frame.getAttribute("#head-2", "aria-sort"), "descending");
  await view.frame.locator("#foot button", { hasText: "Read all rows" }).click();
  await becomes(view, "#foot", /^20,000 rows/);
  const largest = String(
    Array.from({ length: 20_000 }, (_, index) => (index * 7_919) % 1_000_003).reduce((most, number) =>
      Math.max(most, number),
    ),
  );
  assert.ok(reads() >= 4);
  assert.equal(
    await view.frame.locator(".table-view .line").first().locator("[role=gridcell]").nth(2).textContent(),
    largest,
  );
  assert.ok(
    (await view.frame.locator(".table-view .line").count()) < 60,
    "only rows that are seen are in the document",
  );
  await view.frame.fill("[aria-label='Filter rows']", "köln");
  await becomes(view, "#foot", /^6,667 of 20,000 rows/);
  assert.equal(await view.frame.getAttribute(".table-view", "aria-rowcount"), "6668");
  assert.deepEqual(view.errors, []);
  await view.close();
});

test("JSON with a list of objects is a table, and a tree whose parts are made when they are opened; numbers keep their digits", async () => {
  const view = await openOne("items.json");
  await becomes(view, "#foot", /^350 rows/);
  assert.deepEqual(await view.frame.locator(".table-view .line").nth(3).locator("[role=gridcell]").allTextContents(), [
    "12345678901234567890",
    "Item 3",
    '["a"]',
    "null",
  ]);
  await view.frame.focus("#tab-Table");
  await view.page.keyboard.press("ArrowRight");
  await becomes(view, ".tree", /items/);
  assert.equal(await view.frame.evaluate(() => document.activeElement.id), "tab-Tree");
  await view.frame.locator(".tree summary", { hasText: "items:" }).click();
  const groups = () => view.frame.locator(".tree ul ul > li > details > summary").allTextContents();
  await eventually("the groups", async () => (await groups()).length === 4);
  assert.deepEqual(await groups(), ["0 … 99", "100 … 199", "200 … 299", "300 … 349"]);
  await view.frame.locator(".tree summary", { hasText: "0 … 99" }).focus();
  await view.page.keyboard.press("Enter");
  await view.frame.locator(".tree summary", { hasText: "3: {4}" }).first().click();
  await becomes(view, ".tree .number", /^12345678901234567890$/);
  await view.close();
});

test("JSON that is no table is a tree at once, and long lists are groups of groups", async () => {
  const view = await openOne("settings.json");
  await view.frame.waitForSelector(".tree");
  assert.equal(await view.frame.getAttribute("#tab-Tree", "aria-selected"), "true");
  await view.frame.locator(".tree summary", { hasText: "list:" }).click();
  const groups = () => view.frame.locator(".tree ul ul > li > details > summary").allTextContents();
  await eventually("the groups", async () => (await groups()).length >= 2);
  assert.deepEqual((await groups()).slice(0, 2), ["0 … 9,999", "10,000 … 12,344"]);
  assert.ok((await view.frame.locator(".tree *").count()) < 60);
  await view.frame.click("#tab-Table");
  await view.frame.waitForSelector("text=Only a list of objects");
  await view.close();
});

test("JSON lines are a table; broken JSON says where", async () => {
  const view = await openOne("events.ndjson");
  await becomes(view, "#foot", /^2 rows/);
  assert.deepEqual(await view.frame.locator(".table-view .line").nth(1).locator("[role=gridcell]").allTextContents(), [
    "2.50",
    "",
    "[1,2]",
  ]);
  await view.close();
  const broken = await openOne("broken.json", {
    store: { "broken.json": ["application/json", Buffer.from('{"a": }')] },
  });
  await becomes(broken, "#loading", /^This is not JSON: Unexpected token/);
  await broken.frame.click("#tab-Text");
  await becomes(broken, ".text-view", /\{"a": \}/);
  await broken.close();
});

test("a long text is read as it is scrolled, and searched by keys", async () => {
  const view = await openOne("log.txt");
  await becomes(view, "#foot", /lines, 64 KiB of/);
  assert.ok(
    (await view.frame.locator(".text-view .line").count()) <= 400,
    "only lines near the place that is seen are in the document",
  );
  const find = "[aria-label='Find in the text']";
  await view.frame.fill(find, "error");
  await becomes(view, "#tools", /1 of \d so far/);
  assert.equal(await text(view, "mark[aria-current]"), "ERROR");
  await view.frame.press(find, "Enter");
  await becomes(view, "#tools", /2 of \d so far/);
  await view.frame.press(find, "Shift+Enter");
  await becomes(view, "#tools", /1 of \d so far/);
  await view.frame.locator("#foot button", { hasText: "Read all" }).click();
  await becomes(view, "#foot", /^30,000 lines/);
  await becomes(view, "#tools", /1 of 30(?!\d| so far)/);
  await view.frame.press(find, "Shift+Enter");
  await eventually("the last one is seen", () =>
    view.frame.evaluate(() => {
      const mark = document.querySelector("mark[aria-current]")?.getBoundingClientRect();
      const body = document.getElementById("body").getBoundingClientRect();
      return (
        mark !== undefined &&
        mark.top >= body.top &&
        mark.bottom <= body.bottom &&
        document.querySelector("mark[aria-current]").closest(".line").dataset.line === "30000"
      );
    }),
  );
  assert.ok((await view.frame.locator(".text-view .line").count()) <= 800);
  await view.close();
});

test("scrolling reads on", async () => {
  const view = await openOne("log.txt");
  await becomes(view, "#foot", /64 KiB of/);
  await view.frame.evaluate(() => document.getElementById("body").scrollTo(0, 1e9));
  await becomes(view, "#foot", /320 KiB of/);
  await view.close();
});

test("HTML is its source, a text without bytes is empty, and text that is not UTF-8 is said", async () => {
  const view = await openOne("page.html");
  await becomes(view, ".text-view", /<script>parent\.stolen\(\)<\/script>/);
  await view.frame.locator("#list button", { hasText: "nothing.txt" }).click();
  await becomes(view, "#foot", /^0 lines/);
  await view.frame.locator("#list button", { hasText: "latin.txt" }).click();
  await becomes(view, ".text-view", /a.b/);
  assert.deepEqual(view.errors, []);
  await view.close();
});

test("pictures are images, with bytes beside them; an SVG runs nothing", async () => {
  const view = await openOne("pixels.png");
  await becomes(view, "#foot", /^10 × 10 pixels$/);
  await view.frame.click("#tab-Bytes");
  await becomes(view, ".hex", /^00000000 {2}89 50 4e 47/);
  await view.frame.locator("#list button", { hasText: "drawing.svg" }).click();
  await becomes(view, "#foot", /^320 × 200 pixels$/);
  await view.frame.focus(".picture-frame");
  await view.page.keyboard.press("1");
  await becomes(view, "#tools", /100 %/);
  await view.frame.click("#tab-Text");
  await becomes(view, ".text-view", /<svg /);
  assert.deepEqual(
    view.requests.filter((url) => url.includes("evil")),
    [],
  );
  const wrong = await openOne("no.png", { store: { "no.png": ["image/png", Buffer.from("no picture")] } });
  await becomes(wrong, "#loading", /not a picture that a browser can show/);
  await wrong.close();
  assert.deepEqual(view.errors, []);
  await view.close();
});

test("a sound has a player, and other bytes are shown as they are", async () => {
  const view = await openOne("tone.wav");
  await becomes(view, "#foot", /^1\.0 s$/);
  assert.match(await view.frame.getAttribute("audio", "src"), /^data:audio\/wav;base64,/);
  await view.frame.locator("#list button", { hasText: "program.bin" }).click();
  await becomes(view, "#foot", /^The first 4\.0 KiB of 8\.8 KiB$/);
  await view.close();
});

test("a large artifact that must be parsed whole waits for the user", async () => {
  const large = Buffer.from(`[${`{"a":"${"x".repeat(1_000)}"},`.repeat(4_300)}{"a":"end"}]`);
  const view = await openOne("large.json", { store: { "large.json": ["application/json", large] } });
  const button = view.frame.locator("button", { hasText: "Read all 4.1 MiB" });
  await button.waitFor();
  assert.deepEqual(
    view.seen.calls.filter((call) => call.name === "read_artifact"),
    [],
  );
  await button.click();
  await eventually("all rows", async () => /^4,301 rows/.test(await text(view, "#foot")));
  await view.close();
});

test("opening another artifact ends what is being read for the one before", async () => {
  const store = artifacts();
  const tools = artifactTools(store);
  let release;
  const slow = {
    ...tools,
    read_artifact: (args) =>
      args.name === "log.txt"
        ? new Promise((resolve) => (release = () => resolve(tools.read_artifact(args))))
        : tools.read_artifact(args),
  };
  const view = await openOne("log.txt", { tools: slow });
  await eventually("the read", () => release !== undefined);
  await view.frame.locator("#list button", { hasText: "page.html" }).click();
  await becomes(view, ".text-view", /<h1>/);
  release();
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.match(await text(view, ".text-view"), /<h1>/);
  assert.equal(await view.frame.isVisible("#loading"), false);
  assert.ok(view.transport.received.some((message) => message.method === "notifications/cancelled"));
  await view.close();
});

test("read_artifact opens its artifact at its line; the list is beside it", async () => {
  const tools = artifactTools(artifacts());
  const view = await open({
    input: { name: "artifact://log.txt?version=0", start_line: 12_345 },
    result: tools.read_artifact({ name: "log.txt" }),
  });
  await becomes(view, "#name", /^log\.txt$/);
  await eventually("the line", () =>
    view.frame.evaluate(() => {
      const line = document.querySelector(".line[data-line='12345']")?.getBoundingClientRect();
      const body = document.getElementById("body").getBoundingClientRect();
      return line !== undefined && line.top >= body.top && line.bottom <= body.bottom;
    }),
  );
  await becomes(view, "#list-note", /^12 artifacts$/);
  await eventually("the model knows what is open", () =>
    view.seen.contexts.some(({ content }) => /artifact "log.txt", version 0 \(text\/plain/.test(content[0].text)),
  );
  await view.close();
});

for (const [what, older, newest, lines, size] of [
  ["longer", 100_000, 10, /^100,001 lines$/, /195 KiB/],
  ["shorter", 10, 100_000, /^11 lines$/, /23 B/],
]) {
  test(`read_artifact of an older version that is ${what} shows all of that version`, async () => {
    const linesOf = (count) => Buffer.from(`${"x\n".repeat(count)}end`);
    const tools = artifactTools({ "report.txt": ["text/plain", linesOf(newest), undefined, [linesOf(older)]] });
    const view = await open({
      tools,
      input: { name: "report.txt", version: 0 },
      result: tools.read_artifact({ name: "report.txt", version: 0 }),
    });
    await becomes(view, "#name", /^report\.txt$/);
    if (what === "longer") await view.frame.locator("#foot button", { hasText: "Read all" }).click();
    await becomes(view, "#foot .muted", lines);
    assert.equal(await view.frame.inputValue("#versions"), "0");
    assert.match(await text(view, "#facts"), size);
    assert.equal(await text(view, "#loading"), "");
    await view.frame.click("#tab-Details");
    await becomes(view, "dl.details", /version0/);
    assert.doesNotMatch(await text(view, "dl.details"), /source tool name/, "the details of the newest");
    await view.close();
  });
}

test("without calls of tools, what read_artifact answered is shown", async () => {
  const { serverTools, ...rest } = ALL_CAPABILITIES;
  const tools = artifactTools(artifacts());
  const csv = await open({
    capabilities: rest,
    input: { name: "cities.csv" },
    result: tools.read_artifact({ name: "cities.csv", start_byte: 0, max_bytes: 500 }),
  });
  await becomes(csv, "#foot", /^\d+ rows/);
  assert.deepEqual(csv.seen.calls, []);
  await csv.close();
  const picture = await open({
    capabilities: rest,
    input: { name: "pixels.png" },
    result: tools.read_artifact({ name: "pixels.png" }),
  });
  await becomes(picture, "#foot", /^10 × 10 pixels$/);
  await picture.close();
});

test("an artifact is saved by the host, whole", async () => {
  const view = await openOne("program.bin");
  await view.frame.click("#download");
  await eventually("the file", () => view.seen.downloads.length === 1);
  const { resource } = view.seen.downloads[0];
  assert.equal(resource.uri, "file:///program.bin");
  assert.deepEqual(Buffer.from(resource.blob, "base64"), artifacts()["program.bin"][1]);
  await view.close();
});

test("details are read when they are asked for; what is gone is said", async () => {
  const view = await openOne("cities.csv");
  await view.frame.click("#tab-Details");
  await becomes(view, "dl.details", /source tool namefiles__read/);
  await view.close();
  const store = artifacts();
  const gone = await open({ store });
  delete store["log.txt"];
  await gone.frame.locator("#list button", { hasText: "log.txt" }).click();
  await becomes(gone, "#loading", /^Log\.txt version 0 is not there\.$/);
  await gone.close();
});

test("on a phone the list and the artifact take turns", async () => {
  const view = await open({ viewport: { width: 320, height: 700 } });
  assert.equal(await view.frame.isVisible("#detail"), false);
  await view.frame.locator("#list button", { hasText: "cities.csv" }).click();
  assert.equal(await view.frame.isVisible("#list-pane"), false);
  await view.frame.click("#back");
  assert.equal(await view.frame.evaluate(() => document.activeElement.textContent.startsWith("cities.csv")), true);
  await view.close();
});
