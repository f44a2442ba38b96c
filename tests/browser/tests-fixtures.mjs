// A model that does what prompts say, and cases for it: for the pages of tests.

import { createServer } from "node:http";

/**
 * Starts a model with OpenAI's chat completions. A prompt has lines of orders: `call TOOL JSON` (a
 * turn each), `wait MS` before the first answer, `judge no` (the judge's answer to every item),
 * `evidence TEXT`, `say TEXT` (the last answer).
 */
export async function startModel() {
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const { messages, tools = [], model, stream } = JSON.parse(body);
    const texts = messages.map((it) =>
      typeof it.content === "string" ? it.content : (it.content ?? []).map((part) => part.text ?? "").join(""),
    );
    const isJudge = texts.some((text) => text.startsWith("You check how an agent"));
    const user = texts[messages.findIndex((it) => it.role === "user")] ?? "";
    const prompt = isJudge ? JSON.parse(user).task : user;
    const orders = (name) =>
      prompt
        .split("\n")
        .filter((line) => line.startsWith(`${name} `))
        .map((line) => line.slice(name.length + 1));
    let message;
    if (isJudge) {
      const items = JSON.parse(user).items.map((it) => ({
        id: it.id,
        evidence: orders("evidence")[0] ?? "The result of call 1 says so.",
        answer: orders("judge")[0] === "no" ? "no" : "yes",
      }));
      message = {
        role: "assistant",
        content: JSON.stringify({
          items,
          reasoning: orders("evidence")[0] ?? "The calls fit the task.",
          suggestions: orders("evidence")[0] ?? "",
        }),
      };
    } else {
      const turns = messages.filter((it) => it.role === "assistant").length;
      // A long wait whose test has ended does not hold the process.
      if (turns === 0) await new Promise((done) => setTimeout(done, Number(orders("wait")[0] ?? 0)).unref());
      const call = orders("call")[turns];
      if (call) {
        const [, name, args] = /^(\S+) ?(.*)$/.exec(call);
        const known = tools.map((it) => it.function.name).find((it) => it === name || it.endsWith(`_${name}`)) ?? name;
        message = {
          role: "assistant",
          content: `I call ${name}.`,
          tool_calls: [{ id: `call_${turns}`, type: "function", function: { name: known, arguments: args || "{}" } }],
        };
      } else message = { role: "assistant", content: orders("say")[0] ?? "Done." };
    }
    const end = message.tool_calls ? "tool_calls" : "stop";
    const usage = { prompt_tokens: 120, completion_tokens: 12, total_tokens: 132 };
    if (stream) {
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      const delta = { ...message, tool_calls: message.tool_calls?.map((it, index) => ({ index, ...it })) };
      response.write(
        `data: ${JSON.stringify({ id: "1", object: "chat.completion.chunk", model, choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`,
      );
      response.write(
        `data: ${JSON.stringify({ id: "1", object: "chat.completion.chunk", model, choices: [{ index: 0, delta: {}, finish_reason: end }], usage })}\n\n`,
      );
      response.end("data: [DONE]\n\n");
    } else {
      response.writeHead(200, { "Content-Type": "application/json" });
      response.end(
        JSON.stringify({
          id: "1",
          object: "chat.completion",
          model,
          choices: [{ index: 0, message, finish_reason: end }],
          usage,
        }),
      );
    }
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${server.address().port}/v1`;
  return {
    url,
    config: { provider: "custom", model: "scripted", baseUrl: url },
    stop: () =>
      new Promise((done) => {
        server.closeAllConnections();
        server.close(done);
      }),
  };
}

async function send(server, path, body, token) {
  const headers = { "Content-Type": "application/json", ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  const response = await fetch(`${server.url}/api/test/${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: AbortSignal.timeout(120_000),
  });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return response;
}

export const ask = async (server, path, body, token) => (await send(server, path, body, token)).json();

/** Runs a batch to its end. Returns { run, results } with the results in the order of the cases. */
export async function runBatch(server, name, cases, { token } = {}) {
  const text = await (await send(server, "batch", { name, cases }, token)).text();
  const events = text
    .split("\n\n")
    .map((block) => ({ name: /^event: ?(.*)$/m.exec(block)?.[1], data: /^data: ?(.*)$/m.exec(block)?.[1] }))
    .filter((it) => it.data);
  const last = events.at(-1);
  if (last.name !== "completed") throw new Error(`the batch ended with ${last.name}: ${last.data}`);
  const results = [];
  for (const event of events.filter((it) => it.name === "result").map((it) => JSON.parse(it.data)))
    results[event.index] = event.result;
  return { run: JSON.parse(last.data), results };
}
