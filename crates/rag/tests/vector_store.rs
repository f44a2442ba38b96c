//! Vector stores that the pipeline makes itself: it reads, cuts, embeds and stores, as
//! `createVectorStore` of seed 003 does.
#![cfg(feature = "builtin-model")]

use std::sync::Arc;

use marquetry_rag::{
    ChunkOptions, ChunkStore, Document, Embedder, Filter, Hint, MemoryStore, Pipeline,
    SearchRequest, StaticModel, StoredChunk, Strategy, extract,
};

/// Runs a test with a pipeline over each embedded store.
async fn with_each_store(test: impl AsyncFn(Pipeline)) {
    let embedder = Arc::new(StaticModel::built_in());
    let model = embedder.model().clone();
    let mut stores: Vec<Arc<dyn ChunkStore>> = vec![Arc::new(MemoryStore::new(model.clone()))];
    #[cfg(feature = "libsql")]
    let folder = tempfile::tempdir().unwrap();
    #[cfg(feature = "libsql")]
    stores.push(Arc::new(
        marquetry_rag::LibsqlStore::open(folder.path().join("store.db"), model).await.unwrap(),
    ));
    for store in stores {
        test(Pipeline::new(store, Arc::clone(&embedder) as _).unwrap()).await;
    }
}

fn document(id: &str) -> Document {
    Document::of_record(format!("am7://default/data.data/{id}"), "data.data", id)
}

/// Makes the vector store of a document, and returns its chunks.
async fn create(
    pipeline: &Pipeline,
    document: &Document,
    text: &str,
    strategy: Strategy,
    size: i64,
) -> Vec<StoredChunk> {
    let extracted = extract(text.as_bytes(), &Hint::media_type("text/plain")).unwrap();
    let options = ChunkOptions::new(strategy, size).unwrap();
    let count = pipeline.index(document.clone(), &extracted, &options).await.unwrap();
    let chunks = pipeline.store().chunks(&document.uri).await.unwrap();
    assert_eq!(chunks.len() as u64, count);
    chunks
}

fn contents(chunks: &[StoredChunk]) -> Vec<&str> {
    chunks.iter().map(|chunk| &*chunk.content).collect()
}

/// seed: 003/VectorUtilStoreTest.testCreateVectorStoreIncludesObjectId
#[tokio::test(flavor = "multi_thread")]
async fn each_chunk_refers_to_its_record() {
    with_each_store(async |pipeline| {
        let text = "Test content for vectorization.";
        let chunks = create(&pipeline, &document("doc-123"), text, Strategy::Sentence, 1).await;
        assert_eq!(contents(&chunks), [text]);
        for chunk in &chunks {
            let (of, same) = pipeline.store().chunk(chunk.id).await.unwrap().unwrap();
            assert_eq!((of.object_id.as_deref(), &same), (Some("doc-123"), chunk));
            assert_eq!(chunk.document, "am7://default/data.data/doc-123");
        }
        let hits = pipeline.search(SearchRequest::new("vectorization", None)).await.unwrap();
        assert_eq!(hits[0].object_id.as_deref(), Some("doc-123"));
        assert!(hits[0].similarity.is_some(), "the pipeline has embedded it: {hits:?}");
    })
    .await;
}

/// seed: 003/VectorUtilStoreTest.testCreateVectorStorePreservesReferenceType
#[tokio::test(flavor = "multi_thread")]
async fn each_chunk_has_the_type_of_its_record() {
    with_each_store(async |pipeline| {
        let note = Document::of_record("am7://default/data.note/doc-456", "data.note", "doc-456");
        let chunks = create(&pipeline, &note, "Content.", Strategy::Word, 10).await;
        assert_eq!(contents(&chunks), ["Content."]);
        for chunk in &chunks {
            let (of, _) = pipeline.store().chunk(chunk.id).await.unwrap().unwrap();
            assert_eq!(of.kind.as_deref(), Some("data.note"));
        }
    })
    .await;
}

