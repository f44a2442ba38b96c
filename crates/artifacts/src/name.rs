//! Safe names of artifacts, and their `artifact://` URIs.

use std::{fmt, str::FromStr};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use unicode_normalization::{UnicodeNormalization, is_nfc};

/// The name of an artifact.
///
/// A name is a valid file name on every system and safe to show to models and people: 1 to 150
/// bytes of NFC text without control, invisible or direction-changing characters and without `< > :
/// " / \ | ? *`. It does not begin or end with a dot or a space, is not a device name of Windows,
/// and does not end in `.metadata.json`.
///
/// ```
/// use marquetry_artifacts::ArtifactName;
///
/// assert!(ArtifactName::parse("report.pdf").is_ok());
/// assert!(ArtifactName::parse("../etc/passwd").is_err());
/// assert_eq!(ArtifactName::sanitised("../etc/passwd").as_str(), "_etc_passwd");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ArtifactName(String);

/// Error for text that is not an [`ArtifactName`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The name is empty.
    #[error("name is empty")]
    Empty,
    /// The name is longer than [`ArtifactName::MAX_BYTES`].
    #[error("name is {bytes} bytes, more than {}", ArtifactName::MAX_BYTES)]
    TooLong {
        /// The length in bytes.
        bytes: usize,
    },
    /// The name contains a separator, or a reserved, control or invisible character.
    #[error("name contains {0:?}, which is not allowed in a name")]
    Character(char),
    /// The name is not in Unicode's composed form.
    #[error("name is not in the composed form of Unicode (NFC)")]
    NotComposed,
    /// The name begins or ends with a dot or a space.
    #[error("name begins or ends with a dot or a space")]
    Edge,
    /// The name is a device of Windows: `CON`, `NUL`, `COM1`, …
    #[error("name is a device on Windows")]
    Device,
    /// The name ends like the metadata files of other systems.
    #[error("name ends with \".metadata.json\", which is kept for metadata")]
    Metadata,
}

impl ArtifactName {
    /// The longest name, in bytes.
    pub const MAX_BYTES: usize = 150;

    /// Checks a name.
    ///
    /// # Errors
    /// Returns an error if the text breaks a rule of the type.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        check(text).map(|()| Self(text.to_owned()))
    }

    /// Makes a name of any text: other characters are dropped or become `_`, and a long stem is cut
    /// before the extension.
    pub fn sanitised(text: &str) -> Self {
        Self::build(text, "")
    }

    /// Returns `{tool}_{prefix}_{index}_{8 hex digits}{extension}`. A long tool name is cut.
    pub(crate) fn of_item(
        tool: &str,
        prefix: &str,
        index: impl fmt::Display,
        id: u32,
        extension: &str,
    ) -> Self {
        Self::build(tool_part(tool), &format!("_{prefix}_{index}_{id:08x}{extension}"))
    }

    /// Returns `{tool}_{prefix}_{8 hex digits}{extension}`, for artifacts that are not a single
    /// item.
    pub(crate) fn of_answer(tool: &str, prefix: &str, id: u32, extension: &str) -> Self {
        Self::build(tool_part(tool), &format!("_{prefix}_{id:08x}{extension}"))
    }

    /// Returns `{tool}_resource_{index}_{file name}`. Long names are cut before the extension.
    pub(crate) fn of_resource(tool: &str, index: usize, file_name: &str) -> Self {
        let tool = Self::build(tool_part(tool), "");
        let tool = cut(&tool.0, Self::MAX_BYTES / 3);
        let file_name = file_name.trim_start_matches(['.', ' ']);
        Self::sanitised(&format!("{tool}_resource_{index}_{file_name}"))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the part after the last dot, if it is 1 to 16 ASCII letters and digits.
    pub fn extension(&self) -> Option<&str> {
        extension(&self.0)
    }

    /// Makes `text` safe, and appends `tail`, which is safe already. A long result is cut in
    /// `text`.
    fn build(text: &str, tail: &str) -> Self {
        let mut name = text.to_owned();
        // Repairing one rule can break another, as when cutting uncovers a trailing dot. Two rounds
        // repair nearly every name.
        for _ in 0..4 {
            name = repair(&name, tail);
            let whole = format!("{name}{tail}");
            if check(&whole).is_ok() {
                return Self(whole);
            }
        }
        Self(format!("artifact{tail}"))
    }
}

