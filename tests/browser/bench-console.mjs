// Measures the budgets of the console and prints them; fails if one is exceeded. `cargo xtask bench
// console` runs it with the program that is released, and `cargo xtask browser` with that of the
// tests and `--times 4`: a program without optimization, beside other work, has four times the
// time. Sizes and counts have no such allowance.

import { readFileSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { callTool, go, openPage, shown, startBrowser, startServer, withoutIndentation } from "./support.mjs";

const folder = fileURLToPath(new URL("../../crates/console/page/", import.meta.url));
// The document around a View belongs to its frame, and comes from another origin: the page never loads it.
const files = readdirSync(folder).filter((name) => name !== "sandbox.html");
const given = process.argv.indexOf("--times");
const allowance = given < 0 ? 1 : Number(process.argv[given + 1]);
if (!(allowance >= 1)) throw new Error("--times needs a number from 1");
const median = (all) => all.sort((a, b) => a - b)[Math.floor(all.length / 2)];
const rows = [];
const row = (what, found, budget, unit) =>
  rows.push({ what, found: Math.round(found), budget, most: unit === "ms" ? budget * allowance : budget, unit });

/**
 * The addresses of all pages. A page may load modules of its own; together with those of the frame
 * they have the budget.
 */
const PAGES = [
  "#/",
  "#/servers",
  "#/servers/lab",
  "#/tools",
  "#/tools/lab__echo",
  "#/calls",
  "#/messages",
  "#/resources",
  "#/prompts",
  "#/artifacts",
  "#/knowledge",
  "#/tests",
  "#/tests/cases",
  "#/tests/judges",
  "#/tests/result/none",
  "#/revisions",
  "#/revisions/lab__echo",
];
/** The size of a file without its indentation, which is the formatter's. */
const sizeOf = (name) => withoutIndentation(readFileSync(`${folder}${name}`, "utf8"));

const server = await startServer({ config: "[artifacts]\nmcp_tool_llm_return_max_bytes = 8000000\n" });
const browser = await startBrowser();
try {
  // Once before, so that the browser itself is warm.
  await (await openPage(browser, server)).context().close();
  const paints = [];
  for (let round = 0; round < 5; round += 1) {
    const page = await openPage(browser, server);
    paints.push(
      await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Infinity),
    );
    await page.context().close();
  }
  row("first paint, median of 5", median(paints), 200, "ms");

  for (const hash of PAGES) {
    const opened = await openPage(browser, server, hash, { wait: false });
    await shown(opened, hash);
    const urls = await opened.evaluate(() => performance.getEntriesByType("resource").map((it) => it.name));
    const names = [...new Set(urls.map((url) => new URL(url).pathname.split("/").at(-1)))].filter((name) =>
      files.includes(name),
    );
    row(
      `${hash}: all files`,
      ["index.html", ...names].reduce((sum, name) => sum + sizeOf(name), 0),
      150_000,
      "bytes",
    );
    row(`${hash}: modules`, names.filter((name) => name.endsWith(".js")).length, 12, "");
    await opened.context().close();
  }

  const page = await openPage(browser, server, "#/messages");
  const lines = await page.evaluate(async () => {
    const { live } = await import(
      new URL("console/api.js", document.querySelector("script[src]").src.replace("console/app.js", ""))
    );
    let next = 0;
    const arrive = (count) => {
      for (let end = next + count; next < end; next += 1)
        live.dispatchEvent(
          new CustomEvent("message", {
            detail: {
              id: `x-${next}`,
              at: Date.now(),
              side: "agent",
              sent: next % 2 === 0,
              peer: "bench",
              kind: "tools/call",
              bytes: next,
            },
          }),
        );
    };
    /** The longest of 120 frames, each after a step. */
    const longestOf = async (step) => {
      let longest = 0;
      let last = performance.now();
      for (let frame = 0; frame < 120; frame += 1) {
        step();
        await new Promise(requestAnimationFrame);
        const now = performance.now();
        longest = Math.max(longest, now - last);
        last = now;
      }
      return longest;
    };
    // The server sends events in batches, ten a second.
    const filling = await longestOf(() => arrive(100));
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const arriving = await longestOf(() => arrive(20));
    const box = document.querySelector(".virtual");
    const longest = await longestOf(() => {
      box.scrollTop += 2_000;
    });
    return {
      filling,
      arriving,
      longest,
      nodes: document.querySelectorAll("*").length,
      rows: Number(document.querySelector("[aria-setsize]").getAttribute("aria-setsize")),
    };
  });
  if (lines.rows < 10_000) throw new Error(`the log shows ${lines.rows} lines`);
  row("longest frame while 12,000 lines come", lines.filling, 50, "ms");
  row("… while more come to 10,000 lines", lines.arriving, 50, "ms");
  row("… while 10,000 lines are scrolled", lines.longest, 50, "ms");
  row("elements with 10,000 lines", lines.nodes, 3000, "");

  const { id } = await callTool(server, "lab__large", { kib: 5 * 1024 });
  await go(page, "#/");
  const large = await page.evaluate(async (id) => {
    const began = performance.now();
    location.hash = `#/calls/${id}`;
    while (!document.querySelector("main .literal")) await new Promise(requestAnimationFrame);
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    return {
      ms: performance.now() - began,
      length: document.querySelector("main .literal").textContent.length,
      nodes: document.querySelectorAll("*").length,
    };
  }, id);
  if (large.length < 5 << 20) throw new Error(`the page shows ${large.length} bytes of the text`);
  row("5 MiB of text", large.ms, 300, "ms");
  row("elements with 5 MiB of text", large.nodes, 3000, "");
} finally {
  await browser.close();
  await server.stop();
}
for (const { what, found, budget, most, unit } of rows) {
  const verdict = found > most ? "OVER" : found > budget ? "slow" : "ok  ";
  console.log(
    `${verdict} ${what.padEnd(40)} ${String(found).padStart(8)} ${unit.padEnd(6)} ${(found / budget).toFixed(2).padStart(6)} of ${budget}`,
  );
}
console.log(
  `all files of the page: ${files.reduce((sum, name) => sum + sizeOf(name), 0)} bytes, ${files.filter((name) => name.endsWith(".js")).length} modules`,
);
if (allowance > 1) console.log(`times may be ${allowance} times the budget here`);
if (rows.some(({ found, most }) => found > most)) process.exitCode = 1;
