/** Ports of dedicated test servers, in the order in which they are tried. */
export declare const TEST_PORTS: readonly number[];
/** Ports of main servers with testing enabled, tried after {@link TEST_PORTS}. */
export declare const MAIN_PORTS: readonly number[];
/** Time limit of one health check, in milliseconds. */
export declare const HEALTH_TIMEOUT_MS: number;

/** A JSON value. */
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

/** An MCP server that a test connects to. The connection belongs to the test and ends with it. */
export type ServerConfig =
  | { type: "stdio"; name?: string; command: string; args?: string[]; env?: Record<string, string>; cwd?: string }
  | { type: "sse"; name?: string; url: string; headers?: Record<string, string> }
  | { type: "http"; name?: string; url: string; headers?: Record<string, string> };

/** A provider of models. `custom` is any service with OpenAI's chat completions; it needs `baseUrl`. */
export type Provider = "openai" | "anthropic" | "ollama" | "custom";

/** A model, as agent or as judge; the seed's `JudgeConfig`. */
export interface ModelConfig {
  provider: Provider;
  model: string;
  temperature?: number;
  maxTokens?: number;
  /** Used only if the server has no key of its own for the provider. It is never stored. */
  apiKey?: string | undefined;
  baseUrl?: string;
  /** Seed of the order in which a judge sees items and evidence, and of the provider's sampling if it has one. */
  seed?: number;
  /** Whether the model is asked for a stream, for services that end long requests without one: `false` if absent. */
  stream?: boolean;
  /** Price of tokens, for `limits.maxCostUsd` and for the cost in results. */
  price?: Price;
}

/** Price of a model, in US dollars for a million tokens of requests and of answers. */
export interface Price {
  inputPerMillion: number;
  outputPerMillion: number;
}

/** The judge of a test. */
export interface JudgeConfig extends ModelConfig {
  /** Votes that are taken at first: 3 if absent, 1 to 11. */
  votes?: number;
  /** Votes that are taken at most when they disagree; 11 if absent. */
  maxVotes?: number;
}

/** A value that is expected, or conditions such as `{ $mentions: ["a.txt"] }`. */
export type Matcher = Json;

/** A call that is expected: the name of a tool, or more about the call. */
export type ExpectedTool = string | ExpectedCall;

/** More about a call that is expected. */
export interface ExpectedCall {
  name: string;
  /** The server that has the tool. */
  server?: string;
  arguments?: Matcher;
  result?: ExpectedResult;
}

/** The expected result of a call. */
export interface ExpectedResult {
  /** Whether the call succeeds. */
  success?: boolean;
  /** All text items of the result, joined by line ends. */
  text?: Matcher;
  /** The result's `structuredContent`. */
  structured?: Matcher;
}

/** How calls must agree with the expected ones. */
export type Matching = "anyOrder" | "inOrder" | "exact" | "superset";

/** Expectations of a whole run, which code checks. */
export interface Expectations {
  minCalls?: number;
  maxCalls?: number;
  /** Calls that must not be made. */
  forbiddenTools?: ExpectedTool[];
  /** The model's last text. */
  answer?: Matcher;
  allCallsSucceed?: boolean;
  /** Maximum time of the work on the prompt, in milliseconds. */
  maxDurationMs?: number;
  /** Maximum time of one tool call, in milliseconds. */
  maxCallMs?: number;
  /** Maximum tokens of the work on the prompt, requests and answers together. */
  maxTokens?: number;
  /** Minimum `toolAccuracy`, 0 to 1. */
  minToolAccuracy?: number;
}

/** Limits of one trial. A trial that reaches one ends with the status `error`. */
export interface Limits {
  /** Requests to the model that works: 20 if absent. */
  maxTurns?: number;
  /** Tool calls: 50 if absent. */
  maxToolCalls?: number;
  /** Tokens of both models: 200,000 if absent. */
  maxTokens?: number;
  /** Time of a trial: 300,000 if absent. */
  timeoutMs?: number;
  /** Time of one tool call: 60,000 if absent. */
  callTimeoutMs?: number;
  /** Time until a server has started and listed its tools: 30,000 if absent. */
  connectTimeoutMs?: number;
  /** Cost in US dollars; requires the `price` of each model. */
  maxCostUsd?: number;
  /** Tools that the model gets: 128 if absent. */
  maxTools?: number;
  /** Bytes of a tool's result that the model is shown and that are recorded: 65,536 if absent. */
  maxResultBytes?: number;
}

