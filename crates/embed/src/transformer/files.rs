//! Reads the files of a model.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use candle_transformers::models::bert::Config;
use serde::{Deserialize, de::DeserializeOwned};
use tokenizers::{Tokenizer, TruncationParams};

use super::TransformerOptions;
use crate::EmbedError;

/// Method that combines the vectors of a text's tokens into one vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pooling {
    /// The mean of the vectors of all tokens.
    Mean,
    /// The vector of the first token, which represents the whole text.
    First,
}

/// Maximum size of a JSON file, in bytes. The `tokenizer.json` of a vocabulary of 250,000 tokens
/// has 17 MB.
const JSON_BYTES: u64 = 64 << 20;

/// The contents of a model's folder.
pub(super) struct Files {
    pub(super) config: Config,
    /// Tokenizer that truncates texts to the length that the model reads.
    pub(super) tokenizer: Tokenizer,
    /// Tokenizer without truncation, to count the tokens of a text.
    pub(super) counter: Tokenizer,
    pub(super) pooling: Pooling,
    pub(super) weights: Vec<u8>,
    /// Hash of the weights, the tokenizer and the settings that affect the vectors.
    pub(super) hash: String,
}

impl Files {
    pub(super) fn read(options: &TransformerOptions) -> Result<Self, EmbedError> {
        #[derive(Deserialize)]
        struct SentenceBert {
            max_seq_length: Option<usize>,
        }
        let folder = Folder { path: &options.folder, max_bytes: options.max_file_bytes };
        let config: Config = folder.json("config.json")?;
        if config.model_type.as_deref().is_some_and(|kind| kind != "bert") {
            return Err(folder.refused("config.json", "its model_type is not \"bert\""));
        }
        folder.check_modules()?;
        let pooling = folder.pooling()?;
        let sentence_bert: Option<SentenceBert> = folder.optional("sentence_bert_config.json")?;

        let tokens = folder.bytes("tokenizer.json")?;
        let mut tokenizer = Tokenizer::from_bytes(&tokens)
            .map_err(|error| folder.refused("tokenizer.json", &error.to_string()))?;
        let max_tokens = sentence_bert
            .and_then(|sentence_bert| sentence_bert.max_seq_length)
            .or_else(|| tokenizer.get_truncation().map(|it| it.max_length))
            .unwrap_or(usize::MAX)
            .min(config.max_position_embeddings);
        // A smaller limit would leave room only for the special tokens at both ends.
        if max_tokens < 3 {
            let reason = format!("the limit of {max_tokens} tokens leaves no room for a text");
            return Err(folder.refused("config.json", &reason));
        }
        if tokenizer.get_vocab_size(true) > config.vocab_size {
            let reason = "it has more tokens than vocab_size in config.json";
            return Err(folder.refused("tokenizer.json", reason));
        }
        tokenizer.with_padding(None);
        let mut counter = tokenizer.clone();
        let truncation = TruncationParams { max_length: max_tokens, ..TruncationParams::default() };
        for (tokenizer, truncation) in [(&mut tokenizer, Some(truncation)), (&mut counter, None)] {
            tokenizer
                .with_truncation(truncation)
                .map_err(|error| folder.refused("tokenizer.json", &error.to_string()))?;
        }

        let weights = folder.bytes("model.safetensors")?;
        let mut hasher = blake3::Hasher::new();
        // The settings that affect the vectors and that the shapes of the weights do not show.
        let Config { num_attention_heads: heads, hidden_act, layer_norm_eps, .. } = &config;
        let used = format!("{pooling:?} {max_tokens} {heads} {hidden_act:?} {layer_norm_eps:e}");
        for part in [&weights, &tokens, used.as_bytes()] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        let hash = hasher.finalize().to_hex()[..16].to_owned();
        Ok(Self { config, tokenizer, counter, pooling, weights, hash })
    }
}

/// The folder of a model.
struct Folder<'a> {
    path: &'a Path,
    /// Largest size of a file, in bytes.
    max_bytes: u64,
}

impl Folder<'_> {
    /// Checks that the model has no steps besides those implemented here.
    fn check_modules(&self) -> Result<(), EmbedError> {
        #[derive(Deserialize)]
        struct Module {
            #[serde(rename = "type")]
            kind: String,
        }
        let modules: Vec<Module> = self.optional("modules.json")?.unwrap_or_default();
        for Module { kind } in modules {
            let name = kind.rsplit('.').next().unwrap_or_default();
            if !matches!(name, "Transformer" | "Pooling" | "Normalize") {
                let reason = format!("the module {name:?} is not supported");
                return Err(self.refused("modules.json", &reason));
            }
        }
        Ok(())
    }

    fn pooling(&self) -> Result<Pooling, EmbedError> {
        const NAME: &str = "1_Pooling/config.json";
        let modes: serde_json::Map<String, serde_json::Value> =
            self.optional(NAME)?.unwrap_or_default();
        let chosen: Vec<String> = modes
            .into_iter()
            .filter(|(name, value)| name.starts_with("pooling_mode_") && *value == true)
            .map(|(name, _)| name)
            .collect();
        match chosen.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] | ["pooling_mode_mean_tokens"] => Ok(Pooling::Mean),
            ["pooling_mode_cls_token"] => Ok(Pooling::First),
            _ => Err(self.refused(NAME, &format!("{} is not supported", chosen.join(" with ")))),
        }
    }

    fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T, EmbedError> {
        serde_json::from_slice(&self.bytes(name)?)
            .map_err(|error| self.refused(name, &error.to_string()))
    }

    /// Reads an optional file.
    fn optional<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, EmbedError> {
        if self.path.join(name).exists() { self.json(name).map(Some) } else { Ok(None) }
    }

    fn bytes(&self, name: &str) -> Result<Vec<u8>, EmbedError> {
        // Parsed JSON needs more than ten times the memory of its text, so its limit is lower than
        // that of the weights.
        let is_json = name.ends_with(".json");
        let max_bytes = if is_json { self.max_bytes.min(JSON_BYTES) } else { self.max_bytes };
        read_up_to(&self.path.join(name), max_bytes)
            .map_err(|error| self.refused(name, &error.to_string()))?
            .ok_or_else(|| {
                let setting = if max_bytes < self.max_bytes { "" } else { " (max_file_bytes)" };
                self.refused(name, &format!("it has more than {max_bytes} bytes{setting}"))
            })
    }

    fn refused(&self, name: &str, reason: &str) -> EmbedError {
        EmbedError::Config(format!("{}: {reason}", self.path.join(name).display()))
    }
}

/// Reads a regular file; None if it is longer than the maximum.
fn read_up_to(path: &Path, max_bytes: u64) -> io::Result<Option<Vec<u8>>> {
    // Checked before the file is opened, since opening a pipe waits for a writer.
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if metadata.len() > max_bytes {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    // The file may have grown since the check.
    File::open(path)?.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= max_bytes).then_some(bytes))
}
