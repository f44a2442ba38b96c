//! The arguments of the commands.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Arguments of `marquetry connect`.
#[derive(Args, Clone, Debug)]
pub struct ConnectArgs {
    /// Clients to connect: claude-code, claude-desktop, cline, codex, cursor, gemini, goose,
    /// librechat, opencode, vscode, windsurf, zed.
    #[arg(value_name = "CLIENT", required_unless_present = "all")]
    pub clients: Vec<String>,
    /// Every client that is found on this machine.
    #[arg(long, conflicts_with = "clients")]
    pub all: bool,
    /// Take back what earlier runs wrote into these clients' files.
    #[arg(long)]
    pub undo: bool,
    /// Show the changes, and write nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Write without asking.
    #[arg(long, short)]
    pub yes: bool,
    /// How the client reaches Marquetry: it starts `marquetry stdio`, or it connects to a running
    /// `marquetry serve`.
    #[arg(long, value_name = "TRANSPORT", default_value = "stdio")]
    pub transport: TransportKind,
    /// Endpoint of the running server, for --transport http.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:3001/mcp")]
    pub url: String,
    /// File of MCP servers that the client's Marquetry reads. Defaults to
    /// ~/.config/marquetry/mcp.json, which is created if it is missing.
    #[arg(long, value_name = "FILE")]
    pub mcp_config: Option<PathBuf>,
    /// File of the client, such as that of a project. By default the user's.
    #[arg(long, value_name = "FILE", conflicts_with = "all")]
    pub file: Option<PathBuf>,
}

/// How a client reaches Marquetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TransportKind {
    /// The client starts `marquetry stdio`.
    Stdio,
    /// The client connects to a URL.
    Http,
}

/// Arguments of `marquetry import`.
#[derive(Args, Clone, Debug)]
pub struct ImportArgs {
    /// Clients whose servers are collected. By default every client that is found.
    #[arg(value_name = "CLIENT")]
    pub clients: Vec<String>,
    /// File of MCP servers to write. Defaults to ~/.config/marquetry/mcp.json.
    #[arg(long, value_name = "FILE")]
    pub into: Option<PathBuf>,
    /// File of the client, such as that of a project. Needs exactly one CLIENT.
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Read a server of the MCP registry's format (server.json) instead of a client's file.
    #[arg(long, value_name = "FILE|URL", conflicts_with_all = ["clients", "file", "replace"])]
    pub from_registry: Option<String>,
    /// Value of an input of --from-registry. May be given several times.
    #[arg(long = "input", value_name = "NAME=VALUE", requires = "from_registry")]
    pub inputs: Vec<String>,
    /// What to do with a server whose name is taken by a different one.
    #[arg(long, value_name = "CHOICE")]
    pub conflict: Option<Conflict>,
    /// Move tokens and passwords into files of mode 0600 beside the file of servers.
    #[arg(long)]
    pub move_secrets: bool,
    /// Replace the imported servers in the clients' files by Marquetry.
    #[arg(long)]
    pub replace: bool,
    /// Take back what earlier imports wrote.
    #[arg(long)]
    pub undo: bool,
    /// Show the changes, and write nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Write without asking.
    #[arg(long, short)]
    pub yes: bool,
}

/// The choice between two servers of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Conflict {
    /// Keep the one that was there first.
    Keep,
    /// Take the new one.
    Take,
    /// Keep both; the new one gets the client's name after its own.
    Both,
}
