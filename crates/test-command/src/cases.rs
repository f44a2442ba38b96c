//! Cases with a model.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_util::{FutureExt as _, StreamExt as _, stream};
use marquetry_judge::{
    MemoryStore, ResultStore, RunContext, Runner, ServerConfig, Status, TestCase, TestResult,
    case_file::CaseFile,
    cassette::Cassette,
    store::{Configuration, NewRun, RunStatus, with_heartbeat},
};
use tokio::runtime::Runtime;

use crate::{
    Environment, Failed, arguments::TestArgs, configuration::SelectedConfiguration, database,
    progress::Progress, report::print, summary, variables::expand_case,
};

/// A case with the name of its run.
pub(crate) struct LoadedCase {
    file: PathBuf,
    /// The name that the file gives its run; otherwise the path of the file.
    run: String,
    /// The case without the values of variables, as it is stored.
    written: TestCase,
    case: TestCase,
}

/// Reads the cases that the arguments select from these files, and applies the settings of the
/// arguments to them.
pub(crate) fn load(
    arguments: &TestArgs,
    configuration: Option<&SelectedConfiguration>,
    files: &[PathBuf],
    environment: Environment<'_>,
) -> Result<Vec<LoadedCase>, Failed> {
    let mut loaded: Vec<LoadedCase> = Vec::new();
    for path in files {
        let file = CaseFile::load(path).map_err(Failed::usage)?;
        let run = file.name.clone().unwrap_or_else(|| path.display().to_string());
        for mut written in file.into_cases() {
            let mut case = written.clone();
            if is_selected(arguments, path, &case.name) {
                // A configuration has its own variables, and replaces what the file has.
                let may_miss = arguments.replay.is_some() || configuration.is_some();
                expand_case(&mut case, path, environment.variable, may_miss)
                    .map_err(Failed::usage)?;
            }
            if let Some(other) = loaded.iter().find(|other| other.case.name == case.name) {
                return Err(Failed::usage(format!(
                    "{} and {} have a case {:?}; results of one name are one history",
                    other.file.display(),
                    path.display(),
                    case.name
                )));
            }
            for case in [&mut written, &mut case] {
                if let Some(selected) = configuration {
                    selected.resolved.apply(case);
                }
                change(arguments, case);
            }
            loaded.push(LoadedCase { file: path.clone(), run: run.clone(), written, case });
        }
    }
    loaded.retain(|LoadedCase { file, case, .. }| is_selected(arguments, file, &case.name));
    Ok(loaded)
}

/// Returns whether the arguments select a case.
fn is_selected(arguments: &TestArgs, file: &Path, name: &str) -> bool {
    if let Some(exact) = &arguments.exact {
        return name == exact;
    }
    let file = file.display().to_string();
    arguments.filter.is_empty()
        || arguments
            .filter
            .iter()
            .any(|part| name.contains(part.as_str()) || file.contains(part.as_str()))
}

fn change(arguments: &TestArgs, case: &mut TestCase) {
    if let Some(times) = arguments.repeat {
        case.repetitions = times;
    }
    if case.agent_config.is_none() && (arguments.judge.is_some() || arguments.model.is_some()) {
        // The agent of such a case has the settings of its judge, and stays what it is when another
        // judge is named.
        case.agent_config.clone_from(&case.judge_config);
    }
    if let Some(model) = &arguments.judge {
        model.apply(&mut case.judge_config);
    }
    if let Some(model) = &arguments.model {
        model.apply(&mut case.agent_config);
    }
    if case.server_configs.is_none() {
        case.server_configs = server_of(arguments).map(|server| vec![server]);
    }
}

/// Returns the server that the arguments name.
fn server_of(arguments: &TestArgs) -> Option<ServerConfig> {
    if let Some(url) = &arguments.url {
        let url = url.clone();
        return Some(if arguments.sse {
            ServerConfig::Sse { name: None, url, headers: BTreeMap::new() }
        } else {
            ServerConfig::http(url)
        });
    }
    let (program, rest) = arguments.command.split_first()?;
    Some(ServerConfig::stdio(program, rest))
}

