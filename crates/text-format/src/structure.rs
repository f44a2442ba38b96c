//! Infers the structure of JSON and YAML: keys and types, never values.

use std::{cell::Cell, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
    ser::SerializeMap,
};

/// Keys and elements that one structure lists, whatever the settings allow for one object.
const MAX_NODES: usize = 1000;
/// Longest key that is listed whole, in bytes.
const MAX_KEY_BYTES: usize = 100;
/// Deepest YAML that is parsed.
#[cfg(feature = "detection")]
const MAX_YAML_DEPTH: usize = 64;

/// The inferred structure of a value.
///
/// In JSON it is an object with the same keys, an array with the shape of its first element, or the
/// name of a type: `str`, `int`, `float`, `bool`, `NoneType`, and `dict` or `list` below the depth
/// that was looked at. An object with more keys than the settings allow ends with a member `"..."`
/// that counts the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Structure {
    /// A scalar, or a container below the deepest level.
    Type(String),
    /// An object: its first keys in the order of the text.
    Object(Vec<(String, Self)>),
    /// An array: the shape of its first element, or nothing when it is empty.
    Array(Vec<Self>),
}

impl Serialize for Structure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Type(name) => serializer.serialize_str(name),
            Self::Array(elements) => elements.serialize(serializer),
            Self::Object(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (key, value) in members {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Structure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StructureVisitor;

        impl<'de> Visitor<'de> for StructureVisitor {
            type Value = Structure;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a type name, an object or an array")
            }

            fn visit_str<E>(self, name: &str) -> Result<Structure, E> {
                Ok(Structure::Type(name.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Structure, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = seq.next_element()? {
                    elements.push(element);
                }
                Ok(Structure::Array(elements))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Structure, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Structure::Object(members))
            }
        }

        deserializer.deserialize_any(StructureVisitor)
    }
}

/// The result of one pass over a document.
#[derive(Debug)]
pub struct Inspection {
    /// The whole value.
    pub root: Node,
    /// Number of strings among the values.
    pub strings: u64,
    /// Number of strings that read like sentences.
    pub sentences: u64,
    /// Number of keys that are unlikely in data.
    pub odd_keys: u64,
}

/// A value of a document.
#[derive(Debug)]
pub enum Node {
    /// The type of a scalar.
    Leaf(&'static str),
    /// An object.
    Object {
        /// The first members, in the order of the text.
        members: Vec<(String, Self)>,
        /// Number of members.
        count: u64,
    },
    /// An array.
    Array {
        /// The first element.
        first: Option<Box<Self>>,
        /// Number of elements.
        length: u64,
    },
}

impl Inspection {
    /// Returns the structure with at most this many keys of an object and levels.
    #[must_use]
    pub fn structure(&self, max_keys: usize, levels: usize) -> Structure {
        self.root.structure(max_keys, levels)
    }
}

impl Node {
    fn structure(&self, max_keys: usize, levels: usize) -> Structure {
        match self {
            Self::Leaf(name) => Structure::Type((*name).to_owned()),
            Self::Object { .. } if levels == 0 => Structure::Type("dict".to_owned()),
            Self::Array { .. } if levels == 0 => Structure::Type("list".to_owned()),
            Self::Array { first, .. } => Structure::Array(
                first.iter().map(|first| first.structure(max_keys, levels - 1)).collect(),
            ),
            Self::Object { members, count } => {
                let kept = members.iter().take(max_keys);
                let mut shown: Vec<_> = kept
                    .map(|(key, value)| (key.clone(), value.structure(max_keys, levels - 1)))
                    .collect();
                let more = count - shown.len() as u64;
                if more > 0 {
                    shown.push(("...".to_owned(), Structure::Type(format!("{more} more keys"))));
                }
                Structure::Object(shown)
            }
        }
    }
}

/// Inspects JSON text, and keeps `max_keys` keys of an object and `levels` levels.
///
/// # Errors
///
/// Returns an error if the text is not JSON.
pub fn inspect_json(text: &str, max_keys: usize, levels: usize) -> Result<Inspection, String> {
    let cx = Context::new(max_keys, levels);
    let mut reader = serde_json::Deserializer::from_str(text);
    let root = cx.root().deserialize(&mut reader).and_then(|root| reader.end().map(|()| root));
    root.map(|root| cx.finish(root)).map_err(|error| error.to_string())
}

/// Inspects one YAML document.
///
/// # Errors
///
/// Returns an error if the text is not one YAML document, or too deep.
#[cfg(feature = "detection")]
pub fn inspect_yaml(text: &str, max_keys: usize, levels: usize) -> Result<Inspection, String> {
    let options = serde_yaml::options! {
        budget: serde_yaml::budget! { max_depth: MAX_YAML_DEPTH, max_documents: 1, max_aliases: 100, max_anchors: 100, },
        // `yes` and `no` are words, as in YAML 1.2.
        strict_booleans: true,
        with_snippet: false,
    };
    let cx = Context::new(max_keys, levels);
    serde_yaml::with_deserializer_from_str_with_options(text, options, |reader| {
        cx.root().deserialize(reader)
    })
    .map(|root| cx.finish(root))
    .map_err(|error| error.to_string())
}

struct Context {
    max_keys: usize,
    levels: usize,
    nodes: Cell<usize>,
    strings: Cell<u64>,
    sentences: Cell<u64>,
    odd_keys: Cell<u64>,
}

impl Context {
    fn new(max_keys: usize, levels: usize) -> Self {
        Self {
            max_keys,
            levels,
            nodes: Cell::new(MAX_NODES),
            strings: Cell::default(),
            sentences: Cell::default(),
            odd_keys: Cell::default(),
        }
    }

