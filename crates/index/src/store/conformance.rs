//! The tests that every [`ChunkStore`] must pass.
//!
//! They need a tokio runtime with several threads, and panic with the broken rule. Vectors come
//! from [`embed`], a simple function of the words of a text that works with any dimension.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Map, Value, json};

use super::ChunkStore;
use crate::types::{
    Chapter, Document, Filter, Fusion, Hit, Matching, NewChunk, PageStart, SearchRequest,
    StoreError, StoredChunk,
};

/// Runs every test, each with a new, empty store from `make`.
///
/// ```
/// # #[cfg(all(feature = "conformance", feature = "builtin-model"))]
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use marquetry_index::{EmbeddingModel, MemoryStore, conformance};
///
/// conformance::check(async || MemoryStore::new(EmbeddingModel::default())).await;
/// # });
/// ```
///
/// # Panics
///
/// Panics if the store breaks a rule.
pub async fn check<S: ChunkStore>(make: impl AsyncFn() -> S) {
    documents_come_back(&make().await).await;
    chunks_come_back_numbered(&make().await).await;
    stored_vectors_can_be_stored_again(&make().await).await;
    replacing_leaves_nothing_of_the_old(&make().await).await;
    a_refused_batch_changes_nothing(&make().await).await;
    deleting_returns_the_number_of_chunks(&make().await).await;
    deleting_is_for_one_vector_model(&make().await).await;
    documents_come_in_pages(&make().await).await;
    filters_are_exact(&make().await).await;
    narrow_scopes_return_all_their_chunks(&make().await).await;
    narrow_scopes_give_the_nearest_first(&make().await).await;
    names_are_of_any_length(&make().await).await;
    a_scope_is_one_document(&make().await).await;
    without_a_scope_all_is_searched(&make().await).await;
    tags_are_all_needed(&make().await).await;
    hits_refer_to_their_record(&make().await).await;
    scores_are_sums_of_reciprocal_ranks(&make().await).await;
    limits_hold(&make().await).await;
    thresholds_hold(&make().await).await;
    distinct_is_one_of_each_document(&make().await).await;
    distinct_is_the_plain_search_without_repetitions(&make().await).await;
    unreadable_chunks_change_no_score(&make().await).await;
    languages_of_unreadable_documents_change_no_score(&make().await).await;
    titles_headings_names_and_folders_are_found(&make().await).await;
    words_are_found_in_their_language(&make().await).await;
    odd_queries_are_not_errors(&make().await).await;
    too_much_is_refused(&make().await).await;
    no_text_is_parsed_as_syntax(&make().await).await;
    replaced_chunks_are_not_found(&make().await).await;
    many_replacements_leave_no_trace(&make().await).await;
    readers_see_old_or_new(Arc::new(make().await)).await;
    writers_do_not_lose_each_other(Arc::new(make().await)).await;
}

/// A vector of a text: its words, each hashed to some of the numbers. Texts that share words are
/// near each other.
pub fn embed(text: &str, dimension: usize) -> Vec<f32> {
    let mut vector = vec![0.0; dimension];
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let hash = blake3::hash(word.to_lowercase().as_bytes());
        for bytes in hash.as_bytes().chunks(4) {
            let at = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]) as usize % dimension;
            vector[at] += if bytes[3] & 1 == 0 { 1.0 } else { -1.0 };
        }
    }
    vector
}

/// A record of the type `data.data`, cut into sentences.
async fn index(store: &impl ChunkStore, id: &str, text: &str) -> Document {
    let document = record(id);
    store.replace(document.clone(), sentences(store, text, 1)).await.expect("replace");
    document
}

fn record(id: &str) -> Document {
    Document::of_record(format!("am7://default/data.data/{id}"), "data.data", id)
}

/// Cuts a text into chunks of this number of sentences.
fn sentences(store: &impl ChunkStore, text: &str, size: usize) -> Vec<NewChunk> {
    let sentences: Vec<&str> = text
        .split_inclusive(". ")
        .flat_map(|part| part.split_inclusive("! "))
        .flat_map(|part| part.split_inclusive("? "))
        .map(str::trim)
        .filter(|sentence| !sentence.is_empty())
        .collect();
    let mut chunks = Vec::new();
    for batch in sentences.chunks(size) {
        let last = batch[batch.len() - 1];
        let span = offset(text, batch[0])..offset(text, last) + last.len();
        let content = &text[span.clone()];
        let mut chunk = NewChunk::of_text(content, embed(content, store.model().dimension));
        chunk.span = span;
        chunks.push(chunk);
    }
    chunks
}

/// Returns where a part of a text begins.
fn offset(text: &str, part: &str) -> usize {
    part.as_ptr().addr() - text.as_ptr().addr()
}

/// Adds a document with these readers and tags, cut into sentences.
async fn add(store: &impl ChunkStore, mut document: Document, labels: Labels<'_>, text: &str) {
    document.readers = labels.readers.iter().map(|reader| (*reader).to_owned()).collect();
    document.tags = labels.tags.iter().map(|tag| (*tag).to_owned()).collect();
    store.replace(document, sentences(store, text, 1)).await.expect("replace");
}

/// Readers and tags of a document.
#[derive(Clone, Copy, Default)]
struct Labels<'a> {
    readers: &'a [&'a str],
    tags: &'a [&'a str],
}

