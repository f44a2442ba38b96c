//! A store together with the model that fills it.
#![cfg(feature = "builtin-model")]

use std::sync::Arc;

use marquetry_rag::{
    Document, Embedder, EmbeddingModel, MemoryStore, NewChunk, Pipeline, Prefixed, SearchRequest,
    StaticModel,
};

#[test]
fn a_store_of_another_model_says_what_to_do() {
    let embedder = Arc::new(StaticModel::built_in());
    let (identity, dimension) = (StaticModel::IDENTITY, StaticModel::DIMENSION);
    // By name, and by dimension alone.
    for (name, dimension) in [("old-model", dimension), (identity, dimension + 1)] {
        let store = Arc::new(MemoryStore::new(EmbeddingModel::new(name, dimension)));
        let error = Pipeline::new(store, Arc::clone(&embedder) as _).err().unwrap().to_string();
        for part in [&format!("{name:?} ({dimension} numbers)"), "index the documents again"] {
            assert!(error.contains(part), "{error}");
        }
    }
    let store = Arc::new(MemoryStore::new(embedder.model().clone()));
    assert!(Pipeline::new(store, embedder).is_ok());
}

#[tokio::test]
async fn a_search_embeds_its_text_as_a_question() {
    let built_in = StaticModel::built_in();
    let model = Prefixed::new(Arc::new(built_in), "question ", "answer ");
    let store = Arc::new(MemoryStore::new(model.model().clone()));
    let pipeline = Pipeline::new(store, Arc::new(model)).unwrap();
    let chunk = NewChunk::of_text("…", built_in.embed("question bread"));
    pipeline.store().replace(Document::new("a"), vec![chunk]).await.unwrap();
    let hits = pipeline.search(SearchRequest::new("bread", None)).await.unwrap();
    assert!(hits[0].similarity.is_some_and(|cosine| cosine > 0.999), "{hits:?}");
}
