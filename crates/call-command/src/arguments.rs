//! Arguments of a tool on a command line: a JSON object, or `key=value` by the tool's schema.

use std::{io::Read, path::Path};

use marquetry_nearest::nearest;
use serde_json::{Map, Value};

/// Longest text that is read from a file or from standard input.
const MAX_BYTES: u64 = 64 << 20;

/// Why arguments are invalid. The text names the argument and the form that is expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ArgumentError(pub(crate) String);

/// Returns the arguments of a call. `schema` is that of the tool, if it is known; `input` is
/// standard input.
pub(crate) fn parse(
    words: &[String],
    schema: Option<&Value>,
    input: &mut impl Read,
) -> Result<Map<String, Value>, ArgumentError> {
    match words {
        [] => Ok(Map::new()),
        [dash] if dash == "-" => object(&limited(input, "standard input")?, "standard input"),
        [json] if json.trim_start().starts_with('{') => object(json, "the argument"),
        pairs => {
            let mut arguments = Map::new();
            for pair in pairs {
                add(pair, schema, &mut arguments)?;
            }
            Ok(arguments)
        }
    }
}

fn object(text: &str, what: &str) -> Result<Map<String, Value>, ArgumentError> {
    match serde_json::from_str(text) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(ArgumentError(format!("{what} is not a JSON object; expected {{…}}"))),
        Err(error) => Err(ArgumentError(format!("{what} is not JSON: {error}"))),
    }
}

fn limited(reader: &mut impl Read, what: &str) -> Result<String, ArgumentError> {
    let mut text = String::new();
    reader
        .take(MAX_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(|error| ArgumentError(format!("failed to read {what}: {error}")))?;
    if text.len() as u64 > MAX_BYTES {
        let limit = MAX_BYTES >> 20;
        return Err(ArgumentError(format!("{what} has more than {limit} MiB")));
    }
    Ok(text)
}

/// Adds one argument: `key=value`, `key:=JSON` or `key=@file`.
fn add(
    pair: &str,
    schema: Option<&Value>,
    arguments: &mut Map<String, Value>,
) -> Result<(), ArgumentError> {
    let Some((head, text)) = pair.split_once('=') else {
        return Err(ArgumentError(format!(
            "{pair:?} is not an argument; expected key=value, key:=JSON, key=@file, one JSON object, or - for standard input"
        )));
    };
    if head.is_empty() || head == ":" {
        return Err(ArgumentError(format!("{pair:?} has no name before the =")));
    }
    if let Some(key) = head.strip_suffix(':') {
        let value = serde_json::from_str(text)
            .map_err(|error| ArgumentError(format!("{key}: not JSON: {error}")))?;
        arguments.insert(key.to_owned(), value);
        return Ok(());
    }
    let property = property(head, schema)?;
    let text = match text.strip_prefix('@') {
        Some(path) => &*file(head, path)?,
        None => text,
    };
    let types = schema.zip(property).map(|(root, schema)| types(root, schema)).unwrap_or_default();
    // An array of an earlier pair grows.
    if is_array(&types) && !text.trim_start().starts_with('[') {
        let items = schema.zip(property).and_then(|(root, schema)| {
            let items = resolved(root, schema)?.get("items")?;
            Some(self::types(root, items))
        });
        let item = value(head, text, &items.unwrap_or_default())?;
        match arguments.entry(head).or_insert_with(|| Value::Array(Vec::new())) {
            Value::Array(values) => values.push(item),
            _ => return Err(twice(head)),
        }
        return Ok(());
    }
    let value = value(head, text, &types)?;
    if arguments.insert(head.to_owned(), value).is_some() {
        return Err(twice(head));
    }
    Ok(())
}

fn twice(key: &str) -> ArgumentError {
    ArgumentError(format!("{key}: given twice, and it is not an array"))
}

/// Reads a file that an argument names.
fn file(key: &str, path: &str) -> Result<String, ArgumentError> {
    let mut file = std::fs::File::open(Path::new(path))
        .map_err(|error| ArgumentError(format!("{key}: failed to open {path:?}: {error}")))?;
    limited(&mut file, &format!("{key}: {path:?}"))
}

/// Returns the schema of an argument; [`None`] if nothing is known of it.
///
/// # Errors
///
/// Returns an error if the tool has no such argument.
fn property<'a>(key: &str, schema: Option<&'a Value>) -> Result<Option<&'a Value>, ArgumentError> {
    let Some(schema) = schema else { return Ok(None) };
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return Ok(None);
    };
    if let Some(property) = properties.get(key) {
        return Ok(Some(property));
    }
    let is_open = match schema.get("additionalProperties") {
        Some(Value::Bool(is_open)) => *is_open,
        Some(_) => true,
        None => false,
    };
    // Parts of the schema may name further arguments.
    let has_parts = ["anyOf", "oneOf", "allOf", "patternProperties", "$ref", "then"]
        .iter()
        .any(|part| schema.get(part).is_some());
    if is_open || has_parts {
        return Ok(None);
    }
    let known: Vec<&str> = properties.keys().map(String::as_str).collect();
    let hint = match nearest(key, &known) {
        Some(near) => format!("did you mean {near:?}?"),
        None if known.is_empty() => "the tool has no arguments".to_owned(),
        None => format!("it has {}", known.join(", ")),
    };
    Err(ArgumentError(format!(
        "the tool has no argument {key:?}; {hint} ({key}:=JSON sends it all the same)"
    )))
}

