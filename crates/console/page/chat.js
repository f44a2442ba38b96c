// Chats with the configured model: their list, a conversation, and what the model got with each message.

import { ask, data, events, got, live, refusal } from "./api.js";
import { button, chosen, empty, failure, fill, h, lazily, link, newId, sideList, to } from "./dom.js";
import { stringify } from "./json.js";
import { literal, markdown, marked, tree, visible } from "./result.js";

// Characters of a passage that its link has.
const CITED = 300;
// Pixels of the longer side of a picture.
const PICTURE = 256;
const KINDS = [
  ["citations", "citation", "citations"],
  ["reminder", "reminder", "reminders"],
  ["keyframe", "keyframe", "keyframes"],
  ["metrics", "metrics", "metrics"],
  ["view", "View", "Views"],
  ["other", "other block", "other blocks"],
];
/** The module of the SDK that reads blocks. It loads together with the list of chats. */
let blocksModule;
/** Turns of this tab by chat. The server stores neither the blocks nor the reasoning. */
const turns = new Map();

export async function chat(context) {
  let found;
  try {
    [found, blocksModule] = await Promise.all([data("chats"), import("./context-blocks/index.js")]);
  } catch (error) {
    if (error.status === 404) return empty("This program has no chats: it was built without documents.");
    throw error;
  }
  if (found.off) return empty(`${found.off[0].toUpperCase()}${found.off.slice(1)}.`);
  const uri = context.name || undefined;
  const side = sideList(context, "Chats", found.chats, {
    text: (it) => it.name,
    href: (it) => to("chat", it.uri),
    name: (it) => nameInList(it, found.chats),
    isCurrent: (it) => to("chat", it.uri) === location.hash,
    note: found.has_more ? ", and older ones" : "",
    kind: "chats",
    fetch: async () => {
      found = await data("chats");
      return found.chats;
    },
  });
  side.prepend(h("p", link("#/chat?new=1", "New chat")));
  const stored = uri === undefined ? undefined : await storedChat(uri);
  const isNew = context.query.has("new");
  if (stored || isNew) name(context, stored?.name ?? "New chat");
  return chosen(side, Boolean(stored) || isNew, ["#/chat", "All chats"], conversation(context, stored));
}

/**
 * The name of a chat. If another chat has the same name, the time of its last message stands before
 * it, because a narrow list shows only the beginning.
 */
function nameInList(chat, all) {
  const isUnique = all.every((other) => other.name !== chat.name || other.uri === chat.uri);
  if (isUnique) return marked(chat.name);
  const modified = new Date(chat.modified);
  const isToday = modified.toDateString() === new Date().toDateString();
  const time = isToday ? modified.toLocaleTimeString() : modified.toLocaleDateString();
  return `${time} · ${marked(chat.name)}`;
}

const storedChat = (uri) => data(`chats/messages?uri=${encodeURIComponent(uri)}`);

/** Lets the list fetch the chats again: one is new, or has another place in it. */
function refreshList() {
  live.dispatchEvent(new CustomEvent("catalog", { detail: { changed: "chats" } }));
}

function name(context, text) {
  fill(context.title, ...visible(text));
  document.title = `${text} · Chat · Marquetry`;
}

