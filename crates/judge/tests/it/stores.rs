//! Every store passes one suite; the one in a file also survives other writers, bad files and a
//! killed process.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Command, Stdio},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use marquetry_database::DatabaseError;
use marquetry_judge::{
    LibsqlStore, MemoryStore, ResultStore, StoreError,
    store::{
        LibsqlOptions, NewRun, OutcomeFilter, PageRequest, RunStatus,
        conformance::{check_store, sample},
    },
};

use crate::hrana::Server;

#[tokio::test]
async fn every_store_passes_the_suite() {
    check_store(&MemoryStore::new()).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tests.db");
    check_store(&LibsqlStore::open(&path).await.unwrap()).await;
    let files = std::fs::read_dir(folder.path()).unwrap();
    for file in files {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(18).any(|bytes| bytes == b"sk-not-to-be-store"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_on_a_server_passes_the_suite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tests.db");
    let server = Server::start(&path, "a-token").await;
    check_store(&LibsqlStore::connect(&server.url, Some("a-token")).await.unwrap()).await;
    // The tables are those of a file.
    let file = LibsqlStore::open(&path).await.unwrap();
    let stored = file.outcomes(&OutcomeFilter::default()).await.unwrap();
    assert!(stored.len() > 10);

    // A result is stored in few requests, however many calls and votes it has.
    let store = LibsqlStore::connect(&server.url, Some("a-token")).await.unwrap();
    let before = server.requests.load(Ordering::Relaxed);
    store.put_result(&sample("large", &[true; 20])).await.unwrap();
    let requests = server.requests.load(Ordering::Relaxed) - before;
    assert!(requests <= 4, "{requests} requests");

    // Four writers at once, as processes would be.
    let writers = (0..4).map(|writer| {
        let url = server.url.clone();
        tokio::spawn(async move {
            let store = LibsqlStore::connect(&url, Some("a-token")).await.unwrap();
            for number in 0..5 {
                store.put_result(&sample(&format!("{writer}-{number}"), &[true])).await.unwrap();
            }
        })
    });
    for writer in futures_util::future::join_all(writers).await {
        writer.unwrap();
    }
    let now = store.outcomes(&OutcomeFilter::default()).await.unwrap().len();
    assert_eq!(now, stored.len() + 21);
}

/// The columns of a table in a database file, as `name TYPE`, with `NOT NULL`, the default and
/// `PRIMARY KEY`.
async fn columns(connection: &libsql::Connection, table: &str) -> Vec<String> {
    let pragma = format!("PRAGMA table_info({table})");
    let mut rows = connection.query(&pragma, ()).await.unwrap();
    let mut columns = Vec::new();
    while let Some(row) = rows.next().await.unwrap() {
        let mut column = format!("{} {}", row.get_str(1).unwrap(), row.get_str(2).unwrap());
        if row.get::<i64>(3).unwrap() == 1 {
            column.push_str(" NOT NULL");
        }
        if let Ok(default) = row.get_str(4) {
            column.push_str(&format!(" DEFAULT {default}"));
        }
        if row.get::<i64>(5).unwrap() == 1 {
            column.push_str(" PRIMARY KEY");
        }
        columns.push(column);
    }
    columns
}

/// Checks that a table has the columns of the seed, in its order and beside our own, that the
/// `stored` rows are accepted, and that the `refused` rows are not.
async fn check_table(table: &str, want: &[&str], stored: &[&str], refused: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tests.db");
    drop(LibsqlStore::open(&path).await.unwrap());
    let database = libsql::Builder::new_local(&path).build().await.unwrap();
    let connection = database.connect().unwrap();
    connection.execute("PRAGMA foreign_keys = ON", ()).await.unwrap();
    let mut columns = columns(&connection, table).await;
    columns.retain(|column| want.contains(&column.as_str()));
    assert_eq!(columns, want);
    for row in stored {
        let inserted = connection.execute(&format!("INSERT INTO {table} {row}"), ()).await;
        inserted.unwrap_or_else(|error| panic!("{row}: {error}"));
    }
    for row in refused {
        let error = connection.execute(&format!("INSERT INTO {table} {row}"), ()).await;
        let error = error.expect_err(row).to_string();
        assert!(error.contains("constraint failed"), "{row}: {error}");
    }
}

fn row(id: &str, status: &str) -> String {
    format!(
        "(id, test_name, prompt, status, test_case, tool_accuracy, passed_trials, failed_trials, error_trials) \
         VALUES ({id}, 'n', 'p', {status}, '{{}}', 1, 0, 0, 0)"
    )
}

/// seed: 004/17
#[tokio::test]
async fn the_table_of_results_matches_the_seed() {
    let stored =
        ["passed", "failed", "error"].map(|it| row(&format!("'{it}'"), &format!("'{it}'")));
    let refused = [row("'a'", "'running'"), row("'b'", "'PASSED'"), row("'passed'", "'passed'")];
    let no_prompt = row("'c'", "'passed'").replace("'p'", "NULL");
    check_table(
        "test_results",
        &[
            "id TEXT PRIMARY KEY",
            "test_name TEXT NOT NULL",
            "prompt TEXT NOT NULL",
            "expected_tools TEXT",
            "actual_tools TEXT",
            "judge_verdict TEXT",
            "created_at DATETIME DEFAULT CURRENT_TIMESTAMP",
            "duration_ms INTEGER",
            "status TEXT",
        ],
        &stored.each_ref().map(String::as_str),
        &[&*refused[0], &refused[1], &refused[2], &no_prompt],
    )
    .await;
}

/// seed: 004/18
#[tokio::test]
async fn the_table_of_configurations_matches_the_seed() {
    check_table(
        "test_configurations",
        &[
            "id TEXT PRIMARY KEY",
            "name TEXT NOT NULL",
            "description TEXT",
            "server_configs TEXT",
            "judge_config TEXT",
            "created_at DATETIME DEFAULT CURRENT_TIMESTAMP",
            "updated_at DATETIME DEFAULT CURRENT_TIMESTAMP",
        ],
        // Names need not be unique, as in the seed.
        &["(id, name) VALUES ('a', 'n')", "(id, name) VALUES ('b', 'n')"],
        &[
            "(id, name) VALUES ('a', 'other')",
            "(id) VALUES ('c')",
            "(id, name, origin) VALUES ('d', 'n', 'found')",
        ],
    )
    .await;
}

/// seed: 004/19
#[tokio::test]
async fn the_table_of_runs_matches_the_seed() {
    check_table(
        "test_runs",
        &[
            "id TEXT PRIMARY KEY",
            "name TEXT",
            "configuration_id TEXT",
            "total_tests INTEGER",
            "passed_tests INTEGER",
            "failed_tests INTEGER",
            "started_at DATETIME DEFAULT CURRENT_TIMESTAMP",
            "completed_at DATETIME",
            "status TEXT",
        ],
        &[
            "(id, status) VALUES ('a', 'running')",
            "(id, status) VALUES ('b', 'completed')",
            "(id, status) VALUES ('c', 'failed')",
        ],
        &[
            "(id, status) VALUES ('d', 'passed')",
            "(id, status) VALUES ('a', 'running')",
            // It refers to a configuration.
            "(id, status, configuration_id) VALUES ('e', 'running', 'unknown')",
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_of_results_has_the_calls() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tests.db");
    let store = LibsqlStore::open(&path).await.unwrap();
    let stored = sample("calls", &[true]);
    store.put_result(&stored).await.unwrap();
    let database = libsql::Builder::new_local(&path).build().await.unwrap();
    let connection = database.connect().unwrap();
    let mut rows = connection.query("SELECT actual_tools FROM test_results", ()).await.unwrap();
    let text: String = rows.next().await.unwrap().unwrap().get(0).unwrap();
    let call = &stored.tool_calls[0];
    let wanted = serde_json::json!({"name": call.tool_name, "server": call.server_id, "arguments": call.parameters});
    let calls: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    assert_eq!((calls.len(), &calls[0]), (stored.tool_calls.len(), &wanted));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_write_on_a_server_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tests.db");
    let server = Server::start(&path, "a-token").await;
    let store = LibsqlStore::connect(&server.url, Some("a-token")).await.unwrap();
    let database = libsql::Builder::new_local(&path).build().await.unwrap();
    let connection = database.connect().unwrap();
    // The last statements of a result fail: its votes.
    connection.execute("DROP TABLE test_votes", ()).await.unwrap();
    let error = store.put_result(&sample("broken", &[true])).await.unwrap_err().to_string();
    assert!(error.contains("test_votes"), "{error}");
    let mut rows = connection.query("SELECT count(*) FROM test_results", ()).await.unwrap();
    let count: i64 = rows.next().await.unwrap().unwrap().get(0).unwrap();
    assert_eq!(count, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_used_is_an_error_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("tests.db"), "a-token").await;
    let error =
        async |url: &str, token| LibsqlStore::connect(url, token).await.err().unwrap().to_string();
    for token in [None, Some("wrong-secret")] {
        let error = error(&server.url, token).await;
        assert!(error.contains("does not accept the key (status 401)"), "{error}");
        assert!(!error.contains("wrong-secret"));
    }
    let url = server.url.clone();
    let elsewhere = error(&format!("{url}/elsewhere"), Some("a-token")).await;
    assert!(elsewhere.contains("status 404"), "{elsewhere}");
    drop(server);
    let gone = error(&url, Some("a-token")).await;
    assert!(gone.contains("cannot be reached"), "{gone}");
    let plain = error("http://db.example", Some("a-token")).await;
    assert!(plain.contains("use libsql: or https:"), "{plain}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn four_writers_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tests.db");
    let writers = (0..4).map(|writer| {
        let path = path.clone();
        tokio::spawn(async move {
            // Each has its own connection, as a process of its own would.
            let store = LibsqlStore::open(&path).await.unwrap();
            for number in 0..25 {
                store.put_result(&sample(&format!("{writer}-{number}"), &[true])).await.unwrap();
            }
        })
    });
    for writer in futures_util::future::join_all(writers).await {
        writer.unwrap();
    }
    let store = LibsqlStore::open(&path).await.unwrap();
    assert_eq!(store.outcomes(&OutcomeFilter::default()).await.unwrap().len(), 100);
}

#[tokio::test]
async fn files_that_cannot_be_used_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tests.db");
    let error = |outcome: Result<LibsqlStore, StoreError>| outcome.err().unwrap().to_string();
    std::fs::write(
        &path,
        "This is a text, and it is long enough to be taken for a page of a database.",
    )
    .unwrap();
    assert!(error(LibsqlStore::open(&path).await).contains("is not a database"));
    assert!(error(LibsqlStore::open(folder.path()).await).contains("is a folder"));
    std::fs::remove_file(&path).unwrap();
    drop(LibsqlStore::open(&path).await.unwrap());
    let database = libsql::Builder::new_local(&path).build().await.unwrap();
    let connection = database.connect().unwrap();
    connection.execute("UPDATE test_setting SET value = 99", ()).await.unwrap();
    assert!(error(LibsqlStore::open(&path).await).contains("schema version 99"));
}

#[tokio::test]
async fn a_run_whose_program_was_killed_has_failed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tests.db");
    let store = LibsqlStore::open(&path).await.unwrap();
    let run = store.start_run(NewRun::default()).await.unwrap();
    let status = async || store.run(&run.id).await.unwrap().unwrap().status;
    assert_eq!(status().await, RunStatus::Running);
    let database = libsql::Builder::new_local(&path).build().await.unwrap();
    let connection = database.connect().unwrap();
    let long_ago = "UPDATE test_runs SET started_at = '2026-01-01T00:00:00.000Z'";
    connection.execute(long_ago, ()).await.unwrap();
    assert_eq!(status().await, RunStatus::Failed);
    assert_eq!(
        store.runs(&PageRequest::default()).await.unwrap().items[0].status,
        RunStatus::Failed
    );
    store.touch_run(&run.id).await.unwrap();
    assert_eq!(status().await, RunStatus::Running);
    let ended = store.finish_run(&run.id, RunStatus::Completed).await.unwrap();
    assert_eq!(ended.status, RunStatus::Completed);

    // A file of the first version has neither heartbeats nor origins.
    for change in [
        "ALTER TABLE test_runs DROP COLUMN seen_at",
        "ALTER TABLE test_configurations DROP COLUMN origin",
        "DROP INDEX test_configurations_by_time",
    ] {
        connection.execute(change, ()).await.unwrap();
    }
    connection.execute("UPDATE test_setting SET value = 1", ()).await.unwrap();
    let store = LibsqlStore::open(&path).await.unwrap();
    assert_eq!(store.run(&run.id).await.unwrap().unwrap().status, RunStatus::Completed);
    store.touch_run(&run.id).await.unwrap();
}

#[tokio::test]
async fn a_full_or_read_only_database_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tests.db");
    let mut options = LibsqlOptions::default();
    options.max_bytes = Some(200_000);
    let store = LibsqlStore::open_with(&path, options).await.unwrap();
    let mut stored = 0;
    let full = loop {
        match store.put_result(&sample("full", &[true; 20])).await {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 100, "the limit holds");
    };
    assert!(matches!(full, StoreError::Database(DatabaseError::Full)), "{full}");
    assert_eq!(store.outcomes(&OutcomeFilter::default()).await.unwrap().len(), stored);
    drop(store);
    let mut options = LibsqlOptions::default();
    options.read_only = true;
    let store = LibsqlStore::open_with(&path, options).await.unwrap();
    assert_eq!(store.outcomes(&OutcomeFilter::default()).await.unwrap().len(), stored);
    let error = store.put_result(&sample("more", &[true])).await.unwrap_err();
    assert!(error.to_string().contains("read-only"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_and_writers_share_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(LibsqlStore::open(folder.path().join("tests.db")).await.unwrap());
    let writing = (0..16).map(|number| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let result = sample(&format!("{number}"), &[true, false]);
            store.put_result(&result).await.unwrap();
            assert_eq!(store.result(&result.id).await.unwrap(), Some(result));
        })
    });
    for done in futures_util::future::join_all(writing).await {
        done.unwrap();
    }
}

