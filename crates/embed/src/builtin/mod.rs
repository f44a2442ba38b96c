//! The built-in model: one vector for each token, whose weighted mean is the vector of a text.

mod wordpiece;

use std::{num::NonZeroUsize, ops::Range, sync::LazyLock, thread};

use async_trait::async_trait;
use serde::Deserialize;
use tokio::sync::{Semaphore, SemaphorePermit};

use self::wordpiece::WordPiece;
use crate::{EmbedError, Embedder, EmbeddingModel, blocking::blocking};

/// The built-in model, `minilm-static-256-i8`: English, 256 dimensions, no download, some million
/// tokens a second.
///
/// Distilled from all-MiniLM-L6-v2; `model/README.md` in the crate has the method and the licences.
///
/// ```
/// use marquetry_embed::builtin::StaticModel;
///
/// let model = StaticModel::built_in();
/// let [cat, kitten, engine] =
///     ["a cat sleeps", "the kitten is asleep", "a jet engine"].map(|text| model.embed(text));
/// let cosine = |left: &[f32], right: &[f32]| left.iter().zip(right).map(|(left, right)| left * right).sum::<f32>();
/// assert!(cosine(&cat, &kitten) > cosine(&cat, &engine));
/// ```
pub struct StaticModel {
    tokenizer: WordPiece,
    /// Rows with [`Self::DIMENSION`] numbers, one for each token.
    rows: &'static [u8],
    /// The factor of each row.
    weights: Vec<f32>,
}

impl Default for EmbeddingModel {
    /// Returns the built-in model.
    fn default() -> Self {
        Self::new(StaticModel::IDENTITY, StaticModel::DIMENSION)
    }
}

impl StaticModel {
    /// The identity that is stored beside vectors, so that vectors of different models are not
    /// compared.
    pub const IDENTITY: &str = "minilm-static-256-i8";
    /// The dimension of the vectors.
    pub const DIMENSION: usize = 256;

    /// Returns the model. The first call loads it, in some 30 ms.
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

    /// Returns the vector of a text, of length 1; all zeros if the model knows no token of the
    /// text.
    pub fn embed(&self, text: &str) -> Vec<f32> {
        let mut ids = Vec::new();
        self.tokenizer.tokenize(text, &mut ids);
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
            for value in &mut sum {
                *value /= length;
            }
        }
        sum
    }

    /// Returns the share (0 to 1) of a question's words that are whole entries of the vocabulary.
    /// Other words are split into pieces, which have little meaning. Single characters of other
    /// scripts, which English texts mention in passing, do not count.
    pub fn coverage(&self, question: &str) -> f32 {
        let mut known = 0_u32;
        let mut all = 0_u32;
        self.tokenizer.for_each_word(question, |word, is_entry| {
            let is_single = word.chars().nth(1).is_none() && !word.is_ascii();
            all += 1;
            known += u32::from(is_entry && !is_single);
        });
        if all == 0 { 0.0 } else { known as f32 / all as f32 }
    }

    /// Returns the number of tokens of a text, as [`Embedder::count_tokens`] does.
    pub fn count_tokens(&self, text: &str) -> usize {
        let mut ids = Vec::new();
        self.tokenizer.tokenize(text, &mut ids);
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
        impl Tensor {
            fn bytes<'a>(&self, data: &'a [u8]) -> Option<&'a [u8]> {
                data.get(self.data_offsets[0]..self.data_offsets[1])
            }
        }
        let (length, rest) = file.split_first_chunk::<8>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (header, data) = rest.split_at_checked(length)?;
        let header: Header = serde_json::from_slice(header).ok()?;
        let rows = header.embeddings.bytes(data)?;
        let (weights, []) = header.weights.bytes(data)?.as_chunks::<4>() else { return None };
        let count = weights.len();
        let fits = header.embeddings.shape == [count, Self::DIMENSION]
            && rows.len() == count * Self::DIMENSION
            && vocabulary.lines().count() == count;
        let weights = weights.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        fits.then(|| Self { tokenizer: WordPiece::new(vocabulary), rows, weights })
    }
}

