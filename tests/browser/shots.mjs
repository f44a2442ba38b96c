// Takes the screenshots of docs/images/console: node shots.mjs FOLDER

import { mkdirSync } from "node:fs";
import { startChatModel } from "./chat-model.mjs";
import { callTool, openPage, startBrowser, startServer } from "./support.mjs";
import { runBatch, startModel } from "./tests-fixtures.mjs";

const folder = process.argv[2] ?? "../../docs/images/console";
mkdirSync(folder, { recursive: true });
const model = await startModel();
const chatModel = await startChatModel([
  {
    when: /./,
    pieces: [
      "<think>The note names the time and the reason.</think>",
      "**Nineteen hours**, in the cold. The long rest gives the crumb its flavour; a warm kitchen shortens it.",
    ],
  },
]);
const server = await startServer({
  config: chatModel.config,
  env: { ENABLE_TESTING: "true", CUSTOM_BASE_URL: model.url },
});
const browser = await startBrowser();
const { id } = await callTool(server, "lab__large", { kib: 100 });
await callTool(server, "lab__form", { path: "/etc/hosts", mode: "read" });
await callTool(server, "lab__fails");
const findsRows = {
  name: "finds the rows",
  prompt:
    'List the rows of the table, then wait a moment.\ncall rows\ncall slow {"ms":120}\ncall fails\nwait 150\nevidence Call 1 answered with a table of three rows.\nsay There are three rows.',
  judgeConfig: model.config,
  checklist: ["The rows of the table were listed", "The answer names their number"],
  expectedTools: ["rows", "slow", "form"],
  repetitions: 3,
};
const {
  results: [tested],
} = await runBatch(server, "nightly", [findsRows]);
const notes = {
  Baking: "Sourdough rests for nineteen hours in the cold. The long rest gives the crumb its flavour.",
  Kitchen: "In a warm kitchen, sourdough needs less time: fourteen hours are enough.",
};
const cited = [];
for (const [name, content] of Object.entries(notes)) {
  const { result } = await callTool(server, "am7_create_object", { type: "data.data", name, content });
  cited.push(result.structuredContent.uri);
  await callTool(server, "am7_vectorize", { uri: cited.at(-1) });
}
const args = encodeURIComponent(
  JSON.stringify({ path: "/etc/hosts", mode: "read", deep: { on: true, words: ["one", "two"] } }),
);
for (const theme of ["light", "dark"]) {
  const shot = async (name, hash, width, before) => {
    const page = await openPage(browser, server, hash, { width, theme });
    await before?.(page);
    await page.waitForTimeout(150);
    await page.screenshot({ path: `${folder}/${name}-${theme}.png` });
    await page.context().close();
  };
  const run = async (page) => {
    await page.getByRole("button", { name: "Run" }).click();
    await page.waitForSelector(".output .badge.ok");
  };
  await shot("home", "#/", 1280);
  await shot("tool", `#/tools/lab__form?args=${args}`, 1280, run);
  await shot("model", `#/calls/${id}?tab=model`, 1280);
  await shot("tests-trial", `#/tests/${encodeURIComponent(`result/${tested.id}`)}`, 1280);
  await shot("chat", "#/chat?new=1", 1280, async (page) => {
    await page.getByLabel("Cite").fill(cited.join(" "));
    await page.getByLabel("Message").fill("How long does sourdough rest?");
    await page.keyboard.press("Control+Enter");
    await page.getByText("The answer is complete").waitFor();
    await page.locator("details.context > summary").click();
    await page.locator("details.context details > summary").first().click();
  });
  await shot("phone", `#/tools/lab__form?args=${args}`, 390);
}
await browser.close();
await server.stop();
await model.stop();
await chatModel.stop();
