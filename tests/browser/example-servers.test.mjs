// The example servers that the authors of MCP Apps publish on npm (2.0.3), behind the gateway: each
// shows its View in the console.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { after, before, test } from "node:test";
import {
  THEMES,
  callTool,
  exampleServer,
  openCallView,
  openPage,
  shotsFolder,
  startBrowser,
  startServer,
} from "./support.mjs";

let server;
let browser;
before(async () => {
  const servers = Object.fromEntries(
    ["basic-vanillajs", "system-monitor", "map", "video-resource", "budget-allocator"].map((name) => [
      name,
      exampleServer(name),
    ]),
  );
  [server, browser] = await Promise.all([startServer({ servers }), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

/**
 * What each server is called for, and what its View shows then. `shows` waits for the content that
 * the View's script wrote: the HTML alone, without a handshake, has other texts.
 */
const EXAMPLES = {
  "basic-vanillajs": {
    tool: "get-time",
    shows: async (view) => {
      await view.locator("#server-time", { hasText: /^\d{4}-\d\d-\d\dT/ }).waitFor();
      // The View calls the tool again by itself.
      const before = await view.locator("#server-time").textContent();
      await view.locator("#get-time-btn").click();
      await view.locator("#server-time").filter({ hasNotText: before }).waitFor();
    },
  },
  "system-monitor": {
    tool: "get-system-info",
    shows: async (view) => {
      await view.locator("#info-hostname").filter({ hasNotText: "--" }).waitFor();
      // `poll-system-stats` is a tool for Views alone, which the model does not see.
      if ((await view.locator("#poll-toggle-btn").textContent()) === "Start")
        await view.locator("#poll-toggle-btn").click();
      await view.locator("#memory-percent", { hasText: /^\d+%$/ }).waitFor();
      await view.locator("#info-uptime").filter({ hasNotText: "--" }).waitFor();
      assert.ok((await view.locator("#cpu-chart").boundingBox()).height > 50, "the chart has a height");
    },
  },
  map: {
    tool: "show-map",
    args: { west: 2.2, south: 48.8, east: 2.5, north: 48.9, label: "Paris" },
    // The library of the globe is on a host that tests do not reach; the View says so with its own
    // text. Its policy allows that host.
    foreign: /^https:\/\/cesium\.com\//,
    shows: (view) => view.locator("#loading", { hasText: /Failed to load CesiumJS from CDN/ }).waitFor(),
  },
  "video-resource": {
    tool: "play_video",
    args: { videoId: "bunny-1mb" },
    shows: async (view) => {
      await view.locator("#video-info", { hasText: "Loaded via MCP resource (1MB)" }).waitFor();
      const video = await view.locator("#video").evaluate(async (it) => {
        if (it.readyState === 0 && !it.error) {
          await new Promise((done) => {
            for (const name of ["loadedmetadata", "error"]) it.addEventListener(name, done);
            setTimeout(done, 15_000);
          });
        }
        return { width: it.videoWidth, error: it.error?.message };
      });
      assert.deepEqual(video, { width: 32, error: undefined });
      // The list of the server's own resources, with the server's own URIs.
      await view.locator("#change-video-btn").click();
      await view.locator("#video-picker option").nth(6).waitFor({ state: "attached" });
      assert.equal(await view.locator("#video-picker option").nth(1).getAttribute("value"), "videos://bunny-1mb");
    },
  },
  "budget-allocator": {
    tool: "get-budget-data",
    shows: async (view) => {
      await view.locator("#status-bar", { hasText: /Allocated: \$[1-9]/ }).waitFor();
      assert.ok((await view.locator("#sliders-container input[type=range]").count()) >= 4);
      await view.locator("#comparison-summary").filter({ hasNotText: "Loading" }).waitFor();
    },
  },
};

for (const [name, { tool, args = {}, foreign, shows }] of Object.entries(EXAMPLES)) {
  for (const theme of THEMES) {
    test(`server-${name} shows its View, ${theme}`, { timeout: 60_000 }, async () => {
      const { id, result } = await callTool(server, `${name}__${tool}`, args);
      assert.equal(result.isError ?? false, false, JSON.stringify(result));
      const page = await openPage(browser, server, "#/", { theme });
      const view = await openCallView(page, id);
      await shows(view);
      const scheme = await view.locator("html").evaluate(() => getComputedStyle(document.documentElement).colorScheme);
      if (name === "basic-vanillajs") assert.equal(scheme, theme, "the View has the theme of the console");
      const strange = page.foreign.filter((url) => !foreign?.test(url));
      assert.deepEqual(strange, [], "the View asks hosts that it did not declare");
      const folder = shotsFolder();
      if (folder) {
        mkdirSync(folder, { recursive: true });
        // Charts that move are at rest then.
        await page.waitForTimeout(2_500);
        await page.screenshot({ path: `${folder}/view-${name}-${theme}.png` });
      }
      await page.context().close();
    });
  }
}
