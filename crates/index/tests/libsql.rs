//! A database in a file: other processes, killed processes, a full disk, another model.

#[path = "common/child.rs"]
mod child;
mod common;

use std::{path::Path, time::Duration};

use child::{Child, end_with_parent};
use common::{chunk, model, version, whole};
use marquetry_index::{
    ChunkStore, DatabaseError, Document, EmbeddingModel, Filter, LibsqlOptions, LibsqlStore,
    SearchRequest, StoreError, conformance::embed,
};

/// Names the database that the child, which is this same test binary, is to write to until it is
/// killed.
const CHILD: &str = "MARQUETRY_TEST_INDEX_INTO";
const CHILD_TEST: &str = "child_that_indexes_until_it_is_killed";

async fn open(path: &Path) -> LibsqlStore {
    LibsqlStore::open(path, model()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn data_survives_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let request = SearchRequest::new("common part 3", Some(embed("common part 3", 64)));
    let before = {
        let store = open(&path).await;
        for number in 0..20 {
            store.replace(Document::new(format!("{number}")), version(number)).await.unwrap();
        }
        store.replace(Document::new("0"), version(4)).await.unwrap();
        store.delete(&Filter::scope("1")).await.unwrap();
        store.search(&request).await.unwrap()
    };
    assert_eq!(before.len(), 10);
    let store = open(&path).await;
    assert_eq!(store.search(&request).await.unwrap(), before);
    assert!(store.chunks("1").await.unwrap().is_empty());
    assert_eq!(store.documents(&Filter::default(), None, 100).await.unwrap().len(), 19);
}

/// A program may end as soon as it has dropped the store: nothing may then depend on the thread
/// that writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_store_leaves_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    for number in 0..20 {
        let store = open(&path).await;
        store.replace(Document::new(format!("{number}")), version(number)).await.unwrap();
        store.checkpoint().await.unwrap();
        drop(store);
        let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
        assert_eq!(files.len(), 1, "{files:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_see_the_writes_of_other_stores() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let one = open(&path).await;
    let other = open(&path).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn child_that_indexes_until_it_is_killed() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    end_with_parent();
    let store = open(Path::new(&path)).await;
    for number in 0.. {
        let batch = (0..4).map(|at| (Document::new(format!("doc-{at}")), version(number + at)));
        store.replace_all(batch.collect()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_leaves_the_old_or_the_new() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let reader = open(&path).await;
    for at in 0..4 {
        reader.replace(Document::new(format!("doc-{at}")), version(at)).await.unwrap();
    }
    let mut latest = 0;
    for round in 0..12 {
        let children = [(); 2].map(|()| Child::start(CHILD_TEST, CHILD, &path));
        tokio::time::sleep(Duration::from_millis(150 + round * 17 % 90)).await;
        // The reader stays open all the time; another store opens the file that the killed
        // processes left.
        check(&reader).await;
        children.into_iter().for_each(Child::kill);
        check(&reader).await;
        latest = latest.max(check(&open(&path).await).await);
    }
    assert!(latest > 3, "the children wrote nothing");
}

/// Checks that every document is whole, by its chunks and by a search, and returns the highest
/// version.
async fn check(store: &LibsqlStore) -> usize {
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
async fn a_full_database_keeps_the_old_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = LibsqlOptions::default();
    options.max_bytes = Some(400_000);
    let path = folder.path().join("a.db");
    let store = LibsqlStore::open_with(&path, model(), options).await.unwrap();
    store.replace(Document::new("doc"), version(3)).await.unwrap();
    let large: Vec<_> =
        (0..2_000).map(|at| chunk(format!("Version 9 of 2000, number{at}."))).collect();
    let error = store.replace(Document::new("doc"), large).await.unwrap_err();
    assert!(matches!(error, StoreError::Database(DatabaseError::Full)), "{error}");
    let chunks = store.chunks("doc").await.unwrap();
    whole(&chunks.iter().map(|chunk| &*chunk.content).collect::<Vec<_>>());
    // A smaller document is stored afterwards, with terms that were rolled back before.
    store.replace(Document::new("doc"), version(4)).await.unwrap();
    let hits = store.search(&SearchRequest::new("version 4", None)).await.unwrap();
    assert_eq!(hits.len(), 5);
    drop(store);
    assert_eq!(
        open(&path).await.search(&SearchRequest::new("version 4", None)).await.unwrap(),
        hits
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn another_model_is_refused_without_a_reset() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = open(&path).await;
    let other = EmbeddingModel::new("other", 32);
    drop(LibsqlStore::open(&path, other.clone()).await.expect("an empty database takes any model"));
    drop(LibsqlStore::open(&path, model()).await.expect("and changes it again"));
    store.replace(Document::new("doc"), version(1)).await.unwrap();

    let error = LibsqlStore::open(&path, other.clone()).await.err().unwrap();
    assert_eq!(
        error.to_string(),
        "the database has vectors of \"test\" (64 numbers), the model is \"other\" (32 numbers): \
         reset the database for this model and index the documents again"
    );
    let mut options = LibsqlOptions::default();
    options.reset = true;
    drop(LibsqlStore::open_with(&path, model(), options).await.unwrap());
    assert_eq!(store.count(&Filter::default()).await.unwrap(), 2, "the same model is no reason");
    let reset = LibsqlStore::open_with(&path, other, options).await.unwrap();
    assert_eq!(reset.count(&Filter::default()).await.unwrap(), 0);
    let late = store.search(&SearchRequest::new("version", None)).await;
    assert!(matches!(late, Err(StoreError::OtherModel { .. })), "{late:?}");
    let late = store.replace(Document::new("doc"), version(1)).await;
    assert!(matches!(late, Err(StoreError::OtherModel { .. })), "{late:?}");
}

#[test]
fn the_file_answers_like_the_store_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let file = runtime.block_on(open(&folder.path().join("a.db")));
    common::answers_as_memory_does(&runtime, &file, 96);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_the_file_alone_has_everything() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("a.db"), folder.path().join("copy.db"));
    let store = open(&path).await;
    let other = open(&path).await;
    for number in 0..20 {
        store.replace(Document::new(format!("{number}")), version(number)).await.unwrap();
    }
    store.delete(&Filter::scope("1")).await.unwrap();
    other.documents(&Filter::default(), None, 100).await.unwrap();
    store.checkpoint().await.unwrap();
    std::fs::copy(&path, &copy).unwrap();
    let all = store.documents(&Filter::default(), None, 100).await.unwrap();
    assert_eq!(all.len(), 19);
    let copied = open(&copy).await;
    assert_eq!(copied.documents(&Filter::default(), None, 100).await.unwrap(), all);
    assert_eq!(copied.chunks("7").await.unwrap(), store.chunks("7").await.unwrap());
    // The store stays usable.
    store.replace(Document::new("1"), version(1)).await.unwrap();
    assert_eq!(other.chunks("1").await.unwrap().len(), version(1).len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_in_another_process_does_not_delay_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = open(&path).await;
    store.replace(Document::new("a"), version(1)).await.unwrap();
    let reader = libsql::Builder::new_local(&path).build().await.unwrap().connect().unwrap();
    reader.execute("BEGIN", ()).await.unwrap();
    let mut rows = reader.query("SELECT * FROM rag_document", ()).await.unwrap();
    rows.next().await.unwrap();
    store.replace(Document::new("b"), version(2)).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(8), store.checkpoint()).await.unwrap();
    assert!(matches!(ended, Err(StoreError::Database(DatabaseError::Busy))), "{ended:?}");
    assert_eq!(store.documents(&Filter::default(), None, 9).await.unwrap().len(), 2);
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_new_database_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let mode = |name: &str| {
        let found = std::fs::metadata(folder.path().join(name)).unwrap();
        found.permissions().mode() & 0o777
    };
    let store = open(&path).await;
    store.replace(Document::new("a"), version(1)).await.unwrap();
    assert_eq!(["a.db", "a.db-wal", "a.db-shm"].map(mode), [0o600; 3]);
    drop(store);

    // The mode that the user chose stays.
    let there = folder.path().join("there.db");
    std::fs::write(&there, "").unwrap();
    std::fs::set_permissions(&there, PermissionsExt::from_mode(0o640)).unwrap();
    let _store = open(&there).await;
    assert_eq!(["there.db", "there.db-wal"].map(mode), [0o640; 2]);
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn invalid_paths_are_refused_before_opening() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let gone = folder.path().join("gone/a.db");
    for (path, problem) in [
        (folder.path(), "is a folder"),
        (fifo.as_path(), "is not a regular file"),
        (Path::new("/dev/null"), "is not a regular file"),
        (Path::new(""), "its file has no name"),
        (gone.as_path(), "cannot be created: No such file or directory (os error 2)"),
    ] {
        let Err(error) = LibsqlStore::open(path, model()).await else { panic!("{path:?}") };
        let place = if problem.starts_with("its") { "" } else { path.to_str().unwrap() };
        let want = format!("the database cannot be used: {place} {problem}").replace("  ", " ");
        assert_eq!(error.to_string(), want);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_opened_read_only_is_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a b?#%.db");
    let request = SearchRequest::new("common", Some(embed("common", 64)));
    let names = || {
        let entries = std::fs::read_dir(folder.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let mut options = LibsqlOptions::default();
    options.read_only = true;
    let missing = LibsqlStore::open_with(&path, model(), options).await.err().unwrap();
    assert!(missing.to_string().contains("cannot be read: No such file"), "{missing}");
    let store = open(&path).await;
    store.replace(Document::new("doc"), version(1)).await.unwrap();
    // The log has changes that are not in the file yet.
    let reader = LibsqlStore::open_with(&path, model(), options).await.unwrap();
    assert_eq!(reader.search(&request).await.unwrap().len(), 2);
    drop(reader);
    // Its thread closes the file soon after that; the last one to close it removes the log.
    let pause = || tokio::time::sleep(Duration::from_millis(10));
    while store.checkpoint().await.is_err() {
        pause().await;
    }
    drop(store);
    while names().len() > 1 {
        pause().await;
    }
    let before = std::fs::read(&path).unwrap();
    let reader = LibsqlStore::open_with(&path, model(), options).await.unwrap();
    assert_eq!(reader.search(&request).await.unwrap().len(), 2);
    let written = reader.replace(Document::new("other"), version(1)).await;
    assert!(matches!(written, Err(StoreError::Database(DatabaseError::ReadOnly))), "{written:?}");
    let other = EmbeddingModel::new("other", 4);
    let refused = LibsqlStore::open_with(&path, other, options).await.err().unwrap();
    assert!(matches!(refused, StoreError::OtherModel { .. }), "{refused}");
    drop(reader);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(names(), ["a b?#%.db"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_ours_refuses_a_database_with_tables_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("photos.db");
    let database = libsql::Builder::new_local(&path).build().await.unwrap();
    let connection = database.connect().unwrap();
    connection.execute("CREATE TABLE photo (name TEXT)", ()).await.unwrap();
    drop((connection, database));
    let before = std::fs::read(&path).unwrap();
    let mut options = LibsqlOptions::default();
    options.only_ours = true;
    let refused = LibsqlStore::open_with(&path, model(), options).await.err().unwrap();
    assert_eq!(
        refused.to_string(),
        format!(
            "the database cannot be used: {}: it is a database of another program, with a table \"photo\"; \
             name another file",
            path.display()
        )
    );
    assert!(std::fs::read(&path).unwrap() == before, "nothing in it was changed");
    // Without `only_ours`, our tables are added to the file, which can then be opened with
    // `only_ours`.
    open(&path).await.replace(Document::new("doc"), version(1)).await.unwrap();
    let store = LibsqlStore::open_with(&path, model(), options).await.unwrap();
    assert_eq!(store.count(&Filter::default()).await.unwrap(), 2);
}

/// Like several processes that begin to index into a new database at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_database_may_be_opened_by_several_at_once() {
    for _ in 0..10 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new.db");
        let mut options = LibsqlOptions::default();
        options.only_ours = true;
        let mut opening = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let path = path.clone();
            opening.spawn(async move {
                LibsqlStore::open_with(&path, model(), options).await.map(drop)
            });
        }
        while let Some(opened) = opening.join_next().await {
            opened.unwrap().unwrap();
        }
    }
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn removing_the_file_in_use_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let store = open(&path).await;
    store.replace(Document::new("doc"), version(1)).await.unwrap();
    std::fs::remove_file(&path).unwrap();

    // A log that is left beside it is not adopted.
    let refused = LibsqlStore::open(&path, model()).await.err().unwrap();
    let name = path.display();
    assert_eq!(
        refused.to_string(),
        format!(
            "the database cannot be used: {name} is gone, and its log {name}-wal is there: a program that is running may \
             still have the old database open; end it, then remove {name}-wal and {name}-shm"
        )
    );
    assert!(!path.exists());
    let gone = format!(
        "the database cannot be used: {name} was removed or replaced while this program had it open: start the program again"
    );
    for replaced in [false, true] {
        if replaced {
            std::fs::write(&path, "").unwrap();
        }
        let written = store.replace(Document::new("other"), version(1)).await.unwrap_err();
        assert_eq!(written.to_string(), gone);
        assert_eq!(store.count(&Filter::default()).await.unwrap_err().to_string(), gone);
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_a_newer_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    create_with_version(&path, 6).await;
    let mut options = LibsqlOptions::default();
    for read_only in [false, true] {
        options.read_only = read_only;
        let error = LibsqlStore::open_with(&path, model(), options).await.err().unwrap();
        let newer = DatabaseError::NewerSchema { found: 6, known: 5 };
        assert_eq!(error.to_string(), newer.in_file(&path).to_string());
    }
}

/// Creates a file with one document, and sets the version of its tables.
async fn create_with_version(path: &Path, schema: i64) {
    let store = open(path).await;
    store.replace(Document::new("doc"), version(1)).await.unwrap();
    store.checkpoint().await.unwrap();
    drop(store);
    set_version(path, schema).await;
}

/// Sets the version of the tables in a file.
async fn set_version(path: &Path, version: i64) {
    execute(path, &format!("UPDATE rag_setting SET value = {version} WHERE name = 'schema'")).await;
}

async fn execute(path: &Path, sql: &str) {
    let database = libsql::Builder::new_local(path).build().await.unwrap();
    let connection = database.connect().unwrap();
    // The writer of the store may still be about to close the database.
    connection.busy_timeout(Duration::from_secs(10)).unwrap();
    connection.execute_batch(sql).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn reset_deletes_the_index_of_an_older_version() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    // Terms of this version are those of words without their parts.
    create_with_version(&path, 4).await;
    execute(&path, "UPDATE rag_rows SET rows = x'01'").await;
    let mut options = LibsqlOptions::default();
    for read_only in [false, true] {
        options.read_only = read_only;
        let error = LibsqlStore::open_with(&path, model(), options).await.err().unwrap();
        assert!(matches!(error, StoreError::OlderSchema { found: 4, needed: 5 }), "{error}");
        assert!(error.to_string().contains("`marquetry index --reset PATH…`"), "{error}");
    }
    (options.read_only, options.reset) = (false, true);
    let store = LibsqlStore::open_with(&path, model(), options).await.unwrap();
    assert_eq!(store.count(&Filter::default()).await.unwrap(), 0);
    store.replace(Document::new("doc"), version(1)).await.unwrap();
    assert_eq!(open(&path).await.count(&Filter::default()).await.unwrap(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_not_a_database_is_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.txt");
    std::fs::write(&path, "A text. ".repeat(1_000)).unwrap();
    let error = LibsqlStore::open(&path, model()).await.err().unwrap();
    let want = format!(
        "the database cannot be used: {}: it is not a database; restore it from a copy, or name another file",
        path.display()
    );
    assert_eq!(error.to_string(), want);
    assert_eq!(std::fs::read(&path).unwrap().len(), 8_000);
}
