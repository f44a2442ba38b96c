//! A store in a PostgreSQL: the same behaviour as that of other stores, and failures of the server.

#[path = "../../index/tests/common/child.rs"]
mod child;
#[path = "../../index/tests/common/mod.rs"]
mod common;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use child::{Child, end_with_parent};
use common::{chunk, model, version, whole};
use marquetry_rag::{
    ChunkStore, DatabaseError, Document, EmbeddingModel, Filter, PostgresOptions, PostgresRecords,
    PostgresStore, Put, Record, RecordFilter, RecordStore, SearchRequest, StoreError,
    conformance::{self, embed},
    record_conformance,
};
use test_postgres::{Server, database};
use tokio_postgres::{Client, NoTls};

/// Names the database that the child, which is this same test binary, is to write to until it is
/// killed.
const CHILD: &str = "MARQUETRY_TEST_INDEX_INTO_POSTGRES";
const CHILD_TEST: &str = "child_that_indexes_until_it_is_killed";

async fn open(url: &str) -> PostgresStore {
    PostgresStore::open(url, model()).await.unwrap()
}

async fn open_with(url: &str, change: impl FnOnce(&mut PostgresOptions)) -> PostgresStore {
    let mut options = PostgresOptions::default();
    change(&mut options);
    PostgresStore::open_with(url, model(), options).await.unwrap()
}

/// Opens a connection besides those of the store.
async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn it_conforms() {
    let Some(url) = database().await else { return };
    drop(open(&url).await);
    for dimension in [64, 384] {
        conformance::check(async || {
            let url = database().await.unwrap();
            PostgresStore::open(&url, EmbeddingModel::new("test", dimension)).await.unwrap()
        })
        .await;
    }
}

/// With more chunks than are compared one by one.
#[tokio::test(flavor = "multi_thread")]
async fn it_conforms_with_an_index() {
    let Some(url) = database().await else { return };
    let store = open_with(&url, |options| options.scan_up_to = 1).await;
    store.replace(Document::new("doc"), version(4)).await.unwrap();
    indexed(&connect(&url).await, 1).await;

    conformance::check(async || {
        // Small as the tables are, the planner would rather sort them.
        let url = database().await.unwrap();
        let url = format!("{url}?options=-cenable_sort%3Doff%20-cenable_seqscan%3Doff");
        open_with(&url, |options| options.scan_up_to = 20).await
    })
    .await;
}

