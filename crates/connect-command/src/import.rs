//! `marquetry import`

use std::path::Path;

use marquetry_client_config::{Change, Client, ConfigFile, client::MCP_JSON};
use marquetry_client_files::{ClientFile, ReadOptions, References, expand::workspace_of};
use serde_json::{Map, Value};

use crate::{
    apply::{Consent, Plan},
    arguments::{Conflict, ImportArgs, TransportKind},
    collect::{Collection, Found, Outcome},
    connect::{
        NAME, client_file, client_file_name, edit_error, installed, is_marquetry, launch, parsed,
        with_marquetry,
    },
    differences::differences,
    fetch,
    machine::{ConnectCommandError, Machine},
    move_secrets::{SecretFile, move_secrets, remove_all, secrets_of, write_all},
    registry::RegistryServer,
    undo,
};

/// Runs `marquetry import`.
///
/// # Errors
///
/// Returns an error if a file cannot be read or edited, or if the user must choose and there is no
/// terminal.
pub fn import(
    arguments: &ImportArgs,
    machine: &mut Machine<'_>,
) -> Result<(), ConnectCommandError> {
    let consent = Consent::of(arguments.dry_run, arguments.yes);
    let clients = parsed(&arguments.clients)?;
    if arguments.file.is_some() && clients.len() != 1 {
        return Err(ConnectCommandError::usage("--file needs exactly one CLIENT"));
    }
    if arguments.undo {
        return undo::undo("import", &clients, arguments.file.as_deref(), consent, machine);
    }
    let into = machine.servers_file(arguments.into.as_deref())?;
    let mut target = Target::read(&into, machine)?;
    let sources = match &arguments.from_registry {
        Some(source) => {
            let text = fetch::read(source)?;
            let server = RegistryServer::parse(&text).map_err(|problem| {
                ConnectCommandError::new(format!("--from-registry {source}: {problem}"))
            })?;
            let (name, entry) = server.entry(&arguments.inputs, machine)?;
            target.take(Found { name, entry, client: None }, arguments.conflict, machine)?;
            Vec::new()
        }
        None => collect(&clients, arguments, &mut target, machine)?,
    };
    if target.new.is_empty() {
        machine.print("there are no new servers");
    } else {
        let move_them = wants_secrets_moved(arguments, &target, machine)?;
        if !target.write(move_them, consent, machine)? {
            return Ok(());
        }
    }
    if consent == Consent::DryRun || sources.iter().all(|source| source.names.is_empty()) {
        return Ok(());
    }
    replace_by_marquetry(arguments, &sources, &into, consent, machine)
}

/// The servers of a client that are in Marquetry's file now.
struct Source {
    client: Client,
    file: ConfigFile,
    names: Vec<String>,
}

/// Marquetry's own file.
struct Target {
    file: ConfigFile,
    collection: Collection,
    /// The names of the servers that are new or changed.
    new: Vec<String>,
}

impl Target {
    fn read(path: &Path, machine: &Machine<'_>) -> Result<Self, ConnectCommandError> {
        let file = ConfigFile::read(path, machine.home_folder().as_deref())
            .map_err(ConnectCommandError::new)?;
        let mut collection = Collection::default();
        let has_servers = MCP_JSON.exists(file.text()).map_err(|error| edit_error(&file, error))?;
        if has_servers {
            let read = read_servers(file.text(), &path.display().to_string(), machine)?;
            for (name, server) in read.servers {
                // An entry that cannot be used here still has its name.
                let entry = server.to_entry().unwrap_or_default();
                collection.replace(Found { name, entry, client: None });
            }
        }
        Ok(Self { file, collection, new: Vec::new() })
    }

