//! Scenarios can fail: those that a defect touches do.
//!
//! Defects of artifacts are put into the server's store. The others are put between the server and those who ask it, by a proxy that damages
//! what goes through: what the runner compares came over the wire so. That the server itself computes a wrong answer is not tried here.

use std::{collections::BTreeSet, process::Command};

use serde_json::Value;

/// Scenarios of seed 000 in which nothing is saved, so that no defect of artifacts can show.
const NOTHING_SAVED: [&str; 3] = [
    "test_mcp_trigger_below_thresholds",
    "test_mcp_llm_response_save_failed",
    "test_mcp_no_fallback_on_error",
];

/// Scenarios of seed 000 in which no text of the tool's is shown: there is none, or it is in a resource.
const NO_TEXT: [&str; 9] = [
    "small_image_is_saved",
    "test_mcp_audio_processing_mp3",
    "test_mcp_audio_processing_wav",
    "test_mcp_image_processing_jpeg",
    "test_mcp_image_processing_png",
    "test_mcp_resource_processing_uri_only",
    "test_mcp_resource_processing_with_binary",
    "test_mcp_resource_processing_with_text",
    "test_mcp_trigger_non_text_content",
];

/// One cell of the matrix shows it.
const CELL: &str = "http/2025-11-25/memory";

#[test]
fn a_changed_byte_is_noticed() {
    check("changed-byte", "000", &NOTHING_SAVED);
}

#[test]
fn a_missing_artifact_is_noticed() {
    check("missing-artifact", "000", &NOTHING_SAVED);
}

#[test]
fn an_extra_artifact_is_noticed() {
    check("extra-artifact", "000", &NOTHING_SAVED);
}

#[test]
fn a_wrong_mime_type_is_noticed() {
    check("wrong-mime-type", "000", &NOTHING_SAVED);
}

#[test]
fn a_wrong_status_is_noticed() {
    // Where nothing is captured there is no report with a status.
    check("wrong-status", "000", &["test_mcp_trigger_below_thresholds"]);
    check("wrong-status", "002", &[]);
}

#[test]
fn an_extra_item_of_content_is_noticed() {
    check("extra-content", "000", &[]);
}

#[test]
fn a_missing_item_of_content_is_noticed() {
    check("missing-content", "000", &[]);
}

#[test]
fn a_wrong_notice_is_noticed() {
    // Where nothing is captured there is no notice.
    check("wrong-notice", "000", &["test_mcp_trigger_below_thresholds"]);
}

#[test]
fn a_text_that_ends_differently_is_noticed() {
    check("wrong-text", "000", &NO_TEXT);
}

#[test]
fn what_is_wrong_in_the_protocol_is_noticed() {
    let by_hand =
        ["batches", "answers_survive_a_broken_stream", "duplicate_ids_are_refused"].as_slice();
    let texts = [
        "basics_in_every_revision",
        "oversize_is_refused_and_the_connection_goes_on",
        "slow_readers_hold_nobody_up",
        "questions_cross_the_eras",
    ];
    let news = ["cancellation_reaches_the_upstream", "questions_cross_the_eras"];
    for (sabotage, cell, scenarios) in [
        ("wrong-status", "/http/2025-03-26", by_hand),
        ("lost-message", "/http/2025-03-26", by_hand),
        ("wrong-text", "/http/2026-07-28", &texts),
        ("lost-news", "/http/2026-07-28", &news),
    ] {
        let filters = scenarios.iter().map(|id| format!("{id}{cell}"));
        let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(["test-scenarios", "--format", "json", "--sabotage", sabotage])
            .args(filters)
            .output()
            .expect("xtask runs");
        let rows: Vec<Value> = serde_json::from_slice(&output.stdout).expect("a JSON report");
        assert_eq!(rows.len(), scenarios.len(), "{rows:?}");
        for row in &rows {
            assert_eq!(row["status"], "failed", "{sabotage}: {row}");
        }
    }
}

/// Runs the scenarios with a defect; of that seed all must fail but the untouched ones.
#[track_caller]
fn check(sabotage: &str, seed: &str, untouched: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["test-scenarios", "--format", "json", "--sabotage", sabotage, "--cell", CELL, seed])
        .output()
        .expect("xtask runs");
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).expect("a JSON report");
    let of = |status: &str| -> BTreeSet<&str> {
        rows.iter()
            .filter(|row| row["status"] == status)
            .filter_map(|row| row["id"].as_str())
            .collect()
    };
    assert_eq!(of("passed"), untouched.iter().copied().collect());
    assert!(of("failed").len() >= 8, "{rows:?}");
}
