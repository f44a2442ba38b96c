//! Bodies of requests and answers.

use serde::{Deserialize, Serialize};

use super::EmbeddingApi;

/// Body of a request, for both APIs.
#[derive(Serialize)]
pub(super) struct Question<'a> {
    pub(super) model: &'a str,
    pub(super) input: &'a [&'a str],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dimensions: Option<usize>,
    /// OpenAI only: without it, some servers send base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) encoding_format: Option<&'static str>,
}

#[derive(Deserialize)]
struct OpenAi {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    /// Index of the text; some servers omit it.
    index: Option<usize>,
    embedding: Vec<f32>,
}

#[derive(Deserialize)]
struct Ollama {
    embeddings: Vec<Vec<f32>>,
}

/// Parses the vectors of an answer, in the order of the texts. Their number is not checked.
///
/// # Errors
///
/// The reason why the answer is malformed.
pub(super) fn vectors(api: EmbeddingApi, body: &[u8]) -> Result<Vec<Vec<f32>>, String> {
    let malformed = |error: serde_json::Error| error.to_string();
    match api {
        EmbeddingApi::OpenAi => {
            let mut items = serde_json::from_slice::<OpenAi>(body).map_err(malformed)?.data;
            if items.iter().any(|item| item.index.is_some()) {
                items.sort_by_key(|item| item.index);
                if items.iter().enumerate().any(|(index, item)| item.index != Some(index)) {
                    return Err("its indices do not number its vectors".to_owned());
                }
            }
            Ok(items.into_iter().map(|item| item.embedding).collect())
        }
        EmbeddingApi::Ollama => {
            Ok(serde_json::from_slice::<Ollama>(body).map_err(malformed)?.embeddings)
        }
    }
}
