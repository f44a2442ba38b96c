//! Arguments of the commands.

use std::{net::IpAddr, path::PathBuf, str::FromStr};

use clap::{Args, Subcommand, ValueEnum};
use marquetry_judge::{Limits, ModelSettings};
use marquetry_protocol::client::{ServerUrlError, parse_server_url};
use marquetry_scenarios::Revision;
use serde_json::Number;

/// Arguments of `marquetry test`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct TestArgs {
    #[command(subcommand)]
    pub(crate) task: Option<Task>,
    /// Files of scenarios and of cases, or folders of them. A YAML file with `cases` at its top
    /// level has cases.
    #[arg(required_unless_present = "schema", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Print the JSON Schema of case files or of scenarios, and run nothing.
    #[arg(long, value_name = "KIND", value_enum, exclusive = true)]
    pub(crate) schema: Option<SchemaKind>,
    /// URL of a running server, over Streamable HTTP.
    #[arg(long, value_name = "URL", value_parser = parse_url, conflicts_with = "command")]
    pub(crate) url: Option<String>,
    /// The server at the URL speaks HTTP+SSE.
    #[arg(long, requires = "url")]
    pub(crate) sse: bool,
    /// Revision of MCP to run the scenarios in; may be given several times [default: 2025-11-25].
    #[arg(long, value_name = "DATE", value_parser = parse_revision)]
    pub(crate) revision: Vec<Revision>,
    /// Run only the tests whose name or file contains this; may be given several times.
    #[arg(long, value_name = "PART")]
    pub(crate) filter: Vec<String>,
    /// Run only the case or the scenario with exactly this name.
    #[arg(long, value_name = "NAME", conflicts_with = "filter")]
    pub(crate) exact: Option<String>,
    /// Format of the outcome.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: OutcomeFormat,
    /// Print a report (junit, json, tap, html), write one to a file (junit=FILE), or write the
    /// outcome to FILE in the format of --format; may be given several times.
    #[arg(long, value_name = "REPORT")]
    pub(crate) report: Vec<Report>,
    /// Tests that run at a time [default: the number of processors].
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Time limit of one scenario, in seconds; cases have `limits`.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) time_limit: u64,
    /// Number of trials of each case; replaces its `repetitions`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeat: Option<u32>,
    /// Model of the agent of all cases, such as openai/gpt-4o-mini or ollama/llama3.2.
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<ModelName>,
    /// Model of the judge of all cases; the agent stays the same.
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) judge: Option<ModelName>,
    /// Stored configuration, by its id or name, whose servers and judge replace those of all cases.
    /// The newest one of a name is used.
    #[arg(long, value_name = "ID|NAME", conflicts_with_all = ["judge", "url", "command"])]
    pub(crate) configuration: Option<String>,
    /// Variable of the environment that the configuration may read, such as API_TOKEN; may be given
    /// several times. Variables whose names begin with MARQUETRY_TEST_ need not be named.
    #[arg(long, value_name = "NAME", requires = "configuration", value_parser = parse_variable)]
    pub(crate) variable: Vec<String>,
    /// Record what models and servers say into this folder, one cassette for each case that has a
    /// verdict.
    #[arg(long, value_name = "FOLDER", conflicts_with = "replay")]
    pub(crate) record: Option<PathBuf>,
    /// Replay the cassettes of this folder: no model and no server is used.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) replay: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    /// Command that starts a server on standard input and output: for each scenario, and for each
    /// trial of a case that names no servers. Scenarios without a command and without a URL test
    /// this program.
    #[arg(last = true)]
    pub(crate) command: Vec<String>,
}

/// Where results are stored.
#[derive(Args, Debug, Default)]
pub(crate) struct DatabaseArgs {
    /// File with the results, or the URL of a libSQL server, whose token is in $TEST_DATABASE_TOKEN
    /// [default: $TEST_DATABASE, or ~/.local/share/marquetry/tests.db].
    #[arg(long, value_name = "FILE|URL")]
    pub(crate) database: Option<PathBuf>,
}