/// Follows `$ref` within a schema.
fn resolved<'a>(root: &'a Value, schema: &'a Value) -> Option<&'a Value> {
    const MAX_STEPS: usize = 8;
    let mut schema = schema;
    for _ in 0..MAX_STEPS {
        let Some(reference) = schema.get("$ref").and_then(Value::as_str) else {
            return Some(schema);
        };
        schema = root.pointer(reference.strip_prefix('#')?)?;
    }
    None
}

/// Returns the types that a schema allows; empty if it does not say.
fn types<'a>(root: &'a Value, schema: &'a Value) -> Vec<&'a str> {
    let Some(schema) = resolved(root, schema) else { return Vec::new() };
    match schema.get("type") {
        Some(Value::String(one)) => return vec![one],
        Some(Value::Array(many)) => return many.iter().filter_map(Value::as_str).collect(),
        _ => {}
    }
    let choices = ["anyOf", "oneOf"].iter().filter_map(|key| schema.get(key)?.as_array());
    let choices = choices.flatten().filter_map(|choice| resolved(root, choice)?.get("type"));
    let choices: Vec<&str> = choices.filter_map(Value::as_str).collect();
    if !choices.is_empty() {
        return choices;
    }
    let values = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
    let mut names: Vec<&str> =
        values.chain(schema.get("const")).map(|value| type_of(value)).collect();
    names.dedup();
    names
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns whether pairs of a key collect into an array.
fn is_array(types: &[&str]) -> bool {
    types.contains(&"array") && !types.contains(&"string")
}

/// Reads a value of one of these types.
pub(crate) fn value(key: &str, text: &str, types: &[&str]) -> Result<Value, ArgumentError> {
    let json = serde_json::from_str::<Value>(text).ok();
    if types.is_empty() {
        // Without a type, text that is JSON, such as a number, is taken as JSON.
        return Ok(json.unwrap_or_else(|| text.into()));
    }
    // Numbers, booleans and null first: with a string beside them, any other text is that string.
    if let Some(json) = json {
        let is_fitting = types.iter().any(|&name| match name {
            "integer" => is_integer(&json),
            "string" => false,
            name => name == type_of(&json),
        });
        if is_fitting {
            return Ok(json);
        }
    }
    if types.contains(&"string") {
        return Ok(text.into());
    }
    let expected: Vec<&str> = types
        .iter()
        .map(|name| match *name {
            "boolean" => "true or false",
            "integer" => "an integer",
            "number" => "a number",
            "array" => "a JSON array",
            "object" => "a JSON object",
            other => other,
        })
        .collect();
    let shown: String = text.chars().take(60).collect();
    Err(ArgumentError(format!("{key}: {shown:?} is invalid; expected {}", expected.join(" or "))))
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|it| it.fract() == 0.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "limit": {"type": "integer"},
                "ratio": {"type": "number"},
                "deep": {"type": "boolean"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "sizes": {"type": "array", "items": {"$ref": "#/$defs/size"}},
                "options": {"type": "object"},
                "id": {"type": ["integer", "string"]},
                "maybe": {"anyOf": [{"type": "number"}, {"type": "null"}]},
                "kind": {"enum": ["a", "b"]},
                "any": {},
            },
            "$defs": {"size": {"type": "integer"}},
        })
    }

    fn parsed(words: &[&str]) -> Result<Value, String> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let mut input: &[u8] = br#"{"path": "input"}"#;
        parse(&words, Some(&schema()), &mut input).map(Value::Object).map_err(|error| error.0)
    }

    #[test]
    fn values_have_the_types_of_the_schema() {
        for (words, want) in [
            (&[][..], json!({})),
            (&["-"], json!({"path": "input"})),
            (&[r#" {"path": 1}"#], json!({"path": 1})),
            (&["path=12"], json!({"path": "12"})),
            (&["path=a=b"], json!({"path": "a=b"})),
            (&["path="], json!({"path": ""})),
            (
                &["limit=12", "ratio=0.5", "deep=true"],
                json!({"limit": 12, "ratio": 0.5, "deep": true}),
            ),
            (&["tags=a", "tags=1"], json!({"tags": ["a", "1"]})),
            (&["sizes=1", "sizes=2"], json!({"sizes": [1, 2]})),
            (&["sizes=[1, 2]"], json!({"sizes": [1, 2]})),
            (&[r#"options={"a": 1}"#], json!({"options": {"a": 1}})),
            (&["id=7"], json!({"id": 7})),
            (&["id=x7"], json!({"id": "x7"})),
            (&["maybe=null"], json!({"maybe": null})),
            (&["kind=a"], json!({"kind": "a"})),
            (&["any=1"], json!({"any": 1})),
            (&["any=text"], json!({"any": "text"})),
            (&["path:=[1]"], json!({"path": [1]})),
            (&["new:=1"], json!({"new": 1})),
        ] {
            assert_eq!(parsed(words).unwrap(), want, "{words:?}");
        }
    }

    #[test]
    fn errors_name_the_argument() {
        for (words, want) in [
            (&["limit=1.5"][..], "limit: \"1.5\" is invalid; expected an integer"),
            (&["deep=yes"], "deep: \"yes\" is invalid; expected true or false"),
            (&["sizes=x"], "sizes: \"x\" is invalid; expected an integer"),
            (&["options=1"], "options: \"1\" is invalid; expected a JSON object"),
            (
                &["pth=x"],
                "the tool has no argument \"pth\"; did you mean \"path\"? (pth:=JSON sends it all the same)",
            ),
            (&["path=a", "path=b"], "path: given twice, and it is not an array"),
            (&["=x"], "\"=x\" has no name before the ="),
            (&[":=1"], "\":=1\" has no name before the ="),
            (&["path:=x"], "path: not JSON: expected value at line 1 column 1"),
            (&["{"], "the argument is not JSON: EOF while parsing an object at line 1 column 1"),
        ] {
            assert_eq!(parsed(words).unwrap_err(), want);
        }
        assert!(parsed(&["path"]).unwrap_err().contains("expected key=value"));
        let mut input: &[u8] = b"[1]";
        let error = parse(&["-".to_owned()], None, &mut input).unwrap_err();
        assert_eq!(error.0, "standard input is not a JSON object; expected {…}");
    }

    #[test]
    fn a_file_is_a_value() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        std::fs::write(&path, "12\n").unwrap();
        let path = path.to_str().unwrap();
        assert_eq!(parsed(&[&format!("path=@{path}")]).unwrap(), json!({"path": "12\n"}));
        assert_eq!(parsed(&[&format!("limit=@{path}")]).unwrap(), json!({"limit": 12}));
        let error = parsed(&["path=@/no/such/file"]).unwrap_err();
        assert!(error.starts_with("path: failed to open \"/no/such/file\": "), "{error}");
    }

    #[test]
    fn references_in_a_circle_end() {
        let root = json!({"properties": {"a": {"$ref": "#/properties/a"}}});
        let words = ["a=1".to_owned()];
        let parsed = parse(&words, Some(&root), &mut &b""[..]).unwrap();
        assert_eq!(Value::Object(parsed), json!({"a": 1}));
    }

    proptest! {
        #[test]
        fn any_words_are_read(words in prop::collection::vec("[a-z]{0,5}:?=?[^@]{0,20}", 0..4)) {
            _ = parse(&words, Some(&schema()), &mut &b""[..]);
            _ = parse(&words, None, &mut &b""[..]);
        }

        #[test]
        fn a_string_stays_as_it_is(text in "[^@].{0,40}") {
            let words = [format!("path={text}")];
            let parsed = parse(&words, Some(&schema()), &mut &b""[..]).unwrap();
            prop_assert_eq!(&parsed["path"], &Value::String(text));
        }

        #[test]
        fn json_comes_back(number in any::<i64>(), text in ".{0,20}", flag in any::<bool>()) {
            let value = json!({"any": [number, text, flag, null]});
            let words = [value.to_string()];
            let parsed = parse(&words, Some(&schema()), &mut &b""[..]).unwrap();
            prop_assert_eq!(Value::Object(parsed), value.clone());
            let words = [format!("any:={}", value["any"])];
            let parsed = parse(&words, Some(&schema()), &mut &b""[..]).unwrap();
            prop_assert_eq!(Value::Object(parsed), value);
        }
    }
}
