//! The command line.
//!
//! Exit codes: 0 for success, 1 for a failure at run time, 2 for an error in the command line or
//! the configuration, 130 after Ctrl-C (SIGINT).

mod audit;
#[cfg(test)]
mod book;
mod browser;
mod check;
mod children;
mod completions;
mod connect;
mod diagram;
mod environment;
#[cfg(target_os = "linux")]
mod guard;
mod library;
mod login;
mod man;
mod pins;
mod problems;
mod prompt;
mod reload;
mod serve;
mod shell;
mod source;
mod spans;
mod stats;

use std::{
    ffi::OsString,
    fmt::Display,
    io::{self, Write as _},
    panic::{Location, PanicHookInfo},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Args, Parser, Subcommand};

use marquetry_config::{
    Config, ConfigError, Input, Loaded, ServerSwitches, check_log_level, parse_listen,
    sections::LogFormat,
};
use marquetry_library_command as library_command;
use marquetry_plantuml_tools::DiagramFormat;
use marquetry_printable::{printable, printable_json};
use marquetry_program_log as program_log;
use marquetry_redact::without_known_secrets;
use marquetry_test_command as test_command;

use crate::{app::StartError, tools::BuiltIns};

/// Runs the program with its arguments, the program's name first.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    program_log::print_panics(is_of_damaged_database);
    if wants_json(&arguments) {
        program_log::use_json();
    }
    let is_first_run = arguments.len() == 1 && connect::is_interactive();
    let command = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli.command,
        Err(_) if is_first_run => return ended(connect::guide()),
        Err(error) if error.use_stderr() => {
            if program_log::is_json() {
                let message = error.render().to_string();
                program_log::emit("ERROR", message.trim_start_matches("error: ").trim_end(), &[]);
            } else {
                _ = error.print();
            }
            return ExitCode::from(2);
        }
        Err(help) => {
            // clap reports help and version as errors. They belong on standard output, where a
            // closed pipe is not a failure.
            _ = help.print();
            return ExitCode::SUCCESS;
        }
    };
    let outcome = match command {
        Command::Serve(arguments) => serve::serve(&arguments),
        Command::Stdio(arguments) => serve::stdio(&arguments),
        Command::Encode(arguments) => diagram::encode(&arguments),
        Command::Decode(arguments) => diagram::decode(&arguments),
        Command::Check(arguments) => check::check(&arguments),
        Command::Reload(arguments) => reload::reload(&arguments),
        Command::Connect(arguments) => connect::connect(&arguments),
        Command::Import(arguments) => connect::import(&arguments),
        Command::Login(arguments) => login::login(&arguments),
        Command::Call(arguments) => shell::call(&arguments),
        Command::Tools(arguments) => shell::tools(&arguments),
        Command::Doctor(arguments) => shell::doctor(&arguments),
        Command::Audit(arguments) => audit::audit(&arguments),
        Command::Pins(arguments) => pins::pins(&arguments),
        Command::Policy(arguments) => marquetry_policy_command::run(&arguments, BuiltIns::names)
            .map_err(|message| Failure { code: 2, message })
            .and_then(|report| {
                report.warnings.iter().for_each(|warning| program_log::warn(warning));
                print(&report.text)
            }),
        Command::Index(arguments) => library::index(&arguments),
        Command::Search(arguments) => library::search(&arguments),
        Command::Records(arguments) => library::records(&arguments),
        Command::Stats(arguments) => stats::stats(&arguments),
        Command::Test(arguments) => {
            with_environment(|environment| test_command::test(&arguments, environment))
        }
        Command::TestServer(arguments) => {
            with_environment(|environment| test_command::test_server(&arguments, environment))
        }
        Command::ScenarioUpstream(UpstreamArgs { file }) => {
            test_command::serve_scenario_upstream(&file).map_err(Failure::from)
        }
        Command::Completions(arguments) => completions::completions(&arguments),
        Command::Man(arguments) => man::man(&arguments),
        #[cfg(target_os = "linux")]
        Command::Guard(arguments) => match guard::guard(&arguments) {
            Ok(code) => return ExitCode::from(code),
            Err(failure) => Err(failure),
        },
    };
    ended(outcome)
}

/// Prints the failure of a command, and returns its exit code.
fn ended(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // An empty message was printed already.
            if !failure.message.is_empty() {
                print_error(&failure.message);
            }
            ExitCode::from(failure.code)
        }
    }
}

