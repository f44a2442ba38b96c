//! Skills that a server offers: instructions for a model, and the files that belong to them
//! (SEP-2640, the extension `io.modelcontextprotocol/skills`).
//!
//! A file is fetched only when it is needed, and it is returned only if it matches the skill's
//! entry: its SHA-256 digest, its size, and for `SKILL.md` its frontmatter. This shows that the
//! server is consistent, not that it is trustworthy: a person must agree to a skill before a model
//! sees it.

use marquetry_protocol_wire::types::{JsonObject, ReadResourceResult, ResourceContents};
use serde::Deserialize;
use serde_json::{Value, json, value::to_raw_value};
use sha2::{Digest, Sha256};

use super::{CallOptions, Client, ClientError, list_item::Item};

/// The name of the extension.
pub const SKILLS_EXTENSION: &str = "io.modelcontextprotocol/skills";

/// Maximum number of files of a skill.
const MAX_FILES: usize = 512;
/// Maximum size of all files of a skill, in bytes: 16 MiB.
const MAX_BYTES: u64 = 16 << 20;

/// A skill in the server's list, with the data to show it and to check each of its files.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct SkillEntry {
    /// The URI of its `SKILL.md`, unique on the server; names are not.
    pub uri: String,
    /// The frontmatter of `SKILL.md`, including `name` and `description`.
    pub frontmatter: JsonObject,
    /// All its files. A server may leave them out for a generated skill; such a skill cannot be
    /// checked, and is not loaded.
    #[serde(default)]
    pub resources: Option<Vec<SkillFile>>,
}

/// A file of a skill.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct SkillFile {
    /// URI of the file.
    pub uri: String,
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// Size in bytes; older servers leave it out.
    #[serde(default)]
    pub size: Option<u64>,
}

impl SkillEntry {
    /// Returns the name of the skill; names are not unique.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.frontmatter.get("name")?.as_str()
    }

    /// Returns the description of the skill.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.frontmatter.get("description")?.as_str()
    }

    /// Returns the root URI of the skill's files.
    fn root(&self) -> &str {
        self.uri.strip_suffix("SKILL.md").unwrap_or(&self.uri)
    }

    fn file(&self, uri: &str) -> Result<&SkillFile, SkillError> {
        let files = self.resources.as_ref().ok_or(SkillError::NoDigests)?;
        files
            .iter()
            .find(|file| file.uri == uri)
            .ok_or_else(|| SkillError::NotListed { uri: uri.to_owned() })
    }
}

/// A skill whose `SKILL.md` matches its entry. Its other files are read and checked one by one.
#[derive(Clone)]
pub struct LoadedSkill {
    client: Client,
    entry: SkillEntry,
    text: String,
}

/// Why a skill, or a file of it, cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SkillError {
    /// The server has no skills.
    #[error("server does not offer the extension {SKILLS_EXTENSION}")]
    NotOffered,
    /// The request failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The skill has no digests.
    #[error("the skill has no list of files with digests, so it cannot be verified")]
    NoDigests,
    /// The skill exceeds the limits.
    #[error(
        "skill has {files} files with {bytes} bytes; at most {MAX_FILES} with {MAX_BYTES} are allowed"
    )]
    TooLarge {
        /// Number of its files.
        files: usize,
        /// Size of its files together, in bytes.
        bytes: u64,
    },
    /// The file does not belong to the skill.
    #[error("{uri} is not among the files of the skill")]
    NotListed {
        /// The file.
        uri: String,
    },
    /// The server did not return exactly one file.
    #[error("{uri} cannot be read: {why}")]
    Unreadable {
        /// The file.
        uri: String,
        /// The reason.
        why: String,
    },
    /// The size of the file differs from the entry.
    #[error("{uri} has {found} bytes, but should have {expected}")]
    Size {
        /// The file.
        uri: String,
        /// Size in the entry.
        expected: u64,
        /// Size of the received file.
        found: u64,
    },
    /// The digest of the file differs from the entry.
    #[error("{uri} has another digest than the skill's list entry")]
    Digest {
        /// The file.
        uri: String,
    },
    /// The frontmatter of `SKILL.md` differs from the entry.
    #[error("frontmatter of {uri} differs from the skill's list entry: {what}")]
    Frontmatter {
        /// The file.
        uri: String,
        /// The difference.
        what: String,
    },
}

