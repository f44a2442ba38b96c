//! Matchers of JSON values: a value that must be equal, with operators where equality is too
//! strict.
//!
//! An object matches an object in which each of its members matches; further members are ignored.
//! An array matches an array of the same length whose items match in order. An object with one
//! member whose name begins with `$` is an operator:
//!
//! | operator | matches |
//! |---|---|
//! | `{"$any": true}` | any value |
//! | `{"$absent": true}` | only a member that is missing or null |
//! | `{"$exact": value}` | an equal value: objects with no further members |
//! | `{"$regex": "^a"}` | a text that contains a match of the regular expression |
//! | `{"$mentions": ["a", "b"]}` | a text that contains all of these, ignoring case |
//! | `{"$lacks": ["a"]}` | a text that contains none of these, ignoring case |
//! | `{"$starts_with": "a"}`, `{"$ends_with": "a"}` | a text that begins or ends with this one |
//! | `{"$length": matcher}` | a text, array or object whose length matches (characters, items, members) |
//! | `{"$range": {"min": 1, "max": 2}}` | a number within these bounds |
//! | `{"$type": "string"}` | a value of this JSON type |
//! | `{"$includes": matcher}` | an array with an item that matches |
//! | `{"$each": matcher}` | an array whose items all match |
//! | `{"$not": matcher}` | a value that does not match |
//! | `{"$any_of": [matcher, …]}`, `{"$all": [matcher, …]}` | a value that any or all of the matchers match |
//!
//! ```
//! use marquetry_judge::matcher::Matcher;
//! use serde_json::json;
//!
//! let matcher = Matcher::new(json!({"path": {"$ends_with": ".txt"}, "lines": {"$range": {"min": 1}}}))?;
//! assert!(matcher.matches(Some(&json!({"path": "a.txt", "lines": 2, "mode": "w"}))));
//! assert!(!matcher.matches(Some(&json!({"path": "a.txt"}))));
//! # Ok::<(), marquetry_judge::matcher::MatcherError>(())
//! ```

use regex::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Largest compiled regular expression, in bytes.
const MAX_REGEX_BYTES: usize = 1 << 20;

/// A checked matcher; see the [module](self).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Value", into = "Value")]
#[schemars(with = "Value")]
pub struct Matcher {
    /// The matcher as it was given.
    json: Value,
    rule: Rule,
}

/// Why a value is not a matcher.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MatcherError {
    /// An operator that does not exist.
    #[error(
        "unknown operator {0:?}; write {{\"$exact\": …}} around a value whose names begin with $"
    )]
    UnknownOperator(String),
    /// An object with an operator and other members.
    #[error("the operator {0:?} must be the only member of its object")]
    OtherMembers(String),
    /// The operand of an operator has the wrong form.
    #[error("{operator} needs {needs}")]
    Operand {
        /// The operator.
        operator: String,
        /// The form that it needs.
        needs: &'static str,
    },
    /// An invalid regular expression.
    #[error("$regex: {0}")]
    Regex(String),
}

#[derive(Clone, Debug)]
enum Rule {
    Any,
    Absent,
    Equal(Value),
    Object(Vec<(String, Self)>),
    Array(Vec<Self>),
    Regex(Regex),
    Mentions(Vec<String>),
    Lacks(Vec<String>),
    StartsWith(String),
    EndsWith(String),
    Length(Box<Self>),
    Range(f64, f64),
    Type(JsonType),
    Includes(Box<Self>),
    Each(Box<Self>),
    Not(Box<Self>),
    AnyOf(Vec<Self>),
    All(Vec<Self>),
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum JsonType {
    String,
    Number,
    Integer,
    Boolean,
    Array,
    Object,
    Null,
}

impl Matcher {
    /// Parses a matcher.
    ///
    /// # Errors
    ///
    /// Returns an error if an operator is unknown or has an invalid operand; see [`MatcherError`].
    pub fn new(json: Value) -> Result<Self, MatcherError> {
        Ok(Self { rule: Rule::parse(&json)?, json })
    }

