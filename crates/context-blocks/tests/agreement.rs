//! Results of the crate that the JavaScript module in `sdk/typescript/context-blocks` must return,
//! too.
//!
//! `tests/context-blocks/cases.json` holds chosen texts, `generated.jsonl` texts made of hostile
//! pieces. Both files hold the crate's results; `sdk/typescript/tests/context-agreement.test.mjs`
//! compares those of the module with them. `cargo xtask generate` writes the results.

use std::{fs, path::PathBuf};

use marquetry_context_blocks::{
    Am7Uri, Block, Builder, Context, Element, Filter, InlineResource, Problem, ProblemKind,
    downgrade, neutralize, parse, upgrade,
};
use serde_json::{Map, Value, json};

const UPDATE: &str = "run cargo xtask generate, and look at the difference";
const GENERATED_TEXTS: usize = 700;

#[test]
fn results_of_the_cases_are_up_to_date() {
    let path = path("cases.json");
    let checked_in = fs::read_to_string(&path).expect("tests/context-blocks/cases.json");
    let mut cases: Value = serde_json::from_str(&checked_in).expect("the cases are JSON");
    for case in list(&mut cases, "texts") {
        let text = case["text"].as_str().expect("a text").repeat(repetitions(case));
        case["results"] = results(&text);
    }
    for case in list(&mut cases, "builds") {
        let text = build(&case["blocks"]);
        assert_eq!(parse(&text).problems, [], "{text}");
        case["blocks_again"] = described(&text);
        case["result"] = text.into();
    }
    for case in list(&mut cases, "uris") {
        case["result"] = uri(case["text"].as_str().expect("a URI"));
    }
    let want = serde_json::to_string_pretty(&cases).expect("a JSON value is JSON") + "\n";
    compare(path, &checked_in, &want);
}

#[test]
fn results_of_generated_texts_are_up_to_date() {
    let path = path("generated.jsonl");
    let checked_in = fs::read_to_string(&path).unwrap_or_default();
    let mut want = String::new();
    for number in 0..GENERATED_TEXTS {
        let text = text(&mut Random(number as u64 + 1));
        let line = json!({
            "text": text,
            "results": results(&text),
            "built": build(&hostile_blocks(&text, number % 2 == 0)),
        });
        want.push_str(&(line.to_string() + "\n"));
    }
    compare(path, &checked_in, &want);
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/context-blocks").join(name)
}

fn list<'a>(cases: &'a mut Value, name: &str) -> &'a mut Vec<Value> {
    cases[name].as_array_mut().expect("a list of cases")
}

/// How often a case repeats its text, for texts that would be long in the file.
fn repetitions(case: &Value) -> usize {
    case.get("times").and_then(Value::as_u64).map_or(1, |times| times.try_into().unwrap())
}

#[track_caller]
fn compare(path: PathBuf, checked_in: &str, want: &str) {
    if std::env::var_os("MARQUETRY_UPDATE").is_some() {
        fs::write(path, want).expect("the results are written");
    } else {
        let different = checked_in.lines().zip(want.lines()).position(|(have, want)| have != want);
        assert!(checked_in == want, "{}, line {different:?}: {UPDATE}", path.display());
    }
}

/// Returns the results of all functions on one text. A function that leaves the text unchanged is
/// absent.
fn results(text: &str) -> Value {
    let parsed = parse(text);
    let mut results = Map::new();
    if !parsed.blocks.is_empty() {
        results.insert("blocks".to_owned(), described(text));
    }
    if !parsed.problems.is_empty() {
        let problems = parsed.problems.iter().map(|problem| described_problem(problem, text));
        results.insert("problems".to_owned(), problems.collect());
    }
    let shows_all =
        |filter: &mut Filter| (filter.show_ephemeral, filter.show_reasoning) = (true, true);
    let mut all = Filter::default();
    shows_all(&mut all);
    let mut raw = all.clone();
    (raw.render_resources, raw.show_reasoning) = (false, false);
    "/base".clone_into(&mut all.media_base);
    let changed = [
        ("filtered", Filter::default().apply(text).content),
        ("shown", all.apply(text).content),
        ("raw", raw.apply(text).content),
        ("upgraded", upgrade(text)),
        ("downgraded", downgrade(text)),
        ("neutral", neutralize(text)),
    ];
    for (name, changed) in changed {
        if changed != text {
            results.insert(name.to_owned(), changed.into());
        }
    }
    let subjects = subjects(text);
    if !subjects.is_empty() {
        results.insert("subjects".to_owned(), subjects.into());
    }
    results.into()
}

