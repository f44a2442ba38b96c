// A hostile View in the console: it reaches nothing that it did not declare, and nothing of the page.

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { fileURLToPath } from 'node:url';
import { after, before, test } from 'node:test';
import { callTool, openPage, startBrowser, startServer } from './support.mjs';

let server;
let browser;
let target;
const reached = [];
before(async () => {
  target = createServer((request, response) => {
    reached.push(request.url);
    response.end('x');
  });
  target.on('upgrade', (request, socket) => {
    reached.push('socket');
    socket.destroy();
  });
  await new Promise((done) => target.listen(0, '127.0.0.1', done));
  const env = { ATTACK_URL: `http://127.0.0.1:${target.address().port}` };
  const args = [fileURLToPath(new URL('views-upstream.mjs', import.meta.url))];
  const probe = { command: process.execPath, args, env: { ...env, ATTACK_LEAVE: 'link' } };
  const sends = { command: process.execPath, args, env: { ...env, ATTACK_LEAVE: 'form' } };
  server = await startServer({ servers: { probe, sends } });
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  await server?.stop();
  target?.close();
});

/** Opens the hostile View of an upstream, and returns the page and what the View wrote down. */
async function attacked(name) {
  const { id } = await callTool(server, `${name}__attack`, {});
  const page = await openPage(browser, server, '#/');
  await page.evaluate((hash) => { location.hash = hash; }, `#/calls/${id}?tab=view`);
  const log = page.frameLocator('iframe').frameLocator('iframe').locator('#log', { hasText: '"early"' });
  await log.waitFor({ timeout: 40_000 });
  return { page, seen: JSON.parse(await log.textContent()) };
}

test('a hostile View reaches nothing', { timeout: 90_000 }, async () => {
  const { page, seen } = await attacked('probe');
  const popups = [];
  page.on('popup', (popup) => popups.push(popup.url()));
  for (const name of ['fetch', 'socket', 'image', 'script', 'frame', 'eval', 'storage', 'cookie', 'proxy', 'console', 'reload', 'popup', 'top']) {
    assert.match(String(seen[name]), /^blocked/, `${name}: ${seen[name]}`);
  }
  assert.equal(seen.early, -32600, 'a request before initialized is refused');
  assert.equal(seen.end, 'reached');
  // Then the View navigates itself, which its proxy's policy keeps from loading.
  await page.waitForFunction(() => document.querySelector('iframe') !== null);
  await new Promise((done) => setTimeout(done, 6_500));
  assert.deepEqual([reached, popups], [[], []]);
  assert.match(page.url(), new RegExp(`^${server.url}/#/calls/`));
  const conversation = await (await fetch(`${server.url}/api/console/conversation`)).json();
  assert.deepEqual(conversation.messages, []);
  await page.close();
});

test('a hostile View sends no form', { timeout: 90_000 }, async () => {
  const { page } = await attacked('sends');
  await new Promise((done) => setTimeout(done, 6_500));
  assert.deepEqual(reached, []);
  await page.close();
});

test('a frame is served once, with its policy in the header', { timeout: 60_000 }, async () => {
  const opened = await fetch(`${server.url}/api/console/views`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ tool: 'probe__probe', contents: { contents: [{ uri: 'ui://probe/app.html', mimeType: 'text/html;profile=mcp-app', text: '<p>' }] } }),
  });
  assert.equal(opened.status, 200);
  const { frame, policy } = await opened.json();
  assert.notEqual(new URL(frame).origin, server.url);
  const first = await fetch(frame);
  assert.equal(first.status, 200);
  assert.equal(first.headers.get('content-security-policy'), policy);
  assert.match(policy, /frame-ancestors 'none'$/, 'no page may have it in a frame, since none asked');
  assert.equal((await fetch(frame)).status, 404);
  assert.equal((await fetch(new URL('/view/guessed', frame))).status, 404);
  const other = await fetch(`${server.url}/api/console/views`, { method: 'POST', headers: { 'Content-Type': 'application/json', Origin: 'http://evil.example' }, body: '{}' });
  assert.equal(other.status, 403);
});
