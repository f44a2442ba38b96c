// Schemas with values that fit and values that do not. ajv is the judge; the lists are the variety.

const text = { type: "string" };
export const CORPUS = [
  {
    name: "text",
    schema: { type: "object", properties: { a: text }, required: ["a"] },
    values: [{ a: "x" }, { a: "" }, {}, { a: null }, { a: 1 }, { a: "x", b: 1 }],
  },
  {
    name: "lengths and pattern",
    schema: { type: "object", properties: { a: { type: "string", minLength: 2, maxLength: 3, pattern: "^[a-z]+$" } } },
    values: [{}, { a: "ab" }, { a: "a" }, { a: "abcd" }, { a: "A1" }, { a: "😀😀" }],
  },
  {
    name: "numbers",
    schema: {
      type: "object",
      properties: {
        n: { type: "number", minimum: 0, exclusiveMaximum: 10, multipleOf: 0.5 },
        i: { type: "integer", maximum: 5 },
      },
    },
    values: [{ n: 0 }, { n: 9.5 }, { n: 10 }, { n: 0.3 }, { i: 5 }, { i: 6 }, { i: 1.5 }, { i: 1.0 }, { i: "1" }],
  },
  {
    name: "booleans and null",
    schema: {
      type: "object",
      properties: { b: { type: "boolean" }, n: { type: "null" }, m: { type: ["string", "null"] } },
    },
    values: [{ b: true }, { b: "true" }, { n: null }, { n: 0 }, { m: null }, { m: "x" }, { m: 1 }],
  },
  {
    name: "enum and const",
    schema: {
      type: "object",
      properties: { e: { enum: ["a", 1, null, true] }, c: { const: "fixed" } },
      required: ["c"],
    },
    values: [{ c: "fixed" }, { c: "other" }, {}, { c: "fixed", e: 1 }, { c: "fixed", e: null }, { c: "fixed", e: "1" }],
  },
  {
    name: "titled choices",
    schema: {
      type: "object",
      properties: {
        e: {
          oneOf: [
            { const: "r", title: "red" },
            { const: "g", title: "green" },
          ],
        },
      },
      required: ["e"],
    },
    values: [{ e: "r" }, { e: "red" }, {}],
  },
  {
    name: "choices",
    schema: {
      type: "object",
      properties: {
        e: { type: "array", items: { enum: ["a", "b", "c"] }, uniqueItems: true, minItems: 1, maxItems: 2 },
      },
    },
    values: [{ e: ["a"] }, { e: [] }, { e: ["a", "b", "c"] }, { e: ["a", "a"] }, { e: ["d"] }, {}],
  },
  {
    name: "nested",
    schema: {
      type: "object",
      properties: {
        o: {
          type: "object",
          properties: { p: { type: "object", properties: { q: { type: "integer" } }, required: ["q"] } },
          required: ["p"],
        },
      },
      required: ["o"],
    },
    values: [{ o: { p: { q: 1 } } }, { o: { p: {} } }, { o: {} }, {}, { o: [] }],
  },
  {
    name: "closed object",
    schema: { type: "object", properties: { a: text }, additionalProperties: false },
    values: [{}, { a: "x" }, { b: 1 }],
  },
  {
    name: "map",
    schema: { type: "object", additionalProperties: { type: "integer" }, minProperties: 1, maxProperties: 2 },
    values: [{}, { a: 1 }, { a: "x" }, { a: 1, b: 2, c: 3 }],
  },
  {
    name: "map of names",
    schema: {
      type: "object",
      properties: { h: { type: "object", propertyNames: { pattern: "^x-" }, additionalProperties: text } },
    },
    values: [{ h: { "x-a": "b" } }, { h: { a: "b" } }, { h: {} }],
  },
  {
    name: "patterns of names",
    schema: { type: "object", patternProperties: { "^n_": { type: "number" } }, additionalProperties: false },
    values: [{ n_a: 1 }, { n_a: "x" }, { b: 1 }, {}],
  },
  {
    name: "lists",
    schema: {
      type: "object",
      properties: {
        l: {
          type: "array",
          items: { type: "object", properties: { k: text }, required: ["k"] },
          minItems: 1,
          maxItems: 2,
        },
      },
    },
    values: [{ l: [{ k: "a" }] }, { l: [] }, { l: [{}] }, { l: ["a"] }, { l: [{ k: "a" }, { k: "b" }, { k: "c" }] }],
  },
  {
    name: "lists of lists",
    schema: {
      type: "object",
      properties: { m: { type: "array", items: { type: "array", items: { type: "number" } } } },
    },
    values: [{ m: [[1, 2], []] }, { m: [1] }, { m: [["a"]] }],
  },
  {
    name: "unique",
    schema: { type: "object", properties: { l: { type: "array", uniqueItems: true } } },
    values: [{ l: [1, 2] }, { l: [1, 1] }, { l: [{ a: 1 }, { a: 1 }] }, { l: [1, "1"] }, { l: [1, true] }],
  },
  {
    name: "tuple",
    schema: {
      type: "object",
      properties: { t: { type: "array", prefixItems: [text, { type: "integer" }], items: false, minItems: 2 } },
    },
    values: [{ t: ["a", 1] }, { t: ["a"] }, { t: [1, "a"] }, { t: ["a", 1, 2] }],
  },
  {
    name: "contains",
    schema: {
      type: "object",
      properties: { t: { type: "array", contains: { const: 1 }, minContains: 1, maxContains: 2 } },
    },
    values: [{ t: [1] }, { t: [] }, { t: [1, 1, 1] }, { t: [2, 1] }],
  },
  {
    name: "one of several",
    schema: {
      type: "object",
      properties: {
        u: {
          oneOf: [
            {
              type: "object",
              title: "file",
              properties: { kind: { const: "file" }, path: text },
              required: ["kind", "path"],
            },
            {
              type: "object",
              title: "url",
              properties: { kind: { const: "url" }, url: text },
              required: ["kind", "url"],
            },
          ],
        },
      },
      required: ["u"],
    },
    values: [
      { u: { kind: "file", path: "/" } },
      { u: { kind: "url", url: "x" } },
      { u: { kind: "url", path: "/" } },
      { u: 1 },
      {},
    ],
  },
  {
    name: "any of several",
    schema: { type: "object", properties: { u: { anyOf: [{ type: "string", minLength: 2 }, { type: "integer" }] } } },
    values: [{ u: "ab" }, { u: "a" }, { u: 1 }, { u: 1.5 }, { u: null }],
  },
  {
    name: "both of two",
    schema: {
      type: "object",
      properties: {
        u: {
          oneOf: [
            { type: "integer", minimum: 0 },
            { type: "integer", maximum: 10 },
          ],
        },
      },
    },
    values: [{ u: 11 }, { u: 5 }, { u: -1 }],
  },
  {
    name: "null beside",
    schema: {
      type: "object",
      properties: { u: { anyOf: [{ type: "object", properties: { a: text }, required: ["a"] }, { type: "null" }] } },
    },
    values: [{ u: null }, { u: { a: "x" } }, { u: {} }, {}],
  },
  {
    name: "all of",
    schema: {
      type: "object",
      allOf: [
        { properties: { a: text }, required: ["a"] },
        { properties: { b: { type: "integer" } }, required: ["b"] },
      ],
    },
    values: [{ a: "x", b: 1 }, { a: "x" }, { b: 1 }, {}],
  },
  {
    name: "references",
    schema: {
      type: "object",
      properties: { n: { $ref: "#/$defs/node" } },
      required: ["n"],
      $defs: {
        node: {
          type: "object",
          properties: { v: { type: "integer" }, next: { $ref: "#/$defs/node" } },
          required: ["v"],
        },
      },
    },
    values: [{ n: { v: 1 } }, { n: { v: 1, next: { v: 2 } } }, { n: { v: 1, next: {} } }, { n: {} }, {}],
  },
  {
    name: "escaped reference",
    schema: { type: "object", properties: { a: { $ref: "#/$defs/a~1b" } }, $defs: { "a/b": { type: "integer" } } },
    values: [{ a: 1 }, { a: "x" }],
  },
  {
    name: "condition",
    schema: {
      type: "object",
      properties: { kind: text, n: { type: "integer" } },
      if: { properties: { kind: { const: "n" } }, required: ["kind"] },
      then: { required: ["n"] },
      else: { not: { required: ["n"] } },
    },
    values: [{ kind: "n", n: 1 }, { kind: "n" }, { kind: "x" }, { kind: "x", n: 1 }],
  },
  {
    name: "not",
    schema: { type: "object", properties: { a: { not: { type: "string" } } } },
    values: [{ a: 1 }, { a: "x" }, {}],
  },
  {
    name: "dependent",
    schema: {
      type: "object",
      properties: { a: text, b: text },
      dependentRequired: { a: ["b"] },
      dependentSchemas: { b: { required: ["c"] } },
    },
    values: [{}, { a: "x" }, { a: "x", b: "y", c: 1 }, { b: "y" }],
  },
  {
    name: "defaults",
    schema: {
      type: "object",
      properties: {
        a: { type: "integer", default: 3 },
        b: { type: "object", properties: { c: { type: "string", default: "d" } } },
      },
    },
    values: [{}, { a: 3 }, { a: "x" }],
  },
  { name: "nothing", schema: { type: "object" }, values: [{}, { a: 1 }] },
  { name: "no type", schema: {}, values: [{}, { a: [1, { b: null }] }] },
];

