//! Scenarios without a model.

use std::{path::PathBuf, sync::Arc, time::Duration};

use marquetry_scenarios::{
    CommandServer, Filter, Format, Options, Revision, Rules, Suite, TestedServer, UrlServer,
};

use crate::{
    Environment, Failed,
    arguments::{OutcomeFormat, Report, TestArgs},
    own_server::OwnServer,
};

/// Runs the scenarios in these files.
pub(crate) fn run(
    arguments: &TestArgs,
    files: &[PathBuf],
    environment: Environment<'_>,
) -> Result<(), Failed> {
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
        return Err(Failed::usage(
            "no scenario for this server: none matches, or all name other transports or revisions",
        ));
    }
    let reports: Vec<(Format, Option<PathBuf>)> = if arguments.report.is_empty() {
        vec![(format(arguments.format), None)]
    } else {
        arguments
            .report
            .iter()
            .map(|Report { format: chosen, file }| {
                (format(chosen.unwrap_or(arguments.format)), file.clone())
            })
            .collect()
    };
    let mut options = Options::default();
    options.jobs = arguments.jobs.unwrap_or(options.jobs);
    options.time_limit = Duration::from_secs(arguments.time_limit);
    options.prints = reports.iter().all(|(format, file)| *format == Format::Text || file.is_some());
    "the same command with --exact".clone_into(&mut options.rerun);
    let outcome = suite.run(&server, &options).map_err(Failed::error)?;
    for (format, file) in reports {
        outcome.write(format, file.as_deref()).map_err(Failed::error)?;
    }
    // The report already contains the failures. A failed test takes precedence over one that could
    // not be run.
    if outcome.is_success() {
        Ok(())
    } else if outcome.has_failures() {
        Err(Failed::printed(Failed::FAIL))
    } else {
        Err(Failed::printed(Failed::ERROR))
    }
}

fn format(format: OutcomeFormat) -> Format {
    match format {
        OutcomeFormat::Text => Format::Text,
        OutcomeFormat::Json => Format::Json,
        OutcomeFormat::Junit => Format::Junit,
        OutcomeFormat::Tap => Format::Tap,
        OutcomeFormat::Html => Format::Html,
    }
}