/** A prompt, and the tools that an agent is expected to call for it. */
export interface TestCase {
  name: string;
  prompt: string;
  /** Instructions for the model, instead of the usual ones. */
  systemPrompt?: string;
  /** An empty list means that no tool may be called. */
  expectedTools?: ExpectedTool[];
  /** How calls must agree with `expectedTools`: `superset` if absent. */
  matching?: Matching;
  /** Without these, the test uses the servers that the test server was started with. */
  serverConfigs?: ServerConfig[];
  /** Names of the tools that the model gets; absent: all tools of the servers. */
  tools?: string[];
  /** Without it, the test uses the judge that the test server was started with. */
  judgeConfig?: JudgeConfig;
  /** The model that works on the prompt; without it, that of the judge. */
  agentConfig?: ModelConfig;
  /** Statements about the run that the judge answers with yes or no; absent: four usual ones. */
  checklist?: string[];
  /** Whether a judge is asked; absent: if there is a `judgeConfig`. */
  judged?: boolean;
  expect?: Expectations;
  /** Times that the test is tried: 1 to 100. */
  repetitions?: number;
  /** Minimum share of trials that must pass: more than 0, and at most 1. */
  requiredPassRate?: number;
  limits?: Limits;
  /** Text for the people who read the results. */
  description?: string;
}

/** One call of a tool. */
export interface ToolCallRecord {
  toolName: string;
  serverId: string;
  /** The arguments as the model wrote them: an object unless the model made a mistake. */
  parameters: Json;
  /** The result as the server wrote it; `null` if the call failed without one. */
  response: any;
  executionTimeMs: number;
  success: boolean;
  error?: string;
  /** RFC 3339. */
  timestamp: string;
}

/** The judge's verdict. */
export interface JudgeVerdict {
  passed: boolean;
  /** Share of the votes that agree with `passed`, 0 to 1. */
  confidence: number;
  reasoning: string;
  /** F1 of expected against called tools, 0 to 1, computed and not judged. */
  toolAccuracy: number;
  suggestions?: string;
  /** The judge's answers, item by item. */
  items?: ItemVerdict[];
}

/** The judge's answer to one item of its checklist. */
export interface ItemVerdict {
  item: string;
  /** Votes that it is true. */
  yes: number;
  /** Votes that it is not. */
  no: number;
  evidence: string;
}

/** Outcome of a test. `error` means that it could not be run or judged. */
export type TestStatus = "passed" | "failed" | "error";

/** The result of one test. */
export interface TestResult {
  id: string;
  /** The batch that it belongs to. */
  runId?: string;
  /** The test, without keys. */
  testCase: TestCase;
  toolCalls: ToolCallRecord[];
  verdict: JudgeVerdict;
  /** Milliseconds. */
  duration: number;
  success: boolean;
  status: TestStatus;
  /** Why the test could not be run or judged, and what to do. */
  error?: string;
  /** RFC 3339. */
  timestamp: string;
  trials: Trial[];
}

/** One attempt of a model at a test. */
export interface Trial {
  /** Its number, from 0. */
  index: number;
  status: TestStatus;
  /** Why there is no verdict, and what to do. */
  error?: string;
  turns: Turn[];
  toolCalls: ToolCallRecord[];
  /** The model's last text. */
  answer: string;
  checks: CheckResult[];
  votes: Vote[];
  verdict: JudgeVerdict;
  usage: TokenUsage;
  /** Time of the work on the prompt, without starting servers and judging. */
  workMs: number;
  durationMs: number;
}

/** One answer of the model that works. */
export interface Turn {
  text: string;
  /** Places in `toolCalls` of the calls that it asked for. */
  calls: number[];
  usage: TokenUsage;
  durationMs: number;
}

/** Tokens and cost. */
export interface TokenUsage {
  inputTokens: number;
  outputTokens: number;
  /** Whether a provider did not report them. */
  estimated: boolean;
  /** Present if a price is configured. */
  costUsd?: number;
}