impl Item for SkillEntry {}

impl Client {
    /// Lists skills; the server may have others. Reads none of their files.
    ///
    /// # Errors
    /// Returns an error if the server has no skills, and as [`Client::list_tools`] does.
    pub async fn list_skills(&self) -> Result<Vec<SkillEntry>, SkillError> {
        self.has_skills()?;
        Ok(self.fetch("skills/list", "skills").await?.items)
    }

    /// Returns the skill with the `SKILL.md` at `uri`, whether the server lists it or not. Reads
    /// none of its files.
    ///
    /// # Errors
    /// Returns an error if the server has no skills, or does not have this one (invalid
    /// parameters).
    pub async fn skill(&self, uri: &str) -> Result<SkillEntry, SkillError> {
        #[derive(Deserialize)]
        struct Answer {
            skill: SkillEntry,
        }
        self.has_skills()?;
        let answer: Answer = self.ask(uri, "skills/get").await?;
        Ok(answer.skill)
    }

    /// Reads a skill's `SKILL.md` and checks it against the entry.
    ///
    /// # Errors
    /// Returns an error if it differs from the entry. The skill may have changed: get it again with
    /// [`Self::skill`], and ask the person again who agreed to it.
    pub async fn load_skill(&self, entry: SkillEntry) -> Result<LoadedSkill, SkillError> {
        let files = entry.resources.as_ref().ok_or(SkillError::NoDigests)?;
        let bytes = files.iter().filter_map(|file| file.size).fold(0, u64::saturating_add);
        if files.len() > MAX_FILES || bytes > MAX_BYTES {
            return Err(SkillError::TooLarge { files: files.len(), bytes });
        }
        let read = self.skill_file(&entry, &entry.uri).await?;
        let text = String::from_utf8(read).map_err(|_| SkillError::Unreadable {
            uri: entry.uri.clone(),
            why: "it is no UTF-8".to_owned(),
        })?;
        compare(&text, &entry.frontmatter)
            .map_err(|what| SkillError::Frontmatter { uri: entry.uri.clone(), what })?;
        Ok(LoadedSkill { client: self.clone(), entry, text })
    }

    fn has_skills(&self) -> Result<(), SkillError> {
        if self.server().capabilities.extensions.contains_key(SKILLS_EXTENSION) {
            Ok(())
        } else {
            Err(SkillError::NotOffered)
        }
    }

    async fn ask<T: serde::de::DeserializeOwned>(
        &self,
        uri: &str,
        method: &str,
    ) -> Result<T, ClientError> {
        let params = to_raw_value(&json!({ "uri": uri })).map_err(ClientError::params)?;
        let answer = self.request(method, Some(&params), CallOptions::default()).await?;
        serde_json::from_str(answer.get()).map_err(|error| ClientError::result(method, error))
    }

    /// Returns the bytes of one file, after checking them against the entry.
    async fn skill_file(&self, entry: &SkillEntry, uri: &str) -> Result<Vec<u8>, SkillError> {
        let file = entry.file(uri)?;
        let answer: ReadResourceResult = self.ask(uri, "resources/read").await?;
        let unreadable =
            |why: &str| SkillError::Unreadable { uri: uri.to_owned(), why: why.to_owned() };
        let [contents] = &answer.contents[..] else {
            return Err(unreadable("server gives several files in its place, or none"));
        };
        let bytes = bytes_of(contents).map_err(unreadable)?;
        verify(file, &bytes)?;
        Ok(bytes)
    }
}

impl LoadedSkill {
    /// Returns the text for the model: the whole `SKILL.md`.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the entry of the skill.
    #[must_use]
    pub fn entry(&self) -> &SkillEntry {
        &self.entry
    }

    /// Reads another file of the skill, by its URI or by its path in `SKILL.md`.
    ///
    /// # Errors
    /// Returns an error if it does not belong to the skill, or differs from the entry.
    pub async fn read(&self, file: &str) -> Result<Vec<u8>, SkillError> {
        let path = file.strip_prefix("./").unwrap_or(file);
        let uri = if file.contains("://") {
            file.to_owned()
        } else {
            format!("{}{path}", self.entry.root())
        };
        self.client.skill_file(&self.entry, &uri).await
    }
}

