// JSON Schema without the page: which field shows a schema, what a field begins with, and what is wrong with a value.

import { isEqual, isObject, Malformed, malformedIn, stringify } from "./json.js";

const MAX_DEPTH = 60;

// A keyword that should be a list may be anything.
const listOf = (it) => (Array.isArray(it) ? it : []);

// A schema may refer to itself, and to its parts so often that it is never done. Each part is resolved once.
const resolutions = new WeakMap();

/** Follows local references and merges `allOf`. Foreign references are never fetched. */
export function resolve(schema, root) {
  if (schema === false) return { not: {} };
  if (!isObject(schema)) return {};
  if (!resolutions.has(schema)) {
    resolutions.set(schema, {});
    resolutions.set(schema, resolved(schema, root));
  }
  return resolutions.get(schema);
}

function resolved(schema, root) {
  let sum = schema;
  if (typeof schema.$ref === "string") {
    const { $ref, ...rest } = schema;
    const target = pointed($ref, root);
    if (target === undefined) return { ...rest, unknownRef: $ref };
    sum = merged(resolve(target, root), rest);
  }
  if (Array.isArray(sum.allOf)) {
    const { allOf, ...rest } = sum;
    sum = allOf.map((part) => resolve(part, root)).reduce(merged, rest);
  }
  return sum;
}