    /// Adds a server, and returns whether Marquetry has it then.
    fn take(
        &mut self,
        found: Found,
        conflict: Option<Conflict>,
        machine: &mut Machine<'_>,
    ) -> Result<bool, ConnectCommandError> {
        let name = found.name.clone();
        let from = found.client.map_or("the registry", Client::title);
        match self.collection.add(found.clone()) {
            Outcome::Added => {
                self.new.push(name);
                return Ok(true);
            }
            Outcome::Same(known) if known == name => {
                machine.print(&format!("{name} of {from}: the same server is there already"));
                return Ok(true);
            }
            Outcome::Same(known) => {
                machine.print(&format!("{name} of {from}: the same server is there as {known}"));
                return Ok(true);
            }
            Outcome::Differs => {}
        }
        let choice = match conflict {
            Some(choice) => choice,
            None => ask_conflict(&found, &self.collection.servers[&name], machine)?,
        };
        match choice {
            Conflict::Keep => {
                machine.print(&format!("{name} of {from}: left out, {name} stays as it was"));
                Ok(false)
            }
            Conflict::Take => {
                self.collection.replace(found);
                if !self.new.contains(&name) {
                    self.new.push(name);
                }
                Ok(true)
            }
            Conflict::Both => {
                let beside = self.collection.add_beside(found);
                machine.print(&format!("{name} of {from}: added as {beside}"));
                self.new.push(beside);
                Ok(true)
            }
        }
    }

    /// Writes the new servers with the user's consent, and returns whether they were written.
    fn write(
        &mut self,
        move_them: bool,
        consent: Consent,
        machine: &mut Machine<'_>,
    ) -> Result<bool, ConnectCommandError> {
        let mut after = self.file.text().to_owned();
        let mut changes = Vec::new();
        let mut files: Vec<SecretFile> = Vec::new();
        let folder = self.file.path().with_file_name("secrets");
        for name in &self.new {
            let mut entry = self.collection.servers[name].entry.clone();
            if move_them {
                move_secrets(name, &mut entry, &folder, &mut files);
            }
            let previous =
                MCP_JSON.server(&after, name).map_err(|error| edit_error(&self.file, error))?;
            let created_section =
                !MCP_JSON.exists(&after).map_err(|error| edit_error(&self.file, error))?;
            after = MCP_JSON
                .with_server(&after, name, &Value::Object(entry))
                .map_err(|error| edit_error(&self.file, error))?;
            changes.push(Change::Set { name: name.clone(), previous, created_section });
        }
        let file = self.file.clone();
        let created = Vec::new();
        let mut plan = Plan { command: "import", client: None, file, after, changes, created };
        plan.show(machine);
        for file in &files {
            machine.print(&format!("a secret goes to {}", file.path.display()));
        }
        if !plan.is_agreed(machine, consent)? {
            return Ok(false);
        }
        plan.created = write_all(&files)?;
        if let Err(failure) = plan.write(machine) {
            remove_all(&plan.created);
            return Err(failure);
        }
        Ok(true)
    }
}

/// Collects the servers of clients into the target.
fn collect(
    clients: &[Client],
    arguments: &ImportArgs,
    target: &mut Target,
    machine: &mut Machine<'_>,
) -> Result<Vec<Source>, ConnectCommandError> {
    let all = installed(machine);
    let (chosen, is_explicit) =
        if clients.is_empty() { (all?, false) } else { (clients.to_vec(), true) };
    let mut sources = Vec::new();
    for client in chosen {
        let named = arguments.file.as_deref();
        let read = client_file(client, named, machine).and_then(|file| {
            let servers = servers_of(client, &file, machine)?;
            Ok((file, servers))
        });
        let (file, servers) = match read {
            Ok(read) => read,
            Err(failure) if is_explicit => {
                let message = format!("{client}: {}", failure.message);
                return Err(ConnectCommandError { message, ..failure });
            }
            Err(failure) => {
                machine.print(&format!("{client}: left out: {}", failure.message));
                continue;
            }
        };
        let mut names = Vec::new();
        for found in servers {
            let name = found.name.clone();
            if target.take(found, arguments.conflict, machine)? {
                names.push(name);
            }
        }
        sources.push(Source { client, file, names });
    }
    Ok(sources)
}