/// seed: 003/VectorUtilStoreTest.testCreateVectorStoreChunkNumbering
#[tokio::test(flavor = "multi_thread")]
async fn chunks_are_numbered_and_know_how_many_there_are() {
    with_each_store(async |pipeline| {
        let text = "One. Two. Three. Four. Five.";
        let chunks = create(&pipeline, &document("doc-789"), text, Strategy::Sentence, 1).await;
        assert_eq!(contents(&chunks), ["One.", "Two.", "Three.", "Four.", "Five."]);
        for (index, chunk) in (0..).zip(&chunks) {
            assert_eq!((chunk.index, chunk.count), (index, 5));
            assert_eq!(&text[chunk.span.clone()], chunk.content);
        }
    })
    .await;
}

/// seed: 003/VectorUtilStoreTest.testCreateVectorStoreReplacesExisting
#[tokio::test(flavor = "multi_thread")]
async fn a_new_vector_store_replaces_the_old_one() {
    with_each_store(async |pipeline| {
        let document = document("doc-replace");
        let scope = Filter::scope(&document.uri);
        create(&pipeline, &document, "First version.", Strategy::Sentence, 1).await;
        assert_eq!(pipeline.store().count(&scope).await.unwrap(), 1);
        let text = "Second version with more sentences. Another sentence here.";
        let chunks = create(&pipeline, &document, text, Strategy::Sentence, 1).await;
        assert_eq!(
            contents(&chunks),
            ["Second version with more sentences.", "Another sentence here."]
        );
        assert_eq!(pipeline.store().count(&scope).await.unwrap(), 2);
        let hits = pipeline.search(SearchRequest::new("first version", None)).await.unwrap();
        assert!(hits.iter().all(|hit| hit.chunk.content != "First version."), "{hits:?}");
    })
    .await;
}

/// seed: 003/VectorUtilStoreTest.testDeleteVectorStoreReturnsCount
#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_vector_store_returns_the_number_of_its_chunks() {
    with_each_store(async |pipeline| {
        let document = document("doc-del");
        let scope = Filter::scope(&document.uri);
        create(&pipeline, &document, "Content to delete.", Strategy::Sentence, 1).await;
        assert_eq!(pipeline.store().delete(&scope).await.unwrap(), 1);
        assert_eq!(pipeline.store().count(&scope).await.unwrap(), 0);
        let hits = pipeline.search(SearchRequest::new("content to delete", None)).await.unwrap();
        assert_eq!(hits, []);
    })
    .await;
}

/// seed: 003/VectorUtilStoreTest.testDeleteVectorStoreByModelType
#[tokio::test(flavor = "multi_thread")]
async fn a_vector_store_is_deleted_by_its_vector_model() {
    with_each_store(async |pipeline| {
        let document = document("doc-typed");
        create(&pipeline, &document, "Content.", Strategy::Sentence, 1).await;
        let mut of = Filter::scope(&document.uri);
        of.vector_models = vec!["olio.vectorChatHistory".to_owned()];
        assert_eq!(pipeline.store().delete(&of).await.unwrap(), 0, "it is of another model");
        of.vector_models = vec![Document::VECTOR_MODEL.to_owned()];
        assert_eq!(pipeline.store().delete(&of).await.unwrap(), 1);
        assert_eq!(pipeline.store().count(&Filter::default()).await.unwrap(), 0);
    })
    .await;
}

/// seed: 003/VectorUtilStoreTest.testGetVectorStoreReturnsAllChunks
#[tokio::test(flavor = "multi_thread")]
async fn all_chunks_of_a_vector_store_are_returned() {
    with_each_store(async |pipeline| {
        let document = document("doc-get");
        create(&pipeline, &self::document("other"), "Other.", Strategy::Sentence, 1).await;
        let text = "First. Second. Third.";
        let chunks = create(&pipeline, &document, text, Strategy::Sentence, 1).await;
        assert_eq!(contents(&chunks), ["First.", "Second.", "Third."]);
    })
    .await;
}

/// Seed 003, part 14: the type UNKNOWN.
#[tokio::test(flavor = "multi_thread")]
async fn a_text_of_an_unknown_type_is_one_chunk() {
    with_each_store(async |pipeline| {
        let text = "First. Second.\n\nChapter 2 Third\nFourth.";
        let chunks = create(&pipeline, &document("doc-one"), text, Strategy::Unknown, 1).await;
        assert_eq!(contents(&chunks), [text]);
        let hits = pipeline.search(SearchRequest::new("fourth", None)).await.unwrap();
        assert_eq!(hits[0].chunk.content, text);
    })
    .await;
}