/// Returns the labels of a document with these readers and no tags.
fn readers<'a>(readers: &'a [&'a str]) -> Labels<'a> {
    Labels { readers, tags: &[] }
}

fn cosine(left: &[f32], right: &[f32]) -> f32 {
    dot(left, right) / (dot(left, left) * dot(right, right)).sqrt()
}

fn dot(left: &[f32], right: &[f32]) -> f32 {
    left.iter().zip(right).map(|(left, right)| left * right).sum()
}

fn request(store: &impl ChunkStore, text: &str) -> SearchRequest {
    SearchRequest::new(text, Some(embed(text, store.model().dimension)))
}

async fn find(store: &impl ChunkStore, request: &SearchRequest) -> Vec<Hit> {
    store.search(request).await.expect("search")
}

fn contents(chunks: &[StoredChunk]) -> Vec<&str> {
    chunks.iter().map(|chunk| chunk.content.as_str()).collect()
}

fn found(hits: &[Hit]) -> BTreeSet<&str> {
    hits.iter().map(|hit| hit.chunk.content.as_str()).collect()
}

async fn documents_come_back(store: &impl ChunkStore) {
    let mut document = record("doc-123");
    document.owner = Some("alice".to_owned());
    document.tags = ["am7://default/common.tag/one".to_owned(), "ü".to_owned()].into();
    document.metadata = json!({"year": 1984, "nested": {"b": [1, null], "a": "x"}})
        .as_object()
        .cloned()
        .expect("an object");
    document.media_type = Some("text/markdown".to_owned());
    document.content_hash = Some("abc".to_owned());
    document.title = Some("A \"title\"".to_owned());
    let chunks = sentences(store, "Test content for vectorization.", 1);
    assert!(!chunks.is_empty());
    store.replace(document.clone(), chunks).await.expect("replace");

    assert_eq!(store.document(&document.uri).await.expect("document").as_ref(), Some(&document));
    assert_eq!(store.document("am7://default/data.data/other").await.expect("document"), None);
    let chunks = store.chunks(&document.uri).await.expect("chunks");
    assert!(!chunks.is_empty());
    for chunk in &chunks {
        let (of, same) = store.chunk(chunk.id).await.expect("chunk").expect("it is there");
        assert_eq!(
            (of.object_id.as_deref(), of.kind.as_deref()),
            (Some("doc-123"), Some("data.data"))
        );
        assert_eq!(&same, chunk);
        assert_eq!(chunk.document, document.uri);
        assert_eq!(chunk.id.to_string().parse(), Ok(chunk.id), "ids can be written down");
    }
    let none = Document::new("empty");
    assert_eq!(store.replace(none.clone(), Vec::new()).await.expect("replace"), 0);
    assert_eq!(store.document("empty").await.expect("document"), Some(none), "without chunks");
}

async fn chunks_come_back_numbered(store: &impl ChunkStore) {
    let text = "One. Two. Three. Four. Five.";
    let document = index(store, "doc-789", text).await;
    let chunks = store.chunks(&document.uri).await.expect("chunks");
    assert_eq!(contents(&chunks), ["One.", "Two.", "Three.", "Four.", "Five."]);
    for (place, chunk) in (0..).zip(&chunks) {
        assert_eq!((chunk.index, chunk.count), (place, 5));
        assert_eq!(&text[chunk.span.clone()], chunk.content);
    }
    index(store, "doc-get", "First. Second. Third.").await;
    let chunks = store.chunks("am7://default/data.data/doc-get").await.expect("chunks");
    assert_eq!(chunks.len(), 3);
    for limit in [0, 1, chunks.len() - 1, chunks.len(), chunks.len() + 1] {
        let first = store.first_chunks("am7://default/data.data/doc-get", limit).await;
        assert_eq!(first.expect("first_chunks"), chunks[..limit.min(chunks.len())]);
    }
    assert!(store.chunks("nobody").await.expect("chunks").is_empty());

    let mut chunk = sentences(store, "It was not built in a day.", 1);
    let chapter = Some(Chapter::new(1, "Rome"));
    chunk[0].chapter.clone_from(&chapter);
    chunk[0].page = Some(7);
    chunk[0].page_starts = vec![PageStart::new(8, 14)];
    store.replace(record("doc-page"), chunk).await.expect("replace");
    let chunks = store.chunks("am7://default/data.data/doc-page").await.expect("chunks");
    assert_eq!((chunks[0].page, &chunks[0].chapter), (Some(7), &chapter));
    assert_eq!(chunks[0].page_starts, [PageStart::new(8, 14)]);
    for (question, page) in [("Rome", 7), ("a day", 8)] {
        let hits = find(store, &request(store, question)).await;
        assert_eq!(hits[0].page, Some(page), "{question}");
    }
}

async fn stored_vectors_can_be_stored_again(store: &impl ChunkStore) {
    let dimension = store.model().dimension;
    let text = "Rye is milled. The mill is old! Is the baker there?";
    let mut chunks = sentences(store, text, 1);
    let mut last = NewChunk::of_text("—", vec![0.0; dimension]);
    last.page = Some(7);
    last.chapter = Some(Chapter { number: 2, title: "Two".to_owned() });
    last.page_starts = vec![PageStart::new(8, 1)];
    chunks.push(last);
    index(store, "other", "Something else.").await;
    let document = record("a");
    store.replace(document.clone(), chunks.clone()).await.expect("replace");

    let kept = store.embedded(&document.uri).await.expect("embedded");
    assert!(kept.iter().all(|chunk| chunk.vector.len() == dimension));
    assert!(kept[3].vector.iter().all(|value| *value == 0.0), "{:?}", kept[3].vector);
    assert_same_chunks(&kept, &chunks);
    for _ in 0..3 {
        let kept = store.embedded(&document.uri).await.expect("embedded");
        store.replace(document.clone(), kept).await.expect("replace");
    }
    assert_same_chunks(&store.embedded(&document.uri).await.expect("embedded"), &chunks);
    let hits = find(store, &request(store, "Is the baker there?")).await;
    assert_eq!(hits[0].chunk.content, "Is the baker there?");
    assert!(hits[0].similarity.is_some_and(|cosine| cosine > 0.999), "{hits:?}");

    store.replace(document.clone(), Vec::new()).await.expect("replace");
    for uri in [&*document.uri, "nothing"] {
        assert_eq!(store.embedded(uri).await.expect("embedded"), [], "{uri}");
    }
}

/// Asserts that chunks are equal, and their vectors nearly.
#[track_caller]
fn assert_same_chunks(left: &[NewChunk], right: &[NewChunk]) {
    assert_eq!(left.len(), right.len());
    for (left, right) in left.iter().zip(right) {
        assert_eq!(left.content, right.content);
        assert_eq!(left.span, right.span);
        assert_eq!((left.page, &left.chapter), (right.page, &right.chapter));
        assert_eq!(left.page_starts, right.page_starts);
        // Stores keep only the direction of a vector.
        let lengths =
            [&left.vector, &right.vector].map(|vector| dot(vector, vector).sqrt().max(1e-9));
        for (one, other) in left.vector.iter().zip(&right.vector) {
            let difference = (one / lengths[0] - other / lengths[1]).abs();
            assert!(difference < 1e-3, "{:?}: {one} {other}", left.content);
        }
    }
}

async fn replacing_leaves_nothing_of_the_old(store: &impl ChunkStore) {
    let document = index(store, "doc-replace", "First version. It is long. It goes on.").await;
    let id = store.chunks(&document.uri).await.expect("chunks")[0].id;
    let text = "Second version with more sentences. Another sentence here.";
    let count = store.replace(document.clone(), sentences(store, text, 1)).await.expect("replace");
    assert_eq!(count, 2);
    assert_eq!(store.count(&Filter::scope(&document.uri)).await.expect("count"), 2);
    let chunks = store.chunks(&document.uri).await.expect("chunks");
    assert_eq!(
        contents(&chunks),
        ["Second version with more sentences.", "Another sentence here."]
    );
    assert_eq!(chunks[0].id, id, "a document keeps its number");
    let hits = find(store, &request(store, "first version goes on")).await;
    assert!(hits.iter().all(|hit| text.contains(&hit.chunk.content)), "{hits:?}");

    // If a batch contains a URI twice, the last document counts.
    let twice = ["old", "new"].map(|text| (document.clone(), sentences(store, text, 1)));
    store.replace_all(twice.into()).await.expect("replace_all");
    let chunks = store.chunks(&document.uri).await.expect("chunks");
    assert_eq!(contents(&chunks), ["new"]);
}

async fn a_refused_batch_changes_nothing(store: &impl ChunkStore) {
    let document = index(store, "doc", "Kept.").await;
    let dimension = store.model().dimension;
    let good = (document.clone(), sentences(store, "Lost.", 1));
    let long = with_vector("a", vec![1.0; dimension + 1]);
    let wrong = store.replace_all(vec![good.clone(), long]).await;
    assert!(
        matches!(wrong, Err(StoreError::Dimension { wanted, got }) if (wanted, got) == (dimension, dimension + 1)),
        "{wrong:?}"
    );
    let mut vector = vec![1.0; dimension];
    vector[dimension - 1] = f32::NAN;
    let wrong = store.replace_all(vec![good.clone(), with_vector("a", vector)]).await;
    assert!(matches!(wrong, Err(StoreError::NotFinite)), "{wrong:?}");
    let wrong = store.replace_all(vec![good, with_vector("", vec![1.0; dimension])]).await;
    assert!(matches!(wrong, Err(StoreError::NoUri)), "{wrong:?}");
    assert_eq!(contents(&store.chunks(&document.uri).await.expect("chunks")), ["Kept."]);
    assert_eq!(store.count(&Filter::default()).await.expect("count"), 1);
}

fn with_vector(uri: &str, vector: Vec<f32>) -> (Document, Vec<NewChunk>) {
    (Document::new(uri), vec![NewChunk::of_text("x", vector)])
}

async fn deleting_returns_the_number_of_chunks(store: &impl ChunkStore) {
    let document = index(store, "doc-del", "Content to delete. And more.").await;
    index(store, "doc-stays", "Content that stays.").await;
    let scope = Filter::scope(&document.uri);
    assert_eq!(store.delete(&scope).await.expect("delete"), 2);
    assert_eq!(store.count(&scope).await.expect("count"), 0);
    assert_eq!(store.document(&document.uri).await.expect("document"), None);
    assert_eq!(store.delete(&scope).await.expect("delete"), 0, "nothing is left to delete");
    let hits = find(store, &request(store, "content")).await;
    assert_eq!(found(&hits), BTreeSet::from(["Content that stays."]));
    assert_eq!(
        store.delete(&Filter::default()).await.expect("delete"),
        1,
        "an empty filter is all"
    );
    assert!(find(store, &request(store, "content")).await.is_empty());
}

async fn deleting_is_for_one_vector_model(store: &impl ChunkStore) {
    let document = index(store, "doc-typed", "Content.").await;
    let mut history = Document::new("am7://default/olio.llm.chatRequest/1");
    "olio.vectorChatHistory".clone_into(&mut history.vector_model);
    store.replace(history, sentences(store, "Said.", 1)).await.expect("replace");

    let mut of = Filter::scope(&document.uri);
    of.vector_models = vec!["olio.vectorChatHistory".to_owned()];
    assert_eq!(store.delete(&of).await.expect("delete"), 0);
    of.vector_models = vec![Document::VECTOR_MODEL.to_owned()];
    assert_eq!(store.delete(&of).await.expect("delete"), 1);
    let histories =
        Filter { vector_models: vec!["olio.vectorChatHistory".to_owned()], ..Filter::default() };
    assert_eq!(store.count(&histories).await.expect("count"), 1);
    assert_eq!(store.delete(&histories).await.expect("delete"), 1);
}

async fn documents_come_in_pages(store: &impl ChunkStore) {
    let names = ["a", "B", "ä", "a/b", "c", "\u{10ffff}"];
    for (hash, name) in (0..).zip(names) {
        let mut document = Document::new(name);
        document.content_hash = Some(format!("{hash}"));
        document.owner = (name != "c").then(|| "alice".to_owned());
        store.replace(document, sentences(store, "x", 1)).await.expect("replace");
    }
    let mut want = names.map(str::to_owned);
    want.sort_unstable();
    let mut seen = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page =
            store.documents(&Filter::default(), after.as_deref(), 2).await.expect("documents");
        assert!(page.len() <= 2);
        let Some(last) = page.last() else { break };
        after = Some(last.uri.clone());
        seen.extend(page);
    }
    assert_eq!(
        seen.iter().map(|document| &document.uri).collect::<Vec<_>>(),
        Vec::from_iter(&want)
    );
    for document in &seen {
        let at = names.iter().position(|name| *name == document.uri).expect("one of ours");
        assert_eq!(document.content_hash, Some(at.to_string()), "{document:?}");
    }
    let owned = Filter { owners: vec!["alice".to_owned()], ..Filter::default() };
    assert_eq!(store.documents(&owned, None, 100).await.expect("documents").len(), 5);
    assert!(store.documents(&owned, None, 0).await.expect("documents").is_empty());
}