/// Runs the cases as one run. With `prints`, shows progress and the results for people. Returns the
/// results of the cases that ran and, if the run was interrupted, the reason.
pub(crate) fn run(
    arguments: &TestArgs,
    cases: Vec<LoadedCase>,
    configuration: Option<SelectedConfiguration>,
    prints: bool,
    environment: Environment<'_>,
) -> Result<(Vec<TestResult>, Result<(), Failed>), Failed> {
    if let Some(selected) = &configuration {
        // Standard output may be a report. A closed pipe is not a failure.
        _ = std::io::stderr().lock().write_all(selected.description().as_bytes());
    }
    let runtime = Runtime::new().map_err(Failed::error)?;
    let (results, ended) =
        runtime.block_on(run_all(arguments, cases, configuration, prints, environment))?;
    if prints {
        print(&summary::render(&results));
    }
    Ok((results, ended))
}

async fn run_all(
    arguments: &TestArgs,
    cases: Vec<LoadedCase>,
    configuration: Option<SelectedConfiguration>,
    prints: bool,
    environment: Environment<'_>,
) -> Result<(Vec<TestResult>, Result<(), Failed>), Failed> {
    check_folders(arguments, &cases)?;
    let stopped = interrupted()?.boxed().shared();
    // A replay tells nothing new about a model, so its results are not stored in the history.
    let store: Arc<dyn ResultStore> = match arguments.replay {
        Some(_) => Arc::new(MemoryStore::new()),
        None => database::open(&arguments.database, environment, database::Missing::Create).await?,
    };
    let runner = database::runner(Arc::clone(&store), environment);
    let is_stored = configuration.is_some() && arguments.replay.is_none();
    let configuration = match configuration {
        Some(selected) => Some(selected.configuration),
        None => Configuration::shared_by(cases.iter().map(|loaded| &loaded.written)),
    };
    if let Some(configuration) = configuration.as_ref().filter(|_| !is_stored) {
        store.put_configuration(configuration).await.map_err(Failed::error)?;
    }
    let new = NewRun {
        name: Some(name_of(&cases)),
        configuration_id: configuration.map(|configuration| configuration.id),
        total_tests: u32::try_from(cases.len()).unwrap_or(u32::MAX),
    };
    let run = store.start_run(new).await.map_err(Failed::error)?;
    let jobs = arguments
        .jobs
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get));
    let progress = Progress::new(cases.len(), prints);
    let total = cases.len();
    let mut running = stream::iter(cases.into_iter().enumerate())
        .map(|(index, loaded)| {
            let runner = &runner;
            let progress = &progress;
            let id = run.id.as_str();
            let stopped = stopped.clone();
            async move {
                if stopped.clone().now_or_never().is_some() {
                    return Ok(None);
                }
                let outcome = run_one(arguments, runner, loaded, id, progress, stopped).await;
                outcome.map(|result| Some((index, result)))
            }
        })
        .buffer_unordered(jobs.max(1));
    let mut results: Vec<Option<TestResult>> = vec![None; total];
    let work = async {
        while let Some(outcome) = running.next().await {
            if let Some((index, result)) = outcome? {
                results[index] = Some(result);
            }
        }
        Ok(())
    };
    // At a signal, running tests end with a stored result, and no further test begins.
    let worked = with_heartbeat(&*store, &run.id, work).await;
    let ended = worked.and_then(|()| match stopped.clone().now_or_never() {
        Some(signal) => {
            // As a shell reports SIGINT and SIGTERM: 128 and the number of the signal.
            let code = if signal == INTERRUPTED { 130 } else { 143 };
            Err(Failed { code, message: format!("{signal}; the results up to now are stored") })
        }
        None => Ok(()),
    });
    drop(running);
    progress.finish();
    let status = if ended.is_ok() { RunStatus::Completed } else { RunStatus::Failed };
    let stored = store.finish_run(&run.id, status).await;
    runner.closed().await;
    let outcome = ended.and_then(|()| match stored {
        Ok(_) => Ok(()),
        Err(error) => {
            let advice = error.advice();
            Err(Failed::error(format!("the run was not stored: {error}: {advice}")))
        }
    });
    Ok((results.into_iter().flatten().collect(), outcome))
}

