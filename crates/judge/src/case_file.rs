//! Case files: test cases in YAML.
//!
//! ```yaml
//! # yaml-language-server: $schema=case-file.schema.json
//! judgeConfig: {provider: openai, model: gpt-4o-mini}
//! serverConfigs:
//!   - {type: stdio, name: files, command: npx, args: ["-y", "@modelcontextprotocol/server-filesystem", "."]}
//! cases:
//!   - name: creates a file
//!     prompt: Create hello.txt with the content "Hello".
//!     expectedTools: [write_file]
//! ```
//!
//! A file whose top level has `cases` is a case file; any other YAML file is a scenario without a
//! model.

use std::{
    collections::BTreeMap,
    fmt, fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de::IgnoredAny};
use serde_json::Value;

use crate::{ModelSettings, ServerConfig, TestCase, schema::schema_of};

/// A file of test cases, with what its cases have in common.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct CaseFile {
    /// Name of the run; the file's name if absent.
    #[serde(default)]
    pub name: Option<String>,
    /// Servers of the cases that name none.
    #[serde(default)]
    pub server_configs: Option<Vec<ServerConfig>>,
    /// Judge of the cases that name none.
    #[serde(default)]
    pub judge_config: Option<ModelSettings>,
    /// Agent of the cases that name none.
    #[serde(default)]
    pub agent_config: Option<ModelSettings>,
    /// Instructions for the agent of the cases that have none.
    #[serde(default)]
    pub system_prompt: Option<String>,
    /// Checklist of the cases that have none.
    #[serde(default)]
    pub checklist: Option<Vec<String>>,
    /// The cases.
    #[serde(deserialize_with = "cases_or_none")]
    pub cases: Vec<TestCase>,
}

/// A case file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaseFileError {
    /// The file or folder cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What failed.
        error: io::Error,
    },
    /// The file is longer than [`CaseFile::MAX_BYTES`].
    #[error("{}: longer than {} bytes", .0.display(), CaseFile::MAX_BYTES)]
    TooLong(PathBuf),
    /// The text is not a case file.
    #[error("{position}: {problem}")]
    Content {
        /// File, line and column.
        position: String,
        /// What is wrong.
        problem: String,
    },
    /// Two cases have one name, so their histories would be mixed.
    #[error("{}: duplicate case name {name:?}; give each case its own name", path.display())]
    SameName {
        /// The file.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// The file has nothing but comments.
    #[error("{}: the file is empty; give it `cases`, or the `steps` of a scenario", .0.display())]
    Blank(PathBuf),
    /// The file has no cases.
    #[error("{}: cases is empty; add a case with a name and a prompt", .0.display())]
    Empty(PathBuf),
}

/// YAML files by their kind.
#[derive(Debug, Default)]
pub struct TestFiles {
    /// Case files.
    pub cases: Vec<PathBuf>,
    /// Scenarios, and files that are neither, but not empty ones: the reader of scenarios says what
    /// is wrong with them.
    pub scenarios: Vec<PathBuf>,
}

impl CaseFile {
    /// Longest case file, in bytes.
    pub const MAX_BYTES: u64 = 8 << 20;

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read or is not a case file; see [`CaseFileError`].
    pub fn load(path: &Path) -> Result<Self, CaseFileError> {
        Self::parse(&read(path)?, path)
    }

    /// Parses the text of the file `path`.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read or is not a case file; see [`CaseFileError`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, CaseFileError> {
        let options = serde_yaml::options! {
            // `no` and `on` are strings.
            strict_booleans: true,
            with_snippet: false,
        };
        if is_blank(text) {
            return Err(CaseFileError::Blank(path.to_owned()));
        }
        let file: Self = serde_yaml::from_str_with_options(text, options)
            .map_err(|error| content_error(&error, path))?;
        if file.cases.is_empty() {
            return Err(CaseFileError::Empty(path.to_owned()));
        }
        let mut names: Vec<&str> = file.cases.iter().map(|case| case.name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(CaseFileError::SameName {
                path: path.to_owned(),
                name: pair[0].to_owned(),
            });
        }
        Ok(file)
    }

    /// Returns the cases. Each gets the settings of the file for the members that it lacks.
    #[must_use]
    pub fn into_cases(self) -> Vec<TestCase> {
        let Self { server_configs, judge_config, agent_config, system_prompt, checklist, .. } =
            &self;
        let mut cases = self.cases.clone();
        for case in &mut cases {
            fill(&mut case.server_configs, server_configs.as_ref());
            fill(&mut case.judge_config, judge_config.as_ref());
            fill(&mut case.agent_config, agent_config.as_ref());
            fill(&mut case.system_prompt, system_prompt.as_ref());
            fill(&mut case.checklist, checklist.as_ref());
        }
        cases
    }

    /// Returns the JSON Schema of case files.
    #[must_use]
    pub fn schema() -> Value {
        schema_of::<Self>()
    }
}

