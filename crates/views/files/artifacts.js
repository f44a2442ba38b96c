// The View of list_artifacts and read_artifact: a list, and the content of the chosen artifact.
import {
  ask,
  byId,
  bytes,
  contentOf,
  count,
  debounced,
  el,
  namesOf,
  open,
  page,
  plain,
  say,
  shown,
  structured,
  submits,
  textOf,
} from "./page.js";
import { CsvReader, separatorOf } from "./csv.js";
import { jsonTree, parseJson, parseJsonLines, tableOf } from "./json.js";
import { Table } from "./table.js";
import { TextView } from "./text-view.js";
import { PanZoom } from "./pan-zoom.js";
import { ArtifactReader, MAX_BYTES_HELD, bytesOf, dataUrl, hexOf, kindOf, pieceOf } from "./artifact-reader.js";

/** Largest artifact that is read whole without being asked for, in bytes: data that must be parsed, and pictures. */
const READ_AT_ONCE = 4 << 20;
/** Bytes of a binary artifact that are shown. */
const HEX_BYTES = 4 << 10;
/** Versions that are offered, from the newest. */
const MAX_VERSIONS = 50;

const TABS = {
  table: ["Table", "Text"],
  json: ["Table", "Tree", "Text"],
  "json-lines": ["Table", "Tree", "Text"],
  picture: ["Picture", "Bytes"],
  sound: ["Player", "Bytes"],
  film: ["Player", "Bytes"],
  text: ["Text"],
  bytes: ["Bytes"],
};