/** Members have values of their own, whatever they are called: JSON.parse makes them as a message does. */
const named = (names) => JSON.parse(`{${names.map((name) => `${JSON.stringify(name)}:{"type":"string"}`).join(",")}}`);
CORPUS.push(
  {
    name: "odd names",
    schema: {
      type: "object",
      properties: named(["__proto__", "constructor", "", "a/b", "a.b", "toString"]),
      required: ["", "__proto__"],
    },
    values: [JSON.parse('{"__proto__":"x","constructor":"y","":"z","a/b":"1","a.b":"2"}'), { "": "x" }, { "": 1 }],
  },
  {
    name: "a reference or null",
    schema: {
      type: "object",
      properties: { u: { anyOf: [{ $ref: "#/$defs/u" }, { type: "null" }] } },
      $defs: { u: { type: "object", properties: { a: text }, required: ["a"] } },
    },
    values: [{ u: null }, { u: { a: "x" } }, { u: {} }, {}],
  },
  {
    name: "a tuple with null",
    schema: {
      type: "object",
      properties: {
        t: { type: "array", prefixItems: [{ type: ["string", "null"] }, { type: "integer" }], items: false },
      },
    },
    values: [{ t: [null, 1] }, { t: ["a"] }, { t: [1] }],
  },
  {
    name: "a union with null inside",
    schema: { type: "object", properties: { t: { type: "array", items: { anyOf: [text, { enum: [null, 1] }] } } } },
    values: [{ t: ["a", null, 1] }, { t: [2] }],
  },
  {
    name: "conditions of a property",
    schema: {
      type: "object",
      properties: { k: text },
      required: ["k"],
      if: { properties: { k: { const: "n" } } },
      then: { properties: { n: { type: "integer" } }, required: ["n"] },
      else: { properties: { s: text } },
    },
    values: [{ k: "n", n: 1 }, { k: "n" }, { k: "x", s: "y" }, { k: "x", s: 1 }, {}],
  },
);