/// Returns whether libSQL panics because a text in a file is not UTF-8. `marquetry_database`
/// catches that.
fn is_of_damaged_database(panic: &PanicHookInfo<'_>) -> bool {
    let file = panic.location().map(Location::file).unwrap_or_default();
    let mut parts = file.rsplit(['/', '\\']);
    parts.next() == Some("value.rs") && parts.any(|part| part.starts_with("libsql-"))
}

fn print_error(message: &str) {
    let message = &*without_known_secrets(message);
    if program_log::is_json() {
        program_log::emit("ERROR", message, &[]);
    } else {
        // Standard error may be closed.
        _ = writeln!(io::stderr(), "error: {}", printable(message));
    }
}

/// Returns whether the arguments ask for JSON, so that errors in the other arguments are JSON too.
fn wants_json(arguments: &[OsString]) -> bool {
    let end = arguments.iter().position(|argument| argument == "--");
    let own = &arguments[..end.unwrap_or(arguments.len())];
    own.iter().any(|argument| argument == "--log-format=json")
        || own.windows(2).any(|pair| pair[0] == "--log-format" && pair[1] == "json")
}

/// One MCP server in front of many.
///
/// Marquetry starts the MCP servers of an mcp.json and offers their tools as its own. It saves
/// large and binary answers as named artifacts that the model can list and read, finds and cites
/// passages of your documents, and encodes PlantUML diagrams.
#[derive(Parser)]
#[command(name = "marquetry", version, max_term_width = 110, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  marquetry connect cursor                    writes Marquetry into the configuration of Cursor
  marquetry serve --mcp-config mcp.json       serves everything in mcp.json at http://127.0.0.1:3001/mcp
  marquetry stdio --mcp-config mcp.json       does the same for a client that starts its servers itself
  marquetry index ~/notes ~/papers            makes these files searchable for every connected agent
  marquetry search how is bread made          finds passages by words and by meaning
  echo 'A -> B' | marquetry encode            prints the URL of a diagram

Settings are read from the first of these files that exists. The current directory is not searched:
  --config FILE, $MARQUETRY_CONFIG, $XDG_CONFIG_HOME/marquetry/marquetry.toml (~/.config/marquetry/marquetry.toml),
  /etc/marquetry/marquetry.toml

Exit codes: 0 success, 1 failed while running, 2 invalid command line or configuration, 130 ended by Ctrl-C.";

#[derive(Subcommand)]
enum Command {
    /// Serve MCP and REST over HTTP until SIGINT or SIGTERM.
    #[command(after_help = "\
Examples:
  marquetry serve --mcp-config mcp.json
  marquetry serve --config marquetry.toml --mcp-config ~/.config/marquetry/mcp.json --listen 8080
  marquetry serve --listen 127.0.0.1:0 --log debug --log-format json")]
    Serve(ServeCommand),
    /// Serve MCP over standard input and output until the input ends.
    #[command(after_help = "\
Examples:
  marquetry stdio --mcp-config mcp.json
  marquetry stdio --profile reading
  {\"mcpServers\": {\"marquetry\": {\"command\": \"marquetry\", \"args\": [\"stdio\", \"--mcp-config\", \"/path/mcp.json\"]}}}")]
    Stdio(StdioCommand),
    /// Read the configuration of running servers again, and print whether it was taken.
    ///
    /// Reaches the servers of this user. If a new configuration cannot be used, nothing changes.
    #[command(after_help = "\
Examples:
  marquetry reload
  marquetry reload --pid 4711")]
    Reload(ReloadArgs),
    /// Write Marquetry into the configuration of MCP clients, after showing the difference.
    ///
    /// Every other byte of a file stays as it is. A copy of each file is kept; --undo restores it.
    #[command(after_help = "\
Examples:
  marquetry connect cursor
  marquetry connect claude-code zed --transport http
  marquetry connect --all --dry-run
  marquetry connect cursor --undo")]
    Connect(marquetry_connect_command::ConnectArgs),
    /// Collect the servers of MCP clients into Marquetry's own mcp.json.
    ///
    /// Equal servers become one. Of servers that share a name and differ, you choose.
    #[command(after_help = "\
