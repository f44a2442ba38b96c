// A scripted chat model on loopback, with OpenAI's chat completions: for the page of chats.

import { createServer } from "node:http";

/**
 * Starts a model. `answers` is a list of { when, pieces, hold }: the first whose `when` matches the
 * newest message answers with its pieces, one event each, and waits for `hold(number)` before the
 * piece of that number. `requests` has the bodies of all requests.
 */
export async function startChatModel(answers) {
  const requests = [];
  const cut = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const asked = JSON.parse(body);
    requests.push(asked);
    const {
      pieces = ["Yes."],
      hold,
      status,
    } = answers.find(({ when }) => when.test(asked.messages.at(-1).content)) ?? {};
    if (status) {
      response.writeHead(status, { "Content-Type": "application/json" });
      response.end('{"error":{"message":"no such model"}}');
      return;
    }
    const chunk = (delta, end = null) =>
      `data: ${JSON.stringify({ id: "1", object: "chat.completion.chunk", model: "scripted", choices: [{ index: 0, delta, finish_reason: end }] })}\n\n`;
    response.once("close", () => {
      if (!response.writableEnded) cut.push(asked);
    });
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    for (const [number, content] of pieces.entries()) {
      await hold?.(number);
      response.write(chunk({ role: "assistant", content }));
    }
    response.write(chunk({}, "stop"));
    response.end("data: [DONE]\n\n");
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${server.address().port}/v1`;
  return {
    requests,
    /** Requests whose answer the server did not wait for. */
    cut,
    /** Settings of a server that uses this model. */
    config: `[knowledge.chat]\nprovider = "custom"\nmodel = "scripted"\nbase_url = "${url}"\nretries = 0\n`,
    stop: () =>
      new Promise((done) => {
        server.closeAllConnections();
        server.close(done);
      }),
  };
}