/** Schemas that ajv does not take; the page must survive them. */
export const ODD = [
  true,
  { type: "object", properties: { a: { $ref: "https://far.example/schema.json" } } },
  { type: "object", properties: { a: { $ref: "#/nowhere" } } },
  { $ref: "#" },
  { allOf: [{ $ref: "#" }] },
  { type: "object", properties: { a: { type: "string", pattern: "(" } } },
  { type: "object", properties: { a: { type: "strange" } } },
  { type: "object", properties: { a: { enum: [] } } },
  { type: "object", properties: { __proto__: { type: "string" }, constructor: { type: "string" } } },
  // Keywords of other types than they should have.
  {
    type: "object",
    required: true,
    properties: {
      a: {
        type: "string",
        required: true,
        title: 5,
        description: ["x"],
        format: "constructor",
        examples: [{}],
        enum: "abc",
      },
    },
  },
  { type: "__defineGetter__" },
  { type: ["constructor", 5, null], properties: "abc" },
  {
    type: "object",
    allOf: 5,
    anyOf: {},
    oneOf: [null, 5],
    properties: { a: { oneOf: [5, null] } },
    dependentRequired: { a: 5 },
    dependentSchemas: 5,
    additionalProperties: "x",
  },
  { properties: { a: { $ref: "#/%" } } },
  { type: "object", properties: { a: { type: "array", prefixItems: 5, items: "x", uniqueItems: 1 } } },
  { required: true, allOf: [{ required: ["a"] }] },
];