Examples:
  marquetry import cursor zed --move-secrets
  marquetry import cursor --replace              Cursor then starts Marquetry in place of its servers
  marquetry import --from-registry server.json --input API_KEY='${API_KEY}'
  marquetry import --undo")]
    Import(Box<marquetry_connect_command::ImportArgs>),
    /// Print the URL of a PlantUML diagram.
    #[command(after_help = "\
Examples:
  marquetry encode diagram.puml
  echo 'Bob -> Alice : hello' | marquetry encode --format png
  marquetry encode diagram.puml --url-base http://127.0.0.1:8080")]
    Encode(EncodeArgs),
    /// Print the PlantUML text of a code or URL.
    #[command(after_help = "\
Examples:
  marquetry decode SyfFKj2rKt3CoKnELR1Io4ZDoSa70000
  marquetry decode https://www.plantuml.com/plantuml/svg/SyfFKj2rKt3CoKnELR1Io4ZDoSa70000")]
    Decode(DecodeArgs),
    /// Check the configuration and print a summary, without starting anything.
    ///
    /// The check ends at the first mistake in the TOML, such as an unknown name or a wrong type.
    /// Otherwise it reports every setting that cannot work, but only the first one of [auth],
    /// [knowledge.embedding] and [knowledge.chat], whose settings depend on each other.
    #[command(after_help = "\
Examples:
  marquetry check
  marquetry check --config marquetry.toml --mcp-config mcp.json")]
    Check(ServeArgs),
    /// Log in to a server that requires OAuth, and store its token.
    #[command(after_help = "\
Examples:
  marquetry login files
  marquetry login files --config marquetry.toml
  marquetry login files --forget             registers again, as if for the first time")]
    Login(LoginArgs),
    /// Call a tool of the configured servers, or of one that runs, and print its answer.
    Call(Box<Configured<marquetry_call_command::CallArgs>>),
    /// List the tools that clients get.
    Tools(Box<Configured<marquetry_call_command::ToolsArgs>>),
    /// Run every server once, and say what is wrong and what to do.
    Doctor(Box<Configured<marquetry_doctor_command::DoctorArgs>>),
    /// Verify the audit log.
    #[command(after_help = "\
Examples:
  marquetry audit verify
  marquetry audit verify /var/log/marquetry/audit.jsonl")]
    Audit(marquetry_audit_command::AuditArgs),
    /// Show what servers have changed in their tools since they were first seen, and accept it.
    #[command(after_help = "\
Examples:
  marquetry pins list
  marquetry pins diff github
  marquetry pins accept github/create_issue")]
    Pins(marquetry_pins_command::PinsArgs),
    /// Explain what the rules of [policy] allow a caller.
    #[command(after_help = "\
Examples:
  marquetry policy explain --as ci
  marquetry policy explain --as ci github__get_issue")]
    Policy(marquetry_policy_command::PolicyArgs),
    /// Index files and folders, so that agents can find, read and cite them.
    ///
    /// Unchanged files are skipped; changed files replace their old text and passages as a whole.
    /// Unreadable files, and files whose content gave no text (such as scans), are reported with a
    /// reason, indexing continues, and the exit code is 1. Files of which only a part was not read
    /// are indexed with a warning. Empty files and files of other formats are skipped.
    #[command(after_help = "\