async fn filters_are_exact(store: &impl ChunkStore) {
    let first = json!({"year": 1984, "at": {"a": 1, "b": 2}});
    for (uri, kind, owner, tags, values) in [
        ("1", Some("data.data"), Some("alice"), &["x", "y"][..], first),
        ("2", Some("data.note"), Some("bob"), &["y"], json!({"year": "1984"})),
        ("3", None, None, &[], json!({"year": null})),
        ("4", Some("alice"), Some("data.data"), &["alice"], json!({})),
    ] {
        let mut document = Document::new(uri);
        document.kind = kind.map(str::to_owned);
        document.owner = owner.map(str::to_owned);
        document.metadata = metadata(values);
        let readers: Vec<&str> = owner.into_iter().chain(["everybody"]).collect();
        add(store, document, Labels { readers: &readers, tags }, "The same words.").await;
    }

    let none = Filter::default;
    for (filter, want) in [
        (none(), &["1", "2", "3", "4"][..]),
        (Filter { types: strings(&["data.data"]), ..none() }, &["1"]),
        (Filter { types: strings(&["data.data", "data.note"]), ..none() }, &["1", "2"]),
        (Filter { types: strings(&["DATA.DATA"]), ..none() }, &[]),
        (Filter { owners: strings(&["alice"]), ..none() }, &["1"]),
        (
            Filter { owners: strings(&["alice", "bob"]), tags: strings(&["y"]), ..none() },
            &["1", "2"],
        ),
        (Filter { readers: Some(strings(&["alice"])), ..none() }, &["1"]),
        (Filter { readers: Some(strings(&["alice", "bob", "carol"])), ..none() }, &["1", "2"]),
        (Filter { readers: Some(strings(&["everybody"])), ..none() }, &["1", "2", "3", "4"]),
        // An empty list of readers finds no document.
        (Filter { readers: Some(Vec::new()), ..none() }, &[]),
        (Filter { readers: Some(Vec::new()), scope: Some("2".to_owned()), ..none() }, &[]),
        (Filter { tags: strings(&["x", "y"]), ..none() }, &["1"]),
        (Filter { tags: strings(&["x", "x"]), ..none() }, &["1"]),
        (Filter { tags: strings(&["alice"]), ..none() }, &["4"]),
        (Filter { tags: strings(&["x", "alice"]), ..none() }, &[]),
        (Filter { metadata: metadata(json!({"year": 1984})), ..none() }, &["1"]),
        (Filter { metadata: metadata(json!({"year": "1984"})), ..none() }, &["2"]),
        (Filter { metadata: metadata(json!({"year": null})), ..none() }, &["3"]),
        (
            Filter { metadata: metadata(json!({"at": {"b": 2, "a": 1}, "year": 1984})), ..none() },
            &["1"],
        ),
        (Filter { scope: Some("2".to_owned()), tags: strings(&["x"]), ..none() }, &[]),
        (Filter { scope: Some("2".to_owned()), ..none() }, &["2"]),
        (Filter { scope: Some(String::new()), ..none() }, &[]),
    ] {
        let want: BTreeSet<_> = want.iter().copied().collect();
        for text in ["same words", ""] {
            let mut request = request(store, "same words");
            request.text = text.to_owned();
            request.filter = filter.clone();
            let hits = find(store, &request).await;
            let uris: BTreeSet<_> = hits.iter().map(|hit| hit.chunk.document.as_str()).collect();
            assert_eq!(uris, want, "{filter:?}");
        }
        let documents = store.documents(&filter, None, 10).await.expect("documents");
        assert_eq!(
            documents.iter().map(|document| &*document.uri).collect::<BTreeSet<_>>(),
            want,
            "{filter:?}"
        );
        assert_eq!(store.count(&filter).await.expect("count"), want.len() as u64, "{filter:?}");
    }
}

