//! A thousand documents of several formats, indexed by the binary, found and cited through the
//! official TypeScript clients.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    corpus,
    programs::{Need, Served, have, here, marquetry},
};

/// The output of `clients/knowledge.mjs` for one question.
#[derive(Deserialize)]
struct Answer {
    sources: Vec<String>,
    problems: Vec<String>,
}

#[test]
fn a_thousand_documents_are_found_and_cited() {
    if !have(&[Need::Program("node"), Need::Installed("node_modules")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (documents, database) = (folder.path().join("documents"), folder.path().join("k.db"));
    let questions = corpus::make(&documents);
    let config = folder.path().join("marquetry.toml");
    let toml = format!("[knowledge]\ndatabase = {:?}\n", database.to_str().unwrap());
    fs::write(&config, toml).unwrap();

    let report = index(&config, &documents);
    assert_eq!(
        (&report["files"], &report["failed"]),
        (&json!(corpus::COUNT), &json!(0)),
        "{report}"
    );
    assert_eq!(report["indexed"], corpus::COUNT, "{report}");
    eprintln!(
        "{} documents, {} chunks, {} bytes in {} s; the database has {} bytes",
        report["indexed"],
        report["chunks"],
        report["bytes"],
        report["seconds"],
        fs::metadata(&database).unwrap().len(),
    );
    let again = index(&config, &documents);
    assert_eq!(
        (&again["indexed"], &again["unchanged"]),
        (&json!(0), &json!(corpus::COUNT)),
        "{again}"
    );

    let served = Served::start(&["--config", config.to_str().unwrap()]);
    for sdk in [1, 2] {
        let texts: Vec<&str> = questions.iter().map(|(question, _)| question.as_str()).collect();
        let answers = ask(&json!({ "sdk": sdk, "url": served.url, "questions": texts }));
        assert_eq!(answers.len(), questions.len());
        let mut missed = Vec::new();
        for (answer, (question, path)) in answers.iter().zip(&questions) {
            assert!(answer.problems.is_empty(), "{question}: {:#?}", answer.problems);
            let wanted = uri_of(&config, path);
            if !answer.sources.contains(&wanted) {
                missed.push((question, path));
            }
        }
        // Each question consists of words of its document. Some documents are nearly the same.
        assert!(missed.len() * 20 <= questions.len(), "TypeScript {sdk}: {missed:#?}");
        eprintln!(
            "TypeScript {sdk}: {} of {} found",
            questions.len() - missed.len(),
            questions.len()
        );
    }
}

fn index(config: &Path, documents: &Path) -> Value {
    let output = Command::new(marquetry())
        .args(["index", "--json", "--config"])
        .args([config, documents])
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the URI of a file, as the program prints it.
fn uri_of(config: &Path, path: &PathBuf) -> String {
    let mut search = Command::new(marquetry());
    search.args(["search", "--json", "--limit", "1", "--config"]).arg(config);
    let output = search.arg("--scope").arg(path).arg("the").output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let uri = found["hits"][0]["uri"].as_str();
    uri.unwrap_or_else(|| panic!("{path:?} is not found: {found}")).to_owned()
}

fn ask(job: &Value) -> Vec<Answer> {
    let mut child = Command::new("node")
        .arg(here().join("clients/knowledge.mjs"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(job.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "the client failed");
    serde_json::from_slice(&output.stdout).unwrap()
}
