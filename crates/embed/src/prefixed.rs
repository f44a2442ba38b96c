//! Prefixes of questions and passages.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{EmbedError, Embedder, EmbeddingModel};

/// A model with a prefix before each question and each passage, such as `query: ` and `passage: `
/// (E5) or `search_query: ` and `search_document: ` (nomic-embed-text). The model card names them.
///
/// The prefixes are part of its identity, because the vectors depend on them.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use std::sync::Arc;
/// use marquetry_embed::{Embedder, Prefixed, builtin::StaticModel};
///
/// let model = Prefixed::new(Arc::new(StaticModel::built_in()), "query: ", "passage: ");
/// assert_eq!(model.model().identity, r#"minilm-static-256-i8 with "query: " and "passage: ""#);
/// assert_eq!(model.embed_query("bread").await?, StaticModel::built_in().embed("query: bread"));
/// # Ok::<(), marquetry_embed::EmbedError>(())
/// # }).unwrap();
/// ```
pub struct Prefixed {
    inner: Arc<dyn Embedder>,
    query: String,
    passage: String,
    passage_tokens: usize,
    model: EmbeddingModel,
}

impl Prefixed {
    /// Returns a model with these prefixes of questions and passages; either may be empty.
    pub fn new(
        inner: Arc<dyn Embedder>,
        query: impl Into<String>,
        passage: impl Into<String>,
    ) -> Self {
        let query: String = query.into();
        let passage: String = passage.into();
        let EmbeddingModel { identity, dimension } = inner.model().clone();
        // Quoted, so that no two pairs of prefixes give the same identity.
        let identity = if query.is_empty() && passage.is_empty() {
            identity
        } else {
            format!("{identity} with {query:?} and {passage:?}")
        };
        let passage_tokens = inner.count_tokens(&passage);
        let model = EmbeddingModel { identity, dimension };
        Self { inner, query, passage, passage_tokens, model }
    }
}

#[async_trait]
impl Embedder for Prefixed {
    fn model(&self) -> &EmbeddingModel {
        &self.model
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        if self.passage.is_empty() {
            return self.inner.embed(texts).await;
        }
        let texts: Vec<String> =
            texts.iter().map(|text| format!("{}{text}", self.passage)).collect();
        self.inner.embed(&texts).await
    }

    async fn embed_query(&self, query: &str) -> Result<Vec<f32>, EmbedError> {
        self.inner.embed_query(&format!("{}{query}", self.query)).await
    }

    fn coverage(&self, question: &str) -> f32 {
        self.inner.coverage(question)
    }

    fn count_tokens(&self, text: &str) -> usize {
        self.passage_tokens + self.inner.count_tokens(text)
    }
}

#[cfg(all(test, feature = "builtin-model"))]
mod tests {
    use super::*;
    use crate::builtin::StaticModel;

    fn model(query: &str, passage: &str) -> Prefixed {
        Prefixed::new(Arc::new(StaticModel::built_in()), query, passage)
    }

    #[tokio::test]
    async fn questions_and_passages_get_their_prefixes() {
        let built_in = StaticModel::built_in();
        let texts = ["bread".to_owned(), String::new()];
        let model = model("question ", "answer ");
        let passages = model.embed(&texts).await.unwrap();
        assert_eq!(passages, [built_in.embed("answer bread"), built_in.embed("answer ")]);
        assert_eq!(model.embed_query("bread").await.unwrap(), built_in.embed("question bread"));
        assert_eq!(model.count_tokens("bread"), 2);
    }

    #[test]
    fn prefixes_are_part_of_the_identity() {
        let all = [
            ("", ""),
            ("a", "b"),
            ("b", "a"),
            ("", "a"),
            ("a", ""),
            ("\" and \"", ""),
            ("", "\" and \""),
        ]
        .map(|(query, passage)| model(query, passage).model().identity.clone());
        assert_eq!(all[0], StaticModel::IDENTITY);
        for (index, one) in all.iter().enumerate() {
            assert!(!all[index + 1..].contains(one), "{all:?}");
        }
    }
}