async fn run_one(
    arguments: &TestArgs,
    runner: &Runner,
    LoadedCase { mut case, .. }: LoadedCase,
    run: &str,
    progress: &Progress,
    stopped: impl Future<Output = String> + Send + 'static,
) -> Result<TestResult, Failed> {
    let line = progress.start(&case.name);
    let mut context = RunContext::default().in_run(run).stopped_by(stopped);
    let events = line.clone();
    context = context.on_event(move |event| events.show(event));
    let mut recorded = None;
    if let Some(folder) = &arguments.replay {
        let cassette = cassette_of(folder, &case)?;
        if let Some(warning) = replay_as_recorded(&mut case, &cassette, arguments.repeat) {
            progress.warn(&warning);
        }
        context = context.with_cassette(cassette);
    } else if let Some(folder) = &arguments.record {
        let cassette = Cassette::record();
        recorded = Some((cassette.clone(), cassette_path(folder, &case)));
        context = context.with_cassette(cassette);
    }
    let result = runner.run_with(case, context).await;
    let saved = match recorded {
        // A part of a recording must not replace a whole one.
        Some((_, path)) if result.status == Status::Error => {
            let path = path.display();
            let stays = "the case has no verdict; if the file exists, it stays as it is";
            progress.warn(&format!("--record: {path} is not written: {stays}"));
            Ok(())
        }
        Some((cassette, path)) => save(&cassette, &path),
        None => Ok(()),
    };
    progress.end(&line, &result);
    saved.map(|()| result)
}

/// Gives a case the servers and the trials of its recording, and returns what a person should know
/// about that. A recording was often made of a server on the command line, which a replay does not
/// need.
fn replay_as_recorded(
    case: &mut TestCase,
    cassette: &Cassette,
    repeat: Option<u32>,
) -> Option<String> {
    let servers = cassette.servers(&case.name);
    if case.server_configs.is_none() && !servers.is_empty() {
        let none: [&str; 0] = [];
        let replayed =
            servers.into_iter().map(|name| ServerConfig::stdio("replay", none).named(name));
        case.server_configs = Some(replayed.collect());
    }
    let trials = cassette.trials()?;
    case.repetitions = trials.max(1);
    repeat.filter(|times| *times != trials).map(|times| {
        format!(
            "--repeat {times}: the recording of {:?} has {trials} trial{}, which are replayed",
            case.name,
            if trials == 1 { "" } else { "s" }
        )
    })
}

fn save(cassette: &Cassette, path: &Path) -> Result<(), Failed> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(Failed::error)?;
    cassette.save(path).map_err(|error| {
        Failed::error(format!("--record: failed to write {}: {error}", path.display()))
    })
}

/// The reason in the results of tests that Ctrl-C ended.
const INTERRUPTED: &str = "the program was interrupted";

/// Completes at SIGINT or SIGTERM, with the reason.
fn interrupted() -> Result<impl Future<Output = String> + Send + 'static, Failed> {
    #[cfg(unix)]
    let mut terminate = {
        use tokio::signal::unix::{SignalKind, signal};
        signal(SignalKind::terminate()).map_err(Failed::error)?
    };
    Ok(async move {
        #[cfg(unix)]
        let terminated = async move { terminate.recv().await };
        #[cfg(not(unix))]
        let terminated = std::future::pending::<Option<()>>();
        tokio::select! {
            _ = tokio::signal::ctrl_c() => INTERRUPTED.to_owned(),
            _ = terminated => "the program was ended".to_owned(),
        }
    })
}