    /// Returns whether a value matches; `None` is a member that is missing.
    pub fn matches(&self, value: Option<&Value>) -> bool {
        self.rule.matches(value)
    }

    /// Returns the matcher as it was given.
    pub fn as_value(&self) -> &Value {
        &self.json
    }
}

impl PartialEq for Matcher {
    fn eq(&self, other: &Self) -> bool {
        self.json == other.json
    }
}

impl TryFrom<Value> for Matcher {
    type Error = MatcherError;

    fn try_from(json: Value) -> Result<Self, MatcherError> {
        Self::new(json)
    }
}

impl From<Matcher> for Value {
    fn from(matcher: Matcher) -> Self {
        matcher.json
    }
}

impl Rule {
    fn parse(json: &Value) -> Result<Self, MatcherError> {
        match json {
            Value::Object(members) => match members.keys().find(|name| name.starts_with('$')) {
                Some(name) if members.len() > 1 => Err(MatcherError::OtherMembers(name.clone())),
                Some(name) => Self::parse_operator(name, &members[name]),
                None => members
                    .iter()
                    .map(|(name, value)| Ok((name.clone(), Self::parse(value)?)))
                    .collect::<Result<_, _>>()
                    .map(Self::Object),
            },
            Value::Array(items) => Self::parse_all(items).map(Self::Array),
            scalar => Ok(Self::Equal(scalar.clone())),
        }
    }

    fn parse_all(items: &[Value]) -> Result<Vec<Self>, MatcherError> {
        items.iter().map(Self::parse).collect()
    }

    fn parse_operator(name: &str, value: &Value) -> Result<Self, MatcherError> {
        let operand = Operand { operator: name, value };
        Ok(match name {
            "$any" if *value == true => Self::Any,
            "$absent" if *value == true => Self::Absent,
            "$any" | "$absent" => return Err(operand.error("true")),
            "$exact" => Self::Equal(value.clone()),
            "$regex" => {
                let built = RegexBuilder::new(operand.text()?).size_limit(MAX_REGEX_BYTES).build();
                Self::Regex(built.map_err(|error| MatcherError::Regex(error.to_string()))?)
            }
            "$mentions" => Self::Mentions(operand.lowercase_texts()?),
            "$lacks" => Self::Lacks(operand.lowercase_texts()?),
            "$starts_with" => Self::StartsWith(operand.text()?.to_owned()),
            "$ends_with" => Self::EndsWith(operand.text()?.to_owned()),
            "$length" => Self::Length(operand.rule()?),
            "$range" => operand.range()?,
            "$type" => {
                let kind = JsonType::deserialize(value);
                Self::Type(kind.map_err(|_| operand.error("the name of a JSON type"))?)
            }
            "$includes" => Self::Includes(operand.rule()?),
            "$each" => Self::Each(operand.rule()?),
            "$not" => Self::Not(operand.rule()?),
            "$any_of" => Self::AnyOf(operand.rules()?),
            "$all" => Self::All(operand.rules()?),
            _ => return Err(MatcherError::UnknownOperator(name.to_owned())),
        })
    }

