// Takes the screenshots of docs/images/console: node shots.mjs FOLDER

import { mkdirSync } from 'node:fs';
import { callTool, openPage, startBrowser, startServer } from './support.mjs';
import { runBatch, startModel } from './tests-fixtures.mjs';

const folder = process.argv[2] ?? '../../docs/images/console';
mkdirSync(folder, { recursive: true });
const model = await startModel();
const server = await startServer({ env: { ENABLE_TESTING: 'true', CUSTOM_BASE_URL: model.url } });
const browser = await startBrowser();
const { id } = await callTool(server, 'lab__large', { kib: 100 });
await callTool(server, 'lab__form', { path: '/etc/hosts', mode: 'read' });
await callTool(server, 'lab__fails');
const findsRows = { name: 'finds the rows', prompt: 'List the rows of the table, then wait a moment.\ncall rows\ncall slow {"ms":120}\ncall fails\nwait 150\nevidence Call 1 answered with a table of three rows.\nsay There are three rows.', judgeConfig: model.config, checklist: ['The rows of the table were listed', 'The answer names their number'], expectedTools: ['rows', 'slow', 'form'], repetitions: 3 };
const { results: [tested] } = await runBatch(server, 'nightly', [findsRows]);
const args = encodeURIComponent(JSON.stringify({ path: '/etc/hosts', mode: 'read', deep: { on: true, words: ['one', 'two'] } }));
for (const theme of ['light', 'dark']) {
  const shot = async (name, hash, width, before) => {
    const page = await openPage(browser, server, hash, { width, theme });
    await before?.(page);
    await page.waitForTimeout(150);
    await page.screenshot({ path: `${folder}/${name}-${theme}.png` });
    await page.context().close();
  };
  const run = async (page) => {
    await page.getByRole('button', { name: 'Run' }).click();
    await page.waitForSelector('.output .badge.ok');
  };
  await shot('home', '#/', 1280);
  await shot('tool', `#/tools/lab__form?args=${args}`, 1280, run);
  await shot('model', `#/calls/${id}?tab=model`, 1280);
  await shot('tests-trial', `#/tests/${encodeURIComponent(`result/${tested.id}`)}`, 1280);
  await shot('phone', `#/tools/lab__form?args=${args}`, 390);
}
await browser.close();
await server.stop();
await model.stop();
