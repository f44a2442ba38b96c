// An MCP server on standard input and output, for tests: its tools answer what the tests need.

import { createInterface } from "node:readline";

/** Texts that must stay text, wherever they are shown. */
export const ATTACKS = [
  '<img src=x onerror="window.hacked=1">',
  "<script>window.hacked=1</script>",
  '"><svg onload=window.hacked=1>',
  "javascript:window.hacked=1",
  "[x](javascript:window.hacked=1)",
  "![x](http://127.0.0.1:9/pixel.png)",
  '<iframe srcdoc="<script>parent.hacked=1</script>">',
  '{{constructor.constructor("window.hacked=1")()}}',
  "\u202Egnp.exe",
  "a\u200Bb\u0000c",
];
const attack = ATTACKS.join("\n");

const form = {
  type: "object",
  required: ["path", "mode"],
  properties: {
    path: { type: "string", title: "Path", description: "Where to look" },
    mode: { enum: ["read", "write", "list"] },
    limit: { type: "integer", minimum: 1, maximum: 100, default: 10 },
    big: { type: "integer" },
    deep: {
      type: "object",
      properties: { on: { type: "boolean" }, words: { type: "array", items: { type: "string" } } },
      required: ["on"],
    },
    note: { type: ["string", "null"] },
    password: { type: "string", format: "password" },
    any: {},
    pin: { anyOf: [{ $ref: "#/$defs/pin" }, { type: "null" }] },
  },
  $defs: { pin: { type: "string", writeOnly: true } },
};
const any = { type: "object" };
const located = {
  type: "object",
  properties: {
    region: { type: "string", "x-mcp-header": "Region" },
    options: { type: "object", properties: { limit: { type: "integer", "x-mcp-header": "Limit" } } },
  },
};
const TOOLS = [
  {
    name: "form",
    description: "Repeats its arguments",
    inputSchema: form,
    outputSchema: { type: "object", properties: { given: { type: "object" } }, required: ["given"] },
  },
  {
    name: "echo",
    description: "Says what it was told",
    inputSchema: { type: "object", required: ["text"], properties: { text: { type: "string" } } },
  },
  {
    name: "attack",
    title: ATTACKS[8] + attack.slice(0, 90),
    description: attack,
    inputSchema: {
      type: "object",
      properties: {
        x: { type: "string", title: attack, description: attack, examples: [attack] },
        y: { enum: [attack, "b"] },
      },
    },
  },
  {
    name: "large",
    description: "Answers with much text",
    inputSchema: { type: "object", properties: { kib: { type: "integer", default: 64 } } },
  },
  { name: "fails", description: "Says that it failed", inputSchema: any },
  {
    name: "slow",
    description: "Takes a while",
    inputSchema: { type: "object", properties: { ms: { type: "integer", default: 500 } } },
  },
  { name: "rows", description: "Answers with a table", inputSchema: any },
  { name: "picture", description: "Answers with a picture", inputSchema: any },
  {
    name: "works",
    description: "Tells how far it is, and logs",
    inputSchema: {
      type: "object",
      properties: {
        ms: { type: "integer", default: 500 },
        lines: { type: "integer" },
        steps: { type: "array", items: { type: "object" } },
      },
    },
  },
  {
    name: "ask",
    description: "Asks the user, and says what was answered",
    inputSchema: { type: "object", properties: { attack: { type: "boolean" }, survey: { type: "boolean" } } },
  },
  { name: "report", description: "Answers with Markdown and structured content", inputSchema: { type: "object" } },
  { name: "drawing", description: "Answers with a diagram", inputSchema: { type: "object" } },
  { name: "located", description: "Has arguments that headers repeat", inputSchema: located },
  {
    name: "unlocated",
    description: "Has a mark that is no name of a header",
    inputSchema: { type: "object", properties: { size: { type: "string", "x-mcp-header": "Größe" } } },
  },
];

const SVG =
  '<?xml version="1.0" encoding="UTF-8"?><svg xmlns="http://www.w3.org/2000/svg" width="40" height="30" onload="window.hacked=1"><rect width="40" height="30"/></svg>';
const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";

const QUESTION = {
  message: "Where shall the file go?",
  requestedSchema: {
    type: "object",
    required: ["folder"],
    properties: {
      folder: { type: "string", title: "Folder", minLength: 2 },
      keep: { type: "boolean", default: true },
      mode: { type: "string", enum: ["copy", "move"] },
    },
  },
};
/** A question with a field of each kind that MCP knows; most of them are optional. */
const SURVEY = {
  message: "Before it starts:\nplease check.",
  requestedSchema: {
    type: "object",
    required: ["sure"],
    properties: {
      sure: { type: "boolean", title: "Are you sure?", description: "It cannot be undone." },
      check: { type: "string", title: "Your name", description: "As in your passport.", default: "Anna" },
      days: { type: "integer", title: "How many days?", minimum: 1, default: 3 },
      size: {
        type: "string",
        title: "Size",
        oneOf: [
          { const: "s", title: "Small" },
          { const: "l", title: "Large" },
        ],
        default: "l",
      },
      toppings: {
        type: "array",
        title: "Toppings",
        description: "As many as you like.",
        items: {
          anyOf: [
            { const: "o", title: "Olives" },
            { const: "c", title: "Cheese" },
          ],
        },
        default: ["c"],
      },
      plain: { type: "array", title: "Colours", items: { type: "string", enum: ["red", "blue"] } },
    },
  },
};
const HOSTILE_QUESTION = {
  message: attack,
  requestedSchema: {
    type: "object",
    properties: {
      x: { type: "string", title: attack, description: attack },
      y: { oneOf: [{ const: "b", title: attack }] },
    },
  },
};

