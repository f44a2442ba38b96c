#![doc = include_str!("../README.md")]

mod answer;
mod arguments;
mod call;
mod choices;
mod listing;
mod questions;
mod session;
mod tools;

use std::{
    io::{self, Write as _},
    path::PathBuf,
    time::Duration,
};

use clap::Args;

pub use crate::{call::call, session::Session, tools::tools};

/// Exit code if the tool has failed.
pub const EXIT_TOOL_FAILED: u8 = 1;
/// Exit code for an unknown tool and invalid arguments.
pub const EXIT_USAGE: u8 = 2;
/// Exit code if the server cannot be reached, or does not answer.
pub const EXIT_UNREACHABLE: u8 = 3;

/// The end of the help of `marquetry call`.
const CALL_HELP: &str = "\
Examples:
  marquetry call files__read_file path=notes.txt --mcp-config mcp.json
  marquetry call search__find query=bread limit=5 tags=food tags=home deep=true
  marquetry call files__write_file path=a.txt content=@draft.txt
  marquetry call search__find '{\"query\": \"bread\", \"limit\": 5}' --json
  echo '{\"query\": \"bread\"}' | marquetry call search__find -
  marquetry call shot__page url=https://example.com --output pictures
  marquetry call add a=1 b=2 --url http://127.0.0.1:3001/mcp

Exit codes: 0 the tool has answered, 1 it has failed, 2 unknown tool or invalid arguments, 3 the server cannot be
reached or does not answer, 130 ended by Ctrl-C, which cancels the call.";

/// The end of the help of `marquetry tools`.
const TOOLS_HELP: &str = "\
Examples:
  marquetry tools --mcp-config mcp.json
  marquetry tools read                        tools with \"read\" in their names
  marquetry tools --server files --json       starts one server, and prints its tools as MCP has them
  marquetry tools --url http://127.0.0.1:3001/mcp --header \"Authorization: Bearer TOKEN\"

Exit codes: 0 listed, 2 no tool has the part in its name, 3 the server cannot be reached.";

/// The result of a command.
pub type Called = Result<(), CallCommandError>;

/// Arguments of `marquetry call`.
#[derive(Args, Clone, Debug)]
#[command(after_help = CALL_HELP)]
pub struct CallArgs {
    /// Name of the tool, as `marquetry tools` shows it.
    tool: String,
    /// Arguments: one JSON object, or any number of key=value (by the type in the tool's schema;
    /// repeated for an array), key:=JSON and key=@file; "-" reads a JSON object from standard
    /// input.
    #[arg(value_name = "ARGUMENT")]
    arguments: Vec<String>,
    /// Print the whole result as JSON.
    #[arg(long)]
    json: bool,
    /// Switch off the capture of large answers, so that the server's own answer is printed.
    #[arg(long)]
    raw: bool,
    /// Save images and other files of the answer in this folder.
    #[arg(long, value_name = "FOLDER", conflicts_with = "json")]
    output: Option<PathBuf>,
    /// Longest time to wait for the answer.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    #[command(flatten)]
    remote: RemoteArgs,
}

impl CallArgs {
    /// Returns the name of the tool.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Returns whether answers are not captured.
    #[must_use]
    pub fn is_raw(&self) -> bool {
        self.raw
    }

    /// Returns the server to call instead of one of our own.
    #[must_use]
    pub fn remote(&self) -> &RemoteArgs {
        &self.remote
    }
}

/// Arguments of `marquetry tools`.
#[derive(Args, Clone, Debug)]
#[command(after_help = TOOLS_HELP)]
pub struct ToolsArgs {
    /// Part of the names to list; by default all tools are listed.
    filter: Option<String>,
    /// Print the list as JSON, as MCP has it.
    #[arg(long)]
    json: bool,
    /// Start this server alone, and list its tools.
    #[arg(long, value_name = "NAME", conflicts_with = "url")]
    server: Option<String>,
    #[command(flatten)]
    remote: RemoteArgs,
}

impl ToolsArgs {
    /// Returns the only server whose tools are listed.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }

    /// Returns the server to ask instead of one of our own.
    #[must_use]
    pub fn remote(&self) -> &RemoteArgs {
        &self.remote
    }
}

/// A server that runs already.
#[derive(Args, Clone, Debug, Default)]
pub struct RemoteArgs {
    /// Use the MCP server at this URL instead of the configuration.
    #[arg(long)]
    url: Option<String>,
    /// Header for the server at --url, such as "Authorization: Bearer TOKEN". May be given several
    /// times.
    #[arg(long, value_name = "HEADER", requires = "url")]
    header: Vec<String>,
}

impl RemoteArgs {
    /// Returns the URL.
    #[must_use]
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }
}

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallCommandError {
    /// The exit code.
    pub code: u8,
    /// The message, for people; empty if it was printed.
    pub message: String,
}

impl CallCommandError {
    fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// Writes to standard output. A closed pipe is not a failure.
fn print(text: &str) -> Result<(), CallCommandError> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CallCommandError::new(
            EXIT_TOOL_FAILED,
            format!("failed to write to standard output: {error}"),
        )),
        _ => Ok(()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| !time.is_zero())
        .ok_or_else(|| "expected a number of seconds above 0".to_owned())
}
