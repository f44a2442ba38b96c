//! The client process: calls without end, and prints how each call ended.

use std::time::Duration;

use marquetry_protocol::{
    client::{CallOptions, Client, ClientError, HttpTarget, StdioCommand},
    types::CallToolParams,
};
use marquetry_scenarios::{Revision, agent_options};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::{io::AsyncReadExt as _, time::sleep};

use crate::Failed;

/// Options of the client, from its command line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Caller {
    pub(super) server: TestedServer,
    pub(super) revision: Revision,
    /// Tools to call again and again.
    pub(super) busy: Vec<Tool>,
    /// Tools to call once; they never answer by themselves.
    pub(super) silent: Vec<Tool>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TestedServer {
    Command(Vec<String>),
    Url(String),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) arguments: Value,
}

/// An event that the client prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Told {
    Connected,
    /// The connection failed.
    Refused(String),
    /// A call was sent.
    Begun(String),
    Answered(String),
    /// A call ended with an error, of the tool or of the connection.
    Failed {
        tool: String,
        how: String,
    },
}

impl Caller {
    /// Calls until the client's input or the connection ends.
    pub(crate) async fn run(self) -> Result<(), Failed> {
        let options = agent_options(self.revision);
        let connected = match &self.server {
            TestedServer::Url(url) => {
                let target = HttpTarget { url: url.clone(), ..HttpTarget::default() };
                Client::http(target, options).await
            }
            TestedServer::Command(line) => {
                let (program, args) =
                    line.split_first().ok_or_else(|| Failed::new("no command"))?;
                Client::spawn(StdioCommand::new(program, args), options).await
            }
        };
        let client = match connected {
            Ok(client) => client,
            Err(error) => {
                tell(&Told::Refused(error.to_string()));
                return Ok(());
            }
        };
        tell(&Told::Connected);
        let mut calls = tokio::task::JoinSet::new();
        for (tool, again) in self
            .busy
            .into_iter()
            .map(|it| (it, true))
            .chain(self.silent.into_iter().map(|it| (it, false)))
        {
            let client = client.clone();
            calls.spawn(async move {
                while call(&client, &tool).await && again {
                    sleep(Duration::from_millis(20)).await;
                }
            });
        }
        let mut input = tokio::io::stdin();
        tokio::select! {
            () = async { while calls.join_next().await.is_some() {} } => {}
            _ = input.read_u8() => {}
        }
        calls.shutdown().await;
        client.close().await;
        Ok(())
    }
}

/// Returns false if the connection is broken.
async fn call(client: &Client, tool: &Tool) -> bool {
    tell(&Told::Begun(tool.name.clone()));
    let Ok(params) = CallToolParams::new(&tool.name, &tool.arguments) else { return false };
    let outcome = client.call_tool_raw(&params, CallOptions::default()).await;
    let failed = |how: String| tell(&Told::Failed { tool: tool.name.clone(), how });
    match outcome {
        Ok(answer) if answer.get().contains(r#""isError":true"#) => failed(answer.get().to_owned()),
        Ok(_) => tell(&Told::Answered(tool.name.clone())),
        Err(ClientError::Rpc(error)) => failed(error.to_string()),
        Err(error) => {
            failed(error.to_string());
            return false;
        }
    }
    true
}

fn tell(told: &Told) {
    if let Ok(line) = serde_json::to_string(told) {
        println!("{line}");
    }
}
