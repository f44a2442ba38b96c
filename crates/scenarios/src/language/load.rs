//! Finds scenarios and reads them. Unknown keys are errors.

use std::{
    borrow::Cow,
    fmt::{self, Write as _},
    fs, io,
    path::{Path, PathBuf},
};

use marquetry_nearest::nearest;
use serde_yaml::Error as YamlError;

use super::{Scenario, check, check::Rules};

/// A scenario and the path of its file.
#[derive(Clone, Debug)]
pub(crate) struct LoadedScenario {
    pub(crate) scenario: Scenario,
    /// Path from the workspace's root, with `/` between the parts.
    pub(crate) file: String,
    /// Folder that `file` paths are relative to.
    pub(crate) folder: PathBuf,
}

/// Error in a scenario file, formatted as a compiler does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError(String);

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LoadError {}

/// Returns the scenarios in the given files and below the given folders, in the order of their
/// paths, and the errors of those that cannot be read. Messages name files relative to `root`.
pub(crate) fn load(
    root: &Path,
    given: &[PathBuf],
    rules: Rules,
) -> (Vec<LoadedScenario>, Vec<LoadError>) {
    let mut paths = Vec::new();
    let mut errors = Vec::new();
    for path in given {
        let found = if path.is_dir() {
            find(path, &mut paths)
        } else {
            paths.push(path.clone());
            Ok(())
        };
        if let Err(error) = found {
            errors.push(LoadError(format!("{}: {error}", path.display())));
        }
    }
    paths.sort();
    paths.dedup();
    let mut loaded: Vec<LoadedScenario> = Vec::new();
    for path in paths {
        match load_file(root, &path, rules) {
            Ok(scenario) => {
                let id = &scenario.scenario.id;
                match loaded.iter().find(|other| other.scenario.id == *id) {
                    Some(other) => errors.push(LoadError(format!(
                        "{}: the id `{id}` is taken by {}",
                        scenario.file, other.file
                    ))),
                    None => loaded.push(scenario),
                }
            }
            Err(error) => errors.push(error),
        }
    }
    (loaded, errors)
}

fn find(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            found.push(path);
        }
    }
    Ok(())
}

fn load_file(root: &Path, path: &Path, rules: Rules) -> Result<LoadedScenario, LoadError> {
    let file = path
        .strip_prefix(root)
        .unwrap_or(path)
        .to_string_lossy()
        .replace(std::path::MAIN_SEPARATOR, "/");
    let text = fs::read_to_string(path).map_err(|error| LoadError(format!("{file}: {error}")))?;
    let scenario = parse(&text, &file)?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let problems = check::check(&scenario, &stem, rules);
    if !problems.is_empty() {
        let lines: Vec<_> = problems
            .iter()
            .map(|problem| match problem.line {
                Some(line) => format!("{file}:{line}: {}", problem.message),
                None => format!("{file}: {}", problem.message),
            })
            .collect();
        return Err(LoadError(lines.join("\n")));
    }
    let folder = path.parent().unwrap_or(root).to_owned();
    Ok(LoadedScenario { scenario, file, folder })
}

/// Reads one scenario; messages name it `file`.
fn parse(text: &str, file: &str) -> Result<Scenario, LoadError> {
    let options = serde_yaml::options! {
        // `no` and `on` are strings.
        strict_booleans: true,
        with_snippet: false,
    };
    serde_yaml::from_str_with_options(text, options)
        .map_err(|error| LoadError(explain(&error, text, file)))
}

/// Longest line that an error shows, in bytes. A file that is no scenario, such as the JSON of
/// another program, may be one line of megabytes.
const MAX_SHOWN_LINE: usize = 500;

