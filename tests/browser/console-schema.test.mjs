// The check of values against schemas, without a browser: ajv is the judge.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { Ajv2020 } from "ajv/dist/2020.js";
import { Malformed, parse, problemOf, problemText, stringify } from "../../crates/console/page/json.js";
import {
  branchesOf,
  check,
  fitsPattern,
  initial,
  isSecretName,
  kindOf,
  problemsIn,
  resolve,
  withoutSecrets,
} from "../../crates/console/page/schema.js";
import { CORPUS, HEAVY, ODD, SECRETS } from "./corpus.mjs";

const ajv = new Ajv2020({ strict: false, allErrors: true, ownProperties: true });

for (const { name, schema, values } of CORPUS) {
  test(`ajv and the form agree on ${name}`, () => {
    const validate = ajv.compile(schema);
    const verdicts = new Set();
    for (const value of values) {
      const errors = check(schema, value);
      const isRight = validate(value);
      verdicts.add(isRight);
      assert.equal(
        errors.length === 0,
        isRight,
        `${JSON.stringify(value)}: ${JSON.stringify(errors)} and ${ajv.errorsText(validate.errors)}`,
      );
      for (const { path, message } of errors) assert.ok(Array.isArray(path) && message.length > 3);
    }
    if (!["nothing", "no type"].includes(name)) assert.equal(verdicts.size, 2, "the corpus has values of both kinds");
  });
}

test("odd schemas neither throw nor run for ever", () => {
  for (const schema of ODD) {
    check(schema, { a: "x" });
    const start = initial(schema, schema);
    kindOf(resolve(schema, schema), schema);
    withoutSecrets({ a: "x" }, schema);
    assert.ok(start === undefined || typeof start === "object");
  }
});

test("schemas that would take for ever are done at once", { timeout: 60_000 }, () => {
  const value = { a: `${"a".repeat(200)}!`, [`${"a".repeat(60)}!`]: "x", p0: { p1: "x" } };
  for (const { name, schema } of HEAVY) {
    const start = performance.now();
    check(schema, value);
    initial(schema, schema);
    kindOf(resolve(schema, schema), schema);
    withoutSecrets(value, schema);
    const ms = performance.now() - start;
    assert.ok(ms < 8000, `${name} took ${ms} ms`);
  }
});

test("a pattern that takes long is left to the server, and others are not", () => {
  for (const pattern of ["^(a+)+$", "^(a|a|aa)*$", "(a*)*b", "^a*a*a*a*a*a*a*a*b"]) {
    assert.equal(fitsPattern(pattern, `${"a".repeat(5000)}!`), undefined, pattern);
    assert.equal(fitsPattern(pattern, "x!"), false, "short texts are checked");
  }
  assert.equal(fitsPattern("^[a-z]+(-[a-z]+)*$", "ab-".repeat(2000)), false);
  assert.equal(fitsPattern("^[^@ ]+@[^@ ]+[.][a-z]+$", `${"a".repeat(200)}@example.com`), true);
  assert.equal(fitsPattern("(", "x"), undefined);
});

test("references, names and large numbers are checked where they are", () => {
  const word = {
    $defs: { w: { pattern: "^[a-z]+$" } },
    $ref: "#/$defs/o",
    additionalProperties: { $ref: "#/$defs/w" },
    propertyNames: { $ref: "#/$defs/w" },
  };
  word.$defs.o = { type: "object" };
  assert.deepEqual(
    check(word, { a: "B" }).map((it) => it.path),
    [["a"]],
  );
  assert.deepEqual(
    check(word, { A: "b" }).map((it) => it.path),
    [["A"]],
  );
  assert.equal(check(word, { A: "B" }).length, 2);
  assert.deepEqual(check(word, { a: "b" }), []);
  const large = (keyword) => ({ type: "integer", ...parse(`{"${keyword}":90071992547409930}`) });
  for (const [keyword, value, count] of [
    ["minimum", "90071992547409929", 1],
    ["minimum", "90071992547409930", 0],
    ["exclusiveMaximum", "90071992547409930", 1],
    ["maximum", "5", 0],
    ["multipleOf", "180143985094819860", 0],
    ["multipleOf", "180143985094819861", 1],
  ]) {
    assert.equal(check(large(keyword), parse(value)).length, count, `${keyword} ${value}`);
  }
});