/** A conversation and the form for its next message. */
function conversation(context, stored) {
  let uri = stored?.uri;
  const log = h("div.conversation", { role: "log", "aria-live": "off", "aria-label": "Conversation" });
  const pictures = new Pictures(context);
  if (stored?.dropped) log.append(h("p.muted", `${stored.dropped} older messages are no longer stored.`));
  (stored?.messages ?? []).forEach((message, index, all) => {
    const turn = message.role === "user" ? turnOf(uri, message, all[index + 1]) : turnOf(uri, all[index - 1], message);
    log.append(
      message.role === "user"
        ? saidByUser(message, turn)
        : saidByModel(message.content, { model: message.model, reasoning: turn?.reasoning, pictures }),
    );
  });
  if (!stored)
    log.append(
      empty("Write a message. The chat is stored. Without a login, everyone who can reach this server sees it."),
    );

  const message = h("textarea", { id: newId("message"), rows: 3, required: true, placeholder: "Ctrl+Enter sends it" });
  const references = h("input", { type: "text", id: newId("cite"), autocomplete: "off" });
  /** Stops the answer that the model writes now. */
  let answering;
  const status = h("span.muted", { role: "status" });
  const send = h("button.primary", { type: "submit", "data-run": "" }, "Send");
  const stop = button("Stop", () => answering?.abort(), { hidden: true });
  const setAnswering = (controller) => {
    answering = controller;
    send.disabled = controller !== undefined;
    stop.hidden = controller === undefined;
  };
  const form = h(
    "form.composer",
    {
      onsubmit: async (event) => {
        event.preventDefault();
        const text = message.value;
        if (answering || !text.trim()) return;
        setAnswering(new AbortController());
        log.querySelector(".empty")?.remove();
        const turn = new LiveTurn(text, pictures);
        log.append(turn.asked, turn.answer);
        turn.answer.scrollIntoView({ block: "nearest" });
        message.value = "";
        status.textContent = "The model answers…";
        const body = { message: text, chat: uri, ...named(references.value) };
        try {
          const reply = await stream(body, answering.signal, {
            onStarted: ({ chatRequestUri }) => {
              turn.stage = "stored";
              if (uri === undefined) adopt(context, chatRequestUri);
              uri = chatRequestUri;
            },
            onText: (answerSoFar) => turn.showAnswer(answerSoFar),
            onAnswered: () => {
              turn.stage = "answered";
              status.textContent = "The answer is stored.";
            },
          });
          turn.showReply(reply);
          status.textContent = "The answer is complete.";
        } catch (error) {
          await turn.showEnd(error, uri);
          if (turn.stage !== "answered") message.value ||= text;
          status.textContent = isAbort(error) ? "Stopped." : "";
        }
        refreshList();
        setAnswering(undefined);
      },
    },
    h("label", { for: message.id }, "Message"),
    message,
    h("label", { for: references.id }, "Cite"),
    references,
    h("p.about", "URIs of documents, or tags, with spaces between"),
    h("div.bar", send, stop, status),
  );
  context.onLeave(() => answering?.abort());
  return [log, form];
}

const isAbort = (error) => error.name === "AbortError";

/** Gives a new chat its address and its name. The page stays, with what only it knows. */
async function adopt(context, uri) {
  if (!context.isShown()) return;
  history.replaceState(null, "", to("chat", uri));
  refreshList();
  const stored = await storedChat(uri).catch(() => undefined);
  if (context.isShown()) name(context, stored?.name ?? "Chat");
}

/** A message that this page has sent, and its answer as far as it has come. */
class LiveTurn {
  /** 'sent', then 'stored' and 'answered' as the server reports them. */
  stage = "sent";

  constructor(text, pictures) {
    this.text = text;
    this.pictures = pictures;
    this.asked = saidByUser({ content: text });
    this.answer = saidByModel("");
  }

  showAnswer(text, about) {
    fill(this.answer, ...saidByModel(text, about).childNodes);
  }

  showReply(reply) {
    const { answer, blocks, chatRequestUri: uri, model, reasoning } = reply;
    const turn = { message: this.text, answer, blocks, reasoning };
    turns.set(uri, [...(turns.get(uri) ?? []), turn]);
    fill(this.asked, ...saidByUser({ content: this.text }, turn).childNodes);
    this.showAnswer(answer, { model, reasoning, pictures: this.pictures, notes: notesOf(reply) });
  }

  /** Shows why the turn ended early, and what of it is stored. */
  async showEnd(error, uri) {
    if (this.stage === "answered") {
      // The page may lack the end of the answer, which comes with the last event.
      const stored = await storedChat(uri).catch(() => undefined);
      const last = stored?.messages.at(-1);
      if (last && last.role !== "user") {
        this.showAnswer(last.content, { model: last.model, pictures: this.pictures });
      }
    }
    if (!isAbort(error)) this.answer.append(failure(error));
    const note = endNote(this.stage, isAbort(error));
    if (note) this.answer.append(h("p.muted", note));
  }
}

/** Returns which part of a stopped or failed turn the server has stored. */
function endNote(stage, isStopped) {
  if (stage === "answered") {
    return isStopped
      ? "You stopped after the answer was stored; its keyframe may be missing."
      : "The answer is stored; its keyframe may be missing.";
  }
  if (stage === "stored") {
    const advice = "The message is stored in this chat; send it again for an answer.";
    return isStopped ? `You stopped the model. ${advice}` : advice;
  }
  // An error says itself why the server did not store the message.
  if (!isStopped) return undefined;
  return "You stopped before the server confirmed that the message is stored.";
}

/**
 * Sends a message and returns the reply. `onStarted` gets the chat once the message is stored, and
 * `onText` the answer so far; `onAnswered` follows once the answer is stored.
 */