/// The variable that makes a test lock a file.
const LOCKS: &str = "STORE_LOCKS";

/// Not a test: a process that has a database locked until its standard input ends, if the variable
/// is set.
#[test]
fn locker() {
    let Ok(path) = std::env::var(LOCKS) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let database = libsql::Builder::new_local(&path).build().await.unwrap();
        let connection = database.connect().unwrap();
        connection.execute("BEGIN IMMEDIATE", ()).await.unwrap();
        println!("locked");
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        connection.execute("ROLLBACK", ()).await.unwrap();
    });
}

#[tokio::test]
async fn a_write_waits_a_limited_time_for_the_lock_of_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tests.db");
    let mut options = LibsqlOptions::default();
    options.lock_timeout = Duration::from_millis(300);
    let store = LibsqlStore::open_with(&path, options).await.unwrap();
    // To open a database takes its lock for a moment, too.
    let patient = LibsqlStore::open(&path).await.unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "stores::locker", "--nocapture"]).env(LOCKS, &path);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut locker = command.spawn().unwrap();
    let mut said = BufReader::new(locker.stdout.take().unwrap());
    let mut line = String::new();
    while !line.ends_with("locked\n") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "the other process has no lock");
    }

    let started = Instant::now();
    let error = store.put_result(&sample("locked", &[true])).await.unwrap_err();
    assert!(matches!(error, StoreError::Database(DatabaseError::Busy)), "{error}");
    assert!(started.elapsed() >= Duration::from_millis(300), "{:?}", started.elapsed());
    assert!(error.advice().contains("keeps the database locked"));
    assert!(store.outcomes(&OutcomeFilter::default()).await.unwrap().is_empty());

    // A lock that ends in time costs nothing but the wait.
    let result = sample("waits", &[true]);
    let stores = async { patient.put_result(&result).await.unwrap() };
    let ends = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        drop(locker.stdin.take());
    };
    tokio::join!(stores, ends);
    assert_eq!(patient.result(&result.id).await.unwrap(), Some(result));
    assert!(locker.wait().unwrap().success());
}

