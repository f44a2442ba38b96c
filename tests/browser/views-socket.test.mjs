// The socket of a View: its ticket, its bounds, how often a View is opened, and what the console shows around it.

import assert from "node:assert/strict";
import { request } from "node:http";
import { fileURLToPath } from "node:url";
import { after, before, test } from "node:test";
import { callTool, findings, openPage, shown, startBrowser, startServer } from "./support.mjs";

const probe = {
  command: process.execPath,
  args: [fileURLToPath(new URL("views-socket-upstream.mjs", import.meta.url))],
};
let server;
let browser;
before(async () => {
  server = await startServer({ servers: { probe } });
  await listed(server);
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const until = async (what, check) => {
  for (let at = 0; at < 100; at += 1) {
    if (await check()) return;
    await new Promise((done) => setTimeout(done, 50));
  }
  assert.fail(`it does not come about: ${what}`);
};

/** Waits until the tool of the upstream is listed. */
async function listed(on) {
  await until("the upstream is ready", async () => (await openView(on)).status === 200);
}

/** Opens a View as the page does, without a browser. */
async function openView(on = server) {
  const contents = {
    contents: [{ uri: "ui://probe/app.html", mimeType: "text/html;profile=mcp-app", text: "<!doctype html><p>" }],
  };
  const response = await fetch(`${on.url}/api/console/views`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ tool: "probe__slow", contents }),
  });
  return { status: response.status, ...(await response.json()) };
}

/** Asks for a socket. Resolves to { status, socket }: 101 has a socket. */
function handshake(ticket, headers = {}, on = server) {
  const url = new URL("/api/console/views/socket", on.url);
  return new Promise((done, failed) => {
    const asked = request(url, {
      headers: {
        Connection: "Upgrade",
        Upgrade: "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol": `marquetry-view, ${ticket}`,
        ...headers,
      },
    });
    asked.on("upgrade", (response, socket) => done({ status: response.statusCode, socket }));
    asked.on("response", (response) => {
      response.resume();
      done({ status: response.statusCode });
    });
    asked.on("error", failed);
    asked.end();
  });
}

async function statusOf(ticket, headers) {
  const { status, socket } = await handshake(ticket, headers);
  socket?.destroy();
  return status;
}

/**
 * A socket of the View, with frames as RFC 6455 has them: Node.js 20 has no WebSocket. `frames` are
 * the texts that came.
 */
async function socketOf(ticket, on = server) {
  const { socket } = await handshake(ticket, {}, on);
  const frames = [];
  let rest = Buffer.alloc(0);
  const closed = new Promise((done) => {
    socket.on("error", () => done(1006));
    socket.on("close", () => done(1006));
    socket.on("data", (chunk) => {
      rest = Buffer.concat([rest, chunk]);
      for (;;) {
        if (rest.length < 2) return;
        const short = rest[1] & 127;
        const head = short === 126 ? 4 : short === 127 ? 10 : 2;
        if (rest.length < head) return;
        const length = short === 126 ? rest.readUInt16BE(2) : short === 127 ? Number(rest.readBigUInt64BE(2)) : short;
        if (rest.length < head + length) return;
        const body = rest.subarray(head, head + length);
        if ((rest[0] & 15) === 1) frames.push(JSON.parse(body.toString()));
        if ((rest[0] & 15) === 8) done(body.readUInt16BE(0));
        rest = rest.subarray(head + length);
      }
    });
  });
  const send = (data) => {
    const body = Buffer.from(data);
    const head = Buffer.alloc(14);
    head[0] = 0x80 | (typeof data === "string" ? 1 : 2);
    head[1] = 0x80 | 127;
    head.writeBigUInt64BE(BigInt(body.length), 2);
    // A mask of zeros leaves the bytes as they are.
    socket.write(Buffer.concat([head, body]));
  };
  return { send, close: () => socket.destroy(), frames, closed };
}

