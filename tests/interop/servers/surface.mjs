// What both TypeScript servers offer: the surface of fixture/main.rs.
export const TEXT = "Grüße, 世界 🌍";
export const EVERY_BYTE = Buffer.from(Array.from({ length: 256 }, (_, i) => i)).toString("base64");
export const text = (text) => ({ content: [{ type: "text", text }] });

// Calls of `wait` that were given up, in the whole process: a server is made for each session or request.
export const givenUp = { count: 0 };

export const wait = (signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(() => resolve(text("waited")), 30_000);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      givenUp.count += 1;
      resolve(text("given up"));
    });
  });

export async function steps(token, notify) {
  for (const [progress, message] of [
    [1, "eins"],
    [2, "zwei"],
    [3, "drei"],
  ]) {
    if (token !== undefined) {
      await notify({ method: "notifications/progress", params: { progressToken: token, progress, total: 3, message } });
    }
  }
  return text("done");
}

export const question = {
  elicit: {
    message: "Wie heißt du?",
    requestedSchema: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
  },
  sample: { messages: [{ role: "user", content: { type: "text", text: "Hauptstadt?" } }], maxTokens: 10 },
};

// Registers what both versions of McpServer register alike; `z` is zod, `classes` the version's own classes.
export function register(server, z, { ResourceTemplate, completable }) {
  const tool = (name, handler) =>
    server.registerTool(name, { description: `${name}: ${TEXT}`, inputSchema: z.object({}) }, handler);
  server.registerTool(
    "echo",
    {
      description: `echo: ${TEXT}`,
      inputSchema: z.object({ text: z.string() }),
      outputSchema: z.object({ text: z.string() }),
    },
    async ({ text: said }) => ({ ...text(said), structuredContent: { text: said } }),
  );
  tool("picture", async () => ({ content: [{ type: "image", data: EVERY_BYTE, mimeType: "image/png" }] }));
  tool("given_up", async () => text(String(givenUp.count)));
  tool("fail", async () => ({ ...text("es geht nicht"), isError: true }));
  for (const name of ["text", "watched"]) {
    server.registerResource(name, `test://${name}`, {}, async (uri) => ({ contents: [{ uri: uri.href, text: TEXT }] }));
  }
  server.registerResource("blob", "test://blob", {}, async (uri) => ({
    contents: [{ uri: uri.href, blob: EVERY_BYTE }],
  }));
  server.registerResource(
    "items",
    new ResourceTemplate("test://items/{id}", { list: undefined }),
    {},
    async (uri, { id }) => ({
      contents: [{ uri: uri.href, text: `items/${id}` }],
    }),
  );
  const names = (start) => ["Zoë", "Zoltán", "Anna"].filter((name) => name.startsWith(start));
  server.registerPrompt(
    "greet",
    { argsSchema: server.promptSchema?.(z, completable, names) ?? z.object({ name: completable(z.string(), names) }) },
    ({ name }) => ({
      messages: [{ role: "user", content: { type: "text", text: `Hallo ${name}` } }],
    }),
  );
  return tool;
}