test("only fields with a default start set, and nothing is preselected", () => {
  const { schema } = CORPUS.find((it) => it.name === "defaults");
  assert.deepEqual(initial(schema, schema), { a: 3 });
  const choice = CORPUS.find((it) => it.name === "one of several").schema;
  assert.deepEqual(initial(choice, choice), {});
  const fixed = CORPUS.find((it) => it.name === "enum and const").schema;
  assert.deepEqual(initial(fixed, fixed), { c: "fixed" });
});

test("branches have names that people know", () => {
  const { schema } = CORPUS.find((it) => it.name === "one of several");
  assert.deepEqual(
    branchesOf(schema.properties.u, schema).map((it) => it.label),
    ["file", "url"],
  );
});

test("integers beyond 2^53 stay exact, and are compared as integers", () => {
  const text = '{"n":12345678901234567890,"m":-9007199254740993,"s":9007199254740991,"f":1.5}';
  assert.equal(stringify(parse(text)), text);
  assert.equal(check({ type: "integer", maximum: 10 }, parse("12345678901234567890")).length, 1);
  assert.deepEqual(check({ type: "integer" }, parse("12345678901234567890")), []);
  assert.deepEqual(check({ enum: [parse("12345678901234567890")] }, parse("12345678901234567890")), []);
  assert.equal(
    stringify({ a: [], b: {}, c: undefined, d: [1n] }, 2),
    '{\n  "a": [],\n  "b": {},\n  "d": [\n    1\n  ]\n}',
  );
});

test("malformed JSON is told by its line and column", () => {
  for (const text of [
    '{"a": 1}',
    " [ ] ",
    '{"a":{"b":[-1.5e3,"\\u00e9\\"",null,true]},"c":{}}',
    "12345678901234567890",
  ])
    assert.equal(problemOf(text), undefined, text);
  const cases = {
    '{\n"a": 1,\n"b" 2\n}': [3, 5],
    "": [1, 1],
    '{"a": x,\n"b": 1}': [1, 7],
    "[1,]": [1, 4],
    '{"a":1,}': [1, 8],
    "[1 2]": [1, 4],
    "{} {}": [1, 4],
    '["a\nb"]': [1, 2],
    "[01]": [1, 3],
    '{"a":[1}': [1, 8],
    "[\n1,\n": [3, 1],
    "{,}": [1, 2],
    "[,]": [1, 2],
    "]": [1, 1],
    "{1:2}": [1, 2],
    '"\\x"': [1, 1],
  };
  for (const [text, [line, column]] of Object.entries(cases))
    assert.deepEqual([problemOf(text).line, problemOf(text).column], [line, column], text);
  assert.doesNotMatch(problemText('{"a": x}'), /position|not valid JSON|\{/);
});

test("malformed parts and unset items are problems, and are written as they are", () => {
  const schema = { type: "object", properties: { a: true, l: { type: "array", uniqueItems: true } } };
  const value = { a: [new Malformed("{oops")], l: [undefined, 1, undefined] };
  assert.deepEqual(
    problemsIn(schema, value).map(({ path, isMalformed }) => [path, isMalformed]),
    [
      [["a", 0], true],
      [["l", 0], undefined],
      [["l", 2], undefined],
    ],
  );
  assert.equal(stringify(value), '{"a":[{oops],"l":[1]}');
});

test("an error says what was expected and what was found, at its field", () => {
  const { schema } = CORPUS.find((it) => it.name === "nested");
  assert.deepEqual(check(schema, { o: { p: { q: "x" } } }), [
    { path: ["o", "p", "q"], message: "expected integer, found string" },
  ]);
  const union = CORPUS.find((it) => it.name === "one of several").schema;
  assert.deepEqual(check(union, { u: { kind: "file", path: 1 } })[0].path, ["u", "path"]);
});

test("names of secrets are those that the server hides", () => {
  const { secret, public: others } = JSON.parse(
    readFileSync(new URL("../../crates/redact/names.json", import.meta.url)),
  );
  assert.deepEqual(
    secret.filter((name) => !isSecretName(name)),
    [],
  );
  assert.deepEqual(others.filter(isSecretName), []);
});

test("secrets are left out wherever the schema marks them, and nothing else is", () => {
  for (const { name, schema, value, kept } of SECRETS) assert.deepEqual(withoutSecrets(value, schema), kept, name);
  for (const { name, schema, values } of CORPUS)
    for (const value of values) assert.deepEqual(withoutSecrets(value, schema), value, name);
  for (const schema of ODD) assert.deepEqual(withoutSecrets({ a: "x" }, schema), { a: "x" });
});
