//! Models in a local folder: BERT, computed by candle.

mod files;

use std::{path::PathBuf, sync::Arc};

use async_trait::async_trait;
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::BertModel;
use tokenizers::Tokenizer;
use tokio::sync::Semaphore;

use self::files::{Files, Pooling};
use crate::{EmbedError, Embedder, EmbeddingModel, blocking::blocking, vector::normalized};

/// The folder of a model, and limits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TransformerOptions {
    /// The folder: `config.json`, `model.safetensors` and `tokenizer.json`, and optionally
    /// `1_Pooling/config.json` and `sentence_bert_config.json`.
    pub folder: PathBuf,
    /// Maximum number of tokens that are computed together, padding included; 4,096 by default.
    /// More need more memory.
    pub batch_tokens: usize,
    /// Largest size of each file, in bytes; 2 GiB by default.
    pub max_file_bytes: u64,
}

impl TransformerOptions {
    /// Returns the options for the model in a folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), batch_tokens: 4096, max_file_bytes: 2 << 30 }
    }
}

/// A sentence transformer of the type BERT in a local folder, such as all-MiniLM-L6-v2.
///
/// It is computed on Tokio's blocking threads, one batch after the other. A text that is longer
/// than the model reads is truncated. Its identity holds a hash of its files: the same files are
/// the same model, in any folder.
///
/// ```no_run
/// use marquetry_embed::{Embedder, transformer::{Transformer, TransformerOptions}};
///
/// # async fn run() -> Result<(), marquetry_embed::EmbedError> {
/// let model = Transformer::open(TransformerOptions::new("models/all-MiniLM-L6-v2")).await?;
/// assert!(model.model().identity.starts_with("bert-6x384#"));
/// let vectors = model.embed(&["Bread is made of flour and water.".to_owned()]).await?;
/// assert_eq!(vectors[0].len(), 384);
/// # Ok(())
/// # }
/// ```
pub struct Transformer {
    shared: Arc<Shared>,
    batch_tokens: usize,
    /// Held by the batch that uses all cores.
    turn: Arc<Semaphore>,
}

/// The model, which computations on other threads share.
struct Shared {
    bert: BertModel,
    tokenizer: Tokenizer,
    counter: Tokenizer,
    pooling: Pooling,
    model: EmbeddingModel,
}

/// A text as tokens, with its index among the texts.
struct Encoded {
    index: usize,
    ids: Vec<u32>,
}

impl Transformer {
    /// Reads a model into memory.
    ///
    /// # Errors
    ///
    /// Returns [`EmbedError::Config`], which names the file, if a file is missing, malformed or of
    /// an unsupported kind.
    pub async fn open(options: TransformerOptions) -> Result<Self, EmbedError> {
        if options.batch_tokens == 0 {
            return Err(EmbedError::Config("batch_tokens must be at least 1".to_owned()));
        }
        let batch_tokens = options.batch_tokens;
        let shared = Arc::new(blocking("its folder", move || Shared::read(&options)).await?);
        Ok(Self { shared, batch_tokens, turn: Arc::new(Semaphore::new(1)) })
    }

    /// Returns batches of texts of similar length, so that they need little padding.
    fn batches(&self, mut texts: Vec<Encoded>) -> Vec<Vec<Encoded>> {
        texts.sort_by_key(|text| std::cmp::Reverse(text.ids.len()));
        let mut batches: Vec<Vec<Encoded>> = Vec::new();
        for text in texts {
            // The first of a batch is its longest.
            let last = batches
                .last_mut()
                .filter(|batch| (batch.len() + 1) * batch[0].ids.len() <= self.batch_tokens);
            match last {
                Some(batch) => batch.push(text),
                None => batches.push(vec![text]),
            }
        }
        batches
    }
}

