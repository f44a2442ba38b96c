//! Tests of the counters and their file.

use super::*;
use crate::totals::MAX_ROWS;

fn saving(owner: Option<&str>, tool: &str, bytes: u64) -> Saving {
    Saving { owner: owner.map(str::to_owned), tool: tool.to_owned(), bytes, tokens: bytes / 4 }
}

fn shown(rows: &[SavingsRow]) -> Vec<(String, u64, u64, u64)> {
    rows.iter().map(|row| (row.tool.clone(), row.answers, row.bytes, row.tokens)).collect()
}

#[test]
fn days_are_dates() {
    for (day, want) in [
        (0, "1970-01-01"),
        (58, "1970-02-28"),
        (59, "1970-03-01"),
        (11_016, "2000-02-29"),
        (19_723, "2024-01-01"),
        (20_785, "2026-11-28"),
    ] {
        assert_eq!(Day(day).to_string(), want);
    }
    assert_eq!(Day(10).before(1), Day(10));
    assert_eq!(Day(10).before(30), Day(0));
}

#[tokio::test]
async fn figures_add_up_and_belong_to_their_caller() {
    let savings = Savings::start(None);
    savings.add(saving(None, "a", 400));
    savings.add(saving(None, "a", 4));
    savings.add(saving(Some("alice"), "a", 8));
    savings.add(saving(Some("alice"), "b", 800));
    savings.flush().await;
    assert_eq!(shown(&savings.rows(None, 1)), [("a".to_owned(), 2, 404, 101)]);
    let alice = [("b".to_owned(), 1, 800, 200), ("a".to_owned(), 1, 8, 2)];
    assert_eq!(shown(&savings.rows(Some("alice"), 1)), alice);
    assert_eq!(savings.rows(Some("bob"), 400), []);
    let all = [("b".to_owned(), 1, 800, 200), ("a".to_owned(), 3, 412, 103)];
    assert_eq!(shown(&savings.rows_of_all(1)), all);
    assert_eq!(savings.of_this_run().bytes, 1_212);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("savings.db");
    assert_eq!(read(&path, 1).await.unwrap(), []);
    let one = Savings::start(Some(&path));
    let other = Savings::start(Some(&path));
    one.flush().await;
    assert!(!path.exists(), "a server that saves nothing creates no file");
    for _ in 0..3 {
        one.add(saving(None, "a", 100));
        other.add(saving(Some("alice"), "a", 10));
        one.flush().await;
        other.flush().await;
    }
    assert_eq!(shown(&read(&path, 1).await.unwrap()), [("a".to_owned(), 6, 330, 81)]);
    drop((one, other));
    let later = Savings::start(Some(&path));
    later.flush().await;
    assert_eq!(shown(&later.rows(Some("alice"), 1)), [("a".to_owned(), 3, 30, 6)]);
    assert_eq!(later.of_this_run().answers, 0);
}

/// The data folder of a new user is missing.
#[tokio::test(flavor = "multi_thread")]
async fn the_folder_of_the_file_is_created() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/marquetry/savings.db");
    let savings = Savings::start(Some(&path));
    savings.flush().await;
    assert!(!folder.path().join("new").exists());
    savings.add(saving(None, "a", 100));
    savings.flush().await;
    assert_eq!(shown(&read(&path, 1).await.unwrap()), [("a".to_owned(), 1, 100, 25)]);
}

#[tokio::test]
async fn an_empty_file_has_no_figures() {
    let file = tempfile::NamedTempFile::new().unwrap();
    assert_eq!(read(file.path(), 1).await.unwrap(), []);
}

#[test]
fn rows_are_bounded_in_number_and_age() {
    let mut totals = Totals::default();
    for number in 0..MAX_ROWS + 50 {
        totals.add(saving(Some("alice"), &format!("tool {number}"), 1), Day(1_000));
    }
    let rows = totals.rows(None, Day(0));
    assert_eq!(rows.len(), MAX_ROWS + 1);
    assert!(rows.iter().any(|row| row.tool == "(other tools)" && row.answers == 50));
    totals.add(saving(None, "new", 1), Day(1_000 + MAX_DAYS));
    assert_eq!(totals.rows(None, Day(0)).len(), 1);
    let long = "é".repeat(1_000);
    totals.add(saving(Some(&long), &long, 7), Day(1_400));
    assert_eq!(totals.rows(Some(&long), Day(0))[0].bytes, 7);
}
