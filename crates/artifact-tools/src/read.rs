//! `read_artifact`

use base64::{Engine as _, engine::general_purpose::STANDARD};
use marquetry_artifacts::{
    ArtifactName, ArtifactUri, Record, Version,
    mime::{is_text, readable_image},
};
use marquetry_protocol::types::{CallToolResult, Content, JsonObject, ResourceContents};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    ArtifactTools, ToolError,
    content::is_extracted,
    limits::TextLimit,
    uri_of,
    view::{self, Piece},
};

/// Key in `_meta` of the part that was read.
const META_KEY: &str = "marquetry/read";

/// Arguments of `read_artifact`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadArguments {
    /// Name or artifact:// URI.
    name: String,
    /// The newest by default.
    version: Option<u64>,
    /// From 1, or from the end if negative; for text and documents.
    start_line: Option<i64>,
    /// As many as fit by default.
    #[schemars(range(min = 1))]
    line_count: Option<u64>,
    /// From 0; not together with lines.
    start_byte: Option<u64>,
    /// The byte to stop before.
    end_byte: Option<u64>,
    /// A page of a document, from 1.
    #[schemars(range(min = 1))]
    page: Option<u64>,
    /// The most to return.
    #[schemars(range(min = 1))]
    max_bytes: Option<u64>,
    /// Instead of content: type, sizes, numbers of lines, rows and pages, schema, warnings.
    info: Option<bool>,
}

impl ArtifactTools {
    pub(super) async fn read(
        &self,
        arguments: &ReadArguments,
    ) -> Result<CallToolResult, ToolError> {
        let (name, version) = named(&arguments.name, arguments.version)?;
        let by_bytes = arguments.start_byte.is_some() || arguments.end_byte.is_some();
        let by_lines = arguments.start_line.is_some() || arguments.line_count.is_some();
        if by_bytes && by_lines {
            let problem =
                "give either lines (start_line, line_count) or bytes (start_byte, end_byte)";
            return Err(ToolError::Arguments(problem.to_owned()));
        }
        if arguments.start_line == Some(0) {
            let problem = "start_line is 0: lines count from 1, or from -1 at the end";
            return Err(ToolError::Arguments(problem.to_owned()));
        }
        let default = self.limits.default_bytes;
        let text_limit = TextLimit::new(arguments.max_bytes, default, self.limits.max_bytes);
        if arguments.info == Some(true) {
            return self.info(&name, version, text_limit).await;
        }
        if by_bytes {
            let start = arguments.start_byte.unwrap_or(0);
            let end = arguments.end_byte.unwrap_or(u64::MAX);
            return self.read_bytes(&name, version, start, end, text_limit).await;
        }
        let record = self.store.record(&self.scope, &name, version).await?;
        if arguments.page.is_some() || (by_lines && is_extracted(&record)) {
            let lines = (arguments.start_line, arguments.line_count);
            return self.read_document(&record, arguments.page, lines, text_limit).await;
        }
        // Pin the version: a later save must not change the bytes under the record.
        let version = Version::Number(record.version);
        if !by_lines && !is_text(&record.mime_type) {
            let max = self.max_binary_bytes(&record);
            let limit = match arguments.max_bytes {
                Some(asked) => usize::try_from(asked).unwrap_or(max).clamp(1, max),
                // A part of an image is not an image.
                None if is_image(&record) => max,
                None => text_limit.in_binary_bytes(),
            };
            if record.size_bytes > limit as u64 {
                return Ok(self.binary_note(&record, limit));
            }
            let artifact = self.store.get(&self.scope, &name, version).await?;
            return Ok(match std::str::from_utf8(&artifact.content) {
                Ok(_) => self.read_lines(&record, 1, u64::MAX, text_limit).await?,
                Err(_) => binary_answer(&record, &artifact.content),
            });
        }
        let first = match arguments.start_line.unwrap_or(1) {
            start @ ..0 => line_from_end(start, self.find_line(&record, 1).await?.total),
            start => start.unsigned_abs(),
        };
        let count = arguments.line_count.unwrap_or(u64::MAX);
        match self.read_lines(&record, first, count, text_limit).await {
            Err(ToolError::NotText(_)) if !by_lines => {
                let limit = text_limit.in_binary_bytes();
                if record.size_bytes > limit as u64 {
                    return Ok(self.binary_note(&record, limit));
                }
                let artifact = self.store.get(&self.scope, &name, version).await?;
                Ok(binary_answer(&record, &artifact.content))
            }
            answer => answer,
        }
    }