async function stream(body, signal, { onStarted, onText, onAnswered }) {
  const response = await got("chats", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: stringify(body),
    signal,
  });
  let answerSoFar = "";
  for await (const event of events(response.body)) {
    const detail = event.data ? JSON.parse(event.data) : {};
    if (event.name === "done") return detail;
    if (event.name === "failed") throw new Error(detail.error);
    if (event.name === "started") onStarted(detail);
    if (event.name === "answered") onAnswered();
    if (event.name === "text") {
      answerSoFar += detail.text;
      onText(answerSoFar);
    }
  }
  throw new Error("the connection ended before the answer");
}

/** Splits what the user wants to cite into URIs and tags. */
function named(text) {
  const words = text.split(/[\s,]+/).filter(Boolean);
  return { references: words.filter((it) => it.includes(":")), tags: words.filter((it) => !it.includes(":")) };
}

function notesOf({ finish, problems = [], left_out: left = [] }) {
  return [
    ...(finish === "length" ? ["The answer is cut: it reached a limit."] : []),
    ...problems,
    ...left.map((it) => `The model did not get ${it.kind} ${it.uri}: ${it.reason}`),
  ];
}

/** The turn of this tab that two stored messages belong to. */
const turnOf = (uri, asked, answer) =>
  turns.get(uri)?.findLast((it) => it.message === asked?.content && it.answer === answer?.content);

function saidByUser(message, turn) {
  const context = turn ? blocksOf(turn.blocks) : storedContext(message.context ?? []);
  return h(
    "article.said.user",
    h("h2", "You"),
    h("div.text", ...visible(message.content)),
    context,
    message.error ? h("p.bad", "No answer: ", ...visible(message.error)) : null,
  );
}

function saidByModel(text, { model, reasoning, pictures, notes = [] } = {}) {
  return h(
    "article.said.model",
    h("h2", ...visible(model ?? "Model")),
    reasoning ? h("details", h("summary", "Reasoning"), literal(reasoning, "Reasoning")) : null,
    answerParts(text, pictures),
    notes.map((note) => h("p.warn", ...visible(note))),
  );
}

/** The text of an answer, with its pictures in place. Other blocks are not for people. */
function answerParts(text, pictures) {
  const { content } = new blocksModule.McpContextFilter({ renderResources: false }).filter(
    blocksModule.LegacyTokenAdapter.upgrade(text),
  );
  const parts = [];
  let from = 0;
  for (const block of blocksModule.parse(content).blocks.filter((it) => it.inline)) {
    parts.push(markdown(content.slice(from, block.start), unescapeForms), pictures?.show(block));
    from = block.end;
  }
  return [...parts, markdown(content.slice(from), unescapeForms)];
}

/**
 * Decodes the four characters that the server escapes in an answer, where a tag of a block or an
 * older form would begin. For text nodes alone: in the text of a message they would begin one.
 */
