/**
 * Blocks of context in chat text: parses, filters, builds and neutralizes them, and converts
 * older forms. It agrees with the Rust crate `marquetry-context-blocks`. The types are in
 * `index.d.ts`.
 */
export { McpContext } from "./block.js";
export { McpContextBuilder } from "./build.js";
export { McpContextFilter, mediaUrl } from "./filter.js";
export { LegacyTokenAdapter } from "./legacy.js";
export { neutralize } from "./neutralize.js";
export { MAX_PROBLEMS, McpContextParser, parse } from "./parse.js";
export { Am7Uri } from "./uri.js";