fn strings(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

fn metadata(value: Value) -> Map<String, Value> {
    value.as_object().cloned().expect("an object")
}

/// The exact rows are found even if only a thousandth of all rows passes the filter. Stores that
/// filter after an approximate search fail here.
async fn narrow_scopes_return_all_their_chunks(store: &impl ChunkStore) {
    let dimension = store.model().dimension;
    let documents = (0..2_000).map(|number| {
        let text = shared_words(number);
        let mut document = Document::new(format!("doc-{number:04}"));
        if number % 1_000 == 999 {
            document.tags.insert("thousandth".to_owned());
        }
        if number % 20 == 0 {
            document.tags.insert("twentieth".to_owned());
        }
        let vector = embed(&text, dimension);
        (document, vec![NewChunk::of_text(text, vector)])
    });
    store.replace_all(documents.collect()).await.expect("replace_all");
    // The question is next to a document that does not pass.
    for text in ["shared words and number1 word1", "nothing of it"] {
        for (tag, want) in [("thousandth", 2), ("twentieth", 100)] {
            for words in [text, ""] {
                let mut request = request(store, text);
                request.text = words.to_owned();
                request.limit = 200;
                request.filter.tags = vec![tag.to_owned()];
                let hits = find(store, &request).await;
                assert_eq!(hits.len(), want, "{tag} {text:?} {words:?}");
            }
        }
        let mut request = request(store, text);
        request.filter.scope = Some("doc-1234".to_owned());
        assert_eq!(find(store, &request).await.len(), 1);
    }
    // The nearest ten of the hundred come first, as computed by a scan in this test.
    let question = embed("number300 word6 shared", dimension);
    let mut request = SearchRequest::new("", Some(question.clone()));
    request.filter.tags = vec!["twentieth".to_owned()];
    let hits = find(store, &request).await;
    let mut want: Vec<f32> = (0..2_000)
        .step_by(20)
        .map(|number| cosine(&question, &embed(&shared_words(number), dimension)))
        .collect();
    want.sort_by(|left, right| right.total_cmp(left));
    for (hit, want) in hits.iter().zip(want) {
        let got = hit.similarity.expect("two vectors");
        assert!((got - f64::from(want)).abs() < 2e-3, "{got} instead of {want}");
    }
    assert_eq!(hits[0].chunk.document, "doc-0300");
}

fn shared_words(number: usize) -> String {
    format!("shared words and number{number} word{}", number % 7)
}

/// Rows that pass the filter are found in the order of an exact search, even far from the question
/// and with thousands of nearer rows that do not pass.
async fn narrow_scopes_give_the_nearest_first(store: &impl ChunkStore) {
    const CHUNKS: usize = 4_000;
    let dimension = store.model().dimension;
    for (at, numbers) in (0..CHUNKS).collect::<Vec<_>>().chunks(1_000).enumerate() {
        let documents = numbers.chunks(2).map(|pair| {
            let mut document = Document::new(format!("{at}/{:04}", pair[0]));
            document.readers.insert("am7://default/system.user/all".to_owned());
            let chunks: Vec<_> = pair
                .iter()
                .map(|number| {
                    let text = text_of_subject(*number);
                    let vector = embed(&text, dimension);
                    NewChunk::of_text(text, vector)
                })
                .collect();
            (document, chunks)
        });
        // A document has two chunks; those with the numbers 7, 27, … are on one side, and make the
        // twentieth.
        let documents = documents.enumerate().map(|(pair, (mut document, chunks))| {
            let number = numbers[2 * pair] + 1;
            if number % 20 == 7 {
                document.tags.insert("tenth".to_owned());
            }
            if number % 2_000 == 7 {
                document.tags.insert("thousandth".to_owned());
            }
            if number % 40 == 7 {
                document.tags.insert("twentieth".to_owned());
            }
            (document, chunks)
        });
        store.replace_all(documents.collect()).await.expect("replace_all");
    }
    for question in ["tower stone wall gate a3", "boat on the river b77", "nothing of it"] {
        let vector = embed(question, dimension);
        for (tag, every, chunks) in
            [("thousandth", 2_000, 4), ("twentieth", 40, 200), ("tenth", 20, 400)]
        {
            let mut want: Vec<f32> = (0..CHUNKS)
                .step_by(2)
                .filter(|first| (first + 1) % every == 7)
                .flat_map(|first| [first, first + 1])
                .map(|number| cosine(&vector, &embed(&text_of_subject(number), dimension)))
                .collect();
            assert_eq!(want.len(), chunks);
            want.sort_by(|left, right| right.total_cmp(left));
            for limit in [10, 100, 1_000] {
                let mut request = SearchRequest::new("", Some(vector.clone()));
                request.limit = limit;
                request.filter.tags = vec![tag.to_owned()];
                request.filter.readers = Some(vec!["am7://default/system.user/all".to_owned()]);
                let hits = find(store, &request).await;
                assert_eq!(hits.len(), limit.min(chunks), "{tag} {question:?}");
                for (at, hit) in hits.iter().enumerate() {
                    let got = hit.similarity.expect("two vectors");
                    // An approximate vector index may miss a few rows, which moves the rows after
                    // them up.
                    let missed = if store.is_approximate() { limit / 50 } else { 0 };
                    assert!(
                        want[at..]
                            .iter()
                            .take(1 + missed)
                            .any(|want| (got - f64::from(*want)).abs() < 2e-3),
                        "{tag} {question:?} {limit}: {got} instead of {}",
                        want[at]
                    );
                }
            }
        }
    }
}

/// Returns a text about one of two subjects. The words of a subject make its vectors near each
/// other.
fn text_of_subject(number: usize) -> String {
    let subject = if number % 20 == 7 { "river water boat shore" } else { "tower stone wall gate" };
    format!("{subject} a{} b{} c{number}", number % 13, number % 101)
}

async fn names_are_of_any_length(store: &impl ChunkStore) {
    // Incompressible bytes, because engines compress.
    let long: String = (0..20_000_u32)
        .map(|at| char::from(b'a' + (at.wrapping_mul(2_654_435_761) >> 13) as u8 % 26))
        .collect();
    let names = [format!("{long}a"), format!("{long}b"), long.clone(), "z".to_owned()];
    for name in &names {
        let mut document = Document::new(name);
        document.tags.insert(long.clone());
        document.title = Some(long.clone());
        store.replace(document, sentences(store, name, 1)).await.expect("replace");
    }
    let mut want = names.clone();
    want.sort_unstable();
    let mut seen = Vec::new();
    let mut after: Option<String> = None;
    while let Some(document) =
        store.documents(&Filter::default(), after.as_deref(), 1).await.expect("documents").pop()
    {
        after = Some(document.uri.clone());
        seen.push(document.uri);
    }
    assert_eq!(seen, want);
    let filter = Filter { tags: vec![long.clone()], ..Filter::scope(&names[1]) };
    assert_eq!(store.count(&filter).await.expect("count"), 1);
    assert_eq!(contents(&store.chunks(&names[1]).await.expect("chunks")), [&*names[1]]);
}

/// seed: 003/VectorUtilHybridSearchTest.testFindWithModelScope
/// seed: 003/VectorUtilHybridSearchTest.testFindResultsContainObjectIdForUri
async fn a_scope_is_one_document(store: &impl ChunkStore) {
    let document = index(store, "doc-scope", "Relevant content about testing.").await;
    index(store, "doc-other", "Completely different topic. Testing it is, though.").await;
    let mut request = request(store, "testing");
    request.filter = Filter::scope(&document.uri);
    let hits = find(store, &request).await;
    assert_eq!(hits.len(), 1);
    for hit in &hits {
        assert_eq!(hit.chunk.document, document.uri);
        assert_eq!(hit.object_id.as_deref(), Some("doc-scope"));
        assert_eq!(hit.kind.as_deref(), Some("data.data"));
    }
}

/// seed: 003/VectorUtilHybridSearchTest.testFindWithNullModelSearchesAll
async fn without_a_scope_all_is_searched(store: &impl ChunkStore) {
    index(store, "doc-a", "Content about cats.").await;
    index(store, "doc-b", "Content about cats and dogs.").await;
    let hits = find(store, &seeds(store, "cats", &[])).await;
    let documents: BTreeSet<_> = hits.iter().map(|hit| hit.object_id.as_deref()).collect();
    assert_eq!(documents, BTreeSet::from([Some("doc-a"), Some("doc-b")]));
}

/// The search as in the seed: by type and vector model, with a relevance of at least .6.
fn seeds(store: &impl ChunkStore, text: &str, tags: &[&str]) -> SearchRequest {
    let mut request = request(store, text);
    request.filter = Filter {
        types: vec!["data.data".to_owned()],
        vector_models: vec![Document::VECTOR_MODEL.to_owned()],
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        ..Filter::default()
    };
    request.threshold = 0.6;
    request
}

/// seed: 003/VectorUtilHybridSearchTest.testFindWithTagFilter
/// seed: 003/VectorUtilHybridSearchTest.testFindWithMultipleTags
/// seed: 003/VectorUtilHybridSearchTest.testFindByTagOnlyNoModelRef
async fn tags_are_all_needed(store: &impl ChunkStore) {
    for (id, text, tags) in [
        ("doc-tagged", "Content to search.", &["test-tag"][..]),
        ("doc-multi", "Multi-tagged content.", &["tag-1", "tag-2"]),
        ("doc-one", "Content with one of them.", &["tag-1"]),
    ] {
        add(store, record(id), Labels { readers: &[], tags }, text).await;
    }
    for (tags, want) in [
        (&["test-tag"][..], &["Content to search."][..]),
        (&["tag-1", "tag-2"], &["Multi-tagged content."]),
        (&["tag-1"], &["Multi-tagged content.", "Content with one of them."]),
        (&["orphan-tag"], &[]),
    ] {
        let hits = find(store, &seeds(store, "content", tags)).await;
        assert_eq!(found(&hits), want.iter().copied().collect(), "{tags:?}");
        let by_tag = Filter { tags: seeds(store, "", tags).filter.tags, ..Filter::default() };
        let documents = store.documents(&by_tag, None, 10).await.expect("documents");
        assert_eq!(documents.len(), want.len(), "by tags alone");
    }
}

/// A hit has the reference, type, score, number and content of a row of the seed's vector store.
/// The fusions give the seed's scores, .85 and .5, to the first chunk by words.
///
/// seed: 003/VectorUtilStoreTest.testNewVectorStorePartialReference
/// seed: 003/VectorUtilStoreTest.testNewVectorStoreNullReference
async fn hits_refer_to_their_record(store: &impl ChunkStore) {
    let text = "Zero is here. One is here. Two is here. chunk content";
    index(store, "42", text).await;
    let hit = first_by_words(store, "chunk content", 3.0 / 17.0).await;
    let reference = (hit.kind.as_deref(), hit.object_id.as_deref(), &*hit.chunk.document);
    assert_eq!(reference, (Some("data.data"), Some("42"), "am7://default/data.data/42"));
    assert!((hit.score - 0.85).abs() < 1e-9, "{hit:?}");
    assert_eq!((hit.chunk.index, hit.chunk.count, &*hit.chunk.content), (3, 4, "chunk content"));
    let json = serde_json::to_value(&hit).expect("a hit is JSON");
    assert_eq!((&json["type"], &json["object_id"]), (&json!("data.data"), &json!("42")));
    assert_eq!(
        (&json["chunk"]["index"], &json["chunk"]["content"]),
        (&json!(3), &json!("chunk content"))
    );

    let free = Document::new("file:///notes/plain.md");
    store.replace(free, sentences(store, "unreferenced words", 1)).await.expect("replace");
    let hit = first_by_words(store, "unreferenced", 1.0).await;
    assert_eq!((&hit.kind, &hit.object_id), (&None, &None), "a document without a record");
    assert!((hit.score - 0.5).abs() < 1e-9, "{hit:?}");
    assert_eq!((hit.chunk.index, &*hit.chunk.content), (0, "unreferenced words"));
    let json = serde_json::to_value(&hit).expect("a hit is JSON");
    assert_eq!((&json["type"], &json["object_id"]), (&json!(null), &json!(null)));
}

/// Returns the first hit by words alone, with this constant of the fusion.
async fn first_by_words(store: &impl ChunkStore, question: &str, k: f64) -> Hit {
    let mut request = request(store, question);
    request.fusion = Some(Fusion { k, semantic_weight: 0.0 });
    find(store, &request).await.into_iter().next().expect("a hit")
}

/// seed: 003/VectorUtilHybridSearchTest.testHybridScoreIsPositive
/// seed: 003/VectorUtilHybridSearchTest.testHybridScoreOrderDescending
async fn scores_are_sums_of_reciprocal_ranks(store: &impl ChunkStore) {
    index(store, "doc-score", "Testing the hybrid search scoring mechanism.").await;
    let text = "First sentence about algorithms. Second sentence about data structures. \
        Third about algorithms and complexity.";
    index(store, "doc-order", text).await;
    let free = Document::new("file:///notes/algorithms.md");
    store.replace(free, sentences(store, "Algorithms of nobody.", 1)).await.expect("replace");

    let hits = find(store, &seeds(store, "hybrid search scoring", &[])).await;
    assert!(!hits.is_empty() && hits.iter().all(|hit| hit.score > 0.0), "{hits:?}");

    for fusion in [
        Fusion::PLAIN,
        Fusion { k: 0.0, semantic_weight: 2.0 },
        Fusion { k: 10.0, semantic_weight: 0.0 },
    ] {
        let mut request = request(store, "algorithms");
        request.fusion = Some(fusion);
        let hits = find(store, &request).await;
        assert_eq!(hits.len(), 5, "all have a place by their vectors");
        assert!(hits.iter().any(|hit| hit.keyword_rank.is_none()));
        assert!(hits.is_sorted_by(|left, right| left.score >= right.score), "{hits:?}");
        for hit in &hits {
            assert!(
                (hit.score - fusion.score(hit.semantic_rank, hit.keyword_rank)).abs() < 1e-9,
                "{hit:?}"
            );
            assert!((0.0..=1.0).contains(&hit.relevance), "{hit:?}");
            let has_record = hit.chunk.document.starts_with("am7:");
            assert_eq!(hit.kind.as_deref(), has_record.then_some("data.data"), "{hit:?}");
            assert_eq!(hit.object_id.is_some(), has_record, "{hit:?}");
            assert_eq!(
                hit.chunk.count,
                store.chunks(&hit.chunk.document).await.expect("chunks").len() as u32
            );
        }
        assert_eq!(hits.iter().filter_map(|hit| hit.keyword_rank).min(), Some(1));
        assert_eq!(hits.iter().filter_map(|hit| hit.semantic_rank).min(), Some(1));
    }
    // Equal chunks share a rank.
    index(store, "twin-1", "Twins alike.").await;
    index(store, "twin-2", "Twins alike.").await;
    let hits = find(store, &request(store, "twins")).await;
    assert_eq!([hits[0].keyword_rank, hits[1].keyword_rank], [Some(1); 2], "{hits:?}");
    assert_eq!([hits[0].semantic_rank, hits[1].semantic_rank], [Some(1); 2], "{hits:?}");
}

/// seed: 003/VectorUtilHybridSearchTest.testFindRespectsLimit
/// seed: 003/VectorUtilHybridSearchTest.testFindLimitZeroReturnsEmpty
async fn limits_hold(store: &impl ChunkStore) {
    let text: String =
        (0..50).map(|number| format!("This is sentence number {number}. ")).collect();
    index(store, "doc-limit", &text).await;
    for (limit, want) in [(0, 0), (1, 1), (3, 3), (50, 50), (1_000, 50)] {
        let mut request = request(store, "sentence");
        request.limit = limit;
        assert_eq!(find(store, &request).await.len(), want);
    }
}

/// seed: 003/VectorUtilHybridSearchTest.testFindNoMatchesReturnsEmptyList
async fn thresholds_hold(store: &impl ChunkStore) {
    assert!(
        find(store, &request(store, "xyzzy-nonexistent-term-999")).await.is_empty(),
        "an empty store"
    );
    index(store, "doc", "Cats sleep. Dogs and cats play. Fish swim.").await;
    let unknown = request(store, "xyzzy-nonexistent-term-999").threshold(0.99);
    assert_eq!(find(store, &unknown).await, []);
    let hits = find(store, &request(store, "cats").threshold(0.0)).await;
    assert_eq!(hits.len(), 3);
    // The chunk has all words of the question, so it is relevant even if its vector is far away.
    let hits = find(store, &request(store, "cats").threshold(1.0)).await;
    assert_eq!(found(&hits), BTreeSet::from(["Cats sleep.", "Dogs and cats play."]));
    let hits = find(store, &request(store, "cats elephants").threshold(0.9)).await;
    assert_eq!(found(&hits), BTreeSet::new(), "half of the words are less than that");
    let mut semantic = request(store, "Fish swim.").threshold(0.9);
    semantic.text.clear();
    assert_eq!(found(&find(store, &semantic).await), BTreeSet::from(["Fish swim."]));
}

/// seed: 003/VectorUtilHybridSearchTest.testFindDistinctDeduplicatesByReference
async fn distinct_is_one_of_each_document(store: &impl ChunkStore) {
    index(
        store,
        "doc-distinct",
        "Repeated theme about cats. Another chunk about cats. Third cats chunk.",
    )
    .await;
    // One document has so many better chunks that they fill both rankings.
    index(store, "doc-flood", &"Cats cats. ".repeat(300)).await;
    let mut request = request(store, "cats");
    request.distinct = true;
    let hits = find(store, &request).await;
    let documents: Vec<_> =
        hits.iter().map(|hit| hit.object_id.as_deref().expect("an id")).collect();
    assert_eq!(documents, ["doc-flood", "doc-distinct"]);
    assert!(hits[1].semantic_rank > Some(100), "its places are behind all the chunks of the other");
    assert!(hits[0].score >= hits[1].score, "{hits:?}");
    request.limit = 1;
    assert_eq!(find(store, &request).await.len(), 1);
}

/// Documents come in the order of their best chunks in a plain search; other documents follow.
async fn distinct_is_the_plain_search_without_repetitions(store: &impl ChunkStore) {
    let words = ["mill", "wheel", "stone", "flour", "bread", "oven", "salt", "rye"];
    for number in 0..40_usize {
        let mut text = String::new();
        for at in 0..4 + number % 5 {
            let [one, two, three] =
                [1, 3, 2].map(|step| words[(number * 5 + at * step + at * at) % words.len()]);
            text.push_str(&format!("The {one} and the {two} of {three}. "));
        }
        index(store, &format!("doc-{number}"), &text).await;
    }
    for question in ["mill and oven", "salt", "flour of the rye bread", "stone wheel stone"] {
        let mut plain = request(store, question);
        plain.limit = 100;
        let mut seen = BTreeSet::new();
        let hits = find(store, &plain).await;
        let want = hits.iter().map(|hit| hit.chunk.id);
        let want: Vec<_> = want.filter(|id| seen.insert(id.document)).collect();
        let mut distinct = plain.clone();
        distinct.distinct = true;
        let hits = find(store, &distinct).await;
        let got: Vec<_> = hits.iter().map(|hit| hit.chunk.id).collect();
        assert_eq!(got[..want.len()], want, "{question}");
        assert_eq!(got.iter().map(|id| id.document).collect::<BTreeSet<_>>().len(), got.len());
        assert!(got.len() >= want.len() && hits.is_sorted_by(|one, next| one.score >= next.score));
    }
}

/// Scores reveal nothing about unreadable documents: neither their words nor their length.
async fn unreadable_chunks_change_no_score(store: &impl ChunkStore) {
    let long = "Pepper and salt go into the soup with carrots and onions and a leaf of bay. ";
    let mine = format!("Salt is white. Pepper is black. {long}");
    let ours = "Salt comes from the sea, pepper does not.";
    add(store, Document::new("mine"), readers(&["alice"]), &mine).await;
    add(store, Document::new("ours"), readers(&["alice", "bob"]), ours).await;
    let old = "Pepper was dear. Nothing of salt.";
    add(store, Document::new("old"), readers(&["bob"]), old).await;
    let before = hits_of_alice(store).await;
    assert!(before.iter().all(|hits| !hits.is_empty()));
    let secret = "Zebra salt salt salt. Sea of pepper and zebras in the sea at night. ".repeat(9);
    add(store, Document::new("theirs"), readers(&["bob"]), &secret).await;
    assert_eq!(hits_of_alice(store).await, before, "another's document came");
    add(store, Document::new("old"), readers(&["bob"]), "Pepper. Sea.").await;
    assert_eq!(hits_of_alice(store).await, before, "another's document changed");
    add(store, Document::new("ours-not"), readers(&["carol"]), "Salt.").await;
    store.delete(&Filter::scope("theirs")).await.expect("delete");
    assert_eq!(hits_of_alice(store).await, before, "another's document went");
    add(store, Document::new("ours"), readers(&["bob"]), ours).await;
    assert!(hits_of_alice(store).await != before, "a document that she could read counted");
}

/// Returns the hits of some questions by a user named alice.
async fn hits_of_alice(store: &impl ChunkStore) -> Vec<Vec<Hit>> {
    let mut all = Vec::new();
    for (text, scope) in
        [("salt pepper", None), ("salt zebra sea", None), ("pepper soup", Some("mine"))]
    {
        let mut request = request(store, text);
        request.filter.readers = Some(strings(&["alice", "everybody"]));
        request.filter.scope = scope.map(str::to_owned);
        for distinct in [false, true] {
            request.distinct = distinct;
            all.push(find(store, &request).await);
        }
    }
    all
}

/// A question is stemmed in every language of the store. The languages of unreadable documents do
/// not change the weights of its words.
async fn languages_of_unreadable_documents_change_no_score(store: &impl ChunkStore) {
    add(store, Document::new("mine"), readers(&["alice"]), "Brot backt. Wasser kocht.").await;
    let before = german_hits_of_alice(store).await;
    assert!(before.iter().all(|hits| hits.len() == 1), "{before:?}");
    let german = "Die Häuser in der Stadt sind von dem Müller und seinen Kindern gebaut.";
    add(store, Document::new("theirs"), readers(&["bob"]), german).await;
    let spanish = "Los algoritmos que se usan en la ciudad son de los molineros.";
    add(store, Document::new("theirs-too"), readers(&["bob"]), spanish).await;
    let after = german_hits_of_alice(store).await;
    assert_eq!(after, before, "documents in other languages came, which cannot be read");
    // Words that only the other language stems count if the searcher may read them.
    let mixed = "Die Frau von dem Müller which und the in der Stadt.";
    add(store, Document::new("mine-too"), readers(&["alice"]), mixed).await;
    let after = german_hits_of_alice(store).await;
    assert!(after != before, "a document that can be read counts");
}

/// Returns the hits of German questions by a user named alice. They are German according to their
/// stop words, with English words that the German stemmer changes.
async fn german_hits_of_alice(store: &impl ChunkStore) -> Vec<Vec<Hit>> {
    let mut all = Vec::new();
    for text in ["wie backt man the brot", "der and die brot und das backt which"] {
        for matching in [Matching::Any, Matching::All] {
            let mut request = SearchRequest::new(text, None).matching(matching);
            request.filter.readers = Some(strings(&["alice"]));
            all.push(find(store, &request).await);
        }
    }
    all
}

/// The hit is the passage itself, also if a heading or the title matched.
async fn titles_headings_names_and_folders_are_found(store: &impl ChunkStore) {
    let dimension = store.model().dimension;
    for (number, (title, heading, path)) in [
        ("Tending the kiln", "Before the firing", "/srv/pottery/kilnCare_v2.md"),
        ("Keeping bees", "Winter feed", "/srv/apiary/hive-notes.md"),
        ("Mending nets", "Knots", "/srv/harbour/nets.md"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut document = Document::new(format!("am7://default/data.data/{number}"));
        document.title = Some(title.to_owned());
        document.metadata.insert("source".to_owned(), format!("file://{path}").into());
        let mut chunks = vec![
            NewChunk::of_text("Do this first.", vec![0.0; dimension]),
            NewChunk::of_text("Do that last.", vec![0.0; dimension]),
        ];
        chunks[1].headings = vec![title.to_owned(), heading.to_owned()];
        store.replace(document, chunks).await.expect("replace");
    }
    for (question, document, content) in [
        ("how to tend a kiln", 0, None),
        ("kilnCare_v2.md", 0, None),
        ("care v2", 0, None),
        ("winter feeding", 1, Some("Do that last.")),
        ("the hive notes", 1, None),
        ("harbour", 2, None),
        ("knot", 2, Some("Do that last.")),
    ] {
        let hits = find(store, &SearchRequest::new(question, None)).await;
        let first = hits.first().unwrap_or_else(|| panic!("{question}: nothing is found"));
        assert_eq!(
            first.chunk.document,
            format!("am7://default/data.data/{document}"),
            "{question}"
        );
        assert!(content.is_none_or(|content| first.chunk.content == content), "{question}");
        assert!(["Do this first.", "Do that last."].contains(&&*first.chunk.content));
    }
    let chunks = store.chunks("am7://default/data.data/1").await.expect("chunks");
    assert_eq!(chunks[1].headings, ["Keeping bees", "Winter feed"]);
    let kept = store.embedded("am7://default/data.data/1").await.expect("embedded");
    assert_eq!(kept[1].headings, chunks[1].headings);
}

async fn words_are_found_in_their_language(store: &impl ChunkStore) {
    for (name, text) in [
        ("es", "Los algoritmos que se usan en la ciudad son de los molineros."),
        ("de", "Die Häuser in der Stadt sind von dem Müller und seinen Kindern gebaut."),
        ("el", "Οι ποταμοί είναι μακριά."),
        ("hi", "दिन में दान"),
        ("th", "ผมชอบอ่านหนังสือภาษาไทยที่บ้าน"),
        ("ja", "パンを食べる"),
        ("en", "The running of mills."),
    ] {
        let chunk = NewChunk::of_text(text, vec![0.0; store.model().dimension]);
        store.replace(Document::new(name), vec![chunk]).await.expect("replace");
    }
    for (question, want) in [
        ("algoritmo", &["es"][..]),
        ("Haus Kind", &["de"]),
        ("ποταμός", &["el"]),
        ("दान", &["hi"]),
        ("दीन", &[]),
        ("ภาษาไทย", &["th"]),
        ("ハン", &[]),
        ("パン", &["ja"]),
        ("run a mill", &["en"]),
    ] {
        for matching in [Matching::Any, Matching::All] {
            let mut request = SearchRequest::new(question, None);
            request.matching = matching;
            let hits = find(store, &request).await;
            let got: Vec<_> = hits.iter().map(|hit| &*hit.chunk.document).collect();
            assert_eq!(got, want, "{question} {matching:?}");
        }
    }
}

/// seed: 003/VectorUtilHybridSearchTest.testFindEmptyQueryReturnsResults
async fn odd_queries_are_not_errors(store: &impl ChunkStore) {
    index(store, "doc-empty-q", "Some content.").await;
    let dimension = store.model().dimension;
    let odd = ["", " ", "\0", "the of and", "!!! ??? ...", "\u{200b}", "🦀", "a\u{308}"];
    for text in odd {
        let semantic = SearchRequest::new(text, Some(embed("content", dimension)));
        assert_eq!(find(store, &semantic).await.len(), 1, "{text:?} by its vector");
        assert_eq!(find(store, &SearchRequest::new(text, None)).await, [], "{text:?} by nothing");
        let zeros = SearchRequest::new(text, Some(vec![0.0; dimension]));
        assert_eq!(find(store, &zeros).await, [], "{text:?} by a vector without direction");
    }
    // A chunk with a vector of zeros is found by its words.
    let silent = NewChunk::of_text("Unheard.", vec![0.0; dimension]);
    store.replace(Document::new("silent"), vec![silent]).await.expect("replace");
    let hits = find(store, &request(store, "unheard")).await;
    let hit = hits.iter().find(|hit| hit.chunk.document == "silent").expect("it is found");
    assert_eq!((hit.semantic_rank, hit.similarity, hit.keyword_rank), (None, None, Some(1)));
}

async fn too_much_is_refused(store: &impl ChunkStore) {
    index(store, "doc", "Some content.").await;
    let long = "content ".repeat(1 << 17);
    assert_eq!(long.len(), 1 << 20);
    match store.search(&SearchRequest::new(long, None)).await {
        Err(error @ StoreError::QueryTooLong { .. }) => {
            assert_eq!(error.to_string(), "the query has 1048576 bytes, more than 65536");
        }
        other => panic!("a megabyte is too long a query, but {other:?}"),
    }
    let mut many: String = (0..8_000).map(|number| format!("w{number} ")).collect();
    many.push_str("content");
    assert_eq!(find(store, &SearchRequest::new(many, None)).await, [], "the first words count");
    let longest = "content ".repeat(SearchRequest::MAX_TEXT_BYTES / 8);
    assert_eq!(find(store, &SearchRequest::new(longest, None)).await.len(), 1);

    let mut request = request(store, "content");
    request.limit = SearchRequest::MAX_LIMIT + 1;
    let refused = store.search(&request).await;
    assert!(matches!(refused, Err(StoreError::LimitTooLarge { .. })), "{refused:?}");
    request.limit = 1;
    request.vector = Some(vec![1.0; store.model().dimension - 1]);
    let refused = store.search(&request).await;
    assert!(matches!(refused, Err(StoreError::Dimension { .. })), "{refused:?}");
    request.vector = None;
    request.fusion = Some(Fusion { k: f64::NAN, semantic_weight: 1.0 });
    let refused = store.search(&request).await;
    assert!(matches!(refused, Err(StoreError::Fusion)), "{refused:?}");
}

/// Every text is stored and searched literally, in every field.
async fn no_text_is_parsed_as_syntax(store: &impl ChunkStore) {
    index(store, "doc", "Robert has tables and columns.").await;
    let hostile = [
        "'; DROP TABLE rag_chunk; --",
        "\" OR 1=1 --",
        "NEAR(tables columns, 5)",
        "tables AND NOT columns",
        "content:tables^2 *",
        "\"tables",
        "(((((",
        "tables*",
        "-tables +columns",
        "a & b | !c <-> d:*",
        "%_\\%",
        "$1 ? :name @x",
        "{\"$ne\": null}",
        "\0tables",
        "\u{202e}selbat",
    ];
    for text in hostile {
        for matching in [Matching::Any, Matching::All] {
            let mut request = request(store, text);
            request.matching = matching;
            find(store, &request).await;
        }
        let filter = Filter {
            tags: vec![text.to_owned()],
            owners: vec![text.to_owned()],
            readers: Some(vec![text.to_owned()]),
            types: vec![text.to_owned()],
            vector_models: vec![text.to_owned()],
            metadata: [(text.to_owned(), json!(text))].into_iter().collect(),
            scope: None,
        };
        assert_eq!(store.count(&filter).await.expect("count"), 0, "{text:?}");
        assert_eq!(store.delete(&Filter::scope(text)).await.expect("delete"), 0, "{text:?}");
        // Stores must encode characters that the text type of a database cannot hold, such as NUL.
        let mut document = Document::new(text);
        document.kind = Some(text.to_owned());
        document.owner = Some(text.to_owned());
        document.readers.insert(text.to_owned());
        document.tags.insert(text.to_owned());
        document.vector_model = text.to_owned();
        document.metadata.insert(text.to_owned(), json!(text));
        let vector = embed("x", store.model().dimension);
        let chunk = NewChunk::of_text(text, vector);
        store.replace(document.clone(), vec![chunk]).await.expect("replace");
        assert_eq!(store.document(text).await.expect("document"), Some(document), "{text:?}");
        assert_eq!(contents(&store.chunks(text).await.expect("chunks")), [text]);
        assert_eq!(store.count(&filter).await.expect("count"), 1, "{text:?}");
    }
    assert_eq!(store.count(&Filter::default()).await.expect("count"), hostile.len() as u64 + 1);
    let mut request = request(store, "tables");
    request.matching = Matching::All;
    assert!(find(store, &request).await.iter().any(|hit| hit.object_id.is_some()));
}

async fn replaced_chunks_are_not_found(store: &impl ChunkStore) {
    let names = ["barley", "millet", "oats", "rye", "spelt"];
    for (round, name) in names.into_iter().enumerate() {
        index(store, "doc", &format!("Some {name} of it.")).await;
        index(store, "other", "Another thing else.").await;
        let hits = find(store, &request(store, name)).await;
        assert_eq!(hits[0].chunk.content, format!("Some {name} of it."));
        assert_eq!(hits.len(), 2);
        if round > 0 {
            let words = SearchRequest::new(names[round - 1], None);
            assert_eq!(find(store, &words).await, []);
        }
    }
}

/// Scores depend on the stored chunks, not on earlier changes.
async fn many_replacements_leave_no_trace(store: &impl ChunkStore) {
    replace_topics(store, "").await;
    let mut question = request(store, "topic3 number13 more");
    question.limit = 50;
    let before = find(store, &question).await;
    assert_eq!(before.len(), 50);
    for round in 0..8 {
        replace_topics(store, &format!(" Round {round}.")).await;
    }
    replace_topics(store, "").await;
    let after = find(store, &question).await;
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before, after);
    }
}

