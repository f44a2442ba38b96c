//! `encodePlantUML` and `decodePlantUML`.

use marquetry_plantuml::{
    DecodeOptions, EncodeOptions, Format, Server, Source, SourceError, decode, encode,
};
use marquetry_protocol::{
    server::{Json, Toolbox},
    types::Tool,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub(crate) const ENCODE: &str = "encodePlantUML";
pub(crate) const DECODE: &str = "decodePlantUML";

/// What `encodePlantUML` takes.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct EncodeArguments {
    /// PlantUML source, at most 51,200 bytes, with real line breaks; @startuml and @enduml are optional.
    pub(crate) plantuml_code: String,
    /// "txt" is text art, for sequence diagrams.
    #[serde(default)]
    pub(crate) format: DiagramFormat,
    /// Also encode a bare @startuml/@enduml, which the server adds anyway.
    #[serde(default)]
    pub(crate) verbatim: bool,
}

/// What `decodePlantUML` takes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DecodeArguments {
    /// A code such as "SyfFKj2rKt3CoKnELR1Io4ZDoSa70000", or a URL that ends with one.
    pub(crate) code: String,
}

/// What a diagram's URL shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum DiagramFormat {
    #[default]
    Svg,
    Png,
    Txt,
}

/// What `encodePlantUML` answers.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct EncodedDiagram {
    /// Where the diagram can be seen; give it to the user.
    pub(crate) url: String,
    /// The code at the end of the URL.
    pub(crate) encoded: String,
    /// What the URL shows.
    pub(crate) format: DiagramFormat,
    /// The number of characters of the URL.
    pub(crate) length: usize,
    /// What to tell the user of a very long URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) warning: Option<String>,
}

/// What `decodePlantUML` answers.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DecodedDiagram {
    /// The diagram's PlantUML source text.
    pub(crate) plantuml_code: String,
}

/// Why a diagram tool failed. The wording of the first three is that of seed 002.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DiagramError {
    #[error("plantumlCode is required and cannot be empty")]
    Empty,
    #[error("PlantUML code exceeds maximum size of 50KB")]
    TooLarge,
    #[error("Failed to encode PlantUML code")]
    EncodingFailed,
    #[error("code is required and cannot be empty")]
    NoCode,
    #[error("Failed to decode PlantUML code: {0}")]
    Undecodable(String),
    #[error("{0}")]
    Argument(String),
}

impl DiagramError {
    /// Returns the error code of seed 002, scenario 4.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Empty | Self::NoCode => "EMPTY_CODE",
            Self::TooLarge => "CODE_TOO_LARGE",
            Self::EncodingFailed => "ENCODING_FAILED",
            Self::Undecodable(_) => "INVALID_CODE",
            Self::Argument(_) => "INVALID_ARGUMENT",
        }
    }
}

/// Returns whether the diagram is a JSON string that is no text: it has half of a surrogate pair.
pub(super) fn has_no_text(arguments: &RawValue) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Given<'a> {
        #[serde(borrow)]
        plantuml_code: &'a RawValue,
    }
    let Ok(given) = serde_json::from_str::<Given<'_>>(arguments.get()) else { return false };
    let code = given.plantuml_code.get();
    code.starts_with('"') && serde_json::from_str::<String>(code).is_err()
}

/// The diagram tools behind MCP, REST and the command line.
#[derive(Clone, Debug)]
pub(crate) struct Diagrams {
    server: Server,
}

impl Diagrams {
    /// Creates the tools; their URLs point to `server`.
    pub(crate) fn new(server: Server) -> Self {
        Self { server }
    }

    /// Encodes a diagram as a URL.
    pub(crate) fn encode(
        &self,
        arguments: &EncodeArguments,
    ) -> Result<EncodedDiagram, DiagramError> {
        let source = Source::new(&arguments.plantuml_code).map_err(|error| match error {
            SourceError::Blank => DiagramError::Empty,
            SourceError::TooLong { .. } => DiagramError::TooLarge,
            _ => DiagramError::EncodingFailed,
        })?;
        let code = encode(source, &EncodeOptions::new().with_verbatim(arguments.verbatim));
        let url = self.server.url(&code, arguments.format.into());
        Ok(EncodedDiagram {
            length: url.length(),
            warning: url.warning().map(|warning| warning.to_string()),
            url: url.into_string(),
            encoded: code.into_string(),
            format: arguments.format,
        })
    }

    /// Decodes the text of a diagram.
    pub(crate) fn decode(
        &self,
        arguments: &DecodeArguments,
    ) -> Result<DecodedDiagram, DiagramError> {
        if arguments.code.trim().is_empty() {
            return Err(DiagramError::NoCode);
        }
        let options = DecodeOptions::new().with_restored_wrapper(true);
        decode(&arguments.code, &options)
            .map(|plantuml_code| DecodedDiagram { plantuml_code })
            .map_err(|error| DiagramError::Undecodable(error.to_string()))
    }

    /// Adds the two tools to `toolbox`.
    pub(crate) fn add_to(&self, toolbox: Toolbox) -> Toolbox {
        let (encoder, decoder) = (self.clone(), self.clone());
        toolbox
            .tool(ENCODE, ENCODE_DESCRIPTION, move |arguments: EncodeArguments, _| {
                let outcome = encoder.encode(&arguments).map(Json);
                async move { outcome }
            })
            .tool(DECODE, DECODE_DESCRIPTION, move |arguments: DecodeArguments, _| {
                let outcome = decoder.decode(&arguments).map(Json);
                async move { outcome }
            })
    }

    /// Returns the two tools as lists show them.
    pub(crate) fn tools(&self) -> Vec<Tool> {
        let toolbox = self.add_to(Toolbox::new("diagrams", env!("CARGO_PKG_VERSION")));
        toolbox.tools().map(super::listed).collect()
    }
}

const ENCODE_DESCRIPTION: &str = "Turns PlantUML source text into a URL that shows the diagram: sequence, class, state, activity, mind map, Gantt and \
     others. Nothing is sent anywhere; the text is compressed into the URL.";

const DECODE_DESCRIPTION: &str =
    "Turns a PlantUML code, or a URL that ends with one, back into the diagram's source text.";

impl From<DiagramFormat> for Format {
    fn from(format: DiagramFormat) -> Self {
        match format {
            DiagramFormat::Svg => Self::Svg,
            DiagramFormat::Png => Self::Png,
            DiagramFormat::Txt => Self::Txt,
        }
    }
}
