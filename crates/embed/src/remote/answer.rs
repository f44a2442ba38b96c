//! Bodies of requests and answers.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::EmbeddingApi;

/// Body of a request, for both APIs.
#[derive(Serialize)]
pub(super) struct EmbeddingRequest<'a> {
    pub(super) model: &'a str,
    pub(super) input: &'a [&'a str],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dimensions: Option<usize>,
    /// OpenAI only: without it, some servers send base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) encoding_format: Option<&'static str>,
}

/// Answer of OpenAI's API.
#[derive(Deserialize)]
struct OpenAiAnswer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    /// Index of the text; some servers omit it.
    index: Option<usize>,
    embedding: Vec<f32>,
}

/// Answer of Ollama's API.
#[derive(Deserialize)]
struct OllamaAnswer {
    embeddings: Vec<Vec<f32>>,
}

/// Parses the vectors of an answer, in the order of the texts. Their number is not checked.
///
/// # Errors
///
/// Returns an error with the reason if the answer is malformed.
pub(super) fn vectors(api: EmbeddingApi, body: &[u8]) -> Result<Vec<Vec<f32>>, String> {
    match api {
        EmbeddingApi::OpenAi => {
            let mut items = parse::<OpenAiAnswer>(body)?.data;
            if items.iter().any(|item| item.index.is_some()) {
                items.sort_by_key(|item| item.index);
                if items.iter().enumerate().any(|(index, item)| item.index != Some(index)) {
                    return Err("its indices do not number its vectors".to_owned());
                }
            }
            Ok(items.into_iter().map(|item| item.embedding).collect())
        }
        EmbeddingApi::Ollama => Ok(parse::<OllamaAnswer>(body)?.embeddings),
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| error.to_string())
}
