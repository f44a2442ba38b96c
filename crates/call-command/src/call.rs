//! `marquetry call`

use std::{fmt::Write as _, time::Duration};

use indicatif::ProgressBar;
use marquetry_nearest::nearest;
use marquetry_printable::{printable_json, printable_line};
use marquetry_protocol::{
    RpcError,
    client::{CallOptions, ClientError, Progress},
    error_code,
    types::{CallToolParams, Tool},
};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use crate::{
    CallArgs, CallCommandError, EXIT_TOOL_FAILED, EXIT_UNREACHABLE, EXIT_USAGE, Session, answer,
    arguments, print,
    session::{DownServer, connection_error, unreachable},
};

/// The member of `_meta` in which Marquetry says that a server did not answer.
const UPSTREAM: &str = "marquetry/upstream";

/// Calls a tool and prints its answer: to standard output, or to standard error if the tool has
/// failed. Dropping the future cancels the call.
///
/// # Errors
///
/// Returns an error with the exit code if the tool is unknown or has failed, the arguments are
/// invalid, or the server does not answer.
pub async fn call(arguments: &CallArgs, session: &Session) -> Result<(), CallCommandError> {
    let listed = session.client.list_tools().await;
    let listed = listed.map_err(|error| connection_error(&error))?;
    // Arguments may be typed.
    session.bar.finish_and_clear();
    let tool = listed.iter().find(|tool| tool.name == arguments.tool);
    // A tool that is not listed may exist: some servers list the tools that they find useful.
    let schema = tool.map(|tool| &tool.input_schema);
    let own = own_arguments(arguments, schema.cloned()).await?;
    let params = CallToolParams::new(&*arguments.tool, &own)
        .map_err(|error| CallCommandError::new(EXIT_USAGE, error.to_string()))?;
    let (sender, reports) = mpsc::channel(16);
    let options = CallOptions {
        timeout: arguments.timeout,
        progress: Some(sender),
        ..CallOptions::default()
    };
    session.bar.reset();
    session.bar.set_message(printable_line(&arguments.tool));
    session.bar.enable_steady_tick(Duration::from_millis(200));
    let showing = tokio::spawn(show_progress(reports, session.bar.clone()));
    let result = session.client.call_tool_raw(&params, options).await;
    showing.abort();
    session.bar.finish_and_clear();
    let result = match result {
        Ok(result) => result,
        Err(error) => return Err(failure(arguments, session, &listed, error)),
    };
    let value: Value = serde_json::from_str(result.get())
        .map_err(|error| CallCommandError::new(EXIT_TOOL_FAILED, error.to_string()))?;
    let has_failed = value.get("isError") == Some(&Value::Bool(true));
    let unanswered = value.get("_meta").and_then(|meta| meta.get(UPSTREAM));
    let unanswered = unanswered.filter(|of| has_failed && of.get("kind").is_some());
    if let Some(down) = unanswered.and_then(|of| session.down_server(of.get("upstream")?)) {
        return Err(down_error(down));
    }
    if arguments.json {
        print(&format!("{}\n", printable_json(&format!("{value:#}"))))?;
    } else {
        let folder = arguments.output.as_deref();
        let text = answer::text(&value, &arguments.tool, folder)
            .map_err(|problem| CallCommandError::new(EXIT_TOOL_FAILED, problem))?;
        if has_failed {
            eprint!("{text}");
        } else {
            print(&text)?;
        }
    }
    if !has_failed {
        return Ok(());
    }
    let code = if unanswered.is_some() { EXIT_UNREACHABLE } else { EXIT_TOOL_FAILED };
    Err(CallCommandError::new(code, ""))
}

/// Reads the arguments of the tool. Standard input may come slowly, and signals end the command
/// meanwhile.
async fn own_arguments(
    arguments: &CallArgs,
    schema: Option<Value>,
) -> Result<Map<String, Value>, CallCommandError> {
    let words = arguments.arguments.clone();
    let parsing = tokio::task::spawn_blocking(move || {
        arguments::parse(&words, schema.as_ref(), &mut std::io::stdin())
    });
    let parsed = parsing.await.map_err(|error| error.to_string());
    parsed
        .and_then(|parsed| parsed.map_err(|error| error.to_string()))
        .map_err(|problem| CallCommandError::new(EXIT_USAGE, problem))
}

/// Shows progress on a terminal until the call ends.
async fn show_progress(mut reports: mpsc::Receiver<Progress>, bar: ProgressBar) {
    while let Some(Progress { progress, total, message }) = reports.recv().await {
        let mut text = progress.to_string();
        if let Some(total) = total {
            _ = write!(text, " of {total}");
        }
        if let Some(message) = message {
            _ = write!(text, "  {message}");
        }
        bar.set_message(printable_line(&text));
    }
}

/// Returns the failure of a call without a result.
fn failure(
    arguments: &CallArgs,
    session: &Session,
    listed: &[Tool],
    error: ClientError,
) -> CallCommandError {
    let tool = &arguments.tool;
    let is_listed = listed.iter().any(|it| it.name == *tool);
    match error {
        ClientError::Rpc(RpcError {
            code: error_code::INVALID_PARAMS | error_code::METHOD_NOT_FOUND,
            ..
        }) if !is_listed => unknown(tool, session, listed),
        ClientError::Rpc(error) => CallCommandError::new(EXIT_TOOL_FAILED, error.to_string()),
        // It has answered, with a question, and there is no terminal to ask it in.
        ClientError::Unanswered(error) => CallCommandError::new(EXIT_TOOL_FAILED, error.message),
        ClientError::Params { problem } => CallCommandError::new(EXIT_USAGE, problem),
        ClientError::Timeout(limit) => {
            let seconds = limit.as_secs_f64();
            unreachable(&format!(
                "no answer within {seconds} s (--timeout); the call was cancelled"
            ))
        }
        error => connection_error(&error),
    }
}

/// Returns the failure for a server that is down.
fn down_error(down: &DownServer) -> CallCommandError {
    let DownServer { name, problem } = down;
    unreachable(&format!("server {name:?} is down: {problem}; `marquetry doctor {name}` says more"))
}

/// Returns the failure for a tool that is not listed: a misspelt name, or a server that is down.
fn unknown(tool: &str, session: &Session, listed: &[Tool]) -> CallCommandError {
    let names: Vec<&str> = listed.iter().map(|tool| &*tool.name).collect();
    let near = nearest(tool, &names);
    if let Some(down) = session.down().first().filter(|_| near.is_none()) {
        return down_error(down);
    }
    let hint = match near {
        Some(near) => format!("did you mean {near:?}?"),
        None => "`marquetry tools` lists the names".to_owned(),
    };
    let mut message = format!("unknown tool {tool:?}; {hint}");
    if let Some(hidden) = session.hidden_tools() {
        _ = write!(message, "\n{hidden}");
    }
    CallCommandError::new(EXIT_USAGE, message)
}
