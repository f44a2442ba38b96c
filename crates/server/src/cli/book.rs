//! Tests of the README and of `docs`: commands and configurations in them are accepted by this
//! program, links lead to files, and `docs/reference/commands.md` is the program's own help.
//!
//! `cargo xtask generate` writes that page.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use clap::{Command, CommandFactory as _, Parser as _};
use serde_json::Value;

use super::Cli;
use crate::Config;

const COMMANDS: &str = "\
# Commands

<!-- Generated from the program's help: cargo xtask generate -->

The text below is what `marquetry COMMAND --help` prints. [Settings](settings.md) describes the file that `--config` names.
";

/// A fenced block of a page.
struct Block {
    /// File and line, for messages.
    position: String,
    language: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The README and every page of the book, by their paths below the root.
fn pages() -> Vec<(PathBuf, String)> {
    let root = root();
    let mut found = vec![PathBuf::from("README.md")];
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap() {
            let path = folder.join(entry.unwrap().file_name());
            if root.join(&path).is_dir() {
                // `docs/book` is what mdbook writes.
                if path != Path::new("docs/book") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
        .into_iter()
        .map(|path| (path.clone(), fs::read_to_string(root.join(&path)).unwrap()))
        .collect()
}

fn blocks() -> Vec<Block> {
    let mut blocks = Vec::new();
    for (path, text) in pages() {
        let mut open: Option<Block> = None;
        for (index, line) in text.lines().enumerate() {
            match (line.trim_start().strip_prefix("```"), &mut open) {
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (Some(language), None) => {
                    let position = format!("{}:{}", path.display(), index + 1);
                    let language = language.trim().to_owned();
                    open = Some(Block { position, language, text: String::new() });
                }
                (None, Some(block)) => {
                    block.text.push_str(line);
                    block.text.push('\n');
                }
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{}: a block has no end", path.display());
    }
    blocks
}

/// Splits one command line into words, without the part after `#`, `|`, `>`, `&` or `;`. This is
/// enough for the examples; other syntax of a shell is not supported.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = None::<String>;
    let mut quote = None;
    for character in line.chars() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(character),
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, '|' | '>' | '&' | ';') => break,
            (None, '#') if word.is_none() => break,
            (None, ' ') => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

/// Returns the command lines of this program in a block of shell commands.
fn command_lines(block: &Block) -> Vec<Vec<String>> {
    let text = block.text.replace("\\\n", " ");
    let lines = text.lines().filter_map(|line| {
        let line = match &*block.language {
            // A session also shows output; input follows the prompt.
            "console" => line.strip_prefix("$ ")?,
            _ => line,
        };
        let start = if line.starts_with("marquetry ") {
            0
        } else if let Some(position) = line.find("| marquetry ") {
            position + 2
        } else {
            line.find("cargo run --release -p marquetry -- ")? + "cargo run --release -p ".len()
        };
        Some(words(&line[start..].replacen("marquetry -- ", "marquetry ", 1)))
    });
    lines.collect()
}

#[track_caller]
fn assert_is_accepted(position: &str, line: &[String]) {
    match Cli::try_parse_from(line) {
        Err(error) if error.use_stderr() => panic!("{position}: {}: {error}", line.join(" ")),
        _ => {}
    }
}

#[test]
fn commands_are_accepted() {
    let mut count = 0;
    for block in blocks().iter().filter(|block| ["sh", "console"].contains(&&*block.language)) {
        for line in command_lines(block) {
            assert_is_accepted(&block.position, &line);
            count += 1;
        }
    }
    assert!(count > 20, "only {count} commands were found");
}

#[test]
fn settings_are_accepted() {
    let mut count = 0;
    for block in blocks().iter().filter(|block| block.language == "toml") {
        // Every variable is set, each to a valid token.
        let config = Config::from_toml_with(&block.text, &block.position, &|name| {
            Some(format!("{name}-is-0123456789abcdef"))
        })
        .unwrap_or_else(|error| panic!("{error}"));
        for error in config.faults() {
            // Tokens in variables that are not set here, and files of other machines.
            let is_expected = ["is not set", "No such file or directory (os error 2)"]
                .iter()
                .any(|end| error.problem.ends_with(end));
            assert!(is_expected, "{}: {error}", block.position);
        }
        count += 1;
    }
    assert!(count > 5, "only {count} files of settings were found");
}

/// This program reads every `mcp.json` without a warning, except for variables and secrets that are
/// not here. If it starts Marquetry, the command line is valid, too.
#[test]
fn server_files_are_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    for block in blocks().iter().filter(|block| block.language == "json") {
        let value: Value =
            serde_json::from_str(&block.text).unwrap_or_else(|e| panic!("{}: {e}", block.position));
        let sections = ["mcpServers", "servers", "context_servers"];
        let Some(servers) = sections.iter().find_map(|section| value[section].as_object()) else {
            continue;
        };
        count += 1;
        let file = folder.path().join("mcp.json");
        fs::write(&file, &block.text).unwrap();
        let mut warnings = Config::default().add_mcp_json_file(&file).unwrap();
        // Variables, passwords and programs that this machine does not have.
        let absent = ["is not set", "cannot be read: ", "cannot be run: "];
        warnings.retain(|warning| !absent.iter().any(|reason| warning.contains(reason)));
        assert!(warnings.is_empty(), "{}: {warnings:?}", block.position);
        for server in servers.values().filter(|server| server["command"] == "marquetry") {
            let arguments =
                server["args"].as_array().unwrap().iter().map(|it| it.as_str().unwrap());
            let line: Vec<String> =
                std::iter::once("marquetry").chain(arguments).map(str::to_owned).collect();
            assert_is_accepted(&block.position, &line);
        }
    }
    assert!(count > 5, "only {count} files of servers were found");
}

/// YAML on a page is valid. Its jobs for CI systems have the keys that these require, and their
/// commands are accepted.
#[test]
fn jobs_of_ci_systems_are_valid() {
    let mut commands = 0;
    for block in blocks().iter().filter(|block| block.language == "yaml") {
        let value: Value = serde_yaml::from_str(&block.text)
            .unwrap_or_else(|error| panic!("{}: {error}", block.position));
        let script = ci_script(&value).unwrap_or_else(|problem| {
            panic!("{}: {problem}", block.position);
        });
        let shell =
            Block { position: block.position.clone(), language: "sh".to_owned(), text: script };
        for line in command_lines(&shell) {
            assert_is_accepted(&shell.position, &line);
            commands += 1;
        }
    }
    assert!(commands > 5, "only {commands} commands were found");
}

/// Returns the commands of all jobs, one a line; none if the YAML is for another program.
fn ci_script(file: &Value) -> Result<String, String> {
    let mut script = String::new();
    // GitHub Actions.
    for (name, job) in file["jobs"].as_object().into_iter().flatten() {
        if !job["runs-on"].is_string() {
            return Err(format!("the job {name} has no runs-on"));
        }
        let steps =
            job["steps"].as_array().ok_or_else(|| format!("the job {name} has no steps"))?;
        for step in steps {
            match (step["run"].as_str(), step["uses"].as_str()) {
                (Some(run), None) => script.extend([run, "\n"]),
                (None, Some(action)) if action.contains('@') => {}
                _ => return Err(format!("a step of {name} needs either run or uses: {step}")),
            }
        }
    }
    // GitLab: each key with a script is a job, which may extend another one.
    for (name, job) in file.as_object().into_iter().flatten() {
        if let Some(base) = job["extends"].as_str()
            && !file[base].is_object()
        {
            return Err(format!("the job {name} extends {base}, which the file does not have"));
        }
        for line in job["script"].as_array().into_iter().flatten() {
            let line = line.as_str().ok_or_else(|| format!("a line of {name} is not a string"))?;
            script.extend([line, "\n"]);
        }
    }
    Ok(script)
}

#[test]
fn faults_of_ci_files_are_found() {
    for (file, problem) in [
        ("jobs: {a: {steps: []}}", "the job a has no runs-on"),
        ("jobs: {a: {runs-on: u}}", "the job a has no steps"),
        ("jobs: {a: {runs-on: u, steps: [{name: b}]}}", "a step of a needs either run or uses"),
        ("a: {extends: .b, script: [c]}", "the job a extends .b"),
        ("a: {script: [{b: c}]}", "a line of a is not a string"),
    ] {
        let error = ci_script(&serde_yaml::from_str(file).unwrap()).unwrap_err();
        assert!(error.starts_with(problem), "{error}");
    }
}

/// A scenario on a page is one of the scenarios in tests/scenarios.
#[test]
fn scenarios_match_the_tests() {
    let blocks = blocks();
    let shown: Vec<_> = blocks.iter().filter(|it| it.text.contains("\nsteps:\n")).collect();
    assert!(!shown.is_empty(), "no page shows a scenario");
    for block in shown {
        let id = block.text.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
        let id = id.split_whitespace().next().unwrap();
        let folders = fs::read_dir(root().join("tests/scenarios")).unwrap();
        let files = folders.map(|folder| folder.unwrap().path().join(format!("{id}.yaml")));
        let found: Vec<_> = files.filter_map(|file| fs::read_to_string(file).ok()).collect();
        assert_eq!(found, [block.text.as_str()], "{}: scenario {id}", block.position);
    }
}

#[test]
fn links_lead_to_files() {
    for (path, text) in pages() {
        let folder = root().join(&path).parent().unwrap().to_owned();
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let sources = text.split("src=\"").skip(1).filter_map(|rest| rest.split('"').next());
        for target in targets.chain(sources) {
            let file = target.split('#').next().unwrap();
            if file.is_empty() || file.contains("://") {
                continue;
            }
            assert!(folder.join(file).exists(), "{}: no file {target}", path.display());
        }
    }
}

/// A path of this repository in code style exists, so that pages are corrected when files move.
#[test]
fn named_files_exist() {
    let mut pages = pages();
    for name in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        pages.push((name.into(), fs::read_to_string(root().join(name)).unwrap()));
    }
    let mut count = 0;
    for (page, text) in pages {
        let prose = text.split("```").step_by(2);
        for code in prose.flat_map(|prose| prose.split('`').skip(1).step_by(2)) {
            let is_ours = ["bench/", "crates/", "docs/", "fuzz/", "packaging/", "tests/", "xtask/"]
                .iter()
                .any(|folder| code.starts_with(folder));
            let is_path = !code.contains(|c: char| c.is_whitespace() || "<>{}*…".contains(c));
            if is_ours && is_path {
                assert!(root().join(code).exists(), "{}: no file {code}", page.display());
                count += 1;
            }
        }
    }
    assert!(count > 10, "only {count} files are named");
}

#[test]
fn the_summary_lists_every_page() {
    let docs = root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: Vec<_> =
        summary.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    for (path, _) in pages() {
        let Ok(page) = path.strip_prefix("docs") else { continue };
        let page = page.to_str().unwrap();
        let times = listed.iter().filter(|listed| **listed == page).count();
        assert_eq!(times, usize::from(page != "SUMMARY.md"), "{page} in docs/SUMMARY.md");
    }
}

#[test]
fn the_readme_takes_half_a_minute() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let lines = readme.lines().count();
    assert!(lines <= 150, "README.md has {lines} lines; what goes further belongs in docs");
}

#[test]
fn the_reference_of_commands_is_the_help() {
    let mut page = COMMANDS.to_owned();
    add_help(&Cli::command(), &mut vec!["marquetry"], &mut page);
    let path = root().join("docs/reference/commands.md");
    if std::env::var_os("MARQUETRY_UPDATE").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let checked_in = fs::read_to_string(path).unwrap();
    assert_eq!(checked_in, page, "run cargo xtask generate");
}

fn add_help<'a>(command: &'a Command, name: &mut Vec<&'a str>, page: &mut String) {
    let line = name.iter().copied().chain(["--help"]);
    let help = Cli::command().try_get_matches_from(line).unwrap_err().to_string();
    let lines: Vec<_> = help.trim_end().lines().map(str::trim_end).collect();
    write!(page, "\n## `{}`\n\n```text\n{}\n```\n", name.join(" "), lines.join("\n")).unwrap();
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        name.push(inner.get_name());
        add_help(inner, name, page);
        name.pop();
    }
}