export function start() {
  const view = page("marquetry-artifacts", "Artifacts");
  const state = {
    artifacts: [],
    cursor: undefined,
    tools: undefined,
    /** The artifact that is open, and what was read of it. */
    artifact: undefined,
    content: undefined,
    tab: undefined,
    /** Ends the work for an artifact or a tab when another is opened. */
    work: new AbortController(),
    /** The arguments of the call that this View was opened for. */
    input: {},
  };

  async function tools() {
    state.tools ??= await namesOf(view, ["list_artifacts", "read_artifact"]);
    return state.tools;
  }

  // The list

  /** The artifacts in an answer of list_artifacts. */
  function listed(data) {
    const list = Array.isArray(data?.artifacts) ? data.artifacts : [];
    return list
      .filter((item) => item !== null && typeof item === "object" && typeof item.name === "string")
      .map(artifactOf);
  }

  function artifactOf(item) {
    return {
      name: item.name,
      version: Number.isInteger(item.version) ? item.version : undefined,
      newest: Number.isInteger(item.version) ? item.version : undefined,
      uri: String(item.uri ?? ""),
      mimeType: String(item.mime_type ?? ""),
      size: Number(item.size_bytes) || 0,
      description: typeof item.description === "string" ? item.description : "",
      warnings: Array.isArray(item.warnings) ? item.warnings.map(String) : [],
      details: item.details !== null && typeof item.details === "object" ? item.details : undefined,
    };
  }

  function showList(data, { isMore = false } = {}) {
    state.artifacts = isMore ? [...state.artifacts, ...listed(data)] : listed(data);
    state.cursor = typeof data?.next_cursor === "string" ? data.next_cursor : undefined;
    state.damaged = Number(data?.damaged) || 0;
    drawList();
  }

  function drawList() {
    const items = state.artifacts.map((artifact) => {
      const button = el(
        "button",
        { type: "button", click: () => openArtifact(artifact) },
        el("span", { class: "name" }, shown(artifact.name)),
        el("span", { class: "about" }, shown(artifact.mimeType), ` · ${bytes(artifact.size)}`),
      );
      if (artifact.name === state.artifact?.name) button.setAttribute("aria-current", "true");
      return el("li", {}, button);
    });
    byId("list").replaceChildren(...items);
    byId("more").hidden = state.cursor === undefined;
    const size = state.artifacts.length;
    const isFiltered = byId("filter").value.trim() !== "";
    const none = isFiltered
      ? "No name or type contains this text."
      : "There are no artifacts. Large answers of tools, and those that are not text, become artifacts.";
    const damaged = state.damaged > 0 ? `, ${count(state.damaged)} damaged` : "";
    byId("list-note").textContent =
      size === 0
        ? none
        : `${count(size)} ${size === 1 ? "artifact" : "artifacts"}${state.cursor === undefined ? "" : ", and more"}${damaged}`;
  }

  async function reload({ isMore = false } = {}) {
    if (!view.can("serverTools")) return;
    const args = { limit: 100 };
    const filter = byId("filter").value.trim();
    if (filter !== "") args.filter = filter;
    const { cursor } = state;
    if (isMore && cursor !== undefined) args.cursor = cursor;
    try {
      const { list_artifacts } = await tools();
      if (!list_artifacts) throw new Error("this host does not let Views call list_artifacts");
      const data = await ask(view, list_artifacts, args);
      // Another answer may be shown already, such as that to a second click on "Show more".
      if (byId("filter").value.trim() !== filter || (isMore && state.cursor !== cursor)) return;
      showList(data, { isMore });
      say(byId("status"), "");
    } catch (error) {
      say(byId("status"), plain(error), "bad");
    }
  }

  // One artifact

  /** Ends what is being done for the artifact before. */
  function renew() {
    state.work.abort();
    state.work = new AbortController();
    state.content?.text?.close();
    return state.work.signal;
  }

  async function openArtifact(artifact, { tab, line, seed } = {}) {
    const signal = renew();
    state.artifact = artifact;
    state.content = { pieces: [], text: undefined, reader: undefined, seed, line };
    byId("main").dataset.shows = "artifact";
    byId("nothing").hidden = true;
    byId("artifact").hidden = false;
    drawList();
    showFacts();
    const kind = kindOf(artifact.mimeType);
    const isSvg = artifact.mimeType.startsWith("image/svg");
    state.tabs = [...(isSvg ? ["Picture", "Text"] : TABS[kind]), "Details"];
    await openTab(tab ?? state.tabs[0]);
    if (signal.aborted) return;
    tellModel();
  }

  function showFacts() {
    const { name, version, newest, mimeType, size, description, warnings } = state.artifact;
    byId("name").replaceChildren(shown(name));
    const facts = [mimeType, bytes(size), description, ...warnings].filter((text) => text !== "");
    byId("facts").replaceChildren(shown(facts.join(" · ")));
    const versions = [];
    for (let number = newest ?? 0; number >= 0 && versions.length < MAX_VERSIONS; number--) versions.push(number);
    byId("versions").replaceChildren(...versions.map((number) => el("option", { value: number }, String(number))));
    byId("versions").value = String(version ?? newest ?? 0);
    byId("versions-label").hidden = versions.length < 2;
    byId("download").hidden = !view.can("downloadFile") || size > MAX_BYTES_HELD;
  }

  function chooseTab(tab) {
    state.content.isTabChosen = true;
    return openTab(tab);
  }

  async function openTab(tab) {
    state.tab = tab;
    const tabs = state.tabs.map((name) => {
      const isSelected = name === tab;
      const properties = {
        type: "button",
        role: "tab",
        id: `tab-${name}`,
        "aria-selected": String(isSelected),
        "aria-controls": "body",
        tabindex: isSelected ? "0" : "-1",
        click: () => chooseTab(name),
      };
      return el("button", properties, name);
    });
    const hadFocus = document.activeElement?.getAttribute("role") === "tab";
    byId("tabs").replaceChildren(...tabs);
    if (hadFocus) byId(`tab-${tab}`).focus();
    byId("body").setAttribute("aria-labelledby", `tab-${tab}`);
    byId("body").removeAttribute("tabindex");
    byId("body").replaceChildren();
    byId("tools").replaceChildren();
    byId("foot").replaceChildren();
    say(byId("loading"), "");
    const { artifact } = state;
    const isCurrent = () => state.artifact === artifact && state.tab === tab;
    const show = {
      Table: showTable,
      Tree: showTree,
      Text: showText,
      Picture: showPicture,
      Player: showPlayer,
      Bytes: showBytes,
      Details: showDetails,
    }[tab];
    try {
      await show(isCurrent);
    } catch (error) {
      if (isCurrent() && error.reason !== "cancelled" && error.reason !== "closed")
        say(byId("loading"), plain(error), "bad");
    }
  }

  async function reader() {
    const { content, artifact } = state;
    if (content.reader) return content.reader;
    const { read_artifact } = await tools();
    if (!view.can("serverTools") || !read_artifact) throw new Error("this host does not let Views read artifacts");
    content.reader ??= new ArtifactReader(view, read_artifact, artifact);
    return content.reader;
  }

  /** Reads the next piece of text into the content; pieces that were read stay for other tabs. */
  async function readPiece() {
    const { content } = state;
    // One at a time, for all callers together.
    content.reading ??= (async () => {
      try {
        const source = await reader();
        if (source.isDone && (content.pieces.length > 0 || state.artifact.size === 0)) return;
        content.pieces.push(await source.nextText(state.work.signal));
      } finally {
        content.reading = undefined;
      }
    })();
    await content.reading;
  }

  /** Reads the whole text. A large one is read only when the user asks for it: then this waits for the button. */
  async function readWhole(isCurrent, what) {
    const { artifact, content } = state;
    if (content.whole !== undefined) return content.whole;
    if (content.seed?.text !== undefined && !view.can("serverTools")) return content.seed.text;
    await allowed(artifact.size, what, isCurrent);
    const source = await reader();
    while (!source.isDone && isCurrent()) {
      if (source.isFull)
        throw new Error(
          `${artifact.name} has ${bytes(artifact.size)}; this page holds at most ${bytes(MAX_BYTES_HELD)}. The text can be read up to there`,
        );
      await readPiece();
      say(byId("loading"), source.isDone ? "" : `Reading… ${bytes(source.at)} of ${bytes(artifact.size)}`);
    }
    if (!isCurrent()) return "";
    content.whole = content.pieces.join("");
    return content.whole;
  }

  /** Resolves at once for a small artifact, and otherwise when the user has pressed a button. */
  async function allowed(size, what, isCurrent) {
    if (size <= READ_AT_ONCE || state.content.isAllowed) return;
    if (size > MAX_BYTES_HELD)
      throw new Error(`The artifact has ${bytes(size)}; this page holds at most ${bytes(MAX_BYTES_HELD)}`);
    await new Promise((resolve) => {
      const button = el("button", { class: "first", type: "button", click: resolve }, `Read all ${bytes(size)}`);
      byId("body").replaceChildren(
        el("div", { class: "player" }, el("p", { class: "muted" }, `${what} needs the whole artifact.`), button),
      );
    });
    if (!isCurrent()) return;
    state.content.isAllowed = true;
    byId("body").replaceChildren();
  }

  // Tables

  async function showTable(isCurrent) {
    const { artifact } = state;
    const kind = kindOf(artifact.mimeType);
    if (kind === "table") return showCsv(isCurrent);
    const value = await parsed(isCurrent);
    if (!isCurrent()) return undefined;
    const data = tableOf(value);
    // A value that is not a table is a tree, unless the user asked for a table.
    if (!data && !state.content.isTabChosen) return openTab("Tree");
    if (!data) {
      byId("body").replaceChildren(
        el(
          "div",
          { class: "player" },
          el("p", { class: "muted" }, "Only a list of objects or of lists can be a table. The tree shows this value."),
        ),
      );
      return undefined;
    }
    return addTable(data, isCurrent);
  }

  async function parsed(isCurrent) {
    const { content, artifact } = state;
    if (content.value !== undefined) return content.value;
    const text = await readWhole(isCurrent, "Reading JSON");
    if (!isCurrent()) return undefined;
    try {
      content.value = kindOf(artifact.mimeType) === "json-lines" ? parseJsonLines(text) : parseJson(text);
    } catch (error) {
      throw new Error(`This is not JSON: ${error.message}`);
    }
    return content.value;
  }

  async function showCsv(isCurrent) {
    const { content } = state;
    if (content.csv === undefined) {
      if (!(content.seed?.text !== undefined && !view.can("serverTools"))) await readPiece();
      if (!isCurrent()) return;
      const first = content.pieces[0] ?? content.seed?.text ?? "";
      content.csv = {
        reader: new CsvReader(state.artifact.mimeType.includes("tab-separated") ? "\t" : separatorOf(first)),
        used: 0,
      };
    }
    feedCsv();
    const { csv } = content;
    const [columns = [], ...rows] = csv.reader.rows;
    if (columns.length === 0) {
      byId("body").replaceChildren(el("div", { class: "player" }, el("p", { class: "muted" }, "The table is empty.")));
      return;
    }
    csv.data ??= { columns: columns.map((name, index) => (name.trim() === "" ? `Column ${index + 1}` : name)), rows };
    csv.given = csv.reader.rows.length;
    addTable(csv.data, isCurrent, {
      more: async () => {
        await readPiece();
        feedCsv();
        for (const row of csv.reader.rows.slice(csv.given)) csv.data.rows.push(row);
        csv.given = csv.reader.rows.length;
      },
    });
  }

  /** Gives the pieces that have come to the reader of CSV. */
  function feedCsv() {
    const { content } = state;
    const { csv } = content;
    const pieces = content.pieces.length > 0 ? content.pieces : [content.seed?.text ?? ""];
    while (csv.used < pieces.length) csv.reader.push(pieces[csv.used++]);
    const isDone = content.reader ? content.reader.isDone : true;
    if (isDone && !csv.isEnded) {
      csv.isEnded = true;
      csv.reader.end();
    }
  }

  /** Shows a table, with a field that filters it. `more` reads more rows while there are any. */
  function addTable(data, isCurrent, { more } = {}) {
    const value = el("pre", { class: "cell-value mono", hidden: true, "aria-live": "polite" });
    const counts = el("span", { class: "muted", role: "status" });
    const table = new Table({
      ...data,
      label: `Table of ${state.artifact.name}`,
      onCell: (row, column, text) => {
        value.hidden = false;
        value.replaceChildren(
          el("span", { class: "muted" }, shown(`${column}, row ${count(row + 1)}: `)),
          shown(text.length > 20_000 ? `${text.slice(0, 20_000)}…` : text),
        );
      },
    });
    const filter = el("input", { type: "search", placeholder: "Filter rows", "aria-label": "Filter rows" });
    const isMore = () =>
      more !== undefined &&
      state.content.reader !== undefined &&
      !state.content.reader.isDone &&
      !state.content.reader.isFull;
    const all = el("button", { class: "quiet", type: "button" }, "Read all rows");
    function tell() {
      const { shown: seen, all: whole } = table.counts;
      const known = isMore() ? `${count(whole)} rows so far` : `${count(whole)} rows`;
      const cut = state.content.csv?.reader.isCut ? `, the first ${data.columns.length} columns` : "";
      counts.textContent = (seen === whole ? known : `${count(seen)} of ${known}`) + cut;
      all.hidden = !isMore();
    }
    function showRows() {
      table.update();
      tell();
    }
    const readMore = reading({ isCurrent, isMore, read: more, show: showRows });
    filter.addEventListener(
      "input",
      debounced(120, () => {
        table.update(filter.value);
        tell();
      }),
    );
    all.addEventListener("click", () => readMore(true));
    table.element.addEventListener("scroll", () => {
      const { scrollTop, clientHeight, scrollHeight } = table.element;
      if (scrollTop + clientHeight > scrollHeight - 600) readMore(false);
    });
    byId("body").replaceChildren(table.element);
    byId("tools").replaceChildren(filter);
    byId("foot").replaceChildren(counts, el("span", { class: "grow" }), all, value);
    table.update();
    tell();
  }

  /**
   * Returns a function that reads the next part, or all of them, and shows each; while it reads,
   * further calls do nothing.
   */
  function reading({ isCurrent, isMore, read, show }) {
    let isReading = false;
    return async (isAll) => {
      if (isReading || !isMore()) return;
      isReading = true;
      try {
        do {
          await read();
          if (!isCurrent()) return;
          show();
        } while (isAll && isMore());
      } catch (error) {
        if (isCurrent()) say(byId("loading"), plain(error), "bad");
      } finally {
        isReading = false;
      }
    };
  }

  // Trees

  async function showTree(isCurrent) {
    const value = await parsed(isCurrent);
    if (isCurrent()) byId("body").replaceChildren(jsonTree(value));
  }

  // Texts

  async function showText(isCurrent) {
    const { content } = state;
    const body = byId("body");
    body.tabIndex = 0;
    content.text?.close();
    const text = new TextView(body);
    content.text = text;
    let used = 0;
    const isProse = /^text\/(plain|markdown|html)/.test(state.artifact.mimeType);
    const wrap = el("input", { type: "checkbox" });
    wrap.checked = isProse;
    text.setWrap(isProse);
    const find = el("input", { type: "search", placeholder: "Find", "aria-label": "Find in the text" });
    const found = el("span", { class: "small muted", role: "status" });
    const before = el("button", { class: "quiet", type: "button", "aria-label": "Previous occurrence" }, "↑");
    const after = el("button", { class: "quiet", type: "button", "aria-label": "Next occurrence" }, "↓");
    const about = el("span", { class: "muted", role: "status" });
    const all = el("button", { class: "quiet", type: "button" }, "Read all");
    const isMore = () => content.reader !== undefined && !content.reader.isDone && !content.reader.isFull;
    function tell() {
      const read =
        content.reader && !content.reader.isDone
          ? `, ${bytes(content.reader.at)} of ${bytes(state.artifact.size)} read`
          : "";
      const binary = content.reader?.isBinary ? ". Not all of it is UTF-8" : "";
      about.textContent = `${count(text.lineCount)} lines${read}${binary}`;
      all.hidden = !isMore();
    }
    function tellFound() {
      const { count: size, isCut, at } = text.found;
      const where = content.reader && !content.reader.isDone ? " so far" : "";
      found.textContent =
        find.value === ""
          ? ""
          : size === 0
            ? `none${where}`
            : `${count(at)} of ${count(size)}${isCut ? "+" : ""}${where}`;
      before.hidden = after.hidden = size === 0;
    }
    function add() {
      const pieces = content.pieces.length > 0 || view.can("serverTools") ? content.pieces : [content.seed?.text ?? ""];
      while (used < pieces.length) text.append(pieces[used++]);
      tell();
      if (find.value !== "") tellFound();
    }
    const readMore = reading({ isCurrent, isMore, read: readPiece, show: add });
    find.addEventListener(
      "input",
      debounced(120, () => {
        text.search(find.value);
        tellFound();
      }),
    );
    function step(direction) {
      text.next(direction);
      tellFound();
    }
    find.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      step(event.shiftKey ? -1 : 1);
    });
    before.addEventListener("click", () => step(-1));
    after.addEventListener("click", () => step(1));
    wrap.addEventListener("change", () => text.setWrap(wrap.checked));
    all.addEventListener("click", () => readMore(true));
    body.onscroll = () => {
      if (state.tab === "Text" && body.scrollTop + body.clientHeight > body.scrollHeight - 800) readMore(false);
    };
    byId("tools").replaceChildren(find, found, before, after, el("label", { class: "check small" }, wrap, "Wrap"));
    byId("foot").replaceChildren(about, el("span", { class: "grow" }), all);
    tellFound();
    body.replaceChildren(text.element);
    if (content.pieces.length === 0 && view.can("serverTools")) {
      say(byId("loading"), "Reading…");
      await readPiece();
      if (!isCurrent()) return;
      say(byId("loading"), "");
    }
    add();
    if (content.line > 1) {
      while (text.lineCount < content.line && isMore() && isCurrent()) await readMore(false);
      text.goTo(content.line);
      content.line = undefined;
    }
  }

  // Pictures and sounds

  /** The whole artifact as a `data:` URL. */
  async function wholeUrl(isCurrent, what) {
    const { artifact, content } = state;
    if (content.url !== undefined) return content.url;
    if (content.seed?.bytes) {
      content.url = await dataUrl(new Blob([content.seed.bytes]), artifact.mimeType);
      return content.url;
    }
    await allowed(artifact.size, what, isCurrent);
    if (!isCurrent()) return undefined;
    say(byId("loading"), "Reading…");
    const blob = (await inOneAnswer(artifact)) ?? (await inPieces(artifact, isCurrent));
    if (!isCurrent()) return undefined;
    say(byId("loading"), "");
    content.url = await dataUrl(blob, artifact.mimeType);
    return content.url;
  }

  /** An image that the server gives as an image: in one answer, which is larger than a piece. */
  async function inOneAnswer(artifact) {
    if (kindOf(artifact.mimeType) !== "picture" || artifact.size > READ_AT_ONCE) return undefined;
    const { read_artifact } = await tools();
    if (!read_artifact || !view.can("serverTools")) throw new Error("this host does not let Views read artifacts");
    const args = { name: artifact.name };
    if (artifact.version !== undefined) args.version = artifact.version;
    const result = await view.callTool(read_artifact, args, { signal: state.work.signal });
    if (result.isError) throw new Error(textOf(result) || "read_artifact failed without giving a reason");
    const [block] = contentOf(result);
    return block?.type === "image" && typeof block.data === "string" ? new Blob([bytesOf(block.data)]) : undefined;
  }

  async function inPieces(artifact, isCurrent) {
    const { read_artifact } = await tools();
    const source = new ArtifactReader(view, read_artifact, artifact);
    return source.restOfBytes(
      state.work.signal,
      () => isCurrent() && say(byId("loading"), `Reading… ${bytes(source.at)} of ${bytes(artifact.size)}`),
    );
  }

  async function showPicture(isCurrent) {
    const url = await wholeUrl(isCurrent, "A picture");
    if (!isCurrent() || url === undefined) return;
    const image = el("img", { alt: `Picture ${state.artifact.name}` });
    const frame = el(
      "div",
      {
        class: "picture-frame",
        tabindex: "0",
        role: "group",
        "aria-label": "Picture. Arrow keys move it, plus and minus zoom, 0 fits it, 1 shows its actual size.",
      },
      image,
    );
    const scale = el("span", { class: "small muted" });
    const buttons = {
      out: el("button", { class: "quiet", type: "button", "aria-label": "Zoom out" }, "−"),
      in: el("button", { class: "quiet", type: "button", "aria-label": "Zoom in" }, "+"),
      fit: el("button", { class: "quiet", type: "button" }, "Fit"),
      whole: el("button", { class: "quiet", type: "button" }, "Actual size"),
    };
    image.addEventListener("load", () => {
      const panZoom = new PanZoom(
        frame,
        image,
        buttons,
        (value) => (scale.textContent = `${Math.round(value * 100)} %`),
      );
      panZoom.load(false);
      byId("foot").replaceChildren(
        el("span", { class: "muted" }, `${count(image.naturalWidth)} × ${count(image.naturalHeight)} pixels`),
      );
    });
    image.addEventListener("error", () =>
      say(byId("loading"), "This is not a picture that a browser can show. Its bytes are under “Bytes”.", "bad"),
    );
    image.src = url;
    byId("body").replaceChildren(frame);
    byId("tools").replaceChildren(buttons.out, scale, buttons.in, buttons.fit, buttons.whole);
  }

  async function showPlayer(isCurrent) {
    const { artifact } = state;
    const isFilm = kindOf(artifact.mimeType) === "film";
    const url = await wholeUrl(isCurrent, isFilm ? "A film" : "A sound");
    if (!isCurrent() || url === undefined) return;
    const player = el(isFilm ? "video" : "audio", { controls: true, "aria-label": artifact.name });
    player.addEventListener("error", () =>
      say(byId("loading"), `This browser cannot play ${artifact.mimeType}.`, "bad"),
    );
    player.addEventListener("loadedmetadata", () => {
      const seconds = player.duration;
      if (Number.isFinite(seconds))
        byId("foot").replaceChildren(el("span", { class: "muted" }, `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`));
    });
    player.src = url;
    byId("body").replaceChildren(el("div", { class: "player" }, player));
  }

  async function showBytes(isCurrent) {
    const { artifact, content } = state;
    let first = content.seed?.bytes;
    if (!first) {
      const { read_artifact } = await tools();
      if (!view.can("serverTools") || !read_artifact) throw new Error("this host does not let Views read artifacts");
      const piece =
        artifact.size === 0
          ? { bytes: new Uint8Array() }
          : await new ArtifactReader(view, read_artifact, artifact).next(state.work.signal);
      first = piece.bytes ?? new TextEncoder().encode(piece.text);
    }
    if (!isCurrent()) return;
    byId("body").tabIndex = 0;
    byId("body").replaceChildren(el("pre", { class: "hex" }, hexOf(first.subarray(0, HEX_BYTES)) || "No bytes."));
    const seen = Math.min(HEX_BYTES, first.length);
    byId("foot").replaceChildren(
      el(
        "span",
        { class: "muted" },
        seen < artifact.size ? `The first ${bytes(seen)} of ${bytes(artifact.size)}` : bytes(artifact.size),
      ),
    );
  }

  // Details

  async function showDetails(isCurrent) {
    const { artifact } = state;
    if (artifact.details === undefined && view.can("serverTools")) {
      const record = await recordOf(artifact.name);
      artifact.details = record?.details ?? {};
    }
    if (!isCurrent()) return;
    const { details = {} } = artifact;
    const facts = {
      name: artifact.name,
      version: artifact.version,
      uri: artifact.uri,
      "MIME type": artifact.mimeType,
      size: `${bytes(artifact.size)} (${count(artifact.size)} bytes)`,
      description: artifact.description,
      warnings: artifact.warnings.join("\n"),
    };
    const rows = Object.entries({ ...facts, ...details }).filter(
      ([, value]) => value !== undefined && value !== "" && value !== null,
    );
    const cells = rows.flatMap(([name, value]) => [
      el("dt", {}, shown(name.replaceAll("_", " "))),
      el("dd", {}, typeof value === "object" ? jsonTree(value) : shown(String(value))),
    ]);
    byId("body").tabIndex = 0;
    byId("body").replaceChildren(el("dl", { class: "details" }, ...cells));
  }

  /** The record of an artifact by its name, with details. */
  async function recordOf(name) {
    const { list_artifacts } = await tools();
    if (!list_artifacts) return undefined;
    let cursor;
    for (let page = 0; page < 5; page++) {
      const data = await ask(view, list_artifacts, {
        filter: name,
        details: true,
        limit: 200,
        ...(cursor === undefined ? {} : { cursor }),
      });
      const found = listed(data).find((artifact) => artifact.name === name);
      if (found) return found;
      cursor = data.next_cursor;
      if (typeof cursor !== "string") return undefined;
    }
    return undefined;
  }

  // The call that opened this View

  /** The name and version in the arguments of read_artifact: a name, or an `artifact://` URI. */
  function namedIn(args) {
    const match = /^artifact:\/\/([^?]+)(?:\?version=(\d+))?$/.exec(args.name);
    const version = Number.isInteger(args.version)
      ? args.version
      : match?.[2] === undefined
        ? undefined
        : Number(match[2]);
    return { name: match ? decoded(match[1]) : args.name, version };
  }

  function decoded(text) {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  }

  /** Opens the artifact of the call of read_artifact. Without calls of tools, only its answer is shown. */
  async function openRead(args, result) {
    const { name, version } = namedIn(args);
    let record;
    if (view.can("serverTools")) {
      reload();
      record = await recordOf(name).catch(() => undefined);
    }
    let seed;
    try {
      seed = pieceOf(result, 0);
    } catch {
      seed = undefined;
    }
    const note = /version \d+ \(([^)]+)\)/.exec(textOf(result));
    const [block] = contentOf(result);
    const mimeType = block?.mimeType ?? block?.resource?.mimeType ?? note?.[1] ?? "text/plain";
    const artifact =
      record ?? artifactOf({ name, version: seed?.version, mime_type: mimeType, size_bytes: seed?.size ?? 0 });
    const read = version ?? seed?.version;
    // The record is that of the newest version.
    if (Number.isInteger(read) && read !== artifact.version)
      Object.assign(artifact, { version: read, size: seed?.size ?? artifact.size, details: {} });
    // With calls of tools the View reads by itself, so that all tabs have all of it.
    const isWhole = seed?.bytes && seed.bytes.length === seed.size;
    const isUsed = isWhole || !view.can("serverTools");
    await openArtifact(
      { ...artifact },
      { seed: isUsed ? seed : undefined, line: args.start_line, tab: args.start_line > 1 ? "Text" : undefined },
    );
  }

  function tellModel() {
    if (!view.can("updateModelContext")) return;
    const { name, version, mimeType, size } = state.artifact;
    const content = `The user is looking at the artifact ${JSON.stringify(name)}${version === undefined ? "" : `, version ${version}`} (${mimeType}, ${size} bytes). read_artifact reads it.`;
    view.setModelContext({ content }).catch((error) => view.log("warning", plain(error)));
  }

  async function download() {
    const { artifact } = state;
    const button = byId("download");
    button.disabled = true;
    try {
      const { read_artifact } = await tools();
      const blob = await new ArtifactReader(view, read_artifact, artifact).restOfBytes(state.work.signal);
      const url = await dataUrl(blob, "application/octet-stream");
      const resource = {
        uri: `file:///${encodeURIComponent(artifact.name)}`,
        mimeType: artifact.mimeType,
        blob: url.slice(url.indexOf(",") + 1),
      };
      await view.downloadFile([{ type: "resource", resource }]);
      say(byId("status"), "Saved.", "ok");
    } catch (error) {
      say(byId("status"), plain(error), "bad");
    } finally {
      button.disabled = false;
    }
  }

  // Events

  submits(byId("filter"), undefined, () => reload());
  byId("filter").addEventListener(
    "input",
    debounced(200, () => reload()),
  );
  byId("reload").addEventListener("click", () => reload());
  byId("more").addEventListener("click", () => reload({ isMore: true }));
  byId("back").addEventListener("click", () => {
    byId("main").dataset.shows = "list";
    (byId("list").querySelector("[aria-current]") ?? byId("filter")).focus();
  });
  byId("versions").addEventListener("change", () => {
    const version = Number(byId("versions").value);
    const { artifact } = state;
    // The size of another version is known once it is read: its first piece says it.
    openVersion(artifact, version);
  });
  byId("download").addEventListener("click", download);
  byId("tabs").addEventListener("keydown", (event) => {
    const at = state.tabs.indexOf(state.tab);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: state.tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    chooseTab(state.tabs[(to + state.tabs.length) % state.tabs.length]);
  });
  byId("list").addEventListener("keydown", (event) => {
    const buttons = [...byId("list").querySelectorAll("button")];
    const at = buttons.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (to === undefined || !buttons[to]) return;
    event.preventDefault();
    buttons[to].focus();
  });

  async function openVersion(artifact, version) {
    try {
      const { read_artifact } = await tools();
      const result = await view.callTool(read_artifact, { name: artifact.name, version, start_byte: 0, max_bytes: 1 });
      if (result.isError) throw new Error(textOf(result));
      const { size } = pieceOf(result, 0);
      await openArtifact({
        ...artifact,
        version,
        size: size ?? artifact.size,
        details: version === artifact.newest ? artifact.details : {},
      });
    } catch (error) {
      byId("versions").value = String(artifact.version);
      say(byId("loading"), plain(error), "bad");
    }
  }

  view.on("context", () => {
    byId("filter-bar").hidden = !view.can("serverTools");
  });
  view.on("input", (args) => {
    state.input = args;
    if (typeof args.filter === "string") byId("filter").value = args.filter;
    byId("list-note").textContent = "Waiting for the tool…";
  });
  view.on("result", (result) => {
    byId("list-note").textContent = "";
    if (result.isError) {
      say(byId("status"), plain(textOf(result) || "The tool failed."), "bad");
      if (typeof state.input.name === "string") reload();
      return undefined;
    }
    if (typeof state.input.name === "string") return openRead(state.input, result);
    showList(structured(result));
    return undefined;
  });
  view.on("cancelled", (reason) => {
    byId("list-note").textContent = "";
    say(
      byId("status"),
      typeof reason === "string" && reason !== "" ? `The call was cancelled: ${reason}` : "The call was cancelled.",
      "warn",
    );
  });
  view.on("teardown", () => renew());

  return open(view);
}
