//! Stores a file as a record with the text, and as its chunks.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use marquetry_extract::is_source_code;
use serde_json::{Map, Value, json};
use tokio::sync::OwnedSemaphorePermit;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory as _};

use super::{FileOptions, FileProblem, IndexError, structure};
use crate::{
    Caller, ContentChange, Document, Extracted, Filter, NewChunk, NewRecord, Pipeline, Record,
    RecordError, RecordPatch, RecordStoreError, Records, record_document,
};

/// Name of the attribute with the media type of the file, such as `application/pdf`. The content of
/// the record is the text of the file.
pub const FILE_MEDIA_TYPE: &str = "fileMediaType";

/// Length of the texts of files that are stored together; a longer text is stored at once.
pub(super) const BATCH_BYTES: usize = 16 << 20;

/// A file that is ready to be stored.
pub(super) struct PreparedFile {
    pub(super) path: PathBuf,
    /// The `file:` URI.
    pub(super) source: String,
    pub(super) object_id: String,
    pub(super) uri: String,
    pub(super) extracted: Extracted,
    /// What the document shows and its text does not have.
    pub(super) losses: Vec<String>,
    pub(super) chunks: Vec<NewChunk>,
    /// Hash of the file's bytes, in hexadecimal.
    pub(super) hash: String,
    /// The options with which the file was indexed.
    pub(super) settings: String,
    pub(super) bytes: u64,
    pub(super) modified: Option<SystemTime>,
    pub(super) is_new: bool,
    /// The memory that a large file takes until it is stored.
    pub(super) _room: Option<Arc<OwnedSemaphorePermit>>,
}

impl PreparedFile {
    /// Key and value in the metadata of every document of a file.
    pub(super) const ORIGIN: (&str, &str) = ("origin", "file");
    /// The key of the `file:` URI in the metadata.
    pub(super) const SOURCE: &str = "source";
    /// The key of the options of indexing in the metadata.
    pub(super) const SETTINGS: &str = "indexed";
    /// Maximum length of the list of losses.
    pub(super) const MAX_LOSSES: usize = 10;
    /// The chunk options, for a later update of the chunks after a change of the record.
    const CHUNKING: &str = "chunking";

    /// Attributes of the record. Null means no value, so that an update removes an old one.
    fn attributes(&self) -> Map<String, Value> {
        let Extracted { title, encoding, page_count, mime_type, metadata, .. } = &self.extracted;
        let modified = self.modified.and_then(|time| {
            let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
            u64::try_from(since.as_millis()).ok()
        });
        let author = metadata.get("author");
        let losses = (!self.losses.is_empty()).then_some(&self.losses);
        let attributes = json!({
            "fileName": file_name(&self.path),
            "path": self.path.to_string_lossy(),
            "sourceUri": self.source,
            "size": self.bytes,
            FILE_MEDIA_TYPE: mime_type,
            "fileModified": modified,
            "contentHash": format!("blake3:{}", self.hash),
            "title": title,
            "author": author,
            "pageCount": page_count,
            "encoding": encoding,
            "notRead": losses,
        });
        match attributes {
            Value::Object(attributes) => attributes,
            _ => Map::new(),
        }
    }

    /// Returns the media type of the stored text. Markdown and source code are stored unchanged;
    /// the text of other formats has no markup.
    fn media_type(&self) -> &str {
        match self.extracted.mime_type.as_str() {
            "text/markdown" => "text/markdown",
            // Clients get content of `text/…` as text, and of `application/…` as bytes.
            code if code.starts_with("text/") && is_source_code(code) => code,
            _ => "text/plain",
        }
    }
}

/// Stores files on behalf of a user.
pub(super) struct FileWriter {
    pipeline: Pipeline,
    records: Arc<Records>,
    caller: Caller,
    options: FileOptions,
    /// URIs of the tags that each file gets.
    tags: BTreeSet<String>,
}

impl FileWriter {
    pub(super) fn new(
        pipeline: Pipeline,
        records: Arc<Records>,
        caller: Caller,
        options: FileOptions,
    ) -> Self {
        Self { pipeline, records, caller, options, tags: BTreeSet::new() }
    }