/// What to do with stored results and with judges.
#[derive(Subcommand, Debug)]
pub(crate) enum Task {
    /// Show the stored results of a case: outcomes, pass rate, flakiness.
    History {
        /// Name of the case; all cases without it.
        name: Option<String>,
        /// Results to show.
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// Compare two runs, case by case. Exits with 1 if a case has become worse, and with 3 if the
    /// later run has no verdict.
    Compare {
        /// Id of the earlier run; `latest~1` is the one before the newest.
        #[arg(default_value = "latest~1")]
        before: String,
        /// Id of the later run.
        #[arg(default_value = "latest")]
        after: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// Test a judge: seed faults into good runs, and count how many it finds. Exits with 1 below 95
    /// % found, or above 5 % of good runs rejected.
    JudgeCheck {
        /// Case files; faults are seeded into their stored good trials: those that a person has
        /// confirmed, then others that passed.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Model of the judge, instead of that of the cases.
        #[arg(long, value_name = "PROVIDER/MODEL")]
        judge: Option<ModelName>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        database: DatabaseArgs,
    },
}

/// Arguments of `marquetry test-server`.
#[derive(Args, Debug)]
pub struct TestServerArgs {
    /// Port to listen on; $TEST_PORT, or 3002, without it. 0 takes a free port.
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// Address to listen on. Other machines must send the token, because a test may start
    /// programs.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) address: IpAddr,
    /// Host names that requests may name besides loopback; may be given several times.
    #[arg(long, value_name = "HOST")]
    pub(crate) allowed_host: Vec<String>,
    /// Refuse tests whose `serverConfigs` name commands. The servers of --mcp-config remain.
    #[arg(long)]
    pub(crate) no_commands: bool,
    /// MCP servers of the tests that name none (mcp.json of Claude, Cursor, VS Code and others);
    /// may be given several times.
    #[arg(long, value_name = "FILE")]
    pub(crate) mcp_config: Vec<PathBuf>,
    /// Model of the judge, and of the agent, of the tests that name none.
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<ModelName>,
    /// Tests that run at a time.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) jobs: usize,
    /// Upper bound of one of the `limits` that tests may ask for, such as maxCostUsd=0.5; may be
    /// given several times.
    #[arg(long, value_name = "NAME=NUMBER")]
    pub(crate) limit: Vec<Bound>,
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
}

/// An upper bound of a limit of tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) name: String,
    pub(crate) number: Number,
}

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, number) = text.split_once('=').ok_or("expected NAME=NUMBER")?;
        let bound = Self {
            name: name.to_owned(),
            number: number.parse().map_err(|_| format!("{number:?} is not a number"))?,
        };
        // Each bound is checked separately, so that the error names it.
        Limits::bounds([(bound.name.clone(), bound.number.clone())])
            .map_err(|it| it.to_string())?;
        Ok(bound)
    }
}

/// Kind of test file that has a JSON Schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaKind {
    /// Case files, for tests with a model.
    Cases,
    /// Scenarios, for tests without a model.
    Scenarios,
}

/// Format of the outcome on standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutcomeFormat {
    /// For people.
    #[default]
    Text,
    Json,
    Junit,
    Tap,
    Html,
}

/// A report: its format, its file, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// `None` means that of `--format`.
    pub(crate) format: Option<OutcomeFormat>,
    /// `None` means standard output.
    pub(crate) file: Option<PathBuf>,
}

impl FromStr for Report {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(format) = report_format(text) {
            return Ok(Self { format: Some(format), file: None });
        }
        let named =
            text.split_once('=').and_then(|(name, file)| Some((report_format(name)?, file)));
        match named {
            Some((_, "")) => Err(format!("{text} does not name a file")),
            Some((format, file)) => Ok(Self { format: Some(format), file: Some(file.into()) }),
            None => {
                let first = text.split('=').next().unwrap_or(text);
                if first.chars().all(char::is_alphanumeric) {
                    return Err(format!(
                        "{first} is not a format: use junit, json, tap or html, with a file as in junit=tests.xml"
                    ));
                }
                Ok(Self { format: None, file: Some(text.into()) })
            }
        }
    }
}

fn report_format(name: &str) -> Option<OutcomeFormat> {
    match name {
        "json" => Some(OutcomeFormat::Json),
        "junit" => Some(OutcomeFormat::Junit),
        "tap" => Some(OutcomeFormat::Tap),
        "html" => Some(OutcomeFormat::Html),
        _ => None,
    }
}

/// A model with its provider, as `provider/model`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelName {
    provider: String,
    model: String,
}