/// Checks before the first test that cassettes can be read or written.
fn check_folders(arguments: &TestArgs, cases: &[LoadedCase]) -> Result<(), Failed> {
    if let Some(folder) = &arguments.replay {
        for LoadedCase { case, .. } in cases {
            cassette_of(folder, case)?;
        }
    }
    if let Some(folder) = &arguments.record {
        fs::create_dir_all(folder)
            .map_err(|error| Failed::usage(format!("--record: {}: {error}", folder.display())))?;
        for LoadedCase { case, .. } in cases {
            let path = cassette_path(folder, case);
            marquetry_atomic_file::check(&path)
                .map_err(|error| Failed::usage(format!("--record: {}: {error}", path.display())))?;
        }
    }
    Ok(())
}

fn cassette_of(folder: &Path, case: &TestCase) -> Result<Cassette, Failed> {
    let path = cassette_path(folder, case);
    Cassette::load(&path).map_err(|error| {
        Failed::usage(format!("--replay: failed to read {}: {error}", path.display()))
    })
}

fn cassette_path(folder: &Path, case: &TestCase) -> PathBuf {
    folder.join(format!("{}.json", file_name(&case.name)))
}

/// Returns the name of a run: the names of its files, or those that the files define.
fn name_of(cases: &[LoadedCase]) -> String {
    let mut names: Vec<&str> = cases.iter().map(|it| it.run.as_str()).collect();
    names.dedup();
    names.join(", ")
}

/// Returns a file name: characters that file systems do not allow become `-`, and a checksum
/// distinguishes similar names.
fn file_name(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|it| if it.is_ascii_alphanumeric() { it.to_ascii_lowercase() } else { '-' })
        .take(60)
        .collect();
    if plain == name { plain } else { format!("{plain}-{:08x}", checksum(name)) }
}

