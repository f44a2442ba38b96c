//! The official clients in front of the binary, over stdio and HTTP, with sessions and without.

use std::{
    collections::BTreeMap,
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    diagrams,
    programs::{Need, Served, have, here, marquetry},
};

/// What a client script prints.
#[derive(Deserialize)]
pub(crate) struct Done {
    tools: Vec<String>,
    pub(crate) results: Vec<Value>,
    /// The messages of the elicitations.
    pub(crate) asked: Vec<String>,
}

pub(crate) struct OfficialClient {
    pub(crate) name: &'static str,
    program: PathBuf,
    script: &'static str,
    pub(crate) mode: &'static str,
}

#[test]
fn official_clients_call_what_plantuml_understands() {
    let needs = [
        Need::Program("node"),
        Need::Program("plantuml"),
        Need::Installed("node_modules"),
        Need::Installed(".venv"),
    ];
    if !have(&needs) {
        return;
    }
    let clients = OfficialClient::all();
    let served = Served::start(&[]);
    let diagrams = diagrams::all();
    assert!(diagrams.len() >= 50);
    let calls: Vec<Value> = diagrams
        .iter()
        .map(|text| json!({ "name": "encodePlantUML", "arguments": { "plantumlCode": text } }))
        .collect();

    let mut codes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for client in &clients {
        let servers = [json!({ "command": [marquetry(), "stdio"] }), json!({ "url": served.url })];
        for server in servers {
            let job = json!({ "server": server, "mode": client.mode, "calls": calls });
            let done = client.run(&job);
            assert!(
                done.tools.iter().any(|tool| tool == "encodePlantUML"),
                "{}: {:?}",
                client.name,
                done.tools
            );
            let got: Vec<String> = done.results.iter().map(code_of).collect();
            codes.insert(format!("{} {server}", client.name), got);
        }
    }

    let all: Vec<&Vec<String>> = codes.values().collect();
    assert_eq!(all.len(), 8);
    for (who, got) in &codes {
        assert_eq!(got, all[0], "{who} got other codes");
    }
    diagrams::assert_plantuml_reads(&diagrams, all[0]);
}

impl OfficialClient {
    /// Returns the clients of both languages, with sessions and without.
    pub(crate) fn all() -> [Self; 4] {
        let python = here().join(".venv/bin/python");
        let node = PathBuf::from("node");
        [
            Self {
                name: "TypeScript 1",
                program: node.clone(),
                script: "sdk_v1.mjs",
                mode: "legacy",
            },
            Self { name: "TypeScript 2", program: node, script: "sdk_v2.mjs", mode: "2026-07-28" },
            Self {
                name: "Python",
                program: python.clone(),
                script: "python_client.py",
                mode: "legacy",
            },
            Self {
                name: "Python stateless",
                program: python,
                script: "python_client.py",
                mode: "2026-07-28",
            },
        ]
    }

    pub(crate) fn run(&self, job: &Value) -> Done {
        let mut child = Command::new(&self.program)
            .arg(here().join("clients").join(self.script))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the client starts");
        child
            .stdin
            .take()
            .expect("a pipe")
            .write_all(job.to_string().as_bytes())
            .expect("the client reads its job");
        let output = child.wait_with_output().expect("the client ends");
        assert!(output.status.success(), "{} failed", self.name);
        serde_json::from_slice(&output.stdout).expect("the client prints JSON")
    }
}

fn code_of(result: &Value) -> String {
    let structured = &result["structuredContent"];
    let (code, url) = (structured["encoded"].as_str(), structured["url"].as_str());
    let (code, url) = (code.expect("a code"), url.expect("a URL"));
    assert_eq!(url, format!("https://www.plantuml.com/plantuml/svg/{code}"));
    code.to_owned()
}
