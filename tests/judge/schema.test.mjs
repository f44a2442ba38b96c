// The types of the TypeScript SDK have the members that the test server documents, no more and no fewer.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { SDK, TSC } from "./compile.mjs";
import { PROGRAM, testServer } from "./server.mjs";
import { folder, missing } from "./support.mjs";

/** Types of the SDK, and their schemas in the OpenAPI document. */
const PAIRS = {
  TestCase: "TestCase",
  TestResult: "TestResult",
  TestRun: "TestRun",
  ResultPage: "Page",
  Progress: "ResultEvent",
  TestProgress: "ProgressEvent",
  TestEnded: "EndedEvent",
  Outcome: "Outcome",
  Flakiness: "Flakiness",
  CaseHistory: "CaseHistory",
  Comparison: "Comparison",
  JudgeAgreement: "JudgeAgreement",
  Override: "Override",
  NewOverride: "OverrideRequest",
  Health: "Health",
  Configuration: "Configuration",
  NewConfiguration: "NewConfiguration",
};

/** Where a type is meant to differ from its schema. */
function adapt(schemas) {
  const { Configuration, ModelSettings, Override, TestCase, TokenUsage } = schemas;
  // A test without these is no error of the request, but its result is an error.
  TestCase.required = ["name", "prompt"];
  // The provider is checked when the test runs.
  ModelSettings.properties.provider = { enum: ["openai", "anthropic", "ollama", "custom"] };
  // Only a judge votes.
  const { votes, maxVotes, ...properties } = ModelSettings.properties;
  TestCase.properties.agentConfig = { ...ModelSettings, properties };
  // Results of older servers can lack them, answers do not.
  for (const schema of [TokenUsage, Override]) {
    schema.required = Object.keys(schema.properties).filter((name) => name !== "costUsd");
  }
  Configuration.required.push("serverConfigs");
}

test("the types of the SDK are those of the server", { skip: missing(PROGRAM, TSC) }, async (t) => {
  const { url } = await testServer(t, await folder(t));
  const document = await (await fetch(`${url}/api/test/openapi.json`)).json();
  const { schemas } = document.components;
  const ofCase = await (await fetch(`${url}/api/test/schema.json`)).json();
  assert.deepEqual(Object.keys(ofCase.properties), Object.keys(schemas.TestCase.properties));
  adapt(schemas);
  const reached = new Set();
  const types = await typesOfSdk();
  for (const [type, schema] of Object.entries(PAIRS)) {
    assert.deepEqual(types(type), ofSchema({ $ref: `/${schema}` }, schemas, reached), type);
  }
  // A batch and its pages are arguments and answers of methods.
  const others = Object.keys(schemas).filter(
    (name) => !reached.has(name) && !/^(BatchRequest|ConfigurationRunRequest|Page\d)$/.test(name),
  );
  assert.deepEqual(others, [], "schemas without a type");
  for (const [options, request] of [
    ["BatchOptions", "BatchRequest"],
    ["ConfigurationRunOptions", "ConfigurationRunRequest"],
  ]) {
    const sent = Object.keys(types(options).members).filter((name) => !["onProgress", "signal"].includes(name));
    assert.deepEqual(Object.keys(schemas[request].properties).sort(), ["cases", ...sent].sort());
  }
  for (const [filter, path] of [
    ["ResultFilter", "results"],
    ["ConfigurationFilter", "configurations"],
  ]) {
    const parameters = document.paths[`/api/test/${path}`].get.parameters.map(({ name }) => name);
    assert.deepEqual(Object.keys(types(filter).members).sort(), parameters.sort());
  }
});

const members = (entries) => ({ members: Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1))) });

/** One of several shapes; texts together are one list. */
function union(shapes) {
  if (shapes.length === 1) return shapes[0];
  if (shapes.every((shape) => shape.texts)) return { texts: shapes.flatMap(({ texts }) => texts).sort() };
  return { oneOf: shapes.sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1)) };
}