impl fmt::Display for ArtifactName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl TryFrom<String> for ArtifactName {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        check(&text).map(|()| Self(text))
    }
}

impl FromStr for ArtifactName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::parse(text)
    }
}

impl From<ArtifactName> for String {
    fn from(name: ArtifactName) -> Self {
        name.0
    }
}

/// URI of an artifact: `artifact://<name>?version=<n>`, or without a version for the latest.
///
/// ```
/// use marquetry_artifacts::{ArtifactName, ArtifactUri};
///
/// let uri = ArtifactUri { name: ArtifactName::parse("a b.txt")?, version: Some(2) };
/// assert_eq!(uri.to_string(), "artifact://a%20b.txt?version=2");
/// assert_eq!("artifact://a%20b.txt?version=2".parse(), Ok(uri));
/// # Ok::<(), marquetry_artifacts::name::NameError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArtifactUri {
    /// Name of the artifact.
    pub name: ArtifactName,
    /// Version; none for the latest.
    pub version: Option<u64>,
}

/// Error for text that is not an [`ArtifactUri`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UriError {
    /// The scheme is missing or another one.
    #[error("uri does not begin with \"artifact://\"")]
    Scheme,
    /// The percent-decoded name is not UTF-8.
    #[error("name in the uri is not UTF-8")]
    Encoding,
    /// The name is not an [`ArtifactName`].
    #[error(transparent)]
    Name(#[from] NameError),
    /// The query is not one `version=<number>`.
    #[error("query of the uri is not \"version=<number>\"")]
    Query,
}

impl fmt::Display for ArtifactUri {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "artifact://{}", utf8_percent_encode(self.name.as_str(), URI_ESCAPED))?;
        match self.version {
            Some(version) => write!(out, "?version={version}"),
            None => Ok(()),
        }
    }
}

impl FromStr for ArtifactUri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        let rest = text.strip_prefix("artifact://").ok_or(UriError::Scheme)?;
        let mut parts = rest.splitn(2, '?');
        let encoded = parts.next().unwrap_or_default();
        let name = percent_decode_str(encoded).decode_utf8().map_err(|_| UriError::Encoding)?;
        let version = match parts.next() {
            None => None,
            Some(query) => Some(
                query
                    .strip_prefix("version=")
                    .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
                    .and_then(|digits| digits.parse().ok())
                    .ok_or(UriError::Query)?,
            ),
        };
        Ok(Self { name: ArtifactName::parse(&name)?, version })
    }
}

/// All but the unreserved characters of RFC 3986.
const URI_ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Returns the last segment of the URI's path, decoded once; without a path the host, if there is
/// one.
pub(crate) fn file_name_of(uri: &str) -> Option<String> {
    let rest = uri.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = match rest.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (Some(scheme), rest),
        _ => (None, rest),
    };
    let (host, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash)),
        None => ("", rest),
    };
    let segment =
        path.rsplit('/').find(|segment| !segment.is_empty() && *segment != "." && *segment != "..");
    match segment {
        Some(segment) => {
            // The decoded text may contain separators; the file name follows the last one.
            let decoded = percent_decode_str(segment).decode_utf8_lossy();
            let last =
                decoded.rsplit(['/', '\\']).find(|part| !part.trim_matches(['.', ' ']).is_empty());
            last.map(str::to_owned)
        }
        None if !host.is_empty() => {
            Some(percent_decode_str(host).decode_utf8_lossy().replace('.', "_"))
        }
        None => scheme.map(str::to_owned),
    }
}

