//! Scenarios without a model.

use std::{path::PathBuf, sync::Arc, time::Duration};

use marquetry_scenarios::{
    CommandServer, Filter, Options, Outcome, Revision, Rules, Suite, TestedServer, UrlServer,
};

use crate::{Environment, Failed, arguments::TestArgs, own_server::OwnServer, report::print};

/// Runs the scenarios in these files. With `prints`, shows progress and the outcome for people.
/// Returns `None` if the arguments select no scenario.
pub(crate) fn run(
    arguments: &TestArgs,
    files: &[PathBuf],
    prints: bool,
    environment: Environment<'_>,
) -> Result<Option<Outcome>, Failed> {
    let revisions = match &arguments.revision[..] {
        [] => vec![Revision::V2025_11_25],
        chosen => chosen.to_vec(),
    };
    let command = arguments.command.split_first();
    let server: Arc<dyn TestedServer> = match (&arguments.url, command) {
        (Some(url), _) if arguments.sse => {
            Arc::new(UrlServer::new(url).over_sse().with_revisions(revisions))
        }
        (Some(url), _) => Arc::new(UrlServer::new(url).with_revisions(revisions)),
        (None, Some((program, rest))) => {
            Arc::new(CommandServer::new(program, rest).with_revisions(revisions))
        }
        (None, None) => match environment.program {
            Some(program) => Arc::new(OwnServer::new(program, revisions)),
            None => {
                return Err(Failed::usage(
                    "name the server of the scenarios: --url URL, or -- COMMAND",
                ));
            }
        },
    };
    let here = std::env::current_dir().map_err(Failed::error)?;
    let all = Suite::load(&here, files, Rules::default(), &server.limits()).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Failed::usage(lines.join("\n"))
    })?;
    let exact = arguments.exact.is_some();
    let words: Vec<String> = arguments.exact.iter().chain(&arguments.filter).cloned().collect();
    let suite = all.filtered(&Filter { words: &words, exact, cell: None });
    if suite.cases().is_empty() {
        return Ok(None);
    }
    let mut options = Options::default();
    options.jobs = arguments.jobs.unwrap_or(options.jobs);
    options.time_limit = Duration::from_secs(arguments.time_limit);
    options.prints = prints;
    "the same command with --exact".clone_into(&mut options.rerun);
    let outcome = suite.run(&server, &options).map_err(Failed::error)?;
    if prints {
        print(&outcome.text());
    }
    Ok(Some(outcome))
}
