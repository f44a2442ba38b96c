//! `read_artifact`

use base64::{Engine as _, engine::general_purpose::STANDARD};
use marquetry_artifacts::{
    Artifact, ArtifactName, ArtifactUri, Record, Version,
    view::{self, Piece, ViewError},
};
use marquetry_protocol::types::{CallToolResult, Content, JsonObject, ResourceContents};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Artifacts, ReadError, uri_of};

/// The key of the tool's report in `_meta`: which part of which artifact the answer is.
const META_KEY: &str = "marquetry/read";

/// What `read_artifact` takes.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ReadArguments {
    /// The artifact's name, or its artifact:// URI.
    #[schemars(required)]
    name: String,
    /// Which version; the newest by default.
    version: Option<u64>,
    /// The first line to read, from 1. Lines are for text.
    #[schemars(range(min = 1))]
    start_line: Option<u64>,
    /// How many lines to read; as many as fit by default.
    #[schemars(range(min = 1))]
    line_count: Option<u64>,
    /// The first byte to read, from 0. Bytes are for any artifact; do not mix them with lines.
    start_byte: Option<u64>,
    /// The byte to stop before.
    end_byte: Option<u64>,
    /// The most to return, in bytes. What does not fit can be read by a further call, and the answer says how.
    #[schemars(range(min = 1))]
    max_bytes: Option<u64>,
}

impl Artifacts {
    pub(super) async fn read(
        &self,
        arguments: &ReadArguments,
    ) -> Result<CallToolResult, ReadError> {
        let (name, version) = named(&arguments.name, arguments.version)?;
        let by_bytes = arguments.start_byte.is_some() || arguments.end_byte.is_some();
        let by_lines = arguments.start_line.is_some() || arguments.line_count.is_some();
        if by_bytes && by_lines {
            let problem =
                "give either lines (start_line, line_count) or bytes (start_byte, end_byte)";
            return Err(ReadError::Arguments(problem.to_owned()));
        }
        let most = self.limits.read_artifact_max_bytes.get();
        let limit = match arguments.max_bytes {
            Some(asked) => usize::try_from(asked).unwrap_or(most).clamp(1, most),
            None => self.limits.read_artifact_default_bytes.get().min(most),
        };
        if by_bytes {
            let start = arguments.start_byte.unwrap_or(0);
            let end = arguments.end_byte.unwrap_or(u64::MAX);
            return self.read_bytes(&name, version, start, end, limit).await;
        }
        let artifact = self.store.get(&self.scope, &name, version).await?;
        let first = arguments.start_line.unwrap_or(1).max(1);
        let count = arguments.line_count.unwrap_or(u64::MAX);
        // Counting the lines of a large artifact takes a while; other calls must not wait for it.
        let read = move || match view::lines(&artifact.content, first, count, limit) {
            Ok(lines) => Ok(lines_answer(&artifact.record, &lines)),
            Err(ViewError::NotText { .. }) if by_lines => Err(ReadError::Arguments(format!(
                "{} is not text; give start_byte and end_byte instead of lines",
                artifact.record.name
            ))),
            Err(ViewError::NotText { .. }) => Ok(binary_answer(&artifact, limit)),
            Err(error) => Err(ReadError::Arguments(error.to_string())),
        };
        tokio::task::spawn_blocking(read)
            .await
            .unwrap_or_else(|_| Err(ReadError::Arguments("reading failed".to_owned())))
    }

    async fn read_bytes(
        &self,
        name: &ArtifactName,
        version: Version,
        start: u64,
        end: u64,
        limit: usize,
    ) -> Result<CallToolResult, ReadError> {
        let record = self.store.record(&self.scope, name, version).await?;
        let total = record.size_bytes;
        if start >= total.max(1) || end <= start {
            return Err(ReadError::Arguments(format!(
                "bytes {start} to {} are not part of {name}, which has {total}",
                end.min(total)
            )));
        }
        let version = Version::Number(record.version);
        let wanted = end.min(total).min(start.saturating_add(limit as u64)) - start;
        // A few bytes more, so that a character at the end can be told from bytes that are no text.
        let range = start..(start + wanted + 3).min(total);
        let bytes = self.store.read_range(&self.scope, name, version, range).await?;
        let wanted = usize::try_from(wanted).unwrap_or(limit);
        let (part, skipped) = match as_text(&bytes).filter(|_| is_text(&record.mime_type)) {
            Some((text, skipped)) => {
                let wanted = wanted.saturating_sub(skipped) as u64;
                (view::bytes(text, 0..wanted, limit).content, skipped)
            }
            None => (Piece::Binary(bytes.get(..wanted).unwrap_or(&bytes)), 0),
        };
        let length = match part {
            Piece::Text(text) => text.len(),
            Piece::Binary(bytes) => bytes.len(),
        };
        let start = start + skipped as u64;
        let stop = start + length as u64;
        let report = json!({
            "name": name, "version": record.version, "size_bytes": total, "start_byte": start, "end_byte": stop,
            "next_start_byte": (stop < total).then_some(stop),
        });
        let uri = uri_of(&record);
        let more =
            if stop < total { format!(" Go on with start_byte={stop}.") } else { String::new() };
        let note = format!("{} Bytes {start} to {stop} of {total}.{more}", introduced(&record));
        let content = match part {
            Piece::Text(text) => Content::text(text),
            Piece::Binary(bytes) => blob(&uri, &record.mime_type, bytes),
        };
        Ok(answer(content, note, report))
    }
}

