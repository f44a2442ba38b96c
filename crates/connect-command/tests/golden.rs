//! The files of all twelve clients before and after `connect`, `import` and `--undo`, byte for
//! byte. The expectations in `golden/` were written by hand.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use clap::Parser;
use marquetry_client_config::Client;
use marquetry_connect_command::{
    ConnectArgs, ConnectCommandError, Dialog, ImportArgs, Machine, connect, guide, import,
};

#[derive(Parser)]
enum Cli {
    Connect(ConnectArgs),
    Import(ImportArgs),
}

/// A home with files of clients.
struct Home {
    folder: tempfile::TempDir,
    variables: BTreeMap<String, String>,
}

/// The outcome of a command: its output, and its error.
struct Outcome {
    output: String,
    error: Option<ConnectCommandError>,
}

impl Outcome {
    #[track_caller]
    fn ok(self) -> String {
        assert_eq!(self.error, None, "{}", self.output);
        self.output
    }

    #[track_caller]
    fn message(self) -> String {
        self.error.expect("the command fails").message
    }
}

/// Answers that are given in order.
struct Script(Vec<&'static str>);

impl Dialog for Script {
    fn ask(&mut self, _: &str) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.remove(0).to_owned())
    }

    fn ask_hidden(&mut self, question: &str) -> Option<String> {
        self.ask(question)
    }
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_str().unwrap().to_owned();
        let mut variables = BTreeMap::from([("HOME".to_owned(), home.clone())]);
        variables.insert("USERPROFILE".to_owned(), home.clone());
        variables.insert("CONFIG_PATH".to_owned(), format!("{home}/librechat.yaml"));
        Self { folder, variables }
    }

    /// Returns the file of a client.
    fn file(&self, client: Client) -> PathBuf {
        let lookup: &dyn Fn(&str) -> Option<String> = &|name| self.variables.get(name).cloned();
        let platform = marquetry_client_config::Platform::current();
        let home = marquetry_client_config::Home::new(platform, lookup);
        home.files(client).unwrap().remove(0)
    }

    fn own(&self) -> PathBuf {
        self.folder.path().join(".config/marquetry/mcp.json")
    }

    fn write(&self, client: Client, text: &str) -> PathBuf {
        let path = self.file(client);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn golden(&self, name: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        text.replace("@HOME@", self.folder.path().to_str().unwrap())
    }

    fn run(&self, line: &str) -> Outcome {
        self.run_with(line, None)
    }

    fn run_with(&self, line: &str, answers: Option<Vec<&'static str>>) -> Outcome {
        let words = ["marquetry"].into_iter().chain(line.split_whitespace());
        let cli = Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
        self.run_by(answers, |machine| match cli {
            Cli::Connect(arguments) => connect(&arguments, machine),
            Cli::Import(arguments) => import(&arguments, machine),
        })
    }

    fn run_by(
        &self,
        answers: Option<Vec<&'static str>>,
        run: impl FnOnce(&mut Machine<'_>) -> Result<(), ConnectCommandError>,
    ) -> Outcome {
        let lookup: &dyn Fn(&str) -> Option<String> = &|name| self.variables.get(name).cloned();
        let mut output = Vec::new();
        let mut script = Script(answers.clone().unwrap_or_default());
        let mut machine = Machine::new("/opt/marquetry", lookup, &mut output);
        if answers.is_some() {
            machine = machine.with_dialog(&mut script);
        }
        let error = run(&mut machine).err();
        Outcome { output: String::from_utf8(output).unwrap(), error }
    }
}

#[track_caller]
fn assert_file(path: &Path, want: &str) {
    let found = fs::read_to_string(path).unwrap();
    assert_eq!(found, want, "{}", path.display());
}

#[test]
fn every_client_is_connected_and_disconnected() {
    for client in Client::ALL {
        let home = Home::new();
        let id = client.id();
        let before = home.golden(&format!("{id}.before"));
        let connected = home.golden(&format!("{id}.connected"));
        let path = home.write(client, &before);
        let output = home.run(&format!("connect {id} --yes")).ok();
        assert_file(&path, &connected);
        assert!(output.contains("+++ ") && output.contains("marquetry import"), "{output}");
        // A second time changes nothing.
        let output = home.run(&format!("connect {id} --yes")).ok();
        assert!(output.contains("is connected already"), "{output}");
        home.run(&format!("connect {id} --undo --yes")).ok();
        assert_file(&path, &before);
        let output = home.run(&format!("connect {id} --undo --yes")).ok();
        assert!(output.contains("there is nothing to undo"), "{output}");
    }
}

#[test]
fn servers_of_every_client_are_imported_and_given_back() {
    for client in Client::ALL {
        let home = Home::new();
        let id = client.id();
        let before = home.golden(&format!("{id}.before"));
        let path = home.write(client, &before);
        home.run(&format!("import {id} --yes")).ok();
        assert_file(&home.own(), &home.golden(&format!("{id}.imported")));
        assert_file(&path, &before);
        home.run(&format!("import {id} --yes --replace")).ok();
        assert_file(&path, &home.golden(&format!("{id}.replaced")));
        home.run("import --undo --yes").ok();
        assert_file(&path, &before);
        assert!(!home.own().exists(), "{id}");
    }
}

#[test]
fn an_undo_after_further_edits_keeps_them() {
    for client in Client::ALL {
        let home = Home::new();
        let id = client.id();
        let before = home.golden(&format!("{id}.before"));
        let path = home.write(client, &before);
        home.run(&format!("connect {id} --yes")).ok();
        // The user changes the name of a server.
        let names = [
            "files", "notes", "\"w\"", "docs", "api", "web", "github", "db", "time", "figma", "old",
        ];
        let name = names.into_iter().find(|name| before.contains(name)).unwrap();
        let other = if name.starts_with('"') { "\"other\"" } else { "other" };
        let connected = fs::read_to_string(&path).unwrap();
        fs::write(&path, connected.replace(name, other)).unwrap();
        let output = home.run(&format!("connect {id} --undo --yes")).ok();
        assert!(output.contains("was edited since"), "{output}");
        assert_file(&path, &before.replace(name, other));
    }
}

#[test]
fn a_dry_run_writes_nothing() {
    let home = Home::new();
    let path = home.write(Client::Cursor, "{}");
    let output = home.run("connect cursor --dry-run").ok();
    assert!(output.contains("+  \"mcpServers\": {"), "{output}");
    assert_file(&path, "{}");
    home.write(Client::Cursor, r#"{"mcpServers": {"a": {"command": "x"}}}"#);
    home.run("import cursor --dry-run --move-secrets").ok();
    assert!(!home.folder.path().join(".config/marquetry").exists());
    assert!(!home.folder.path().join(".local").exists());
}

#[test]
fn without_a_terminal_questions_name_their_flags() {
    let home = Home::new();
    let path = home.write(Client::Cursor, "{}");
    let message = home.run("connect cursor").message();
    assert!(message.contains("pass --yes to write, or --dry-run"), "{message}");
    assert_file(&path, "{}");
    home.write(Client::Cursor, r#"{"mcpServers": {"a": {"command": "x"}}}"#);
    home.write(Client::Windsurf, r#"{"mcpServers": {"a": {"command": "y"}}}"#);
    let message = home.run("import --yes").message();
    let want =
        "\"a\" of Windsurf differs from \"a\" of Cursor; choose with --conflict keep, take or both";
    assert_eq!(message, want);
    assert!(!home.own().exists());
}

#[test]
fn the_user_may_say_no() {
    let home = Home::new();
    let path = home.write(Client::Zed, "{}");
    let output = home.run_with("connect zed", Some(vec!["what?", "n"])).ok();
    assert!(output.contains("nothing was written"), "{output}");
    assert_file(&path, "{}");
    home.run_with("connect zed", Some(vec!["y"])).ok();
    assert!(fs::read_to_string(&path).unwrap().contains("/opt/marquetry"));
    let output = home.run_with("connect zed --undo", Some(vec![])).ok();
    assert!(output.contains("nothing was written"), "{output}");
    home.run_with("connect zed --undo", Some(vec!["yes"])).ok();
    assert_file(&path, "{}");
}

#[test]
fn conflicts_are_settled_as_the_user_says() {
    for (flag, want) in [
        ("keep", r#"{"a":{"command":"x","args":[]}}"#),
        ("take", r#"{"a":{"command":"y","args":[]}}"#),
        ("both", r#"{"a":{"command":"x","args":[]},"a-windsurf":{"command":"y","args":[]}}"#),
    ] {
        for answers in [None, Some(vec![&flag[..1], "y", "n"])] {
            let home = Home::new();
            home.write(Client::Cursor, r#"{"mcpServers": {"a": {"command": "x"}}}"#);
            home.write(Client::Windsurf, r#"{"mcpServers": {"a": {"command": "y"}}}"#);
            if flag != "take" {
                // The same server again is merged.
                let same = r#"{"context_servers": {"a": {"command": "x", "args": []}}}"#;
                home.write(Client::Zed, same);
            }
            let line = match answers {
                None => format!("import --yes --conflict {flag}"),
                Some(_) => "import".to_owned(),
            };
            let output = home.run_with(&line, answers).ok();
            assert!(
                output.contains("a of Zed: the same server is there") || flag == "take",
                "{output}"
            );
            let text = fs::read_to_string(home.own()).unwrap();
            let found: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(found["mcpServers"].to_string(), want, "{output}");
        }
    }
}

#[test]
fn secrets_are_moved_and_shown_nowhere() {
    let home = Home::new();
    let text = r#"{"mcpServers": {"a": {"command": "x", "env": {"API_KEY": "hush-hush"}}}}"#;
    home.write(Client::Cursor, text);
    let output = home.run("import cursor --yes").ok();
    assert!(output.contains("--move-secrets") && !output.contains("hush"), "{output}");
    home.run("import --undo --yes").ok();
    let output = home.run("import cursor --yes --move-secrets").ok();
    assert!(!output.contains("hush"), "{output}");
    let file = home.folder.path().join(".config/marquetry/secrets/a-API_KEY");
    assert_file(&file, "hush-hush");
    let own = fs::read_to_string(home.own()).unwrap();
    assert!(own.contains(&format!("${{file:{}}}", file.display())) && !own.contains("hush"));
}

#[test]
fn an_undo_removes_the_unchanged_files_of_secrets() {
    let home = Home::new();
    let text = r#"{"mcpServers": {"a": {"command": "x", "env": {"A_KEY": "hush", "B_KEY": "hush-b",
        "C_KEY": "hush-c"}}}}"#;
    home.write(Client::Cursor, text);
    let folder = home.folder.path().join(".config/marquetry/secrets");
    // A file that was there with the same secret is not of this import.
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("a-C_KEY"), "hush-c").unwrap();
    home.run("import cursor --yes --move-secrets").ok();
    fs::write(folder.join("a-B_KEY"), "other").unwrap();
    let output = home.run("import --undo --dry-run").ok();
    let goes = format!("the file {} goes, too", folder.join("a-A_KEY").display());
    assert!(output.contains(&goes) && !output.contains("a-B_KEY goes"), "{output}");
    assert!(folder.join("a-A_KEY").exists());
    let output = home.run("import --undo --yes").ok();
    assert!(!folder.join("a-A_KEY").exists(), "{output}");
    assert!(output.contains("a-B_KEY: stays, since it was changed; remove it by hand"), "{output}");
    assert!(folder.join("a-B_KEY").exists() && folder.join("a-C_KEY").exists());

    // A file that an entry still names stays; the folder goes with the last one.
    fs::remove_dir_all(&folder).unwrap();
    home.run("import cursor --yes --move-secrets").ok();
    let own = fs::read_to_string(home.own()).unwrap();
    fs::write(home.own(), own.replace("\"a\": {", "\"b\": {")).unwrap();
    let output = home.run("import --undo --yes").ok();
    assert!(output.contains("the change is gone already"), "{output}");
    assert!(output.contains("a-A_KEY: stays, since ") && folder.join("a-A_KEY").exists());
    fs::remove_file(home.own()).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    home.run("import cursor --yes --move-secrets").ok();
    // The user has removed the file of servers by hand.
    fs::remove_file(home.own()).unwrap();
    let message = home.run("import --undo").message();
    assert!(message.contains("Remove 3 files of secrets"), "{message}");
    home.run("import --undo --yes").ok();
    assert!(!folder.exists());
}

#[test]
fn a_conflict_names_the_members_that_differ() {
    let home = Home::new();
    let cursor = r#"{"mcpServers": {"a": {"command": "x", "env": {"API_KEY": "hush-1"}}}}"#;
    home.write(Client::Cursor, cursor);
    home.write(Client::Windsurf, &cursor.replace("hush-1", "hush-2"));
    let answers = Some(vec!["x", "y", "no", "n", "n", "n"]);
    let output = home.run_with("import", answers).ok();
    assert!(output.contains("  env.API_KEY: the values differ (hidden)\n"), "{output}");
    assert_eq!(output.matches("type k, t or b\n").count(), 3, "{output}");
    assert!(output.contains("no valid answer after three questions"), "{output}");
    assert!(output.contains("a of Windsurf: left out, a stays as it was"), "{output}");
    assert!(!output.contains("hush"), "{output}");
}

#[test]
fn clients_that_a_transport_does_not_reach_are_left_out_of_all() {
    let home = Home::new();
    let claude = home.write(Client::ClaudeDesktop, "{}");
    let zed = home.write(Client::Zed, "{}");
    let output = home.run("connect --all --transport http --yes").ok();
    assert!(output.contains("Claude Desktop: left out: "), "{output}");
    assert_file(&claude, "{}");
    assert!(fs::read_to_string(zed).unwrap().contains("http://127.0.0.1:3001/mcp"));
    home.run("connect claude-desktop --transport http --yes").message();
}

#[test]
fn the_guide_of_an_empty_home_names_no_file_that_is_missing() {
    let home = Home::new();
    let output = home.run_by(Some(vec![]), |machine| guide("http://127.0.0.1:3001/", machine)).ok();
    assert!(output.contains("  marquetry serve --open\n"), "{output}");
    assert!(output.contains("There are no servers yet: \"marquetry import\""), "{output}");
}

#[test]
fn broken_and_odd_files_are_refused_and_stay() {
    for (text, want) in [
        ("{\"mcpServers\": ", "line 1, column "),
        ("{\"mcpServers\": []}", "\"mcpServers\" is not an object by name"),
        ("{\"mcpServers\": {}, \"mcpServers\": {}}", "is given twice"),
    ] {
        let home = Home::new();
        let path = home.write(Client::Cursor, text);
        let message = home.run("connect cursor --yes").message();
        assert!(message.starts_with("Cursor: ") && message.contains(want), "{message}");
        assert_file(&path, text);
    }
}

#[test]
fn one_failure_does_not_stop_the_others() {
    let home = Home::new();
    home.write(Client::Cursor, "{");
    let zed = home.write(Client::Zed, "{}");
    let message = home.run("connect --all --yes").message();
    assert!(message.starts_with("Cursor: ") && !message.contains("Zed"), "{message}");
    assert!(fs::read_to_string(zed).unwrap().contains("marquetry"));
}

#[test]
fn clients_that_are_missing_and_a_missing_home_are_named() {
    let mut home = Home::new();
    let message = home.run("connect cursor --yes").message();
    assert!(message.contains(".cursor does not exist; name a file with --file"), "{message}");
    let message = home.run("connect emacs").message();
    assert!(message.starts_with("unknown client \"emacs\""), "{message}");
    let message = home.run("connect --all --yes").message();
    assert_eq!(message, "no client was found on this machine");
    let message = home.run("connect claude-desktop --transport http --yes --file x").message();
    assert!(message.contains("use --transport stdio"), "{message}");
    home.variables.clear();
    let message = home.run("connect cursor --yes").message();
    assert!(message.contains("the home folder is not known: set "), "{message}");
    let message = home.run("import --yes").message();
    assert!(message.contains("the home folder is not known: set "), "{message}");
}

#[test]
fn a_running_server_is_connected_by_its_url() {
    let home = Home::new();
    let path = home.write(Client::VsCode, "{}\n");
    home.run("connect vscode --yes --transport http --url http://127.0.0.1:8080/mcp").ok();
    let want = "{\n  \"servers\": {\n    \"marquetry\": {\n      \"type\": \"http\",\n      \"url\": \"http://127.0.0.1:8080/mcp\"\n    }\n  }\n}\n";
    assert_file(&path, want);
    assert!(!home.own().exists());
    // Another transport replaces the entry in its place; an undo takes back both.
    home.run("connect vscode --yes").ok();
    assert!(fs::read_to_string(&path).unwrap().contains("/opt/marquetry"));
    home.run("connect vscode --undo --yes").ok();
    assert_file(&path, "{}\n");
}

#[test]
fn a_file_of_a_project_is_named() {
    let home = Home::new();
    let file = home.folder.path().join("p/.vscode/mcp.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, r#"{"servers": {"a": {"command": "x", "cwd": "${workspaceFolder}/b"}}}"#)
        .unwrap();
    let name = file.to_str().unwrap();
    home.run(&format!("import vscode --file {name} --yes")).ok();
    let own = fs::read_to_string(home.own()).unwrap();
    assert!(own.contains(&format!("{}/p/b", home.folder.path().display())), "{own}");
    home.run(&format!("connect vscode --file {name} --yes")).ok();
    home.run(&format!("connect vscode --file {name} --undo --yes")).ok();
}

#[test]
fn a_server_of_the_registry_is_added() {
    let home = Home::new();
    let file = home.folder.path().join("server.json");
    let text = r#"{"name": "io.github.me/weather", "packages": [{"registryType": "npm", "identifier": "weather",
        "environmentVariables": [{"name": "KEY", "isRequired": true, "isSecret": true}]}]}"#;
    fs::write(&file, text).unwrap();
    let line = format!("import --from-registry {}", file.display());
    home.run_with(&line, Some(vec!["", "${KEY}", "y"])).ok();
    let want = "{\n  \"mcpServers\": {\n    \"weather\": {\n      \"command\": \"npx\",\n      \"args\": [\"-y\", \"weather\"],\n      \"env\": {\n        \"KEY\": \"${KEY}\"\n      }\n    }\n  }\n}\n";
    assert_file(&home.own(), want);
    let message = home.run(&line).message();
    assert!(message.contains("--input KEY=VALUE"), "{message}");
}

#[test]
fn the_guide_imports_and_connects() {
    let home = Home::new();
    let cursor = home.write(Client::Cursor, r#"{"mcpServers": {"a": {"command": "x"}}}"#);
    home.write(Client::Zed, "{}");
    // Import, write, replace nothing, connect, write one file of two.
    let answers = vec!["y", "y", "n", "y", "y", "n"];
    let output =
        home.run_by(Some(answers), |machine| guide("http://127.0.0.1:3001/", machine)).ok();
    assert!(output.contains("Cursor          1 server: "), "{output}");
    assert!(output.contains("Zed             0 servers: "), "{output}");
    assert!(output.contains("marquetry serve --open --mcp-config "), "{output}");
    assert!(fs::read_to_string(home.own()).unwrap().contains("\"a\": {"));
    assert!(fs::read_to_string(cursor).unwrap().contains("/opt/marquetry"));
    // A broken file is named, and stays.
    let windsurf = home.write(Client::Windsurf, "{");
    // A second time, Cursor is connected; a "no" to everything changes nothing.
    let output = home.run_by(Some(vec![]), |machine| guide("http://127.0.0.1:3001/", machine)).ok();
    assert!(output.contains("1 server, connected to Marquetry: "), "{output}");
    assert!(output.contains("line 1, column 2: "), "{output}");
    assert_file(&windsurf, "{");
}

#[cfg(unix)]
#[test]
fn clients_that_share_a_file_are_connected_once() {
    let home = Home::new();
    let cursor = home.write(Client::Cursor, "{}");
    let windsurf = home.file(Client::Windsurf);
    fs::create_dir_all(windsurf.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&cursor, &windsurf).unwrap();
    let output = home.run("connect --all --yes").ok();
    assert!(output.contains("Windsurf is connected already"), "{output}");
    home.run("connect windsurf --undo --yes").ok();
    home.run("connect --all --undo --yes").ok();
    assert_file(&cursor, "{}");
}

#[cfg(unix)]
#[test]
fn read_only_files_and_links_are_respected() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let home = Home::new();
    let path = home.write(Client::Cursor, "{}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let message = home.run("connect cursor --yes").message();
    assert!(message.contains("is read-only; allow writing to it"), "{message}");
    fs::remove_file(&path).unwrap();
    let dotfile = home.folder.path().join("dotfiles.json");
    fs::write(&dotfile, "{}").unwrap();
    symlink(&dotfile, &path).unwrap();
    let output = home.run("connect cursor --yes").ok();
    assert!(output.contains("is a link; the file "), "{output}");
    assert!(fs::read_to_string(&dotfile).unwrap().contains("marquetry"));
    home.run("connect cursor --undo --yes").ok();
    assert_file(&dotfile, "{}");
    let other = tempfile::tempdir().unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(other.path().join("x.json"), "{}").unwrap();
    symlink(other.path().join("x.json"), &path).unwrap();
    let message = home.run("connect cursor --yes").message();
    assert!(message.contains("outside of your home"), "{message}");
}

#[cfg(unix)]
#[test]
fn a_write_of_the_client_meanwhile_is_not_lost() {
    /// Writes the client's file while the user thinks.
    struct Slow(PathBuf);
    impl Dialog for Slow {
        fn ask(&mut self, _: &str) -> Option<String> {
            fs::write(&self.0, "{\"theirs\": 1}").unwrap();
            Some("y".to_owned())
        }
        fn ask_hidden(&mut self, question: &str) -> Option<String> {
            self.ask(question)
        }
    }
    let home = Home::new();
    let path = home.write(Client::Cursor, "{}");
    let lookup: &dyn Fn(&str) -> Option<String> = &|name| home.variables.get(name).cloned();
    let mut output = Vec::new();
    let mut slow = Slow(path.clone());
    let mut machine = Machine::new("/opt/m", lookup, &mut output).with_dialog(&mut slow);
    let Cli::Connect(arguments) = Cli::parse_from(["m", "connect", "cursor"]) else { panic!() };
    let message = connect(&arguments, &mut machine).unwrap_err().message;
    assert!(message.contains("was changed by another program meanwhile"), "{message}");
    assert_file(&path, "{\"theirs\": 1}");
}