/** Questions that wait for their answers, by the ids of the requests. */
const asked = new Map();
let nextQuestion = 0;

const notify = (method, params) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", method, params })}\n`);

function askUser(params) {
  const id = `question-${nextQuestion++}`;
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, method: "elicitation/create", params })}\n`);
  return new Promise((done) => asked.set(id, done));
}

async function call({ name, arguments: args = {}, _meta: meta }) {
  const text = (it) => ({ content: [{ type: "text", text: it }] });
  switch (name) {
    case "form":
      return { ...text("given"), structuredContent: { given: args } };
    case "echo":
      return text(args.text);
    case "attack":
      return {
        content: [
          { type: "text", text: attack },
          { type: "resource_link", uri: "javascript:window.hacked=1", name: attack },
          { type: attack },
          {
            type: "resource",
            resource: {
              uri: "x:svg",
              mimeType: "image/svg+xml",
              text: '<svg xmlns="http://www.w3.org/2000/svg" onload="window.hacked=1"/>',
            },
          },
        ],
        structuredContent: { [attack]: attack },
      };
    case "large":
      return text("0123456789abcde\n".repeat((args.kib ?? 64) * 64));
    case "located":
    case "unlocated":
      return {
        content: [
          { type: "text", text: "found" },
          { type: "resource_link", uri: "lab:notes", name: "notes\u200b" },
        ],
      };
    case "fails":
      return { ...text("the disk is full"), isError: true };
    case "slow":
      await new Promise((done) => setTimeout(done, args.ms ?? 500));
      return text("done");
    case "rows":
      return text(
        JSON.stringify(Array.from({ length: 2000 }, (_, id) => ({ id, name: `row ${id}`, even: id % 2 === 0 }))),
      );
    case "works":
      process.stderr.write("the work begins\n");
      notify("notifications/message", { level: "error", logger: "press", data: `ink is low ${ATTACKS[0]}` });
      for (let at = 0; at < (args.lines ?? 0); at += 1)
        notify("notifications/message", { level: "info", data: `line ${at}` });
      for (const step of args.steps ??
        [1, 2, 3].map((progress) => ({ progress, total: 4, message: `sheet ${progress}` }))) {
        if (meta?.progressToken !== undefined)
          notify("notifications/progress", { progressToken: meta.progressToken, ...step });
        await new Promise((done) => setTimeout(done, (args.ms ?? 500) / 3));
      }
      return text("printed");
    case "ask":
      return text(JSON.stringify(await askUser(args.attack ? HOSTILE_QUESTION : args.survey ? SURVEY : QUESTION)));
    case "report":
      return {
        content: [text("# Report\n\n| part | count |\n|---|---|\n| a | 1 |\n\nFirst line\nsecond line").content[0]],
        structuredContent: { count: 1, svg: SVG },
      };
    case "drawing":
      return text(JSON.stringify({ svg: SVG }));
    case "picture":
      return { content: [{ type: "image", mimeType: "image/png", data: PIXEL }] };
    default:
      throw Object.assign(new Error(`unknown tool ${name}`), { code: -32602 });
  }
}

async function answer({ method, params }) {
  switch (method) {
    case "initialize":
      return {
        protocolVersion: "2025-11-25",
        capabilities: { tools: {}, resources: {}, prompts: {} },
        serverInfo: { name: "lab", version: "1.0" },
        instructions: "For tests.",
      };
    case "ping":
      return {};
    case "tools/list":
      return { tools: TOOLS };
    case "tools/call":
      return call(params);
    case "resources/list":
      return {
        resources: [
          { uri: "lab:notes", name: "notes", mimeType: "text/markdown" },
          { uri: "lab:attack", name: attack.slice(0, 60) },
        ],
      };
    case "resources/templates/list":
      return { resourceTemplates: [{ uriTemplate: "lab:{id}", name: "by id" }] };
    case "resources/read":
      return {
        contents: [
          {
            uri: params.uri,
            mimeType: "text/markdown",
            text: params.uri === "lab:attack" ? attack : "# Notes\n\n- one\n- **two**\n",
          },
        ],
      };
    case "prompts/list":
      return {
        prompts: [{ name: "greet", description: "Greets somebody", arguments: [{ name: "who", required: true }] }],
      };
    case "prompts/get":
      return { messages: [{ role: "user", content: { type: "text", text: `Say hello to ${params.arguments?.who}` } }] };
    default:
      throw Object.assign(new Error(`unknown method ${method}`), { code: -32601 });
  }
}

const isProgram = process.argv[1]?.endsWith("upstream.mjs");
if (isProgram) {
  process.stderr.write("the lab is open\n");
  createInterface({ input: process.stdin }).on("line", async (line) => {
    const message = JSON.parse(line);
    if (message.method === undefined && asked.has(message.id)) {
      asked.get(message.id)(message.result ?? message.error);
      asked.delete(message.id);
    }
    if (message.id === undefined || message.method === undefined) return;
    let reply;
    try {
      reply = { result: await answer(message) };
    } catch (error) {
      reply = { error: { code: error.code ?? -32603, message: error.message } };
    }
    process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id: message.id, ...reply })}\n`);
  });
}
