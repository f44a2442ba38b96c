//! Scenarios notice defects: those that a defect affects fail.
//!
//! Defects of artifacts are injected into the server's store. The others are injected by a proxy
//! between the server and its clients, so the runner still compares what it received over the wire.
//! Wrong results of the server itself are not tested here.

use std::{collections::BTreeSet, process::Command};

use serde_json::Value;

/// Scenarios of seed 000 without artifacts, which a defect of artifacts does not affect.
const NOTHING_SAVED: [&str; 3] = [
    "test_mcp_trigger_below_thresholds",
    "test_mcp_llm_response_save_failed",
    "test_mcp_no_fallback_on_error",
];

/// Scenarios of seed 000 that show no text of the tool: the text does not exist, or is in a
/// resource.
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

/// One cell of the matrix is enough.
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
    // Without a capture there is no report with a status.
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
    // Without a capture there is no notice.
    check("wrong-notice", "000", &["test_mcp_trigger_below_thresholds"]);
}

#[test]
fn a_text_that_ends_differently_is_noticed() {
    check("wrong-text", "000", &NO_TEXT);
}

#[test]
fn defects_of_the_protocol_are_noticed() {
    let by_hand =
        ["batches", "answers_survive_a_broken_stream", "duplicate_ids_are_refused"].as_slice();
    let texts = [
        "basics_in_every_revision",
        "oversize_is_refused_and_the_connection_goes_on",
        "slow_readers_hold_nobody_up",
        "questions_cross_the_eras",
    ];
    let client_messages = ["cancellation_reaches_the_upstream", "questions_cross_the_eras"];
    for (sabotage, cell, scenarios) in [
        ("wrong-status", "/http/2025-03-26", by_hand),
        ("lost-message", "/http/2025-03-26", by_hand),
        ("wrong-text", "/http/2026-07-28", &texts),
        ("lost-client-messages", "/http/2026-07-28", &client_messages),
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

/// Runs the scenarios of a seed with a defect. All must fail except `untouched`.
#[track_caller]
fn check(sabotage: &str, seed: &str, untouched: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["test-scenarios", "--format", "json", "--sabotage", sabotage, "--cell", CELL, seed])
        .output()
        .expect("xtask runs");
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).expect("a JSON report");
    assert_eq!(ids_with(&rows, "passed"), untouched.iter().copied().collect());
    assert!(ids_with(&rows, "failed").len() >= 8, "{rows:?}");
}

fn ids_with<'a>(rows: &'a [Value], status: &str) -> BTreeSet<&'a str> {
    rows.iter().filter(|row| row["status"] == status).filter_map(|row| row["id"].as_str()).collect()
}
