//! Definitions: a server's description of a tool or a prompt, and its instructions.

use std::fmt;

use marquetry_canonical_json::canonical;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Value, value::RawValue};

/// The kind of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The instructions of a server for models.
    Instructions,
    /// A tool.
    Tool,
    /// A prompt.
    Prompt,
}

impl Kind {
    /// Returns its name for people: "tool", "prompt" or "instructions".
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Tool => "tool",
            Self::Prompt => "prompt",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The BLAKE3 hash of a definition's canonical JSON (RFC 8785).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DefinitionHash(blake3::Hash);

impl DefinitionHash {
    /// Returns the hash of a canonical text.
    #[must_use]
    pub fn of(canonical: &str) -> Self {
        Self(blake3::hash(canonical.as_bytes()))
    }
}

impl fmt::Display for DefinitionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_hex())
    }
}

impl Serialize for DefinitionHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.to_hex())
    }
}

impl<'de> Deserialize<'de> for DefinitionHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let problem = "a hash has 64 hexadecimal digits";
        blake3::Hash::from_hex(text).map(Self).map_err(|_| D::Error::custom(problem))
    }
}

/// A definition as a server sends it.
#[derive(Clone, Debug)]
pub struct Definition {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) hash: DefinitionHash,
    /// Its canonical text.
    pub(crate) text: Box<RawValue>,
}

impl Definition {
    /// Creates the definition of a tool, with everything that its server sends about it. `None` if
    /// it is no JSON.
    #[must_use]
    pub fn tool(name: &str, tool: &impl Serialize) -> Option<Self> {
        Self::new(Kind::Tool, name, &serde_json::to_value(tool).ok()?)
    }

    /// Creates the definition of a prompt, as [`Self::tool`] does.
    #[must_use]
    pub fn prompt(name: &str, prompt: &impl Serialize) -> Option<Self> {
        Self::new(Kind::Prompt, name, &serde_json::to_value(prompt).ok()?)
    }

    /// Creates the definition of a server's instructions.
    #[must_use]
    pub fn instructions(text: &str) -> Option<Self> {
        Self::new(Kind::Instructions, "", &Value::from(text))
    }

    fn new(kind: Kind, name: &str, value: &Value) -> Option<Self> {
        let text = RawValue::from_string(canonical(value)).ok()?;
        let hash = DefinitionHash::of(text.get());
        Some(Self { kind, name: name.to_owned(), hash, text })
    }

    /// Returns its kind.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns its name; empty for instructions.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its hash.
    #[must_use]
    pub fn hash(&self) -> DefinitionHash {
        self.hash
    }
}
