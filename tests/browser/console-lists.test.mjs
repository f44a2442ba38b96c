// Long lists of the console: 10,000 rows, of which a few are drawn, under a wheel, a finger and keys.

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { after, before, test } from "node:test";
import { openPage, startBrowser, startServer } from "./support.mjs";

const ROWS = 10_000;
let server;
let browser;
before(async () => {
  const many = {
    command: process.execPath,
    args: [fileURLToPath(new URL("catalog-upstream.mjs", import.meta.url))],
    env: { MANY_TOOLS: String(ROWS) },
  };
  [server, browser] = await Promise.all([startServer({ servers: { many } }), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const list = (page) => page.locator(".side .virtual");
const topOf = (page) => list(page).evaluate((it) => it.scrollTop);
/** Waits until the list has drawn what it shows, and stands still. */
async function atRest(page) {
  let last;
  for (let same = 0; same < 5; ) {
    await page.waitForTimeout(40);
    const now = await topOf(page);
    same = now === last ? same + 1 : 0;
    last = now;
  }
  return last;
}

/** Turns the wheel, waits until the list has moved for it and stands still, and returns where it stands. */
async function wheel(page, distance) {
  const before = await topOf(page);
  await page.mouse.wheel(0, distance);
  await page.waitForFunction((top) => document.querySelector(".side .virtual").scrollTop !== top, before);
  return atRest(page);
}

/** The list of tools, once all of them are known. */
async function openList(hash, options) {
  const page = await openPage(browser, server, hash, options);
  await page.waitForFunction((rows) => document.querySelector(".side [aria-setsize]")?.ariaSetSize >= rows, ROWS, {
    timeout: 30_000,
  });
  return page;
}

/** Whether rows cover all of the list that is seen. */
const isDrawn = (page) =>
  list(page).evaluate((box) => {
    const { top, bottom } = box.getBoundingClientRect();
    return [top + 5, (top + bottom) / 2, bottom - 5].every((y) =>
      document.elementFromPoint(box.getBoundingClientRect().left + 20, y)?.closest(".row"),
    );
  });

test("a wheel scrolls a long list as far as it turns", { timeout: 60_000 }, async () => {
  const page = await openList("#/tools");
  await list(page).hover();
  for (let turns = 1; turns <= 30; turns += 1) {
    assert.equal(await wheel(page, 100), turns * 100);
  }
  assert.ok(await isDrawn(page));
  assert.equal(await wheel(page, -700), 2_300);
  assert.equal(await wheel(page, 100_000), 102_300);
  assert.ok(await isDrawn(page));
  await page.context().close();
});

test("a finger moves a long list as far as it goes", { timeout: 60_000 }, async () => {
  const page = await openList("#/tools");
  const { x, y, width, height } = await list(page).boundingBox();
  const session = await page.context().newCDPSession(page);
  const touch = (type, at) =>
    session.send("Input.dispatchTouchEvent", {
      type,
      touchPoints: at === undefined ? [] : [{ x: x + width / 2, y: at }],
    });
  for (const distance of [-200, -200, 150, -250]) {
    const before = await atRest(page);
    const from = y + height / 2;
    await touch("touchStart", from);
    for (let part = 1; part <= 20; part += 1) {
      await touch("touchMove", from + (distance * part) / 20);
      await page.waitForTimeout(16);
    }
    // A finger that rests before it is lifted does not throw the list.
    await page.waitForTimeout(200);
    await touch("touchEnd");
    const moved = (await atRest(page)) - before;
    // The browser takes a part of the way to see that it is a gesture.
    assert.ok(Math.abs(moved + distance) <= 20, `${moved} for ${distance}`);
    assert.ok(await isDrawn(page));
  }
  await page.context().close();
});

test("keys move in a long list, also after the row with the focus was scrolled away", {
  timeout: 60_000,
}, async () => {
  const page = await openList("#/tools");
  const at = () => page.evaluate(() => Number(document.activeElement.closest("[aria-posinset]")?.ariaPosInSet));
  await list(page).locator("a").first().focus();
  for (let times = 0; times < 40; times += 1) await page.keyboard.press("ArrowDown");
  assert.equal(await at(), 41);
  await page.keyboard.press("End");
  const end = await at();
  assert.ok(end >= ROWS, String(end));
  await page.keyboard.press("PageUp");
  const paged = await at();
  assert.ok(paged < end - 5 && paged > end - 60, String(paged));
  await page.keyboard.press("PageDown");
  assert.equal(await at(), end);
  await page.keyboard.press("Home");
  assert.equal(await at(), 1);
  await list(page).hover();
  await wheel(page, 50_000);
  await page.keyboard.press("ArrowDown");
  assert.equal(await at(), 2, "the list has kept the focus, and where it was");
  assert.ok(await isDrawn(page));
  await page.context().close();
});

for (const width of [1280, 390]) {
  test(`the row of a link is in sight, ${width} px`, { timeout: 60_000 }, async () => {
    const page = await openList("#/tools/many__tool_7123", { width });
    await atRest(page);
    if (width === 1280) {
      const row = page.locator('.side [aria-current="true"]');
      const box = await row.boundingBox();
      const outer = await list(page).boundingBox();
      assert.ok(box.y >= outer.y && box.y + box.height <= outer.y + outer.height, JSON.stringify([box, outer]));
    }
    assert.equal(await page.locator("h1").innerText(), "many__tool_7123");
    await page.context().close();
  });
}