function unescapeForms(text) {
  return text.replace(/&#(36|40|45|60);/g, (_, code) => String.fromCharCode(code));
}

/** Pictures are fetched with the token of the page, which an address in an element would not send. */
class Pictures {
  #made = [];

  constructor(context) {
    context.onLeave(() => this.#made.forEach((url) => URL.revokeObjectURL(url)));
  }

  show(block) {
    const about = marked(block.tags.join(", ")) || "picture";
    const path = blocksModule.mediaUrl(block.uri);
    if (path === undefined) return h("p.muted", `[Picture: ${about}${block.pending ? ", not found" : ""}]`);
    return lazily(async () => {
      try {
        const url = await this.#fetch(path);
        return link(
          `#/resources?uri=${encodeURIComponent(block.uri)}`,
          h("img.picture", { src: url, alt: about, title: about }),
        );
      } catch (error) {
        return h("p.muted", `[Picture: ${about}; ${error.message}]`);
      }
    });
  }

  async #fetch(path) {
    const response = await ask(`${path.slice(1)}?size=${PICTURE}`);
    if (!response.ok) throw await refusal(response);
    const blob = await response.blob();
    if (!blob.type.startsWith("image/")) throw new Error("it is not a picture");
    const url = URL.createObjectURL(blob);
    this.#made.push(url);
    return url;
  }
}

/** The blocks that went to the model with a message of this tab: counts that open to the blocks. */
function blocksOf(text) {
  const { contexts } = new blocksModule.McpContextFilter().filter(text);
  const kinds = new Map([
    ["citations", contexts.citations],
    ["reminder", contexts.reminders],
    ["keyframe", contexts.keyframes],
    ["metrics", contexts.metrics],
  ]);
  const known = new Set([...kinds.values()].flat().map((it) => it.start));
  const others = blocksModule.parse(text).blocks.filter((it) => !known.has(it.start));
  kinds.set(
    "view",
    others.filter((it) => it.uri?.startsWith("view:")),
  );
  kinds.set(
    "other",
    others.filter((it) => !it.uri?.startsWith("view:")),
  );
  const items = [...kinds].flatMap(([kind, blocks]) => blocks.flatMap((block) => itemsOf(kind, block)));
  return counted(items);
}

/** Each passage of a citation counts; every other block counts once. */
function itemsOf(kind, block) {
  const { data: payload, schema } = block.payload();
  const passages = kind === "citations" && Array.isArray(payload?.results) ? payload.results : undefined;
  if (passages) return passages.map((passage) => ({ kind, element: livePassage(passage) }));
  return [
    {
      kind,
      element: h(
        "details",
        h("summary", ...visible(itemName(kind, payload))),
        [block.uri, schema].filter(Boolean).map((text) => h("p.muted", ...visible(text))),
        factsOf(payload) ?? tree(payload),
      ),
    },
  ];
}

/** The subject of a block: the keys of its facts, else its kind. */
function itemName(kind, payload) {
  const [, one] = KINDS.find(([known]) => known === kind);
  const keys = factKeys(payload);
  return keys ? `${one}: ${keys.join(", ")}` : one;
}

function factKeys(payload) {
  const items = payload?.items;
  if (!Array.isArray(items) || !items.length) return undefined;
  return items.every((it) => typeof it?.key === "string" && "value" in it) ? items.map((it) => it.key) : undefined;
}

/** The facts of a reminder as a list; undefined for data of another form. */
function factsOf(payload) {
  if (!factKeys(payload)) return undefined;
  return h(
    "dl",
    payload.items.map(({ key, value }) => [
      h("dt", ...visible(key)),
      h("dd", ...visible(typeof value === "string" ? value : stringify(value))),
    ]),
  );
}

function livePassage(passage) {
  const text = String(passage?.content ?? "");
  return h(
    "details",
    h("summary", passageName(passage ?? {})),
    literal(text, "Passage"),
    sourceLink(passage?.uri, text),
  );
}

function passageName({ title, uri, page }) {
  return [...visible(title ?? uri ?? "passage"), page ? `, page ${page}` : ""];
}

const sourceLink = (uri, text) =>
  typeof uri === "string"
    ? h(
        "p",
        link(
          `#/resources?uri=${encodeURIComponent(uri)}${text ? `&passage=${encodeURIComponent(text.slice(0, CITED))}` : ""}`,
          "In its source",
        ),
      )
    : null;

/** The blocks of an older message: the server has stored their kinds and URIs, not their content. */
function storedContext(context) {
  const items = context.flatMap((it) => {
    const kind = KINDS.some(([known]) => known === it.kind) ? it.kind : "other";
    if (it.passages?.length) return it.passages.map((passage) => ({ kind, element: storedPassage(passage) }));
    const [, one] = KINDS.find(([known]) => known === kind);
    return [{ kind, element: h("p", { title: it.uri }, one, h("span.muted", " · its content is not stored")) }];
  });
  return counted(items);
}

/** A passage that is fetched when it is opened, with the rights that the reader has then. */
function storedPassage(passage) {
  if (passage.chunk === undefined) return h("details", h("summary", passageName(passage)), sourceLink(passage.uri));
  const place = h("div");
  const details = h(
    "details",
    {
      ontoggle: () => {
        if (!details.open || place.childElementCount) return;
        const path = `chats/passage?uri=${encodeURIComponent(passage.uri)}&chunk=${passage.chunk}`;
        fill(
          place,
          lazily(async () => {
            const { content } = await data(path);
            return [literal(content, "Passage"), sourceLink(passage.uri, content)];
          }),
        );
      },
    },
    h("summary", passageName(passage)),
    place,
  );
  return details;
}

/** "3 citations · 1 reminder", which opens to the items. */
function counted(items) {
  if (!items.length) return null;
  const counts = KINDS.map(([kind, one, many]) => {
    const count = items.filter((it) => it.kind === kind).length;
    return count ? `${count} ${count === 1 ? one : many}` : undefined;
  });
  return h(
    "details.context",
    h("summary", counts.filter(Boolean).join(" · ")),
    KINDS.flatMap(([kind]) => items.filter((it) => it.kind === kind).map((it) => it.element)),
  );
}
