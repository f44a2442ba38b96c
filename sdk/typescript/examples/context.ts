// Puts context before a message, and shows people the message without it. Run: node context.js
import {
  LegacyTokenAdapter,
  McpContextBuilder,
  McpContextFilter,
  neutralize,
} from "@marquetry/test-sdk/context-blocks";

const found = { query: "parser", results: [{ content: "We chose the parser from 2019.", score: 0.89 }] };
const options = { ephemeral: true, untrusted: true };
const blocks = new McpContextBuilder()
  .addResource("am7://vector/citations/chat-123", "urn:am7:vector:search-result", found, options)
  .build();
const message = blocks + neutralize("What did we choose?");

const { content, contexts } = new McpContextFilter().filter(message);
console.log(content);
console.log(`${contexts.citations.length} citation:`, contexts.citations[0]?.payload().data.query);
console.log(LegacyTokenAdapter.upgrade("${image.abc-123.portrait}"));