/// Returns the positions of the blocks of each subject.
fn subjects(text: &str) -> Map<String, Value> {
    let contexts = Filter::default().apply(text).contexts;
    let lists = [
        ("citations", contexts.citations),
        ("reminders", contexts.reminders),
        ("keyframes", contexts.keyframes),
        ("metrics", contexts.metrics),
        ("reasoning", contexts.reasoning),
        ("resources", contexts.resources),
    ];
    let mut subjects = Map::new();
    for (name, blocks) in lists.into_iter().filter(|(_, blocks)| !blocks.is_empty()) {
        let positions = blocks.iter().map(|block| units(text, block.span().start));
        subjects.insert(name.to_owned(), positions.collect());
    }
    subjects
}

/// Returns the blocks as the module describes them, without their text.
fn described(text: &str) -> Value {
    let parsed = parse(text);
    let mut all = parsed.to_json(text);
    let fields = all.as_array_mut().expect("a list of blocks");
    for (fields, block) in fields.iter_mut().zip(&parsed.blocks) {
        let fields = fields.as_object_mut().expect("a block");
        fields.shift_remove("raw");
        add_getters(block, fields);
    }
    all
}

fn add_getters(block: &Block<'_>, fields: &mut Map<String, Value>) {
    let texts =
        [("id", block.id()), ("thumbnail", block.thumbnail()), ("title", block.attribute("TITLE"))];
    for (name, text) in texts {
        if let Some(text) = text {
            fields.insert(name.to_owned(), text.into());
        }
    }
    if let Some(trust) = block.trust() {
        fields.insert("trust".to_owned(), format!("{trust:?}").to_lowercase().into());
    }
    if block.is_untrusted() {
        fields.insert("untrusted".to_owned(), true.into());
    }
    if block.is_pending() {
        fields.insert("pending".to_owned(), true.into());
    }
    let payload = block.payload();
    if let Some(schema) = payload.schema {
        fields.insert("schema".to_owned(), schema.into());
        fields.insert("payload".to_owned(), payload.data);
    }
}

fn described_problem(problem: &Problem, text: &str) -> Value {
    let (kind, element) = match problem.kind {
        ProblemKind::MalformedTag(element) => ("malformed-tag", element),
        ProblemKind::Unclosed(element) => ("unclosed", element),
        _ => unreachable!("a kind of problem that the module does not know"),
    };
    let element = match element {
        Element::Context => "context",
        Element::Resource => "resource",
    };
    json!({ "kind": kind, "element": element, "at": units(text, problem.at) })
}

/// Converts a position in bytes into one in UTF-16 units.
fn units(text: &str, at: usize) -> Value {
    text[..at].encode_utf16().count().into()
}

/// Builds blocks that are described as JSON, with the names of the module's options.
fn build(blocks: &Value) -> String {
    let mut builder = Builder::new();
    for block in blocks.as_array().expect("a list of blocks") {
        let text = |name: &str| block.get(name).and_then(Value::as_str);
        let is = |name: &str| block.get(name) == Some(&Value::Bool(true));
        if let Some(steps) = block.get("steps").and_then(Value::as_array) {
            builder.add_reasoning(steps.iter().filter_map(Value::as_str));
        } else if let Some(data) = block.get("data") {
            let kind = text("type").expect("a type");
            let schema = text("schema").expect("a schema");
            let mut context = match text("uri") {
                Some(uri) if kind == "resource" => Context::resource(uri, schema),
                _ => Context::new(kind, schema),
            };
            if let Some(id) = text("id") {
                context = context.id(id);
            }
            if is("ephemeral") {
                context = context.ephemeral();
            }
            if is("untrusted") {
                context = context.untrusted();
            }
            if is("datamarked") {
                context = context.datamarked();
            }
            builder.add(context, data).expect("a JSON value is JSON");
        } else {
            let mut resource = InlineResource::new(text("uri").expect("a URI"));
            if let Some(media_type) = text("type") {
                resource = resource.media_type(media_type);
            }
            if let Some(tags) = text("tags") {
                resource = resource.tags(tags);
            }
            if is("pending") {
                resource = resource.pending();
            }
            builder.add_inline(&resource);
        }
    }
    builder.build()
}

/// Blocks with a hostile text in each position.
fn hostile_blocks(text: &str, datamarked: bool) -> Value {
    json!([
        { "type": "resource", "uri": text, "schema": "s", "data": { "content": text }, "datamarked": datamarked },
        { "uri": "u", "tags": text, "pending": datamarked },
    ])
}