const chain = (length, part) =>
  Object.fromEntries(
    Array.from({ length }, (_, at) => [`d${at}`, at + 1 < length ? part(`#/$defs/d${at + 1}`) : text]),
  );
const names = (count) => Array.from({ length: count }, (_, at) => `p${at}`);
const each = (list, schema) => Object.fromEntries(list.map((name) => [name, schema]));
/** Schemas whose author wants the page to freeze. */
export const HEAVY = [
  { name: "itself twice", schema: { allOf: [{ $ref: "#" }, { $ref: "#" }], anyOf: [{ $ref: "#" }, { $ref: "#" }] } },
  {
    name: "doubled by all of",
    schema: { $ref: "#/$defs/d0", $defs: chain(50, ($ref) => ({ allOf: [{ $ref }, { $ref }] })) },
  },
  {
    name: "doubled by any of",
    schema: {
      properties: { a: { $ref: "#/$defs/d0" } },
      $defs: chain(28, ($ref) => ({ anyOf: [{ $ref }, { $ref }] })),
    },
  },
  {
    name: "members of its own kind, required",
    schema: { type: "object", properties: each(names(10), { $ref: "#" }), required: names(10) },
  },
  {
    name: "members of members, required",
    schema: {
      $ref: "#/$defs/d0",
      $defs: chain(12, ($ref) => ({ type: "object", properties: each(names(10), { $ref }), required: names(10) })),
    },
  },
  { name: "lists of itself", schema: { type: "array", uniqueItems: true, items: { $ref: "#" } } },
  { name: "many properties", schema: { type: "object", properties: each(names(10_000), text) } },
  {
    name: "many required properties",
    schema: { type: "object", properties: each(names(10_000), text), required: names(10_000) },
  },
  { name: "many choices", schema: { type: "object", properties: { a: { enum: names(5000) } }, required: ["a"] } },
  {
    name: "a slow pattern",
    schema: {
      type: "object",
      properties: { a: { type: "string", pattern: "^(a+)+$" } },
      patternProperties: { "^(([a-z])+.)+[A-Z]$": text },
    },
  },
  {
    name: "a slow pattern of many parts",
    schema: { type: "object", properties: { a: { type: "string", pattern: "^a*a*a*a*a*a*a*a*b" } } },
  },
];

const pass = { type: "string", format: "password" };
const object = (properties, more = {}) => ({ type: "object", properties, ...more });
/**
 * Schemas that mark `xyzzy` as a secret of the value, and what of the value may be kept. `isText`
 * says that no field of its own hides it.
 */
