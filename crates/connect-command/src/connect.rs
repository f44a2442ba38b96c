//! `marquetry connect`

use std::path::Path;

use marquetry_client_config::{Change, Client, ConfigFile, EditError, Launch};
use serde_json::Value;

use crate::{
    apply::{Consent, Plan},
    arguments::{ConnectArgs, TransportKind},
    machine::{ConnectCommandError, Machine, exists},
    undo,
};

/// The name of Marquetry among the servers of a client.
pub(crate) const NAME: &str = "marquetry";

/// Runs `marquetry connect`.
///
/// # Errors
///
/// Returns an error if a client is unknown or not installed, or if a file cannot be edited. The
/// other clients are connected nevertheless.
pub fn connect(
    arguments: &ConnectArgs,
    machine: &mut Machine<'_>,
) -> Result<(), ConnectCommandError> {
    let consent = Consent::of(arguments.dry_run, arguments.yes);
    let clients = clients_of(arguments, machine)?;
    if arguments.file.is_some() && clients.len() != 1 {
        return Err(ConnectCommandError::usage("--file needs exactly one CLIENT"));
    }
    if arguments.undo {
        return undo::undo("connect", &clients, arguments.file.as_deref(), consent, machine);
    }
    let servers = machine.servers_file(arguments.mcp_config.as_deref())?;
    let mut failures = Vec::new();
    for client in clients {
        let launch = launch(machine, arguments.transport, &servers, &arguments.url);
        if arguments.all && client.entry(NAME, &launch).is_none() {
            machine.print(&format!("{client}: left out: {}", stdio_alone(client)));
            continue;
        }
        let connected = connect_one(client, arguments, &servers, consent, machine);
        match connected {
            Ok(()) => {}
            // A question without a terminal would come for each client.
            Err(failure) if failure.code == 2 => return Err(failure),
            Err(failure) => failures.push(format!("{client}: {}", failure.message)),
        }
    }
    if failures.is_empty() {
        return Ok(());
    }
    Err(ConnectCommandError::new(failures.join("\n")))
}

fn connect_one(
    client: Client,
    arguments: &ConnectArgs,
    servers: &Path,
    consent: Consent,
    machine: &mut Machine<'_>,
) -> Result<(), ConnectCommandError> {
    let launch = launch(machine, arguments.transport, servers, &arguments.url);
    let file = client_file(client, arguments.file.as_deref(), machine)?;
    let (after, changes) = with_marquetry(client, &file, file.text(), &launch)?;
    if after == file.text() {
        machine.print(&format!("{client} is connected already"));
        return Ok(());
    }
    let created = Vec::new();
    let plan = Plan { command: "connect", client: Some(client), file, after, changes, created };
    plan.show(machine);
    if !plan.is_agreed(machine, consent)? {
        return Ok(());
    }
    if arguments.transport == TransportKind::Stdio {
        create_servers_file(servers, machine)?;
    }
    plan.write(machine)?;
    machine.print(&format!("{client} is connected; restart it to use Marquetry"));
    let others = other_servers(client, &plan.after);
    if others > 0 {
        let hint = format!(
            "{client} has {others} more server{}; \"marquetry import {}\" moves them behind \
             Marquetry",
            if others == 1 { "" } else { "s" },
            client.id()
        );
        machine.print(&hint);
    }
    Ok(())
}

/// Returns the number of servers beside Marquetry.
pub(crate) fn other_servers(client: Client, text: &str) -> usize {
    let file = client_file_name(client);
    let options = marquetry_client_files::ReadOptions {
        references: marquetry_client_files::References::Keep,
        ..marquetry_client_files::ReadOptions::new(file)
    };
    let read = marquetry_client_files::ClientFile::read(text, &options);
    read.map_or(0, |read| read.servers.keys().filter(|name| *name != NAME).count())
}

/// Returns a name that selects the form of a client's file.
pub(crate) fn client_file_name(client: Client) -> &'static str {
    match client {
        Client::Codex => "config.toml",
        Client::Goose | Client::LibreChat => "config.yaml",
        Client::Gemini => ".gemini/settings.json",
        _ => "mcp.json",
    }
}

/// Returns how a client reaches Marquetry.
pub(crate) fn launch(
    machine: &Machine<'_>,
    transport: TransportKind,
    servers: &Path,
    url: &str,
) -> Launch {
    match transport {
        TransportKind::Http => Launch::Http { url: url.to_owned() },
        TransportKind::Stdio => Launch::Stdio {
            program: machine.program.clone(),
            args: vec![
                "stdio".to_owned(),
                "--mcp-config".to_owned(),
                servers.display().to_string(),
            ],
        },
    }
}

