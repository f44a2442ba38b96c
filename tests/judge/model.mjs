// A scripted model on the wires of OpenAI, Anthropic and Ollama: @copilotkit/aimock answers as agent and as judge.
import assert from "node:assert/strict";
import { LLMock } from "@copilotkit/aimock";

const isJudge = (request) =>
  request.messages.some(
    ({ role, content }) => role === "system" && textOf(content).startsWith("You check how an agent"),
  );

const textOf = (content) =>
  typeof content === "string" ? content : (content ?? []).map(({ text }) => text ?? "").join("");

const task = (request) => textOf(request.messages.findLast(({ role }) => role === "user").content);

/** A judge that answers every item of its checklist alike. */
export const votes = (answer) => (request) => {
  const { items } = JSON.parse(task(request));
  return {
    content: JSON.stringify({
      items: items.map(({ id }) => ({ id, evidence: "call 1", answer })),
      reasoning: `The judge says ${answer}.`,
      suggestions: "",
    }),
  };
};

/**
 * Starts a model. `scripts` are agents by their task: `when` matches the prompt, `turns` are lists
 * of calls, one list for each turn, and `answer` is the text after the last turn. `judge` makes the
 * answer of the judge. Each answer comes `delay` milliseconds after its question, at most 30,000:
 * LLMock ignores longer ones, and its option `latency` delays streams alone. `asked()` counts the
 * questions, answered or not.
 */
export async function startModel(t, { scripts = [], judge = votes("yes"), delay = 0, options = {} } = {}) {
  assert.ok(delay <= 30_000, `${delay} ms`);
  const mock = new LLMock({
    port: 0,
    host: "127.0.0.1",
    logLevel: "silent",
    ...(delay && { chaos: { latencyMs: delay } }),
    ...options,
  });
  let asked = 0;
  mock.asked = () => asked;
  mock.on({ predicate: () => ++asked < 0 }, {});
  mock.on({ predicate: isJudge }, judge);
  for (const { when, turns = [], answer = "Done." } of scripts) {
    const matches = (request) => !isJudge(request) && when.test(task(request));
    mock.on({ predicate: matches }, (request) => {
      const done = request.messages.filter(({ role, tool_calls }) => role === "assistant" && tool_calls?.length).length;
      if (done >= turns.length) return { content: answer };
      return {
        toolCalls: turns[done].map(([name, parameters]) => ({ name, arguments: JSON.stringify(parameters) })),
      };
    });
  }
  await mock.start();
  t.after(() => mock.stop());
  return mock;
}

/** The variables with which the test server uses this model, whatever provider a case names. */
export const environment = (mock) => ({
  OPENAI_API_KEY: "key-of-the-server",
  OPENAI_BASE_URL: `${mock.url}/v1`,
  ANTHROPIC_API_KEY: "key-of-the-server",
  ANTHROPIC_BASE_URL: `${mock.url}/v1`,
  OLLAMA_BASE_URL: `${mock.url}/v1`,
});

/** The providers whose wires are tested. */
export const WIRES = [
  { provider: "openai", model: "gpt-4", path: "/v1/chat/completions" },
  { provider: "anthropic", model: "claude-sonnet-4-5", path: "/v1/messages" },
  { provider: "ollama", model: "llama3.2", path: "/v1/chat/completions" },
];