/// Formats an error as `file:line:column: message`, with the line, a mark below it, and the nearest
/// known key.
fn explain(error: &YamlError, text: &str, file: &str) -> String {
    let error = error.without_snippet();
    let (message, width, hint) = match error {
        YamlError::SerdeUnknownField { field, expected, .. } => {
            (format!("unknown key `{}`", cut(field)), field.len(), hint(field, expected))
        }
        YamlError::SerdeUnknownVariant { variant, expected, .. } => {
            (format!("unknown value `{}`", cut(variant)), variant.len(), hint(variant, expected))
        }
        YamlError::DuplicateMappingKey { key: Some(key), .. } => {
            (format!("duplicate key `{}`", cut(key)), key.len(), String::new())
        }
        other => {
            let text = other.to_string();
            let message = text.split(" at line ").next().unwrap_or(&text).to_owned();
            (message, 1, String::new())
        }
    };
    let Some(location) = error.location() else {
        return format!("{file}: {message}{hint}");
    };
    let line = location.line();
    let column = location.column();
    let mut shown = format!("{file}:{line}:{column}: {message}{hint}");
    let source = text.lines().nth(line.saturating_sub(1) as usize);
    if let Some(source) = source.filter(|source| source.len() <= MAX_SHOWN_LINE) {
        let gutter = " ".repeat(line.to_string().len());
        let indent = " ".repeat(column.saturating_sub(1) as usize);
        let mark = "^".repeat(width.max(1));
        let _ = write!(shown, "\n {gutter} |\n {line} | {source}\n {gutter} | {indent}{mark}");
    }
    shown
}

/// Returns a key or a value for an error, without the end of a very long one.
fn cut(name: &str) -> Cow<'_, str> {
    const MAX: usize = 100;
    match name.char_indices().nth(MAX) {
        Some((end, _)) => format!("{}…", &name[..end]).into(),
        None => name.into(),
    }
}

