//! Helpers of the tests of stores in databases.

use marquetry_index::{
    ChunkStore, Document, EmbeddingModel, Filter, Matching, MemoryStore, NewChunk, SearchRequest,
    conformance::embed,
};
use proptest::{prelude::*, test_runner::TestRunner};
use tokio::runtime::Runtime;

pub(crate) fn model() -> EmbeddingModel {
    EmbeddingModel::new("test", 64)
}

pub(crate) fn chunk(text: String) -> NewChunk {
    let vector = embed(&text, 64);
    NewChunk::of_text(text, vector)
}

/// A version of a document; versions have different numbers of chunks.
pub(crate) fn version(number: usize) -> Vec<NewChunk> {
    let count = 1 + number % 5;
    (0..count).map(|at| chunk(format!("Version {number} of {count}, common part {at}."))).collect()
}

/// Checks that all chunks are of one version.
pub(crate) fn whole(texts: &[&str]) {
    let version = texts.first().expect("some chunks").split(',').next().unwrap();
    assert!(texts.iter().all(|text| text.starts_with(&format!("{version},"))), "{texts:?}");
    assert!(version.ends_with(&format!(" of {}", texts.len())), "{texts:?}");
}

/// Any text, often with syntax of SQL, FTS5 or PostgreSQL.
fn text() -> impl proptest::strategy::Strategy<Value = String> {
    let syntax = "['\"();*^:%_\\\\&|!<>{}\\[\\]-]|--|/\\*|NEAR|AND|OR|NOT|DROP|\\$1|\\?|\u{0}|words? ?|[a-z]{1,3} ";
    prop_oneof![
        prop::collection::vec(syntax, 1..12).prop_map(|parts| parts.concat()),
        any::<String>(),
    ]
}

/// Checks that a store answers as the store in memory does, for random documents and questions.
pub(crate) fn answers_as_memory_does(runtime: &Runtime, tested: &dyn ChunkStore, cases: u32) {
    let memory = MemoryStore::new(model());
    let mut runner = TestRunner::new(ProptestConfig::with_cases(cases));
    let texts = (text(), text(), text(), text(), any::<bool>());
    let ran = runner.run(&texts, |(uri, content, tag, question, all)| {
        if uri.is_empty() {
            return Ok(());
        }
        let mut document = Document::new(&*uri);
        document.tags.insert(tag.clone());
        document.owner = Some(content.clone());
        document.metadata.insert(question.clone(), tag.clone().into());
        let mut request = SearchRequest::new(&*question, Some(embed(&question, 64)));
        request.limit = 1_000;
        request.matching = if all { Matching::All } else { Matching::Any };
        let mut tagged = Filter::default();
        tagged.tags.push(tag);
        runtime.block_on(async {
            let stores: [&dyn ChunkStore; 2] = [tested, &memory];
            let mut answers = Vec::new();
            for store in stores {
                let chunks = vec![chunk(content.clone()), chunk(question.clone())];
                store.replace(document.clone(), chunks).await.unwrap();
                let hits = store.search(&request).await.unwrap();
                // Ids are each store's own.
                let mut hits: Vec<_> = hits
                    .into_iter()
                    .map(|hit| {
                        (
                            hit.chunk.document,
                            hit.chunk.index,
                            hit.chunk.content,
                            hit.semantic_rank,
                            hit.keyword_rank,
                        )
                    })
                    .collect();
                hits.sort();
                let count = store.count(&tagged).await.unwrap();
                let documents = store.documents(&Filter::default(), None, 1_000).await.unwrap();
                answers.push((hits, count, documents));
            }
            assert_eq!(answers[0], answers[1]);
            assert!(answers[0].1 >= 2);
        });
        Ok(())
    });
    ran.unwrap();
}