/// Texts up to this many bytes together, such as a question, are computed on the calling thread:
/// some 2,000 tokens take a fraction of a millisecond, less than a switch to another thread.
const AT_ONCE: usize = 8 << 10;

/// Bytes that a thread computes before it lets others run and checks whether the caller has gone. A
/// text is never divided.
const PORTION: usize = 256 << 10;

/// Returns ranges of neighbouring texts with at most [`PORTION`] bytes together. A longer text is a
/// separate range.
fn portions(texts: &[String]) -> Vec<Range<usize>> {
    let mut portions: Vec<Range<usize>> = Vec::new();
    let mut bytes = 0;
    for (index, text) in texts.iter().enumerate() {
        bytes += text.len();
        match portions.last_mut() {
            Some(last) if bytes <= PORTION => last.end = index + 1,
            _ => {
                portions.push(index..index + 1);
                bytes = text.len();
            }
        }
    }
    portions
}

/// Waits for a permit to compute vectors. There are as many permits as processors, given in order
/// of arrival.
async fn turn() -> SemaphorePermit<'static> {
    static TURNS: LazyLock<Semaphore> = LazyLock::new(|| {
        Semaphore::new(thread::available_parallelism().map_or(1, NonZeroUsize::get))
    });
    TURNS.acquire().await.expect("the semaphore is never closed")
}

#[async_trait]
impl Embedder for &'static StaticModel {
    fn model(&self) -> &EmbeddingModel {
        static MODEL: LazyLock<EmbeddingModel> = LazyLock::new(EmbeddingModel::default);
        &MODEL
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let model: &'static StaticModel = self;
        if texts.iter().map(String::len).sum::<usize>() <= AT_ONCE {
            return Ok(texts.iter().map(|text| model.embed(text)).collect());
        }
        let mut vectors = Vec::with_capacity(texts.len());
        for portion in portions(texts) {
            let turn = turn().await;
            let texts = texts[portion].to_vec();
            let computed = blocking(StaticModel::IDENTITY, move || {
                // The permit is held until the work ends, since dropping the call does not end the
                // work.
                let _turn = turn;
                Ok(texts.iter().map(|text| model.embed(text)).collect::<Vec<_>>())
            });
            vectors.extend(computed.await?);
        }
        Ok(vectors)
    }

    fn coverage(&self, question: &str) -> f32 {
        StaticModel::coverage(self, question)
    }

    fn count_tokens(&self, text: &str) -> usize {
        StaticModel::count_tokens(self, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_are_all_texts_in_their_order() {
        check_portions(&[], &[]);
        check_portions(&[3 * PORTION, 0], &[0..1, 1..2]);
        check_portions(&[0, PORTION, 1, PORTION - 1, 0, 1], &[0..2, 2..5, 5..6]);
        check_portions(&[1, 2 * PORTION, 1], &[0..1, 1..2, 2..3]);
    }

    #[track_caller]
    fn check_portions(lengths: &[usize], want: &[Range<usize>]) {
        let texts: Vec<String> = lengths.iter().map(|&length| "a".repeat(length)).collect();
        assert_eq!(portions(&texts), want, "{lengths:?}");
    }

    #[test]
    fn other_languages_are_not_known() {
        let model = StaticModel::built_in();
        assert_eq!(model.coverage("How is bread made, in a mill?"), 1.0);
        assert_eq!(model.coverage("boundary layer of zorbulating gas"), 0.8);
        assert!(model.coverage("¿Cuántas harinas muelen los molineros del pueblo?") < 0.7);
        for text in ["хлеб и вода", "面包是怎么做的", "ขนมปังทำอย่างไร", "", "?!"]
        {
            assert_eq!(model.coverage(text), 0.0, "{text}");
        }
    }

    #[tokio::test]
    async fn a_batch_gives_the_same_vectors_as_single_texts() {
        let model = StaticModel::built_in();
        let texts: Vec<String> =
            (0..40).map(|number| format!("loaf {number} of bread ").repeat(1_000)).collect();
        let vectors = Embedder::embed(&model, &texts).await.unwrap();
        let alone: Vec<Vec<f32>> = texts.iter().map(|text| model.embed(text)).collect();
        assert_eq!(vectors, alone);
    }
}