/** The result of the checks by code. */
export interface CheckResult {
  /** The member of the test that asks for it. */
  name: string;
  passed: boolean;
  detail: string;
  expected?: any;
  actual?: any;
}

/** One vote of a judge. */
export interface Vote {
  index: number;
  passed: boolean;
  answers: ItemAnswer[];
  reasoning: string;
  suggestions?: string;
  model: string;
  promptHash: string;
  usage: TokenUsage;
  durationMs: number;
}

/** A judge's answer to one item of its checklist, in one vote. */
export interface ItemAnswer {
  item: string;
  evidence: string;
  yes: boolean;
}

/** State of the server. */
export interface Health {
  testing: boolean;
  /** Open connections of running tests. */
  connections: number;
  /** Whether the database answers. */
  database: boolean;
  version: string;
}

/** A batch. */
export interface TestRun {
  id: string;
  name?: string;
  /** Id of the configuration that all its tests share. */
  configurationId?: string;
  totalTests: number;
  passedTests: number;
  failedTests: number;
  errorTests: number;
  /** RFC 3339. */
  startedAt: string;
  completedAt?: string;
  status: "running" | "completed" | "failed";
}

/** Options of {@link MCPTestSDK}. */
export interface Options {
  /**
   * URL of the server. Without it, the ports of this machine are tried; cases with their keys go to
   * the first program that answers.
   */
  baseUrl?: string | undefined;
  /** Sent as `Authorization: Bearer …`. It requires `baseUrl`. */
  token?: string | undefined;
  /** Another `fetch`. */
  fetch?: typeof globalThis.fetch;
  /** Instead of {@link TEST_PORTS}. */
  testPorts?: readonly number[];
  /** Instead of {@link MAIN_PORTS}. */
  mainPorts?: readonly number[];
}

/** Progress of a batch: one more test has ended. */
export interface Progress {
  done: number;
  total: number;
  /** Position of the test in the batch. */
  index: number;
  result: TestResult;
}

/** Options of {@link MCPTestSDK.runBatch}. */
export interface BatchOptions {
  name?: string;
  /** Tests that run at a time; the server's limit applies too. */
  concurrency?: number;
  onProgress?: (progress: Progress) => void;
  /** Aborting it stops the batch on the server, too. */
  signal?: AbortSignal;
}

/** Servers and a judge to store under a name. */
export interface NewConfiguration {
  /** 1 to 200 bytes. A configuration of the same name is a new version; the older ones stay for their runs. */
  name: string;
  /** Text for people. */
  description?: string;
  /** Values of `env` and `headers` are references, such as `${API_TOKEN}` or `Bearer ${API_TOKEN}`. */
  serverConfigs?: ServerConfig[];
  /** Its `apiKey` is absent, or a reference. */
  judgeConfig?: JudgeConfig;
}

/** A stored configuration. It has no secrets: `…` is in place of each one that the cases of a run had. */
export interface Configuration {
  id: string;
  name: string;
  description?: string;
  serverConfigs: ServerConfig[];
  judgeConfig?: JudgeConfig;
  /** Whether a user created it, or it was stored with a run whose cases have the same servers and the same judge. */
  origin: ConfigurationOrigin;
  /** RFC 3339. */
  createdAt: string;
  /** RFC 3339. */
  updatedAt: string;
}

/** The origin of a configuration. */
export type ConfigurationOrigin = "created" | "derived";

/** Which configurations are wanted. */
export interface ConfigurationFilter {
  name?: string;
  origin?: ConfigurationOrigin;
  /** Configurations in a page: 50 if absent, up to 200. */
  limit?: number;
  /** `nextCursor` of the page before. */
  cursor?: string | undefined;
}

/** Options of {@link MCPTestSDK.runConfiguration}. */
export interface ConfigurationRunOptions extends BatchOptions {
  /** Values of the variables that the configuration refers to, by name. They are not stored. */
  variables?: Record<string, string>;
}