/// Returns the servers of a client's file that Marquetry can use, without Marquetry itself.
fn servers_of(
    client: Client,
    file: &ConfigFile,
    machine: &mut Machine<'_>,
) -> Result<Vec<Found>, ConnectCommandError> {
    let has_servers =
        client.section().exists(file.text()).map_err(|error| edit_error(file, error))?;
    if !has_servers {
        machine.print(&format!("{client} has no servers in {}", file.path().display()));
        return Ok(Vec::new());
    }
    let shown = file.path().display().to_string();
    // The name selects the form; a file of another name is read as the client would.
    let usual = client_file_name(client);
    let ending = usual.rsplit('.').next().unwrap_or_default();
    let is_usual = match client {
        Client::Codex | Client::Goose | Client::LibreChat => {
            shown.ends_with(&format!(".{ending}")) || shown.ends_with(".yml")
        }
        Client::Gemini => shown.contains(".gemini"),
        _ => true,
    };
    let name = if is_usual { shown } else { usual.to_owned() };
    let read = read_servers(file.text(), &name, machine)?;
    for warning in &read.warnings {
        machine.print(&format!("note: {warning}"));
    }
    let mut servers = Vec::new();
    for (name, server) in read.servers {
        let Some(mut entry) = server.to_entry() else { continue };
        if is_marquetry(&name, &entry) {
            continue;
        }
        if let Some(folder) = project_of(file.path()) {
            for value in entry.values_mut() {
                replace_in(value, "${workspaceFolder}", &folder);
            }
        }
        let text = Value::Object(entry.clone()).to_string();
        if text.contains("${workspaceFolder") {
            machine.print(&format!(
                "note: server {name:?} of {client} uses ${{workspaceFolder}}, which is the folder \
                 of Marquetry's own file here"
            ));
        }
        if text.contains("${input:") {
            machine.print(&format!(
                "note: server {name:?} of {client} asks for ${{input:…}}; set the environment \
                 variable INPUT_… for it"
            ));
        }
        servers.push(Found { name, entry, client: Some(client) });
    }
    Ok(servers)
}

/// Returns the folder of the project whose settings a file has: that above `.vscode` or `.cursor`.
fn project_of(file: &Path) -> Option<String> {
    let folder = file.parent()?.file_name()?.to_str()?;
    let is_project = matches!(folder, ".vscode" | ".cursor" | ".zed")
        && file.parent()?.parent().is_some_and(|above| !above.as_os_str().is_empty());
    is_project.then(|| workspace_of(file).display().to_string())
}

fn replace_in(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::String(text) => *text = text.replace(from, to),
        Value::Array(items) => {
            for item in items {
                replace_in(item, from, to);
            }
        }
        Value::Object(members) => {
            for member in members.values_mut() {
                replace_in(member, from, to);
            }
        }
        _ => {}
    }
}

fn read_servers(
    text: &str,
    name: &str,
    machine: &Machine<'_>,
) -> Result<ClientFile, ConnectCommandError> {
    let options = ReadOptions {
        variables: machine.variable,
        references: References::Keep,
        ..ReadOptions::new(name)
    };
    ClientFile::read(text, &options).map_err(ConnectCommandError::new)
}

fn ask_conflict(
    found: &Found,
    known: &Found,
    machine: &mut Machine<'_>,
) -> Result<Conflict, ConnectCommandError> {
    let Found { name, .. } = found;
    let from = found.client.map_or("the registry", Client::title);
    let there = known.client.map_or("Marquetry's file", Client::title);
    if machine.dialog.is_none() {
        return Err(ConnectCommandError::usage(format!(
            "{name:?} of {from} differs from {name:?} of {there}; choose with --conflict keep, \
             take or both"
        )));
    }
    machine.print(&format!("{name:?} of {there}: {}", shown(&known.entry)));
    machine.print(&format!("{name:?} of {from}: {}", shown(&found.entry)));
    for line in differences(&known.entry, &found.entry) {
        machine.print(&format!("  {line}"));
    }
    let question =
        format!("They differ. Keep that of {there} (k), take that of {from} (t), both (b)?");
    for _ in 0..3 {
        let Some(dialog) = &mut machine.dialog else { break };
        match dialog.ask(&question).unwrap_or_default().to_ascii_lowercase().as_str() {
            "" | "k" | "keep" => return Ok(Conflict::Keep),
            "t" | "take" => return Ok(Conflict::Take),
            "b" | "both" => return Ok(Conflict::Both),
            _ => machine.print("type k, t or b"),
        }
    }
    machine.print("no valid answer after three questions: nothing is changed");
    Ok(Conflict::Keep)
}

