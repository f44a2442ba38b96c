//! Official clients against our server, and our client against official servers, over every
//! transport and revision that both support. Each pair uses every feature that both sides have. The
//! table at the end lists the outcomes, with reasons for missing features.

mod ours;
mod theirs;

use std::{collections::BTreeMap, io::Write as _, path::PathBuf, sync::Arc};

use marquetry_protocol::Revision;
use tokio::{sync::Semaphore, task::JoinSet};

use crate::programs::{Need, have, here};

/// The features that a pair uses, in the order of the table.
const FEATURES: [&str; 15] = [
    "tools",
    "structured",
    "tool error",
    "binary",
    "resources",
    "templates",
    "prompts",
    "complete",
    "progress",
    "elicit",
    "sample",
    "roots",
    "log",
    "cancel",
    "updates",
];

/// Pairs that are not in the table, with the reason.
const NOT_THERE: [&str; 5] = [
    "TypeScript 1.32.2 and FastMCP 3.4.10 do not know 2026-07-28",
    "the server of TypeScript 2.4.0 has no HTTP+SSE any more",
    "the servers of Python 2.3.0 and FastMCP 3.4.10 do not know 2024-10-07",
    "2026-07-28 does not exist over HTTP+SSE",
    "others' clients ask for the newest revision of an era, and for no other",
];

/// An official SDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sdk {
    TypeScript1,
    TypeScript2,
    Python,
    FastMcp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Transport {
    Stdio,
    Http,
    Sse,
}

/// One row: a pair, its connection, and the outcome of each feature.
struct Row {
    pair: String,
    transport: Transport,
    revision: Revision,
    features: BTreeMap<String, Outcome>,
}

#[derive(Clone, Debug)]
enum Outcome {
    Works,
    /// Not supported, with the reason.
    Absent(String),
    Failed(String),
}

impl Sdk {
    const ALL: [Self; 4] = [Self::TypeScript1, Self::TypeScript2, Self::Python, Self::FastMcp];

    fn name(self) -> &'static str {
        match self {
            Self::TypeScript1 => "TypeScript 1.32.2",
            Self::TypeScript2 => "TypeScript 2.4.0",
            Self::Python => "Python 2.3.0",
            Self::FastMcp => "FastMCP 3.4.10",
        }
    }

    /// Returns the program and the script of its client or server.
    fn command(self, role: &str) -> (PathBuf, PathBuf) {
        let python = |environment: &str| here().join(environment).join("bin/python");
        let (program, suffix) = match self {
            Self::TypeScript1 => ("node".into(), "v1.mjs"),
            Self::TypeScript2 => ("node".into(), "v2.mjs"),
            Self::Python => (python(".venv"), "python.py"),
            Self::FastMcp => (python(".venv-fastmcp"), "fastmcp.py"),
        };
        let folder = if role == "server" { "servers" } else { "clients" };
        (program, here().join(folder).join(format!("{role}_{suffix}")))
    }

    fn knows_stateless(self) -> bool {
        matches!(self, Self::TypeScript2 | Self::Python)
    }
}

impl Transport {
    const ALL: [Self; 3] = [Self::Stdio, Self::Http, Self::Sse];

    fn name(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Sse => "sse",
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_pair_of_client_and_server_works() {
    let needs = [
        Need::Program("node"),
        Need::Installed("node_modules/@modelcontextprotocol/server"),
        Need::Installed(".venv"),
        Need::Installed(".venv-fastmcp"),
    ];
    if !have(&needs) {
        return;
    }
    // A pair spends most of its time on the start of an interpreter.
    let places = Arc::new(Semaphore::new(3));
    let mut work: JoinSet<Vec<Row>> = JoinSet::new();
    for sdk in Sdk::ALL {
        for transport in Transport::ALL {
            for revision in theirs::revisions(sdk, transport) {
                let places = places.clone();
                work.spawn(async move {
                    let _place = places.acquire().await;
                    vec![theirs::row(sdk, transport, revision).await]
                });
            }
            let places = places.clone();
            work.spawn(async move {
                let _place = places.acquire().await;
                ours::rows(sdk, transport).await
            });
        }
    }
    let mut rows: Vec<Row> = work.join_all().await.into_iter().flatten().collect();
    rows.sort_by(|a, b| {
        (&a.pair, a.transport, a.revision).cmp(&(&b.pair, b.transport, b.revision))
    });
    let (table, failures) = table(&rows);
    // Written directly, as the test harness hides the output of a passing test.
    _ = std::io::stderr().write_all(table.as_bytes());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert_eq!(rows.len(), 69, "the number of rows has changed: update this number");
}

/// Returns the table with its notes, and the failures.
fn table(rows: &[Row]) -> (String, Vec<String>) {
    let (mut notes, mut failures) = (Vec::<String>::new(), Vec::new());
    let mut text = format!("\n{:36} {:5} {:10}", "client → server", "over", "revision");
    for feature in FEATURES {
        text.push_str(&format!(" {feature:>10}"));
    }
    text.push('\n');
    for Row { pair, transport, revision, features } in rows {
        let (transport, revision) = (transport.name(), revision.as_str());
        text.push_str(&format!("{pair:36} {transport:5} {revision:10}"));
        for feature in FEATURES {
            let missing = Outcome::Failed("it was not tested".to_owned());
            let cell = match features.get(feature).unwrap_or(&missing) {
                Outcome::Works => "ok".to_owned(),
                Outcome::Absent(why) => {
                    let at = notes.iter().position(|note| note == why).unwrap_or_else(|| {
                        notes.push(why.clone());
                        notes.len() - 1
                    });
                    format!("({})", at + 1)
                }
                Outcome::Failed(how) => {
                    failures.push(format!("{pair}, {transport}, {revision}, {feature}: {how}"));
                    "FAILED".to_owned()
                }
            };
            text.push_str(&format!(" {cell:>10}"));
        }
        text.push('\n');
    }
    for note in NOT_THERE {
        text.push_str(&format!("no row: {note}\n"));
    }
    for (number, note) in notes.iter().enumerate() {
        text.push_str(&format!("({}) {note}\n", number + 1));
    }
    (text, failures)
}
