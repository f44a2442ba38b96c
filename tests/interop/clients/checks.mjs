// What both TypeScript clients check at a server with the surface of fixture/main.rs.
import { deepStrictEqual as same, ok } from "node:assert";

export { readJob } from "./job.mjs";

export const TEXT = "Grüße, 世界 🌍";
const EVERY_BYTE = Buffer.from(Array.from({ length: 256 }, (_, i) => i)).toString("base64");

// What the client answers when it is asked.
export const answers = {
  "elicitation/create": () => ({ action: "accept", content: { name: "Zoë" } }),
  "sampling/createMessage": () => ({
    role: "assistant",
    model: "test",
    stopReason: "endTurn",
    content: { type: "text", text: "Paris 🗼" },
  }),
  "roots/list": () => ({ roots: [{ uri: "file:///home/zo%C3%AB", name: "Zoë" }] }),
};

export const capabilities = { sampling: {}, elicitation: {}, roots: { listChanged: true } };

// Runs each check, prints feature → "ok" or what went wrong, and the revision spoken.
//   call(name, arguments, options) calls a tool; heard(method, predicate) waits for a notification;
//   watch(uri) asks for updates of a resource; log() sets the log level where that takes a request.
export async function check({ client, call, heard, watch, log, revision }) {
  const text = async (name, options) => (await call(name, {}, options)).content[0].text;
  const checks = {
    tools: async () => {
      const { tools } = await client.listTools();
      same(tools.find((tool) => tool.name === "echo").description, `echo: ${TEXT}`);
    },
    structured: async () => {
      const result = await call("echo", { text: TEXT });
      same(result.content[0].text, TEXT);
      same(result.structuredContent, { text: TEXT });
    },
    "tool error": async () => {
      const result = await call("fail", {});
      same([result.isError, result.content[0].text], [true, "es geht nicht"]);
    },
    binary: async () => {
      same((await call("picture", {})).content[0].data, EVERY_BYTE);
      const { contents } = await client.readResource({ uri: "test://blob" });
      same(contents[0].blob, EVERY_BYTE);
    },
    resources: async () => {
      const { resources } = await client.listResources();
      same(resources.map((resource) => resource.uri).sort(), ["test://blob", "test://text", "test://watched"]);
      same((await client.readResource({ uri: "test://text" })).contents[0].text, TEXT);
    },
    templates: async () => {
      const { resourceTemplates } = await client.listResourceTemplates();
      same(resourceTemplates[0].uriTemplate, "test://items/{id}");
      same((await client.readResource({ uri: "test://items/7" })).contents[0].text, "items/7");
    },
    prompts: async () => {
      same((await client.listPrompts()).prompts[0].name, "greet");
      const { messages } = await client.getPrompt({ name: "greet", arguments: { name: "Zoë" } });
      same(messages[0].content.text, "Hallo Zoë");
    },
    complete: async () => {
      const ref = { type: "ref/prompt", name: "greet" };
      const { completion } = await client.complete({ ref, argument: { name: "name", value: "Zo" } });
      same(completion.values, ["Zoë", "Zoltán"]);
    },
    progress: async () => {
      const told = [];
      await text("steps", {
        onprogress: (progress) => told.push([progress.progress, progress.total, progress.message]),
      });
      same(told, [
        [1, 3, "eins"],
        [2, 3, "zwei"],
        [3, 3, "drei"],
      ]);
    },
    elicit: async () => same(await text("ask"), "Hallo Zoë"),
    sample: async () => same(await text("think"), "Paris 🗼"),
    roots: async () => same(await text("places"), "file:///home/zo%C3%AB"),
    log: async () => {
      await log?.();
      const message = heard("notifications/message", () => true);
      await text("log");
      const { level, data } = await message;
      same([level, data], ["warning", "grüß dich"]);
    },
    cancel: async () => {
      const before = Number(await text("given_up"));
      const abort = new AbortController();
      const call = text("wait", { signal: abort.signal });
      setTimeout(() => abort.abort("enough"), 200);
      await call.then(
        () => ok(false, "it was answered"),
        () => {},
      );
      for (let i = 0; Number(await text("given_up")) <= before; i++) {
        ok(i < 50, "the server does not know");
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    },
    updates: async () => {
      await watch("test://watched");
      const update = heard("notifications/resources/updated", () => true);
      await text("touch");
      same((await update).uri, "test://watched");
    },
  };
  const features = {};
  for (const [name, check] of Object.entries(checks)) {
    features[name] = await check().then(
      () => "ok",
      (error) => `failed: ${error.message}`,
    );
  }
  const spoken = revision();
  await client.close();
  process.stdout.write(JSON.stringify({ revision: spoken, features }));
}

// Notifications as they come, and waiting for one of them.
export class Heard {
  #waiting = [];
  take = (notification) => {
    const { method, params } = notification;
    const isMet = (one) => one.method === method;
    for (const one of this.#waiting.filter(isMet)) one.resolve(params);
    this.#waiting = this.#waiting.filter((one) => !isMet(one));
  };
  next = (method) =>
    new Promise((resolve, reject) => {
      this.#waiting.push({ method, resolve });
      setTimeout(() => reject(new Error(`no ${method}`)), 5000);
    });
}
