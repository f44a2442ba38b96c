// From a passage of an indexed file to its place in the text, and back to the results.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { openPage, program, startBrowser, startServer } from "./support.mjs";

let home;
let server;
let browser;
before(async () => {
  home = mkdtempSync(join(tmpdir(), "marquetry-cited-"));
  const documents = join(home, "documents");
  mkdirSync(documents);
  const parts = Array.from({ length: 200 }, (_, at) =>
    at === 150
      ? "The blue zebra eats 17 kumquats at noon."
      : `Part ${at} is about the weather of day ${at}, and no more.`,
  );
  writeFileSync(join(documents, "garden.md"), `# Garden\n\n${parts.join("\n\n")}\n`);
  const config = "[knowledge]\nenabled = true\n";
  writeFileSync(join(home, "marquetry.toml"), config, { mode: 0o600 });
  const env = { HOME: home, XDG_DATA_HOME: home, XDG_STATE_HOME: home, XDG_CONFIG_HOME: home };
  execFileSync(program, ["index", documents, "--config", join(home, "marquetry.toml")], {
    env: { ...process.env, ...env },
    stdio: "ignore",
  });
  [server, browser] = await Promise.all([startServer({ config, env, servers: {} }), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
  if (home) rmSync(home, { recursive: true, force: true });
});

test("a citation of a file leads to its passage, and Back to the results", { timeout: 60_000 }, async () => {
  const page = await openPage(browser, server, "#/knowledge?q=blue+zebra+kumquats");
  await page.getByRole("button", { name: "Search" }).click();
  const results = page.locator("article h2 a");
  await results.first().click();
  const mark = page.locator("mark");
  await mark.waitFor();
  assert.match(await mark.innerText(), /The blue zebra eats 17 kumquats/);
  await page.waitForFunction(() => {
    const { top, bottom } = document.querySelector("mark").getBoundingClientRect();
    return top >= 0 && bottom <= innerHeight;
  });
  const text = await page.locator("main").innerText();
  assert.ok(text.includes("Part 14") && text.includes("Part 15"), "the text around it");
  await page.goBack();
  await results.first().waitFor({ timeout: 5_000 });
  assert.deepEqual(page.problems, []);
  await page.context().close();
});