/// Returns the FNV-1a hash, whose values stay the same in all versions, unlike those of the
/// standard library.
fn checksum(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use marquetry_judge::{ModelSettings, RemoteModels, store::NewConfiguration};

    use super::*;

    fn parsed(arguments: &[&str]) -> TestArgs {
        try_parsed(arguments).unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_parsed(arguments: &[&str]) -> Result<TestArgs, clap::Error> {
        crate::arguments::parsed(&[&["cases.yaml"], arguments].concat())
    }

    fn case_with_a_judge() -> TestCase {
        let mut case = TestCase::new("a", "b");
        case.judge_config = Some(ModelSettings::new("openai", "both"));
        case
    }

    /// Checks the models of a case that only has a judge, with these arguments.
    #[track_caller]
    fn check_models(arguments: &[&str], agent: &str, judge: &str) {
        let mut case = case_with_a_judge();
        change(&parsed(arguments), &mut case);
        assert_eq!(case.agent().map(|it| it.model.as_str()), Some(agent));
        assert_eq!(case.judge().map(|it| it.model.as_str()), Some(judge));
    }

    #[test]
    fn another_judge_does_not_change_the_model_under_test() {
        check_models(&[], "both", "both");
        check_models(&["--judge", "openai/other"], "both", "other");
        check_models(&["--model", "ollama/new"], "new", "both");
        let both = ["--judge", "ollama/other", "--model", "ollama/new"];
        check_models(&both, "new", "other");
    }

    #[test]
    fn a_configuration_goes_before_the_case_and_a_model_before_its_judge() {
        let judge = ModelSettings::new("anthropic", "stored");
        let new = NewConfiguration {
            name: "c".to_owned(),
            judge_config: Some(judge.clone()),
            ..NewConfiguration::default()
        };
        let configuration = Configuration::new(new).unwrap();
        let resolved = configuration.resolve(|_| None).unwrap();
        let selected = SelectedConfiguration { configuration, resolved };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cases.yaml");
        let case = "{name: a, prompt: b, judgeConfig: {provider: openai, model: own}}";
        fs::write(&file, format!("cases: [{case}]")).unwrap();
        for (arguments, agent) in [(&[][..], "stored"), (&["--model", "ollama/new"], "new")] {
            let environment = Environment {
                variable: &|_| None,
                variables: &Vec::new,
                guard: None,
                program: None,
            };
            let files = std::slice::from_ref(&file);
            let loaded = load(&parsed(arguments), Some(&selected), files, environment);
            let case = loaded.ok().unwrap().remove(0).case;
            assert_eq!((&*case.agent().unwrap().model, case.judge()), (agent, Some(&judge)));
        }
        for conflict in [&["--judge", "openai/m"][..], &["--url", "http://h"], &["--", "server"]] {
            let given = [&["--configuration", "c"], conflict].concat();
            let error = try_parsed(&given).err().unwrap().to_string();
            assert!(error.contains("cannot be used with"), "{error}");
        }
    }

    #[test]
    fn variables_are_names_for_a_configuration() {
        let given = ["--configuration", "c", "--variable", "A", "--variable", "_b1"];
        assert_eq!(parsed(&given).variable, ["A", "_b1"]);
        for (arguments, reason) in [
            (&["--variable", "A"][..], "--configuration"),
            (
                &["--configuration", "c", "--variable", "A=b"],
                "its value comes from the environment",
            ),
            (&["--configuration", "c", "--variable", "${A}"], "is not the name of a variable"),
        ] {
            let error = try_parsed(arguments).err().unwrap().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[tokio::test]
    async fn a_case_without_a_verdict_does_not_replace_a_cassette() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::write(&path, "a whole recording").unwrap();
        let arguments = parsed(&["--record", &folder.path().display().to_string()]);
        let runner = Runner::new(RemoteModels::new(), Arc::new(MemoryStore::new()));
        let case = case_with_a_judge();
        let written = case.clone();
        let loaded = LoadedCase { file: "a".into(), run: "a".to_owned(), written, case };
        let progress = Progress::new(1, false);
        let stopped = async { "the end".to_owned() };
        let result = run_one(&arguments, &runner, loaded, "r", &progress, stopped).await;
        assert_eq!(result.ok().unwrap().status, Status::Error);
        assert_eq!(fs::read_to_string(path).unwrap(), "a whole recording");
    }

    #[cfg(unix)]
    #[test]
    fn recordings_replace_no_file_behind_a_link_and_touch_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join(".writable");
        fs::write(&other, "of the user").unwrap();
        let arguments = parsed(&["--record", &folder.path().display().to_string()]);
        let case = case_with_a_judge();
        let written = case.clone();
        let cases = [LoadedCase { file: "a".into(), run: "a".to_owned(), written, case }];
        check_folders(&arguments, &cases).unwrap_or_else(|failed| panic!("{}", failed.message));
        std::os::unix::fs::symlink(&other, folder.path().join("a.json")).unwrap();
        let error = check_folders(&arguments, &cases).err().unwrap().message;
        assert!(error.contains("a.json: is a link"), "{error}");
        assert_eq!(fs::read_to_string(&other).unwrap(), "of the user");
    }

    #[test]
    fn a_replay_needs_no_server_and_has_the_recorded_trials() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        let entry = |channel: &str| serde_json::json!({"channel": channel, "request": {}});
        let entries = ["a/agent", "a/server:two", "a/server:one", "a/server:two", "b/server:no"];
        let entries: Vec<_> = entries.into_iter().map(entry).collect();
        let file = serde_json::json!({"version": 1, "trials": 2, "entries": entries});
        fs::write(&path, file.to_string()).unwrap();
        let cassette = Cassette::load(&path).unwrap();
        let mut case = TestCase::new("a", "b");
        let warning = replay_as_recorded(&mut case, &cassette, Some(3)).unwrap();
        let want = "--repeat 3: the recording of \"a\" has 2 trials, which are replayed";
        assert_eq!((&*warning, case.repetitions), (want, 2));
        let names: Vec<_> =
            case.server_configs.iter().flatten().filter_map(ServerConfig::name).collect();
        assert_eq!(names, ["two", "one"]);
        assert_eq!(replay_as_recorded(&mut case, &cassette, None), None);
    }
}
