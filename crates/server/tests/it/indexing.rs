//! `marquetry index`, `search` and `records` as users see them.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use marquetry_protocol::{Revision, client::ClientOptions};
use serde_json::{Value, json};

use crate::support::{Running, call, token_of, users_toml};

/// A folder with documents and a database beside them.
struct World {
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// The program, with this folder as its home.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_marquetry"));
        command.args(arguments).current_dir(self.folder.path());
        command.env("XDG_DATA_HOME", self.path("data")).env("HOME", self.folder.path());
        command.env("XDG_CONFIG_HOME", self.path("config")).env_remove("MARQUETRY_CONFIG");
        command.env_remove("RUST_BACKTRACE");
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Returns the program's output as JSON, with its exit code.
    fn json(&self, arguments: &[&str]) -> (Value, i32) {
        let output = self.run(&[arguments, &["--json"]].concat());
        let stdout = String::from_utf8(output.stdout).unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout}{stderr}"));
        (value, output.status.code().unwrap())
    }

    fn count(&self, arguments: &[&str], member: &str) -> u64 {
        self.json(arguments).0[member].as_u64().unwrap()
    }
}

/// Checks that a copy of the database's file, without the files beside it, has as many passages
/// with this word.
#[track_caller]
fn check_copy(world: &World, word: &str, passages: usize) {
    let copy = world.path(&format!("{word}.db"));
    fs::copy(world.path("data/marquetry/knowledge.db"), &copy).unwrap();
    let (found, _) = world.json(&["search", word, "--database", copy.to_str().unwrap()]);
    let hits = found["hits"].as_array().unwrap();
    let with_word = |hit: &&Value| hit["keywordRank"].is_u64();
    assert_eq!(hits.iter().filter(with_word).count(), passages, "{found}");
}

#[track_caller]
fn check(output: &Output, code: i32, stdout: &str, stderr: &str) {
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{out}{err}");
    assert!(out.contains(stdout), "{out:?} has no {stdout:?}");
    assert!(err.contains(stderr), "{err:?} has no {stderr:?}");
}

#[test]
fn skipped_and_failed_files_are_named() {
    let world = World::new();
    for number in 0..7 {
        world.write(&format!("in/{number}.bin"), (0..=255).collect::<Vec<u8>>());
    }
    world.write("in/large.txt", "x".repeat((1 << 20) + 1));
    let skipped = |name: &str| {
        let path = world.path(name);
        format!("skipped: {}: the format application/octet-stream is not supported", path.display())
    };
    let lines = |arguments: &[&str]| -> Vec<String> {
        let output = world.run(arguments);
        let lines = String::from_utf8_lossy(&output.stderr).into_owned();
        lines.lines().filter(|line| line.contains("skipped")).map(str::to_owned).collect()
    };
    let found = lines(&["index", "in"]);
    assert_eq!(found.len(), 6, "{found:?}");
    assert_eq!(found[5], "more files are skipped; --verbose lists them all");
    assert_eq!(lines(&["index", "in", "--verbose"]).len(), 7);
    let named: Vec<String> = (0..7).map(|number| format!("in/{number}.bin")).collect();
    let arguments: Vec<&str> =
        ["index"].into_iter().chain(named.iter().map(String::as_str)).collect();
    let mut found = lines(&arguments);
    found.sort();
    assert_eq!(found, named.iter().map(|name| skipped(name)).collect::<Vec<_>>());

    let output = world.run(&["index", "in/large.txt", "--max-file-size", "1"]);
    check(
        &output,
        1,
        "",
        "the limit max_bytes is 1048576, the document has 1048577 or more (--max-file-size)",
    );
}

