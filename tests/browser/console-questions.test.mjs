// Questions that a tool asks in the middle of its call: the same form as that of arguments, in the place of the result.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { findings, openPage, startBrowser, startServer } from "./support.mjs";

let server;
let browser;
before(async () => {
  [server, browser] = await Promise.all([startServer(), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Runs the tool that asks, and waits for its question. */
async function asked(args = {}) {
  const page = await openPage(browser, server, `#/tools/lab__ask?args=${encodeURIComponent(JSON.stringify(args))}`);
  await page.getByRole("button", { name: "Run" }).click();
  const question = page.getByRole("region", { name: "Question" });
  await question.waitFor();
  return { page, question };
}

/**
 * What the upstream got as the answer. A page that is closed before has no answer: its call is cancelled, and until the
 * upstream has ended it, questions of the next call may be taken for its own.
 */
async function got(page) {
  await page.waitForSelector(".output .badge.ok");
  return JSON.parse(await page.locator(".output .literal").first().textContent());
}

test("a question says who asks, is checked like arguments, and is answered by keyboard", {
  timeout: 60_000,
}, async () => {
  const { page, question } = await asked();
  assert.match(await question.innerText(), /lab__ask asks: .*Where shall the file go\?/s);
  assert.deepEqual(await findings(page), []);
  // The focus is in the question.
  assert.equal(await question.evaluate((it) => it.contains(document.activeElement)), true);
  await question.getByRole("button", { name: "Answer" }).click();
  assert.equal(
    await page.evaluate(() => document.activeElement.getAttribute("aria-invalid")),
    "true",
    "what is required is missing",
  );
  await page.keyboard.type("/srv");
  await page.keyboard.press("Tab");
  for (
    let step = 0;
    step < 20 && !/^Answer$/.test(await page.evaluate(() => document.activeElement.innerText));
    step += 1
  )
    await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  // Only fields with a default start set; nothing is preselected.
  assert.deepEqual(await got(page), { action: "accept", content: { folder: "/srv", keep: true } });
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("a field of a question is checked when it is left, and the click that leaves it counts", {
  timeout: 60_000,
}, async () => {
  const { page, question } = await asked();
  await question.getByLabel(/^Folder/).fill("x");
  await question.getByLabel(/^keep/).focus();
  assert.deepEqual(await question.locator(".problem:not(:empty)").allInnerTexts(), [
    "expected at least 2 characters, found 1",
  ]);
  await question.getByLabel(/^Folder/).fill("xy");
  await question.getByLabel(/^keep/).focus();
  assert.equal(await question.locator(".problem:not(:empty)").count(), 0);
  // A problem that comes above a button while it is pressed would move it away.
  await question.getByLabel(/^Folder/).fill("x");
  const button = await question.getByRole("button", { name: "Answer" }).boundingBox();
  await page.mouse.move(button.x + button.width / 2, button.y + 3);
  await page.mouse.down();
  await page.mouse.up();
  await question.locator(".summary li").waitFor();
  await question.getByRole("button", { name: "Cancel" }).click();
  assert.equal((await got(page)).action, "cancel");
  await page.context().close();
});

test("a question is declined, or cancelled", { timeout: 60_000 }, async () => {
  for (const [name, action] of [
    ["Decline", "decline"],
    ["Cancel", "cancel"],
  ]) {
    const { page, question } = await asked();
    await question.getByRole("button", { name }).click();
    assert.equal((await got(page)).action, action);
    await page.context().close();
  }
});

test("a call that asks can be stopped, and run again", { timeout: 60_000 }, async () => {
  const { page, question } = await asked();
  await page.getByRole("button", { name: "Stop" }).click();
  await page.waitForFunction(() => /You stopped the call/.test(document.querySelector(".output").innerText));
  await page.getByRole("button", { name: "Run" }).click();
  await question.waitFor();
  // A page that is left has no answer either.
  await page.evaluate(() => {
    location.hash = "#/";
  });
  await page.waitForFunction(() => document.querySelector("main")?.dataset.ready === "#/");
  await page.context().close();
  const again = await asked();
  await again.question.getByRole("button", { name: "Decline" }).click();
  assert.equal((await got(again.page)).action, "decline");
  await again.page.context().close();
});

test("hostile questions stay text", { timeout: 60_000 }, async () => {
  const { page, question } = await asked({ attack: true });
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.equal(
    await question.locator('script, iframe, img, svg, [onload], [onerror], a[href^="javascript"]').count(),
    0,
  );
  assert.match(await question.innerText(), /<script>window\.hacked=1<\/script>/);
  assert.doesNotMatch(await question.innerText(), /[\u202e\u200b]/);
  assert.ok((await question.locator("p .mark", { hasText: "202E" }).count()) > 0, "the message");
  assert.deepEqual(page.problems, []);
  await question.getByRole("button", { name: "Cancel" }).click();
  assert.equal((await got(page)).action, "cancel");
  await page.context().close();
});

test("a question shows every field with its title, its description and its default", { timeout: 60_000 }, async () => {
  const { page, question } = await asked({ survey: true });
  const text = await question.innerText();
  for (const part of [
    "Before it starts:\nplease check.",
    "Are you sure?",
    "It cannot be undone.",
    "Your name",
    "As in your passport.",
    "How many days?",
    "Size",
    "Toppings",
    "As many as you like.",
    "Colours",
  ])
    assert.ok(text.includes(part), `${part} in ${text}`);
  assert.equal(await question.getByRole("button", { name: /^\+/ }).count(), 0, "nothing is behind a button");
  assert.equal(await question.getByLabel(/^Your name/).inputValue(), "Anna");
  assert.equal(await question.getByLabel(/^How many days/).inputValue(), "3");
  assert.equal(await question.getByLabel(/^Size/).evaluate((it) => it.selectedOptions[0].textContent), "Large");
  assert.equal(await question.getByRole("checkbox", { name: "Cheese" }).isChecked(), true);
  assert.equal(await question.getByRole("checkbox", { name: "red" }).isChecked(), false);
  assert.deepEqual(await findings(page), []);
  await question.getByLabel(/^Are you sure/).selectOption({ label: "true" });
  await question.getByRole("checkbox", { name: "Olives" }).check();
  await question.getByRole("button", { name: "Answer" }).click();
  assert.deepEqual(await got(page), {
    action: "accept",
    content: { sure: true, check: "Anna", days: 3, size: "l", toppings: ["o", "c"] },
  });
  await page.context().close();
});

test("a question whose window is closed is given up at once", { timeout: 60_000 }, async () => {
  const { page } = await asked();
  const open = async () => (await (await fetch(`${server.url}/api/console/state`)).json()).questions.length;
  assert.ok((await open()) > 0);
  await page.goto("about:blank");
  for (let at = 0; at < 60 && (await open()) > 0; at += 1) await new Promise((done) => setTimeout(done, 50));
  assert.equal(await open(), 0);
  await page.context().close();
});
