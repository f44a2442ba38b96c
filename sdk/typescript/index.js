/**
 * Client of a Marquetry test server: `marquetry test-server`, or `marquetry serve` with testing enabled.
 * The types are in `index.d.ts`.
 */

/** Ports of dedicated test servers, in the order in which they are tried. */
export const TEST_PORTS = Object.freeze([3002, 3003, 3004]);

/** Ports of main servers with testing enabled, tried after {@link TEST_PORTS}. */
export const MAIN_PORTS = Object.freeze([3001, 3000]);

/** Time limit of one health check, in milliseconds. */
export const HEALTH_TIMEOUT_MS = 2000;

const OPTIONS = ["baseUrl", "token", "fetch", "testPorts", "mainPorts"];

/** Longest event of a stream, in characters: one result with its calls is one event. */
const MAX_EVENT = 64 * 1024 * 1024;

/** A failure of the client or an answer of the server that is not a result. */
export class MCPTestError extends Error {
  constructor(code, message, { status, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "MCPTestError";
    this.code = code;
    if (status !== undefined) this.status = status;
  }
}

export class MCPTestSDK {
  #given;
  #url;
  #token;
  #fetch;
  #testPorts;
  #mainPorts;
  #connecting;

  constructor(baseUrlOrOptions) {
    const options = typeof baseUrlOrOptions === "string" ? { baseUrl: baseUrlOrOptions } : (baseUrlOrOptions ?? {});
    const unknown = Object.keys(options).find((name) => !OPTIONS.includes(name));
    if (unknown !== undefined) throw new TypeError(`no option is called ${unknown}; there are ${OPTIONS.join(", ")}`);
    this.#given = options.baseUrl ? trimmed(options.baseUrl) : undefined;
    this.#token = options.token;
    this.#fetch = options.fetch ?? globalThis.fetch;
    this.#testPorts = options.testPorts ?? TEST_PORTS;
    this.#mainPorts = options.mainPorts ?? MAIN_PORTS;
  }

  get baseUrl() {
    return this.#url;
  }

  async connect() {
    // Calls at the same time share one discovery; a failed one is not remembered, since a server may start later.
    this.#connecting ??= this.#discover().finally(() => (this.#connecting = undefined));
    this.#url = await this.#connecting;
  }

  async health() {
    return this.#json("GET", "/api/test/health");
  }

  async runTest(testCase, { signal } = {}) {
    return this.#json("POST", "/api/test/run", { body: testCase, signal });
  }

  async runBatch(cases, { name, concurrency, onProgress, signal } = {}) {
    return this.#batch("/api/test/batch", { cases, name, concurrency }, { onProgress, signal });
  }

  async createConfiguration(configuration) {
    return this.#json("POST", "/api/test/configurations", { body: configuration });
  }

  async configurations(filter = {}) {
    return this.#json("GET", withQuery("/api/test/configurations", filter));
  }

  async configuration(id) {
    return this.#json("GET", `/api/test/configurations/${encodeURIComponent(id)}`);
  }

  async deleteConfiguration(id) {
    return this.#json("DELETE", `/api/test/configurations/${encodeURIComponent(id)}`);
  }

  async runConfiguration(id, cases, { name, concurrency, variables, onProgress, signal } = {}) {
    const path = `/api/test/configurations/${encodeURIComponent(id)}/run`;
    return this.#batch(path, { cases, name, concurrency, variables }, { onProgress, signal });
  }

  async results(filter = {}) {
    return this.#json("GET", withQuery("/api/test/results", filter));
  }

  async result(id) {
    return this.#json("GET", `/api/test/results/${encodeURIComponent(id)}`);
  }