/** The shape of a schema: its members with their names, their shapes, and whether they are always there. */
function ofSchema(schema, schemas, reached) {
  const shape = (inner) => ofSchema(inner, schemas, reached);
  if (schema.$ref) {
    const name = schema.$ref.split("/").at(-1);
    reached.add(name);
    return name === "Matcher" ? "any" : shape(schemas[name]);
  }
  const choices = schema.oneOf ?? schema.anyOf;
  if (choices) return union(choices.filter(({ type }) => type !== "null").map(shape));
  if (schema.const !== undefined) return { texts: [schema.const] };
  if (schema.enum) return { texts: [...schema.enum].sort() };
  const type = [schema.type].flat().find((name) => name !== "null");
  if (type === "array") return { list: shape(schema.items) };
  if (type === "object" && schema.properties) {
    const required = schema.required ?? [];
    return members(
      Object.entries(schema.properties).map(([name, inner]) => [
        name,
        { always: required.includes(name), is: shape(inner) },
      ]),
    );
  }
  if (type === "object") return { map: shape(schema.additionalProperties) };
  return { integer: "number" }[type] ?? type ?? "any";
}

/** Returns a function from names of types to their shapes. */
async function typesOfSdk() {
  const { default: ts } = await import("typescript");
  const file = join(SDK, "index.d.ts");
  const source = ts.createSourceFile(file, await readFile(file, "utf8"), ts.ScriptTarget.Latest);
  const declared = new Map(
    source.statements.filter(({ name }) => name).map((statement) => [statement.name.text, statement]),
  );
  const KEYWORDS = {
    [ts.SyntaxKind.StringKeyword]: "string",
    [ts.SyntaxKind.NumberKeyword]: "number",
    [ts.SyntaxKind.BooleanKeyword]: "boolean",
    [ts.SyntaxKind.AnyKeyword]: "any",
  };
  const isNothing = (node) => node.kind === ts.SyntaxKind.UndefinedKeyword;
  const named = (name) => {
    if (["Json", "Matcher"].includes(name)) return "any";
    assert.ok(declared.has(name), `no type is called ${name}`);
    return shape(declared.get(name));
  };
  const ofMembers = (node) =>
    node.members.map((member) => {
      assert.ok(ts.isPropertySignature(member), `${node.name?.text} has a member without a name, which hides mistakes`);
      return [
        member.name.text,
        { always: !member.questionToken, is: ts.isFunctionTypeNode(member.type) ? "function" : shape(member.type) },
      ];
    });
  const inherited = ({ expression, typeArguments }) => {
    if (expression.text !== "Required") return Object.entries(named(expression.text).members);
    return Object.entries(shape(typeArguments[0]).members).map(([name, { is }]) => [name, { always: true, is }]);
  };
  const shape = (node) => {
    if (ts.isInterfaceDeclaration(node)) {
      const parents = (node.heritageClauses ?? []).flatMap(({ types }) => types.flatMap(inherited));
      return members([...parents, ...ofMembers(node)]);
    }
    if (ts.isTypeAliasDeclaration(node)) return shape(node.type);
    if (ts.isTypeLiteralNode(node)) return members(ofMembers(node));
    if (ts.isArrayTypeNode(node)) return { list: shape(node.elementType) };
    if (ts.isUnionTypeNode(node)) return union(node.types.filter((it) => !isNothing(it)).map(shape));
    if (ts.isLiteralTypeNode(node)) return { texts: [node.literal.text] };
    if (!ts.isTypeReferenceNode(node)) return KEYWORDS[node.kind] ?? assert.fail(`a type of the kind ${node.kind}`);
    const name = node.typeName.text;
    if (name === "Record") return { map: shape(node.typeArguments[1]) };
    return ["Date", "AbortSignal"].includes(name) ? name : named(name);
  };
  return named;
}