function pointed(ref, root) {
  if (ref === "#") return root;
  if (!ref.startsWith("#/")) return ref.startsWith("#") ? anchored(ref.slice(1), root) : undefined;
  let at = root;
  for (const part of ref.slice(2).split("/")) {
    const key = decoded(part).replaceAll("~1", "/").replaceAll("~0", "~");
    if (at === null || typeof at !== "object" || !Object.hasOwn(at, key)) return undefined;
    at = at[key];
  }
  return at;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function anchored(name, root) {
  const all = { ...root?.$defs, ...root?.definitions };
  return Object.values(all).find((it) => it?.$anchor === name);
}

function merged(a, b) {
  const sum = { ...a, ...b };
  if (a.properties && b.properties) sum.properties = { ...a.properties, ...b.properties };
  if (a.required && b.required) sum.required = [...new Set([...listOf(a.required), ...listOf(b.required)])];
  for (const [name, pick] of [
    ["minimum", Math.max],
    ["minLength", Math.max],
    ["minItems", Math.max],
    ["maximum", Math.min],
    ["maxLength", Math.min],
    ["maxItems", Math.min],
  ]) {
    if (typeof a[name] === "number" && typeof b[name] === "number") sum[name] = pick(a[name], b[name]);
  }
  return sum;
}

/** Splits `null` off: { schema, isNullable }. */
export function withoutNull(schema, root) {
  if (Array.isArray(schema.type) && schema.type.includes("null")) {
    const types = schema.type.filter((type) => type !== "null");
    const rest = { ...schema, type: types.length === 1 ? types[0] : types };
    if (Array.isArray(schema.enum)) rest.enum = schema.enum.filter((it) => it !== null);
    return { schema: rest, isNullable: types.length > 0 };
  }
  for (const name of ["anyOf", "oneOf"]) {
    const choices = listOf(schema[name]).map((it) => resolve(it, root));
    const rest = choices.filter((it) => it.type !== "null" && it.const !== null);
    if (rest.length < choices.length) {
      const { [name]: _, ...outer } = schema;
      if (rest.length === 1) return { schema: merged(outer, rest[0]), isNullable: true };
      if (rest.length > 1) return { schema: { ...outer, [name]: rest }, isNullable: true };
    }
  }
  return { schema, isNullable: false };
}

/** Says which field shows a schema that was resolved and has no `null`. */
export function kindOf(schema, root) {
  if (
    "unknownRef" in schema ||
    "not" in schema ||
    ("if" in schema && !isObject(schema.properties)) ||
    "patternProperties" in schema ||
    "dependentSchemas" in schema
  )
    return "json";
  if ("const" in schema) return "const";
  if (Array.isArray(schema.enum)) return "enum";
  const choices = schema.oneOf ?? schema.anyOf;
  if (Array.isArray(choices) && choices.length) {
    const all = choices.map((it) => resolve(it, root));
    if (all.every((it) => "const" in it)) return "enum";
    return "union";
  }
  let { type } = schema;
  if (Array.isArray(type)) return type.length > 1 ? "union" : kindOf({ ...schema, type: type[0] }, root);
  if (!type) {
    if (schema.properties) type = "object";
    else if (schema.items || schema.prefixItems) type = "array";
    else if (schema.pattern || schema.format || "minLength" in schema) type = "string";
    else if ("minimum" in schema || "maximum" in schema) type = "number";
  }
  if (type === "object") {
    if (schema.properties && Object.keys(schema.properties).length) return "object";
    return schema.additionalProperties === false ? "object" : "map";
  }
  if (type === "array") {
    if (Array.isArray(schema.prefixItems) || Array.isArray(schema.items)) return "tuple";
    const items = resolve(schema.items, root);
    return schema.uniqueItems && items.type !== "array" && kindOf(items, root) === "enum" ? "multi" : "array";
  }
  return ["string", "number", "integer", "boolean", "null"].includes(type) ? type : "json";
}

/** Returns the properties that an object may have: its own, and those that only a branch of its condition names. */
export function propertiesOf(schema, root) {
  return { ...resolve(schema.then, root).properties, ...resolve(schema.else, root).properties, ...schema.properties };
}

/** Returns the options of a choice: [{ value, label, about }]. */
export function optionsOf(schema, root) {
  if (schema.type === "boolean" && !schema.enum) return [true, false].map((value) => ({ value, label: shown(value) }));
  if (Array.isArray(schema.enum)) {
    return schema.enum.map((value, index) => ({ value, label: schema.enumNames?.[index] ?? shown(value) }));
  }
  return (schema.oneOf ?? schema.anyOf ?? []).map((it) => {
    const option = resolve(it, root);
    return { value: option.const, label: option.title ?? shown(option.const), about: option.description };
  });
}

function shown(value) {
  return typeof value === "string" ? (value === "" ? "(empty text)" : value) : stringify(value);
}

/** Returns the branches of a union: [{ schema, label }]. */
export function branchesOf(schema, root) {
  if (Array.isArray(schema.type)) return schema.type.map((type) => ({ schema: { ...schema, type }, label: type }));
  const { oneOf, anyOf, title: _, description: __, default: ___, ...outer } = schema;
  const key = schema.discriminator?.propertyName;
  return (oneOf ?? anyOf).map((it, index) => {
    const branch = merged(outer, resolve(it, root));
    const mark =
      key ?? Object.keys(branch.properties ?? {}).find((name) => "const" in resolve(branch.properties[name], root));
    const value = mark && resolve(branch.properties?.[mark], root).const;
    return {
      schema: branch,
      label: branch.title ?? (value === undefined ? undefined : shown(value)) ?? branch.type ?? `choice ${index + 1}`,
    };
  });
}

/** Returns the index of the branch that a value fits, or fits best. */
export function nearestBranch(branches, value, root) {
  if (value instanceof Malformed)
    return Math.max(
      0,
      branches.findIndex((it) => kindOf(it.schema, root) === "json"),
    );
  const counts = branches.map((it) => check(it.schema, value, root).length);
  return counts.indexOf(Math.min(...counts));
}

/** Returns what a field begins with; undefined is not sent. Only defaults and constants that must be there are set. */
export function initial(schema, root, isRequired = true, depth = 0, budget = { left: 5000 }) {
  budget.left -= 1;
  if (depth > 12 || budget.left < 0) return undefined;
  const whole = resolve(schema, root);
  if ("default" in whole) return structuredClone(whole.default);
  const { schema: plain, isNullable } = withoutNull(whole, root);
  if (!isRequired || isNullable) return undefined;
  const kind = kindOf(plain, root);
  if (kind === "const") return structuredClone(plain.const);
  if (kind === "object") {
    const required = new Set(listOf(plain.required));
    const members = Object.entries(plain.properties ?? {}).map(([name, property]) => [
      name,
      initial(property, root, required.has(name), depth + 1, budget),
    ]);
    return Object.fromEntries(members.filter(([, start]) => start !== undefined));
  }
  return kind === "map" && depth === 0 ? {} : undefined;
}

/** Returns what an optional field begins with when it is opened. A map or a list is sent, empty as it is. */
export function openedStart(schema, root) {
  return (
    initial(schema, root) ??
    { map: {}, array: [], multi: [] }[kindOf(withoutNull(resolve(schema, root), root).schema, root)]
  );
}

const TYPES = {
  string: (it) => typeof it === "string",
  number: (it) => typeof it === "number" || typeof it === "bigint",
  integer: (it) => typeof it === "bigint" || (typeof it === "number" && Number.isInteger(it)),
  boolean: (it) => typeof it === "boolean",
  null: (it) => it === null,
  array: Array.isArray,
  object: isObject,
};

function typeOf(value) {
  return Object.keys(TYPES).find((type) => type !== "number" && TYPES[type](value)) ?? "number";
}

/** Returns the problems of the values of a form. Problems with `isMalformed` have no value that could be sent. */
export function problemsIn(schema, value) {
  return [...malformedIn(value), ...check(schema, value)];
}

/** Returns the problems of a value: [{ path, message }], where `path` is a list of names and indices. */
export function check(schema, value, root = schema, path = [], depth = 0, known = new Map()) {
  if (schema === true || schema === undefined || depth > MAX_DEPTH || value instanceof Malformed) return [];
  const wrong = (message, at = path) => ({ path: at, message });
  if (schema === false) return [wrong("no value is allowed here")];
  if (typeof schema !== "object" || schema === null) return [];
  const errors = [];
  const deeper = (part, it, at = path) => check(part, it, root, at, depth + 1, known);
  if (typeof schema.$ref === "string") {
    const target = pointed(schema.$ref, root);
    // Schemas that are referred to again and again are compared with a value once.
    if (!known.has(target)) known.set(target, new Map());
    const place = JSON.stringify(path);
    if (!known.get(target).has(place)) {
      known.get(target).set(place, []);
      known.get(target).set(place, deeper(target, value));
    }
    errors.push(...known.get(target).get(place));
  }
  const types = schema.type === undefined ? [] : [schema.type].flat();
  if (types.length && !types.some((type) => Object.hasOwn(TYPES, type) && TYPES[type](value))) {
    errors.push(wrong(`expected ${types.join(" or ")}, found ${typeOf(value)}`));
    return errors;
  }
  if ("const" in schema && !isEqual(schema.const, value))
    errors.push(wrong(`expected ${stringify(schema.const)}, found ${brief(value)}`));
  if (Array.isArray(schema.enum) && !schema.enum.some((it) => isEqual(it, value))) {
    errors.push(wrong(`expected one of ${brief(schema.enum)}, found ${brief(value)}`));
  }
  if (typeof value === "string") errors.push(...ofString(schema, value).map((it) => wrong(it)));
  if (TYPES.number(value)) errors.push(...ofNumber(schema, value).map((it) => wrong(it)));
  if (Array.isArray(value)) errors.push(...ofArray(schema, value, path, deeper, wrong));
  if (TYPES.object(value)) errors.push(...ofObject(schema, value, path, deeper, wrong));
  for (const part of listOf(schema.allOf)) errors.push(...deeper(part, value));
  if (Array.isArray(schema.anyOf)) {
    const all = schema.anyOf.map((part) => deeper(part, value));
    if (!all.some((it) => !it.length)) errors.push(...nearest(all, path, "matches none of the choices"));
  }
  if (Array.isArray(schema.oneOf)) {
    const all = schema.oneOf.map((part) => deeper(part, value));
    const count = all.filter((it) => !it.length).length;
    if (count === 0) errors.push(...nearest(all, path, "matches none of the choices"));
    if (count > 1) errors.push(wrong(`matches ${count} of the choices; expected exactly one`));
  }
  if (schema.not !== undefined && !deeper(schema.not, value).length) errors.push(wrong("is excluded by the schema"));
  if (schema.if !== undefined)
    errors.push(...deeper(deeper(schema.if, value).length ? schema.else : schema.then, value));
  return errors;
}

/** Of several choices that do not fit, the errors of the one that is nearest. */
function nearest(all, path, message) {
  const depth = (errors) => Math.max(...errors.map((it) => it.path.length));
  const best = all.slice().sort((a, b) => depth(b) - depth(a) || a.length - b.length)[0];
  return best && depth(best) > path.length
    ? best
    : [{ path, message: best?.length === 1 && all.length === 1 ? best[0].message : message }];
}

function brief(value) {
  const text = stringify(value);
  return text.length > 80 ? `${text.slice(0, 77)}…` : text;
}

/** Compares a number with the keywords of its least and its most. */
function bounds(schema, [least, most], found, unit = "") {
  const errors = [];
  if (found < schema[least]) errors.push(`expected at least ${schema[least]}${unit}, found ${found}`);
  if (found > schema[most]) errors.push(`expected at most ${schema[most]}${unit}, found ${found}`);
  return errors;
}

// The lengths of text from which patterns take too long.
const slow = new Map();

/**
 * Whether a text fits a pattern. Undefined, and left to the server: a pattern that this browser
 * cannot read, or would take long for.
 */
export function fitsPattern(pattern, text) {
  if (text.length > 10_000 || text.length >= slow.get(pattern)) return undefined;
  try {
    const expression = new RegExp(pattern, "u");
    const takesLong = (part) => {
      const start = performance.now();
      expression.test(part);
      return performance.now() - start > 50;
    };
    // Some patterns take twice as long for each character. Beginnings that do not fit, each a
    // little longer, show it before the page freezes.
    for (let length = 8; length < text.length; length = Math.ceil(length * 1.1)) {
      const part = `${text.slice(0, length)}\ue0b1`;
      // The machine may have been busy.
      if (!takesLong(part) || !takesLong(part)) continue;
      slow.set(pattern, length);
      return undefined;
    }
    return expression.test(text);
  } catch {
    return undefined;
  }
}

function ofString(schema, value) {
  const errors = bounds(schema, ["minLength", "maxLength"], [...value].length, " characters");
  if (typeof schema.pattern === "string" && fitsPattern(schema.pattern, value) === false)
    errors.push(`expected text that matches ${schema.pattern}`);
  return errors;
}

function ofNumber(schema, value) {
  const errors = bounds(schema, ["minimum", "maximum"], value);
  if (value <= schema.exclusiveMinimum) errors.push(`expected more than ${schema.exclusiveMinimum}, found ${value}`);
  if (value >= schema.exclusiveMaximum) errors.push(`expected less than ${schema.exclusiveMaximum}, found ${value}`);
  const step = schema.multipleOf;
  if (TYPES.number(step) && step > 0) {
    const isMultiple =
      [value, step].some((it) => typeof it === "bigint") && TYPES.integer(value) && TYPES.integer(step)
        ? BigInt(value) % BigInt(step) === 0n
        : Math.abs(Number(value) / Number(step) - Math.round(Number(value) / Number(step))) < 1e-9;
    if (!isMultiple) errors.push(`expected a multiple of ${step}, found ${value}`);
  }
  return errors;
}

function ofArray(schema, value, path, deeper, wrong) {
  const errors = bounds(schema, ["minItems", "maxItems"], value.length, " items").map((it) => wrong(it));
  const fixed = Array.isArray(schema.prefixItems)
    ? schema.prefixItems
    : Array.isArray(schema.items)
      ? schema.items
      : [];
  const rest = Array.isArray(schema.items) ? schema.additionalItems : schema.items;
  value.forEach((item, index) => {
    if (item === undefined) errors.push(wrong("has no value; fill it in or remove it", [...path, index]));
    else errors.push(...deeper(index < fixed.length ? fixed[index] : rest, item, [...path, index]));
  });
  if (schema.uniqueItems) {
    const twice = value.findIndex(
      (item, index) => item !== undefined && value.slice(0, index).some((other) => isEqual(item, other)),
    );
    if (twice >= 0) errors.push(wrong("is a duplicate", [...path, twice]));
  }
  if (schema.contains !== undefined) {
    const count = value.filter((item, index) => !deeper(schema.contains, item, [...path, index]).length).length;
    if (count < (schema.minContains ?? 1)) errors.push(wrong("lacks an item that the schema requires"));
    if (count > schema.maxContains) errors.push(wrong("has too many items of one kind"));
  }
  return errors;
}

// The place of the name of a member in the paths of values.
const NAME = "\0name";

function ofObject(schema, value, path, deeper, wrong) {
  const names = Object.keys(value);
  const errors = bounds(schema, ["minProperties", "maxProperties"], names.length, " members").map((it) => wrong(it));
  for (const name of listOf(schema.required)) {
    if (!Object.hasOwn(value, name)) errors.push(wrong("is required", [...path, name]));
  }
  const patterns = Object.entries(schema.patternProperties ?? {});
  for (const name of names) {
    const at = [...path, name];
    if (schema.propertyNames !== undefined)
      errors.push(...deeper(schema.propertyNames, name, [...at, NAME]).map((it) => ({ ...it, path: at })));
    const known = Object.hasOwn(schema.properties ?? {}, name);
    if (known) errors.push(...deeper(schema.properties[name], value[name], at));
    const fits = patterns.filter(([pattern]) => fitsPattern(pattern, name));
    fits.forEach(([, part]) => errors.push(...deeper(part, value[name], at)));
    if (!known && !fits.length && schema.additionalProperties !== undefined) {
      if (schema.additionalProperties === false) errors.push(wrong("is not a member of the schema", at));
      else errors.push(...deeper(schema.additionalProperties, value[name], at));
    }
  }
  for (const [name, needed] of Object.entries(schema.dependentRequired ?? {})) {
    if (!Object.hasOwn(value, name)) continue;
    for (const other of listOf(needed))
      if (!Object.hasOwn(value, other)) errors.push(wrong(`is required with ${name}`, [...path, other]));
  }
  for (const [name, part] of Object.entries(schema.dependentSchemas ?? {})) {
    if (Object.hasOwn(value, name)) errors.push(...deeper(part, value));
  }
  return errors;
}

/** Whether a schema marks a secret, which is never kept. */
const isMarked = (schema) => schema.format === "password" || schema.writeOnly === true;

/** Whether one of the schemas that apply to a value marks it as a secret. */
export const isSecret = (parts) => parts.some(isMarked);

// The record of calls hides members of the same names: these are the lists of `redact/src/name.rs`.
const SECRET_WORD = new RegExp(
  `^(?:${[
    ["auth", "bearer", "dbpass", "dsn", "encryptionkey", "jwt", "masterkey", "oauth", "otp", "passcode", "pat", "pwd"],
    ["sessionid", "signingkey", "sshpass", "subscriptionkey", "userpass"],
    [".*(?:accesskeys?|apikeys?|authorization|cookies?|credentials?|passphrase|passwd|passwords?|privatekey|secrets?)"],
    [".*token"],
  ]
    .flat()
    .join("|")})$`,
);
const ABOUT_SECRETS = ["budget", "count", "counts", "limit", "usage"];

/** Splits a name at separators and before capitals, without digits at the end of a word. */
function wordsOf(name) {
  const parts = name.replace(/(\p{Ll}|\d)(?=\p{Lu})|\p{Lu}(?=\p{Lu}\p{Ll})/gu, "$& ").toLowerCase();
  return parts.split(/[^\p{L}\p{N}]+/u).flatMap((word) => word.replace(/\d+$/, "") || []);
}

export function isSecretName(name) {
  const words = wordsOf(name);
  const last = words.at(-1);
  if (last === undefined || ABOUT_SECRETS.includes(last) || words.join(" ") === "progress token") return false;
  const pairs = words.slice(1).map((word, index) => words[index] + word);
  return last === "pass" || last === "pin" || [...words, ...pairs].some((word) => SECRET_WORD.test(word));
}

/** Returns all schemas that may apply to a value: those given, and those that they refer to, combine or choose from. */
export function partsOf(schemas, root) {
  const found = new Set();
  const add = (it) => {
    if (!isObject(it) || found.has(it)) return;
    found.add(it);
    for (const ref of [it.$ref, it.$dynamicRef]) if (typeof ref === "string") add(pointed(ref, root));
    [
      it.allOf,
      it.anyOf,
      it.oneOf,
      it.if,
      it.then,
      it.else,
      Object.values({ ...it.dependentSchemas, ...it.dependencies }),
    ]
      .flat()
      .forEach(add);
  };
  schemas.forEach(add);
  return [...found];
}

/**
 * Returns all schemas that may apply to a member (its name) or an item (its index), by those that
 * apply to the value.
 */
export function partsAt(parts, key, root) {
  const found = parts
    .flatMap((it) => {
      if (typeof key === "number") {
        const fixed = listOf(it.prefixItems ?? it.items);
        return [key < fixed.length ? fixed[key] : Array.isArray(it.items) ? it.additionalItems : it.items, it.contains];
      }
      const named = Object.hasOwn(it.properties ?? {}, key) ? [it.properties[key]] : [];
      // A pattern that cannot be read may fit.
      const fits = Object.entries(it.patternProperties ?? {})
        .filter(([pattern]) => fitsPattern(pattern, key) !== false)
        .map(([, part]) => part);
      return named.length + fits.length ? [...named, ...fits] : it.additionalProperties;
    })
    .filter(isObject);
  return partsOf(
    found.length
      ? found
      : parts.flatMap((it) => (typeof key === "number" ? it.unevaluatedItems : it.unevaluatedProperties)),
    root,
  );
}

/** Whether a schema, or one that it contains or refers to, marks a secret. */
export function mentionsSecret(parts, root) {
  const seen = new Set();
  const find = (it) => {
    if (it === null || typeof it !== "object" || seen.has(it)) return false;
    seen.add(it);
    return (
      isMarked(it) || (typeof it.$ref === "string" && find(pointed(it.$ref, root))) || Object.values(it).some(find)
    );
  };
  return find(parts);
}

/**
 * Returns a value without its secrets; undefined if it is one. A schema marks them wherever it may
 * apply, also in a branch that was not chosen; names of secrets count, too.
 */
export function withoutSecrets(value, schema) {
  const clean = (it, parts) => {
    if (it === null) return it;
    if (isSecret(parts)) return undefined;
    if (Array.isArray(it)) {
      // The list ends before its first secret, so that items keep their places.
      const items = it
        .filter((item) => item !== undefined)
        .map((item, index) => clean(item, partsAt(parts, index, schema)));
      return items.includes(undefined) ? items.slice(0, items.indexOf(undefined)) : items;
    }
    if (!isObject(it)) return it;
    const members = Object.entries(it).map(([name, item]) => [
      name,
      isSecretName(name) && typeof item !== "boolean" && item !== null
        ? undefined
        : clean(item, partsAt(parts, name, schema)),
    ]);
    return Object.fromEntries(members.filter(([, item]) => item !== undefined));
  };
  return clean(value, partsOf([schema], schema));
}
