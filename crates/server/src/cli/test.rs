//! `marquetry test`

use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::Args;
use marquetry_scenarios::{
    CommandServer, Filter, Format, Options, Revision, Rules, Suite, TestedServer, UrlServer,
};

use super::Failure;

#[derive(Args)]
pub(super) struct TestArgs {
    /// Scenario files, or folders of them.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// URL of a running server, over Streamable HTTP.
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    url: Option<String>,
    /// The server at the URL speaks HTTP+SSE.
    #[arg(long, requires = "url")]
    sse: bool,
    /// Revision of MCP to run the scenarios in; may be given several times [default: 2025-11-25].
    #[arg(long, value_name = "DATE", value_parser = parse_revision)]
    revision: Vec<Revision>,
    /// Run only the cases whose name or file contains this; may be given several times.
    #[arg(long, value_name = "PART")]
    filter: Vec<String>,
    /// Run only the case or the scenario with exactly this name.
    #[arg(long, value_name = "NAME", conflicts_with = "filter")]
    exact: Option<String>,
    /// Format of the outcome.
    #[arg(long, value_enum, default_value_t)]
    format: OutcomeFormat,
    /// Write the outcome to this file in the chosen format, and as text to standard output.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Cases that run at a time [default: the number of processors].
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Time limit of one case, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    time_limit: u64,
    /// Command that starts a server on standard input and output, for each case anew.
    #[arg(last = true, required_unless_present = "url")]
    command: Vec<String>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum OutcomeFormat {
    #[default]
    Text,
    Json,
    Junit,
}

fn parse_revision(text: &str) -> Result<Revision, String> {
    let known = Revision::ALL.map(Revision::as_str).join(", ");
    text.parse().map_err(|error| format!("{error}; the revisions are {known}"))
}

pub(super) fn test(arguments: &TestArgs) -> Result<(), Failure> {
    let revisions = match &arguments.revision[..] {
        [] => vec![Revision::V2025_11_25],
        chosen => chosen.to_vec(),
    };
    let server: Arc<dyn TestedServer> = match (&arguments.url, arguments.command.split_first()) {
        (Some(url), _) if arguments.sse => {
            Arc::new(UrlServer::new(url).over_sse().with_revisions(revisions))
        }
        (Some(url), _) => Arc::new(UrlServer::new(url).with_revisions(revisions)),
        (None, Some((program, rest))) => {
            Arc::new(CommandServer::new(program, rest).with_revisions(revisions))
        }
        (None, None) => return Err(Failure::new("name the server: a command or --url")),
    };
    let here = std::env::current_dir().map_err(|error| Failure::new(error.to_string()))?;
    let suite = Suite::load(&here, &arguments.files, Rules::default(), &server.limits());
    let suite = suite.map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Failure::new(lines.join("\n"))
    })?;
    let exact = arguments.exact.is_some();
    let words: Vec<String> = arguments.exact.iter().chain(&arguments.filter).cloned().collect();
    let suite = suite.filtered(&Filter { words: &words, exact, cell: None });
    if suite.cases().is_empty() {
        return Err(Failure::new(
            "no scenario for this server: none matches, or all name other transports or revisions",
        ));
    }
    let format = match arguments.format {
        OutcomeFormat::Text => Format::Text,
        OutcomeFormat::Json => Format::Json,
        OutcomeFormat::Junit => Format::Junit,
    };
    let mut options = Options::default();
    options.jobs = arguments.jobs.unwrap_or(options.jobs);
    options.time_limit = Duration::from_secs(arguments.time_limit);
    options.prints = format == Format::Text || arguments.report.is_some();
    "the same command with --exact".clone_into(&mut options.rerun);
    let outcome = suite.run(&server, &options);
    let outcome = outcome.map_err(|error| Failure::new(error.to_string()))?;
    let written = outcome.write(format, arguments.report.as_deref());
    written.map_err(|error| Failure::new(error.to_string()))?;
    // The report has the failures already.
    if outcome.is_success() { Ok(()) } else { Err(Failure::new("")) }
}