Examples:
  marquetry index ~/notes ~/papers/*.pdf
  marquetry index ~/notes --watch --prune        keeps running and follows changes
  marquetry index src --chunk word --chunk-size 200 --overlap 40 --tag code
  marquetry index ~/papers --dry-run --json      prints what it would do, as JSON
  marquetry index ~/notes --database notes.db    uses another database than that in ~/.local/share/marquetry")]
    Index(library_command::IndexArgs),
    /// Find passages of indexed documents by words and by meaning.
    #[command(after_help = "\
Examples:
  marquetry search how is bread made
  marquetry search \"sourdough starter\" --limit 3 --tag recipes
  marquetry search flour --scope ~/notes/bread.md
  echo 'how is bread made?' | marquetry search - --format json")]
    Search(library_command::SearchArgs),
    /// List, show and remove records: documents, notes, users, groups, tags, chats.
    #[command(after_help = "\
Examples:
  marquetry records list --type data.data --tag recipes
  marquetry records show am7://default/data.data/ID
  marquetry records show am7://default/data.data/ID --content
  marquetry records delete am7://default/data.data/ID")]
    Records(library_command::RecordsArgs),
    /// Show how many tokens and bytes shortened answers kept from models, by day and tool.
    ///
    /// Tokens are estimated without a tokenizer, from the first 16 KiB of an answer; images and
    /// other binary data count as bytes alone. Days are in UTC. The figures of all callers are
    /// added up; a running server writes them every 10 seconds.
    #[command(after_help = "\
Examples:
  marquetry stats
  marquetry stats --days 7 --json
  marquetry stats --savings-database savings.db")]
    Stats(stats::StatsArgs),
    /// Test an MCP server with scenarios, or with cases in which a model works and a judge decides.
    ///
    /// The server is a URL, or a command that speaks MCP over standard input and output and is
    /// started for each test. Cases may name their own servers. Scenarios without a server test
    /// this program, with the servers behind it that they describe. Exit codes: 0 all passed, 1 a
    /// test failed, 2 invalid arguments or files, 3 a test could not be run or judged.
    #[command(after_help = "\
Examples:
  marquetry test tests/ -- node build/index.js
  marquetry test tests/adds.yaml --url http://127.0.0.1:3001/mcp
  marquetry test saved_call.yaml               tests this program, with the servers that the scenario describes
  marquetry test tests/ --revision 2025-06-18 --revision 2026-07-28 -- target/debug/adder
  marquetry test tests/ --format junit --report tests.xml -- node build/index.js
  marquetry test cases.yaml --model openai/gpt-4o-mini --repeat 5 -- node build/index.js
  marquetry test cases.yaml --report junit=tests.xml --report html=tests.html
  marquetry test cases.yaml --configuration staging --variable API_TOKEN
  marquetry test history \"creates a file\"
  marquetry test compare latest~1 latest")]
    Test(Box<test_command::TestArgs>),
    /// Serve the HTTP API for tests with a model, which the SDKs use.
    #[command(after_help = "\
Examples:
  marquetry test-server --mcp-config mcp.json --model openai/gpt-4o-mini
  TEST_PORT=3003 marquetry test-server
  TEST_TOKEN=secret marquetry test-server --address 0.0.0.0 --allowed-host tests.example")]
    TestServer(test_command::TestServerArgs),
    /// Run the MCP server that a scenario describes, for `marquetry test`.
    #[command(hide = true)]
    ScenarioUpstream(UpstreamArgs),
    /// Print a script that completes this command line in a shell.
    #[command(after_help = "\
Examples:
  marquetry completions bash > ~/.local/share/bash-completion/completions/marquetry
  marquetry completions zsh > ~/.zfunc/_marquetry          with ~/.zfunc in $fpath
  marquetry completions fish > ~/.config/fish/completions/marquetry.fish")]
    Completions(completions::CompletionsArgs),
    /// Write the man pages of this program, as packages ship them.
    #[command(after_help = "\
Examples:
  marquetry man ~/.local/share/man/man1")]
    Man(man::ManArgs),
    /// Run the program of a server, and end everything that it started when it or Marquetry ends.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Guard(GuardArgs),
}

#[derive(Args, Clone)]
struct ConfigArgs {
    /// File of settings in TOML. Defaults to the first of $MARQUETRY_CONFIG,
    /// ~/.config/marquetry/marquetry.toml, /etc/marquetry/marquetry.toml.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// File of MCP servers in the format of a client: mcp.json of Claude, Cursor, VS Code and
    /// others. May be given several times. Without this option, --config and $MARQUETRY_CONFIG, it
    /// is ~/.config/marquetry/mcp.json, if that exists and the settings have no servers.
    #[arg(long, value_name = "FILE")]
    mcp_config: Vec<PathBuf>,
    /// Log level: error, warn, info, debug, trace, off, or a list by module such as
    /// "info,marquetry_gateway=debug".
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
    /// Format of all messages: text, or JSON with one object per line.
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
}

#[derive(Args, Clone)]
struct ServeArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Address and port to listen on. A port alone listens on 127.0.0.1; port 0 takes a free port.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Allow an address that other machines can reach without [auth].
    #[arg(long)]
    insecure: bool,
}

/// Arguments of a command, with the files of its configuration.
#[derive(Args)]
struct Configured<T: Args> {
    #[command(flatten)]
    command: T,
    #[command(flatten)]
    config: ConfigArgs,
}

/// Arguments of `marquetry serve`.
#[derive(Args)]
struct ServeCommand {
    #[command(flatten)]
    server: ServeArgs,
    /// Open the console in the browser once the server listens.
    #[arg(long)]
    open: bool,
}

/// Arguments of `marquetry stdio`.
#[derive(Args)]
struct StdioCommand {
    #[command(flatten)]
    config: ConfigArgs,
    /// Offer only what this profile of [profiles] has.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
}

/// Arguments of the process that supervises an upstream.
#[cfg(target_os = "linux")]
#[derive(Args)]
struct GuardArgs {
    /// The server's process id.
    #[arg(long)]
    server: i32,
    /// Time that the program gets to end after its input was closed, and again after SIGTERM, in
    /// milliseconds.
    #[arg(long)]
    grace_ms: u64,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Arguments of the process that serves a server of a scenario.
#[derive(Args)]
struct UpstreamArgs {
    /// The file that describes the server.
    file: PathBuf,
}

#[derive(Args)]
struct ReloadArgs {
    /// Process id of the only server to reload.
    #[arg(long)]
    pid: Option<u32>,
}

#[derive(Args)]
struct LoginArgs {
    /// Name of the server in the configuration.
    server: String,
    /// Forget the stored registration and token first, for an authorization server that no longer
    /// knows this program.
    #[arg(long)]
    forget: bool,
    #[command(flatten)]
    config: ConfigArgs,
}

#[derive(Args)]
struct EncodeArgs {
    /// File with the diagram; "-" or nothing reads standard input.
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Format of the picture at the URL.
    #[arg(long, default_value = "svg")]
    format: DiagramFormat,
    /// Keep the lines @startuml and @enduml. By default they are left out where the decoder
    /// restores them.
    #[arg(long)]
    verbatim: bool,
    /// PlantUML server that the URL points to.
    #[arg(long, value_name = "URL")]
    url_base: Option<String>,
}

#[derive(Args)]
struct DecodeArgs {
    /// Code, or URL that ends with one.
    #[arg(value_name = "CODE|URL")]
    code: String,
}

impl ServeArgs {
    /// Loads the configuration of all sources. Listening on a public address without authentication
    /// is an error.
    fn load(&self) -> Result<Loaded, Failure> {
        self.load_asking(&|_| None, &ServerSwitches::default())
    }

    /// Loads as [`Self::load`] does; `ask` returns values for the `${input:…}` of VS Code files.
    fn load_asking(
        &self,
        ask: &dyn Fn(&Input) -> Option<String>,
        switches: &ServerSwitches,
    ) -> Result<Loaded, Failure> {
        let loaded = self.read_asking(ask, switches)?;
        refuse_faults(&loaded.config)?;
        Ok(loaded)
    }

    /// Loads as [`Self::load_asking`] does, without checking that the settings can be used.
    fn read_asking(
        &self,
        ask: &dyn Fn(&Input) -> Option<String>,
        switches: &ServerSwitches,
    ) -> Result<Loaded, Failure> {
        let Loaded { mut config, file, warnings } = self.config.read(ask, switches)?;
        let mut exposure = Config::check_exposure(&config);
        if let Some(listen) = &self.listen {
            config.server.listen =
                parse_listen(listen).map_err(|problem| flag_error("--listen", problem))?;
            exposure =
                config.check_exposure().map_err(|error| flag_error("--listen", error.problem));
        }
        if !self.insecure {
            exposure?;
        }
        Ok(Loaded { config, file, warnings })
    }
}

impl ConfigArgs {
    /// Returns the user's own file of servers, if it exists and no argument names files. It is read
    /// if the settings have no servers.
    fn user_servers(&self) -> Option<PathBuf> {
        if self.config.is_some() || !self.mcp_config.is_empty() {
            return None;
        }
        marquetry_config::user_servers().filter(|file| file.exists())
    }

    /// Loads the configuration of all sources.
    fn load(&self) -> Result<Loaded, Failure> {
        let loaded = self.read(&|_| None, &ServerSwitches::default())?;
        refuse_faults(&loaded.config)?;
        Ok(loaded)
    }

    /// Reads all sources without checking that their settings can be used. `ask` returns values for
    /// the `${input:…}` of VS Code files.
    fn read(
        &self,
        ask: &dyn Fn(&Input) -> Option<String>,
        switches: &ServerSwitches,
    ) -> Result<Loaded, ConfigError> {
        let Loaded { mut config, file, mut warnings } =
            marquetry_config::load_with(self.config.as_deref(), switches)?;
        warnings.extend(config.take_warnings());
        let user_servers = self.user_servers().filter(|_| config.mcp_servers.is_empty());
        for servers in self.mcp_config.iter().chain(&user_servers) {
            warnings.extend(config.add_mcp_json_file_asking(servers, ask)?);
        }
        if let Some(level) = &self.log {
            check_log_level(level).map_err(|problem| flag_error("--log", problem))?;
            config.log.level.clone_from(level);
        }
        if let Some(format) = self.log_format {
            config.log.format = format;
        }
        if config.log.format == LogFormat::Json {
            program_log::use_json();
        }
        config = config.with_user_folders();
        warnings.extend(config.unused_store_settings());
        warnings.extend(config.unused_policies());
        warnings.extend(config.policy_warnings());
        if config.knowledge.enabled && config.knowledge.database.is_none() {
            warnings.push(
                "knowledge is off: neither $XDG_DATA_HOME nor $HOME is set; set one of them or knowledge.database".to_owned(),
            );
        }
        Ok(Loaded { config, file, warnings })
    }
}

/// Refuses settings that cannot be used. Prints all errors except the last, which it returns.
fn refuse_faults(config: &Config) -> Result<(), Failure> {
    let mut faults = config.faults();
    let Some(last) = faults.pop() else { return Ok(()) };
    for fault in &faults {
        print_error(&fault.to_string());
    }
    Err(last.into())
}

fn flag_error(flag: &str, problem: String) -> ConfigError {
    ConfigError { file: "command line".into(), position: None, key: Some(flag.into()), problem }
}

/// Writes to standard output. A closed pipe is not a failure.
fn print(text: &str) -> Result<(), Failure> {
    let text = without_known_secrets(text);
    library_command::write_to_stdout(text.as_bytes())
        .map_err(|error| Failure::new(error.to_string()))
}

/// Prints a message: text, or a JSON line with `--log-format json`.
fn print_message(text: &str) -> Result<(), Failure> {
    if program_log::is_json() {
        return print_json(&serde_json::json!({"message": text.trim_end()}));
    }
    print(text)
}

/// Prints a JSON value on one line.
fn print_json(value: &serde_json::Value) -> Result<(), Failure> {
    print(&format!("{}\n", printable_json(&value.to_string())))
}

/// A failed command: exit code and message.
struct Failure {
    code: u8,
    /// Empty if it was printed already.
    message: String,
}

/// Exit code after SIGINT: 128 + 2, as in shells.
const INTERRUPTED: u8 = 130;

impl Failure {
    fn new(problem: impl Display) -> Self {
        Self { code: 1, message: problem.to_string() }
    }
}

impl From<StartError> for Failure {
    /// Every failed start is an error of the configuration.
    fn from(error: StartError) -> Self {
        Self { code: 2, message: error.to_string() }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self { code: 2, message: error.to_string() }
    }
}

/// Runs a command of tests with the variables of this process, and with this program as guard of
/// the servers.
fn with_environment(
    command: impl FnOnce(test_command::Environment<'_>) -> Result<(), test_command::Failed>,
) -> Result<(), Failure> {
    let guard = serve::guard();
    let program = serve::program();
    let environment = test_command::Environment {
        variable: &environment::variable,
        variables: &environment::variables,
        guard: guard.as_deref(),
        program: program.as_deref(),
    };
    command(environment).map_err(Failure::from)
}

/// Converts the errors of commands, which all have an exit code and a message.
macro_rules! failure_from {
    ($($error:ty),*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self { code: error.code, message: error.message }
            }
        }
    )*};
}

failure_from!(
    library_command::LibraryCommandError,
    marquetry_audit_command::AuditCommandError,
    marquetry_call_command::CallCommandError,
    marquetry_doctor_command::DoctorError,
    test_command::Failed
);

#[cfg(test)]
mod tests {
    use super::wants_json;

    #[test]
    fn json_is_found_in_arguments_that_cannot_be_parsed() {
        for (line, wants) in [
            ("serve --log-format json", true),
            ("serve --wrong --log-format=json", true),
            ("serve --log-format text", false),
            ("serve --log-format", false),
            ("guard -- x --log-format json", false),
            ("serve json", false),
        ] {
            let arguments: Vec<_> = line.split(' ').map(Into::into).collect();
            assert_eq!(wants_json(&arguments), wants, "{line}");
        }
    }
}
