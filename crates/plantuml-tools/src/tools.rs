//! `encodePlantUML` and `decodePlantUML`; with an engine on this machine also `renderPlantUML` and
//! `checkPlantUML`.

use std::sync::Arc;

use marquetry_plantuml::{
    DecodeOptions, EncodeOptions, Format, Server, Source, SourceError, decode, encode,
    engine::{Caller, Engine, EngineError, EngineOptions},
};
use marquetry_protocol::{
    server::{Json, ToolOutput as _, Toolbox},
    types::{CallToolResult, Tool},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};

/// Name of the tool that makes a URL of a diagram.
pub const ENCODE: &str = "encodePlantUML";
/// Name of the tool that makes text of a code.
pub const DECODE: &str = "decodePlantUML";
/// Name of the tool that draws a diagram.
pub const RENDER: &str = "renderPlantUML";
/// Name of the tool that finds the first error of a diagram.
pub const CHECK: &str = "checkPlantUML";

/// Arguments of `encodePlantUML`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EncodeArguments {
    /// PlantUML source, at most 51,200 bytes, with real line breaks; @startuml and @enduml are
    /// optional.
    pub plantuml_code: String,
    /// "txt" is text art, for sequence diagrams.
    #[serde(default)]
    pub format: DiagramFormat,
    /// Also encode a bare @startuml/@enduml.
    #[serde(default)]
    pub verbatim: bool,
}

/// Arguments of `decodePlantUML`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DecodeArguments {
    /// A code such as "SyfFKj2rKt3CoKnELR1Io4ZDoSa70000", or a URL that ends with one.
    pub code: String,
}

/// Arguments of `renderPlantUML` and `checkPlantUML`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DrawArguments {
    /// One diagram, at most 51,200 bytes; @startuml and @enduml are optional. It can read no files,
    /// addresses or environment variables.
    pub plantuml_code: String,
}

/// Result of `renderPlantUML`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DrawnDiagram {
    /// The picture, an SVG document.
    pub svg: String,
}

/// Result of `checkPlantUML`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CheckedDiagram {
    /// Whether the diagram is valid.
    pub valid: bool,
    /// The first error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<DiagramFault>,
}

/// An error in the text of a diagram.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DiagramFault {
    /// The line, counted from 1.
    pub line: usize,
    /// Message of PlantUML.
    pub message: String,
    /// The text of the line.
    pub text: String,
}

/// Format of the picture at the URL of a diagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[expect(missing_docs, reason = "docs of variants would make the schema of a tool longer")]
pub enum DiagramFormat {
    #[default]
    Svg,
    Png,
    Txt,
}

/// Result of `encodePlantUML`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct EncodedDiagram {
    /// URL that shows the diagram; give it to the user.
    pub url: String,
    /// The code at the end of the URL.
    pub encoded: String,
    /// Format of the picture at the URL.
    pub format: DiagramFormat,
    /// The number of characters of the URL.
    pub length: usize,
    /// Warning for the user about a very long URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// Result of `decodePlantUML`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecodedDiagram {
    /// The diagram's PlantUML source text.
    pub plantuml_code: String,
}

/// Why a diagram tool failed. The wording of the first three is that of seed 002.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiagramError {
    /// The text is missing or blank.
    #[error("plantumlCode is required and cannot be empty")]
    Empty,
    /// The text has more than 51,200 bytes.
    #[error("PlantUML code exceeds maximum size of 50KB")]
    TooLarge,
    /// The text is not Unicode, or cannot be encoded for another reason.
    #[error("Failed to encode PlantUML code")]
    EncodingFailed,
    /// The code is missing or blank.
    #[error("code is required and cannot be empty")]
    NoCode,
    /// The code is not one of PlantUML, with the reason.
    #[error("Failed to decode PlantUML code: {0}")]
    Undecodable(String),
    /// Another argument is wrong, with the reason.
    #[error("{0}")]
    Argument(String),
}

/// Why a diagram was not drawn or checked.
#[derive(Debug, thiserror::Error)]
enum DrawError {
    #[error(transparent)]
    Source(#[from] DiagramError),
    #[error("Failed to draw the diagram: {0}")]
    Engine(#[from] EngineError),
}

impl DiagramError {
    /// Returns the error code of seed 002, scenario 4.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Empty | Self::NoCode => "EMPTY_CODE",
            Self::TooLarge => "CODE_TOO_LARGE",
            Self::EncodingFailed => "ENCODING_FAILED",
            Self::Undecodable(_) => "INVALID_CODE",
            Self::Argument(_) => "INVALID_ARGUMENT",
        }
    }
}