/// Returns a text with the entry of Marquetry, and the changes that this takes.
pub(crate) fn with_marquetry(
    client: Client,
    file: &ConfigFile,
    text: &str,
    launch: &Launch,
) -> Result<(String, Vec<Change>), ConnectCommandError> {
    let section = client.section();
    let Some(entry) = client.entry(NAME, launch) else {
        return Err(ConnectCommandError::new(stdio_alone(client)));
    };
    let mut after = text.to_owned();
    let mut changes = Vec::new();
    let previous = section.server(text, NAME).map_err(|error| edit_error(file, error))?;
    if previous.as_ref() != Some(&entry) {
        let has_section = section.exists(text).map_err(|error| edit_error(file, error))?;
        after = section.with_server(text, NAME, &entry).map_err(|error| edit_error(file, error))?;
        changes.push(Change::Set {
            name: NAME.to_owned(),
            previous,
            created_section: !has_section,
        });
    }
    if client == Client::Gemini {
        // A list of allowed servers that lacks Marquetry would switch it off.
        let listed = Change::list(&after, &["mcp", "allowed"], NAME)
            .map_err(|error| edit_error(file, error))?;
        if let Some((text, change)) = listed {
            after = text;
            changes.push(change);
        }
    }
    Ok((after, changes))
}

fn stdio_alone(client: Client) -> String {
    format!("{client} reaches servers of its file by stdio alone; use --transport stdio")
}

/// Reads the file of a client that is installed, or that the user names.
pub(crate) fn client_file(
    client: Client,
    named: Option<&Path>,
    machine: &Machine<'_>,
) -> Result<ConfigFile, ConnectCommandError> {
    let home = machine.home();
    let path = named.map_or_else(|| home.file(client, &exists), |path| Ok(path.to_owned()))?;
    if named.is_none() && !home.has(client, &exists)? {
        let folder = path.parent().filter(|_| client != Client::LibreChat);
        return Err(ConnectCommandError::new(format!(
            "not found on this machine: {} does not exist; name a file with --file to write it \
             anyway",
            folder.unwrap_or(&path).display()
        )));
    }
    ConfigFile::read(&path, machine.home_folder().as_deref()).map_err(ConnectCommandError::new)
}

/// Creates an empty file of servers, since Marquetry does not start without the one it is given.
pub(crate) fn create_servers_file(
    path: &Path,
    machine: &mut Machine<'_>,
) -> Result<(), ConnectCommandError> {
    let file = ConfigFile::read(path, machine.home_folder().as_deref())
        .map_err(ConnectCommandError::new)?;
    if file.exists() {
        return Ok(());
    }
    file.write("{\n  \"mcpServers\": {}\n}\n").map_err(ConnectCommandError::new)?;
    machine.print(&format!("{}: created, without servers", path.display()));
    Ok(())
}

pub(crate) fn edit_error(file: &ConfigFile, error: EditError) -> ConnectCommandError {
    ConnectCommandError::new(format!("{}: {error}", file.path().display()))
}

/// Returns whether an entry starts Marquetry or connects to it.
pub(crate) fn is_marquetry(name: &str, entry: &serde_json::Map<String, Value>) -> bool {
    let command = entry.get("command").and_then(Value::as_str).unwrap_or_default();
    let program = command.rsplit(['/', '\\']).next().unwrap_or_default();
    name == NAME || program == "marquetry" || program == "marquetry.exe"
}

fn clients_of(
    arguments: &ConnectArgs,
    machine: &Machine<'_>,
) -> Result<Vec<Client>, ConnectCommandError> {
    if !arguments.all {
        return parsed(&arguments.clients);
    }
    if arguments.undo {
        return Ok(Client::ALL.to_vec());
    }
    let found = installed(machine)?;
    if found.is_empty() {
        return Err(ConnectCommandError::new("no client was found on this machine"));
    }
    Ok(found)
}

/// Parses names of clients; a repeated one counts once.
pub(crate) fn parsed(names: &[String]) -> Result<Vec<Client>, ConnectCommandError> {
    let mut clients = Vec::new();
    for name in names {
        let client = Client::parse(name).map_err(ConnectCommandError::usage)?;
        if !clients.contains(&client) {
            clients.push(client);
        }
    }
    Ok(clients)
}

/// Returns the clients that seem to be installed.
pub(crate) fn installed(machine: &Machine<'_>) -> Result<Vec<Client>, ConnectCommandError> {
    let home = machine.home();
    let mut found = Vec::new();
    for client in Client::ALL {
        if home.has(client, &exists)? {
            found.push(client);
        }
    }
    Ok(found)
}
