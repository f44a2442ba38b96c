//! What endpoints are asked, and what they answer.

use serde::{Deserialize, Serialize};

use super::EmbeddingApi;

/// The body of a request, in both languages.
#[derive(Serialize)]
pub(super) struct Question<'a> {
    pub(super) model: &'a str,
    pub(super) input: &'a [&'a str],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dimensions: Option<usize>,
    /// OpenAI's; some servers send base64 unless told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) encoding_format: Option<&'static str>,
}

#[derive(Deserialize)]
struct OpenAi {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    /// Whose vector it is; left out by some servers.
    index: Option<usize>,
    embedding: Vec<f32>,
}

#[derive(Deserialize)]
struct Ollama {
    embeddings: Vec<Vec<f32>>,
}

/// The vectors of an answer in the order of the texts, or why it is none; there may be more or fewer than texts.
pub(super) fn vectors(api: EmbeddingApi, body: &[u8]) -> Result<Vec<Vec<f32>>, String> {
    let malformed = |error: serde_json::Error| error.to_string();
    match api {
        EmbeddingApi::OpenAi => {
            let mut items = serde_json::from_slice::<OpenAi>(body).map_err(malformed)?.data;
            if items.iter().any(|item| item.index.is_some()) {
                items.sort_by_key(|item| item.index);
                if items.iter().enumerate().any(|(place, item)| item.index != Some(place)) {
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

/// What an endpoint says of its failure: `{"error": {"message": …}}`, `{"error": …}`, or anything at all.
pub(super) fn message(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Failure {
        error: Error,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Error {
        Object { message: String },
        Text(String),
    }
    match serde_json::from_slice(body) {
        Ok(Failure { error: Error::Object { message } | Error::Text(message) }) => message,
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    }
}

/// Enough of a message to know what is meant, on one line, without what would change how the rest of it looks: control
/// characters, and the marks that change the direction of writing.
pub(super) fn shortened(text: &str) -> String {
    const LONGEST: usize = 300;
    let is_direction = |one| matches!(one, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_shown = |one: &char| one.is_whitespace() || !(one.is_control() || is_direction(*one));
    let text: String = text.chars().filter(is_shown).collect();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None if text.is_empty() => "it does not say why".to_owned(),
        None => text,
    }
}
