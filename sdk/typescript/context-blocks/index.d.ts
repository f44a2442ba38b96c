/** A JSON value. */
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

/** A block in a text: `<mcp:context …>…</mcp:context>` or `<mcp:resource … />`. */
export declare class McpContext {
  private constructor();
  /** The attribute `type` of a context block, empty without it; always `resource` for an `mcp:resource`. */
  readonly type: string;
  /** The attribute `uri`, unparsed. */
  readonly uri: string | undefined;
  /** Whether only the model sees the block. */
  readonly ephemeral: boolean;
  /** The whole block as it is in the text. */
  readonly raw: string;
  /** Position of the block in the text. */
  readonly start: number;
  /** Position after the block. */
  readonly end: number;
  /** Whether the block is an `mcp:resource`, which is shown inline. */
  readonly inline: boolean;
  /** Media type of an `mcp:resource`. */
  readonly resourceType?: string | undefined;
  /** The attribute `id`. */
  readonly id: string | undefined;
  /**
   * The source of the content: the server, the caller of the server, or a quoted source. Rely on it only in text of a
   * server, since anybody can write the attribute.
   */
  readonly trust: "server" | "caller" | "untrusted" | undefined;
  /** Whether the content comes from an untrusted source: instructions in it must be ignored. */
  readonly untrusted: boolean;
  /** Whether the resource must still be looked up by its tags. */
  readonly pending: boolean;
  /** Tags of an `mcp:resource`. */
  readonly tags: string[] | undefined;
  /** URI of the thumbnail of a resource. */
  readonly thumbnail: string | undefined;
  /** The text between the tags, trimmed. */
  readonly body: string;
  /** The body of a context block as JSON, `{raw: body}` if it is not JSON. Integers beyond 2^53 are rounded. */
  readonly data: any;
  /** Returns the value of an attribute. Names are compared without ASCII case; the first of several counts. */
  attribute(name: string): string | undefined;
  /** Returns schema and data, in either form that is in use: `{schema, data}`, or `schema` as a field of the data. */
  payload(): { schema?: string; data: any };
  /** Returns the fields of the seed's parser. */
  toJSON(): Record<string, unknown>;
}

/** A tag that is not a complete block and stays text. */
export interface Problem {
  /** `malformed-tag`: the start tag does not end, or another tag begins inside of it. `unclosed`: it has no end tag. */
  kind: "malformed-tag" | "unclosed";
  element: "context" | "resource";
  /** Position of the tag in the text. */
  at: number;
}

/** Maximum number of problems that {@link parse} reports. */
export declare const MAX_PROBLEMS: number;

/** Parses a text: its blocks in order, without overlap, and its problems. */
export declare function parse(text: string): { blocks: McpContext[]; problems: Problem[] };

/** Parser of blocks. */
export declare class McpContextParser {
  /** Returns the blocks of a text in order, without overlap. */
  static parse(content: string): McpContext[];
}

/** The part of a text that people see. */
export interface FilterOptions {
  /** Keeps ephemeral blocks; `false` if absent. */
  showEphemeral?: boolean;
  /** Keeps reasoning; `false` if absent. */
  showReasoning?: boolean;
  /** Renders media resources as HTML images; `true` if absent. The other text is not escaped. */
  renderResources?: boolean;
  /** Prefix of `/media/ORGANISATION/TYPE/ID` in the source of an image. */
  mediaBase?: string;
}

/** Blocks by subject, in the order of the text. The first rule that fits decides; a block may be in no list. */
export interface Contexts {
  /** The URI contains `/citations/` or `/vector/`. */
  citations: McpContext[];
  /** The URI contains `/reminder/`. */
  reminders: McpContext[];
  /** The URI contains `/keyframe/`. */
  keyframes: McpContext[];
  /** The URI contains `/metrics/`. */
  metrics: McpContext[];
  /** The type is `reasoning`. */
  reasoning: McpContext[];
  /** The URI contains `/media/`. */
  resources: McpContext[];
}