/** Which stored results are wanted. */
export interface ResultFilter {
  /** Name of the test. */
  name?: string;
  status?: TestStatus;
  /** Id of a batch. */
  run?: string;
  /** Not older than this. */
  since?: Date | string;
  /** Older than this. */
  until?: Date | string;
  /** Results in a page. */
  limit?: number;
  /** `nextCursor` of the page before. */
  cursor?: string | undefined;
}

/** Stored results, the newest first. */
export interface ResultPage {
  items: TestResult[];
  /** Absent on the last page. */
  nextCursor?: string;
}

/** A rate, with Wilson's interval at 95 %. */
export interface Rate {
  count: number;
  of: number;
  /** Absent if it could not have happened. */
  rate?: number;
  interval: Interval;
}

/** An interval at 95 %. */
export interface Interval {
  low: number;
  high: number;
}

/** The short form of a result, without trials. */
export interface Outcome {
  resultId: string;
  testName: string;
  runId?: string;
  status: TestStatus;
  trials: TrialCounts;
  toolAccuracy: number;
  /** Milliseconds. */
  durationMs: number;
  /** RFC 3339. */
  timestamp: string;
}

/** Trials by their outcome. */
export interface TrialCounts {
  passed: number;
  failed: number;
  errors: number;
}

/** How much the results of a case vary. */
export interface Flakiness {
  testName: string;
  passRate: Rate;
  /** Results whose status differs from that of the result before. */
  flips: Rate;
}

/** The history of a case. */
export interface CaseHistory {
  testName: string;
  /** The newest first. */
  entries: Outcome[];
  passRate: Rate;
  /** Trials without a verdict. */
  errors: number;
  /** The chance that at least one of 3 trials passes; absent with fewer trials. */
  passAt3?: number;
  /** The chance that 3 trials all pass; absent with fewer trials. */
  passHat3?: number;
}

/** The changes between two runs. */
export type Change = "regression" | "none" | "insufficient_data";

/** A case in two runs. */
export interface CaseComparison {
  /** Empty for all cases together. */
  testName: string;
  base: Rate;
  new: Rate;
  change: Change;
}

/** Two runs beside each other. */
export interface Comparison {
  baseRun: string;
  newRun: string;
  verdict: Change;
  all: CaseComparison;
  cases: CaseComparison[];
  /** Names of cases that only the base run has. */
  onlyBase?: string[];
  /** Names of cases that only the new run has. */
  onlyNew?: string[];
}

/** How well a judge agrees with people. */
export interface JudgeAgreement {
  model: string;
  promptHash: string;
  verdicts: Confusion;
  agreement: number;
  interval: Interval;
  /** Cohen's κ; absent where it is not defined. */
  kappa?: number;
}

/** Trials by the verdicts of a judge and of people. */
export interface Confusion {
  bothPassed: number;
  bothFailed: number;
  onlyJudgePassed: number;
  onlyHumanPassed: number;
}

/** A person's verdict on a trial. */
export interface NewOverride {
  /** The number of the trial, from 0. */
  trial: number;
  passed: boolean;
  reason: string;
  /** Author of the verdict. A server with authentication takes the caller, and refuses another name. */
  author?: string;
}

/** A person's verdict as it is stored. */
export interface Override extends Required<NewOverride> {
  resultId: string;
  /** RFC 3339. */
  timestamp: string;
}

/** A step of a test that runs. */
export interface TestProgress {
  run?: string;
  index: number;
  testName: string;
  trial: number;
  step: "trialStarted" | "connected" | "turn" | "callStarted" | "callEnded" | "vote" | "trialEnded";
  detail?: string;
  success?: boolean;
}

/** A test has its result. */
export interface TestEnded {
  /** Position of the test in its batch. */
  index: number;
  /** Tests of the batch that have ended. */
  done: number;
  total: number;
  outcome: Outcome;
}

/** A step of running tests. `missed` means that the reader was too slow: fetch the state again. */
export type TestEvent =
  | { event: "open"; data: Record<string, never> }
  | { event: "runStarted" | "runEnded"; data: TestRun }
  | { event: "progress"; data: TestProgress }
  | { event: "ended"; data: TestEnded }
  | { event: "missed"; data: { count: number } };

