//! The guide of the first run: `marquetry` without arguments in a terminal.

use marquetry_client_config::{Client, ConfigFile};

use crate::{
    arguments::{ConnectArgs, ImportArgs, TransportKind},
    connect::{NAME, connect, installed, other_servers},
    import::import,
    machine::{ConnectCommandError, Machine, exists},
};

/// Shows the clients and servers of this machine, offers to connect them, and prints how to go on.
/// `console` is the URL of the console.
///
/// # Errors
///
/// Returns an error if the home folder is not known, or if a file cannot be written.
pub fn guide(console: &str, machine: &mut Machine<'_>) -> Result<(), ConnectCommandError> {
    let own = machine.servers_file(None)?;
    machine.print("Marquetry is one MCP server in front of many.\n\nFound on this machine:");
    let mut open = Vec::new();
    let mut servers = 0;
    for client in installed(machine)? {
        let path = machine.home().file(client, &exists)?;
        let read = ConfigFile::read(&path, machine.home_folder().as_deref());
        let status = match &read {
            Err(error) => error.to_string(),
            Ok(file) => {
                if let Err(error) = client.section().exists(file.text()) {
                    format!("{}: {error}", path.display())
                } else {
                    let count = other_servers(client, file.text());
                    servers += count;
                    if !is_connected(client, file) {
                        open.push(client);
                    }
                    described(client, file, count)
                }
            }
        };
        machine.print(&format!("  {:<15} {status}", client.title()));
    }
    let is_new = !own.exists();
    let state = if is_new { "not there yet" } else { "there" };
    machine.print(&format!("  {:<15} {state}: {}", "Marquetry", own.display()));
    if servers > 0 {
        machine.print(&format!(
            "\nImporting copies the servers of these clients to {}. Each change is shown first, \
             and can be undone.",
            own.display()
        ));
        if machine.confirm("Import them?", "run \"marquetry import\"")? {
            import(&import_arguments(), machine)?;
        }
    }
    if !open.is_empty() {
        let titles: Vec<&str> = open.iter().map(|client| client.title()).collect();
        let question = format!("Connect {} to Marquetry?", titles.join(", "));
        if machine.confirm(&question, "run \"marquetry connect\"")? {
            connect(&connect_arguments(&open), machine)?;
        }
    }
    // A file that does not exist cannot be named; Marquetry has tools of its own.
    let servers = if own.exists() {
        format!(" --mcp-config {}", own.display())
    } else {
        machine.print(&format!(
            "\nThere are no servers yet: \"marquetry import\" collects them in {}, or write them \
             there as in a client's mcp.json.",
            own.display()
        ));
        String::new()
    };
    machine.print(&format!(
        "\nServe all clients at once, with a console in the browser at {console}:\n  marquetry \
         serve --open{servers}\nAll commands: marquetry --help"
    ));
    Ok(())
}

fn is_connected(client: Client, file: &ConfigFile) -> bool {
    client.section().server(file.text(), NAME).is_ok_and(|entry| entry.is_some())
}

fn described(client: Client, file: &ConfigFile, count: usize) -> String {
    let servers = match count {
        1 => "1 server".to_owned(),
        count => format!("{count} servers"),
    };
    let state = if is_connected(client, file) { ", connected to Marquetry" } else { "" };
    format!("{servers}{state}: {}", file.path().display())
}

fn import_arguments() -> ImportArgs {
    ImportArgs {
        clients: Vec::new(),
        into: None,
        file: None,
        from_registry: None,
        inputs: Vec::new(),
        conflict: None,
        move_secrets: false,
        replace: false,
        undo: false,
        dry_run: false,
        yes: false,
    }
}

fn connect_arguments(clients: &[Client]) -> ConnectArgs {
    ConnectArgs {
        clients: clients.iter().map(|client| client.id().to_owned()).collect(),
        all: false,
        undo: false,
        dry_run: false,
        yes: false,
        transport: TransportKind::Stdio,
        url: String::new(),
        mcp_config: None,
        file: None,
    }
}
