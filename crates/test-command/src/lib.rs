#![doc = include_str!("../README.md")]

mod arguments;
mod cases;
mod changed;
mod configuration;
mod database;
mod failed;
mod own_server;
mod progress;
mod report;
mod results;
mod scenarios;
mod schema;
mod server;
mod summary;
mod variables;

use std::{fmt, path::Path};

use self::{
    arguments::Task,
    report::{Outcomes, Reports},
};
pub use self::{
    arguments::{TestArgs, TestServerArgs},
    failed::Failed,
    server::{main_server, test_server},
};
use marquetry_judge::case_file::TestFiles;
pub use marquetry_test_server::TestApi;

/// Serves a server of a scenario on standard input and output until its input ends. `file`
/// describes it; the runner of the scenario has written it.
///
/// # Errors
///
/// Returns an error if the file cannot be read, or if standard input or output fails.
pub fn serve_scenario_upstream(file: &Path) -> Result<(), Failed> {
    let runtime = tokio::runtime::Runtime::new().map_err(Failed::error)?;
    runtime.block_on(marquetry_scenarios::serve_upstream(file)).map_err(Failed::error)
}

/// The environment that the program passes to its commands.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
    /// Reads a variable of the environment.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Returns all variables of the environment, of which the servers of tests inherit those that
    /// programs need; see [`Runner::with_environment`](marquetry_judge::Runner::with_environment).
    pub variables: &'a dyn Fn() -> Vec<(String, String)>,
    /// The program that starts the servers of a test as
    /// [`StdioCommand::through_guard`](marquetry_protocol::client::StdioCommand::through_guard) has
    /// it.
    pub guard: Option<&'a Path>,
    /// This program, which scenarios test if no other server is named.
    pub program: Option<&'a Path>,
}

impl fmt::Debug for Environment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("guard", &self.guard)
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

/// Runs `marquetry test`. The outcome is on standard output.
///
/// # Errors
///
/// Returns an error if a test did not pass or could not be run. [`Failed::code`] is the exit
/// status: 1 if a test failed, 2 for wrong arguments or files, 3 if a test could not be run.
pub fn test(arguments: &TestArgs, environment: Environment<'_>) -> Result<(), Failed> {
    match &arguments.task {
        Some(Task::History { name, limit, json, database }) => {
            results::history(name.as_deref(), *limit, *json, database, environment)
        }
        Some(Task::Compare { before, after, json, database }) => {
            results::compare(before, after, *json, database, environment)
        }
        Some(Task::JudgeCheck { files, judge, json, database }) => {
            results::judge_check(files, judge.as_ref(), *json, database, environment)
        }
        None => match arguments.schema {
            Some(kind) => schema::print(kind),
            None => run(arguments, environment),
        },
    }
}

/// Runs the scenarios, then the cases, and reports both.
fn run(arguments: &TestArgs, environment: Environment<'_>) -> Result<(), Failed> {
    let files = TestFiles::find(&arguments.files).map_err(Failed::usage)?;
    if arguments.configuration.is_some() && !files.scenarios.is_empty() {
        return Err(Failed::usage(
            "--configuration is for cases with a model: name the server of scenarios with --url URL or -- COMMAND",
        ));
    }
    let reports = Reports::of(arguments)?;
    let configuration = configuration::select(arguments, environment)?;
    let cases = cases::load(arguments, configuration.as_ref(), &files.cases, environment)?;
    if cases.is_empty() && files.scenarios.is_empty() {
        return Err(Failed::usage(
            "no tests found: the folders have no YAML files, or no file has a test of the given name",
        ));
    }
    let prints = reports.prints();
    let mut outcomes = Outcomes { scenarios: None, cases: None };
    if !files.scenarios.is_empty() {
        outcomes.scenarios = scenarios::run(arguments, &files.scenarios, prints, environment)?;
        if outcomes.scenarios.is_none() && cases.is_empty() {
            return Err(Failed::usage(
                "no scenario for this server: none matches, or all name other transports or revisions",
            ));
        }
    }
    // The cases run even if a scenario failed or could not be run.
    let mut ended = Ok(());
    if !cases.is_empty() {
        match cases::run(arguments, cases, configuration, prints, environment) {
            Ok((results, end)) => {
                outcomes.cases = Some(results);
                ended = end;
            }
            Err(failed) => ended = Err(failed),
        }
    }
    // What ran is reported before the reason why the rest did not run.
    reports.write(&outcomes)?;
    ended?;
    match outcomes.exit_code() {
        0 => Ok(()),
        code => Err(Failed::printed(code)),
    }
}