#[async_trait]
impl Embedder for Transformer {
    fn model(&self) -> &EmbeddingModel {
        &self.shared.model
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let identity = &self.shared.model.identity;
        let mut vectors = vec![Vec::new(); texts.len()];
        let shared = Arc::clone(&self.shared);
        let texts = texts.to_vec();
        let encoded = blocking(identity, move || shared.encode(&texts)).await?;
        for batch in self.batches(encoded) {
            let turn = Arc::clone(&self.turn)
                .acquire_owned()
                .await
                .expect("the semaphore is never closed");
            let shared = Arc::clone(&self.shared);
            let computed = blocking(identity, move || {
                // The permit is held until the work ends, since dropping the call does not end the
                // work.
                let _turn = turn;
                shared.compute(&batch)
            });
            for (index, vector) in computed.await? {
                vectors[index] = normalized(&self.shared.model, vector)?;
            }
        }
        Ok(vectors)
    }

    fn count_tokens(&self, text: &str) -> usize {
        self.shared.count_tokens(text)
    }
}

impl Shared {
    fn read(options: &TransformerOptions) -> Result<Self, EmbedError> {
        let Files { config, tokenizer, counter, pooling, weights, hash } = Files::read(options)?;
        let path = options.folder.join("model.safetensors");
        let bert = VarBuilder::from_buffered_safetensors(weights, DType::F32, &Device::Cpu)
            .and_then(|weights| BertModel::load(weights, &config))
            .map_err(|error| EmbedError::Config(format!("{}: {error}", path.display())))?;
        let layers = config.num_hidden_layers;
        let dimension = config.hidden_size;
        let model = EmbeddingModel::new(format!("bert-{layers}x{dimension}#{hash}"), dimension);
        Ok(Self { bert, tokenizer, counter, pooling, model })
    }

    fn encode(&self, texts: &[String]) -> Result<Vec<Encoded>, EmbedError> {
        texts
            .iter()
            .enumerate()
            .map(|(index, text)| {
                let encoding = self
                    .tokenizer
                    .encode_fast(text.as_str(), true)
                    .map_err(|error| self.failed(&error))?;
                Ok(Encoded { index, ids: encoding.get_ids().to_vec() })
            })
            .collect()
    }

    fn count_tokens(&self, text: &str) -> usize {
        // A text that cannot be cut has no more tokens than bytes.
        self.counter.encode_fast(text, false).map_or(text.len(), |encoding| encoding.len())
    }

    /// Returns the vectors of texts, of which the first is the longest.
    fn compute(&self, batch: &[Encoded]) -> Result<Vec<(usize, Vec<f32>)>, EmbedError> {
        let vectors = self.forward(batch).map_err(|error| self.failed(&error))?;
        Ok(batch.iter().map(|text| text.index).zip(vectors).collect())
    }

    fn forward(&self, batch: &[Encoded]) -> candle_core::Result<Vec<Vec<f32>>> {
        let longest = batch.iter().map(|text| text.ids.len()).max().unwrap_or_default();
        // Shorter texts are filled up with zeros. The mask excludes these.
        let mut ids = vec![0_u32; batch.len() * longest];
        let mut mask = vec![0_u32; batch.len() * longest];
        for (at, text) in batch.iter().enumerate() {
            let start = at * longest;
            ids[start..start + text.ids.len()].copy_from_slice(&text.ids);
            mask[start..start + text.ids.len()].fill(1);
        }
        let ids = Tensor::from_vec(ids, (batch.len(), longest), &Device::Cpu)?;
        let mask = Tensor::from_vec(mask, (batch.len(), longest), &Device::Cpu)?;
        let output = self.bert.forward(&ids, &ids.zeros_like()?, Some(&mask))?;
        let vectors = match self.pooling {
            Pooling::First => output.narrow(1, 0, 1)?.squeeze(1)?,
            Pooling::Mean => {
                let mask = mask.to_dtype(DType::F32)?.unsqueeze(2)?;
                let sums = output.broadcast_mul(&mask)?.sum(1)?;
                sums.broadcast_div(&mask.sum(1)?)?
            }
        };
        vectors.to_vec2()
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> EmbedError {
        EmbedError::Compute { model: self.model.identity.clone(), reason: error.to_string() }
    }
}