fn bytes_of(contents: &ResourceContents) -> Result<Vec<u8>, &'static str> {
    use base64::{Engine, engine::general_purpose::STANDARD};
    match (&contents.text, &contents.blob) {
        (Some(text), None) => Ok(text.clone().into_bytes()),
        (None, Some(blob)) => STANDARD.decode(blob).map_err(|_| "it is not valid base64"),
        _ => Err("it is neither text nor bytes"),
    }
}

/// Checks the bytes of a file against its entry.
fn verify(file: &SkillFile, bytes: &[u8]) -> Result<(), SkillError> {
    let found = bytes.len() as u64;
    if let Some(expected) = file.size.filter(|expected| *expected != found) {
        return Err(SkillError::Size { uri: file.uri.clone(), expected, found });
    }
    let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if file.digest.strip_prefix("sha256:") == Some(&digest) {
        Ok(())
    } else {
        Err(SkillError::Digest { uri: file.uri.clone() })
    }
}

/// Compares the frontmatter of a `SKILL.md` with the entry, field by field.
///
/// # Errors
/// Returns an error that names the difference.
fn compare(text: &str, expected: &JsonObject) -> Result<(), String> {
    let found: JsonObject = serde_yaml::from_str(frontmatter(text).ok_or("there is none")?)
        .map_err(|error| format!("it is not a YAML object: {error}"))?;
    for (name, value) in &found {
        if expected.get(name).is_none_or(|expected| !same(expected, value)) {
            return Err(format!("field '{name}' differs"));
        }
    }
    match expected.keys().find(|name| !found.contains_key(*name)) {
        Some(name) => Err(format!("field '{name}' is missing")),
        None => Ok(()),
    }
}

/// Returns the text between the two lines of dashes at the start.
fn frontmatter(text: &str) -> Option<&str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let rest =
        text.strip_prefix("---")?.trim_start_matches([' ', '\t', '\r']).strip_prefix('\n')?;
    let mut end = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some(&rest[..end]);
        }
        end += line.len();
    }
    None
}

/// Compares two values; numbers may be written differently in YAML and JSON.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frontmatter_is_compared_field_by_field() {
        let text = "---\nname: tea\ndescription: >\n  Makes\n  tea.\nmetadata:\n  version: 1.0\n---\n# Tea\n---\n";
        let good = json!({
            "name": "tea", "description": "Makes tea.\n", "metadata": { "version": 1 },
        });
        let good = good.as_object().unwrap();
        assert_eq!(compare(text, good), Ok(()));
        for (name, value, what) in [
            ("description", json!("Steals tea."), "field 'description' differs"),
            ("metadata", json!({ "version": 2 }), "field 'metadata' differs"),
            ("license", json!("MIT"), "field 'license' is missing"),
        ] {
            let mut other = good.clone();
            other.insert(name.to_owned(), value);
            assert_eq!(compare(text, &other), Err(what.to_owned()));
        }
        let mut short = good.clone();
        short.retain(|name, _| name == "name");
        assert_eq!(compare(text, &short), Err("field 'description' differs".to_owned()));
        for text in ["", "name: tea\n", "---\nname: tea\n", "--- name: tea\n---\n", " ---\n---\n"] {
            assert_eq!(
                compare(text, &JsonObject::new()),
                Err("there is none".to_owned()),
                "{text}"
            );
        }
        assert!(
            compare("---\n- a\n---\n", &JsonObject::new())
                .unwrap_err()
                .contains("not a YAML object")
        );
    }

    #[test]
    fn files_are_checked_by_size_and_digest() {
        // `printf abc | sha256sum`
        let abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert!(verify(&file(abc, Some(3)), b"abc").is_ok());
        assert!(verify(&file(abc, None), b"abc").is_ok());
        let error = verify(&file(abc, Some(4)), b"abc").unwrap_err();
        assert_eq!(error.to_string(), "skill://a/b has 3 bytes, but should have 4");
        for digest in [abc.to_uppercase(), abc.replace("7816", "7817"), abc[7..].to_owned()] {
            let error = verify(&file(&digest, None), b"abc").unwrap_err();
            assert!(error.to_string().contains("has another digest"));
        }
    }

    fn file(digest: &str, size: Option<u64>) -> SkillFile {
        SkillFile { uri: "skill://a/b".to_owned(), digest: digest.to_owned(), size }
    }
}