fn is_scheme(text: &str) -> bool {
    text.len() > 1
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

fn tool_part(tool: &str) -> &str {
    if tool.trim_matches(['.', ' ']).is_empty() { "tool" } else { tool }
}

pub(crate) fn extension(name: &str) -> Option<&str> {
    let (stem, extension) = name.rsplit_once('.')?;
    let fits = (1..=16).contains(&extension.len())
        && extension.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (fits && !stem.is_empty()).then_some(extension)
}

fn check(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > ArtifactName::MAX_BYTES {
        return Err(NameError::TooLong { bytes: name.len() });
    }
    if let Some(bad) = name.chars().find(|&char| !is_allowed(char)) {
        return Err(NameError::Character(bad));
    }
    if !is_nfc(name) {
        return Err(NameError::NotComposed);
    }
    if name.starts_with(['.', ' ']) || name.ends_with(['.', ' ']) {
        return Err(NameError::Edge);
    }
    if is_device(name) {
        return Err(NameError::Device);
    }
    if metadata_dot(name).is_some() {
        return Err(NameError::Metadata);
    }
    Ok(())
}

/// Repairs each rule once, in an order in which a later repair seldom breaks an earlier rule.
fn repair(name: &str, tail: &str) -> String {
    let clean: String = name.chars().filter(|&char| !is_deceptive(char)).map(replaced).collect();
    let mut name: String = clean.nfc().collect();
    name = name.trim_start_matches(['.', ' ']).to_owned();
    if tail.is_empty() {
        name.truncate(name.trim_end_matches(['.', ' ']).len());
    }
    if is_device(&name) {
        name.insert(0, '_');
    }
    let room = ArtifactName::MAX_BYTES - tail.len();
    if name.len() > room {
        name = match extension(&name).filter(|_| tail.is_empty()) {
            Some(extension) => {
                let stem = &name[..name.len() - extension.len() - 1];
                format!(
                    "{}.{extension}",
                    cut(stem, room - extension.len() - 1).trim_end_matches(['.', ' '])
                )
            }
            None => cut(&name, room).to_owned(),
        };
    }
    if let Some(dot) = metadata_dot(&name) {
        name.replace_range(dot..=dot, "_");
    }
    name
}

/// Returns as many whole characters from the start of the text as fit in this many bytes.
fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Returns the position of the dot before `metadata.json`, if the name ends so.
fn metadata_dot(name: &str) -> Option<usize> {
    const END: &str = ".metadata.json";
    let at = name.len().checked_sub(END.len())?;
    name.get(at..).filter(|end| end.eq_ignore_ascii_case(END)).map(|_| at)
}

/// Returns whether Windows treats the name as a device, whatever its extension.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end_matches(' ').to_lowercase();
    if matches!(stem.as_str(), "con" | "prn" | "aux" | "nul" | "conin$" | "conout$") {
        return true;
    }
    let digit = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt"));
    let mut digit = digit.unwrap_or_default().chars();
    matches!((digit.next(), digit.next()), (Some('0'..='9' | '¹' | '²' | '³'), None))
}

fn is_allowed(char: char) -> bool {
    !is_deceptive(char) && replaced(char) == char
}

/// Returns whether a character is invisible or changes how others are shown, which can deceive
/// readers of a name.
pub(crate) fn is_deceptive(char: char) -> bool {
    char.is_control()
        || matches!(char,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
        || is_private_or_none(char)
}

fn is_private_or_none(char: char) -> bool {
    let code = u32::from(char);
    matches!(code, 0xe000..=0xf8ff | 0xf_0000.. | 0xfdd0..=0xfdef) || code & 0xfffe == 0xfffe
}

fn replaced(char: char) -> char {
    match char {
        '<' | '>' | ':' | '"' | '/' | '\\' | '|' | '?' | '*' => '_',
        ' ' => ' ',
        space if space.is_whitespace() => ' ',
        other => other,
    }
}

#[cfg(test)]
#[path = "../tests/unit/name.rs"]
mod tests;