    /// Returns the number of bytes of this binary artifact that one answer may have.
    fn max_binary_bytes(&self, record: &Record) -> usize {
        let max_bytes = self.limits.max_bytes.get();
        if is_image(record) { self.limits.max_image_bytes.get().max(max_bytes) } else { max_bytes }
    }

    /// Describes a binary artifact that does not fit, and how to read it instead.
    fn binary_note(&self, record: &Record, limit: usize) -> CallToolResult {
        let size = record.size_bytes;
        let mut ways = vec!["Read parts as base64 with start_byte and end_byte".to_owned()];
        if is_extracted(record) {
            ways.insert(0, "Read its text with start_line=1".to_owned());
        }
        if size <= self.max_binary_bytes(record) as u64 {
            ways.push(format!("give max_bytes={size} for all of it"));
        }
        if size <= self.limits.max_resource_bytes.get() as u64 {
            ways.push(format!("let the client read the resource {}", uri_of(record)));
        }
        let last = ways.pop().unwrap_or_default();
        let ways = if ways.is_empty() { last } else { format!("{}, or {last}", ways.join(", ")) };
        let what = if is_image(record) { "an image" } else { "binary" };
        let note = format!(
            "{} It is {what} and has {size} bytes, more than the {limit} of one answer. {ways}.",
            introduced(record),
        );
        CallToolResult { meta: meta(binary_report(record, 0)), ..CallToolResult::text(note) }
    }

    /// Reads some lines of a text, with one block in memory at a time.
    async fn read_lines(
        &self,
        record: &Record,
        first: u64,
        count: u64,
        limit: TextLimit,
    ) -> Result<CallToolResult, ToolError> {
        let name = &record.name;
        let size = record.size_bytes;
        let version = Version::Number(record.version);
        let lines = self.find_line(record, first).await?;
        // One byte over the limit shows whether the line fits; three more complete a character.
        let end = size.min(lines.start.saturating_add(limit.bytes() as u64 + 4));
        let piece = self.store.read_range(&self.scope, name, version, lines.start..end).await?;
        let text = view::characters(&piece).map_or("", |(text, _)| text);
        let limit = limit.in_bytes_of(text);
        let mut part = view::lines(text.as_bytes(), 1, count, limit)
            .map_err(|_| ToolError::NotText(name.as_str().to_owned()))?;
        // The view counts from the start of the piece.
        let before = (first - 1).min(lines.total);
        part.first_line += before;
        part.last_line += before;
        part.total_lines = lines.total;
        part.next_line = Some(part.last_line + 1).filter(|&next| next <= lines.total);
        part.bytes = part.bytes.start + lines.start..part.bytes.end + lines.start;
        Ok(lines_answer(record, &part))
    }

