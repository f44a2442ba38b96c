// Resources, prompts, artifacts and knowledge.

import { data, got, list, result } from "./api.js";
import {
  button,
  bytes,
  chosen,
  download,
  empty,
  failure,
  fill,
  filterBox,
  h,
  link,
  sideList,
  table,
  to,
} from "./dom.js";
import { createForm } from "./form.js";
import { isObject } from "./json.js";
import { literal, markdown, resourceBlock, resultView, tree, visible } from "./result.js";

export async function resources(context) {
  const uri = context.query.get("uri");
  const fetch = () => list("resources/list", "resources");
  const [all, templates] = await Promise.all([
    fetch(),
    list("resources/templates/list", "resourceTemplates").catch(() => []),
  ]);
  const side = sideList(context, "Resources", all, {
    text: (it) => `${it.uri} ${it.name ?? ""} ${it.title ?? ""} ${it.mimeType ?? ""}`,
    href: (it) => `#/resources?uri=${encodeURIComponent(it.uri)}`,
    name: (it) => it.title ?? it.name ?? it.uri,
    isCurrent: (it) => it.uri === uri,
    note: `, ${templates.length} templates`,
    kind: "resources",
    fetch,
  });
  const input = h("input", { type: "text", value: uri ?? "", "aria-label": "URI", placeholder: "URI", class: "grow" });
  const address = h(
    "form.bar",
    {
      onsubmit: (event) => {
        event.preventDefault();
        location.hash = `#/resources?uri=${encodeURIComponent(input.value)}`;
      },
    },
    input,
    h("button", { type: "submit" }, "Read"),
  );
  const place = h("div");
  if (uri) {
    const read = async () => {
      try {
        const found = await result("resources/read", { uri });
        const cited = context.query.get("passage");
        const shown = (found.contents ?? []).map((it) => (cited ? citedIn(it, cited) : undefined) ?? resourceBlock(it));
        const chunk = context.query.get("chunk");
        // The record of a file has no text: its text is in its passages.
        const around = chunk && !shown.some((it) => it.querySelector("mark")) ? await passagesAround(chunk) : undefined;
        fill(
          place,
          around ? [around, h("details", h("summary", "About the source"), shown)] : shown,
          found.contents?.length ? null : empty("The resource has no contents."),
        );
        // The place has to be on the page before.
        requestAnimationFrame(() => place.querySelector("mark")?.scrollIntoView({ block: "center" }));
      } catch (error) {
        fill(place, failure(error, read));
      }
    };
    await read();
  } else
    fill(
      place,
      all.length ? empty("Choose a resource.") : empty("No server lists a resource.", link("#/servers", "Servers")),
    );
  const known = templates.length
    ? h(
        "details",
        h("summary", "Templates"),
        table(
          "Templates",
          ["Template", "Name", "Description"],
          templates.map((it) => [
            button(
              it.uriTemplate,
              () => {
                input.value = it.uriTemplate;
                input.focus();
              },
              { class: "linklike" },
            ),
            it.name,
            it.description ?? "",
          ]),
        ),
      )
    : null;
  return chosen(side, uri !== null, ["#/resources", "All resources"], address, known, place);
}

// Passages that are shown on each side of one that is cited.
const AROUND = 2;

/** A passage by the URI of its record, between those beside it; undefined if it is gone. */
async function passagesAround(uri) {
  const [, series, number] = /^(.*-)(\d+)$/.exec(uri) ?? [];
  const textOf = async (of) => (await result("resources/read", { uri: of })).contents?.[0]?.text;
  const read = (from, count) =>
    series === undefined
      ? []
      : Promise.all(
          Array.from({ length: count }, (_, at) =>
            from + at < 0 ? undefined : textOf(`${series}${from + at}`).catch(() => undefined),
          ),
        );
  const [before, text, after] = await Promise.all([
    read(Number(number) - AROUND, AROUND),
    textOf(uri).catch(() => undefined),
    read(Number(number) + 1, AROUND),
  ]);
  if (typeof text !== "string") return undefined;
  const part = (texts, label) => {
    const all = texts.filter((it) => typeof it === "string").join("\n\n");
    return all ? literal(all, label) : null;
  };
  return h(
    "div.block",
    h("div.bar", "the cited passage, and the text around it"),
    part(before, "Before the passage"),
    h("mark.literal", { tabIndex: 0 }, ...visible(text)),
    part(after, "After the passage"),
  );
}

