//! Real processes that are killed, and whose disk is full or slow: nothing acknowledged is missing.

#![cfg(target_os = "linux")]

use std::{
    collections::BTreeSet,
    env, fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use marquetry_audit::{AuditLog, AuditOptions, OnError, verify_log};
use serde_json::{Value, json};

/// The variable that makes a test the writer, with the path of the log.
const PATH: &str = "AUDIT_TEST_PATH";

/// Writes events and prints the name of each that is in the log. It runs in a process of its own.
#[test]
fn writer() {
    let Ok(path) = env::var(PATH) else { return };
    let run = env::var("AUDIT_TEST_RUN").unwrap();
    let events = env::var("AUDIT_TEST_EVENTS").map_or(usize::MAX, |it| it.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    runtime.block_on(async {
        let options = AuditOptions::default().with_max_file_bytes(Some(40_000));
        let options = options.with_max_files(10_000).with_on_error(OnError::Refuse);
        let options = options.with_retry(Duration::from_millis(20));
        let log = AuditLog::open(path, options).unwrap();
        let callers = (0..4).map(|caller| {
            let log = log.clone();
            let run = run.clone();
            tokio::spawn(async move {
                for number in 0..events {
                    let name = format!("{run}-{caller}-{number}");
                    let text = "x".repeat(number % 700);
                    match log.write(&json!({"event": "call", "name": name, "text": text})).await {
                        Ok(()) => say(&format!("written {name}")),
                        Err(error) => {
                            say(&format!("refused {name} {error}"));
                            tokio::task::yield_now().await;
                        }
                    }
                }
            })
        });
        for caller in callers.collect::<Vec<_>>() {
            caller.await.unwrap();
        }
    });
}

/// Prints a line with one call of the system, so that a killed process leaves no part of one.
fn say(line: &str) {
    _ = std::io::stdout().write_all(format!("{line}\n").as_bytes());
}

/// Starts a shell command that ends in the writer.
fn start(path: &Path, run: usize, shell: &str) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new("bash")
        .args(["-c", &format!("{shell} \"$0\" --exact writer --nocapture")])
        .arg(env::current_exe().unwrap())
        .env(PATH, path)
        .env("AUDIT_TEST_RUN", run.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

/// Returns the name of the event that a line of the writer acknowledges. With one thread, the test
/// runner begins the first line itself.
fn acknowledged(line: String) -> Option<String> {
    Some(line.split_once("written ")?.1.to_owned())
}

fn names_in(path: &Path) -> BTreeSet<String> {
    let files = verify_log(path).unwrap().files;
    let text = files.iter().map(|file| fs::read(file).unwrap()).collect::<Vec<_>>().concat();
    let lines = text.split(|byte| *byte == b'\n');
    let lines = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    lines.filter_map(|line| Some(line["name"].as_str()?.to_owned())).collect()
}

#[test]
fn nothing_acknowledged_is_missing_after_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let mut random = 7_u64;
    let mut written = BTreeSet::new();
    for run in 0..25 {
        let (mut child, output) = start(&path, run, "exec");
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let moment = Duration::from_micros(2_000 + (random >> 33) % 60_000);
        let mut names = output.lines().map_while(Result::ok).filter_map(acknowledged);
        if run % 2 == 0 {
            // The process may need long to start on a busy machine.
            written.extend(names.next());
        }
        let killer = thread::spawn(move || {
            thread::sleep(moment);
            child.kill().unwrap();
            child.wait().unwrap();
        });
        written.extend(names);
        killer.join().unwrap();
        if run % 5 == 0 && path.exists() {
            // The kernel writes a line as a whole. A power failure does not.
            let bytes = fs::read(&path).unwrap();
            let cut = [&bytes[..], b"{\"seq\":7,\"prev\":\""].concat();
            fs::write(&path, cut).unwrap();
        }
    }
    assert!(written.len() > 100, "only {} events were written", written.len());
    let names = names_in(&path);
    let missing: Vec<_> = written.difference(&names).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(verify_log(&path).unwrap().torn > 0);
}

#[test]
fn a_full_disk_refuses_events_and_loses_none_that_were_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    // A limit of the size of files, in KiB: writing beyond it fails as on a full disk, after a part
    // of the line was written.
    let (mut child, output) = start(&path, 0, "trap '' XFSZ; ulimit -S -f 17; exec");
    let mut written = BTreeSet::new();
    let mut refused = 0_u64;
    let mut is_full = true;
    for line in output.lines().map_while(Result::ok) {
        if line.contains("refused ") {
            refused += 1;
            if is_full && refused > 50 {
                is_full = false;
                let pid = child.id().to_string();
                let raised =
                    Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited"]).status();
                assert!(raised.unwrap().success());
            }
        } else if let Some(name) = acknowledged(line) {
            written.insert(name);
            if !is_full && written.len() > 200 {
                child.kill().unwrap();
            }
        }
    }
    child.wait().unwrap();
    assert!(!is_full, "the disk was never full; {} events were written", written.len());
    let names = names_in(&path);
    assert!(written.is_subset(&names));
    let whole = verify_log(&path).unwrap();
    assert!(whole.missing_events >= refused.min(50), "{whole:?}, {refused} refused");
}

#[test]
fn a_slow_disk_makes_callers_wait() {
    if Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
        assert!(env::var("CI").is_err(), "strace is not installed");
        eprintln!("SKIPPED: strace is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let strace = format!(
        "AUDIT_TEST_EVENTS=5 exec strace -qq -f -o /dev/null -P '{}' -e trace=write -e inject=write:delay_enter=100000",
        path.display()
    );
    let (mut child, output) = start(&path, 0, &strace);
    let began = Instant::now();
    let written: Vec<_> = output.lines().map_while(Result::ok).filter_map(acknowledged).collect();
    // Four callers at a time: twenty events take at least four writes after the first.
    let took = began.elapsed();
    child.wait().unwrap();
    assert_eq!(written.len(), 20);
    assert!(took > Duration::from_millis(400), "{took:?}");
    let names = names_in(&path);
    assert!(written.iter().all(|name| names.contains(name)));
}
