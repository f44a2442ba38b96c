// The View of encodePlantUML and decodePlantUML: the text, its link, and its picture where an engine draws it.
import {
  ask,
  byId,
  bytes,
  contentOf,
  copyButton,
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
import { PanZoom } from "./pan-zoom.js";
import { MAX_BYTES, checked, lengthOf, problemsOf, utf8Length } from "./diagram-source.js";

const LINE_HEIGHT = 20;
const PADDING = 8;
/** Most line numbers that are drawn; a diagram of 50 KB has a few thousand lines. */
const MAX_NUMBERS = 52_000;

export function start() {
  const view = page("marquetry-diagram", "Diagram");
  const source = byId("source");
  const state = {
    /** The text of which `link` is the link. */
    encodedText: undefined,
    link: undefined,
    /** The names of the engine's tools; undefined until it is known whether there are any. */
    engine: undefined,
    /** Whether the engine has answered. */
    isDrawn: false,
    /** Problems that the text has by itself, and those that the engine found. */
    own: [],
    found: [],
    /** Whether the user has changed the text. */
    isEdited: false,
    before: undefined,
  };

  const panZoom = new PanZoom(
    byId("frame"),
    byId("picture"),
    { in: byId("zoom-in"), out: byId("zoom-out"), fit: byId("zoom-fit") },
    (scale) => (byId("zoom-scale").textContent = `${Math.round(scale * 100)} %`),
  );

  // The text

  function setSource(text, { isKept = false } = {}) {
    state.before = isKept && source.value !== "" && source.value !== text ? source.value : undefined;
    byId("undo").hidden = state.before === undefined;
    source.value = text;
    source.scrollTop = 0;
    look();
  }

  /** Looks at the text: lines, size, problems. Returns whether it can be encoded. */
  function look() {
    const text = source.value;
    const lines = Math.min(MAX_NUMBERS, text.split("\n").length);
    if (byId("numbers").dataset.lines !== String(lines)) {
      byId("numbers").dataset.lines = lines;
      byId("numbers").textContent = Array.from({ length: lines }, (_, index) => index + 1).join("\n");
    }
    const size = utf8Length(text);
    const sizeText = byId("source-size");
    sizeText.textContent =
      size > MAX_BYTES / 2 ? `${bytes(size)} of ${bytes(MAX_BYTES)}` : text === "" ? "" : bytes(size);
    state.own = problemsOf(text);
    showProblems();
    return text.trim() !== "" && !state.own.some((problem) => problem.isFatal);
  }

  function showProblems() {
    const problems = [...state.own, ...state.found];
    const items = problems.map((problem) => {
      const text = problem.line ? `Line ${problem.line}: ${problem.text}` : problem.text;
      const content = problem.line
        ? el("button", { class: "quiet", type: "button", click: () => goTo(problem.line) }, shown(text))
        : el("span", {}, shown(text));
      content.dataset.kind = problem.kind;
      return el("li", {}, content);
    });
    byId("problems").replaceChildren(...items);
    const isBad = problems.some((problem) => problem.kind === "bad");
    if (isBad) source.setAttribute("aria-invalid", "true");
    else source.removeAttribute("aria-invalid");
    const marks = problems
      .filter((problem) => problem.line)
      .map((problem) => {
        const mark = el("div", { class: "line-mark", "data-kind": problem.kind });
        mark.dataset.line = problem.line;
        return mark;
      });
    byId("marks").replaceChildren(...marks);
    align();
  }

  /** Lays line numbers and marks beside their lines. */
  function align() {
    byId("numbers").style.transform = "";
    byId("numbers").scrollTop = source.scrollTop;
    for (const mark of byId("marks").children) {
      mark.style.top = `${PADDING + (Number(mark.dataset.line) - 1) * LINE_HEIGHT - source.scrollTop}px`;
    }
  }

  function goTo(line) {
    const lines = source.value.split("\n");
    const at = lines.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0);
    const text = lines[line - 1] ?? "";
    source.focus();
    source.setSelectionRange(Math.min(at, source.value.length), Math.min(at + text.length, source.value.length));
    source.scrollTop = Math.max(0, (line - 1) * LINE_HEIGHT - source.clientHeight / 2);
    align();
  }

  // The link

  function showLink(link) {
    state.link = link;
    byId("url").value = link?.url ?? "";
    byId("copy-url").disabled = byId("copy-code").disabled = !link;
    byId("open-url").hidden = byId("open-url").disabled = !link || !view.can("openLinks");
    byId("length").hidden = !link;
    if (!link) {
      say(byId("length-note"), "");
      return;
    }
    const { kind, part, text } = lengthOf(link.length);
    byId("length").dataset.kind = kind;
    byId("length-bar").style.width = `${Math.max(2, part * 100)}%`;
    byId("length-text").textContent = text;
    say(byId("length-note"), typeof link.warning === "string" ? plain(link.warning) : "", kind);
    if (["svg", "png", "txt"].includes(link.format)) byId("format").value = link.format;
  }

  /** Reads the answer of encodePlantUML. */
  function linkOf(data) {
    if (typeof data?.url !== "string" || typeof data.encoded !== "string") return undefined;
    return { ...data, length: Number(data.length) || data.url.length };
  }

  // Work that follows the text: its link, then its picture. The next link does not wait for a
  // picture, which an engine may draw for seconds.

  const follow = oneAtATime(work);
  const redraw = oneAtATime(draw);

  async function work() {
    const text = source.value;
    const format = byId("format").value;
    if (!look()) {
      state.encodedText = undefined;
      state.found = [];
      showLink(undefined);
      showProblems();
      showPicture(undefined);
      return;
    }
    if (!view.can("serverTools")) {
      if (state.isEdited)
        say(
          byId("status"),
          "This host does not let Views call tools: the link and the picture cannot follow the text.",
          "warn",
        );
      return;
    }
    try {
      if (state.encodedText !== text || state.link?.format !== format) {
        const link = linkOf(await ask(view, "encodePlantUML", { plantumlCode: text, format }));
        state.encodedText = text;
        showLink(link);
        say(byId("status"), "");
      }
      if (state.isEdited) await tellModel(text);
      redraw();
    } catch (error) {
      showLink(undefined);
      state.encodedText = undefined;
      say(byId("status"), plain(error), "bad");
    }
  }

  // The picture

  async function draw() {
    const text = state.encodedText;
    if (text === undefined) return;
    state.engine ??= await namesOf(view, ["renderPlantUML", "checkPlantUML"]);
    const { renderPlantUML, checkPlantUML } = state.engine;
    if (!renderPlantUML && !checkPlantUML) {
      showPicture(undefined);
      return;
    }
    byId("waiting").hidden = !renderPlantUML;
    try {
      const [check, picture] = await Promise.all([
        checkPlantUML ? view.callTool(checkPlantUML, { plantumlCode: text }) : undefined,
        renderPlantUML ? view.callTool(renderPlantUML, { plantumlCode: text }) : undefined,
      ]);
      state.isDrawn = true;
      if (source.value !== text) return;
      showCheck(check, picture);
      showPicture(picture);
    } catch (error) {
      state.found = [];
      if (state.isDrawn || error.reason !== "refused") {
        state.found.push({ kind: "warn", text: `The picture is not up to date: ${plain(error)}` });
      } else {
        // A host that cannot list tools refuses the call of an unknown one.
        state.engine = {};
        view.log("info", `no engine: ${plain(error)}`);
      }
      showProblems();
      showPicture(undefined);
    } finally {
      byId("waiting").hidden = true;
    }
  }

  function showCheck(check, picture) {
    const answers = [check, picture].filter(Boolean).map(structured).filter(Boolean);
    const outcomes = answers.map(checked);
    const failed = outcomes.find((outcome) => !outcome.isValid);
    state.found = failed ? [failed.problem] : [];
    if (!failed && picture?.isError)
      state.found = [{ kind: "bad", text: plain(textOf(picture) || "The engine could not draw this.") }];
    byId("kind").textContent = outcomes.find((outcome) => outcome.about)?.about.toLowerCase() ?? "";
    showProblems();
  }

  /** The picture in a result as a `data:` URL. In an image neither scripts nor links of an SVG do anything. */
  function pictureOf(result) {
    for (const block of contentOf(result)) {
      const { mimeType, blob, text } = block.type === "resource" ? (block.resource ?? {}) : {};
      const data = block.type === "image" ? block.data : blob;
      const type = block.type === "image" ? block.mimeType : mimeType;
      if (type !== "image/svg+xml" && type !== "image/png") continue;
      if (typeof data === "string" && /^[A-Za-z0-9+/=\s]*$/.test(data)) return `data:${type};base64,${data}`;
      if (typeof text === "string" && type === "image/svg+xml")
        return `data:${type};charset=utf-8,${encodeURIComponent(text)}`;
    }
    const svg = structured(result)?.svg;
    return typeof svg === "string" ? `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}` : undefined;
  }

  function showPicture(result) {
    const url = result && !result.isError ? pictureOf(result) : undefined;
    const frame = byId("frame");
    const picture = byId("picture");
    if (url === undefined) {
      // A mistake while typing keeps the last picture, paler.
      const isOld = result !== undefined && !picture.hidden;
      frame.toggleAttribute("data-is-old", isOld);
      if (isOld) return;
      picture.hidden = true;
      picture.removeAttribute("src");
      byId("zoom").hidden = true;
      frame.removeAttribute("data-has-picture");
      frame.removeAttribute("tabindex");
      frame.removeAttribute("role");
      frame.removeAttribute("aria-label");
      byId("no-picture").hidden = false;
      const [text, isLinkOffered] = absence(result);
      byId("no-picture-text").textContent = text;
      byId("open-instead").hidden = !isLinkOffered || !view.can("openLinks");
      return;
    }
    picture.onload = () => {
      const isNew = picture.hidden;
      picture.hidden = false;
      frame.removeAttribute("data-is-old");
      frame.toggleAttribute("data-has-picture", true);
      frame.tabIndex = 0;
      frame.setAttribute("role", "group");
      frame.setAttribute(
        "aria-label",
        "Picture. Arrow keys move it, plus and minus zoom, 0 fits it, 1 shows its actual size.",
      );
      byId("no-picture").hidden = true;
      byId("zoom").hidden = false;
      picture.alt = `${byId("kind").textContent || "PlantUML"} diagram; its source is beside it`;
      panZoom.load(!isNew);
    };
    picture.onerror = () => {
      picture.hidden = true;
      showPicture(undefined);
      byId("no-picture-text").textContent = "The engine's picture cannot be shown.";
    };
    picture.src = url;
  }

  /** The reason why there is no picture, and whether the link shows one. */
  function absence(result) {
    if (source.value.trim() === "") return ["Write a diagram, or open one from its link.", false];
    if (result?.isError) return ["The diagram has a mistake; its line is marked.", false];
    if (!state.link) return ["There is no picture of this text.", false];
    const host = /^https?:\/\/([^/]+)/.exec(state.link.url)?.[1] ?? "the server";
    return [
      `This server has no PlantUML engine of its own. The link shows the picture: it sends the diagram to ${host}.`,
      true,
    ];
  }

  // The conversation

  async function tellModel(text) {
    if (!view.can("updateModelContext")) return;
    const content = `The user has edited the diagram in its View. Its PlantUML source is now:\n\n${text}`;
    const structuredContent = { plantumlCode: text, url: state.link?.url };
    try {
      await view.setModelContext(
        view.can("updateModelContext.structuredContent") ? { content, structuredContent } : { content },
      );
    } catch (error) {
      view.log("warning", plain(error));
    }
  }

  async function openLink() {
    if (!state.link) return;
    try {
      await view.openLink(state.link.url);
      say(byId("status"), "");
    } catch (error) {
      say(byId("status"), plain(error), "bad");
    }
  }

  // Events of the page

  const followSoon = debounced(300, follow);
  source.addEventListener("input", () => {
    state.isEdited = true;
    state.found = [];
    look();
    followSoon();
  });
  source.addEventListener("scroll", align);
  // Tab leaves the field, as everywhere; an indent is two spaces by hand.
  byId("format").addEventListener("change", follow);
  byId("undo").addEventListener("click", () => {
    state.isEdited = true;
    setSource(state.before);
    source.focus();
    follow();
  });
  byId("open-url").addEventListener("click", openLink);
  byId("open-instead").addEventListener("click", openLink);
  byId("url").addEventListener("focus", (event) => event.target.select());
  copyButton(byId("copy-url"), () => state.link?.url ?? "");
  copyButton(byId("copy-code"), () => state.link?.encoded ?? "");
  byId("tell").addEventListener("click", async () => {
    try {
      await view.sendMessage(`Here is the diagram as I want it:\n\n\`\`\`plantuml\n${source.value}\n\`\`\``);
      say(byId("status"), "Sent to the conversation.", "ok");
    } catch (error) {
      say(byId("status"), plain(error), "bad");
    }
  });
  submits(byId("code"), byId("decode"), async () => {
    const problem = byId("decode-problem");
    try {
      const { plantumlCode } = await ask(view, "decodePlantUML", { code: byId("code").value });
      say(problem, "");
      byId("code").removeAttribute("aria-invalid");
      state.isEdited = true;
      setSource(String(plantumlCode), { isKept: true });
      source.focus();
      await follow();
    } catch (error) {
      byId("code").setAttribute("aria-invalid", "true");
      say(problem, plain(error), "bad");
    }
  });

  // Events of the host

  view.on("context", () => {
    byId("tell").hidden = !view.can("message");
    byId("decoder").hidden = !view.can("serverTools");
    byId("open-url").hidden = !state.link || !view.can("openLinks");
  });
  view.on("partial-input", (args) => {
    if (state.isEdited || typeof args.plantumlCode !== "string") return;
    source.readOnly = true;
    setSource(args.plantumlCode);
    source.scrollTop = source.scrollHeight;
    say(byId("status"), "The diagram is being written…");
  });
  view.on("input", (args) => {
    source.readOnly = false;
    say(byId("status"), "");
    if (state.isEdited) return;
    if (["svg", "png", "txt"].includes(args.format)) byId("format").value = args.format;
    if (typeof args.code === "string") byId("code").value = args.code;
    if (typeof args.plantumlCode === "string") setSource(args.plantumlCode);
  });
  view.on("result", (result) => {
    source.readOnly = false;
    if (result.isError) {
      say(byId("status"), plain(textOf(result) || "The tool failed."), "bad");
      return;
    }
    if (state.isEdited) return;
    const data = structured(result);
    if (typeof data?.plantumlCode === "string") setSource(data.plantumlCode);
    const link = linkOf(data);
    if (link) {
      state.encodedText = source.value;
      showLink(link);
    }
    return follow();
  });
  view.on("cancelled", (reason) => {
    source.readOnly = false;
    say(
      byId("status"),
      typeof reason === "string" && reason !== "" ? `The call was cancelled: ${reason}` : "The call was cancelled.",
      "warn",
    );
  });
  view.on("teardown", () => followSoon.cancel());

  showLink(undefined);
  return open(view);
}

/** Runs work one at a time: a call during it starts it again at its end. */
function oneAtATime(work) {
  let isWorking = false;
  let isStale = false;
  return async () => {
    isStale = true;
    if (isWorking) return;
    isWorking = true;
    try {
      while (isStale) {
        isStale = false;
        await work();
      }
    } finally {
      isWorking = false;
    }
  };
}
