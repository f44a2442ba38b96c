// Loaded into example servers before they start: each call gets the same time, numbers and pages, so
// that two answers differ only by what is between them. No server reaches another host.

import crypto from "node:crypto";
import { syncBuiltinESMExports } from "node:module";

const NOW = Date.UTC(2026, 10, 28);
const LINKS = 3_000;

globalThis.Date = class extends Date {
  constructor(...args) {
    super(...(args.length > 0 ? args : [NOW]));
  }

  static now() {
    return NOW;
  }
};
Math.random = () => 0.5;
crypto.randomUUID = () => "00000000-0000-4000-8000-000000000000";
globalThis.crypto.randomUUID = crypto.randomUUID;
syncBuiltinESMExports();

/** A page of an encyclopedia whose links are more than a model is shown. */
const links = Array.from({ length: LINKS }, (_, n) => `<a href="/wiki/Größe_${n}">Größe ${n}</a>`);
const page = `<html><body><div id="mw-content-text">${links.join("\n")}</div></body></html>`;

globalThis.fetch = async (url) => {
  if (new URL(url).hostname.endsWith("wikipedia.org")) return new Response(page);
  throw new TypeError(`tests have no network: ${url}`);
};
