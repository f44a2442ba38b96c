//! Content: written in the scenario, in a file, as base64, or generated.

use std::{
    borrow::Cow,
    fmt, io,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
};

use super::generate::{Generate, GenerateError};

/// Content: a plain string, or a mapping with exactly one of `text`, `base64`, `file` and
/// `generate`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The string itself, as UTF-8.
    Text(String),
    /// Decoded when the scenario is read, so that an error shows then.
    Bytes(Vec<u8>),
    /// A file, relative to the scenario's folder.
    File(PathBuf),
    /// Generated content.
    Generate(Generate),
}

/// Why content cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Generate(#[from] GenerateError),
    #[error("{what} is not UTF-8 text")]
    NotText { what: String },
}

impl Source {
    /// Returns the content. `file` paths are relative to `folder`.
    pub(crate) fn bytes(&self, folder: &Path) -> Result<Vec<u8>, SourceError> {
        match self {
            Self::Text(text) => Ok(text.clone().into_bytes()),
            Self::Bytes(bytes) => Ok(bytes.clone()),
            Self::File(path) => {
                let path = folder.join(path);
                std::fs::read(&path).map_err(|error| SourceError::File { path, error })
            }
            Self::Generate(generate) => Ok(generate.bytes()?),
        }
    }

    /// Returns the content as text.
    pub(crate) fn text(&self, folder: &Path) -> Result<String, SourceError> {
        String::from_utf8(self.bytes(folder)?)
            .map_err(|_| SourceError::NotText { what: self.to_string() })
    }

    /// Returns the content in base64, as MCP encodes binary data.
    pub(crate) fn base64(&self, folder: &Path) -> Result<String, SourceError> {
        Ok(STANDARD.encode(self.bytes(folder)?))
    }
}

/// Formats the source as a scenario would write it, on one line.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Bytes(bytes) => write!(f, "{{base64: {}}}", STANDARD.encode(bytes)),
            Self::File(path) => write!(f, "{{file: {}}}", path.display()),
            Self::Generate(Generate { kind, bytes, seed }) => {
                write!(f, "{{generate: {{kind: {kind}")?;
                if let Some(bytes) = bytes {
                    write!(f, ", bytes: {}", bytes.0)?;
                }
                if *seed != 0 {
                    write!(f, ", seed: {seed}")?;
                }
                f.write_str("}}")
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    text: Option<String>,
    base64: Option<String>,
    file: Option<PathBuf>,
    generate: Option<Generate>,
}

impl TryFrom<Parts> for Source {
    type Error = String;

    fn try_from(parts: Parts) -> Result<Self, String> {
        let Parts { text, base64, file, generate } = parts;
        let mut given = [
            text.map(Self::Text),
            base64
                .map(|code| STANDARD.decode(code.trim()).map(Self::Bytes))
                .transpose()
                .map_err(|error| format!("base64 content: {error}"))?,
            file.map(Self::File),
            generate.map(Self::Generate),
        ]
        .into_iter()
        .flatten();
        match (given.next(), given.next()) {
            (Some(source), None) => Ok(source),
            _ => Err("content needs exactly one of `text`, `base64`, `file` and `generate`".into()),
        }
    }
}

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SourceVisitor;

        impl<'de> Visitor<'de> for SourceVisitor {
            type Value = Source;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, or a mapping with `text`, `base64`, `file` or `generate`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Source, E> {
                Ok(Source::Text(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Source, A::Error> {
                let parts = Parts::deserialize(MapAccessDeserializer::new(map))?;
                Source::try_from(parts).map_err(de::Error::custom)
            }
        }

        deserializer.deserialize_any(SourceVisitor)
    }
}

impl JsonSchema for Source {
    fn schema_name() -> Cow<'static, str> {
        "Source".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let generate = generator.subschema_for::<Generate>();
        json_schema!({
            "description": "Content: a plain string, or exactly one of `text`, `base64`, `file` (relative to the scenario's folder) and `generate`.",
            "anyOf": [
                { "type": "string" },
                {
                    "type": "object",
                    "properties": {
                        "text": { "type": "string" },
                        "base64": { "type": "string" },
                        "file": { "type": "string" },
                        "generate": generate,
                    },
                    "minProperties": 1,
                    "maxProperties": 1,
                    "additionalProperties": false,
                },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_gives_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.bin"), [0, 255]).unwrap();
        for (yaml, want) in [
            ("plain", b"plain".to_vec()),
            ("{text: plain}", b"plain".to_vec()),
            ("{base64: AP8=}", vec![0, 255]),
            ("{file: a.bin}", vec![0, 255]),
            ("{generate: {kind: csv, bytes: 40}}", b"id,name,amount\n0,item 0,".to_vec()),
        ] {
            let source: Source = serde_yaml::from_str(yaml).unwrap();
            let bytes = source.bytes(folder.path()).unwrap();
            assert!(bytes.starts_with(&want), "{yaml}: {bytes:?}");
        }
    }

    #[test]
    fn a_source_is_shown_as_it_is_written() {
        for yaml in [
            "\"plain\"",
            "{base64: AP8=}",
            "{file: a.bin}",
            "{generate: {kind: csv, bytes: 40, seed: 2}}",
        ] {
            assert_eq!(serde_yaml::from_str::<Source>(yaml).unwrap().to_string(), yaml);
        }
    }

    #[test]
    fn a_wrong_form_is_refused() {
        for (yaml, want) in [
            ("{}", "exactly one of"),
            ("{text: a, base64: AA==}", "exactly one of"),
            ("{base64: '!'}", "base64 content"),
            ("{fiel: a}", "fiel"),
            ("[a]", "a string, or a mapping"),
        ] {
            let error = serde_yaml::from_str::<Source>(yaml).unwrap_err().to_string();
            assert!(error.contains(want), "{yaml}: {error}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Source::File("none.bin".into()).bytes(Path::new("/nowhere")).unwrap_err();
        assert!(error.to_string().starts_with("/nowhere/none.bin: "), "{error}");
    }
}