    fn root(&self) -> Inspect<'_> {
        Inspect { cx: self, level: 0 }
    }

    fn finish(&self, root: Node) -> Inspection {
        Inspection {
            root,
            strings: self.strings.get(),
            sentences: self.sentences.get(),
            odd_keys: self.odd_keys.get(),
        }
    }

    /// Takes one more key or element of the limit; false when it is reached.
    fn take(&self) -> bool {
        let left = self.nodes.get();
        self.nodes.set(left.saturating_sub(1));
        left > 0
    }
}

#[derive(Clone, Copy)]
struct Inspect<'c> {
    cx: &'c Context,
    level: usize,
}

impl Inspect<'_> {
    fn deeper(self) -> Self {
        Self { level: self.level + 1, ..self }
    }

    fn at_limit(self) -> bool {
        self.level >= self.cx.levels
    }
}

impl<'de> DeserializeSeed<'de> for Inspect<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Inspect<'_> {
    type Value = Node;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Leaf("bool"))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Leaf("int"))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Leaf("int"))
    }

    fn visit_i128<E>(self, _: i128) -> Result<Node, E> {
        Ok(Node::Leaf("int"))
    }

    fn visit_u128<E>(self, _: u128) -> Result<Node, E> {
        Ok(Node::Leaf("int"))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Leaf("float"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        self.cx.strings.set(self.cx.strings.get() + 1);
        if reads_like_a_sentence(text) {
            self.cx.sentences.set(self.cx.sentences.get() + 1);
        }
        Ok(Node::Leaf("str"))
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<Node, E> {
        Ok(Node::Leaf("bytes"))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf("NoneType"))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf("NoneType"))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        let mut first = None;
        let mut length = 0;
        if !self.at_limit()
            && self.cx.take()
            && let Some(element) = seq.next_element_seed(self.deeper())?
        {
            first = Some(Box::new(element));
            length += 1;
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {
            length += 1;
        }
        Ok(Node::Array { first, length })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut members = Vec::new();
        let mut count = 0;
        while !self.at_limit() && members.len() < self.cx.max_keys && self.cx.take() {
            let Some(Key(key)) = map.next_key()? else {
                return Ok(Node::Object { members, count });
            };
            if is_odd_key(&key) {
                self.cx.odd_keys.set(self.cx.odd_keys.get() + 1);
            }
            members.push((key, map.next_value_seed(self.deeper())?));
            count += 1;
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok(Node::Object { members, count })
    }
}

/// A key of any scalar type as text, shortened.
struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;

        impl Visitor<'_> for KeyVisitor {
            type Value = Key;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a scalar key")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Key, E> {
                Ok(Key(crate::shortened(text, MAX_KEY_BYTES)))
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Key, E> {
                Ok(Key(value.to_string()))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Key, E> {
                Ok(Key(value.to_string()))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Key, E> {
                Ok(Key(value.to_string()))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Key, E> {
                Ok(Key(value.to_string()))
            }

            fn visit_unit<E: Error>(self) -> Result<Key, E> {
                Ok(Key("null".to_owned()))
            }
        }

        deserializer.deserialize_any(KeyVisitor)
    }
}

/// Returns whether a text has six words or more, or two and a full stop: seldom in data, nearly
/// always in prose.
fn reads_like_a_sentence(text: &str) -> bool {
    // Text of several lines is deliberate in data (`|` in YAML).
    if text.trim_end().contains('\n') {
        return false;
    }
    let words = text.split_whitespace().take(6).count();
    words == 6 || (words >= 2 && text.trim_end().ends_with(['.', '!', '?']))
}

fn is_odd_key(key: &str) -> bool {
    key.is_empty()
        || key.len() > 64
        || key.split_whitespace().nth(3).is_some()
        || key.contains(['(', ')', '{', '}', '[', ']', '=', ';', ',', '`', '*', '#', '"', '|'])
}

#[cfg(all(test, feature = "detection"))]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[test]
    fn json_structures() {
        check(
            r#"{"b": 1, "a": [{"x": 1.5, "y": null}, 2], "c": {"d": {"e": {"f": {}}}}}"#,
            expect![[
                r#"{"b":"int","a":[{"x":"float","y":"NoneType"}],"c":{"d":{"e":{"f":"dict"}}}}"#
            ]],
        );
        check(r"[[[[[1]]]]]", expect![[r#"[[[["list"]]]]"#]]);
        check(r"[]", expect!["[]"]);
        check(r"{}", expect!["{}"]);
        check(r#"[true, "x"]"#, expect![[r#"["bool"]"#]]);
        check(
            r#"{"k1":1,"k2":1,"k3":1,"k4":1,"k5":1}"#,
            expect![[r#"{"k1":"int","k2":"int","k3":"int","...":"2 more keys"}"#]],
        );
        check(r#"{"a": 1"#, expect!["EOF while parsing an object at line 1 column 7"]);
        check(r"[1] 2", expect!["trailing characters at line 1 column 5"]);
        check(r#"{"a": {"b": 1e999}}"#, expect!["number out of range at line 1 column 17"]);
    }

    #[test]
    fn yaml_structures() {
        check_yaml(
            "a: 1\nb: [x, y]\n3: yes\nd: 2024-01-01\n~: null\n",
            expect![[r#"{"a":"int","b":["str"],"3":"str","...":"2 more keys"}"#]],
        );
        check_yaml("- a\n- b\n", expect![[r#"["str"]"#]]);
        check_yaml(
            "a: 1\n---\nb: 2\n",
            expect!["budget breached: Documents { documents: 2 } at line 2, column 1"],
        );
        check_yaml("a: &x 1\nb: *x\n", expect![[r#"{"a":"int","b":"int"}"#]]);
        check_yaml(
            "a: 1\na: 2\n",
            expect![
                "duplicate mapping key: a, set DuplicateKeyPolicy in Options if acceptable at line 2, column 1"
            ],
        );
        check_yaml(
            "? {a: 1}\n: 2\n",
            expect!["invalid type: map, expected a scalar key at line 1, column 3"],
        );
        check_yaml("a: [", expect!["unclosed bracket '[' at line 1, column 4"]);
    }

    #[test]
    fn bombs_are_refused_quickly() {
        let levels: String =
            (1..30).map(|n| format!("l{n}: &l{n} [*l{0}, *l{0}, *l{0}, *l{0}]\n", n - 1)).collect();
        assert!(inspect_yaml(&format!("l0: &l0 [a, a]\n{levels}"), 20, 4).is_err());
        assert!(inspect_yaml(&"[".repeat(20_000), 20, 4).is_err());
        assert!(inspect_yaml(&"- ".repeat(20_000), 20, 4).is_err());
    }

    #[test]
    fn deep_and_wide_json_stays_small() {
        let deep = format!("{}1{}", "[".repeat(200_000), "]".repeat(200_000));
        check(&deep, expect![[r#"[[[["list"]]]]"#]]);
        let mut wide = "1".to_owned();
        for _ in 0..4 {
            let members: String = (0..50).map(|n| format!("\"k{n}\":{wide},")).collect();
            wide = format!("{{{members}\"z\":{wide}}}");
        }
        let structure = inspect_json(&wide, 50, 10).unwrap().structure(50, 10);
        assert!(serde_json::to_string(&structure).unwrap().len() < 100_000);
    }

    #[test]
    fn structures_survive_being_stored() {
        let json = r#"{"b":"int","a":[{"x":"float"}],"...":"3 more keys"}"#;
        let structure: Structure = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&structure).unwrap(), json);
    }

    #[track_caller]
    fn check(json: &str, want: Expect) {
        want.assert_eq(&shown(inspect_json(json, 20, 10)));
    }

    #[track_caller]
    fn check_yaml(yaml: &str, want: Expect) {
        want.assert_eq(&shown(inspect_yaml(yaml, 20, 10)));
    }

    fn shown(inspection: Result<Inspection, String>) -> String {
        match inspection {
            Ok(inspection) => serde_json::to_string(&inspection.structure(3, 4)).unwrap(),
            Err(error) => error,
        }
    }
}