    /// Returns whether a value matches; `None` is a member that is missing.
    fn matches(&self, value: Option<&Value>) -> bool {
        let Some(value) = value else {
            return match self {
                Self::Absent => true,
                Self::Not(rule) => !rule.matches(None),
                Self::AnyOf(rules) => rules.iter().any(|rule| rule.matches(None)),
                Self::All(rules) => rules.iter().all(|rule| rule.matches(None)),
                _ => false,
            };
        };
        let text = value.as_str();
        match self {
            Self::Any => true,
            Self::Absent => value.is_null(),
            Self::Equal(wanted) => equal(wanted, value),
            Self::Object(members) => value.as_object().is_some_and(|object| {
                members.iter().all(|(name, rule)| rule.matches(object.get(name)))
            }),
            Self::Array(rules) => value.as_array().is_some_and(|items| {
                items.len() == rules.len()
                    && rules.iter().zip(items).all(|(rule, item)| rule.matches(Some(item)))
            }),
            Self::Regex(regex) => text.is_some_and(|text| regex.is_match(text)),
            Self::Mentions(texts) => text
                .map(str::to_lowercase)
                .is_some_and(|text| texts.iter().all(|wanted| text.contains(wanted))),
            Self::Lacks(texts) => text
                .map(str::to_lowercase)
                .is_some_and(|text| !texts.iter().any(|wanted| text.contains(wanted))),
            Self::StartsWith(start) => text.is_some_and(|text| text.starts_with(start)),
            Self::EndsWith(end) => text.is_some_and(|text| text.ends_with(end)),
            Self::Length(rule) => {
                let length = match value {
                    Value::String(text) => text.chars().count(),
                    Value::Array(items) => items.len(),
                    Value::Object(members) => members.len(),
                    _ => return false,
                };
                rule.matches(Some(&Value::from(length)))
            }
            Self::Range(min, max) => {
                value.as_f64().is_some_and(|number| *min <= number && number <= *max)
            }
            Self::Type(kind) => match kind {
                JsonType::String => value.is_string(),
                JsonType::Number => value.is_number(),
                JsonType::Integer => value.as_f64().is_some_and(|number| number.fract() == 0.0),
                JsonType::Boolean => value.is_boolean(),
                JsonType::Array => value.is_array(),
                JsonType::Object => value.is_object(),
                JsonType::Null => value.is_null(),
            },
            Self::Includes(rule) => value
                .as_array()
                .is_some_and(|items| items.iter().any(|item| rule.matches(Some(item)))),
            Self::Each(rule) => value
                .as_array()
                .is_some_and(|items| items.iter().all(|item| rule.matches(Some(item)))),
            Self::Not(rule) => !rule.matches(Some(value)),
            Self::AnyOf(rules) => rules.iter().any(|rule| rule.matches(Some(value))),
            Self::All(rules) => rules.iter().all(|rule| rule.matches(Some(value))),
        }
    }
}

/// The operand of an operator.
struct Operand<'a> {
    operator: &'a str,
    value: &'a Value,
}

impl Operand<'_> {
    /// Returns the error of an operand that is not `needs`.
    fn error(&self, needs: &'static str) -> MatcherError {
        MatcherError::Operand { operator: self.operator.to_owned(), needs }
    }

    fn text(&self) -> Result<&str, MatcherError> {
        self.value.as_str().ok_or_else(|| self.error("a text"))
    }

    fn lowercase_texts(&self) -> Result<Vec<String>, MatcherError> {
        let texts = match self.value {
            Value::String(text) => Some(vec![text.to_lowercase()]),
            Value::Array(items) => {
                items.iter().map(|item| item.as_str().map(str::to_lowercase)).collect()
            }
            _ => None,
        };
        texts.ok_or_else(|| self.error("a text or a list of texts"))
    }

    fn rule(&self) -> Result<Box<Rule>, MatcherError> {
        Rule::parse(self.value).map(Box::new)
    }

    fn rules(&self) -> Result<Vec<Rule>, MatcherError> {
        match self.value {
            Value::Array(items) if !items.is_empty() => Rule::parse_all(items),
            _ => Err(self.error("a list of matchers that is not empty")),
        }
    }

    fn range(&self) -> Result<Rule, MatcherError> {
        let Some(members) = self.value.as_object() else {
            return Err(self.error("an object with min or max"));
        };
        range(members).ok_or_else(|| self.error("an object of min and max, which are numbers"))
    }
}

fn range(members: &Map<String, Value>) -> Option<Rule> {
    if members.is_empty() || members.keys().any(|name| name != "min" && name != "max") {
        return None;
    }
    let min = members.get("min").map_or(Some(f64::NEG_INFINITY), Value::as_f64)?;
    let max = members.get("max").map_or(Some(f64::INFINITY), Value::as_f64)?;
    Some(Rule::Range(min, max))
}