/// Stores 400 documents about five topics.
async fn replace_topics(store: &impl ChunkStore, suffix: &str) {
    let mut documents = Vec::new();
    for number in 0..400 {
        let topic = number % 5;
        let text = format!("Chunk number{number} about topic{topic}. And more of it.{suffix}");
        let vector = embed(&text, store.model().dimension);
        let chunk = NewChunk::of_text(text, vector);
        documents.push((Document::new(format!("{number:04}")), vec![chunk]));
    }
    store.replace_all(documents).await.expect("replace_all");
}

async fn readers_see_old_or_new<S: ChunkStore>(store: Arc<S>) {
    let document = record("doc");
    let dimension = store.model().dimension;
    store.replace(document.clone(), version(0, dimension)).await.expect("replace");
    let writing = {
        let store = Arc::clone(&store);
        let document = document.clone();
        let versions: Vec<_> = (1..60).map(|number| version(number, dimension)).collect();
        tokio::spawn(async move {
            for chunks in versions {
                store.replace(document.clone(), chunks).await.expect("replace");
            }
        })
    };
    let mut reads = 0;
    while !writing.is_finished() || reads < 20 {
        let chunks = store.chunks(&document.uri).await.expect("chunks");
        assert_one_version(&contents(&chunks), "chunks");
        let hits = find(&*store, &request(&*store, "common part")).await;
        let found: Vec<_> = hits.iter().map(|hit| &*hit.chunk.content).collect();
        assert_one_version(&found, "search");
        reads += 1;
    }
    writing.await.expect("the writer");
}