test("a ticket opens one socket, for the page of this server alone", { timeout: 20_000 }, async () => {
  const { ticket } = await openView();
  assert.equal(await statusOf(ticket, { Origin: "http://evil.example" }), 403, "another origin");
  assert.equal(await statusOf(ticket, { Origin: "http://127.0.0.1:1" }), 403, "another port");
  assert.equal(await statusOf(ticket, { Host: "evil.example" }), 403, "a name that was bound to this machine");
  assert.equal(await statusOf("guessed"), 403);
  assert.equal(await statusOf(ticket, { Origin: server.url }), 101, "none of the refused ones used it up");
  assert.equal(await statusOf(ticket, { Origin: server.url }), 403, "it works once");
});

test("a View ends with its socket, and makes room for another", { timeout: 20_000 }, async () => {
  const own = await startServer({ servers: { probe }, config: "[console]\nmax_views = 1\n" });
  let view;
  await until("the upstream is ready", async () => {
    view = await openView(own);
    return view.status === 200;
  });
  assert.equal((await openView(own)).status, 503);
  const { close } = await socketOf(view.ticket, own);
  assert.equal((await openView(own)).status, 503);
  close();
  await until("there is room again", async () => (await openView(own)).status === 200);
  await own.stop();
});

test("frames that are too large, binary or unreadable end the socket", { timeout: 20_000 }, async () => {
  const own = await startServer({ servers: { probe }, config: "[console]\nmax_view_message_bytes = 2000\n" });
  await listed(own);
  const sent = async (frame) => {
    const view = await openView(own);
    assert.deepEqual([view.maxMessageBytes, view.maxSocketBytes], [2000, 2000 + (1 << 20)]);
    const { send, closed } = await socketOf(view.ticket, own);
    send(frame);
    return closed;
  };
  assert.equal(await sent('{"nonsense":1}'), 1007);
  assert.equal(await sent(new Uint8Array(8)), 1003);
  assert.ok([1006, 1009].includes(await sent(JSON.stringify({ message: "x".repeat(3 << 20) }))));
  // A message that is too large for a View is refused, and its socket goes on.
  const { ticket } = await openView(own);
  const { send, frames } = await socketOf(ticket, own);
  send(JSON.stringify({ message: { jsonrpc: "2.0", id: 1, method: "ping", params: { x: "x".repeat(3000) } } }));
  send(JSON.stringify({ teardown: { reason: "over" } }));
  await until("the View is closed", () => frames.some((it) => it.remove));
  const { records } = await (await fetch(`${own.url}/api/console/views/audit`)).json();
  assert.ok(
    records.some((it) => it.verdict.is === "refused" && /takes at most 2000/.test(it.verdict.why)),
    JSON.stringify(records),
  );
  await own.stop();
});

test("a View is opened once, however its call comes into sight", { timeout: 60_000 }, async () => {
  const { id } = await callTool(server, "probe__slow", { ms: 0 });
  const count = async (name, work) => {
    const page = await openPage(browser, server);
    let opened = 0;
    page.on("request", (it) => {
      if (it.method() === "POST" && it.url().endsWith("/api/console/views")) opened += 1;
    });
    await work(page);
    const log = page.frameLocator("main iframe").frameLocator("iframe").locator("#log", { hasText: '"result"' });
    await log.waitFor({ timeout: 15_000 });
    await page.waitForTimeout(500);
    assert.equal(opened, 1, name);
    assert.equal(await page.locator("iframe").count(), 1, name);
    const seen = JSON.parse(await log.textContent());
    assert.deepEqual(
      seen.filter((it) => it === "input" || it === "result"),
      ["input", "result"],
      name,
    );
    await page.context().close();
  };
  await count("by its link", (page) => page.goto(`${server.url}/#/calls/${id}?tab=view`));
  await count("by its tab", async (page) => {
    await page.goto(`${server.url}/#/calls/${id}`);
    await shown(page, `#/calls/${id}`);
    await page.getByRole("tab", { name: "View" }).click();
  });
  await count("after a call from the page", async (page) => {
    await page.goto(`${server.url}/#/tools/probe__slow`);
    await shown(page, "#/tools/probe__slow");
    await page.getByRole("button", { name: "Run" }).click();
    await page.getByRole("tab", { name: "View" }).click();
  });
  await count("while the call runs", async (page) => {
    await page.waitForSelector(".age[data-state=live]");
    const over = callTool(server, "probe__slow", { ms: 2500 });
    let running;
    await until("the call runs", async () => {
      const { calls } = await (await fetch(`${server.url}/api/console/calls`)).json();
      running = calls.find((it) => it.outcome === "running");
      return running;
    });
    await page.evaluate((hash) => {
      location.hash = hash;
    }, `#/calls/${running.id}?tab=view`);
    await page.frameLocator("main iframe").frameLocator("iframe").locator("#log", { hasText: '"input"' }).waitFor();
    await over;
  });
});