impl FromStr for ModelName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some((provider @ ("openai" | "anthropic" | "ollama" | "custom"), model))
                if !model.is_empty() =>
            {
                Ok(Self { provider: provider.to_owned(), model: model.to_owned() })
            }
            _ => {
                Err("expected PROVIDER/MODEL with the provider openai, anthropic, ollama or custom"
                    .to_owned())
            }
        }
    }
}

impl ModelName {
    /// Sets this model in the settings of a case; votes and temperature stay unchanged.
    pub(crate) fn apply(&self, settings: &mut Option<ModelSettings>) {
        match settings {
            Some(settings) => {
                // A URL is valid only for the provider that it was written for.
                if settings.provider != self.provider {
                    settings.base_url = None;
                    settings.api_key = None;
                }
                settings.provider.clone_from(&self.provider);
                settings.model.clone_from(&self.model);
            }
            None => *settings = Some(self.settings()),
        }
    }

    /// Returns the settings of this model, with the defaults of all else.
    pub(crate) fn settings(&self) -> ModelSettings {
        ModelSettings::new(&self.provider, &self.model)
    }
}

fn parse_url(text: &str) -> Result<String, ServerUrlError> {
    parse_server_url(text).map(|_| text.to_owned())
}

fn parse_variable(text: &str) -> Result<String, String> {
    let is_name = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.bytes().all(|one| one.is_ascii_alphanumeric() || one == b'_');
    if is_name {
        Ok(text.to_owned())
    } else {
        Err("this is not the name of a variable; its value comes from the environment".to_owned())
    }
}

fn parse_revision(text: &str) -> Result<Revision, String> {
    let known = Revision::ALL.map(Revision::as_str).join(", ");
    text.parse().map_err(|error| format!("{error}; the revisions are {known}"))
}

/// Parses the arguments of `marquetry test` in a test.
#[cfg(test)]
pub(crate) fn parsed(arguments: &[&str]) -> Result<TestArgs, clap::Error> {
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        test: TestArgs,
    }

    Cli::try_parse_from(["test"].iter().chain(arguments)).map(|cli| cli.test)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_possible_port() {
        assert_eq!(parse_url("http://h:1/mcp").as_deref(), Ok("http://h:1/mcp"));
        assert_eq!(parse_url("http://h:70335/mcp"), Err(ServerUrlError::Port));
    }

    /// Returns the schema that a command line asks for.
    fn parse_schema(line: &[&str]) -> Result<Option<SchemaKind>, clap::Error> {
        #[derive(clap::Parser, Debug)]
        struct Cli {
            #[command(flatten)]
            test: TestArgs,
        }
        let line = std::iter::once("test").chain(line.iter().copied());
        <Cli as clap::Parser>::try_parse_from(line).map(|cli| cli.test.schema)
    }

    #[test]
    fn a_schema_needs_no_files_and_stands_alone() {
        assert_eq!(parse_schema(&["--schema", "cases"]).unwrap(), Some(SchemaKind::Cases));
        assert_eq!(parse_schema(&["--schema", "scenarios"]).unwrap(), Some(SchemaKind::Scenarios));
        assert_eq!(parse_schema(&["a.yaml"]).unwrap(), None);
        for wrong in [&["--schema", "cases", "a.yaml"][..], &["--schema", "suites"], &[]] {
            parse_schema(wrong).unwrap_err();
        }
    }

    #[test]
    fn reports_are_formats_files_or_both() {
        use OutcomeFormat::{Html, Junit};
        for (text, format, file) in [
            ("junit", Some(Junit), None),
            ("html=out/a=b.html", Some(Html), Some("out/a=b.html")),
            ("tests.xml", None, Some("tests.xml")),
            ("./a=b", None, Some("./a=b")),
        ] {
            assert_eq!(text.parse(), Ok(Report { format, file: file.map(PathBuf::from) }));
        }
        assert_eq!("tap=".parse::<Report>(), Err("tap= does not name a file".to_owned()));
        for wrong in ["xml", "xml=tests.xml", ""] {
            let error = wrong.parse::<Report>().unwrap_err();
            assert!(error.contains("is not a format: use junit"), "{error}");
        }
    }

    #[test]
    fn models_have_a_provider() {
        let name: ModelName = "custom/org/model:7b".parse().unwrap();
        assert_eq!(name.settings().model, "org/model:7b");
        for wrong in ["gpt-4", "openai/", "gpt/4", ""] {
            assert!(wrong.parse::<ModelName>().is_err(), "{wrong}");
        }
    }
}