  async outcomes(filter = {}) {
    return (await this.#json("GET", withQuery("/api/test/outcomes", filter))).items;
  }

  async runs(page = {}) {
    return this.#json("GET", withQuery("/api/test/runs", page));
  }

  async run(id) {
    return this.#json("GET", `/api/test/runs/${encodeURIComponent(id)}`);
  }

  async cases() {
    return (await this.#json("GET", "/api/test/cases")).items;
  }

  async history(name, { limit } = {}) {
    return this.#json("GET", withQuery("/api/test/history", { name, limit }));
  }

  async compare(base, newer) {
    return this.#json("GET", withQuery("/api/test/compare", { base, new: newer }));
  }

  async judges() {
    return (await this.#json("GET", "/api/test/judges")).items;
  }

  async overrides(result) {
    return (await this.#json("GET", `/api/test/results/${encodeURIComponent(result)}/overrides`)).items;
  }

  async putOverride(result, verdict) {
    return this.#json("POST", `/api/test/results/${encodeURIComponent(result)}/overrides`, { body: verdict });
  }

  async *events({ run, signal } = {}) {
    const path = withQuery("/api/test/events", { run });
    const response = await this.#request("GET", path, { signal, accept: "text/event-stream" });
    const cut = (cause) =>
      new MCPTestError("cut-stream", `the stream of events was cut: ${reasonFor(cause)}`, { cause });
    yield* events(response, { signal, cut });
  }

  async *allResults(filter = {}) {
    let cursor = filter.cursor;
    do {
      const page = await this.results({ ...filter, cursor });
      yield* page.items;
      cursor = page.nextCursor ?? undefined;
    } while (cursor !== undefined);
  }

  /** Runs the cases of `body` as one run, and reads its events. */
  async #batch(path, body, { onProgress, signal }) {
    const response = await this.#request("POST", path, { body, signal, accept: "text/event-stream" });
    const results = new Array(body.cases.length);
    let run;
    const cut = (cause) => {
      const id = run ? ` ${run.id}` : "";
      const message = `the stream of batch${id} ended before its end; results that were stored are in /api/test/results`;
      return new MCPTestError("cut-stream", message, { cause });
    };
    for await (const { event, data } of events(response, { signal, cut })) {
      if (event === "started") run = data;
      if (event === "result") {
        results[data.index] = data.result;
        onProgress?.({ done: data.done, total: data.total, index: data.index, result: data.result });
      }
      if (event === "completed") return { run: data, results };
      if (event === "failed") throw new MCPTestError("batch-failed", `the batch failed: ${data.error}`);
    }
    throw cut();
  }

  async #discover() {
    if (this.#given) {
      const problem = await this.#problemOf(this.#given);
      if (problem === undefined) return this.#given;
      const message = `Provided URL ${this.#given} is not a test server: ${problem}`;
      throw new MCPTestError("not-a-test-server", message);
    }
    // Any program may listen on these ports and say that it is a test server. The requests after
    // the search would give it the token.
    if (this.#token) {
      throw new MCPTestError(
        "token-without-url",
        `A token is sent only to a server that is named: set baseUrl, for example "http://127.0.0.1:${this.#testPorts[0] ?? TEST_PORTS[0]}". Without it, any program on this machine could get the token.`,
      );
    }
    const ports = [...this.#testPorts, ...this.#mainPorts];
    for (const port of ports) {
      const url = `http://127.0.0.1:${port}`;
      if ((await this.#problemOf(url)) === undefined) return url;
    }
    throw new MCPTestError(
      "no-test-server",
      `No test server found on the ports ${ports.join(", ")} of this machine. Start one:

Option 1: Dedicated test server
  marquetry test-server  # Starts on :${this.#testPorts[0] ?? TEST_PORTS[0]}

Option 2: Main server with testing
  ENABLE_TESTING=true marquetry serve  # Starts on :${this.#mainPorts[0] ?? MAIN_PORTS[0]} with testing`,
    );
  }

  /** Asks whether a test server listens at a URL, and returns why not. */
  async #problemOf(url) {
    const limit = AbortSignal.timeout(HEALTH_TIMEOUT_MS);
    try {
      const response = await this.#fetch(`${url}/api/test/health`, {
        method: "GET",
        headers: this.#headers(),
        signal: limit,
      });
      if (!response.ok) {
        await response.body?.cancel();
        return `/api/test/health has the status ${response.status}`;
      }
      if ((await response.json())?.testing === true) return undefined;
      return "/api/test/health does not say that testing is on";
    } catch (cause) {
      return reasonFor(cause);
    }
  }

  #headers(extra = {}) {
    return { accept: "application/json", ...(this.#token && { authorization: `Bearer ${this.#token}` }), ...extra };
  }

  async #request(method, path, { body, signal, accept } = {}) {
    if (!this.#url) await this.connect();
    const headers = this.#headers({
      ...(accept && { accept }),
      ...(body !== undefined && { "content-type": "application/json" }),
    });
    let response;
    try {
      const text = body === undefined ? undefined : JSON.stringify(body);
      response = await this.#fetch(`${this.#url}${path}`, { method, headers, body: text, signal });
    } catch (cause) {
      if (signal?.aborted) throw cause;
      throw new MCPTestError("unreachable", `${method} ${this.#url}${path} failed: ${reasonFor(cause)}`, { cause });
    }
    if (response.ok) return response;
    const text = await response.text().catch(() => "");
    throw new MCPTestError(
      "refused",
      `Test execution failed: ${method} ${path}: ${response.status} ${reasonOf(text) || response.statusText}`,
      { status: response.status },
    );
  }

  async #json(method, path, options) {
    const response = await this.#request(method, path, options);
    let text;
    try {
      text = await response.text();
    } catch (cause) {
      if (options?.signal?.aborted) throw cause;
      const message = `the answer to ${method} ${path} was cut: ${reasonFor(cause)}; results that were stored are in /api/test/results`;
      throw new MCPTestError("cut-stream", message, { cause });
    }
    try {
      return JSON.parse(text);
    } catch (cause) {
      throw new MCPTestError("malformed", `${method} ${path} was not answered with JSON`, { cause });
    }
  }
}

function trimmed(url) {
  return url.replace(/\/+$/, "");
}

/** A path with the parameters that have a value. */
function withQuery(path, values) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined && value !== null) {
      query.set(name, value instanceof Date ? value.toISOString() : String(value));
    }
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

