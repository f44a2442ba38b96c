// What the model sees of a call, and the settings that applied.

import { text } from "./api.js";
import { button, bytes, fill, h, link, table, to } from "./dom.js";
import { stringify } from "./json.js";
import { literal, tree } from "./result.js";

/** Compares the answer of the upstream with what the model sees, and shows the settings that applied. */
export function modelView(record) {
  const { upstream, model, capture, decided } = record;
  // The report has the estimate of the server; the first page and the list of calls show it, too.
  const said = capture?.estimated_tokens ?? (upstream && Math.ceil(upstream.bytes / 4));
  const seen = upstream ? said - (record.kept_tokens ?? 0) : model && Math.ceil(model.bytes / 4);
  const tokens = (count) => (count === undefined || count === null ? "" : `about ${count.toLocaleString("en")}`);
  // The limit counts the bytes of texts. In JSON, a line break or a quote has two bytes.
  const cut = capture?.truncated;
  const rows = [
    ["Upstream sent", upstream ? bytes(upstream.bytes) : "–", ...(cut ? [bytes(cut.total_bytes)] : []), tokens(said)],
    ["Model sees", model ? bytes(model.bytes) : "–", ...(cut ? [bytes(cut.shown_bytes)] : []), tokens(seen)],
  ];
  const head = ["What", "JSON, whole", ...(cut ? ["Text, which the limit counts"] : []), "Tokens, estimated"];
  const why = !upstream
    ? "The tool belongs to this server: its answer goes to the model as it is."
    : record.same
      ? "The answer goes to the model as the upstream wrote it."
      : (capture?.message ?? "The answer was changed.");
  const place = h("div");
  const show = (part, label) =>
    button(
      `Show ${label}`,
      async () => {
        fill(place, "loading…");
        const found = await text(`calls/${record.id}/${part}`).catch((error) => error.message);
        fill(place, h("h2", label), literal(found, label));
      },
      { class: "small" },
    );
  return [
    table("Sizes", head, rows),
    cut
      ? h("p.muted", "The limit counts the text alone. Marks of JSON, the notice and the report add to what is sent.")
      : null,
    h("p", why),
    decided.length
      ? h(
          "div",
          h("h2", "Settings that applied"),
          h(
            "ul",
            decided.map((it) => h("li", h("code", `${it.setting} = ${stringify(it.value)}`), `: ${it.effect}`)),
          ),
          h(
            "p.muted",
            "They are set in ",
            h("code", "[artifacts]"),
            ", or for a server or a tool in ",
            h("code", "capture"),
            "; those of the client in ",
            h("code", "[clients]"),
            ".",
          ),
        )
      : null,
    decided.length && upstream?.kept ? otherLimit(record, place) : null,
    capture?.save?.artifacts?.length
      ? h(
          "p",
          "Saved: ",
          capture.save.artifacts.map((it) => [link(to("artifacts", it.name), it.name), " "]),
        )
      : null,
    capture ? tree(capture, "report") : null,
    h(
      "p",
      upstream?.kept ? show("said", "the upstream's answer") : null,
      " ",
      model?.kept ? show("shown", "what the model sees") : null,
    ),
    place,
  ];
}

/** Captures the answer again with another limit, and shows what the model would get. */
function otherLimit(record, place) {
  const now = record.decided.find((it) => it.setting === "mcp_tool_llm_return_max_bytes")?.value;
  const limits = [4096, 16_384, 65_536, 262_144].filter((it) => it !== now);
  const tryIt = async (limit) => {
    fill(place, "loading…");
    try {
      const shown = await text(`calls/${record.id}/with-limit?bytes=${limit}`);
      fill(
        place,
        h("h2", `With a limit of ${bytes(limit)}, the model would see ${bytes(new Blob([shown]).size)}`),
        literal(shown, "what the model would see"),
      );
    } catch (error) {
      fill(place, h("p.bad", error.message));
    }
  };
  return h(
    "p",
    "With another limit: ",
    limits.map((limit) => [
      button(bytes(limit), () => tryIt(limit), {
        class: "small",
        "aria-label": `Show the answer with a limit of ${bytes(limit)}`,
      }),
      " ",
    ]),
  );
}
