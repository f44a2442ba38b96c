//! A log in files: written, rotated, reopened, damaged, and verified.

use std::{
    fs,
    path::{Path, PathBuf},
};

use marquetry_audit::{
    AuditError, AuditLog, AuditOptions, LineHash, LineProblem, OnError, OnFull, VerifyError,
    files_of, verify, verify_log,
};
use serde_json::{Value, json};

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    (folder, path)
}

fn open(path: &Path) -> AuditLog {
    AuditLog::open(path, AuditOptions::default()).unwrap()
}

async fn write(log: &AuditLog, count: usize) {
    for number in 0..count {
        log.write(&json!({"event": "call", "number": number})).await.unwrap();
    }
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn numbered(path: &Path, number: usize) -> PathBuf {
    format!("{}.{number}", path.display()).into()
}

#[tokio::test]
async fn lines_have_number_hash_and_time() {
    let (_folder, path) = folder();
    let log = open(&path);
    log.write(&json!({"event": "login", "user": "änna"})).await.unwrap();
    log.close().await;
    assert_eq!(log.write(&json!({})).await, Err(AuditError::Closed));
    let text = fs::read_to_string(&path).unwrap();
    let [opened, login, closed] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
    assert!(opened.contains(r#""prev":"0000"#) && opened.contains(r#""event":"log_opened""#));
    let login: Value = serde_json::from_str(login).unwrap();
    assert_eq!((&login["seq"], &login["user"]), (&json!(2), &json!("änna")));
    let time = login["time"].as_str().unwrap();
    assert!(time.ends_with('Z') && time.len() == "2026-11-28T12:00:00.000000Z".len(), "{time}");
    assert!(closed.contains(r#""event":"log_closed""#));
    let whole = verify_log(&path).unwrap();
    assert_eq!((whole.first_seq, whole.last_seq, whole.torn, whole.missing_events), (1, 3, 0, 0));
    assert_eq!(log.status().last, Some((3, whole.last_hash)));
    assert_eq!(whole.has_line(3, whole.last_hash), Ok(()));
    let other = LineHash::from_hex(&"1".repeat(64)).unwrap();
    assert!(matches!(whole.has_line(3, other), Err(VerifyError::NotFound { seq: 3, .. })));
    assert!(matches!(whole.has_line(4, other), Err(VerifyError::NotFound { seq: 4, .. })));
}

#[tokio::test]
async fn events_that_are_no_objects_are_refused() {
    let (_folder, path) = folder();
    let log = open(&path);
    for event in [json!(1), json!("{}"), json!([{}]), json!({"event": "log_torn"})] {
        let error = log.write(&event).await.unwrap_err();
        assert!(matches!(error, AuditError::NotAnObject { .. }), "{error}");
    }
    let long = json!({"text": "x".repeat(256 << 10)});
    let error = log.write(&long).await.unwrap_err();
    assert_eq!(error.to_string(), "the event has 262155 bytes, more than 262144");
    let longest = json!({"text": "x".repeat((256 << 10) - 11)});
    log.write(&longest).await.unwrap();
    log.close().await;
    assert_eq!(verify_log(&path).unwrap().last_seq, 3);
    // After a restart the longest line is found again.
    open(&path).close().await;
    assert_eq!(verify_log(&path).unwrap().last_seq, 5);
}

#[tokio::test]
async fn the_chain_goes_over_rotated_files_and_restarts() {
    let (_folder, path) = folder();
    let options = AuditOptions::default().with_max_file_bytes(Some(2_000)).with_max_files(4);
    for _ in 0..3 {
        let log = AuditLog::open(&path, options.clone()).unwrap();
        write(&log, 4).await;
        log.close().await;
    }
    let whole = verify_log(&path).unwrap();
    assert_eq!((whole.first_seq, whole.last_seq), (1, 18));
    assert_eq!(whole.files.last(), Some(&path));
    assert!(whole.files.len() > 1 && numbered(&path, 1).exists());
    let log = AuditLog::open(&path, options).unwrap();
    write(&log, 100).await;
    assert!(log.status().rotations > 5);
    log.close().await;
    let whole = verify_log(&path).unwrap();
    assert_eq!((whole.files.len(), whole.last_seq), (4, 120));
    assert!(whole.first_seq > 1);
    for file in &whole.files {
        assert!(fs::metadata(file).unwrap().len() <= 2_000);
    }
    let files = files_of(&path).unwrap();
    let error = verify(&[&files[0], &files[1], &files[3]]).unwrap_err();
    assert!(matches!(error, VerifyError::Missing { .. }), "{error}");
    let error = verify(&[&files[0], &files[1], &files[1]]).unwrap_err();
    assert!(matches!(error, VerifyError::Repeated { .. }), "{error}");
    fs::remove_file(&path).unwrap();
    // The newest rotated file has the end of the chain. A line that was kept elsewhere shows that
    // the end of the log was removed.
    open(&path).close().await;
    let seq = whole.last_seq;
    let hash = whole.last_hash;
    let whole = verify_log(&path).unwrap();
    assert_eq!(whole.has_line(seq, hash), Err(VerifyError::NotFound { seq, hash }));
}

#[tokio::test]
async fn a_renamed_file_is_written_until_the_log_is_reopened() {
    let (_folder, path) = folder();
    let log = open(&path);
    write(&log, 2).await;
    let renamed = numbered(&path, 1);
    fs::rename(&path, &renamed).unwrap();
    write(&log, 2).await;
    assert!(!path.exists());
    assert_eq!(lines(&renamed).len(), 5);
    log.reopen();
    write(&log, 2).await;
    assert_eq!(lines(&path).len(), 2);
    fs::remove_file(&path).unwrap();
    write(&log, 1).await;
    assert_eq!(lines(&path).len(), 1, "a removed file is replaced");
    log.close().await;
    let error = verify_log(&path).unwrap_err();
    assert_eq!(error, VerifyError::Missing { from: 6, to: 7, path: path.clone() });
    // logrotate has renamed the file while the server was stopped.
    fs::rename(&path, numbered(&path, 2)).unwrap();
    open(&path).close().await;
    assert_eq!(lines(&path)[0]["seq"], 10);
}

#[tokio::test]
async fn an_incomplete_last_line_is_recorded() {
    for (end, torn) in [(&b"{\"seq\":5,\"pr"[..], 1), (b"\0\0\0\0", 1), (b"x\ny", 1), (b"", 0)] {
        let (_folder, path) = folder();
        let log = open(&path);
        write(&log, 2).await;
        log.close().await;
        let mut bytes = fs::read(&path).unwrap();
        if end.is_empty() {
            // The line is whole, and only its end is missing.
            bytes.pop();
        }
        bytes.extend(end);
        fs::write(&path, &bytes).unwrap();
        if !end.contains(&b'\n') {
            assert_eq!(verify_log(&path).unwrap().torn_bytes, end.len() as u64);
        }
        let log = open(&path);
        write(&log, 1).await;
        log.close().await;
        let whole = verify_log(&path).unwrap();
        assert_eq!((whole.torn, whole.torn_bytes), (torn, 0));
        let after = fs::read(&path).unwrap();
        assert_eq!(after[..bytes.len()], bytes, "nothing is removed");
        if torn == 0 {
            continue;
        }
        // Without the incomplete line, the line that records it is wrong.
        let next = after[bytes.len()..].iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let without = [&bytes[..bytes.len() - end.len()], &after[bytes.len() + next..]].concat();
        fs::write(&path, without).unwrap();
        let error = VerifyError::Broken { path: path.clone(), line: 5, problem: LineProblem::Torn };
        assert_eq!(verify_log(&path), Err(error));
    }
}

#[tokio::test]
async fn a_changed_line_is_named() {
    let (_folder, path) = folder();
    let log = open(&path);
    write(&log, 5).await;
    log.close().await;
    let text = fs::read_to_string(&path).unwrap();
    let broken = |line, problem| VerifyError::Broken { path: path.clone(), line, problem };
    let changed = text.replace(r#""number":2"#, r#""number":9"#);
    let inserted = text.replacen('\n', "\nx\n", 3);
    let removed: String =
        text.split_inclusive('\n').filter(|line| !line.contains(r#""number":1"#)).collect();
    for (text, problem) in [
        (changed, broken(5, LineProblem::Hash)),
        (inserted, broken(2, LineProblem::NotALine)),
        (removed, broken(3, LineProblem::Number { expected: 3, found: 4 })),
        (format!("{text}x\n"), broken(8, LineProblem::NotALine)),
        (format!("{text}{}\n", "x".repeat(300 << 10)), broken(8, LineProblem::TooLong)),
        (String::new(), VerifyError::Empty),
    ] {
        fs::write(&path, text).unwrap();
        assert_eq!(verify_log(&path), Err(problem));
    }
    fs::remove_file(&path).unwrap();
    assert!(matches!(verify_log(&path), Err(VerifyError::Unreadable { .. })));
}

#[tokio::test]
async fn one_process_writes_a_log() {
    let (folder, path) = folder();
    let log = open(&path);
    let second = AuditLog::open(&path, AuditOptions::default()).unwrap_err();
    assert_eq!(second, AuditError::InUse { path: path.clone() });
    assert_eq!(AuditLog::check(&path), Ok(()));
    log.close().await;
    drop(log);
    assert_eq!(AuditLog::check(folder.path().join("new/folder/audit.jsonl")), Ok(()));
    assert!(!folder.path().join("new").exists());
    fs::write(&path, "an important letter\n").unwrap();
    for error in [
        AuditLog::open(&path, AuditOptions::default()).map(drop).unwrap_err(),
        AuditLog::check(&path).unwrap_err(),
    ] {
        assert_eq!(error, AuditError::NotALog { path: path.clone() });
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "an important letter\n");
    let mut names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["audit.jsonl", "audit.jsonl.lock"]);
}

#[cfg(unix)]
#[tokio::test]
async fn files_are_for_their_owner_and_links_are_refused() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
    let (folder, path) = folder();
    let victim = folder.path().join("victim");
    fs::write(&victim, "").unwrap();
    symlink(&victim, &path).unwrap();
    let error = AuditLog::open(&path, AuditOptions::default()).unwrap_err().to_string();
    assert!(
        error.ends_with("is a link, which is not followed; remove it, or name the file behind it")
    );
    assert_eq!(fs::read(&victim).unwrap(), b"");
    fs::remove_file(&path).unwrap();
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let options = AuditOptions::default().with_max_file_bytes(Some(1));
    let log = AuditLog::open(&path, options).unwrap();
    write(&log, 1).await;
    for file in [path.clone(), numbered(&path, 1)] {
        assert_eq!(fs::metadata(file).unwrap().mode() & 0o777, 0o600);
    }
    log.close().await;
    let error = AuditLog::open(folder.path(), AuditOptions::default()).unwrap_err().to_string();
    assert!(error.contains("cannot be opened"), "{error}");
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let error = AuditLog::open(&pipe, AuditOptions::default()).unwrap_err().to_string();
    assert!(error.contains("is not a file"), "{error}");
}

#[tokio::test]
async fn dropped_events_are_counted_in_the_log() {
    let (_folder, path) = folder();
    let options = AuditOptions::default().with_queue(2).with_on_full(OnFull::Drop);
    let log = AuditLog::open(&path, options).unwrap();
    const EVENTS: u64 = 20_000;
    for number in 0..EVENTS {
        log.write(&json!({"event": "call", "number": number})).await.unwrap();
    }
    log.close().await;
    let dropped = log.status().dropped;
    assert!(dropped > 0, "the writer was as fast as the loop");
    let whole = verify_log(&path).unwrap();
    assert_eq!(whole.missing_events, dropped);
    let calls = lines(&path).iter().filter(|line| line["event"] == "call").count() as u64;
    assert_eq!(calls + dropped, EVENTS);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_callers_wait_for_their_lines() {
    let (_folder, path) = folder();
    let options = AuditOptions::default().with_queue(3).with_max_file_bytes(Some(20_000));
    let options = options.with_max_files(1_000).with_sync(true);
    let log = AuditLog::open(&path, options).unwrap();
    let callers = (0..50).map(|caller| {
        let log = log.clone();
        tokio::spawn(async move {
            for number in 0..20 {
                log.write(&json!({"caller": caller, "number": number})).await.unwrap();
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    log.close().await;
    let whole = verify_log(&path).unwrap();
    assert_eq!((whole.first_seq, whole.last_seq), (1, 1_002));
    assert_eq!((log.status().dropped, log.status().queued), (0, 0));
    let mut last = vec![-1; 50];
    for line in whole.files.iter().flat_map(|file| lines(file)) {
        let (Some(caller), Some(number)) = (line["caller"].as_u64(), line["number"].as_i64())
        else {
            continue;
        };
        let before = std::mem::replace(&mut last[caller as usize], number);
        assert_eq!(before + 1, number, "the events of a caller have their order");
    }
}

#[tokio::test]
async fn a_folder_that_vanishes_is_a_problem_until_it_returns() {
    for on_error in [OnError::GoOn, OnError::Refuse] {
        let (folder, _) = folder();
        let inner = folder.path().join("inner");
        let path = inner.join("audit.jsonl");
        let options = AuditOptions::default().with_on_error(on_error);
        let options = options.with_retry(std::time::Duration::from_millis(20));
        let log = AuditLog::open(&path, options).unwrap();
        write(&log, 1).await;
        let before = fs::read(&path).unwrap();
        fs::remove_dir_all(&inner).unwrap();
        let outcome = log.write(&json!({"event": "call"})).await;
        let accepts = log.accepts();
        match on_error {
            OnError::GoOn => assert_eq!((outcome, accepts), (Ok(()), Ok(()))),
            OnError::Refuse => {
                assert!(matches!(outcome, Err(AuditError::Unwritable { .. })), "{outcome:?}");
                assert_eq!(accepts, outcome);
            }
        }
        let status = log.status();
        assert!(status.problem.unwrap().contains("No such file"));
        assert_eq!(status.lost, 1);
        fs::create_dir(&inner).unwrap();
        while log.status().problem.is_some() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        assert_eq!(log.accepts(), Ok(()));
        write(&log, 1).await;
        log.close().await;
        fs::write(inner.join("audit.jsonl.1"), before).unwrap();
        let whole = verify_log(&path).unwrap();
        assert_eq!((whole.last_seq, whole.missing_events), (5, 1));
        assert_eq!(lines(&path)[0]["event"], "log_incomplete");
    }
}
