// What strangers write is text in our Views, wherever it stands: in answers of tools, names,
// arguments, and in what the host tells of itself.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { ATTACKS, artifactTools, data, diagramTools, failed, passage, searchTools } from "./own-views-fixtures.mjs";
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

/**
 * The attacks in as few texts as can hold them. HTML does its harm anywhere in a text, so that all
 * of it is one text; what must stand alone or first to do harm (a URL, the name of a member, a name
 * of a file) is a text of its own.
 */
const isHtml = (text) => text.includes("<");
const TEXTS = [ATTACKS.filter(isHtml).join("\n"), ...ATTACKS.filter((text) => !isHtml(text))];

/** How each View is opened with an attack in every text that it gets. */
const OPENED = {
  diagram: (text) => ({
    tools: {
      ...diagramTools(),
      checkPlantUML: () => data({ valid: false, kind: text, description: text, error: { line: 1, message: text } }),
      encodePlantUML: () => failed(text),
    },
    input: { plantumlCode: `A -> B : ${text}`, code: text },
    result: data({ url: text, encoded: text, format: "svg", length: 7, warning: text }),
  }),
  search: (text) => {
    const found = passage(3, {
      text,
      sourceTitle: text,
      sourceFile: `${text}.pdf`,
      chapterTitle: text,
      sourceUri: text,
      uri: text,
    });
    return {
      tools: {
        ...searchTools({ results: [found] }),
        am7_extract_content: () => data({ content: text, sourceUri: text }),
      },
      input: { query: text, scopeUri: text, tags: [text], types: [text] },
      result: data({ results: [found] }),
    };
  },
  artifacts: (text) => {
    const quoted = text.replaceAll('"', '""');
    const tools = artifactTools({
      [text]: ["text/plain", Buffer.from(text), text],
      "t.csv": ["text/csv", Buffer.from(`"${quoted}",b\n"${quoted}",2\n`)],
      "j.json": ["application/json", Buffer.from(JSON.stringify({ [text]: text, list: [text] }))],
    });
    return { tools, input: { filter: text.slice(0, 40) }, result: tools.list_artifacts({}) };
  },
};

/** What is done in each View until every text was shown. */
const USED = {
  diagram: async ({ frame }, text) => {
    await frame.waitForSelector(".problems li");
    await frame.fill("#source", `oops ${text}`);
    await frame.waitForSelector("#status:not([hidden])");
  },
  search: async ({ frame }) => {
    await frame.waitForSelector("#results > li");
    await frame.locator("button", { hasText: "In its source" }).click();
    await frame.waitForSelector(".source .text");
    await frame.check("#passage-0 input");
  },
  artifacts: async ({ frame }) => {
    for (const index of [0, 1, 2]) {
      await frame.locator("#list button").nth(index).click();
      await eventually("the artifact is shown", () =>
        frame.evaluate(() => document.getElementById("body").textContent.length > 0),
      );
      for (const tab of await frame.locator("#tabs button").all()) await tab.click();
    }
  },
};

for (const name of Object.keys(OPENED)) {
  test(`${name}: what strangers write is text`, async () => {
    for (const text of TEXTS) {
      const view = await openView(browser, site, {
        html: views.html(name),
        ...OPENED[name](text),
        context: { locale: text, toolInfo: { tool: { name: text, inputSchema: { type: "object" } } }, userAgent: text },
      });
      const scripts = () => view.frame.evaluate(() => document.querySelectorAll("script").length);
      const before = await scripts();
      await USED[name](view, text);
      await new Promise((resolve) => setTimeout(resolve, 60));
      const what = JSON.stringify(text);
      assert.equal(
        await view.frame.evaluate(
          () =>
            document.querySelectorAll(
              "body script[src], iframe, object, embed, base, link, body style, meta[http-equiv], img:not([src^='data:']):not(#picture)",
            ).length,
        ),
        0,
        what,
      );
      assert.equal(await scripts(), before, `${what} made scripts`);
      assert.equal(
        await view.frame.evaluate(() =>
          [...document.querySelectorAll("*")].some((element) =>
            [...element.attributes].some(({ name }) => name.startsWith("on")),
          ),
        ),
        false,
        what,
      );
      assert.deepEqual(
        view.errors.filter((error) => !/net::ERR_|Failed to load/.test(error)),
        [],
        what,
      );
      assert.deepEqual(view.seen.links, [], what);
      await view.close();
    }
  });
}

test("hidden characters are seen by their names", async () => {
  const view = await openView(browser, site, { html: views.html("search"), ...OPENED.search("a\u202Eb") });
  await view.frame.waitForSelector("#results > li");
  assert.equal(await view.frame.textContent("#results h2 .hidden-character"), "U+202E");
  await view.close();
});