/// A name as a model gives it: bare, or in a URI that may bring its own version.
fn named(name: &str, version: Option<u64>) -> Result<(ArtifactName, Version), ReadError> {
    let refused =
        |error: &dyn std::fmt::Display| ReadError::Name(format!("{name:?}"), error.to_string());
    let (name, of_uri) = if name.starts_with("artifact:") {
        let ArtifactUri { name, version } = name.parse().map_err(|error| refused(&error))?;
        (name, version)
    } else {
        (ArtifactName::parse(name).map_err(|error| refused(&error))?, None)
    };
    Ok((name, version.or(of_uri).map_or(Version::Latest, Version::Number)))
}

fn introduced(record: &Record) -> String {
    format!("{} version {} ({}).", record.name, record.version, record.mime_type)
}

/// Whether bytes of this type are shown as text. A part alone does not tell: four bytes in the middle of a picture may happen to be letters.
fn is_text(mime_type: &str) -> bool {
    let essence = mime_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let Some((kind, subtype)) = essence.split_once('/') else { return false };
    let words = ["json", "yaml", "xml", "javascript", "toml", "sh", "ndjson", "sql", "graphql"];
    kind == "text" || subtype.rsplit(['+', '-']).next().is_some_and(|word| words.contains(&word))
}

/// A part of an artifact without the pieces of characters at its ends, and how many bytes that leaves out in front; none when no text is left.
fn as_text(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let skipped = bytes.iter().take(3).take_while(|byte| (0x80..0xc0).contains(*byte)).count();
    let bytes = &bytes[skipped..];
    let whole = match std::str::from_utf8(bytes) {
        Ok(text) => text.len(),
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Err(_) => 0,
    };
    (whole > 0).then(|| (&bytes[..whole], skipped))
}

fn lines_answer(record: &Record, lines: &view::LinesView<'_>) -> CallToolResult {
    let more = match lines.next_line {
        Some(next) => format!(" Go on with start_line={next}."),
        None => String::new(),
    };
    let cut = if lines.is_cut {
        format!(" The last line is cut short; its rest begins at start_byte={}.", lines.bytes.end)
    } else {
        String::new()
    };
    let note = format!(
        "{} Lines {} to {} of {}; {} bytes in all.{cut}{more}",
        introduced(record),
        lines.first_line,
        lines.last_line,
        lines.total_lines,
        record.size_bytes
    );
    let report = json!({
        "name": record.name, "version": record.version, "size_bytes": record.size_bytes, "start_line": lines.first_line,
        "end_line": lines.last_line, "total_lines": lines.total_lines, "is_cut": lines.is_cut,
        "start_byte": lines.bytes.start, "end_byte": lines.bytes.end, "next_start_line": lines.next_line,
    });
    answer(Content::text(lines.text), note, report)
}

/// A binary artifact whole, when it fits; else what it is and how to get at it.
fn binary_answer(artifact: &Artifact, limit: usize) -> CallToolResult {
    let Artifact { record, content, .. } = artifact;
    let report = json!({
        "name": record.name, "version": record.version, "size_bytes": record.size_bytes, "start_byte": 0,
        "end_byte": if content.len() <= limit { content.len() } else { 0 },
    });
    let uri = uri_of(record);
    if content.len() > limit {
        let note = format!(
            "{} It is binary and has {} bytes, more than the {limit} of one answer. Read parts with start_byte and end_byte, give more max_bytes, \
             or let the client read the resource {uri}.",
            introduced(record),
            record.size_bytes
        );
        return CallToolResult { meta: meta(report), ..CallToolResult::text(note) };
    }
    let item = match record.mime_type.split('/').next() {
        Some("image") => Content::image(STANDARD.encode(content), &record.mime_type),
        Some("audio") => Content::Audio {
            data: STANDARD.encode(content),
            mime_type: record.mime_type.clone(),
            annotations: None,
            meta: None,
        },
        _ => blob(&uri, &record.mime_type, content),
    };
    answer(item, format!("{} {} bytes, all of it.", introduced(record), record.size_bytes), report)
}

fn blob(uri: &str, mime_type: &str, bytes: &[u8]) -> Content {
    Content::Resource {
        resource: ResourceContents {
            uri: uri.to_owned(),
            mime_type: Some(mime_type.to_owned()),
            blob: Some(STANDARD.encode(bytes)),
            ..ResourceContents::default()
        },
        annotations: None,
        meta: None,
    }
}

/// The part that was read, untouched, and after it a note for the model.
fn answer(content: Content, note: String, report: Value) -> CallToolResult {
    CallToolResult {
        content: vec![content, Content::text(note)],
        meta: meta(report),
        ..CallToolResult::default()
    }
}

fn meta(report: Value) -> Option<JsonObject> {
    json!({ META_KEY: report }).as_object().cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_text_are_known() {
        for mime_type in [
            "text/plain",
            "TEXT/csv; charset=utf-8",
            "application/json",
            "application/x-yaml",
            "image/svg+xml",
            "application/x-sh",
        ] {
            assert!(is_text(mime_type), "{mime_type}");
        }
        for mime_type in ["image/png", "application/octet-stream", "application/pdf", "json", ""] {
            assert!(!is_text(mime_type), "{mime_type}");
        }
    }

    #[test]
    fn parts_of_characters_are_left_out() {
        let text = "aä€".as_bytes();
        assert_eq!(as_text(text), Some((text, 0)));
        assert_eq!(as_text(&text[..5]), Some((&text[..3], 0)));
        assert_eq!(as_text(&text[2..]), Some((&text[3..], 1)));
        assert_eq!(as_text(&text[4..]), None);
        assert_eq!(as_text(&text[3..5]), None);
        assert_eq!(as_text(b"a\xff"), None);
        assert_eq!(as_text(&[0x80; 8]), None);
    }
}