/// Waits until so many indexes of vectors are complete, and none is not.
async fn indexed(client: &Client, want: i64) {
    let indexes = "SELECT count(*) FILTER (WHERE indisvalid), count(*) FILTER (WHERE NOT indisvalid) \
        FROM pg_index WHERE pg_get_indexdef(indexrelid) LIKE '%hnsw%'";
    let end = Instant::now() + Duration::from_mins(1);
    loop {
        let row = client.query_one(indexes, &[]).await.unwrap();
        let (valid, other): (i64, i64) = (row.get(0), row.get(1));
        if (valid, other) == (want, 0) {
            return;
        }
        assert!(Instant::now() < end, "{valid} indexes are complete, {other} are not");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until a statement counts so many.
async fn until(client: &Client, count: &str, want: i64) {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let found: i64 = client.query_one(count, &[]).await.unwrap().get(0);
        if found == want {
            return;
        }
        assert!(Instant::now() < end, "{found}, not {want}: {count}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The index is created during writes and searches, by one process at a time, also after another
/// process began it and did not finish.
#[tokio::test(flavor = "multi_thread")]
async fn writers_and_readers_do_not_wait_for_the_index() {
    let Some(url) = database().await else { return };
    let plain = open(&url).await;
    plain.replace(Document::new("doc"), version(1)).await.unwrap();
    let indexes = "SELECT count(*) FROM pg_index WHERE pg_get_indexdef(indexrelid) LIKE '%hnsw%'";
    let client = connect(&url).await;
    assert_eq!(client.query_one(indexes, &[]).await.unwrap().get::<_, i64>(0), 0);

    // Creating an index waits for all transactions that began before.
    let reader = connect(&url).await;
    let read = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM rag_vector";
    reader.batch_execute(read).await.unwrap();
    let interrupted = connect(&url).await;
    let cancel = interrupted.cancel_token();
    let make = "CREATE INDEX CONCURRENTLY rag_vector_embedding ON rag_vector USING hnsw (embedding halfvec_cosine_ops)";
    let making = tokio::spawn(async move { interrupted.batch_execute(make).await });
    let invalid = format!("{indexes} AND NOT indisvalid");
    until(&client, &invalid, 1).await;
    cancel.cancel_query(tokio_postgres::NoTls).await.unwrap();
    making.await.unwrap().unwrap_err();
    until(&client, &invalid, 1).await;

    let stores = [
        open_with(&url, |options| options.scan_up_to = 1).await,
        open_with(&url, |options| {
            (options.scan_up_to, options.pool.max_connections) = (1, 1);
        })
        .await,
    ];
    let start = Instant::now();
    for round in 0..10 {
        for store in &stores {
            store.replace(Document::new("doc"), version(round)).await.unwrap();
            let request = SearchRequest::new("", Some(embed("common", 64)));
            assert_eq!(store.search(&request).await.unwrap().len(), 1 + round % 5);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Far less than this, had they waited: the index cannot be made before the reader ends.
    assert!(start.elapsed() < Duration::from_mins(1), "{:?}", start.elapsed());
    let at_it = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
        AND state = 'active' AND (query LIKE 'CREATE INDEX%' OR query LIKE 'DROP INDEX%')";
    until(&client, at_it, 1).await;
    reader.batch_execute("COMMIT").await.unwrap();
    indexed(&client, 1).await;
    let request = SearchRequest::new("", Some(embed("common", 64)));
    assert_eq!(stores[0].search(&request).await.unwrap().len(), 5);
}

#[test]
fn postgres_answers_like_the_store_in_memory() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Some(url) = runtime.block_on(database()) else { return };
    let store = runtime.block_on(open(&url));
    common::answers_as_memory_does(&runtime, &store, 96);
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_see_the_writes_of_other_stores() {
    let Some(url) = database().await else { return };
    // At once, so that both find no tables.
    let (one, other) = tokio::join!(open(&url), open(&url));
    for round in 0..10 {
        let (writer, reader) = if round % 2 == 0 { (&one, &other) } else { (&other, &one) };
        writer.replace(Document::new("doc"), version(round)).await.unwrap();
        let request = SearchRequest::new(format!("version {round}"), Some(embed("common", 64)));
        let hits = reader.search(&request).await.unwrap();
        assert_eq!(hits.len(), 1 + round % 5);
        assert!(hits[0].chunk.content.starts_with(&format!("Version {round} ")), "{hits:?}");
        assert_eq!(reader.count(&Filter::default()).await.unwrap(), hits.len() as u64);
    }
    one.delete(&Filter::default()).await.unwrap();
    let request = SearchRequest::new("version", Some(embed("common", 64)));
    assert_eq!(other.search(&request).await.unwrap(), []);
}

/// From files to hits, with the built-in model: the same documents in the same order as from a
/// store in memory.
#[cfg(feature = "builtin-model")]
#[tokio::test(flavor = "multi_thread")]
async fn the_pipeline_finds_what_it_was_given() {
    use marquetry_rag::{
        ChunkOptions, Hint, MemoryStore, Pipeline, StaticModel, Strategy, extract,
    };

    let Some(url) = database().await else { return };
    let store = PostgresStore::open(&url, EmbeddingModel::default()).await.unwrap();
    let memory = MemoryStore::new(EmbeddingModel::default());
    let model = Arc::new(StaticModel::built_in());
    let stores: [Arc<dyn ChunkStore>; 2] = [Arc::new(store), Arc::new(memory)];
    let pipelines = stores.map(|store| Pipeline::new(store, Arc::clone(&model) as _).unwrap());
    let options = ChunkOptions::new(Strategy::Sentence, 1).unwrap();
    let page = "<h1>Bridges</h1><p>A bridge of stone carries the road over the river.</p><p>It has five arches.</p>";
    let files = [
        (
            "bread.md",
            "# Bread\n\nBread is made of flour and water. It rises overnight in a warm kitchen.",
        ),
        ("bridge.html", page),
        ("cats.txt", "Cats sleep for most of the day. At night they hunt mice in the kitchen."),
        (
            "rust.md",
            "# Rust\n\nRust has no garbage collector. Memory is freed when its owner goes.",
        ),
        ("data.json", "{\"city\": \"Prague\", \"river\": \"Vltava\"}"),
    ];
    for pipeline in &pipelines {
        for (name, text) in files {
            let mut document = Document::new(name);
            document.tags.insert(if name == "cats.txt" { "animals" } else { "things" }.to_owned());
            let extracted = extract(text.as_bytes(), &Hint::file(name)).unwrap();
            assert!(pipeline.index(document, &extracted, &options).await.unwrap() > 0);
        }
    }
    for (question, tag, first) in [
        ("How is bread made?", None, "bread.md"),
        ("What carries the road over the river?", None, "bridge.html"),
        ("Who hunts in the kitchen?", Some("animals"), "cats.txt"),
        ("Who hunts in the kitchen?", Some("things"), "bread.md"),
        ("Which language frees memory without a collector?", None, "rust.md"),
    ] {
        let mut answers = Vec::new();
        for pipeline in &pipelines {
            let mut request = SearchRequest::new(question, None);
            request.filter.tags.extend(tag.map(str::to_owned));
            let hits = pipeline.search(request).await.unwrap();
            assert_eq!(hits[0].chunk.document, first, "{question}");
            let known = hits.into_iter().map(|hit| {
                (hit.chunk.document, hit.chunk.index, hit.chunk.content, hit.score, hit.relevance)
            });
            answers.push(known.collect::<Vec<_>>());
        }
        assert_eq!(answers[0], answers[1], "{question}");
    }
}

/// No table holds rows of replaced or deleted documents.
#[tokio::test(flavor = "multi_thread")]
async fn removed_documents_take_no_room() {
    let Some(url) = database().await else { return };
    let store = open(&url).await;
    for round in 0..3 {
        for number in 0..5 {
            let content = format!("Words of round{round} in document{number}, word by word.");
            store.replace(Document::new(format!("{number}")), vec![chunk(content)]).await.unwrap();
        }
    }
    for number in 0..5 {
        store.delete(&Filter::scope(format!("{number}"))).await.unwrap();
    }
    let client = connect(&url).await;
    for table in ["rag_document", "rag_chunk", "rag_vector", "rag_posting"] {
        let count = format!("SELECT count(*) FROM {table}");
        let count: i64 = client.query_one(&count, &[]).await.unwrap().get(0);
        assert_eq!(count, 0, "{table}");
    }
    let terms = "SELECT count(*) FROM rag_term WHERE chunks <> 0";
    assert_eq!(client.query_one(terms, &[]).await.unwrap().get::<_, i64>(0), 0);
    let state = "SELECT chunks + length FROM rag_state";
    assert_eq!(client.query_one(state, &[]).await.unwrap().get::<_, i64>(0), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn child_that_indexes_until_it_is_killed() {
    let Ok(url) = std::env::var(CHILD) else { return };
    end_with_parent();
    let store = open(&url).await;
    for number in 0.. {
        let batch = (0..4).map(|at| (Document::new(format!("doc-{at}")), version(number + at)));
        store.replace_all(batch.collect()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_leaves_the_old_or_the_new() {
    let Some(url) = database().await else { return };
    let reader = open(&url).await;
    for round in 0..8 {
        for at in 0..4 {
            reader.replace(Document::new(format!("doc-{at}")), version(at)).await.unwrap();
        }
        let children = [(); 2].map(|()| Child::start(CHILD_TEST, CHILD, &url));
        let end = Instant::now() + Duration::from_mins(1);
        while check(&reader).await < 8 {
            assert!(Instant::now() < end, "the children write nothing");
        }
        tokio::time::sleep(Duration::from_millis(round * 17 % 90)).await;
        children.into_iter().for_each(Child::kill);
        check(&reader).await;
    }
}

/// Checks that every document is whole, by its chunks and by a search, and returns the highest
/// version.
async fn check(store: &PostgresStore) -> usize {
    let mut latest = 0;
    for at in 0..4 {
        let uri = format!("doc-{at}");
        let chunks = store.chunks(&uri).await.unwrap();
        whole(&chunks.iter().map(|chunk| &*chunk.content).collect::<Vec<_>>());
        let mut request = SearchRequest::new("common part", Some(embed("common part", 64)));
        request.filter = Filter::scope(uri);
        let hits = store.search(&request).await.unwrap();
        whole(&hits.iter().map(|hit| &*hit.chunk.content).collect::<Vec<_>>());
        latest = latest.max(chunks[0].content.split(' ').nth(1).unwrap().parse().unwrap());
    }
    latest
}

#[tokio::test(flavor = "multi_thread")]
async fn another_model_is_refused_without_a_reset() {
    let Some(url) = database().await else { return };
    let store = open(&url).await;
    let other = EmbeddingModel::new("other", 32);
    drop(PostgresStore::open(&url, other.clone()).await.expect("an empty one takes any model"));
    drop(PostgresStore::open(&url, model()).await.expect("and changes it again"));
    store.replace(Document::new("doc"), version(1)).await.unwrap();

    let error = PostgresStore::open(&url, other.clone()).await.err().unwrap();
    assert_eq!(
        error.to_string(),
        "the database has vectors of \"test\" (64 numbers), the model is \"other\" (32 numbers): \
         reset the database for this model and index the documents again"
    );
    let mut options = PostgresOptions::default();
    options.reset = true;
    drop(PostgresStore::open_with(&url, model(), options).await.unwrap());
    assert_eq!(store.count(&Filter::default()).await.unwrap(), 2, "the same model is no reason");
    let reset = PostgresStore::open_with(&url, other, options).await.unwrap();
    assert_eq!(reset.count(&Filter::default()).await.unwrap(), 0);
    let late = store.search(&SearchRequest::new("version", None)).await;
    assert!(matches!(late, Err(StoreError::OtherModel { .. })), "{late:?}");
    let late = store.replace(Document::new("doc"), version(1)).await;
    assert!(matches!(late, Err(StoreError::OtherModel { .. })), "{late:?}");
    let vector = vec![1.0; 32];
    let chunk = marquetry_rag::NewChunk::of_text("New.", vector.clone());
    reset.replace(Document::new("doc"), vec![chunk]).await.unwrap();
    assert_eq!(reset.search(&SearchRequest::new("", Some(vector))).await.unwrap().len(), 1);

    for dimension in [0, 16_001] {
        let error = PostgresStore::open(&url, EmbeddingModel::new("x", dimension)).await.err();
        assert_eq!(
            error.unwrap().to_string(),
            format!(
                "the database cannot be used: vectors have {dimension} numbers, and pgvector's have 1 to 16000"
            )
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_newer_programs_are_refused() {
    let Some(url) = database().await else { return };
    drop(open(&url).await);
    connect(&url).await.batch_execute("UPDATE rag_state SET version = 6").await.unwrap();
    let error = PostgresStore::open(&url, model()).await.err().unwrap();
    assert!(
        matches!(error, StoreError::Database(DatabaseError::NewerSchema { found: 6, known: 5 })),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn reset_deletes_the_index_of_an_older_version() {
    let Some(url) = database().await else { return };
    let store = open(&url).await;
    store.replace(Document::new("doc"), version(1)).await.unwrap();
    let old = "UPDATE rag_state SET version = 4; UPDATE rag_chunk SET packed = 'x'";
    connect(&url).await.batch_execute(old).await.unwrap();
    let error = PostgresStore::open(&url, model()).await.err().unwrap();
    assert!(matches!(error, StoreError::OlderSchema { found: 4, needed: 5 }), "{error}");
    let reset = async || open_with(&url, |options| options.reset = true).await;
    let (one, other) = tokio::join!(reset(), reset());
    assert_eq!(one.count(&Filter::default()).await.unwrap(), 0);
    other.replace(Document::new("doc"), version(1)).await.unwrap();
    assert_eq!(open(&url).await.count(&Filter::default()).await.unwrap(), 2);
}

/// Beside the chunks of the same database, and by way of the same connections.
#[tokio::test(flavor = "multi_thread")]
async fn records_conform() {
    let Some(url) = database().await else { return };
    let store = open(&url).await;
    let records = PostgresRecords::with_pool(store.pool().clone(), 64 << 20).await.unwrap();
    let record = Record::new("data.note", "N").with_object_id("n");
    records.put(Put::new(record).with_content("\0\u{fffd}")).await.unwrap();
    drop((store, records));
    let records = PostgresRecords::open(&url).await.unwrap();
    let content = records.content("am7://default/data.note/n").await.unwrap();
    assert_eq!(content.as_deref(), Some("\0\u{fffd}".as_bytes()));

    let newer = "UPDATE record_state SET version = 2";
    connect(&url).await.batch_execute(newer).await.unwrap();
    let error = PostgresRecords::open(&url).await.unwrap_err();
    assert!(error.to_string().starts_with("the database has schema version 2, "), "{error}");

    record_conformance::check(async || {
        PostgresRecords::open(&database().await.unwrap()).await.unwrap()
    })
    .await;
}

/// Two stores in one database, with the extension in another schema.
#[tokio::test(flavor = "multi_thread")]
async fn tables_lie_in_the_schema_of_the_search_path() {
    let Some(url) = database().await else { return };
    let client = connect(&url).await;
    client
        .batch_execute(
            "CREATE SCHEMA extensions; CREATE EXTENSION vector SCHEMA extensions; \
             CREATE SCHEMA one; CREATE SCHEMA \"Two; DROP\"",
        )
        .await
        .unwrap();
    let in_one = format!("{url}?options=-csearch_path%3Done");
    // The lookup in `two` finds the table of `one`, which must not count.
    let in_two = format!("{url}?options=-csearch_path%3D%22Two;%5C%20DROP%22,one");
    let index = |options: &mut PostgresOptions| options.scan_up_to = 1;
    let one = open_with(&in_one, index).await;
    let two = open_with(&in_two, index).await;
    one.replace(Document::new("doc"), version(1)).await.unwrap();
    assert_eq!(two.count(&Filter::default()).await.unwrap(), 0);
    two.replace(Document::new("doc"), version(3)).await.unwrap();
    let request = SearchRequest::new("version", Some(embed("common", 64)));
    assert_eq!(one.search(&request).await.unwrap().len(), 2);
    assert_eq!(two.search(&request).await.unwrap().len(), 4);
    indexed(&client, 2).await;
    let schemas = "SELECT string_agg(schemaname, ',' ORDER BY schemaname) FROM pg_indexes WHERE indexdef LIKE '%hnsw%'";
    assert_eq!(client.query_one(schemas, &[]).await.unwrap().get::<_, &str>(0), "Two; DROP,one");
    assert_eq!(open(&in_two).await.count(&Filter::default()).await.unwrap(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_server_is_an_error_until_it_returns() {
    let Some(mut server) = Server::start() else { return };
    let url = server.database().await;
    let store = Arc::new(open(&url).await);
    store.replace(Document::new("doc"), version(1)).await.unwrap();

    // A call that is running when the server stops: it waits for a lock.
    let client = connect(&url).await;
    client.batch_execute("BEGIN; SELECT * FROM rag_state FOR UPDATE").await.unwrap();
    let at_work = {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.replace(Document::new("doc"), version(2)).await })
    };
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!at_work.is_finished());
    server.stop();
    let error = at_work.await.unwrap().unwrap_err();
    assert!(matches!(error, StoreError::Database(DatabaseError::Disconnected(_))), "{error:?}");
    let error = store.search(&SearchRequest::new("version", None)).await.unwrap_err();
    assert!(matches!(error, StoreError::Database(DatabaseError::Disconnected(_))), "{error:?}");
    let message = error.to_string();
    assert!(message.starts_with("no connection to the database: "), "{message}");
    assert_eq!(message.matches(password(&url)).count(), 0, "{message}");

    server.restart();
    let hits = store.search(&SearchRequest::new("version", None)).await.unwrap();
    assert_eq!(hits.len(), 2, "what was not committed is not there");
    store.replace(Document::new("doc"), version(2)).await.unwrap();
    assert_eq!(store.count(&Filter::default()).await.unwrap(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_has_an_end() {
    let Some(url) = database().await else { return };
    // Without the limits below: a busy machine may take longer to create the tables.
    open(&url).await.replace(Document::new("doc"), version(1)).await.unwrap();
    let short = Duration::from_secs(1);
    let timeout = open_with(&url, |options| options.pool.statement_timeout = short).await;
    let busy = open_with(&url, |options| options.pool.lock_timeout = short).await;
    let narrow = open_with(&url, |options| {
        (options.pool.max_connections, options.pool.connect_timeout) = (1, short);
    })
    .await;

    let client = connect(&url).await;
    client.batch_execute("BEGIN; SELECT * FROM rag_state FOR UPDATE").await.unwrap();
    let error = timeout.replace(Document::new("doc"), version(2)).await.unwrap_err();
    assert!(matches!(error, StoreError::Database(DatabaseError::Timeout)), "{error:?}");
    let error = busy.replace(Document::new("doc"), version(2)).await.unwrap_err();
    assert!(matches!(error, StoreError::Database(DatabaseError::Busy)), "{error:?}");
    // Readers do not wait for writers.
    assert_eq!(busy.search(&SearchRequest::new("version", None)).await.unwrap().len(), 2);

    let narrow = Arc::new(narrow);
    let at_work = {
        let store = Arc::clone(&narrow);
        tokio::spawn(async move { store.replace(Document::new("doc"), version(3)).await })
    };
    // Until it holds the only connection.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let error = narrow.count(&Filter::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "all 1 connections to the database are in use (max_connections)");
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(at_work.await.unwrap().unwrap(), 4);
    assert_eq!(narrow.count(&Filter::default()).await.unwrap(), 4);
}

/// A cancelled call leaves no half-finished change, and its connection serves the next call.
/// Whether the change was made is unknown: the server may just have been told to commit.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_dropped_is_done_as_a_whole_or_not_at_all() {
    let Some(url) = database().await else { return };
    let store = open_with(&url, |options| options.pool.max_connections = 1).await;
    let mut undone = 0;
    for millis in (0..60).step_by(3) {
        store.replace(Document::new("doc"), version(1)).await.unwrap();
        let write = store.replace(Document::new("doc"), version(4));
        let written = tokio::time::timeout(Duration::from_millis(millis), write).await;
        let request = SearchRequest::new("common", Some(embed("common", 64)));
        let _ =
            tokio::time::timeout(Duration::from_millis(millis / 8), store.search(&request)).await;
        let hits = store.search(&request).await.unwrap();
        let contents: Vec<_> = hits.iter().map(|hit| &*hit.chunk.content).collect();
        whole(&contents);
        assert!([2, 5].contains(&hits.len()), "after {millis} ms: {contents:?}");
        assert!(written.is_err() || hits.len() == 5, "after {millis} ms: {contents:?}");
        undone += usize::from(hits.len() == 2);
    }
    assert!(undone > 0, "each was done in no time");
}

/// While it waits for a lock, which it would do for half a minute.
#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_statement_is_cancelled() {
    let Some(url) = database().await else { return };
    let store = open_with(&url, |options| options.pool.max_connections = 2).await;
    let records = PostgresRecords::with_pool(store.pool().clone(), 64 << 20).await.unwrap();
    store.replace(Document::new("doc"), version(1)).await.unwrap();
    let client = connect(&url).await;
    let lock = "BEGIN; SELECT * FROM rag_state FOR UPDATE; SELECT * FROM record_state FOR UPDATE";
    client.batch_execute(lock).await.unwrap();
    let record = Record::new("data.note", "N").with_object_id("n");
    let write = store.replace(Document::new("doc"), version(4));
    let put = records.put(Put::any(record));
    let both = async { tokio::join!(write, put) };
    tokio::time::timeout(Duration::from_millis(300), both).await.unwrap_err();

    // Together with the cancelled calls, these calls would use all connections.
    let dropped = Instant::now();
    let all = Filter::default();
    let one = Filter::scope("doc");
    let counts = tokio::try_join!(store.count(&all), store.count(&one));
    assert_eq!(counts.unwrap(), (2, 2));
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while client.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(dropped.elapsed() < Duration::from_secs(8), "they were at work for long");
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(store.replace(Document::new("doc"), version(4)).await.unwrap(), 5);
    assert_eq!(records.count(&RecordFilter::new("default")).await.unwrap(), 0);
}

/// A cancelled statement may end at any time; it does not affect later ones.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancellation_ends_no_other_statement() {
    let Some(url) = database().await else { return };
    let store = open_with(&url, |options| options.pool.max_connections = 1).await;
    store.replace(Document::new("doc"), version(1)).await.unwrap();
    let client = connect(&url).await;
    // Around the moment at which the cancellation is sent.
    for micros in (66_000..76_000).step_by(200) {
        client.batch_execute("BEGIN; SELECT * FROM rag_state FOR UPDATE").await.unwrap();
        let write = store.replace(Document::new("doc"), version(4));
        tokio::time::timeout(Duration::from_millis(20), write).await.unwrap_err();
        let next = async {
            for _ in 0..100 {
                store.count(&Filter::scope("doc")).await.unwrap();
            }
            store.replace(Document::new("doc"), version(1)).await.unwrap();
        };
        let unlock = async {
            tokio::time::sleep(Duration::from_micros(micros)).await;
            client.batch_execute("ROLLBACK").await.unwrap();
        };
        tokio::join!(next, unlock);
    }
}

fn password(url: &str) -> &str {
    let (_, rest) = url.split_once("://").unwrap();
    rest.split_once('@').unwrap().0.split_once(':').unwrap().1
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_clear_and_show_no_password() {
    let refused = async |url: &str| {
        let error = PostgresStore::open(url, model()).await.err().unwrap();
        let message = error.to_string();
        assert!(
            !message.contains("secret") && !format!("{error:?}").contains("secret"),
            "{message}"
        );
        message
    };
    let unreadable = "the database cannot be used: its URL does not read: \
        it is postgres://USER:PASSWORD@HOST:PORT/DATABASE?OPTIONS, \
        with what is special in a URL percent-encoded, and with no options but libpq's usual ones";
    for url in [
        "postgres://user:secret@127.0.0.1:port/x",
        "postgres://user:secret@127.0.0.1/x?secret=x",
        "mysql://user:secret@127.0.0.1/x",
    ] {
        assert_eq!(refused(url).await, unreadable, "{url}");
    }
    for here in ["127.0.0.2:1", "localhost:1", "[::1]:1", "%2Fnowhere:1"] {
        let message = refused(&format!("postgres://user:secret@{here}/x")).await;
        assert!(message.starts_with("no connection to the database: "), "{here}: {message}");
    }
    let message = refused("postgres://user:secret@0.0.0.0:1/x?sslmode=disable").await;
    assert!(message.starts_with("no connection to the database: "), "{message}");
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let message = refused(&format!("postgres://user:secret@127.0.0.1:{port}/x")).await;
    assert!(message.starts_with("no connection to the database: "), "{message}");
    assert!(message.to_lowercase().contains("connection refused"), "{message}");

    let Some(url) = database().await else { return };
    let wrong = url.replace(password(&url), "secret");
    let message = refused(&wrong).await;
    assert_eq!(
        message,
        "no connection to the database: password authentication failed for user \"postgres\" (SQLSTATE 28P01)"
    );
    let message = refused(&format!("{url}_other")).await;
    assert!(message.contains("does not exist (SQLSTATE 3D000)"), "{message}");
}

/// A TLS proxy in front of a server without TLS, with PostgreSQL's handshake. Refuses connections
/// without that handshake.
async fn before_it_tls(url: &str) -> u16 {
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
    let certificate = CertificateDer::from_pem_file(CERTIFICATE).unwrap();
    let key = concat!(env!("CARGO_MANIFEST_DIR"), "/../index/tests/common/server-key.pem");
    let key = PrivateKeyDer::from_pem_file(key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (_, server) = url.split_once('@').unwrap();
    let server = server.split_once('/').unwrap().0.to_owned();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            let server = server.clone();
            tokio::spawn(async move {
                let mut request = [0; 8];
                socket.read_exact(&mut request).await?;
                if request != SSL_REQUEST {
                    return Ok(());
                }
                socket.write_all(b"S").await?;
                let mut inside = acceptor.accept(socket).await?;
                let mut server = tokio::net::TcpStream::connect(server).await?;
                tokio::io::copy_bidirectional(&mut inside, &mut server).await.map(drop)
            });
        }
    });
    port
}

const CERTIFICATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../index/tests/common/server.pem");

#[tokio::test(flavor = "multi_thread")]
async fn tls_requires_a_trusted_certificate() {
    let Some(url) = database().await else { return };
    let port = before_it_tls(&url).await;
    let (_, name) = url.rsplit_once('/').unwrap();
    let by_tls = |host: &str, options: &str| {
        format!("postgres://postgres:{}@{host}:{port}/{name}?{options}", password(&url))
    };
    for mode in ["require", "verify-full"] {
        let options = format!("sslmode={mode}&sslrootcert={CERTIFICATE}");
        let store = open_with(&by_tls("localhost", &options), |options| {
            (options.pool.max_connections, options.scan_up_to) = (1, 1);
        })
        .await;
        store.replace(Document::new("doc"), version(4)).await.unwrap();
        indexed(&connect(&url).await, 1).await;

        // A cancellation is sent over TLS, too.
        let client = connect(&url).await;
        client.batch_execute("BEGIN; SELECT * FROM rag_state FOR UPDATE").await.unwrap();
        let write = store.replace(Document::new("doc"), version(1));
        tokio::time::timeout(Duration::from_millis(200), write).await.unwrap_err();
        let dropped = Instant::now();
        assert_eq!(store.count(&Filter::default()).await.unwrap(), 5);
        assert!(dropped.elapsed() < Duration::from_secs(8), "{:?}", dropped.elapsed());
    }
    let refused =
        async |url: String| PostgresStore::open(&url, model()).await.err().unwrap().to_string();
    let roots = format!("sslmode=require&sslrootcert={CERTIFICATE}");
    for (url, want) in [
        (by_tls("localhost", "sslmode=require"), "UnknownIssuer"),
        (by_tls("127.0.0.1", &roots), "not valid for name"),
        (by_tls("localhost", "sslmode=disable"), "connection"),
        (format!("{url}?sslmode=require"), "server does not support TLS"),
    ] {
        let message = refused(url).await;
        assert!(message.starts_with("no connection to the database: "), "{message}");
        assert!(message.contains(want), "{message}");
    }
}