/// Returns whether values are equal. `2.0` is equal to `2`, because models write both.
fn equal(left: &Value, right: &Value) -> bool {
    /// Just below 2^53. Larger integers may differ and still have the same `f64`.
    const MAX_EXACT: f64 = 9e15;
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            left == right
                || (left.as_f64() == right.as_f64()
                    && left.as_f64().is_some_and(|number| number.abs() < MAX_EXACT))
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(name, value)| right.get(name).is_some_and(|right| equal(value, right)))
        }
        _ => left == right,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(matcher: Value, good: &[Value], bad: &[Value]) {
        let matcher = Matcher::new(matcher).unwrap();
        for value in good {
            assert!(matcher.matches(Some(value)), "{:?} must match {value}", matcher.json);
        }
        for value in bad {
            assert!(!matcher.matches(Some(value)), "{:?} must not match {value}", matcher.json);
        }
    }

    #[test]
    fn values_and_operators_match() {
        check(json!(2), &[json!(2), json!(2.0)], &[json!("2"), json!(3), json!(null)]);
        check(json!({"a": 1}), &[json!({"a": 1, "b": 2})], &[json!({"b": 2}), json!([1])]);
        check(json!([1, {"$any": true}]), &[json!([1, "x"])], &[json!([1]), json!([2, "x"])]);
        check(json!({"$exact": {"a": 1}}), &[json!({"a": 1})], &[json!({"a": 1, "b": 2})]);
        check(
            json!({"a": {"$absent": true}}),
            &[json!({}), json!({"a": null})],
            &[json!({"a": 1})],
        );
        check(json!({"$regex": "^a.c$"}), &[json!("abc")], &[json!("xabc"), json!(1)]);
        check(json!({"$mentions": ["One", "two"]}), &[json!("TWO and one")], &[json!("one")]);
        check(json!({"$lacks": "error"}), &[json!("fine")], &[json!("An Error"), json!(1)]);
        check(json!({"$starts_with": "a"}), &[json!("ab")], &[json!("cab")]);
        check(json!({"$ends_with": "b"}), &[json!("ab")], &[json!("abc")]);
        check(
            json!({"$length": {"$range": {"min": 2}}}),
            &[json!("äö"), json!([1, 2])],
            &[json!("ä"), json!(2)],
        );
        check(
            json!({"$range": {"min": 1, "max": 2}}),
            &[json!(1), json!(2)],
            &[json!(0.9), json!(2.1), json!("1")],
        );
        check(json!({"$type": "integer"}), &[json!(1), json!(1.0)], &[json!(1.5), json!("1")]);
        check(json!({"$includes": 1}), &[json!([2, 1])], &[json!([2]), json!(1)]);
        check(
            json!({"$each": {"$type": "string"}}),
            &[json!([]), json!(["a"])],
            &[json!(["a", 1])],
        );
        check(json!({"$not": 1}), &[json!(2)], &[json!(1)]);
        check(json!({"$any_of": [1, 2]}), &[json!(2)], &[json!(3)]);
        check(json!({"$all": [{"$type": "string"}, {"$not": ""}]}), &[json!("a")], &[json!("")]);
    }

    #[test]
    fn invalid_matchers_are_refused() {
        for invalid in [
            json!({"$nope": 1}),
            json!({"$regex": "("}),
            json!({"$regex": "a", "b": 1}),
            json!({"$range": {}}),
            json!({"$range": {"min": "1"}}),
            json!({"$any_of": []}),
            json!({"$any": false}),
            json!({"a": [{"$type": "text"}]}),
            json!({"$regex": "(a{1000}){1000}"}),
        ] {
            assert!(Matcher::new(invalid.clone()).is_err(), "{invalid}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-c]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c]", inner, 0..3).prop_map(|map| json!(map)),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_plain_value_matches_itself(value in value()) {
            let plain = Matcher::new(value.clone()).unwrap();
            prop_assert!(plain.matches(Some(&value)));
            let exact = Matcher::new(json!({"$exact": value})).unwrap();
            prop_assert!(exact.matches(Some(&value)));
        }

        #[test]
        fn not_is_the_opposite(rule in value(), value in value()) {
            let plain = Matcher::new(rule.clone()).unwrap();
            let not = Matcher::new(json!({"$not": rule})).unwrap();
            prop_assert_ne!(plain.matches(Some(&value)), not.matches(Some(&value)));
        }
    }
}
