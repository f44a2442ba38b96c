//! The model in the crate: one vector for each token, whose weighted mean is the vector of a text.

use std::sync::LazyLock;

use async_trait::async_trait;
use serde::Deserialize;

use super::{EmbedError, Embedder, wordpiece::WordPiece};
use crate::store::EmbeddingModel;

/// The built-in model, `minilm-static-256-i8`: English, 256 dimensions, no download, some million tokens a second.
///
/// It was distilled from all-MiniLM-L6-v2; `model/README.md` in the crate says how, and under which licences.
///
/// ```
/// use marquetry_rag::StaticModel;
///
/// let model = StaticModel::built_in();
/// let [cat, kitten, engine] =
///     ["a cat sleeps", "the kitten is asleep", "a jet engine"].map(|text| model.embed(text));
/// let cosine = |left: &[f32], right: &[f32]| left.iter().zip(right).map(|(left, right)| left * right).sum::<f32>();
/// assert!(cosine(&cat, &kitten) > cosine(&cat, &engine));
/// ```
pub struct StaticModel {
    tokens: WordPiece,
    /// One row of [`Self::DIMENSION`] for each token.
    rows: &'static [u8],
    /// What each row is multiplied by.
    weights: Vec<f32>,
}

impl StaticModel {
    /// What is stored beside vectors, so that those of another model are not compared with them.
    pub const IDENTITY: &str = "minilm-static-256-i8";
    /// How many numbers a vector has.
    pub const DIMENSION: usize = 256;

    /// The model; it is made ready at the first call, in some 30 milliseconds.
    pub fn built_in() -> &'static Self {
        static MODEL: LazyLock<StaticModel> = LazyLock::new(|| {
            StaticModel::read(
                include_str!("../../model/vocab.txt"),
                include_bytes!("../../model/model.safetensors"),
            )
            .expect("the model is part of the crate, and a test reads it")
        });
        &MODEL
    }

    /// The vector of a text, of length 1; all zeros if the text has no token that the model knows.
    pub fn embed(&self, text: &str) -> Vec<f32> {
        let mut ids = Vec::new();
        self.tokens.tokenize(text, &mut ids);
        let mut sum = vec![0.0; Self::DIMENSION];
        for id in ids {
            let row = &self.rows[id as usize * Self::DIMENSION..][..Self::DIMENSION];
            let weight = self.weights[id as usize];
            for (sum, &value) in sum.iter_mut().zip(row) {
                *sum += weight * f32::from(value.cast_signed());
            }
        }
        // Dividing by the number of tokens first would change nothing: the length is 1 in the end.
        let length = sum.iter().map(|value| value * value).sum::<f32>().sqrt();
        if length > 0.0 {
            sum.iter_mut().for_each(|value| *value /= length);
        }
        sum
    }

    /// How many tokens a text has, for [`ChunkOptions::max_tokens`](crate::ChunkOptions::max_tokens).
    pub fn count_tokens(&self, text: &str) -> usize {
        let mut ids = Vec::new();
        self.tokens.tokenize(text, &mut ids);
        ids.len()
    }

    /// Reads the safetensors format: the length of a JSON header, the header, the tensors.
    fn read(vocabulary: &'static str, file: &'static [u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Header {
            embeddings: Tensor,
            weights: Tensor,
        }
        #[derive(Deserialize)]
        struct Tensor {
            data_offsets: [usize; 2],
            shape: Vec<usize>,
        }
        let (length, rest) = file.split_first_chunk::<8>()?;
        let (header, data) =
            rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        let header: Header = serde_json::from_slice(header).ok()?;
        let bytes = |tensor: &Tensor| data.get(tensor.data_offsets[0]..tensor.data_offsets[1]);
        let rows = bytes(&header.embeddings)?;
        let (weights, []) = bytes(&header.weights)?.as_chunks::<4>() else { return None };
        let count = weights.len();
        let fits = header.embeddings.shape == [count, Self::DIMENSION]
            && rows.len() == count * Self::DIMENSION
            && vocabulary.lines().count() == count;
        let weights = weights.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        fits.then(|| Self { tokens: WordPiece::new(vocabulary), rows, weights })
    }
}

#[async_trait]
impl Embedder for &'static StaticModel {
    fn model(&self) -> &EmbeddingModel {
        static MODEL: LazyLock<EmbeddingModel> = LazyLock::new(EmbeddingModel::default);
        &MODEL
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        Ok(texts.iter().map(|text| StaticModel::embed(self, text)).collect())
    }

    fn count_tokens(&self, text: &str) -> usize {
        StaticModel::count_tokens(self, text)
    }
}