    /// Finds or creates the tags of files, and returns their URIs.
    pub(super) async fn begin(&mut self) -> Result<BTreeSet<String>, RecordError> {
        self.tags.clear();
        for tag in &self.options.tags {
            let found = if self.options.dry_run {
                match self.records.tag(&self.caller, tag).await {
                    Err(RecordError::UnknownTag(_)) if !tag.starts_with("am7://") => {
                        // A value that no document can have.
                        self.tags.insert(String::new());
                        continue;
                    }
                    found => found?,
                }
            } else {
                self.records.ensure_tag(&self.caller, tag).await?
            };
            self.tags.extend(found.uri());
        }
        Ok(self.tags.clone())
    }

    /// Stores files, and returns those that cannot be records, with the reason.
    pub(super) async fn store(
        &self,
        files: Vec<PreparedFile>,
    ) -> Result<Vec<(PreparedFile, FileProblem)>, IndexError> {
        if self.options.dry_run || files.is_empty() {
            return Ok(Vec::new());
        }
        let mut refused = Vec::new();
        let mut documents = Vec::new();
        for mut file in files {
            match self.record(&file).await {
                Ok(document) => documents.push((document, std::mem::take(&mut file.chunks))),
                Err(error @ RecordError::Store(RecordStoreError::Database(_))) => {
                    return Err(error.into());
                }
                Err(error) => refused.push((file, error.into())),
            }
        }
        // The text is stored before its chunks: if the process dies in between, the old chunks are
        // still found, and the next run sees by their hash that they are outdated.
        self.pipeline.store().replace_all(documents).await?;
        Ok(refused)
    }

    /// Stores the record of a file, and returns the document for its chunks.
    async fn record(&self, file: &PreparedFile) -> Result<Document, RecordError> {
        let content = file.extracted.content.clone().into_bytes();
        let existing = match self.records.get(&self.caller, &file.uri).await {
            Ok(record) => Some(record),
            Err(RecordError::NotFound(_)) => None,
            Err(error) => return Err(error),
        };
        let record = match existing {
            Some(record) => {
                self.check_own(&record)?;
                self.update(file, &content, &record).await?
            }
            None => match self.create(file, &content).await {
                // Another process has indexed the file in the meantime.
                Err(RecordError::Conflict(_)) => {
                    let record = self.records.get(&self.caller, &file.uri).await?;
                    self.check_own(&record)?;
                    self.update(file, &content, &record).await?
                }
                created => created?,
            },
        };
        let mut document = record_document(&record);
        set_name(&mut document, &file.path, &file.extracted, &file.source);
        // The text of other media types is stored with its markup, or has form feeds between its
        // pages.
        if file.media_type() == "text/plain" && file.extracted.mime_type != "text/plain" {
            structure::add(&mut document, &file.extracted);
        }
        document.media_type = Some(file.extracted.mime_type.clone());
        document.content_hash = Some(file.hash.clone());
        let (key, value) = PreparedFile::ORIGIN;
        let metadata = &mut document.metadata;
        metadata.insert(key.to_owned(), value.into());
        metadata.insert(PreparedFile::SETTINGS.to_owned(), file.settings.clone().into());
        metadata.insert(PreparedFile::CHUNKING.to_owned(), json!(self.options.chunks));
        Ok(document)
    }

    /// Replaces the content of a file's record, which keeps its tags and its readers.
    async fn update(
        &self,
        file: &PreparedFile,
        content: &[u8],
        before: &Record,
    ) -> Result<Record, RecordError> {
        let mut patch = RecordPatch::new();
        patch.tags = Some(before.tags.union(&self.tags).cloned().collect());
        patch.readers = Some(before.readers.union(&self.options.readers).cloned().collect());
        patch.media_type = Some(Some(file.media_type().to_owned()));
        patch.attributes = file.attributes();
        patch.content = ContentChange::Set(content.to_vec());
        self.records.update(&self.caller, &file.uri, patch).await
    }

    /// Checks that the caller owns the record. The text of a file is not written into records of
    /// other owners, who could read it, even if the caller may change these records.
    fn check_own(&self, record: &Record) -> Result<(), RecordError> {
        if record.owner.as_ref() == Some(&self.caller.user) {
            return Ok(());
        }
        let target = record.uri().unwrap_or_default();
        Err(RecordError::Forbidden { action: "index a file into", target })
    }

