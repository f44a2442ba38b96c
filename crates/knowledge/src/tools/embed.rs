//! The tool that returns vectors of texts.

use marquetry_protocol::{
    server::{Json, RequestContext, ToolOutput, Toolbox},
    types::{CallToolResult, Content},
};
use marquetry_rag::PipelineError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{EMBED, KnowledgeTools};
use crate::{
    failure::{ErrorCode, Failure},
    work::embedded,
};

/// Maximum number of texts in one call.
const MAX_TEXTS: usize = 256;

/// Maximum number of bytes of all texts in one call.
const MAX_BYTES: usize = 1 << 20;

/// Role of a text in a search. Some models have a prefix for each role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum TextKind {
    #[default]
    Passage,
    Query,
}

/// Arguments of `am7_embed`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EmbedArguments {
    /// At most 256, and 1 MiB together.
    texts: Vec<String>,
    /// A name in [knowledge.embeddings]; by default the database's model.
    model: Option<String>,
    /// "passage" by default; "query" for questions.
    #[serde(default)]
    kind: TextKind,
}

/// Answer of `am7_embed`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Embedded {
    /// The identity of the model. Only vectors of one model can be compared.
    model: String,
    /// Length of each vector.
    dimension: usize,
    /// One for each text, in their order.
    vectors: Vec<Vec<f32>>,
}

/// Vectors as data alone: as text they would be of no use to a model, and as long again.
struct EmbeddedAnswer(Result<Embedded, Failure>);

impl ToolOutput for EmbeddedAnswer {
    fn output_schema() -> Option<Value> {
        Json::<Embedded>::output_schema()
    }

    fn into_result(self) -> CallToolResult {
        let embedded = match self.0 {
            Ok(embedded) => embedded,
            Err(failure) => return failure.into(),
        };
        let Embedded { model, dimension, vectors } = &embedded;
        let text = format!(
            "{} vectors of {dimension} numbers by {model} are in structuredContent.",
            vectors.len()
        );
        CallToolResult {
            content: vec![Content::text(text)],
            structured_content: Some(json!(embedded)),
            ..CallToolResult::default()
        }
    }
}

impl KnowledgeTools {
    /// Adds [`EMBED`] to a toolbox.
    #[must_use]
    pub fn add_embed(&self, toolbox: Toolbox) -> Toolbox {
        self.add(toolbox, (EMBED, DESCRIPTION), |tools, arguments, cx| async move {
            EmbeddedAnswer(Box::pin(tools.embed(arguments, &cx)).await)
        })
    }

    async fn embed(
        &self,
        arguments: EmbedArguments,
        cx: &RequestContext,
    ) -> Result<Embedded, Failure> {
        let EmbedArguments { texts, model, kind } = arguments;
        check(&texts)?;
        let embedder = Box::pin(self.service.embedder(model.as_deref(), cx)).await?;
        let job = self.service.job(cx);
        let vectors = embedded(&job, "embedding", async |_| {
            match kind {
                TextKind::Passage => {
                    Ok(embedder.embed(&texts).await.map_err(PipelineError::from)?)
                }
                TextKind::Query => {
                    // Models have no call for several questions.
                    let mut vectors = Vec::with_capacity(texts.len());
                    for text in &texts {
                        let vector = embedder.embed_query(text).await;
                        vectors.push(vector.map_err(PipelineError::from)?);
                    }
                    Ok(vectors)
                }
            }
        })
        .await?;
        let model = embedder.model().clone();
        if vectors.len() != texts.len() {
            let message = format!(
                "{} gave {} vectors for {} texts",
                model.identity,
                vectors.len(),
                texts.len()
            );
            return Err(Failure::new(ErrorCode::Unavailable, message));
        }
        let answer = Embedded { model: model.identity, dimension: model.dimension, vectors };
        let bytes = serde_json::to_vec(&answer).map_or(0, |json| json.len());
        let max = self.limits.max_answer_bytes.get();
        if bytes > max {
            let message = format!(
                "the vectors have {bytes} bytes, more than limits.max_own_answer_bytes ({max}); give fewer texts in a call"
            );
            return Err(Failure::new(ErrorCode::LimitExceeded, message));
        }
        Ok(answer)
    }
}

fn check(texts: &[String]) -> Result<(), Failure> {
    if texts.is_empty() {
        return Err(Failure::invalid("texts is empty"));
    }
    if let Some(index) = texts.iter().position(|text| text.trim().is_empty()) {
        return Err(Failure::invalid(format!("texts[{index}] is empty")));
    }
    let bytes: usize = texts.iter().map(String::len).sum();
    if texts.len() > MAX_TEXTS || bytes > MAX_BYTES {
        let message = format!(
            "{} texts of {bytes} bytes; a call may have {MAX_TEXTS} texts of {MAX_BYTES} bytes together",
            texts.len()
        );
        return Err(Failure::new(ErrorCode::LimitExceeded, message));
    }
    Ok(())
}

const DESCRIPTION: &str =
    "Returns the vectors of texts, for programs that have an index of their own.";

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(texts: &[String]) -> Result<(), (ErrorCode, String)> {
        check(texts).map_err(|failure| (failure.code, failure.message))
    }

    #[test]
    fn texts_are_bounded() {
        assert_eq!(checked(&[]), Err((ErrorCode::InvalidParams, "texts is empty".to_owned())));
        let empty = ["a".to_owned(), " ".to_owned()];
        assert_eq!(
            checked(&empty),
            Err((ErrorCode::InvalidParams, "texts[1] is empty".to_owned()))
        );
        assert_eq!(checked(&vec!["a".to_owned(); MAX_TEXTS]), Ok(()));
        assert_eq!(checked(&["a".repeat(MAX_BYTES)]), Ok(()));
        for many in [vec!["a".to_owned(); MAX_TEXTS + 1], vec!["a".repeat(MAX_BYTES + 1)]] {
            assert_eq!(checked(&many).unwrap_err().0, ErrorCode::LimitExceeded);
        }
    }
}