/// Reads `cases:` without a value as an empty list, which has an error of its own.
fn cases_or_none<'de, D: Deserializer<'de>>(value: D) -> Result<Vec<TestCase>, D::Error> {
    Ok(Option::deserialize(value)?.unwrap_or_default())
}

fn fill<T: Clone>(given: &mut Option<T>, default: Option<&T>) {
    if given.is_none() {
        *given = default.cloned();
    }
}

impl TestFiles {
    /// Finds the files in `given`: files, and folders with all their files that end with `.yaml` or
    /// `.yml`.
    ///
    /// # Errors
    ///
    /// Returns an error if a file or folder cannot be read.
    pub fn find(given: &[PathBuf]) -> Result<Self, CaseFileError> {
        let mut paths = Vec::new();
        for path in given {
            collect(path, &mut paths)
                .map_err(|error| CaseFileError::Read { path: path.clone(), error })?;
        }
        paths.sort();
        paths.dedup();
        let mut found = Self::default();
        for path in paths {
            let text = read(&path)?;
            if is_blank(&text) {
                return Err(CaseFileError::Blank(path));
            }
            let list = if has_cases(&text) { &mut found.cases } else { &mut found.scenarios };
            list.push(path);
        }
        Ok(found)
    }
}

fn collect(given: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    if !given.is_dir() {
        paths.push(given.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(given)? {
        let entry = entry?;
        let path = entry.path();
        let is_yaml = path.extension().is_some_and(|it| it == "yaml" || it == "yml");
        // Links to folders are not followed, since they may form cycles, and pipes are not read.
        if entry.file_type()?.is_dir() {
            collect(&path, paths)?;
        } else if is_yaml && path.is_file() {
            paths.push(path);
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, CaseFileError> {
    let mut bytes = Vec::new();
    fs::File::open(path)
        // Some files have no length, such as pipes and `/dev/zero`.
        .and_then(|file| file.take(CaseFile::MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| CaseFileError::Read { path: path.to_owned(), error })?;
    if bytes.len() as u64 > CaseFile::MAX_BYTES {
        return Err(CaseFileError::TooLong(path.to_owned()));
    }
    String::from_utf8(bytes).map_err(|_| CaseFileError::Read {
        path: path.to_owned(),
        error: io::Error::other("it is not UTF-8"),
    })
}

/// Returns whether a YAML text has nothing but comments.
fn is_blank(text: &str) -> bool {
    text.lines()
        .map(str::trim)
        .all(|line| line.is_empty() || line == "---" || line.starts_with('#'))
}

/// Returns whether the top level of a YAML text has the key `cases`, also without a value.
fn has_cases(text: &str) -> bool {
    match serde_yaml::from_str::<BTreeMap<String, IgnoredAny>>(text) {
        Ok(top) => top.contains_key("cases"),
        // A syntax error further down must not change the kind of the file.
        Err(_) => text.lines().any(|line| line.starts_with("cases:")),
    }
}

fn content_error(error: &serde_yaml::Error, path: &Path) -> CaseFileError {
    let error = error.without_snippet();
    let text = error.to_string();
    let problem = if let serde_yaml::Error::DuplicateMappingKey { key: Some(key), .. } = error {
        format!("duplicate key `{key}`")
    } else {
        let message = text.split(" at line ").next().unwrap_or(&text);
        // The library names the events of its parser.
        message
            .replace("expected mapping start", "expected keys with values")
            .replace("expected sequence start", "expected a list")
    };
    let mut position = path.display().to_string();
    if let Some(at) = error.location() {
        position = format!("{position}:{}:{}", at.line(), at.column());
    }
    CaseFileError::Content { position, problem }
}

/// Shows the number of cases and scenarios.
impl fmt::Display for TestFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} case files, {} scenarios", self.cases.len(), self.scenarios.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<TestCase>, String> {
        let file = CaseFile::parse(text, Path::new("a.yaml"));
        file.map(CaseFile::into_cases).map_err(|error| error.to_string())
    }

    #[test]
    fn cases_get_what_their_file_has() {
        let cases = parse(
            "
judgeConfig: {provider: openai, model: a}
serverConfigs: [{type: http, url: 'http://127.0.0.1:1/mcp'}]
cases:
  - {name: one, prompt: p, expectedTools: [x, {name: y, arguments: {path: a.txt}}]}
  - {name: two, prompt: p, judgeConfig: {provider: anthropic, model: b}, repetitions: 5}
",
        )
        .unwrap();
        let judges: Vec<_> =
            cases.iter().map(|case| case.judge_config.as_ref().unwrap().model.as_str()).collect();
        assert_eq!(judges, ["a", "b"]);
        assert!(cases.iter().all(|case| case.server_configs.as_ref().unwrap().len() == 1));
        assert_eq!(cases[1].repetitions, 5);
        assert_eq!(cases[0].expected_tools.as_ref().unwrap()[1].name, "y");
    }

    #[test]
    fn mistakes_have_their_place() {
        for (text, want) in [
            ("cases: []", "a.yaml: cases is empty; add a case"),
            ("name: n\ncases:", "a.yaml: cases is empty; add a case"),
            ("", "a.yaml: the file is empty; give it `cases`"),
            ("# later\n---\n", "a.yaml: the file is empty; give it `cases`"),
            (
                "cases:\n  - {name: a, prompt: p}\n  - {name: a, prompt: q}",
                "a.yaml: duplicate case name \"a\"",
            ),
            ("cases:\n  - {name: a, prompts: p}", "a.yaml:2:"),
            ("cases:\n  - {name: a, prompt: [}", "a.yaml:2:"),
            ("case:\n  - {name: a, prompt: p}", "a.yaml:1:1: "),
            ("cases:\n  - {name: a, name: b}", "a.yaml:2:15: duplicate key `name`"),
            ("cases: {}", "a.yaml:1:8: expected a list"),
            ("cases:\n  - a", "a.yaml:2:5: expected keys with values"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(want), "{text}: {error}");
        }
    }

    #[test]
    fn the_schema_is_up_to_date() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("case-file.schema.json");
        let schema = format!("{:#}\n", CaseFile::schema());
        if std::env::var_os("MARQUETRY_UPDATE").is_some() {
            fs::write(&path, &schema).unwrap();
        }
        assert!(
            fs::read_to_string(&path).unwrap() == schema,
            "{} is out of date: run cargo xtask generate",
            path.display()
        );
        let validator = jsonschema::validator_for(&CaseFile::schema()).unwrap();
        let case =
            serde_json::json!({"name": "a", "prompt": "p", "expectedTools": ["x", {"name": "y"}]});
        assert!(validator.is_valid(&serde_json::json!({"cases": [case]})));
        assert!(!validator.is_valid(&serde_json::json!({"cases": [{"prompts": "p"}]})));
    }

    #[cfg(unix)]
    #[test]
    fn files_without_a_length_and_links_that_lead_in_circles_are_bounded() {
        let endless = TestFiles::find(&[PathBuf::from("/dev/zero")]).unwrap_err();
        assert!(matches!(endless, CaseFileError::TooLong(_)), "{endless}");
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            std::os::unix::fs::symlink(folder.path(), folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("one.yaml"), "cases: []").unwrap();
        let found = TestFiles::find(&[folder.path().to_owned()]).unwrap();
        assert_eq!(found.cases, [folder.path().join("one.yaml")]);
    }

    fn file_names(paths: &[PathBuf]) -> Vec<&str> {
        paths.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect()
    }

    #[test]
    fn kinds_of_files_are_distinguished_by_their_top_level() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("cases.yaml", "name: n\ncases: [{name: a, prompt: p}]"),
            ("sub/broken.yml", "judgeConfig: {\ncases:\n  - {"),
            ("scenario.yaml", "id: scenario\nsteps:\n  - {call: cases}"),
            ("nothing.yaml", "]"),
            ("null.yaml", "cases:"),
            ("notes.md", "cases:"),
        ] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = TestFiles::find(&[folder.path().to_owned()]).unwrap();
        assert_eq!(file_names(&found.cases), ["cases.yaml", "null.yaml", "broken.yml"]);
        assert_eq!(file_names(&found.scenarios), ["nothing.yaml", "scenario.yaml"]);
        fs::write(folder.path().join("sub/empty.yaml"), "# later\n").unwrap();
        let empty = TestFiles::find(&[folder.path().to_owned()]).unwrap_err();
        assert!(empty.to_string().contains("empty.yaml: the file is empty"), "{empty}");
        let missing = TestFiles::find(&[folder.path().join("absent.yaml")]).unwrap_err();
        assert!(missing.to_string().contains("absent.yaml"), "{missing}");
    }
}