/// Returns an entry on one line, without its secrets.
fn shown(entry: &Map<String, Value>) -> String {
    let mut safe = entry.clone();
    for key in ["env", "headers"] {
        let members = safe.get_mut(key).and_then(Value::as_object_mut);
        for value in members.into_iter().flat_map(|members| members.values_mut()) {
            *value = "…".into();
        }
    }
    Value::Object(safe).to_string()
}

fn wants_secrets_moved(
    arguments: &ImportArgs,
    target: &Target,
    machine: &mut Machine<'_>,
) -> Result<bool, ConnectCommandError> {
    if arguments.move_secrets {
        return Ok(true);
    }
    let servers = target.new.iter().map(|name| &target.collection.servers[name]);
    let secrets: Vec<String> = servers
        .flat_map(|found| {
            let secrets = secrets_of(&found.entry).into_iter();
            secrets.map(|secret| format!("{} of {}", secret.name, found.name)).collect::<Vec<_>>()
        })
        .collect();
    if secrets.is_empty() {
        return Ok(false);
    }
    let list = secrets.join(", ");
    if machine.dialog.is_none() || arguments.yes || arguments.dry_run {
        machine.print(&format!(
            "note: the file will hold secrets: {list}; --move-secrets moves them to files of mode \
             0600"
        ));
        return Ok(false);
    }
    let question = format!("Move the secrets ({list}) to files of mode 0600?");
    machine.confirm(&question, "pass --move-secrets")
}

/// Replaces the imported servers of each client by Marquetry, if the user wants that.
fn replace_by_marquetry(
    arguments: &ImportArgs,
    sources: &[Source],
    into: &Path,
    consent: Consent,
    machine: &mut Machine<'_>,
) -> Result<(), ConnectCommandError> {
    let sources: Vec<&Source> = sources.iter().filter(|it| !it.names.is_empty()).collect();
    let titles: Vec<&str> = sources.iter().map(|source| source.client.title()).collect();
    let titles = titles.join(", ");
    if !arguments.replace {
        if machine.dialog.is_none() || arguments.yes {
            machine.print(&format!(
                "{titles}: the servers are still there, too; --replace puts Marquetry in their \
                 place"
            ));
            return Ok(());
        }
        let question = format!("Replace the imported servers of {titles} by Marquetry?");
        if !machine.confirm(&question, "pass --replace")? {
            return Ok(());
        }
    }
    for source in sources {
        let plan = replacement(source, into, machine)?;
        if plan.apply(machine, consent)? {
            machine.print(&format!("restart {} to use Marquetry", source.client));
        }
    }
    Ok(())
}

fn replacement(
    source: &Source,
    into: &Path,
    machine: &Machine<'_>,
) -> Result<Plan, ConnectCommandError> {
    let Source { client, file, names } = source;
    let section = client.section();
    let mut changes = Vec::new();
    let mut after = file.text().to_owned();
    for name in names {
        let entry = section.server(&after, name).map_err(|error| edit_error(file, error))?;
        let Some(entry) = entry.filter(|_| name != NAME) else { continue };
        after = section.without_server(&after, name).map_err(|error| edit_error(file, error))?;
        changes.push(Change::Removed { name: name.clone(), entry });
    }
    let launch = launch(machine, TransportKind::Stdio, into, "");
    let (after, more) = with_marquetry(*client, file, &after, &launch)?;
    changes.extend(more);
    let created = Vec::new();
    let file = file.clone();
    Ok(Plan { command: "import", client: Some(*client), file, after, changes, created })
}
