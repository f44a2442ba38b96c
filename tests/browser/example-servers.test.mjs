// The example servers that the authors of MCP Apps publish on npm (2.0.3; `pdf` 2.0.4), behind the
// gateway. README.md has a table of what each View shows in the console, and what not.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
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
let files;
let document;
/** A document with a page for each text. */
function pdfOf(texts) {
  const contents = texts.map((text) => `BT /F1 24 Tf 40 100 Td (${text}) Tj ET`);
  const kids = texts.map((_, index) => `${4 + 2 * index} 0 R`).join(" ");
  const page = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]/Resources<</Font<</F1 3 0 R>>>>/Contents";
  const objects = [
    "<</Type/Catalog/Pages 2 0 R>>",
    `<</Type/Pages/Kids[${kids}]/Count ${texts.length}>>`,
    "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ...contents.flatMap((drawn, index) => [
      `${page} ${5 + 2 * index} 0 R>>`,
      `<</Length ${drawn.length}>>stream\n${drawn}\nendstream`,
    ]),
  ];
  let file = "%PDF-1.4\n";
  const places = objects.map((object, index) => {
    const at = file.length;
    file += `${index + 1} 0 obj\n${object}\nendobj\n`;
    return `${String(at).padStart(10, "0")} 00000 n \n`;
  });
  const size = objects.length + 1;
  const table = `xref\n0 ${size}\n0000000000 65535 f \n${places.join("")}`;
  return `${file}${table}trailer<</Size ${size}/Root 1 0 R>>\nstartxref\n${file.length}\n%%EOF\n`;
}

/** Waits until a canvas has dark pixels; runs in the View. */
async function isDrawn(canvas) {
  for (;;) {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width || 1, canvas.height || 1);
    if (data.some((value, index) => index % 4 === 0 && data[index + 3] > 0 && value < 64)) return;
    await new Promise((done) => setTimeout(done, 50));
  }
}

/** The Views that show the time of their server, each made with another library. */
const CLOCK = {
  tool: "get-time",
  themes: ["light"],
  shows: (view) => view.locator("body", { hasText: /Server Time:\s*\d{4}-\d\d-\d\dT/ }).waitFor(),
};

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
  "basic-preact": CLOCK,
  "basic-react": CLOCK,
  "basic-solid": CLOCK,
  "basic-svelte": CLOCK,
  "basic-vue": CLOCK,
  "cohort-heatmap": {
    tool: "get-cohort-data",
    themes: ["light"],
    shows: (view) => view.locator("body", { hasText: "M11" }).waitFor(),
  },
  "customer-segmentation": {
    tool: "get-customer-data",
    shows: async (view, page) => {
      await view.locator("body", { hasText: /Enterprise\s*\(\d+\)/ }).waitFor();
      assert.ok((await view.locator("canvas").first().boundingBox()).height > 100, "the chart has a height");
      // Its document follows the height of its frame.
      await page.waitForTimeout(2_000);
      const height = await page.locator("main iframe").evaluate((it) => it.clientHeight);
      assert.ok(height < 900, `the View has grown to ${height} px`);
    },
  },
  pdf: {
    tool: "display_pdf",
    themes: ["light"],
    args: () => ({ url: `file://${document}` }),
    // Fonts that a document does not have are fetched from a host that the View declares.
    foreign: /^https:\/\/unpkg\.com\//,
    shows: async (view) => {
      await view.locator("#text-layer", { hasText: "Blue zebra" }).waitFor();
      // The text above the picture is invisible: the page itself is drawn too.
      await view.locator("#pdf-canvas").evaluate(isDrawn);
      await view.locator("#next-btn").click();
      await view.locator("#text-layer", { hasText: "Green lynx" }).waitFor();
      await view.locator("#search-btn").click();
      await view.locator("#search-input").fill("zebra");
      await view.locator("#search-match-count", { hasText: "1 of 1" }).waitFor();
      await view.locator("#search-input").press("Enter");
      await view.locator("#text-layer", { hasText: "Blue zebra" }).waitFor();
    },
  },
  "scenario-modeler": {
    tool: "get-scenario-data",
    themes: ["light"],
    shows: (view) => view.locator("body", { hasText: "12-MONTH PROJECTION" }).waitFor(),
  },
  shadertoy: {
    tool: "render-shadertoy",
    themes: ["light"],
    args: { fragmentShader: "void mainImage(out vec4 colour, in vec2 at) { colour = vec4(1.0, 0.0, 0.0, 1.0); }" },
    shows: (view) => view.locator("canvas").waitFor(),
  },
  "sheet-music": {
    tool: "play-sheet-music",
    themes: ["light"],
    args: { abcNotation: "X:1\nT:Scale\nM:4/4\nL:1/4\nK:C\nCDEF|GABc|\n" },
    // Sounds come from a host that tests do not reach. The notes are drawn without them.
    foreign: /^https:\/\/paulrosen\.github\.io\//,
    shows: (view) => view.locator("svg", { hasText: "Scale" }).first().waitFor(),
  },
  threejs: {
    tool: "show_threejs_scene",
    themes: ["light"],
    // It evaluates text as a script, which the policy of the specification does not allow.
    shows: async (view, page) => {
      await view.locator("body", { hasText: "unsafe-eval" }).waitFor();
      await page.locator("main li", { hasText: "The policy blocks eval (script-src)" }).first().waitFor();
    },
  },
  transcript: {
    tool: "transcribe",
    themes: ["light"],
    // The console grants no microphone, and says so below the View.
    shows: async (view, page) => {
      await view.getByText("Start", { exact: true }).waitFor();
      await page.locator("main p", { hasText: "asks for microphone" }).waitFor();
    },
  },
  "wiki-explorer": {
    tool: "get-first-degree-links",
    themes: ["light"],
    // The server has no network in tests, and answers so. The View shows its empty graph.
    shows: (view) => view.locator("canvas, svg").first().waitFor(),
  },
};

before(async () => {
  files = mkdtempSync(join(tmpdir(), "marquetry-pdf-"));
  document = join(files, "zebra.pdf");
  writeFileSync(document, pdfOf(["Blue zebra", "Green lynx"]));
  const servers = Object.fromEntries(Object.keys(EXAMPLES).map((name) => [name, exampleServer(name)]));
  servers.pdf.args.push(document);
  [server, browser] = await Promise.all([startServer({ servers }), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
  if (files) rmSync(files, { recursive: true, force: true });
});

for (const [name, { tool, args = {}, themes = THEMES, foreign, shows }] of Object.entries(EXAMPLES)) {
  for (const theme of themes) {
    test(`server-${name} shows its View, ${theme}`, { timeout: 60_000 }, async () => {
      const { id, result } = await callTool(server, `${name}__${tool}`, typeof args === "function" ? args() : args);
      assert.equal(result.isError ?? false, false, JSON.stringify(result));
      const page = await openPage(browser, server, "#/", { theme });
      const view = await openCallView(page, id);
      await shows(view, page);
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