/// Returns whether the diagram is a JSON string that is not text: it contains a lone surrogate.
#[must_use]
pub fn has_no_text(arguments: &RawValue) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct DiagramArguments<'a> {
        #[serde(borrow)]
        plantuml_code: &'a RawValue,
    }
    let Ok(given) = serde_json::from_str::<DiagramArguments<'_>>(arguments.get()) else {
        return false;
    };
    let code = given.plantuml_code.get();
    code.starts_with('"') && serde_json::from_str::<String>(code).is_err()
}

/// The diagram tools behind MCP, REST and the command line.
#[derive(Clone, Debug)]
pub struct Diagrams {
    server: Server,
    engine: Option<Arc<Engine>>,
}

impl Diagrams {
    /// Creates the tools; their URLs point to `server`.
    #[must_use]
    pub fn new(server: Server) -> Self {
        Self { server, engine: None }
    }

    /// Sets the engine, which starts with the first diagram.
    #[must_use]
    pub fn with_engine(self, options: Option<EngineOptions>) -> Self {
        Self { engine: options.map(|options| Arc::new(Engine::new(options))), ..self }
    }

    /// Ends the process of the engine.
    pub async fn close(&self) {
        if let Some(engine) = &self.engine {
            engine.stop().await;
        }
    }

    /// Encodes a diagram as a URL.
    ///
    /// # Errors
    /// Returns an error if the text is blank, too large, or cannot be encoded.
    pub fn encode(&self, arguments: &EncodeArguments) -> Result<EncodedDiagram, DiagramError> {
        let source = checked_source(&arguments.plantuml_code)?;
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
    ///
    /// # Errors
    /// Returns an error if the code is blank or not one of PlantUML.
    pub fn decode(&self, arguments: &DecodeArguments) -> Result<DecodedDiagram, DiagramError> {
        if arguments.code.trim().is_empty() {
            return Err(DiagramError::NoCode);
        }
        let options = DecodeOptions::new().with_restored_wrapper(true);
        decode(&arguments.code, &options)
            .map(|plantuml_code| DecodedDiagram { plantuml_code })
            .map_err(|error| DiagramError::Undecodable(error.to_string()))
    }

    /// Adds the tools to `toolbox`.
    #[must_use]
    pub fn add_to(&self, toolbox: Toolbox) -> Toolbox {
        let toolbox = self.add_codes_to(toolbox);
        let Some(engine) = &self.engine else { return toolbox };
        let drawer = engine.clone();
        let checker = engine.clone();
        toolbox
            .tool(RENDER, RENDER_DESCRIPTION, move |arguments: DrawArguments, cx| {
                let engine = drawer.clone();
                async move { draw(&engine, cx.caller(), &arguments).await }
            })
            .tool(CHECK, CHECK_DESCRIPTION, move |arguments: DrawArguments, cx| {
                let engine = checker.clone();
                async move { check(&engine, cx.caller(), &arguments).await.map(Json) }
            })
    }

    fn add_codes_to(&self, toolbox: Toolbox) -> Toolbox {
        let encoder = self.clone();
        let decoder = self.clone();
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

    /// Returns the two tools for codes, which need no engine.
    #[must_use]
    pub fn code_tools(&self) -> Vec<Tool> {
        let toolbox = self.add_codes_to(Toolbox::new("diagrams", env!("CARGO_PKG_VERSION")));
        toolbox.tools().cloned().collect()
    }
}

fn checked_source(code: &str) -> Result<Source<'_>, DiagramError> {
    Source::new(code).map_err(|error| match error {
        SourceError::Blank => DiagramError::Empty,
        SourceError::TooLong { .. } => DiagramError::TooLarge,
        _ => DiagramError::EncodingFailed,
    })
}

/// Draws a diagram. A mistake in the diagram is a failed call whose data has the line.
async fn draw(
    engine: &Engine,
    caller: &Caller,
    arguments: &DrawArguments,
) -> Result<CallToolResult, DrawError> {
    let code = &arguments.plantuml_code;
    let error = match engine.render(caller, checked_source(code)?).await {
        Ok(drawing) => return Ok(Json(DrawnDiagram { svg: drawing.svg }).into_result()),
        Err(error) => error,
    };
    let Some(fault) = fault_of(&error, code) else { return Err(error.into()) };
    let data = json!({ "error": fault });
    Ok(CallToolResult {
        structured_content: Some(data),
        ..CallToolResult::error(DrawError::from(error).to_string())
    })
}

async fn check(
    engine: &Engine,
    caller: &Caller,
    arguments: &DrawArguments,
) -> Result<CheckedDiagram, DrawError> {
    let code = &arguments.plantuml_code;
    match engine.render(caller, checked_source(code)?).await {
        Ok(_) => Ok(CheckedDiagram { valid: true, error: None }),
        Err(error) => match fault_of(&error, code) {
            Some(fault) => Ok(CheckedDiagram { valid: false, error: Some(fault) }),
            None => Err(error.into()),
        },
    }
}

/// Returns the mistake in a diagram; `None` if the error has another cause.
fn fault_of(error: &EngineError, code: &str) -> Option<DiagramFault> {
    let (line, message) = match error {
        EngineError::Syntax { line, message } => (*line, message.clone()),
        EngineError::Forbidden(forbidden) => (forbidden.line(), forbidden.to_string()),
        _ => return None,
    };
    let text = line.checked_sub(1).and_then(|at| code.lines().nth(at)).unwrap_or_default();
    Some(DiagramFault { line, message, text: text.to_owned() })
}

const RENDER_DESCRIPTION: &str =
    "Draws a PlantUML diagram as SVG; nothing is sent anywhere. An error names its line.";

const CHECK_DESCRIPTION: &str =
    "Checks a PlantUML diagram, and returns the line of the first error.";

const ENCODE_DESCRIPTION: &str = "Turns PlantUML source into a URL that shows the diagram: sequence, class, state, mind map, Gantt and others. \
     The text is compressed into the URL; nothing is sent anywhere.";

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

#[cfg(test)]
mod tests {
    use marquetry_plantuml::engine::Program;

