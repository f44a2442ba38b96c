// `marquetry serve --open` opens the console with the program that the system has for links.

import assert from "node:assert/strict";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { openPage, startBrowser, startServer } from "./support.mjs";

async function until(check) {
  const end = Date.now() + 20_000;
  while (!check()) {
    assert.ok(Date.now() < end, "not within 20 s");
    await new Promise((done) => setTimeout(done, 20));
  }
}

const AUTH = { config: "[auth.tokens]\nanna = { env = 'ANNA' }\n", more: ["--open"] };
const ANNA = "annas-secret-word-0123456789abcdef";

test("--open opens the link that is printed, and the page is logged in", { timeout: 60_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "marquetry-open-"));
  const opener = join(folder, "xdg-open");
  writeFileSync(opener, '#!/bin/sh\nprintf "%s" "$1" > "$0.tmp" && mv "$0.tmp" "$0.url"\n');
  chmodSync(opener, 0o755);
  const server = await startServer({ ...AUTH, env: { ANNA, PATH: `${folder}:${process.env.PATH}` } });
  const browser = await startBrowser();
  try {
    await until(() => existsSync(`${opener}.url`));
    const url = readFileSync(`${opener}.url`, "utf8");
    assert.ok(server.text().includes(url), server.text());
    const page = await openPage(browser, server, new URL(url).hash, { wait: false });
    await page.waitForFunction(() => /Last calls/.test(document.querySelector("main")?.innerText ?? ""));
  } finally {
    await browser.close();
    await server.stop();
    rmSync(folder, { recursive: true });
  }
});

test("--open without such a program warns, and the server serves", { timeout: 60_000 }, async () => {
  const server = await startServer({ ...AUTH, servers: {}, env: { ANNA, PATH: "/nowhere" } });
  await until(() => /failed to open the console/.test(server.text()));
  assert.equal((await fetch(`${server.url}/livez`)).status, 200);
  await server.stop();
});
