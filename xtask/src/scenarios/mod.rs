//! `cargo xtask test-scenarios`: runs every scenario in every cell of its matrix, against a real
//! server over a real transport.

mod binary;
mod defect_proxy;
mod hosted;
mod marquetry;
mod store;

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use clap::{Args, ValueEnum};
use marquetry_scenarios::{Filter, Limits, Rules, Suite, TestedServer};

pub(crate) use self::binary::{build as build_binary, listening_address};
use self::{
    marquetry::{ServerKind, Setting},
    store::Defect,
};
use crate::{Failed, root};

/// Options of `test-scenarios`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Runs the cases whose name (id/transport/revision/store) or file contains one of these, or
    /// whose seed is one of these (000 is all of seed 000, 000/2.1 all of its section 2.1).
    filter: Vec<String>,
    /// Compares FILTER with whole names and seeds.
    #[arg(long)]
    exact: bool,
    /// Runs only the cases whose transport/revision/store contains this.
    #[arg(long, value_name = "CELL")]
    cell: Option<String>,
    /// Lists the cases without running them.
    #[arg(long)]
    list: bool,
    /// Format of the outcome.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Number of cases that run at the same time; the number of processors by default.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Writes the outcome into FILE in the chosen format, and as text to standard output.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Tests a server program as a child process: that at PATH, or else a fresh debug build.
    #[arg(long, value_name = "PATH", require_equals = true)]
    binary: Option<Option<PathBuf>>,
    /// Runs each scenario in one cell of its matrix, not in all. The cell varies from scenario to
    /// scenario.
    #[arg(long)]
    once: bool,
    /// Stores knowledge in a PostgreSQL server, which this run starts, instead of a file.
    #[arg(long)]
    postgres: bool,
    /// Injects a defect into the server's store, or into its messages over HTTP. Scenarios that it
    /// affects must fail; if one passes, it checks too little.
    #[arg(long, value_enum, hide = true, conflicts_with = "binary")]
    sabotage: Option<Defect>,
    /// Maximum time of one case.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    time_limit: u64,
}

/// Formats of the outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people; ends with cargo's `test result:` line.
    #[default]
    Text,
    /// A JSON array with one object a case.
    Json,
    /// JUnit's XML.
    Junit,
}

impl From<Format> for marquetry_scenarios::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::Text => Self::Text,
            Format::Json => Self::Json,
            Format::Junit => Self::Junit,
        }
    }
}

/// Runs the scenarios. Fails if one of them fails, or if none matches.
pub(crate) fn run(options: &Options) -> Result<ExitCode, Failed> {
    let rules = Rules { artifacts_must_be_said: true };
    let folders = [root().join("tests/scenarios")];
    let suite = Suite::load(&root(), &folders, rules, &Limits::default()).map_err(|errors| {
        for error in &errors {
            eprintln!("{error}\n");
        }
        Failed::new(format!("{} scenario files have errors", errors.len()))
    })?;
    let filter =
        Filter { words: &options.filter, exact: options.exact, cell: options.cell.as_deref() };
    let mut suite = suite.filtered(&filter);
    if options.once {
        suite = suite.once_each();
    }
    if suite.cases().is_empty() {
        return Err(Failed::new(format!(
            "no case matches `{}`; `--list` shows all {}",
            options.filter.join(" "),
            suite.total()
        )));
    }
    let format = options.format.into();
    if options.list {
        suite.list(format);
        return Ok(ExitCode::SUCCESS);
    }

    let server = match &options.binary {
        None => ServerKind::InProcess(options.sabotage),
        Some(None) => ServerKind::Binary(binary::build()?),
        Some(Some(path)) => ServerKind::Binary(path.clone()),
    };
    let server: Arc<dyn TestedServer> = Arc::new(Setting { server, postgres: options.postgres });
    let mut run_options = marquetry_scenarios::Options::default();
    run_options.jobs = options.jobs.unwrap_or(run_options.jobs);
    run_options.time_limit = Duration::from_secs(options.time_limit);
    run_options.prints = options.format == Format::Text || options.report.is_some();
    run_options.counts_panics = true;
    "cargo xtask test-scenarios --exact".clone_into(&mut run_options.rerun);
    let outcome = suite.run(&server, &run_options)?;
    outcome.write(format, options.report.as_deref())?;
    Ok(if outcome.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
