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
pub(super) enum ClientEvent {
    Connected,
    ConnectFailed(String),
    CallSent(String),
    CallAnswered(String),
    /// A call ended with an error, of the tool or of the connection.
    CallFailed {
        tool: String,
        error: String,
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
                let Some((program, args)) = line.split_first() else {
                    return Err(Failed::new("no command"));
                };
                Client::spawn(StdioCommand::new(program, args), options).await
            }
        };
        let client = match connected {
            Ok(client) => client,
            Err(error) => {
                print_event(&ClientEvent::ConnectFailed(error.to_string()));
                return Ok(());
            }
        };
        print_event(&ClientEvent::Connected);
        let mut calls = tokio::task::JoinSet::new();
        for tool in self.busy {
            let client = client.clone();
            calls.spawn(async move {
                while call(&client, &tool).await {
                    sleep(Duration::from_millis(20)).await;
                }
            });
        }
        for tool in self.silent {
            let client = client.clone();
            calls.spawn(async move {
                call(&client, &tool).await;
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

/// Calls a tool and prints the outcome. Returns false if the connection is broken.
async fn call(client: &Client, tool: &Tool) -> bool {
    print_event(&ClientEvent::CallSent(tool.name.clone()));
    let Ok(params) = CallToolParams::new(&tool.name, &tool.arguments) else { return false };
    let outcome = client.call_tool_raw(&params, CallOptions::default()).await;
    let is_connected = matches!(outcome, Ok(_) | Err(ClientError::Rpc(_)));
    let tool = tool.name.clone();
    print_event(&match outcome {
        Ok(answer) if answer.get().contains(r#""isError":true"#) => {
            ClientEvent::CallFailed { tool, error: answer.get().to_owned() }
        }
        Ok(_) => ClientEvent::CallAnswered(tool),
        Err(error) => ClientEvent::CallFailed { tool, error: error.to_string() },
    });
    is_connected
}

fn print_event(event: &ClientEvent) {
    if let Ok(line) = serde_json::to_string(event) {
        println!("{line}");
    }
}