fn uri(text: &str) -> Value {
    let Ok(uri) = Am7Uri::parse(text) else { return Value::Null };
    json!({
        "text": uri.to_string(),
        "organization": uri.organization(),
        "objectType": uri.object_type(),
        "id": uri.id(),
        "isMedia": uri.is_media(),
        "isVectorSearch": uri.is_vector_search(),
        "q": uri.query_param("q"),
        "raw_q": uri.raw_query_param("q"),
    })
}

/// Returns a text of pieces of tags, forms, entities and odd characters.
fn text(random: &mut Random) -> String {
    (0..=random.below(12)).map(|_| piece(random)).collect()
}

fn piece(random: &mut Random) -> String {
    match random.below(4) {
        0 => ["a", " ", "\n", "\"", "'", "<", ">", "/", "=", "&", ";", "}", ")", ".", ","]
            [random.below(15)]
        .to_owned(),
        1 => odd_character(random).to_string(),
        _ => PIECES[random.below(PIECES.len())].to_owned(),
    }
}

fn odd_character(random: &mut Random) -> char {
    let odd = "\u{0}\t\u{b}\u{c}\r\u{7f}\u{85}\u{a0}é\u{2009}\u{200b}\u{2028}\u{2029}\u{202e}\u{3000}\
        \u{e000}\u{e001}\u{feff}\u{fffd}😀\u{10ffff}\u{130}\u{212a}\u{17f}";
    odd.chars().nth(random.below(odd.chars().count())).expect("a character of the list")
}

const PIECES: &[&str] = &[
    "<mcp:context type=\"resource\" uri=\"am7://vector/citations/c\" ephemeral=\"true\">",
    "<mcp:context type='reasoning'>",
    "<mcp:context type=\"x\" uri=\"am7://reminder/u1\" trust=\"Untrusted\">",
    "<mcp:context uri=am7://keyframe/k trust='SERVER' id=\"1\" TITLE=t>",
    "<mcp:context uri=\"am7://metrics/m\" datamark=\"\u{e000}\">",
    "<mcp:context datamark=\"\n\">",
    "<MCP:Context a=b",
    "<mcp:context ",
    "<mcp:contextual>",
    "<mcp:other a=\"",
    "</mcp:context>",
    "</mcp:context>",
    "</MCP:CONTEXT >",
    "</mcp:context",
    "<mcp:context/>",
    "<mcp:resource uri=\"am7://o/media/data.data/1\" tags=\"a, b,\"/>",
    "<mcp:resource uri=\"am7://media/pending\" tags=\"x,y\" resolve=\"TRUE\" />",
    "<mcp:resource uri='am7://media/id-1' type=\"image/png\">",
    "<mcp:resource>",
    "</mcp:resource>",
    "<mcp:tags> t &amp; u, v</mcp:tags>",
    "<mcp:thumbnail>am7://o/t?size=256</mcp:thumbnail>",
    "<mc",
    "</m",
    "cp:",
    "p:context>",
    "type=\"a>b\"",
    " ephemeral='TRUE'",
    "/>",
    "&lt;",
    "&#60;",
    "&#x1F600;",
    "&#xD800;",
    "&#1114112;",
    "&#+65;",
    "&amp;lt;",
    "&quot",
    "${image.",
    "${image.a.b,c}",
    "${image.a,b.c}",
    "${image.portrait}",
    "${image.550e8400-e29b-41d4-a716-446655440000}",
    "${image..}",
    "(Reminder: {\"a\":1, \"1\":\"é\", \"a\":-0})",
    "(Reminder:{\"n\":[1.0,1e400]} )",
    "(Reminder: ",
    "(KeyFrame: {\"big\":12345678901234567890,\"f\":1e-7,\"s\":\"\\ud83d\\ude00<\"})",
    "(KeyFrame: {mood: tense})",
    "(Metrics: {\"s\":\"\\ud800\"})",
    "(Metrics: {\"s\":\")})\"}",
    "})",
    "<think>",
    "</think>",
    "<Thought>",
    "</THOUGHT>",
    "--- BEGIN CITATIONS ---",
    "--- END CITATIONS ---",
    "{\"schema\":\"s\",\"data\":{\"k\":\"v w\"}}",
    "{\"schema\":\"s\",\"query\":\"q\",\"__proto__\":[1]}",
    "{\"a\":\"\\u2028\\u0000\"}",
    "[1,2.50,\"x\u{e000}y\"]",
];

/// SplitMix64, so that the texts are the same on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).expect("it is below the limit")
    }
}
