// Takes the screenshots of docs/images/console: node shots.mjs FOLDER

import { mkdirSync } from 'node:fs';
import { callTool, openPage, startBrowser, startServer } from './support.mjs';

const folder = process.argv[2] ?? '../../docs/images/console';
mkdirSync(folder, { recursive: true });
const server = await startServer();
const browser = await startBrowser();
const { id } = await callTool(server, 'lab__large', { kib: 100 });
await callTool(server, 'lab__form', { path: '/etc/hosts', mode: 'read' });
await callTool(server, 'lab__fails');
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
  await shot('phone', `#/tools/lab__form?args=${args}`, 390);
}
await browser.close();
await server.stop();