/// Returns the chunks of a version of a document. Versions have different numbers of chunks.
fn version(number: usize, dimension: usize) -> Vec<NewChunk> {
    let count = 1 + number % 7;
    let mut chunks = Vec::new();
    for at in 0..count {
        let text = format!("Version {number} of {count}, common part {at}.");
        let vector = embed(&text, dimension);
        chunks.push(NewChunk::of_text(text, vector));
    }
    chunks
}

/// Asserts that these texts are all chunks of one [`version`].
#[track_caller]
fn assert_one_version(texts: &[&str], source: &str) {
    let first = texts.first().unwrap_or_else(|| panic!("{source}: all chunks are missing"));
    let (version, _) = first.split_once(',').expect("a version");
    assert!(
        texts.iter().all(|text| text.starts_with(&format!("{version},"))),
        "{source}: a mixture: {texts:?}"
    );
    let (_, count) = version.rsplit_once(' ').expect("a count");
    assert_eq!(texts.len().to_string(), count, "{source}: {texts:?}");
}

async fn writers_do_not_lose_each_other<S: ChunkStore>(store: Arc<S>) {
    let writers = (0..4).map(|writer| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for number in 0..10 {
                index(&*store, &format!("{writer}-{number}"), "One. Two.").await;
                index(&*store, "shared", &format!("Writer{writer}. Number{number}.")).await;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("a writer");
    }
    assert_eq!(store.count(&Filter::default()).await.expect("count"), 82);
    assert_eq!(store.documents(&Filter::default(), None, 100).await.expect("documents").len(), 41);
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use crate::{EmbeddingModel, store::MemoryStore, types::ChunkId};

    /// Leaves one of the nearest chunks out, as an approximate index may.
    struct Misses {
        store: MemoryStore,
        is_approximate: bool,
    }

    #[async_trait]
    impl ChunkStore for Misses {
        fn model(&self) -> &EmbeddingModel {
            self.store.model()
        }
        async fn replace_all(
            &self,
            documents: Vec<(Document, Vec<NewChunk>)>,
        ) -> Result<u64, StoreError> {
            self.store.replace_all(documents).await
        }
        async fn delete(&self, filter: &Filter) -> Result<u64, StoreError> {
            self.store.delete(filter).await
        }
        async fn document(&self, uri: &str) -> Result<Option<Document>, StoreError> {
            self.store.document(uri).await
        }
        async fn documents(
            &self,
            filter: &Filter,
            after: Option<&str>,
            limit: usize,
        ) -> Result<Vec<Document>, StoreError> {
            self.store.documents(filter, after, limit).await
        }
        async fn first_chunks(
            &self,
            uri: &str,
            limit: usize,
        ) -> Result<Vec<StoredChunk>, StoreError> {
            self.store.first_chunks(uri, limit).await
        }
        async fn embedded(&self, uri: &str) -> Result<Vec<NewChunk>, StoreError> {
            self.store.embedded(uri).await
        }
        async fn chunk(&self, id: ChunkId) -> Result<Option<(Document, StoredChunk)>, StoreError> {
            self.store.chunk(id).await
        }
        async fn count(&self, filter: &Filter) -> Result<u64, StoreError> {
            self.store.count(filter).await
        }
        fn is_approximate(&self) -> bool {
            self.is_approximate
        }
        async fn search(&self, request: &SearchRequest) -> Result<Vec<Hit>, StoreError> {
            let mut more = request.clone();
            more.limit = (request.limit + 1).min(SearchRequest::MAX_LIMIT);
            let mut hits = self.store.search(&more).await?;
            if request.limit == 100 && hits.len() > 100 {
                hits.remove(50);
            }
            hits.truncate(request.limit);
            Ok(hits)
        }
    }

    fn misses(is_approximate: bool) -> Misses {
        Misses { store: MemoryStore::new(EmbeddingModel::new("test", 64)), is_approximate }
    }

    #[tokio::test(flavor = "multi_thread")]
    #[should_panic(expected = "instead of")]
    async fn an_exact_store_misses_nothing() {
        narrow_scopes_give_the_nearest_first(&misses(false)).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_approximate_store_may_miss_few() {
        narrow_scopes_give_the_nearest_first(&misses(true)).await;
    }
}
