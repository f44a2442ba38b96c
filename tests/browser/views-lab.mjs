// Opens Views in the page of the console, and gives the tests their frames.

import { fileURLToPath } from "node:url";
import { callTool } from "./support.mjs";

/**
 * An upstream whose Views the tests act for; `target` is an address that its Views try to reach,
 * `name` tells it from another.
 */
export function labUpstream(target, name = "lab") {
  return {
    command: process.execPath,
    args: [fileURLToPath(new URL("views-lab-upstream.mjs", import.meta.url))],
    env: { LAB_NAME: name, ...(target && { LAB_TARGET: target }) },
  };
}

/**
 * Calls a tool and opens its View in `page` by the page's own module. Returns the frame of the
 * View's document, and what the page was told.
 * `told(kind)` are the values of that kind so far; `handle` evaluates a function with the object
 * that the module returned.
 */
export async function openLabView(page, server, tool, { args = {}, token } = {}) {
  const { id } = await callTool(server, tool, args, token);
  const index = await page.evaluate(
    async ({ id, tool }) => {
      const base = document.querySelector("script[src]").src.replace("app.js", "");
      const [{ openView }, { data, list }] = await Promise.all([
        import(`${base}view-host.js`),
        import(`${base}api.js`),
      ]);
      globalThis.opened ??= [];
      const place = document.createElement("div");
      document.querySelector("main").append(place);
      const told = [];
      const index = globalThis.opened.push({ told, place }) - 1;
      const record = await data(`calls/${id}`);
      const uri = (await list("tools/list", "tools")).find((it) => it.name === tool)._meta.ui.resourceUri;
      globalThis.opened[index].handle = await openView(place, {
        record,
        uri,
        told: (kind, value) => told.push([kind, value]),
      });
      globalThis.opened[index].box = place.querySelector(".view");
      return index;
    },
    { id, tool },
  );
  const outer = await page.waitForFunction((at) => globalThis.opened[at].place.querySelector("iframe"), index);
  const proxy = await outer.contentFrame();
  const inner = await proxy.waitForSelector("iframe");
  const frame = await inner.contentFrame();
  // A frame outside of the window draws nothing, so that what waits for its next picture would wait for ever.
  await frame.waitForFunction(() => document.getElementById("log")?.textContent, undefined, { polling: 50 });
  return {
    id,
    frame,
    proxy,
    index,
    told: (kind) =>
      page.evaluate(
        ([at, kind]) => globalThis.opened[at].told.filter(([it]) => it === kind).map(([, value]) => value),
        [index, kind],
      ),
    handle: (work, given) =>
      page.evaluate(`(${work})(globalThis.opened[${index}].handle, ${JSON.stringify(given ?? null)})`),
    isGone: (timeout = 15_000) =>
      page.waitForFunction((at) => !globalThis.opened[at].box.isConnected, index, { timeout }),
    isThere: () => page.evaluate((at) => globalThis.opened[at].box.isConnected, index),
    /** The records of the View's messages, oldest first. */
    audit: async () =>
      (
        await (
          await fetch(
            `${server.url}/api/console/views/audit?call=${id}`,
            token ? { headers: { Authorization: `Bearer ${token}` } } : {},
          )
        ).json()
      ).records,
  };
}

/** Opens a View that sends nothing by itself, and does the handshake for it. */
export async function openRawView(page, server, tool = "lab__raw", options = {}) {
  const view = await openLabView(page, server, tool, options);
  const { result } = await view.frame.evaluate(() => start());
  await view.frame.waitForFunction(
    () => got.some(({ data }) => data?.method === "ui/notifications/tool-result"),
    undefined,
    { polling: 50 },
  );
  return { ...view, answer: result };
}