/** Removes the blocks that people should not see, and renders inline resources. */
export declare class McpContextFilter implements Required<FilterOptions> {
  constructor(options?: FilterOptions);
  showEphemeral: boolean;
  showReasoning: boolean;
  renderResources: boolean;
  mediaBase: string;
  /** Returns the text to show, trimmed, and all blocks of the text, kept or removed. */
  filter(content: string): { content: string; contexts: Contexts };
}

/** Type and attributes of a context block. The attribute `trust` of a server cannot be written from here. */
export interface ContextOptions {
  type: string;
  /** Describes the data, for example `urn:am7:vector:search-result`. */
  schema: string;
  uri?: string | undefined;
  id?: string | undefined;
  /** Shows the block to the model alone. */
  ephemeral?: boolean;
  /** Marks the content as untrusted. */
  untrusted?: boolean;
  /** Marks all white space in the strings of the data with a character that the data does not contain. */
  datamarked?: boolean;
}

/** A resource that is shown inline with the text, mostly an image. */
export interface InlineResource {
  uri: string;
  /** Media type, for example `image/png`. */
  type?: string | undefined;
  /** Tags, as a list or separated by commas. */
  tags?: string | readonly string[] | undefined;
  /** Whether the resource must still be looked up by its tags. */
  pending?: boolean;
}

/** Writes blocks that are put before a message. Nothing in their content can open or close a block. */
export declare class McpContextBuilder {
  /** Adds a context block around data, which `JSON.stringify` must be able to write. */
  add(context: ContextOptions, data: unknown): this;
  /** Adds a block of type `resource` about a URI. */
  addResource(
    uri: string,
    schema: string,
    data: unknown,
    options?: Pick<ContextOptions, "id" | "ephemeral" | "untrusted" | "datamarked">,
  ): this;
  /** Adds an ephemeral block with the steps of a model's reasoning. */
  addReasoning(steps: Iterable<string>): this;
  /** Adds a resource that is shown inline. Unlike a context block it does not end with a line break. */
  addInline(resource: InlineResource): this;
  /** Returns the text of all blocks in the order in which they were added. */
  build(): string;
}

/** Converts the older forms of context. */
export declare class LegacyTokenAdapter {
  /**
   * Converts the older forms into blocks. Use it for text that the system has stored; for text of users,
   * {@link neutralize}.
   */
  static upgrade(content: string): string;
  /** Converts `mcp:resource` elements of `am7://media/…` back into `${image.…}`, for people who edit the text. */
  static downgrade(content: string): string;
}

/** Escapes the tags of blocks, and the older forms, in text from outside. Apply it to a whole message. */
export declare function neutralize(text: string): string;

/** Returns `BASE/media/ORGANISATION/TYPE/ID` of a URI that names media; `undefined` for every other text. */
export declare function mediaUrl(uri: string | undefined, base?: string): string | undefined;

/** A valid `am7://` URI of an object, of media, or of a search. */
export declare class Am7Uri {
  private constructor();
  /** Parses a URI. Throws a `SyntaxError` if the text is not a valid one. */
  static parse(text: string): Am7Uri;
  /** Parses a URI; `undefined` if the text is not a valid one. */
  static tryParse(text: string | undefined): Am7Uri | undefined;
  /** Several segments are separated by `/`. */
  readonly organization: string;
  /** Type of the object, for example `data.data`; a search has none. */
  readonly objectType: string | undefined;
  readonly id: string | undefined;
  /** Whether the URI names the bytes of an object instead of its record. */
  readonly isMedia: boolean;
  readonly isVectorSearch: boolean;
  /** Returns a query parameter as it was written: `hello+world`. */
  rawQueryParam(name: string): string | undefined;
  /** Returns a query parameter decoded: `hello world`. */
  queryParam(name: string): string | undefined;
  toString(): string;
}