/// The variable that makes a test a writer of a file.
const WRITES_TO: &str = "STORE_WRITES_TO";

/// Not a test: a process that stores results without end and says so after each, if the variable is
/// set.
#[test]
fn writer() {
    let Ok(path) = std::env::var(WRITES_TO) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = LibsqlStore::open(&path).await.unwrap();
        loop {
            let result = sample("killed", &[true, false]);
            store.put_result(&result).await.unwrap();
            println!("stored {}", result.id);
        }
    });
}

#[tokio::test]
async fn killed_writers_lose_no_acknowledged_result() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tests.db");
    drop(LibsqlStore::open(&path).await.unwrap());
    let mut writers: Vec<_> = (0..4)
        .map(|_| {
            let mut command = std::process::Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "stores::writer", "--nocapture"]).env(WRITES_TO, &path);
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
            command.spawn().unwrap()
        })
        .collect();
    let mut acknowledged = Vec::new();
    let outputs: Vec<_> = writers.iter_mut().map(|writer| writer.stdout.take().unwrap()).collect();
    let mut readers: Vec<_> =
        outputs.into_iter().map(|output| BufReader::new(output).lines()).collect();
    let stored = |line: String| line.strip_prefix("stored ").map(str::to_owned);
    for reader in &mut readers {
        // Each writer has begun, so that it is probably killed in the middle of a write.
        acknowledged.extend(reader.map_while(Result::ok).filter_map(stored).take(5));
    }
    for writer in &mut writers {
        writer.kill().unwrap();
        writer.wait().unwrap();
    }
    for reader in readers {
        let whole = |id: &String| id.len() == acknowledged[0].len();
        let rest: Vec<_> = reader.map_while(Result::ok).filter_map(stored).filter(whole).collect();
        acknowledged.extend(rest);
    }
    assert!(acknowledged.len() >= 20, "{acknowledged:?}");
    let store = LibsqlStore::open(&path).await.unwrap();
    for id in &acknowledged {
        let result = store.result(id).await.unwrap();
        assert_eq!(result.map(|result| result.trials.len()), Some(2), "{id}");
    }
    store.put_result(&sample("after", &[true])).await.unwrap();
}