    async fn read_bytes(
        &self,
        name: &ArtifactName,
        version: Version,
        start: u64,
        end: u64,
        limit: TextLimit,
    ) -> Result<CallToolResult, ToolError> {
        let record = self.store.record(&self.scope, name, version).await?;
        let total = record.size_bytes;
        if start >= total.max(1) || end <= start {
            let last = total.saturating_sub(1);
            return Err(ToolError::Arguments(format!(
                "bytes {start} to {} are not part of {name}, which has {total} bytes: give a start_byte from 0 to {last}, and an end_byte \
                 that is larger",
                end.min(total)
            )));
        }
        let version = Version::Number(record.version);
        let wanted = end.min(total).min(start.saturating_add(limit.bytes() as u64)) - start;
        // A few more bytes tell a character that is cut at the end from invalid UTF-8.
        let range = start..(start + wanted + 3).min(total);
        let bytes = self.store.read_range(&self.scope, name, version, range).await?;
        let wanted = usize::try_from(wanted).unwrap_or(limit.bytes());
        let text = view::characters(&bytes).filter(|_| is_text(&record.mime_type));
        let (part, skipped) = if let Some((text, skipped)) = text {
            let wanted = wanted.saturating_sub(skipped) as u64;
            (view::bytes(text.as_bytes(), 0..wanted, limit.in_bytes_of(text)).content, skipped)
        } else {
            let wanted = wanted.min(limit.in_binary_bytes());
            (Piece::Binary(bytes.get(..wanted).unwrap_or(&bytes)), 0)
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

/// Returns the number of a line that is counted from the end; the first one if there are fewer.
pub(super) fn line_from_end(start: i64, total: u64) -> u64 {
    (total + 1).saturating_sub(start.unsigned_abs()).max(1)
}

/// Parses a name in the forms that models write: bare, or in a URI that may have a version.
pub(super) fn named(
    name: &str,
    version: Option<u64>,
) -> Result<(ArtifactName, Version), ToolError> {
    let uri = if name.starts_with("artifact:") {
        name.parse::<ArtifactUri>().map_err(|error| error.to_string())
    } else {
        ArtifactName::parse(name)
            .map(|name| ArtifactUri { name, version: None })
            .map_err(|error| error.to_string())
    };
    let uri = uri.map_err(|problem| ToolError::Name(quoted(name), problem))?;
    Ok((uri.name, version.or(uri.version).map_or(Version::Latest, Version::Number)))
}

/// Returns a name in quotation marks, or its beginning if it is too long for an artifact's.
fn quoted(name: &str) -> String {
    const MAX_BYTES: usize = 200;
    match name.len() {
        0..=MAX_BYTES => format!("{name:?}"),
        length => {
            let beginning = &name[..name.floor_char_boundary(MAX_BYTES)];
            format!("{beginning:?}… ({length} bytes)")
        }
    }
}

fn is_image(record: &Record) -> bool {
    record.mime_type.starts_with("image/")
}

pub(super) fn introduced(record: &Record) -> String {
    format!("{} version {} ({}).", record.name, record.version, record.mime_type)
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
    let total = lines.total_lines;
    let size = record.size_bytes;
    let note = if lines.first_line > total && total > 0 {
        format!(
            "{} It has no such line: it has {total} lines and {size} bytes. Give a start_line from 1 to {total}.",
            introduced(record)
        )
    } else {
        format!(
            "{} Lines {} to {} of {total}; {size} bytes in all.{cut}{more}",
            introduced(record),
            lines.first_line,
            lines.last_line,
        )
    };
    let report = json!({
        "name": record.name, "version": record.version, "size_bytes": record.size_bytes, "start_line": lines.first_line,
        "end_line": lines.last_line, "total_lines": lines.total_lines, "is_cut": lines.is_cut,
        "start_byte": lines.bytes.start, "end_byte": lines.bytes.end, "next_start_line": lines.next_line,
    });
    answer(Content::text(lines.text), note, report)
}

fn binary_report(record: &Record, end: usize) -> Value {
    json!({
        "name": record.name, "version": record.version, "size_bytes": record.size_bytes, "start_byte": 0, "end_byte": end,
    })
}

/// Returns a whole binary artifact as content.
fn binary_answer(record: &Record, content: &[u8]) -> CallToolResult {
    let item = match record.mime_type.split('/').next() {
        // Clients and services of models fail on an image that is not one that they read.
        Some("image") => match readable_image(content) {
            Some(mime_type) => Content::image(STANDARD.encode(content), mime_type),
            None => blob(&uri_of(record), "application/octet-stream", content),
        },
        Some("audio") => Content::Audio {
            data: STANDARD.encode(content),
            mime_type: record.mime_type.clone(),
            annotations: None,
            meta: None,
        },
        _ => blob(&uri_of(record), &record.mime_type, content),
    };
    let note = format!("{} {} bytes, all of it.", introduced(record), record.size_bytes);
    answer(item, note, binary_report(record, content.len()))
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

/// Returns the part that was read, and a note for the model after it.
pub(super) fn answer(content: Content, note: String, report: Value) -> CallToolResult {
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
    use std::{
        ops::Range,
        sync::{Arc, Mutex},
        time::SystemTime,
    };

    use async_trait::async_trait;
    use bytes::Bytes;
    use marquetry_artifacts::{
        Artifact, ArtifactStore, MemoryLimits, MemoryStore, NewArtifact, Scope, StoreError,
    };

    use super::*;

    /// A store that records the largest read, and the bytes of all reads.
    struct Watched {
        store: MemoryStore,
        max: Mutex<u64>,
        total: Mutex<u64>,
    }

    impl Watched {
        fn saw(&self, bytes: u64) {
            let mut max = self.max.lock().unwrap();
            *max = bytes.max(*max);
            *self.total.lock().unwrap() += bytes;
        }
    }

    #[async_trait]
    impl marquetry_artifacts::store::DelegatingStore for Watched {
        fn inner(&self) -> &dyn ArtifactStore {
            &self.store
        }

        async fn get(
            &self,
            scope: &Scope,
            name: &ArtifactName,
            version: Version,
        ) -> Result<Artifact, StoreError> {
            let artifact = self.store.get(scope, name, version).await?;
            self.saw(artifact.record.size_bytes);
            Ok(artifact)
        }

        async fn read_range(
            &self,
            scope: &Scope,
            name: &ArtifactName,
            version: Version,
            range: Range<u64>,
        ) -> Result<Bytes, StoreError> {
            self.saw(range.end - range.start);
            self.store.read_range(scope, name, version, range).await
        }
    }

    async fn artifacts(
        mime_type: &str,
        content: impl Into<Bytes>,
    ) -> (ArtifactTools, Arc<Watched>) {
        let store = MemoryStore::new(MemoryLimits::default());
        let store = Arc::new(Watched { store, max: Mutex::new(0), total: Mutex::new(0) });
        let name = ArtifactName::parse("a").unwrap();
        let artifact = NewArtifact::new(name, mime_type, SystemTime::UNIX_EPOCH, content.into());
        store.put(&Scope::local(), artifact).await.unwrap();
        (ArtifactTools::new(store.clone()), store)
    }

    fn asked(arguments: Value) -> ReadArguments {
        serde_json::from_value(arguments).unwrap()
    }

    fn text(answer: &CallToolResult) -> &str {
        let Content::Text { text, .. } = &answer.content[0] else { panic!("{answer:?}") };
        text
    }

    #[tokio::test]
    async fn a_large_artifact_is_never_read_at_once() {
        const MAX: u64 = 300 << 10;
        let line = "ä€ über die Grenze der Blöcke hinweg\n";
        let (artifacts, store) = artifacts("text/plain", line.repeat(200_000)).await;
        for arguments in [
            json!({"name": "a"}),
            json!({"name": "a", "start_line": 199_999}),
            json!({"name": "a", "start_byte": 5_000_000}),
        ] {
            let answer = artifacts.read(&asked(arguments)).await.unwrap();
            assert!(text(&answer).contains("Grenze"));
        }
        let max = *store.max.lock().unwrap();
        assert!(max <= MAX, "{max}");
        let answer = artifacts.read(&asked(json!({"name": "a", "start_line": 200_000}))).await;
        assert_eq!(text(&answer.unwrap()), line);
    }

    fn numbered_line(number: u64) -> String {
        format!("ä€ {number:07}\n")
    }

    #[tokio::test]
    async fn only_the_first_read_of_lines_reads_the_whole_text() {
        let text_of_lines: String = (1..=200_000).map(numbered_line).collect();
        let (artifacts, store) = artifacts("text/plain", text_of_lines).await;
        artifacts.read(&asked(json!({"name": "a", "start_line": 1}))).await.unwrap();
        for number in [1, 2, 3, 18_725, 18_726, 100_000, 199_999, 200_000] {
            *store.total.lock().unwrap() = 0;
            let asked = asked(json!({"name": "a", "start_line": number, "line_count": 1}));
            let answer = artifacts.read(&asked).await.unwrap();
            assert_eq!(text(&answer), numbered_line(number));
            let bytes = *store.total.lock().unwrap();
            assert!(bytes < 300 << 10, "line {number} took {bytes} bytes");
        }
    }

    #[tokio::test]
    async fn a_large_binary_is_described_and_not_read() {
        for (mime_type, bytes, want) in [
            (
                "application/zip",
                200 << 10,
                "It is binary and has 204800 bytes, more than the 2048 of one answer. Read parts as base64 with start_byte and end_byte, \
                 give max_bytes=204800 for all of it, or let the client read the resource artifact://a?version=0.",
            ),
            (
                "application/zip",
                300 << 10,
                "It is binary and has 307200 bytes, more than the 2048 of one answer. Read parts as base64 with start_byte and end_byte, \
                 or let the client read the resource artifact://a?version=0.",
            ),
            (
                "image/png",
                17 << 20,
                "It is an image and has 17825792 bytes, more than the 3932160 of one answer. Read parts as base64 with start_byte and end_byte.",
            ),
        ] {
            let (artifacts, store) = artifacts(mime_type, vec![0xff; bytes]).await;
            let answer = artifacts.read(&asked(json!({"name": "a"}))).await.unwrap();
            assert!(text(&answer).ends_with(want), "{}", text(&answer));
            assert_eq!(*store.max.lock().unwrap(), 0);
        }
    }

    /// A PNG.
    const ONE_PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

    /// B2: an image is returned as an image, and the advice works.
    #[tokio::test]
    async fn an_image_comes_back_as_an_image() {
        let mut png = STANDARD.decode(ONE_PIXEL).unwrap();
        png.resize(1 << 20, 0xff);
        let (artifacts, _) = artifacts("image/png", png).await;
        let answer = artifacts.read(&asked(json!({"name": "a"}))).await.unwrap();
        assert!(matches!(&answer.content[0], Content::Image { .. }));
        let few = artifacts.read(&asked(json!({"name": "a", "max_bytes": 10}))).await.unwrap();
        assert!(text(&few).contains("give max_bytes=1048576 for all of it"), "{}", text(&few));
        let all = json!({"name": "a", "max_bytes": 1 << 20});
        let answer = artifacts.read(&asked(all)).await.unwrap();
        assert!(matches!(&answer.content[0], Content::Image { .. }));
    }

    #[tokio::test]
    async fn bytes_that_are_no_image_come_back_as_bytes() {
        let (artifacts, _) = artifacts("image/png", &b"\xff\xfe no image"[..]).await;
        let answer = artifacts.read(&asked(json!({"name": "a"}))).await.unwrap();
        let Content::Resource { resource, .. } = &answer.content[0] else { panic!("{answer:?}") };
        assert_eq!(resource.mime_type.as_deref(), Some("application/octet-stream"));
    }

    #[tokio::test]
    async fn a_document_is_offered_as_text() {
        let (artifacts, _) = artifacts("application/pdf", vec![0xff; 20 << 10]).await;
        let answer = artifacts.read(&asked(json!({"name": "a"}))).await.unwrap();
        let want = "of one answer. Read its text with start_line=1, ";
        assert!(text(&answer).contains(want), "{}", text(&answer));
    }

    #[tokio::test]
    async fn a_read_past_the_end_says_where_the_end_is() {
        let (artifacts, _) = artifacts("text/plain", "one\ntwo\n").await;
        let answer = artifacts.read(&asked(json!({"name": "a", "start_line": 9}))).await.unwrap();
        let Content::Text { text, .. } = &answer.content[1] else { panic!("{answer:?}") };
        assert_eq!(
            text,
            "a version 0 (text/plain). It has no such line: it has 2 lines and 8 bytes. Give a start_line from 1 to 2."
        );
        let error = artifacts.read(&asked(json!({"name": "a", "start_byte": 9}))).await;
        assert_eq!(
            error.unwrap_err().to_string(),
            "bytes 9 to 8 are not part of a, which has 8 bytes: give a start_byte from 0 to 7, and an end_byte that is larger"
        );
    }

    #[tokio::test]
    async fn lines_are_counted_from_the_end() {
        let (artifacts, _) = artifacts("text/plain", "one\ntwo\nthree\n").await;
        for (start, count, want) in
            [(-1, None, "three\n"), (-3, Some(2), "one\ntwo\n"), (-9, None, "one\ntwo\nthree\n")]
        {
            let arguments = json!({"name": "a", "start_line": start, "line_count": count});
            let answer = artifacts.read(&asked(arguments)).await.unwrap();
            assert_eq!(text(&answer), want, "{start}");
        }
        let answer = artifacts.read(&asked(json!({"name": "a", "start_line": -2}))).await.unwrap();
        let note = answer.content[1].as_text().unwrap();
        assert!(note.contains("Lines 2 to 3 of 3"), "{note}");
    }

    /// A store that expires an artifact after its record was read.
    struct Expiring(MemoryStore);

    #[async_trait]
    impl marquetry_artifacts::store::DelegatingStore for Expiring {
        fn inner(&self) -> &dyn ArtifactStore {
            &self.0
        }

        async fn get(
            &self,
            _: &Scope,
            name: &ArtifactName,
            version: Version,
        ) -> Result<Artifact, StoreError> {
            Err(StoreError::expired(name, version))
        }

        async fn read_range(
            &self,
            _: &Scope,
            name: &ArtifactName,
            version: Version,
            range: Range<u64>,
        ) -> Result<Bytes, StoreError> {
            if range.start == 0 {
                return Ok(vec![b'x'; (range.end - range.start) as usize].into());
            }
            Err(StoreError::expired(name, version))
        }
    }

    #[tokio::test]
    async fn an_artifact_that_expires_while_it_is_read_says_so() {
        let store = MemoryStore::new(MemoryLimits::default());
        let name = ArtifactName::parse("a").unwrap();
        let content = vec![b'x'; 600 << 10].into();
        let artifact = NewArtifact::new(name, "text/plain", SystemTime::UNIX_EPOCH, content);
        store.put(&Scope::local(), artifact).await.unwrap();
        let artifacts = ArtifactTools::new(Arc::new(Expiring(store)));
        let want = "artifact \"a\" version 0 has expired: the store removed it to make room for newer ones; call the tool that created it again";
        let read = artifacts.read(&asked(json!({"name": "a", "start_line": 2}))).await;
        assert_eq!(read.unwrap_err().to_string(), want);
        let found =
            artifacts.search(serde_json::from_value(json!({"name": "a", "pattern": "x"})).unwrap());
        assert_eq!(found.await.unwrap_err().to_string(), want);
        let found =
            artifacts.query(serde_json::from_value(json!({"name": "a", "jq": "."})).unwrap());
        assert_eq!(found.await.unwrap_err().to_string(), want);
    }

    #[tokio::test]
    async fn lines_in_blocks_are_those_of_the_whole() {
        for content in ["", "one", "one\n", "one\ntwo\n\nfour", "ä\n€€€\nlast", "\n\n"] {
            let (artifacts, _) = artifacts("text/plain", content).await;
            for (first, count, limit) in
                [(1, 99, 99), (1, 1, 99), (2, 1, 99), (2, 99, 4), (1, 99, 3), (3, 2, 5), (9, 9, 9)]
            {
                let whole = view::lines(content.as_bytes(), first, count, limit).unwrap();
                let (name, version) = named("a", None).unwrap();
                let record =
                    artifacts.store.record(&artifacts.scope, &name, version).await.unwrap();
                let read =
                    artifacts.read_lines(&record, first, count, TextLimit::Bytes(limit)).await;
                let part = read.unwrap();
                let case = format!("{content:?} {first} {count} {limit}");
                assert_eq!(part, lines_answer(&record, &whole), "{case}");
            }
        }
    }

    #[tokio::test]
    async fn an_artifact_that_is_no_text_is_returned_as_binary() {
        let (artifacts, _) = artifacts("text/plain", &b"a\xffb"[..]).await;
        let answer = artifacts.read(&asked(json!({"name": "a"}))).await.unwrap();
        assert!(matches!(&answer.content[0], Content::Resource { .. }), "{answer:?}");
        let error =
            artifacts.read(&asked(json!({"name": "a", "start_line": 1}))).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "a is not text; give start_byte and end_byte instead of lines"
        );
    }
}