/// A file with content that gives no text must not look like a success.
#[test]
fn scans_fail_and_parts_that_are_not_read_are_named() {
    let world = World::new();
    world.write("in/empty.txt", "");
    check(&world.run(&["index", "in"]), 0, "  skipped: 1 empty file\n", "");
    let head = "Subject: Bread\nContent-Type: multipart/mixed; boundary=x\n\n";
    let parts =
        "--x\n\nIt rises.\n--x\nContent-Disposition: attachment; filename=a.pdf\n\n-\n--x--\n";
    world.write("in/mail.eml", format!("{head}{parts}"));
    let output = world.run(&["index", "in"]);
    check(&output, 0, "  incomplete: 1 file indexed without a part of what a reader sees\n", "");
    let path = world.path("in/mail.eml");
    check(&output, 0, "", &format!("warning: {}: 1 attachments are not read", path.display()));
    let scan = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj \
        2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj \
        3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R>>endobj \
        4 0 obj<</Length 49>>stream\n9 0 0 9 0 0 cm BI /W 1 /H 1 /BPC 8 /CS /G ID \x80 EI\nendstream endobj \
        trailer<</Root 1 0 R>>";
    world.write("in/scan.pdf", scan);
    let why = "no text was found in it: page 1 has pictures and no text; text in pictures is not recognised";
    let output = world.run(&["index", "in"]);
    check(&output, 1, ", 1 failed\n", &format!("{}: {why}", world.path("in/scan.pdf").display()));
    let (report, code) = world.json(&["index", "in", "--dry-run"]);
    assert_eq!(
        (&report["failed"], &report["failures"][0]["code"], code),
        (&json!(1), &json!("unread"), 1)
    );
}

#[test]
fn indexed_files_are_found_shown_and_removed() {
    let world = World::new();
    world.write("notes/bread.md", "# Bread\n\nBread is made of flour, water and salt.");
    world.write("notes/wine.txt", "Wine is made of grapes.");
    world.write(
        "notes/picture.png",
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0",
    );
    let output = world.run(&["index", "notes", "--tag", "food"]);
    check(&output, 0, "3 files: 2 new, 0 changed, 0 unchanged, 1 skipped\n", "");
    check(&output, 0, "  skipped: 1 of formats that are not read\n", "");
    check_copy(&world, "flour", 1);
    check(
        &world.run(&["index", "notes"]),
        0,
        "3 files: 0 new, 0 changed, 2 unchanged, 1 skipped\n",
        "",
    );

    let output = world.run(&["search", "what", "is", "bread", "made", "of"]);
    check(&output, 0, "1. Bread\n   # Bread Bread is made of flour, water and salt.\n", "");
    check(
        &output,
        0,
        &format!("   {} · chunk 1 of 1 · score 0.", world.path("notes/bread.md").display()),
        "",
    );
    assert!(!String::from_utf8_lossy(&output.stdout).contains('\u{1b}'));
    let (found, code) = world.json(&["search", "grapes", "--limit", "1", "--tag", "food"]);
    assert_eq!(code, 0);
    let hit = &found["hits"][0];
    assert_eq!(hit["content"], "Wine is made of grapes.");
    assert_eq!(hit["highlights"], serde_json::json!([[16, 22]]));
    assert!(hit["source"].as_str().unwrap().ends_with("/notes/wine.txt"));
    // A scope is a URI, or a file.
    for scope in ["notes/bread.md", hit["uri"].as_str().unwrap()] {
        let (found, _) = world.json(&["search", "made", "--scope", scope]);
        assert_eq!(found["hits"].as_array().unwrap().len(), 1, "{scope}");
    }
    let uri = hit["uri"].as_str().unwrap();
    check(
        &world.run(&["records", "show", uri]),
        0,
        "wine.txt\n  uri             am7://default/data.data/",
        "",
    );
    check(&world.run(&["records", "show", uri, "--content"]), 0, "Wine is made of grapes.", "");
    check(&world.run(&["records", "list", "--type", "data.data"]), 0, "\n2 records\n", "");
    check(
        &world.run(&["records", "list", "--type", "data.dota"]),
        2,
        "",
        "did you mean data.data?",
    );
    check(&world.run(&["records", "delete", uri]), 0, "(wine.txt), 1 chunk\n", "");
    check_copy(&world, "grapes", 0);
    check(&world.run(&["records", "delete", uri]), 1, "", "error: no record am7://");
    assert_eq!(world.json(&["search", "grapes"]).0["hits"].as_array().unwrap().len(), 1);
    check(&world.run(&["records", "types"]), 0, "data.note", "");
}