    use super::*;

    fn names(diagrams: &Diagrams) -> Vec<String> {
        let toolbox = diagrams.add_to(Toolbox::new("t", "1"));
        toolbox.tools().map(|tool| tool.name.clone()).collect()
    }

    fn diagram(code: &str) -> DrawArguments {
        DrawArguments { plantuml_code: code.to_owned() }
    }

    #[test]
    fn drawing_tools_need_an_engine() {
        let diagrams = Diagrams::new(Server::default());
        assert_eq!(names(&diagrams), [ENCODE, DECODE]);
        let options = EngineOptions::new(Program::Command("/nowhere/plantuml".into()));
        let diagrams = diagrams.with_engine(Some(options));
        assert_eq!(names(&diagrams), [ENCODE, DECODE, RENDER, CHECK]);
        assert_eq!(diagrams.code_tools().len(), 2, "codes need no engine");
    }

    #[tokio::test]
    async fn a_mistake_has_its_line_and_a_broken_engine_is_an_error() {
        let options = EngineOptions::new(Program::Command("/nowhere/plantuml".into()));
        let engine = Engine::new(options);
        let checked =
            check(&engine, &Caller::Local, &diagram("A\n!include /etc/passwd")).await.unwrap();
        let fault = checked.error.unwrap();
        assert!(!checked.valid && fault.message.contains("!include"), "{fault:?}");
        assert_eq!((fault.line, &*fault.text), (2, "!include /etc/passwd"));
        let drawn =
            draw(&engine, &Caller::Local, &diagram("A\n!include /etc/passwd")).await.unwrap();
        assert_eq!(drawn.is_error, Some(true));
        assert_eq!(drawn.structured_content.unwrap()["error"]["line"], 2);
        let error =
            draw(&engine, &Caller::Local, &diagram("A -> B")).await.unwrap_err().to_string();
        assert!(
            error.starts_with("Failed to draw the diagram: PlantUML cannot be used"),
            "{error}"
        );
        assert!(matches!(
            check(&engine, &Caller::Local, &diagram(" ")).await,
            Err(DrawError::Source(_))
        ));
    }
}
