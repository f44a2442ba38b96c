//! Values that a scenario sends: plain data with captures and content filled in.

use std::{borrow::Cow, fmt, path::Path};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};

use super::{
    source::{Source, SourceError},
    vars::{self, UnknownVar, Vars},
};

/// A JSON value to send. Strings may hold `${captures}`. `{$text: SOURCE}` and `{$base64: SOURCE}`
/// stand for a string with that content, and `{$literal: VALUE}` for a value without replacements.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Template {
    /// Null, a boolean or a number.
    Scalar(Value),
    /// A string, with captures.
    String(String),
    List(Vec<Self>),
    Map(Vec<(String, Self)>),
    /// Content as text.
    Text(Source),
    /// Content as base64.
    Base64(Source),
    /// A value in which nothing is replaced.
    Literal(Value),
}

/// Why a template cannot be filled in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TemplateError {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Var(#[from] UnknownVar),
}

const OPERATORS: &[&str] = &["$text", "$base64", "$literal"];

impl Template {
    /// Returns the value to send.
    pub(crate) fn fill(&self, vars: &Vars, folder: &Path) -> Result<Value, TemplateError> {
        Ok(match self {
            Self::Scalar(value) | Self::Literal(value) => value.clone(),
            Self::String(text) => vars.value(text)?,
            Self::List(items) => {
                items.iter().map(|item| item.fill(vars, folder)).collect::<Result<_, _>>()?
            }
            Self::Map(entries) => entries
                .iter()
                .map(|(key, value)| Ok((key.clone(), value.fill(vars, folder)?)))
                .collect::<Result<Map<_, _>, TemplateError>>()?
                .into(),
            Self::Text(source) => Value::String(source.text(folder)?),
            Self::Base64(source) => Value::String(source.base64(folder)?),
        })
    }

    /// Collects the captures that it uses.
    pub(crate) fn names<'a>(&'a self, found: &mut Vec<&'a str>) {
        match self {
            Self::String(text) => found.extend(vars::names(text)),
            Self::List(items) => items.iter().for_each(|item| item.names(found)),
            Self::Map(entries) => entries.iter().for_each(|(_, value)| value.names(found)),
            Self::Scalar(_) | Self::Text(_) | Self::Base64(_) | Self::Literal(_) => {}
        }
    }
}

/// Formats the template as a scenario would write it, on one line.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(value) => write!(f, "{value}"),
            Self::String(text) => write!(f, "{text:?}"),
            Self::List(items) => {
                let items: Vec<_> = items.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", items.join(", "))
            }
            Self::Map(entries) => {
                let entries: Vec<_> =
                    entries.iter().map(|(key, value)| format!("{key}: {value}")).collect();
                write!(f, "{{{}}}", entries.join(", "))
            }
            Self::Text(source) => write!(f, "{{$text: {source}}}"),
            Self::Base64(source) => write!(f, "{{$base64: {source}}}"),
            Self::Literal(value) => write!(f, "{{$literal: {value}}}"),
        }
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TemplateVisitor;

        impl<'de> Visitor<'de> for TemplateVisitor {
            type Value = Template;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_unit<E>(self) -> Result<Template, E> {
                Ok(Template::Scalar(Value::Null))
            }

            fn visit_none<E: de::Error>(self) -> Result<Template, E> {
                self.visit_unit()
            }

            fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Template, D::Error> {
                inner.deserialize_any(self)
            }

            fn visit_bool<E>(self, value: bool) -> Result<Template, E> {
                Ok(Template::Scalar(value.into()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Template, E> {
                Ok(Template::Scalar(value.into()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Template, E> {
                Ok(Template::Scalar(value.into()))
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Template, E> {
                let number = Number::from_f64(value)
                    .ok_or_else(|| E::custom("JSON has no number that is not finite"))?;
                Ok(Template::Scalar(number.into()))
            }

            fn visit_str<E>(self, text: &str) -> Result<Template, E> {
                Ok(Template::String(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Template, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(Template::List(items))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Template, A::Error> {
                let mut entries = Vec::new();
                while let Some(key) = map.next_key::<String>()? {
                    if !key.starts_with('$') {
                        entries.push((key, map.next_value()?));
                        continue;
                    }
                    let template = match key.as_str() {
                        "$text" => Template::Text(map.next_value()?),
                        "$base64" => Template::Base64(map.next_value()?),
                        "$literal" => Template::Literal(map.next_value()?),
                        _ => return Err(de::Error::unknown_field(&key, OPERATORS)),
                    };
                    if !entries.is_empty() || map.next_key::<String>()?.is_some() {
                        return Err(de::Error::custom(format!(
                            "`{key}` stands alone in its mapping"
                        )));
                    }
                    return Ok(template);
                }
                Ok(Template::Map(entries))
            }
        }

        deserializer.deserialize_any(TemplateVisitor)
    }
}

impl JsonSchema for Template {
    fn schema_name() -> Cow<'static, str> {
        "Template".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let this = generator.subschema_for::<Self>();
        let source = generator.subschema_for::<Source>();
        json_schema!({
            "description": "A value to send. Strings may hold ${captures}.",
            "anyOf": [
                { "type": ["null", "boolean", "number", "string"] },
                { "type": "array", "items": this },
                {
                    "type": "object",
                    "properties": { "$text": source, "$base64": source, "$literal": true },
                    "patternProperties": { "^[^$]": this },
                    "additionalProperties": false,
                },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fill(yaml: &str) -> Value {
        let mut vars = Vars::default();
        vars.set("n", json!([1, 2]));
        serde_yaml::from_str::<Template>(yaml).unwrap().fill(&vars, Path::new(".")).unwrap()
    }

    #[test]
    fn plain_data_stays_as_it_is() {
        let yaml = "{a: [1, -2, 0.5, true, null, 'x'], b: {}}";
        assert_eq!(fill(yaml), json!({"a": [1, -2, 0.5, true, null, "x"], "b": {}}));
    }

    #[test]
    fn captures_and_content_are_filled_in() {
        assert_eq!(fill("{a: '${n}', b: 'x${n}'}"), json!({"a": [1, 2], "b": "x[1,2]"}));
        assert_eq!(fill("{$text: {base64: aGk=}}"), json!("hi"));
        assert_eq!(fill("[{$base64: hi}]"), json!(["aGk="]));
        assert_eq!(fill("{$literal: {$ref: '${n}'}}"), json!({"$ref": "${n}"}));
    }

    #[test]
    fn names_are_collected() {
        let template: Template = serde_yaml::from_str("{a: ['${x}'], b: '${y}'}").unwrap();
        let mut found = Vec::new();
        template.names(&mut found);
        assert_eq!(found, ["x", "y"]);
    }

    #[test]
    fn a_wrong_operator_is_refused() {
        for (yaml, want) in [("{$txt: a}", "$txt"), ("{$text: a, b: 1}", "stands alone")] {
            let error = serde_yaml::from_str::<Template>(yaml).unwrap_err().to_string();
            assert!(error.contains(want), "{yaml}: {error}");
        }
    }
}