#[test]
fn wrong_arguments_are_named() {
    let world = World::new();
    world.write("a.md", "One.");
    check(
        &world.run(&["search", "x"]),
        1,
        "",
        "knowledge.db does not exist yet; `marquetry index PATH…` creates it from your files",
    );
    check(&world.run(&["records", "list"]), 1, "", "error: the database ");
    check(&world.run(&["index"]), 2, "", "<PATH>...");
    check(
        &world.run(&["index", "a.md", "--chunk-size", "0"]),
        2,
        "",
        "--chunk-size: the chunk size is 0; it must be at least 1",
    );
    check(
        &world.run(&["index", "a.md", "--overlap", "5"]),
        2,
        "",
        "--overlap: 5 is not smaller than the chunk size 5",
    );
    check(
        &world.run(&["index", "a.md", "--chunk", "page"]),
        2,
        "",
        "possible values: sentence, word, chapter",
    );
    // The commands before have created nothing.
    assert!(!world.path("data").exists());
    check(&world.run(&["index", "a.md", "--dry-run"]), 0, "1 file: 1 would be new", "");
    assert!(!world.path("data").exists());
    check(
        &world.run(&["index", "a.md", "missing.md", "/dev/null", "--within", "."]),
        1,
        "1 new",
        "missing.md: there is no such file or directory",
    );
    check(
        &world.run(&["index", "/etc", "--within", "."]),
        1,
        "",
        "error: /etc: outside of the folders that may be indexed (.)",
    );
    check(&world.run(&["search", ""]), 2, "", "the question is empty");
    check(
        &world.run(&["search", "x", "-n", "0"]),
        2,
        "",
        "--limit: 0 asks for no passage; expected 1 to 1000",
    );
    check(
        &world.run(&["search", "x", "--limit", "1001"]),
        2,
        "",
        "--limit: 1001 hits are more than the maximum of 1000",
    );
    check(
        &world.run(&["search", "x", "--scope", "b.md"]),
        1,
        "",
        "--scope: b.md is not an indexed document",
    );
    check(&world.run(&["search", "x", "--tag", "none"]), 1, "", "no tag \"none\"");
    let mut child = world
        .command(&["search", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The reader may stop before everything is written.
    _ = child.stdin.take().unwrap().write_all(&vec![b'x'; 1 << 20]);
    check(&child.wait_with_output().unwrap(), 2, "", "the question has more than 65536 bytes");
}

#[test]
fn questions_tags_and_uris_have_no_syntax() {
    let world = World::new();
    world.write("a.md", "Robert'); DROP TABLE students;-- said NEAR(\"a\" OR b*).");
    let hostile = [
        "'; DROP TABLE rag_document; --",
        "\" OR 1=1",
        "a* NEAR(b) AND NOT ^x:{}",
        "%' UNION SELECT *",
        "\u{0}",
        "`$(rm)`",
    ];
    for tag in hostile.iter().filter(|tag| !tag.contains('\0')) {
        check(&world.run(&["index", "a.md", "--tag", tag]), 0, "1 file: ", "");
        let (found, _) = world.json(&["search", "students", "--tag", tag]);
        assert_eq!(found["hits"].as_array().unwrap().len(), 1, "{tag}");
    }
    for question in hostile.iter().filter(|question| !question.contains('\0')) {
        assert_eq!(world.run(&["search", question]).status.code(), Some(0), "{question}");
    }
    for uri in [
        "am7://default/data.data/' OR '1'='1",
        "am7://default/../x/y",
        "am7://x",
        "am7://other/data.data/1",
    ] {
        let output = world.run(&["records", "show", uri]);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{uri}");
        assert_eq!(world.run(&["search", "x", "--scope", uri]).status.code(), Some(1), "{uri}");
    }
    check(&world.run(&["search", "students"]), 0, "1 passage in", "");
}

#[cfg(unix)]
#[test]
fn unreadable_folders_and_files_are_reported_and_indexing_continues() {
    use std::os::unix::{fs::PermissionsExt as _, process::CommandExt as _};
    let world = World::new();
    world.write("in/a.md", "One.");
    world.write("in/closed/b.md", "Two.");
    world.write("in/c.md", "Three.");
    let mode = |name: &str, mode| {
        fs::set_permissions(world.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("", 0o777);
    mode("in/closed", 0);
    mode("in/c.md", 0);
    let mut command = world.command(&["index", "in"]);
    let is_root = fs::read("/proc/self/status")
        .is_ok_and(|status| String::from_utf8_lossy(&status).contains("\nUid:\t0\t"));
    if is_root {
        // Root can read everything, so the program runs as the user `nobody`.
        command.uid(65_534).gid(65_534);
    }
    let output = command.output().unwrap();
    mode("in/closed", 0o755);
    check(
        &output,
        1,
        "3 files: 1 new, 0 changed, 0 unchanged, 2 failed",
        "in/closed: it cannot be read: permission denied",
    );
    check(&output, 1, "", "in/c.md: it cannot be read: Permission denied");
    check(&output, 1, "", "error: 2 files were not indexed\n");
}

#[test]
fn two_that_index_and_one_that_searches_come_to_the_same() {
    let world = World::new();
    for number in 0..120 {
        world.write(
            &format!("in/{number}.md"),
            format!("# Number {number}\n\nThis is what number {number} says."),
        );
    }
    world.write("first/a.md", "One.");
    world.run(&["index", "first"]);
    let spawn = || {
        world
            .command(&["index", "in", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let both = [spawn(), spawn()];
    for _ in 0..3 {
        check(&world.run(&["search", "number"]), 0, "", "");
    }
    for child in both {
        check(&child.wait_with_output().unwrap(), 0, "\"failed\":0", "");
    }
    assert_eq!(world.count(&["index", "in"], "unchanged"), 120);
    let (records, _) = world.json(&["records", "list", "--type", "data.data", "-n", "1000"]);
    assert_eq!(records["records"].as_array().unwrap().len(), 121);
    let (found, _) = world.json(&["search", "number", "-n", "1000", "--distinct"]);
    assert_eq!(found["hits"].as_array().unwrap().len(), 121);
}

/// SIGKILL at seeded moments: each document has all its chunks or none, and the next run completes
/// the index.
#[cfg(unix)]
#[test]
fn a_killed_index_leaves_each_file_whole() {
    const FILES: u64 = 60;
    let world = World::new();
    let text = |number: u64, version: u64| {
        (0..40)
            .map(|line| format!("Sentence {line} of file {number} in version {version}. "))
            .collect::<String>()
    };
    // Numbers that depend only on the seed (a linear congruential generator).
    let mut random = 7_u64;
    let mut below = |limit: u64| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % limit
    };
    let arguments = ["index", "in", "--chunk-size", "2"];
    let mut killed = 0;
    let longest = {
        for number in 0..FILES {
            world.write(&format!("in/{number}.txt"), text(number, 0));
        }
        let started = Instant::now();
        assert!(world.run(&arguments).status.success());
        started.elapsed()
    };
    for version in 1..=8 {
        for number in 0..FILES {
            world.write(&format!("in/{number}.txt"), text(number, version));
        }
        let mut child =
            world.command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let moment = longest.mul_f64(below(1_000) as f64 / 1_000.0);
        std::thread::sleep(moment);
        killed += u64::from(matches!(child.try_wait(), Ok(None)));
        child.kill().unwrap();
        child.wait().unwrap();
        let (found, code) =
            world.json(&["search", "sentence", "-n", "1000", "--scope", "in/0.txt"]);
        assert_eq!(code, 0);
        whole(&found["hits"], version);
    }
    assert!(killed >= 2, "only {killed} of 8 were killed before they had ended");
    let (report, code) = world.json(&arguments);
    assert_eq!((code, &report["failed"]), (0, &Value::from(0)), "{report}");
    for number in 0..FILES {
        let (found, _) = world.json(&[
            "search",
            "sentence",
            "-n",
            "1000",
            "--scope",
            &format!("in/{number}.txt"),
        ]);
        assert_eq!(whole(&found["hits"], 8), 8);
    }
    assert_eq!(world.count(&arguments, "unchanged"), FILES);
}

/// Checks that all chunks of a document have the same version, and returns it.
#[track_caller]
fn whole(hits: &Value, newest: u64) -> u64 {
    let hits = hits.as_array().unwrap();
    assert_eq!(hits.len(), 20);
    let version = |hit: &Value| {
        let content = hit["content"].as_str().unwrap().to_owned();
        content.split("version ").nth(1).unwrap().split('.').next().unwrap().parse::<u64>().unwrap()
    };
    let first = version(&hits[0]);
    assert!(first <= newest);
    assert!(
        hits.iter().all(|hit| version(hit) == first && hit["chunk"]["count"] == 20),
        "{hits:?}"
    );
    first
}

#[cfg(unix)]
#[test]
fn watching_follows_changes_until_a_signal() {
    let world = World::new();
    world.write("in/a.md", "One.");
    // Files that are not indexed change no later report.
    world.write("in/bad.pdf", "%PDF-1.7 and no more");
    world.write("in/data.bin", (0..=255).collect::<Vec<u8>>());
    let mut child = world
        .command(&["index", "in", "--watch", "--prune", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut next = || {
        let report = serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
        let refused = (&report["failed"], &report["skipped"]["unsupported"]);
        assert_eq!(refused, (&Value::from(1), &Value::from(1)), "{report}");
        report
    };
    assert_eq!(next()["indexed"], 1);
    world.write("in/b.md", "Two.");
    assert_eq!(next()["indexed"], 1);
    world.write("in/a.md", "Three.");
    assert_eq!(next()["changed"], 1);
    fs::remove_file(world.path("in/b.md")).unwrap();
    assert_eq!(next()["removed"], 1);
    Command::new("kill").arg(child.id().to_string()).status().unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < end, "it goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(child.wait().unwrap().success());
    check_copy(&world, "three", 1);
    let found = world.json(&["search", "three"]).0;
    assert!(Path::new(found["hits"][0]["source"].as_str().unwrap()).ends_with("in/a.md"));
}

#[cfg(unix)]
#[test]
fn file_names_with_line_breaks_stay_on_one_line() {
    let world = World::new();
    world.write("in/bad\nerror: \u{1b}[31mall is lost.pdf", "%PDF-1.7 and no more");
    let output = world.run(&["index", "in"]);
    check(&output, 1, "1 file: ", "/bad\\nerror: \\u{1b}[31mall is lost.pdf: ");
    let lines = String::from_utf8(output.stderr).unwrap().lines().count();
    assert_eq!(lines, 2);
}

#[test]
fn files_that_are_hidden_or_ignored_now_stay_indexed() {
    let world = World::new();
    world.write("in/a.md", "One.");
    world.write("in/.diary.md", "Two.");
    world.write("in/gone.md", "Three.");
    world.write("in/later.md", "Four.");
    check(&world.run(&["index", "in", "in/.diary.md"]), 0, "4 files: 4 new", "");
    world.write("in/.gitignore", "later.md");
    fs::remove_file(world.path("in/gone.md")).unwrap();
    let output = world.run(&["index", "in"]);
    check(&output, 0, "  1 indexed file no longer exists; --prune removes it\n", "");
    let excluded = "  2 indexed files are hidden or ignored now, and stay in the index\n";
    check(&output, 0, excluded, "");
    let output = world.run(&["index", "in", "--prune"]);
    check(&output, 0, "1 removed", "");
    check(&output, 0, excluded, "");
    for (question, count) in [("one", 1), ("two", 1), ("three", 0), ("four", 1)] {
        let (found, _) = world.json(&["search", question]);
        let hits = found["hits"].as_array().unwrap().iter();
        let hits =
            hits.filter(|hit| hit["content"].as_str().unwrap().to_lowercase().contains(question));
        assert_eq!(hits.count(), count, "{question}");
    }
}

#[cfg(unix)]
#[test]
fn a_named_link_and_a_url_are_refused_by_their_own_names() {
    let world = World::new();
    world.write("target.md", "One.");
    std::os::unix::fs::symlink(world.path("target.md"), world.path("link.md")).unwrap();
    let skipped = format!("skipped: {}: a symbolic link", world.path("link.md").display());
    check(&world.run(&["index", "link.md"]), 0, "", &skipped);
    let problem =
        "https://example.com/a: not a file URI of this machine: documents are not fetched";
    check(&world.run(&["index", "https://example.com/a"]), 1, "", problem);
    check(&world.run(&["index", "target.md", "--max-file-size", "0"]), 2, "", "--max-file-size");
}

#[test]
fn a_missing_folder_is_neither_pruned_nor_watched() {
    let world = World::new();
    world.write("in/a.md", "One.");
    check(&world.run(&["index", "in"]), 0, "1 file: 1 new", "");
    fs::rename(world.path("in"), world.path("elsewhere")).unwrap();
    let missing = "in: there is no such file or directory";
    check(&world.run(&["index", "in", "--prune"]), 1, "1 file: ", missing);
    let watching = world.run(&["index", "in", "--prune", "--watch"]);
    check(&watching, 1, "", "in: there is no such file or directory\nerror: failed to watch");
    assert_eq!(world.json(&["search", "one"]).0["hits"].as_array().unwrap().len(), 1);
}

#[test]
fn paths_that_do_not_exist_create_no_database() {
    let world = World::new();
    let missing = "nothere: there is no such file or directory";
    check(&world.run(&["index", "nothere"]), 1, "1 file: ", missing);
    assert!(!world.path("data").exists());
    world.write("a.md", "One.");
    check(&world.run(&["index", "nothere", "a.md"]), 1, "1 new", missing);
    assert!(world.path("data/marquetry/knowledge.db").exists());
}

#[cfg(unix)]
#[test]
fn watching_without_prune_warns_that_deleted_files_stay() {
    let world = World::new();
    world.write("in/a.md", "One.");
    for (arguments, want) in [
        (
            &["index", "in", "--watch"][..],
            "watching for changes; Ctrl-C stops it; files that are deleted stay indexed without --prune",
        ),
        (&["index", "in", "--watch", "--prune"], "watching for changes; Ctrl-C stops it"),
    ] {
        let mut child = world.command(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
        let line = lines.map(Result::unwrap).find(|line| line.starts_with("watching"));
        assert_eq!(line.as_deref(), Some(want));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn a_file_that_is_not_a_database_is_named() {
    let world = World::new();
    world.write("in/a.md", "One.");
    let folder = world.path("in");
    for (database, problem) in [
        (folder.to_str().unwrap(), "is a folder\n"),
        ("/dev/null", "is not a regular file\n"),
        ("", "the name of the database is empty\n"),
        ("sqlite:knowledge.db", "no database has the scheme \"sqlite\": give a path"),
    ] {
        for command in ["index", "search"] {
            let output = world.run(&[command, "in", "--database", database]);
            check(&output, 1, "", problem);
        }
    }
    let names = |folder| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names(world.path("in")).collect::<Vec<_>>(), ["a.md"]);
    assert_eq!(names(world.path("")).collect::<Vec<_>>(), ["in"]);
}

#[cfg(unix)]
#[test]
fn a_read_only_database_is_searched() {
    use std::os::unix::{fs::PermissionsExt as _, process::CommandExt as _};
    let world = World::new();
    world.write("in/a.md", "Bread is flour and water.");
    check(&world.run(&["index", "in", "--database", "closed/knowledge.db"]), 0, "1 new", "");
    let mode = |name: &str, mode| {
        fs::set_permissions(world.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    let is_root = fs::read("/proc/self/status")
        .is_ok_and(|status| String::from_utf8_lossy(&status).contains("\nUid:\t0\t"));
    let run = |arguments: &[&str]| {
        let mut command =
            world.command(&[arguments, &["--database", "closed/knowledge.db"]].concat());
        if is_root {
            // Root can read everything, so the program runs as the user `nobody`.
            command.uid(65_534).gid(65_534);
        }
        command.output().unwrap()
    };
    mode("", 0o777);
    for (folder, file) in [(0o555, 0o644), (0o777, 0o444), (0o555, 0o444)] {
        mode("closed/knowledge.db", file);
        mode("closed", folder);
        let before = fs::read(world.path("closed/knowledge.db")).unwrap();
        let output = run(&["search", "flour"]);
        check(&output, 0, "1 passage in", "");
        let output = run(&["records", "list", "--type", "data.data", "--json"]);
        let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
        let uri = listed["records"][0]["uri"].as_str().unwrap_or_else(|| panic!("{listed}"));
        check(&run(&["records", "show", uri]), 0, "a.md", "");
        check(&run(&["records", "delete", uri]), 1, "", "the database");
        mode("closed", 0o755);
        assert!(fs::read(world.path("closed/knowledge.db")).unwrap() == before);
        assert_eq!(fs::read_dir(world.path("closed")).unwrap().count(), 1);
    }
}

#[test]
fn a_database_of_another_program_is_not_changed() {
    let world = World::new();
    world.write("in/a.md", "One.");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let path = world.path("photos.db");
    runtime.block_on(async {
        let database = libsql::Builder::new_local(&path).build().await.unwrap();
        database.connect().unwrap().execute("CREATE TABLE photo (name TEXT)", ()).await.unwrap();
    });
    let before = fs::read(&path).unwrap();
    for command in ["index", "search"] {
        let output = world.run(&[command, "in", "--database", "photos.db"]);
        let wanted = "photos.db: it is a database of another program, with a table \"photo\"; name another file\n";
        check(&output, 1, "", wanted);
    }
    assert!(fs::read(&path).unwrap() == before);
}

#[test]
fn a_search_repairs_a_database_after_a_crash() {
    use marquetry_rag::{Caller, ContentChange, LibsqlRecords, RecordPatch, Records};
    let world = World::new();
    world.write("in/a.md", "The mill grinds wheat.");
    world.write("in/b.md", "The mill stands still.");
    check(&world.run(&["index", "in"]), 0, "2 new", "");
    let (found, _) = world.json(&["search", "mill"]);
    let uri = |word: &str| {
        let hits = found["hits"].as_array().unwrap();
        let hit = hits.iter().find(|hit| hit["content"].as_str().unwrap().contains(word)).unwrap();
        hit["uri"].as_str().unwrap().to_owned()
    };
    let changed = uri("wheat");
    let removed = uri("still");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let path = world.path("data/marquetry/knowledge.db");
        let records = Records::new(std::sync::Arc::new(LibsqlRecords::open(path).await.unwrap()));
        let local = Caller::new("default", "local").unwrap();
        let mut patch = RecordPatch::new();
        patch.content = ContentChange::Set(b"The mill grinds rye.".to_vec());
        records.update(&local, &changed, patch).await.unwrap();
        records.delete(&local, &removed, None).await.unwrap();
    });
    let (found, _) = world.json(&["search", "mill"]);
    let hits: Vec<_> =
        found["hits"].as_array().unwrap().iter().map(|hit| &hit["content"]).collect();
    assert_eq!(hits, ["The mill grinds rye."]);
}

#[test]
fn records_are_listed_without_the_model_that_makes_vectors() {
    let world = World::new();
    world.write("in/a.md", "One.");
    world.run(&["index", "in"]);
    // No server listens there.
    world.write(
        "marquetry.toml",
        "[knowledge.embedding]\nprovider = 'openai'\nmodel = 'm'\nbase_url = 'http://127.0.0.1:9/v1/'\n",
    );
    let config = ["--config", "marquetry.toml"];
    check(&world.run(&[&["search", "one"], &config[..]].concat()), 1, "", "127.0.0.1:9");
    let list = ["records", "list", "--type", "data.data"];
    check(&world.run(&[&list, &config[..]].concat()), 0, "1 record\n", "");
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_found_by_the_users_and_groups_that_they_name() {
    let world = World::new();
    for name in ["all", "ann", "devs", "own"] {
        world.write(&format!("in/{name}.md"), format!("Bread of {name} is flour and water."));
    }
    let users = users_toml(&world.path(""), &["ann", "bob"])
        .replace("[auth.tokens.bob]\n", "[auth.tokens.bob]\ngroups = ['devs']\n");
    let database = world.path("knowledge.db");
    let toml = format!("knowledge.database = '{}'\n{users}", database.display());
    world.write("m.toml", &toml);
    let index = |more: &[&str]| {
        check(&world.run(&[&["index", "--config", "m.toml"], more].concat()), 0, "", "");
    };
    index(&["in"]);
    let warning = "no user with a token can find its 4 documents, which belong to user local";
    check(&world.run(&["check", "--config", "m.toml"]), 0, "", warning);
    // Files that did not change get the readers as well.
    index(&["in/all.md", "--reader", "everyone"]);
    index(&["in/ann.md", "--reader", "ann"]);
    index(&["in/devs.md", "--reader", "group:devs"]);
    // A run without readers takes none away.
    index(&["in"]);
    let output = world.run(&["check", "--config", "m.toml"]);
    let told = String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr);
    assert!(!told.contains("no user with a token"), "{told}");
    check(&world.run(&["index", "in", "--reader", " ", "--config", "m.toml"]), 2, "", "no name");

    let server = Running::start(&toml).await;
    for (name, want) in [("ann", ["all", "ann"]), ("bob", ["all", "devs"])] {
        let token = token_of(name);
        let options = ClientOptions::default();
        let agent = server.agent_of_user(Revision::V2025_11_25, options, Some(&token)).await;
        let query = json!({ "query": "flour and water" });
        let found = call(&agent, "am7_vector_search", query).await.unwrap().to_string();
        for file in ["all", "ann", "devs", "own"] {
            let is_found = found.contains(&format!("Bread of {file} "));
            assert_eq!(is_found, want.contains(&file), "{name} {file}: {found}");
        }
    }
    server.stop().await;
}
