// Forms in the browser: what a form gives for each schema of the corpus is what it was given, and
// fits by the judgement of ajv.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Ajv2020 } from "ajv/dist/2020.js";
import { CORPUS, HEAVY, ODD, SECRETS } from "./corpus.mjs";
import { ATTACKS } from "./upstream.mjs";
import { openPage, startBrowser, startServer } from "./support.mjs";

let server;
let browser;
let page;
before(async () => {
  server = await startServer({ servers: {} });
  browser = await startBrowser();
  page = await openPage(browser, server);
  await page.evaluate(async () => {
    const base = document.querySelector("script[src]").src.replace("app.js", "");
    window.lab = { ...(await import(`${base}form.js`)), ...(await import(`${base}json.js`)) };
  });
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const ajv = new Ajv2020({ strict: false, allErrors: true, ownProperties: true });

/** Makes a form of a value; returns what it gives again, and what its check finds. */
const through = (schema, value) =>
  page.evaluate(
    ([schemaText, valueText]) => {
      const { createForm, parse, stringify } = window.lab;
      const form = createForm(parse(schemaText), valueText === null ? undefined : parse(valueText));
      document.querySelector("main .body").replaceChildren(form.element);
      return {
        given: stringify(form.get() ?? {}),
        errors: form.check().length,
        fields: form.element.querySelectorAll("input, select, textarea, button").length,
        unlabelled: [...form.element.querySelectorAll("input, select, textarea")].filter(
          (it) => !it.labels?.length && !it.getAttribute("aria-label"),
        ).length,
      };
    },
    [JSON.stringify(schema), value === undefined ? null : JSON.stringify(value)],
  );

for (const { name, schema, values } of CORPUS) {
  test(`a form of ${name} gives what it was given, and sends what fits`, async () => {
    const validate = ajv.compile(schema);
    for (const value of values.filter((it) => validate(it))) {
      const { given, errors, unlabelled } = await through(schema, value);
      const again = JSON.parse(given);
      assert.ok(validate(again), `${JSON.stringify(value)} became ${given}: ${ajv.errorsText(validate.errors)}`);
      assert.equal(errors, 0, given);
      assert.equal(unlabelled, 0, "each field has a name");
      // A form may add only constants that must be there.
      assert.deepEqual({ ...again, ...value }, again, `${JSON.stringify(value)} became ${given}`);
      assert.deepEqual(again, value);
    }
    // An empty form says what is missing exactly if something is.
    const { given, errors } = await through(schema, undefined);
    assert.equal(errors === 0, validate(JSON.parse(given)), given);
  });
}

test("odd schemas still make a form", async () => {
  for (const schema of ODD) {
    const { fields } = await through(schema, { a: "x" });
    assert.ok(fields >= 0);
  }
  assert.deepEqual(page.problems, []);
});

test("schemas that would freeze the page make a form of bounded size", { timeout: 120_000 }, async () => {
  for (const { name, schema } of HEAVY) {
    const start = performance.now();
    const { fields } = await through(schema, undefined);
    const ms = performance.now() - start;
    assert.ok(ms < 20_000 && fields < 12_000, `${name}: ${ms} ms, ${fields} controls`);
  }
  assert.deepEqual(page.problems, []);
});

test("one of many properties is found by its name", async () => {
  const names = Array.from({ length: 300 }, (_, at) => `p${at}`);
  await through(
    { type: "object", properties: Object.fromEntries(names.map((name) => [name, { type: "string" }])) },
    undefined,
  );
  assert.equal(await page.locator("main .body .more button").count(), 100);
  await page.getByLabel("Filter the members of the arguments").fill("p299");
  await page.getByRole("button", { name: "+ p299" }).click();
  await page.keyboard.type("x");
  assert.equal(await page.getByLabel(/^p299/).first().inputValue(), "x");
});

test("a field hides what its schema marks as secret, however it is marked", async () => {
  for (const { name, schema, value, isText } of SECRETS.filter((it) => it.name !== "a name")) {
    const { given } = await through(schema, value);
    assert.deepEqual(JSON.parse(given), value, name);
    const hidden = await page
      .locator("main .body input[type=password]")
      .evaluateAll((all, pattern) => all.filter((it) => new RegExp(pattern).test(it.value)).length, "xyzzy|314159");
    assert.equal(hidden, isText ? 0 : 1, name);
    // JSON of several members cannot be hidden in part; its field says so.
    if (isText) assert.match(await page.locator("main .body").innerText(), /A secret in this text is visible/, name);
  }
});

test("hidden characters of a schema are marked wherever the form shows its texts", async () => {
  const bad = ATTACKS[8];
  const about = { title: bad, description: bad };
  const properties = {
    [bad]: { type: "string", ...about, examples: [bad], format: bad, pattern: `^${bad}$` },
    choice: { enum: [bad, "b"], ...about },
    titled: { oneOf: [{ const: "a", ...about }] },
    many: { type: "array", uniqueItems: true, items: { enum: [bad] } },
    fixed: { const: bad },
    union: { oneOf: [{ type: "object", ...about }, { type: "integer" }] },
    [`o${bad}`]: { type: ["object", "null"], ...about, properties: { [bad]: about } },
  };
  for (const required of [[], Object.keys(properties)]) {
    await through({ type: "object", ...about, properties, required }, required.length ? { [bad]: "x" } : undefined);
    const found = await page
      .locator("main .body .form")
      .evaluate((form) =>
        [form, ...form.querySelectorAll("*")]
          .flatMap((it) => [
            ...[...it.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data),
            it.placeholder,
            it.title,
          ])
          .filter((text) => /\u202e/.test(text ?? "")),
      );
    assert.deepEqual(found, []);
    assert.ok((await page.locator("main .body .mark", { hasText: "202E" }).count()) >= (required.length ? 9 : 2));
  }
});

test("a value that its field cannot show is shown as JSON, and stays", async () => {
  const properties = {
    s: { type: "string" },
    n: { type: ["integer", "null"] },
    e: { enum: ["a"] },
    l: { type: "array", items: { type: "string" } },
  };
  const value = { s: 5, n: { a: 1 }, e: "b", l: ["x", 7] };
  const { given, errors } = await through({ type: "object", properties }, value);
  assert.deepEqual(JSON.parse(given), value);
  assert.equal(errors, 4);
});

test("rows with the same name, or with a value and no name, are told and lose nothing", async () => {
  const schema = { type: "object", properties: { own: { type: "string" } }, additionalProperties: { type: "integer" } };
  await page.evaluate((it) => {
    const form = window.lab.createForm(it, { own: "x", "": 1, a: 2 });
    window.lab.now = () => [form.check().map(({ message }) => message), window.lab.stringify(form.get())];
    document.querySelector("main .body").replaceChildren(form.element);
  }, schema);
  const now = () => page.evaluate(() => window.lab.now());
  assert.deepEqual(await now(), [[], '{"own":"x","":1,"a":2}'], "an empty name that came with the value is one");
  await page.getByRole("button", { name: "+ name and value" }).click();
  await page.getByLabel("value").last().fill("3");
  assert.deepEqual(await now(), [["a value has no name"], '{"own":"x","":1,"a":2,"":3}']);
  for (const name of ["a", "own"]) {
    await page.getByLabel("Name", { exact: true }).last().fill(name);
    assert.deepEqual(await now(), [[`the name ${name} is used twice`], `{"own":"x","":1,"a":2,"${name}":3}`]);
  }
  await page.getByLabel("Name", { exact: true }).last().fill("b");
  assert.deepEqual(await now(), [[], '{"own":"x","":1,"a":2,"b":3}']);
});

test("a pattern that takes too long is said to be left to the server", async () => {
  await through(
    { type: "object", properties: { a: { type: "string", pattern: "^(a+)+$" } }, required: ["a"] },
    undefined,
  );
  await page.locator("main .body textarea").fill(`${"a".repeat(100)}!`);
  await page.keyboard.press("Tab");
  assert.match(await page.locator("main .body .control").innerText(), /only the server checks the pattern/);
});

test("unset, null and empty text differ", async () => {
  const schema = { type: "object", properties: { t: { type: ["string", "null"] } }, required: ["t"] };
  for (const value of [{ t: null }, { t: "" }, { t: "x" }])
    assert.equal((await through(schema, value)).given, JSON.stringify(value));
  assert.equal((await through(schema, undefined)).given, "{}");
});

test("what was typed for one choice comes back with it", async () => {
  const { schema } = CORPUS.find((it) => it.name === "one of several");
  await through(schema, { u: { kind: "file", path: "/kept" } });
  const select = page.getByLabel("Kind of u");
  await select.selectOption({ label: "url" });
  await page.getByLabel(/^url/).fill("x");
  await select.selectOption({ label: "file" });
  assert.equal(await page.getByLabel(/^path/).inputValue(), "/kept");
});