export const SECRETS = [
  { name: "a property", schema: object({ a: pass, b: text }), value: { a: "xyzzy", b: "kept" }, kept: { b: "kept" } },
  {
    name: "a reference",
    schema: object({ a: { $ref: "#/$defs/p" } }, { $defs: { p: pass } }),
    value: { a: "xyzzy" },
    kept: {},
  },
  { name: "all of", schema: object({ a: { allOf: [text, { writeOnly: true }] } }), value: { a: "xyzzy" }, kept: {} },
  {
    name: "an object of all of",
    schema: { type: "object", allOf: [object({ a: pass }), object({ b: text })] },
    value: { a: "xyzzy", b: "kept" },
    kept: { b: "kept" },
  },
  {
    name: "or null",
    schema: object({ a: { anyOf: [pass, { type: "null" }] }, b: { anyOf: [text, { type: "null" }] } }),
    value: { a: "xyzzy", b: null },
    kept: { b: null },
  },
  {
    name: "a reference or null",
    schema: object({ a: { anyOf: [{ $ref: "#/$defs/p" }, { type: "null" }] } }, { $defs: { p: pass } }),
    value: { a: "xyzzy" },
    kept: {},
  },
  {
    name: "one of several",
    schema: object({
      a: {
        oneOf: [
          object({ kind: { const: "word" }, word: pass }, { required: ["kind", "word"] }),
          object({ kind: { const: "file" }, path: text }, { required: ["kind"] }),
        ],
      },
    }),
    value: { a: { kind: "word", word: "xyzzy" } },
    kept: { a: { kind: "word" } },
  },
  {
    name: "text or secret",
    schema: object({ a: { anyOf: [{ type: "integer" }, pass] } }),
    value: { a: "xyzzy" },
    kept: {},
  },
  {
    name: "a map",
    schema: object({
      a: { type: "object", additionalProperties: pass },
      b: { type: "object", additionalProperties: text },
    }),
    value: { a: { x: "xyzzy" }, b: { x: "kept" } },
    kept: { a: {}, b: { x: "kept" } },
  },
  {
    name: "patterns of names",
    isText: true,
    schema: object({ a: { type: "object", patternProperties: { "^p_": pass } } }),
    value: { a: { p_1: "xyzzy", n: "kept" } },
    kept: { a: { n: "kept" } },
  },
  {
    name: "a list",
    schema: object({ a: { type: "array", items: { $ref: "#/$defs/p" } } }, { $defs: { p: pass } }),
    value: { a: ["xyzzy"] },
    kept: { a: [] },
  },
  {
    name: "a tuple",
    schema: object({ a: { type: "array", prefixItems: [text, pass] } }),
    value: { a: ["kept", "xyzzy"] },
    kept: { a: ["kept"] },
  },
  {
    name: "a condition",
    schema: object({ k: text }, { if: { properties: { k: { const: "p" } } }, then: { properties: { a: pass } } }),
    value: { k: "p", a: "xyzzy" },
    kept: { k: "p" },
  },
  {
    name: "a condition of a property",
    schema: object(
      { k: text, a: text },
      { if: { properties: { k: { const: "p" } } }, then: { properties: { a: { writeOnly: true } } } },
    ),
    value: { k: "p", a: "xyzzy" },
    kept: { k: "p" },
  },
  { name: "a number", schema: object({ a: { type: "integer", writeOnly: true } }), value: { a: 314159 }, kept: {} },
  {
    name: "a whole object",
    schema: object({ a: object({ b: text }, { writeOnly: true }) }),
    value: { a: { b: "xyzzy" } },
    kept: {},
  },
  { name: "a value of any type", schema: object({ a: { writeOnly: true } }), value: { a: "xyzzy" }, kept: {} },
  {
    name: "a loop",
    schema: object({ next: { $ref: "#" }, a: pass, b: text }),
    value: { next: { next: { a: "xyzzy", b: "kept" } } },
    kept: { next: { next: { b: "kept" } } },
  },
  {
    name: "a name",
    isText: true,
    schema: object({}),
    value: {
      "api-key": "xyzzy",
      l: [{ access_token: "xyzzy", max_tokens: 5 }],
      progressToken: "kept",
      has_password: true,
      constructor: "kept",
    },
    kept: { l: [{ max_tokens: 5 }], progressToken: "kept", has_password: true, constructor: "kept" },
  },
];
