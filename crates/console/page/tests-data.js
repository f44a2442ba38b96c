// Data of tests: the API below api/test/, and the stream of their progress.

import { ask, events, HIDDEN_FOR, refusal } from "./api.js";

/** Gets data of tests. `values` are the parameters of the query. */
export async function get(path, values = {}, options) {
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== undefined && value !== ""));
  const response = await ask(`api/test/${path}${query.size ? `?${query}` : ""}`, options);
  if (!response.ok) throw await refusal(response);
  return response.json();
}

export const post = (path, body) =>
  get(path, {}, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

/** Whether this server has the API of tests at all. */
export async function isEnabled() {
  try {
    return (await get("health")).testing === true;
  } catch (error) {
    if (error.status === 404) return false;
    throw error;
  }
}

/**
 * Reads the events of tests while the page is shown, and reconnects after a loss. `refresh` is
 * called whenever events may have been missed: after each start of the stream too. `on` is given
 * the name and the data of each event.
 */
export function watch(context, run, refresh, on) {
  let isOver = false;
  let controller;
  let hiding;
  const visibility = () => {
    clearTimeout(hiding);
    if (document.hidden) hiding = setTimeout(() => controller?.abort(), HIDDEN_FOR);
  };
  document.addEventListener("visibilitychange", visibility);
  context.onLeave(() => {
    isOver = true;
    clearTimeout(hiding);
    document.removeEventListener("visibilitychange", visibility);
    controller?.abort();
  });
  let pause = 250;
  const read = async () => {
    controller = new AbortController();
    const query = run === undefined ? "" : `?run=${encodeURIComponent(run)}`;
    const response = await ask(`api/test/events${query}`, { signal: controller.signal });
    if (!response.ok) throw await refusal(response);
    for await (const event of events(response.body)) {
      if (isOver) return;
      pause = 250;
      if (event.name === "open" || event.name === "missed") await refresh();
      else if (event.data) on(event.name, JSON.parse(event.data));
    }
  };
  (async () => {
    while (!isOver) {
      try {
        await read();
      } catch (error) {
        // Later attempts would get the same answer.
        if (error.status === 401 || error.status === 403 || error.status === 404) return;
      }
      await new Promise((done) => setTimeout(done, pause));
      if (document.hidden)
        await new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));
      pause = Math.min(5000, pause * 2);
    }
  })();
}
