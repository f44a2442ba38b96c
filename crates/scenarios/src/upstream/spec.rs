//! Specification of one upstream, with all content read, generated and encoded.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use marquetry_protocol::types::{Resource, ResourceContents};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::answer::{AnswerError, AnswerSpec};
use crate::language::{Source, SourceError, Tool, Upstream, View};

/// An upstream over stdio: the content of the file that its child process reads.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Name of the upstream.
    pub name: String,
    /// File that records its calls.
    pub journal: PathBuf,
    /// Socket for commands of the runner, if there are any.
    #[serde(default)]
    pub control: Option<PathBuf>,
    /// Tools, resources and prompts of the upstream.
    pub offer: Offer,
}

/// Tools, resources and prompts of an upstream.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// The tools.
    pub(crate) tools: Vec<ToolSpec>,
    /// The texts of its resources, by URI.
    pub(crate) resources: BTreeMap<String, String>,
    /// The Views.
    #[serde(default)]
    pub(crate) views: Vec<ViewSpec>,
    /// The messages of its prompts, by name.
    pub(crate) prompts: BTreeMap<String, String>,
}

/// A View: its entry in the list, and its contents.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ViewSpec {
    /// The entry; `None` if the View is not listed.
    pub(crate) listed: Option<Resource>,
    pub(crate) contents: ResourceContents,
}

impl ViewSpec {
    fn new(uri: &str, given: &View, folder: &Path) -> Result<Self, SourceError> {
        const MIME_TYPE: &str = "text/html;profile=mcp-app";
        let html = given.html.text(folder)?;
        let meta = given.ui.as_ref().and_then(|ui| json!({ "ui": ui }).as_object().cloned());
        let listed = (!given.unlisted).then(|| Resource {
            uri: uri.to_owned(),
            name: uri.to_owned(),
            description: given.description.clone(),
            mime_type: Some(MIME_TYPE.to_owned()),
            ..Resource::default()
        });
        let blob = given.blob.then(|| STANDARD.encode(&html));
        let contents = ResourceContents {
            uri: uri.to_owned(),
            mime_type: Some(MIME_TYPE.to_owned()),
            text: (!given.blob).then_some(html),
            blob,
            meta,
        };
        Ok(Self { listed, contents })
    }
}

impl Offer {
    /// Loads what a scenario gives. `file` paths are relative to `folder`.
    ///
    /// # Errors
    ///
    /// Returns an error if content cannot be read or generated.
    pub fn new(given: &Upstream, folder: &Path) -> io::Result<Self> {
        let views = given.views.iter().map(|(uri, view)| ViewSpec::new(uri, view, folder));
        Ok(Self {
            tools: resolve_tools(&given.tools, folder).map_err(io::Error::other)?,
            views: views.collect::<Result<_, _>>().map_err(io::Error::other)?,
            resources: read_texts(&given.resources, folder).map_err(io::Error::other)?,
            prompts: read_texts(&given.prompts, folder).map_err(io::Error::other)?,
        })
    }
}

fn read_texts(
    given: &BTreeMap<String, Source>,
    folder: &Path,
) -> Result<BTreeMap<String, String>, SourceError> {
    given.iter().map(|(name, source)| Ok((name.clone(), source.text(folder)?))).collect()
}

/// A tool and its answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolSpec {
    /// The tool as `tools/list` shows it.
    pub(crate) tool: marquetry_protocol::types::Tool,
    /// Answers to the first call, the second, …; the last one serves all further calls.
    pub(crate) answers: Vec<AnswerSpec>,
}

/// Loads the tools of a scenario's upstream. `file` paths are relative to `folder`.
pub(crate) fn resolve_tools(
    tools: &BTreeMap<String, Tool>,
    folder: &Path,
) -> Result<Vec<ToolSpec>, AnswerError> {
    tools
        .iter()
        .map(|(name, given)| {
            let tool = marquetry_protocol::types::Tool {
                name: name.clone(),
                description: given.description.clone(),
                input_schema: given.input_schema.clone().unwrap_or_else(any_object),
                output_schema: given.output_schema.clone(),
                meta: given.meta.clone(),
                ..Default::default()
            };
            let answers = given
                .answers()
                .iter()
                .map(|answer| AnswerSpec::new(answer, folder))
                .collect::<Result<_, _>>()?;
            Ok(ToolSpec { tool, answers })
        })
        .collect()
}

fn any_object() -> Value {
    json!({ "type": "object" })
}