    /// Creates the record of a file. If the user has the most groups that are allowed, the record
    /// goes to the nearest parent folder that has a group.
    async fn create(&self, file: &PreparedFile, content: &[u8]) -> Result<Record, RecordError> {
        let mut group = self.group(&file.path);
        loop {
            let mut new = NewRecord::new("data.data", file_name(&file.path))
                .file_id(&file.object_id)
                .group(&group)
                .content(file.media_type(), content.to_vec());
            new.tags.clone_from(&self.tags);
            new.readers.clone_from(&self.options.readers);
            new.attributes = file.attributes();
            match self.records.create(&self.caller, new).await {
                Err(RecordError::Limit { limit: "max_groups_per_owner", .. }) if group != FILES => {
                    let parent = group.rfind('/').unwrap_or_default();
                    group.truncate(parent);
                }
                created => return created,
            }
        }
    }

    /// Returns the group of a file: its folder below `~/Files`, relative to the user's home if the
    /// file is in the home. If that path is too deep or too long, returns the nearest parent that
    /// is not.
    fn group(&self, path: &Path) -> String {
        let limits = self.records.limits();
        let folder = path.parent().unwrap_or(path);
        let home = self.options.home.as_deref().unwrap_or(Path::new("/"));
        let folder = folder.strip_prefix(home).unwrap_or(folder);
        let mut group = FILES.to_owned();
        let names = folder.components().filter_map(|component| match component {
            std::path::Component::Normal(name) => Some(record_name(&name.to_string_lossy())),
            _ => None,
        });
        for name in names.take(limits.max_path_depth.saturating_sub(1)) {
            if group.len() + 1 + name.len() > limits.max_path_bytes {
                break;
            }
            group = format!("{group}/{name}");
        }
        group
    }

    /// Removes a document with its record, and the groups that become empty.
    pub(super) async fn remove(&self, uri: &str) -> Result<(), IndexError> {
        match self.records.get(&self.caller, uri).await {
            Ok(record) => self.check_own(&record)?,
            Err(RecordError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
        // Removes the chunks first, so that searches do not find a record that is about to be
        // removed.
        self.pipeline.store().delete(&Filter::scope(uri)).await?;
        match self.records.delete(&self.caller, uri, None).await {
            Ok(record) => Ok(self.remove_empty(record.group.unwrap_or_default()).await?),
            Err(RecordError::NotFound(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes empty groups from this one upwards, below `~/Files`, so that removed folders leave
    /// no groups. Groups that a user has changed, or that have readers, stay.
    async fn remove_empty(&self, mut path: String) -> Result<(), RecordError> {
        while path.strip_prefix(FILES).is_some_and(|below| below.starts_with('/')) {
            let Some((parent, name)) = path.rsplit_once('/') else { break };
            let found = self.records.find(&self.caller, parent, name).await?;
            let group = found.iter().find(|record| is_unchanged_group(record));
            let Some(uri) = group.and_then(Record::uri) else { break };
            match self.records.delete(&self.caller, &uri, Some(1)).await {
                Ok(_) => path.truncate(parent.len()),
                Err(
                    RecordError::NotEmpty(_) | RecordError::NotFound(_) | RecordError::Conflict(_),
                ) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Returns whether a record is a group that was neither changed nor shared since it was created.
fn is_unchanged_group(record: &Record) -> bool {
    record.kind == Record::GROUP
        && record.revision == 1
        && record.readers.is_empty()
        && record.writers.is_empty()
        && record.attributes.is_empty()
}

/// Sets the name and the URI of the document of a file.
pub(super) fn set_name(document: &mut Document, path: &Path, extracted: &Extracted, source: &str) {
    let name = file_name(path);
    document.title = extracted.title.clone().or_else(|| Some(name.clone()));
    document.name = Some(name);
    document.metadata.insert(PreparedFile::SOURCE.to_owned(), source.into());
}

/// Group of all indexed files.
const FILES: &str = "~/Files";

fn file_name(path: &Path) -> String {
    record_name(&path.file_name().unwrap_or_default().to_string_lossy())
}

/// Returns a valid name for a record, with invisible characters replaced.
fn record_name(name: &str) -> String {
    let name: String = name
        .chars()
        .map(|character| match character.general_category() {
            GeneralCategory::Control
            | GeneralCategory::Format
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
            | GeneralCategory::PrivateUse
            | GeneralCategory::Unassigned => '\u{FFFD}',
            _ => character,
        })
        .collect();
    if name.trim().is_empty() { "\u{FFFD}".to_owned() } else { name }
}