test("consent has the whole address, and the full screen has a way out", { timeout: 60_000 }, async () => {
  const { id } = await callTool(server, "probe__slow", { ms: 0 });
  const page = await openPage(browser, server, "#/", { theme: "dark" });
  await page.evaluate((hash) => {
    location.hash = hash;
  }, `#/calls/${id}?tab=view`);
  const view = page.frameLocator("main iframe").frameLocator("iframe");
  await view.locator("#log", { hasText: '"result"' }).waitFor();
  await view.locator("#link").click();
  const dialog = page.locator("dialog[open]");
  await dialog.waitFor();
  assert.match(
    await dialog.innerText(),
    /wants to open a link[\s\S]*https:\/\/example\.com\/a\/long\/path\?with=query#and-part/,
  );
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "No", "Enter does not agree by chance");
  assert.deepEqual(await findings(page), []);
  await page.keyboard.press("Escape");
  await view.locator("#log", { hasText: "link denied" }).waitFor();
  assert.equal(await page.locator("dialog").count(), 0);

  for (const wayOut of ["button", "Escape"]) {
    await view.locator("#full").click();
    await page.waitForSelector(".view[data-mode=fullscreen]");
    const box = await page.evaluate(() => {
      const it = document.querySelector(".view");
      const { width, height } = it.getBoundingClientRect();
      return {
        width,
        height,
        inner: [innerWidth, innerHeight],
        color: getComputedStyle(it).backgroundColor,
        focus: document.activeElement.textContent,
        nav: document.querySelector("header").inert,
      };
    });
    assert.deepEqual([box.width, box.height], box.inner);
    assert.equal(box.color, "rgb(15, 18, 22)", "it covers the page");
    assert.deepEqual([box.focus, box.nav], ["Close", true]);
    if (wayOut === "button") await page.getByRole("button", { name: "Leave the full screen" }).click();
    else await page.keyboard.press("Escape");
    await page.waitForSelector(".view[data-mode=inline]");
    assert.equal(await page.evaluate(() => document.querySelectorAll("[inert]").length), 0);
    await view.locator("#log", { hasText: "mode inline" }).waitFor();
  }
  // The frame of a View that supports dark is transparent: no layer of the sandbox paints white.
  assert.equal(await view.locator("html").evaluate(() => matchMedia("(prefers-color-scheme: dark)").matches), true);
  const shot = await page.locator("iframe").screenshot();
  const pixel = await page.evaluate(async (data) => {
    const picture = new Image();
    picture.src = `data:image/png;base64,${data}`;
    await picture.decode();
    const canvas = new OffscreenCanvas(picture.width, picture.height).getContext("2d");
    canvas.drawImage(picture, 0, 0);
    return [...canvas.getImageData(picture.width - 4, picture.height - 4, 1, 1).data];
  }, shot.toString("base64"));
  assert.deepEqual(pixel, [15, 18, 22, 255]);

  await page.getByText("Messages between the View and the program").click();
  const log = page.locator(".audit");
  await log.locator("li", { hasText: "ui/open-link" }).first().waitFor();
  assert.match(
    await log.innerText(),
    /from view request ui\/initialize[\s\S]*to view notification ui\/notifications\/tool-input[\s\S]*from view request ui\/open-link/,
  );
  assert.deepEqual(
    page.problems.filter((it) => !/^foreign request: .*\/view\//.test(it)),
    [],
  );
  await page.context().close();
});