/** The server's own words, from `{"error": "…"}`; otherwise the beginning of the text. */
function reasonOf(text) {
  try {
    const { error } = JSON.parse(text);
    if (typeof error === "string") return error;
  } catch {
    // Not our server's format.
  }
  return text.slice(0, 200).trim();
}

/** `fetch` says only that it failed; its cause says why. */
function reasonFor(cause) {
  return cause?.cause?.message ?? cause?.message ?? String(cause);
}

/** Yields the events of a stream with their data as JSON. `cut` makes the error of a stream whose connection fails. */
async function* events(response, options) {
  let event = "message";
  let data = [];
  let length = 0;
  for await (const line of lines(response.body ?? [], options)) {
    if (line === "") {
      if (data.length > 0) yield { event, data: parsed(event, data.join("\n")) };
      event = "message";
      data = [];
      length = 0;
    } else if (line.startsWith("event:")) {
      event = line.slice(6).trim();
    } else if (line.startsWith("data:")) {
      data.push(line.slice(5).replace(/^ /, ""));
      length = checkedLength(length + line.length);
    }
  }
}

/**
 * Yields the lines of a body; the last one if it is whole. Only new text is searched: a long line
 * comes in thousands of chunks.
 */
async function* lines(body, options) {
  const decoder = new TextDecoder();
  let rest = "";
  let afterReturn = false;
  for await (const chunk of chunks(body, options)) {
    let text = decoder.decode(chunk, { stream: true });
    if (text === "") continue;
    // The "\n" of a "\r\n" that was cut in two ends no other line.
    if (afterReturn && text.startsWith("\n")) text = text.slice(1);
    afterReturn = text.endsWith("\r");
    const ended = text.split(/\r\n|\n|\r/);
    const last = ended.pop();
    for (const line of ended) {
      yield rest + line;
      rest = "";
    }
    rest += last;
    checkedLength(rest.length);
  }
}

/** Yields what is read of a body. */
async function* chunks(body, { signal, cut }) {
  try {
    yield* body;
  } catch (cause) {
    throw signal?.aborted ? cause : cut(cause);
  }
}

function checkedLength(length) {
  if (length > MAX_EVENT) throw new MCPTestError("too-long", `an event is longer than ${MAX_EVENT} characters`);
  return length;
}

function parsed(event, text) {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new MCPTestError("malformed", `the event ${event} has no JSON: ${text.slice(0, 200)}`, { cause });
  }
}