/// Returns what to append to the error of an unknown key or value.
fn hint(wrong: &str, known: &[&str]) -> String {
    match nearest(wrong, known) {
        Some(name) => format!(", did you mean `{name}`?"),
        None if known.is_empty() => String::new(),
        None => format!("; known are `{}`", known.join("`, `")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::matrix::Limits;

    const GOOD: &str = "id: a\ntitle: t\nsteps:\n  - call: x\nexpect: {artifacts: none}\n";

    #[track_caller]
    fn error(text: &str) -> String {
        parse(text, "s/a.yaml").unwrap_err().to_string()
    }

    #[test]
    fn a_minimal_scenario_is_read() {
        let scenario = parse(GOOD, "a.yaml").unwrap();
        assert_eq!(scenario.matrix.cells(&Limits::default()).count(), 8);
        assert_eq!(scenario.steps[0].referenced.line(), 4);
    }

    #[test]
    fn an_unknown_key_is_shown_with_its_place_and_the_nearest_one() {
        let text = GOOD.replace("  - call: x\n", "  - call: x\n    exepct: {}\n");
        assert_eq!(
            error(&text),
            "s/a.yaml:5:5: unknown key `exepct`, did you mean `expect`?\n   |\n 5 |     exepct: {}\n   |     ^^^^^^"
        );
    }

    #[test]
    fn a_very_long_line_is_not_shown() {
        let found = error(&format!("{}: 1\n{GOOD}", "k".repeat(1000)));
        let name = "k".repeat(100);
        assert!(found.starts_with(&format!("s/a.yaml:1:1: unknown key `{name}…`; ")), "{found}");
        assert!(!found.contains('\n'), "{found}");
        let found = error(&format!("{{\"a\": 1, \"b\": \"{}\"}}", "x".repeat(1000)));
        assert!(found.starts_with("s/a.yaml:1:2: unknown key `a`"), "{found}");
        assert!(!found.contains("xxx"), "{found}");
    }

    #[test]
    fn a_duplicate_key_is_named() {
        let found = error(&GOOD.replace("title: t\n", "title: t\nid: b\n"));
        assert!(found.starts_with("s/a.yaml:3:1: duplicate key `id`\n"), "{found}");
    }

    #[test]
    fn an_unknown_key_is_found_at_every_depth() {
        for (step, want) in [
            ("titel: a", ":4:15: unknown key `titel`, did you mean `title`?"),
            ("with: {$txt: a}", ":4:22: unknown key `$txt`, did you mean `$text`?"),
            ("with: {a: {$text: {fiel: a}}}", ":4:34: unknown key `fiel`, did you mean `file`?"),
            (
                "expect: {content: [{text: {$regx: a}}]}",
                "unknown key `$regx`, did you mean `$regex`?",
            ),
            ("expect: {content: {$length: {mni: 1}}}", "unknown key `mni`, did you mean `min`?"),
            ("expect: {artifacts: [{nam: a}]}", "unknown key `nam`, did you mean `name`?"),
            ("only: [htp]", "unknown value `htp`, did you mean `http`?"),
        ] {
            let text = GOOD.replace("call: x", &format!("{{call: x, {step}}}"));
            let found = error(&text);
            assert!(found.contains(want), "{step}: {found}");
            assert!(found.starts_with("s/a.yaml:4:"), "{step}: {found}");
        }
    }

    #[test]
    fn given_answers_are_strict_too() {
        for (answer, want) in [
            ("{contnet: []}", "unknown key `contnet`, did you mean `content`?"),
            ("{content: [{texd: a}]}", "unknown key `texd`, did you mean `text`?"),
            (
                "{content: [{text: {generate: {kind: jsn}}}]}",
                "unknown value `jsn`, did you mean `json`?",
            ),
            ("{delay: 5}", "a time such as 250ms"),
        ] {
            let text = format!(
                "{GOOD}given: {{upstreams: {{u: {{tools: {{t: {{answer: {answer}}}}}}}}}}}\n"
            );
            let found = error(&text);
            assert!(found.contains(want), "{answer}: {found}");
            assert!(found.starts_with("s/a.yaml:6:"), "{answer}: {found}");
        }
    }

    #[test]
    fn other_errors_have_their_place() {
        let found = error(&GOOD.replace("title: t\n", ""));
        assert!(found.contains("title"), "{found}");
        let found = error(&GOOD.replace("call: x", "call: [x]"));
        assert!(found.starts_with("s/a.yaml:4:11: "), "{found}");
        let found = error("id: a\nid: b\n");
        assert!(found.starts_with("s/a.yaml:2:1: "), "{found}");
        let found = error("a: [\n");
        assert!(found.starts_with("s/a.yaml:"), "{found}");
    }

    #[test]
    fn the_guides_example_is_a_scenario() {
        let guide = include_str!("../../README.md");
        let examples: Vec<Scenario> = guide
            .split("```yaml\n")
            .skip(1)
            .map(|rest| parse(rest.split_once("```").unwrap().0, "README.md").unwrap())
            .collect();
        let [adds, image] = &examples[..] else { panic!("{} examples", examples.len()) };
        assert_eq!(check::check(adds, "adds", Rules::default()), []);
        let rules = Rules { artifacts_must_be_said: true };
        assert_eq!(check::check(image, "small_image_is_saved", rules), []);
    }

    #[test]
    fn files_are_found_checked_and_unique() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("tests/scenarios");
        for (path, text) in [
            ("x/a.yaml", GOOD.to_owned()),
            ("y/a.yaml", GOOD.to_owned()),
            ("b.yaml", GOOD.to_owned()),
            ("notes.md", "id: [".to_owned()),
        ] {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let (loaded, errors) = load(root.path(), &[folder], Rules::default());
        let files: Vec<_> = loaded.iter().map(|loaded| loaded.file.as_str()).collect();
        assert_eq!(files, ["tests/scenarios/x/a.yaml"]);
        let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                "tests/scenarios/b.yaml: the id `a` differs from the file's name `b`",
                "tests/scenarios/y/a.yaml: the id `a` is taken by tests/scenarios/x/a.yaml",
            ]
        );
    }
}