/** The reason why an operation failed. */
export type MCPTestErrorCode =
  | "not-a-test-server"
  | "no-test-server"
  | "token-without-url"
  | "unreachable"
  | "refused"
  | "malformed"
  | "cut-stream"
  | "too-long"
  | "batch-failed";

/** A failure of the client, or an answer of the server that is not a result. */
export declare class MCPTestError extends Error {
  readonly code: MCPTestErrorCode;
  /** HTTP status, if the server answered with an error. */
  readonly status?: number;
  constructor(code: MCPTestErrorCode, message: string, options?: { status?: number; cause?: unknown });
}

/**
 * Runs tests on a test server.
 *
 * ```ts
 * const testSDK = new MCPTestSDK(); // finds the server on this machine
 * const result = await testSDK.runTest({ name: "reads", prompt: "Read a.txt", expectedTools: ["read_text_file"] });
 * console.log(result.success, result.verdict.reasoning);
 * ```
 */
export declare class MCPTestSDK {
  /** A URL, options, or nothing: then the server is looked for at the first call. */
  constructor(baseUrlOrOptions?: string | Options);
  /** URL of the server, after {@link connect} or the first call. */
  get baseUrl(): string | undefined;
  /**
   * Finds the server; every other method does so itself. Rejects with `not-a-test-server`,
   * `no-test-server` or `token-without-url`.
   */
  connect(): Promise<void>;
  health(): Promise<Health>;
  /** Runs one test. A test that fails or cannot be run is a result, too; only requests that are no test reject. */
  runTest(testCase: TestCase, options?: { signal?: AbortSignal }): Promise<TestResult>;
  /** Runs many tests, stored as one run; the results are in the order of the cases. */
  runBatch(cases: TestCase[], options?: BatchOptions): Promise<{ run: TestRun; results: TestResult[] }>;
  /**
   * Stores servers and a judge under a name. Secrets are refused: write references such as
   * `${NAME}` in their place.
   */
  createConfiguration(configuration: NewConfiguration): Promise<Configuration>;
  /** Returns one page of configurations, the newest first. Of several with one name, the first is the current one. */
  configurations(filter?: ConfigurationFilter): Promise<{ items: Configuration[]; nextCursor?: string }>;
  configuration(id: string): Promise<Configuration>;
  /** Deletes a configuration that no run has, and returns it. */
  deleteConfiguration(id: string): Promise<Configuration>;
  /**
   * Runs many tests as {@link runBatch} does, with the servers and the judge of a configuration
   * instead of their own.
   */
  runConfiguration(
    id: string,
    cases: TestCase[],
    options?: ConfigurationRunOptions,
  ): Promise<{ run: TestRun; results: TestResult[] }>;
  /** Returns one page of stored results. */
  results(filter?: ResultFilter): Promise<ResultPage>;
  /** Returns one result with its trials. */
  result(id: string): Promise<TestResult>;
  /** Returns short forms of results, the newest first: 1,000 without a limit. */
  outcomes(filter?: { name?: string; run?: string; limit?: number }): Promise<Outcome[]>;
  /** Returns one page of runs, the newest first. */
  runs(page?: { limit?: number; cursor?: string | undefined }): Promise<{ items: TestRun[]; nextCursor?: string }>;
  run(id: string): Promise<TestRun>;
  /** Returns the pass rate of each case, the most varying first. */
  cases(): Promise<Flakiness[]>;
  history(name: string, options?: { limit?: number }): Promise<CaseHistory>;
  /** Compares two runs by their ids. */
  compare(base: string, newer: string): Promise<Comparison>;
  judges(): Promise<JudgeAgreement[]>;
  /** Returns people's verdicts on the trials of a result, the oldest first. */
  overrides(result: string): Promise<Override[]>;
  /** Stores a person's verdict; a later one of the same author replaces it. */
  putOverride(result: string, verdict: NewOverride): Promise<Override>;
  /** Yields what tests do, of one run or of all, until the server stops or `signal` aborts. */
  events(options?: { run?: string; signal?: AbortSignal }): AsyncGenerator<TestEvent, void, void>;
  /** Yields all stored results, page by page. */
  allResults(filter?: ResultFilter): AsyncGenerator<TestResult, void, void>;
}
