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
    let identity = StaticModel::IDENTITY;
    let dimension = StaticModel::DIMENSION;
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

#[tokio::test]
async fn a_threshold_works_in_languages_that_the_model_does_not_know() {
    let english = [
        "The contract may be ended by either side within three months.",
        "The library is closed on Mondays and on public holidays.",
        "Patients' records are kept for ten years in the hospital.",
    ];
    let arabic = [
        "يمكن لأي من الطرفين إنهاء العقد خلال ثلاثة أشهر.",
        "المكتبة مغلقة أيام الاثنين وفي العطل الرسمية.",
        "تحفظ سجلات المرضى لمدة عشر سنوات في المستشفى.",
    ];
    let russian = [
        "Каждая сторона может расторгнуть договор в течение трёх месяцев.",
        "Библиотека закрыта по понедельникам и в праздничные дни.",
        "Записи пациентов хранятся в больнице десять лет.",
    ];
    check_threshold(&english, "When is the library closed?", "How deep is the ocean near Japan?")
        .await;
    check_threshold(&arabic, "متى تكون المكتبة مغلقة؟", "ما هو عمق المحيط في اليابان؟").await;
    check_threshold(&russian, "Когда закрыта библиотека?", "Какая глубина океана в Японии?").await;
}

/// Checks that a question finds the second text above a threshold, and another one nothing.
async fn check_threshold(texts: &[&str], question: &str, other: &str) {
    let built_in = StaticModel::built_in();
    let store = Arc::new(MemoryStore::new(built_in.model().clone()));
    let pipeline = Pipeline::new(store, Arc::new(built_in)).unwrap();
    for (number, text) in texts.iter().enumerate() {
        let chunk = NewChunk::of_text(*text, built_in.embed(text));
        pipeline.store().replace(Document::new(number.to_string()), vec![chunk]).await.unwrap();
    }
    let hits = pipeline.search(SearchRequest::new(question, None).threshold(0.4)).await.unwrap();
    assert_eq!(hits[0].chunk.document, "1", "{hits:?}");
    let none = pipeline.search(SearchRequest::new(other, None).threshold(0.4)).await.unwrap();
    assert_eq!(none, [], "{other}");
    let all = pipeline.search(SearchRequest::new(question, None)).await.unwrap();
    assert!(all.is_sorted_by(|one, next| one.relevance >= next.relevance), "{all:?}");
}