/** A text with a passage of it marked; undefined if the text has no such passage. */
function citedIn({ uri, text }, passage) {
  if (typeof text !== "string") return undefined;
  // The passage may be shortened in the address, and have other white space than the source.
  const words = passage
    .trim()
    .split(/\s+/)
    .map((it) => it.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const found = new RegExp(words.join("\\s+"), "u").exec(text);
  if (!found) return undefined;
  const end = found.index + found[0].length;
  const before = text.slice(0, found.index);
  const after = text.slice(end);
  return h(
    "div.block",
    h("div.bar", "resource ", ...visible(uri), ", with the cited passage"),
    before.trim() ? literal(before, "Before the passage") : null,
    h("mark.literal", { tabIndex: 0 }, ...visible(found[0])),
    after.trim() ? literal(after, "After the passage") : null,
  );
}

export async function prompts(context) {
  const fetch = () => list("prompts/list", "prompts");
  const all = await fetch();
  const side = sideList(context, "Prompts", all, {
    text: (it) => `${it.name} ${it.title ?? ""} ${it.description ?? ""}`,
    href: (it) => to("prompts", it.name),
    name: (it) => it.title ?? it.name,
    isCurrent: (it) => it.name === context.name,
    kind: "prompts",
    fetch,
  });
  const prompt = all.find((it) => it.name === context.name);
  const detail = prompt
    ? onePrompt(prompt)
    : context.name
      ? empty(`No prompt is called ${context.name}.`)
      : all.length
        ? empty("Choose a prompt.")
        : empty("No server offers a prompt.");
  return chosen(side, Boolean(context.name), ["#/prompts", "All prompts"], detail);
}

/** The arguments of a prompt are texts. */
function onePrompt(prompt) {
  const properties = Object.fromEntries(
    (prompt.arguments ?? []).map((it) => [it.name, { type: "string", title: it.title, description: it.description }]),
  );
  const required = (prompt.arguments ?? []).filter((it) => it.required).map((it) => it.name);
  const form = createForm({ type: "object", properties, required, additionalProperties: false });
  const place = h("div", { "aria-live": "polite" });
  const get = async () => {
    if (form.check().length) {
      form.focusFirstError();
      return;
    }
    try {
      const found = await result("prompts/get", { name: prompt.name, arguments: form.get() ?? {} });
      fill(
        place,
        h("h2", "Messages"),
        found.description ? h("p", found.description) : null,
        (found.messages ?? []).map((it) =>
          h("section.card", h("h3", it.role), resultView({ content: [it.content].flat() })),
        ),
      );
    } catch (error) {
      fill(place, failure(error, get));
    }
  };
  return [
    prompt.description ? markdown(prompt.description) : null,
    form.element,
    h("p", button("Get", get, { class: "primary", "data-run": "" })),
    place,
  ];
}

export async function artifacts(context) {
  if (context.name) return oneArtifact(context);
  const place = h("div");
  const draw = async (words) => {
    const found = await data(`artifacts?limit=200&filter=${encodeURIComponent(words)}`);
    const all = found.artifacts;
    fill(
      place,
      all.length
        ? table(
            "Artifacts",
            ["Name", "Type", "Size", "Version", "Origin"],
            all.map((it) => [
              link(to("artifacts", it.name), it.name),
              it.mime_type ?? "",
              bytes(it.size_bytes),
              it.version ?? "",
              it.details?.source_tool_name ?? "",
            ]),
          )
        : empty(
            "No answer has been saved as an artifact yet.",
            "Answers that are too large or not text become artifacts.",
          ),
      found.next_cursor ? h("p.muted", "the first 200; filter to see others") : null,
    );
  };
  let asked;
  let reload;
  const filter = filterBox(context, "Filter artifacts", (words) => {
    clearTimeout(asked);
    asked = setTimeout(() => draw(words).catch((error) => fill(place, failure(error, context.again))), 200);
  });
  await draw(filter.value);
  context.onReset(() => draw(filter.value));
  // Many are saved at a time; the list is fetched once for all.
  context.on("artifact", () => {
    reload ??= setTimeout(() => {
      reload = undefined;
      draw(filter.value).catch((error) => fill(place, failure(error, context.again)));
    }, 300);
  });
  context.onLeave(() => {
    clearTimeout(asked);
    clearTimeout(reload);
  });
  return [h("div.bar", filter), place];
}

// Bytes of a large artifact that are shown.
const PREVIEW = 256 << 10;

/** The beginning of an artifact that is too large to be read whole. */
async function beginningOf(path) {
  const reader = (await got(path)).body.getReader();
  const parts = [];
  for (let size = 0; size < PREVIEW; ) {
    const { value, done } = await reader.read();
    if (done) break;
    parts.push(value);
    size += value.length;
  }
  reader.cancel();
  return new Uint8Array(await new Blob(parts).arrayBuffer()).slice(0, PREVIEW);
}

async function oneArtifact(context) {
  const name = encodeURIComponent(context.name);
  const about = (await data(`artifacts?limit=200&filter=${name}`)).artifacts.find((it) => it.name === context.name);
  const newest = about?.version ?? 0;
  // The list may not have it: without a version, the newest is read.
  const version = context.query.get("version") ?? about?.version;
  const named = version === undefined ? name : `${name}?version=${Number(version)}`;
  const versions = Array.from({ length: Math.min(50, newest + 1) }, (_, index) => newest - index);
  const file = `artifacts/${named}`;
  const place = h("div");
  try {
    const found = await result("resources/read", { uri: `artifact://${named}` });
    fill(place, (found.contents ?? []).map(resourceBlock));
  } catch {
    try {
      const bytesOf = await beginningOf(file);
      fill(
        place,
        h("p.muted", `It is too large to be shown whole; these are its first ${bytes(bytesOf.length)}.`),
        literal(new TextDecoder().decode(bytesOf), "Beginning"),
      );
    } catch (error) {
      fill(place, failure(error, context.again));
    }
  }
  const save = async () => {
    try {
      download(context.name, await (await got(file)).blob(), "application/octet-stream");
    } catch (error) {
      place.prepend(h("p.bad", { role: "alert" }, error.message));
    }
  };
  return [
    h("p", link("#/artifacts", "‹ All artifacts")),
    h("p", button("Download", save)),
    versions.length > 1
      ? h(
          "p",
          "Versions: ",
          versions.map((it) => [link(`#/artifacts/${name}?version=${it}`, String(it)), " "]),
        )
      : null,
    about
      ? h(
          "details",
          h("summary", `${about.mime_type ?? ""} ${bytes(about.size_bytes)}, version ${newest}`),
          tree(about),
        )
      : null,
    place,
  ];
}

/** The last search of this window: Back from a passage leads to its results. */
let lastSearch;

export async function knowledge(context) {
  const all = await list("tools/list", "tools");
  if (!all.some((it) => it.name === "am7_vector_search"))
    return empty(
      "This server has no documents.",
      "Index some with ",
      h("code", "marquetry index FOLDER"),
      ", and switch [knowledge] on.",
    );
  const input = h("input", {
    type: "search",
    class: "grow",
    "aria-label": "Question",
    placeholder: "a question or a few words",
    value: context.query.get("q") ?? "",
  });
  const place = h("div", { "aria-live": "polite" });
  const search = async () => {
    if (!input.value.trim()) {
      fill(place, empty("Search the documents."));
      return;
    }
    fill(place, "searching…");
    try {
      const found = await result("tools/call", { name: "am7_vector_search", arguments: { query: input.value } });
      if (found.isError) throw new Error(found.content?.[0]?.text ?? "the search failed");
      lastSearch = { query: input.value, found };
      show(found);
    } catch (error) {
      fill(place, failure(error, search));
    }
  };
  const show = (found) => {
    const hits = passages(found.structuredContent);
    fill(
      place,
      hits.length
        ? hits.map(passage)
        : found.structuredContent === undefined
          ? resultView(found)
          : empty("No passage matches.", "Try other words."),
      h("details", h("summary", "The text for the model"), resultView({ content: found.content })),
    );
  };
  const form = h(
    "form.bar",
    {
      onsubmit: (event) => {
        event.preventDefault();
        context.setQuery({ q: input.value }, { replace: false });
        search();
      },
    },
    input,
    h("button", { type: "submit", "data-run": "" }, "Search"),
  );
  // A link fills the form; the search is a call of a tool, which its user makes.
  if (input.value.trim() && lastSearch?.query === input.value) show(lastSearch.found);
  else fill(place, empty(input.value.trim() ? "Press Enter to search." : "Search the documents."));
  return [form, place];
}

function passages(structured) {
  const lists = Object.values(structured ?? {}).filter((it) => Array.isArray(it) && it.every(isObject));
  return lists[0] ?? [];
}

// Characters of a passage that its link has.
const CITED = 300;

/** One passage with its source and its ranks. */
function passage(hit) {
  const text = String(hit.content ?? hit.text ?? hit.passage ?? "");
  const uri = hit.sourceUri ?? hit.uri ?? hit.citation?.uri;
  const title = visible(String(hit.sourceTitle ?? hit.title ?? hit.name ?? uri ?? "passage"));
  const rank = (name, value) =>
    value === undefined || value === null
      ? `not found by ${name}`
      : `${value}${value === 1 ? " (the best)" : ""} by ${name}`;
  const hasRanks = "keywordRank" in hit || "semanticRank" in hit;
  return h(
    "article.card",
    h(
      "h2",
      uri
        ? link(
            `#/resources?uri=${encodeURIComponent(uri)}&passage=${encodeURIComponent(text.slice(0, CITED))}${hit.uri ? `&chunk=${encodeURIComponent(hit.uri)}` : ""}`,
            ...title,
          )
        : title,
    ),
    literal(text, "Passage"),
    hasRanks ? h("p.muted", `Rank ${rank("words", hit.keywordRank)}, ${rank("meaning", hit.semanticRank)}`) : null,
    h("details", h("summary", "All of it"), tree(hit)),
  );
}
