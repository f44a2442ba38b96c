//! Official clients with our server, `fixture/main.rs`.

use std::{collections::BTreeMap, process::Stdio, time::Duration};

use marquetry_protocol::Revision;
use serde::Deserialize;
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

use super::{Outcome, Row, Sdk, Transport};

const FIXTURE: &str = env!("CARGO_BIN_EXE_fixture");

/// Returns the revisions that the client can be set to over the transport. Each client speaks only
/// the newest of its era.
pub(super) fn revisions(sdk: Sdk, transport: Transport) -> Vec<Revision> {
    let mut revisions = vec![Revision::V2025_11_25];
    // HTTP+SSE exists only in revisions with sessions.
    if sdk.knows_stateless() && transport != Transport::Sse {
        revisions.push(Revision::V2026_07_28);
    }
    revisions
}

/// The output of a client's script.
#[derive(Deserialize)]
struct Printed {
    revision: Option<String>,
    features: BTreeMap<String, String>,
}

pub(super) async fn row(sdk: Sdk, transport: Transport, revision: Revision) -> Row {
    let features = match timeout(Duration::from_secs(90), talk(sdk, transport, revision)).await {
        Ok(Ok(features)) => features,
        Ok(Err(problem)) => BTreeMap::from([("tools".to_owned(), Outcome::Failed(problem))]),
        Err(_) => {
            BTreeMap::from([("tools".to_owned(), Outcome::Failed("it did not end".to_owned()))])
        }
    };
    Row { pair: format!("{} → Marquetry", sdk.name()), transport, revision, features }
}

async fn talk(
    sdk: Sdk,
    transport: Transport,
    revision: Revision,
) -> Result<BTreeMap<String, Outcome>, String> {
    let (url, _server) = if transport == Transport::Stdio {
        (None, None)
    } else {
        let (url, server) = serve(Command::new(FIXTURE), transport).await?;
        (Some(url), Some(server))
    };
    let job = json!({
        "transport": transport.name(),
        "command": [FIXTURE, "stdio"],
        "url": url,
        "revision": revision.as_str(),
    });
    let (program, script) = sdk.command("matrix");
    let mut client = Command::new(program)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut stdin = client.stdin.take().ok_or("no pipe")?;
    stdin.write_all(job.to_string().as_bytes()).await.map_err(|error| error.to_string())?;
    drop(stdin);
    let output = client.wait_with_output().await.map_err(|error| error.to_string())?;
    let printed: Printed = serde_json::from_slice(&output.stdout).map_err(|error| {
        format!("{error}; its standard error: {}", String::from_utf8_lossy(&output.stderr))
    })?;
    // Version 1 of the TypeScript SDK does not tell the revision over HTTP+SSE.
    if printed.revision.as_deref().is_some_and(|spoken| spoken != revision.as_str()) {
        return Err(format!("the client speaks {:?}", printed.revision));
    }
    let outcome = |(name, said): (String, String)| {
        (name, if said == "ok" { Outcome::Works } else { Outcome::Failed(said) })
    };
    Ok(printed.features.into_iter().map(outcome).collect())
}

/// Starts a server that prints its URL.
pub(super) async fn serve(
    mut command: Command,
    transport: Transport,
) -> Result<(String, Child), String> {
    command.arg(transport.name()).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    // They log each failing tool call, and some calls fail on purpose.
    command.stderr(Stdio::null());
    let mut server = command.spawn().map_err(|error| error.to_string())?;
    let mut lines = BufReader::new(server.stdout.take().ok_or("no pipe")?).lines();
    let url = lines.next_line().await.map_err(|error| error.to_string())?;
    let url = url.ok_or("the server did not print its URL")?;
    // Output that is not read would block the server.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    Ok((url, server))
}
