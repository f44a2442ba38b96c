//! Tools that create, read, change, remove and list records.

use std::collections::BTreeSet;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use marquetry_protocol::server::{RequestContext, Toolbox};
use marquetry_rag::{ContentChange, ModelType, NewRecord, Record, RecordPatch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    Answer, AnswerLimits, CREATE, DELETE, GET, KnowledgeTools, LIST_OBJECTS, UPDATE,
    size::{AnswerSize, DEFAULT_TOKENS},
};
use crate::{access::Access, failure::Failure, kinds::NOTE};

/// Arguments of `am7_create_object`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CreateArguments {
    /// "data.data" (document, medium), "data.note", "common.tag", "auth.group" (users) or another.
    #[serde(rename = "type")]
    kind: String,
    name: String,
    /// Group, such as "~/Notes" (your home) or "/Shared/Papers".
    group_path: Option<String>,
    #[serde(default)]
    attributes: Map<String, Value>,
    /// Text.
    content: Option<String>,
    /// Bytes, instead of content.
    content_base64: Option<String>,
    /// "text/plain" by default.
    media_type: Option<String>,
    /// Names or URIs of existing tags.
    #[serde(default)]
    tags: BTreeSet<String>,
    /// URIs of users and groups.
    #[serde(default)]
    readers: BTreeSet<String>,
    /// URIs of users and groups.
    #[serde(default)]
    writers: BTreeSet<String>,
}

/// Arguments of `am7_get_object`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GetArguments {
    /// Or give type and objectId.
    uri: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    object_id: Option<String>,
    /// Also return its text, if not too large.
    #[serde(default)]
    include_content: bool,
    /// Whole attributes and text, not 2,000 tokens of them.
    #[serde(default)]
    whole: bool,
}

/// Arguments of `am7_update_object`. Missing ones stay unchanged.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct UpdateArguments {
    /// Or give type and objectId.
    uri: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    object_id: Option<String>,
    /// The expected revision; if it differs, nothing changes.
    revision: Option<u64>,
    name: Option<String>,
    group_path: Option<String>,
    /// Attributes to set; null removes one.
    #[serde(default)]
    attributes: Map<String, Value>,
    content: Option<String>,
    content_base64: Option<String>,
    media_type: Option<String>,
    /// The complete new list.
    tags: Option<BTreeSet<String>>,
    /// The complete new list.
    readers: Option<BTreeSet<String>>,
    /// The complete new list.
    writers: Option<BTreeSet<String>>,
}

/// Arguments of `am7_delete_object`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DeleteArguments {
    /// Or give type and objectId.
    uri: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    object_id: Option<String>,
    /// The expected revision; if it differs, nothing is removed.
    revision: Option<u64>,
}

/// Arguments of `am7_list_objects`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ListArguments {
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Any of these types.
    #[serde(default)]
    types: Vec<String>,
    /// Group, such as "~/Notes".
    group_path: Option<String>,
    /// The exact name.
    name: Option<String>,
    /// All of these tags.
    #[serde(default)]
    tags: Vec<String>,
    /// By default as many as 2,000 tokens hold, up to 50.
    #[schemars(range(min = 1, max = 500))]
    limit: Option<usize>,
    /// Whole records, with attributes, tags and rights.
    #[serde(default)]
    details: bool,
    /// The nextCursor of an earlier answer.
    cursor: Option<String>,
}

/// A record.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectView {
    /// URI, which all tools accept.
    uri: String,
    /// Id within its type.
    object_id: String,
    /// Type.
    #[serde(rename = "type")]
    kind: String,
    /// Name.
    name: String,
    /// Path of its group; ~ is its owner's home.
    #[serde(skip_serializing_if = "Option::is_none")]
    group_path: Option<String>,
    /// URI of its owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    /// URIs of its tags.
    tags: BTreeSet<String>,
    /// Readers besides its owner.
    readers: BTreeSet<String>,
    /// Writers besides its owner.
    writers: BTreeSet<String>,
    /// MIME type of its content.
    #[serde(skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
    /// URI of its content, if it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    media_uri: Option<String>,
    /// Other attributes.
    attributes: Map<String, Value>,
    /// Members that are cut, and how to get them.
    #[serde(skip_serializing_if = "Option::is_none")]
    attributes_omitted: Option<String>,
    /// Time of creation, in milliseconds since 1970.
    created: u64,
    /// Time of the last change, in milliseconds since 1970.
    modified: u64,
    /// Grows with each change.
    revision: u64,
    /// Text, if requested and not too large.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// Why content is missing although it was requested, and how to get it.
    #[serde(skip_serializing_if = "Option::is_none")]
    content_omitted: Option<String>,
    /// Number of searchable passages; 0 before am7_vectorize.
    #[serde(skip_serializing_if = "Option::is_none")]
    chunk_count: Option<u64>,
}

/// Answer of `am7_list_objects`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ObjectList {
    /// The records, in the order of their URIs.
    objects: Vec<ListedObject>,
    /// Pass it as cursor to see more; a page of large records may be shorter than limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// A record in a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
enum ListedObject {
    Short(ShortObject),
    Whole(Box<ObjectView>),
}

/// The members of a record by which a reader chooses; am7_get_object returns the others.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ShortObject {
    /// URI, which all tools accept.
    uri: String,
    /// Type.
    #[serde(rename = "type")]
    kind: String,
    /// Name.
    name: String,
    /// Path of its group; ~ is its owner's home.
    #[serde(skip_serializing_if = "Option::is_none")]
    group_path: Option<String>,
    /// MIME type of its content.
    #[serde(skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
    /// Time of the last change, in milliseconds since 1970.
    modified: u64,
}

impl ShortObject {
    fn of(record: Record) -> Self {
        Self {
            uri: record.uri().unwrap_or_default(),
            kind: record.kind,
            name: record.name,
            group_path: record.group,
            media_type: record.media_type,
            modified: record.modified,
        }
    }
}

/// Answer of `am7_delete_object`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Deleted {
    /// URI of the removed record.
    uri: String,
    /// Number of removed passages.
    chunks_removed: u64,
}

impl ObjectView {
    pub(super) fn of(record: Record) -> Self {
        Self {
            uri: record.uri().unwrap_or_default(),
            media_uri: record.media_uri().filter(|_| record.is_media()),
            object_id: record.object_id,
            kind: record.kind,
            name: record.name,
            group_path: record.group,
            owner: record.owner,
            tags: record.tags,
            readers: record.readers,
            writers: record.writers,
            media_type: record.media_type,
            attributes: record.attributes,
            attributes_omitted: None,
            created: record.created,
            modified: record.modified,
            revision: record.revision,
            content: None,
            content_omitted: None,
            chunk_count: None,
        }
    }

    /// Cuts or removes the largest attributes, then the lists of tags and rights, if it costs more
    /// than `room`.
    fn within(mut self, size: AnswerSize, room: usize) -> Self {
        /// Bytes of a cut attribute, such as the first sentences of a note.
        const CUT_ATTRIBUTE_BYTES: usize = 512;
        let mut left = size.cost(&self);
        if left <= room {
            return self;
        }
        let mut costs: Vec<_> = self
            .attributes
            .iter()
            .map(|(name, value)| (size.cost(&(name, value)), name.clone()))
            .collect();
        costs.sort_by(|left, right| right.cmp(left));
        let mut cut = Vec::new();
        // First long attributes are cut, then attributes are left out.
        for is_left_out in [false, true] {
            for (cost, name) in &mut costs {
                if left <= room {
                    break;
                }
                let Some(value) = self.attributes.get(name) else { continue };
                let bytes = json_size(value);
                if !is_left_out && bytes <= CUT_ATTRIBUTE_BYTES {
                    continue;
                }
                let shown = match value {
                    Value::String(text) if !is_left_out => Value::String(format!(
                        "{}…",
                        &text[..text.floor_char_boundary(CUT_ATTRIBUTE_BYTES / 2)]
                    )),
                    _ => Value::Null,
                };
                let shown_cost = if is_left_out {
                    self.attributes.shift_remove(name);
                    0
                } else {
                    let shown_cost = size.cost(&(&name, &shown));
                    self.attributes.insert(name.clone(), shown);
                    shown_cost
                };
                left = left.saturating_sub(*cost) + shown_cost;
                *cost = shown_cost;
                let what = format!("{name} ({bytes} bytes)");
                // The list of cut attributes is limited, too. The second round repeats names.
                if cut.len() < 8 && name.len() < 64 && !is_left_out {
                    cut.push(what);
                } else if is_left_out && !cut.iter().any(|it| it == "further attributes") {
                    cut.push("further attributes".to_owned());
                }
            }
        }
        for (name, list) in [
            ("tags", &mut self.tags),
            ("readers", &mut self.readers),
            ("writers", &mut self.writers),
        ] {
            if left > room && list.len() > SHOWN_URIS {
                let whole = size.cost(list);
                cut.push(format!("{name} ({} in all)", list.len()));
                *list = std::mem::take(list).into_iter().take(SHOWN_URIS).collect();
                left = left.saturating_sub(whole) + size.cost(list);
            }
        }
        if !cut.is_empty() {
            let uri = &self.uri;
            let cut = cut.join(", ");
            self.attributes_omitted = Some(format!(
                "cut or left out here: {cut}; resources/read of {uri} gives all, am7_get_object with whole too"
            ));
        }
        self
    }

    /// Adds a content, or the reason why it is missing and how to get it.
    fn set_content(&mut self, content: Vec<u8>, limits: &AnswerLimits, size: AnswerSize) {
        let bytes = content.len();
        let here = limits.max_shown_content_bytes.get();
        let whole = limits.max_resource_bytes.get();
        let why = match String::from_utf8(content) {
            Ok(text)
                if bytes <= here
                    && (matches!(size, AnswerSize::Bytes(_))
                        || size.cost(self) + size.cost(&text) <= size.room()) =>
            {
                self.content = Some(text);
                return;
            }
            Ok(_) if bytes <= here => {
                format!(
                    "it has {bytes} bytes, more than {DEFAULT_TOKENS} tokens hold; whole: true gives them, am7_extract_content parts of them"
                )
            }
            Ok(_) => {
                format!("it has {bytes} bytes, more than limits.read_artifact_max_bytes ({here})")
            }
            Err(_) => {
                let kind = self.media_type.as_deref().unwrap_or("application/octet-stream");
                format!("it is not text but {kind}, {bytes} bytes")
            }
        };
        let how = if bytes <= whole {
            let uri = self.media_uri.as_ref().unwrap_or(&self.uri);
            format!("resources/read of {uri} gives all of it")
        } else {
            format!("resources/read gives at most limits.max_resource_bytes ({whole})")
        };
        self.content_omitted = Some(format!(
            "{why}; {how}, am7_vectorize and am7_vector_search find passages of what it says"
        ));
    }
}

impl KnowledgeTools {
    pub(super) fn add_objects(&self, toolbox: Toolbox) -> Toolbox {
        let toolbox =
            self.add(toolbox, (CREATE, CREATE_DESCRIPTION), |tools, arguments, cx| async move {
                Answer(tools.create(arguments, &cx).await)
            });
        let toolbox =
            self.add(toolbox, (GET, GET_DESCRIPTION), |tools, arguments, cx| async move {
                Answer(tools.get(&arguments, &cx).await)
            });
        let toolbox =
            self.add(toolbox, (UPDATE, UPDATE_DESCRIPTION), |tools, arguments, cx| async move {
                Answer(tools.update(arguments, &cx).await)
            });
        let toolbox =
            self.add(toolbox, (DELETE, DELETE_DESCRIPTION), |tools, arguments, cx| async move {
                Answer(tools.delete(&arguments, &cx).await)
            });
        self.add(toolbox, (LIST_OBJECTS, LIST_DESCRIPTION), |tools, arguments, cx| async move {
            Answer(tools.list(arguments, &cx).await)
        })
    }

    async fn create(
        &self,
        arguments: CreateArguments,
        cx: &RequestContext,
    ) -> Result<ObjectView, Failure> {
        let access = self.open(cx).await?;
        let CreateArguments { kind, name, group_path, mut attributes, media_type, .. } = arguments;
        let content = content(arguments.content, arguments.content_base64)?;
        let mut new = NewRecord::new(&kind, name);
        (new.content, new.media_type) = match content {
            Some(Content::Text(text)) if kind == NOTE => {
                attributes.insert("text".to_owned(), text.into());
                (None, media_type)
            }
            Some(Content::Text(text)) => {
                (Some(text.into_bytes()), media_type.or_else(|| Some("text/plain".to_owned())))
            }
            Some(Content::Bytes(bytes)) => (Some(bytes), media_type),
            None => (None, media_type),
        };
        new.group = group_path;
        new.attributes = attributes;
        (new.tags, new.readers, new.writers) =
            (arguments.tags, arguments.readers, arguments.writers);
        let size = AnswerSize::Default;
        Ok(ObjectView::of(access.create(new).await?).within(size, size.room()))
    }

    async fn get(
        &self,
        arguments: &GetArguments,
        cx: &RequestContext,
    ) -> Result<ObjectView, Failure> {
        let GetArguments { uri, kind, object_id, include_content, whole } = arguments;
        let size = AnswerSize::of(*whole, self.limits.max_answer_bytes.get());
        let uri = self.uri(uri.as_ref(), kind.as_ref(), object_id.as_ref())?;
        let access = self.read(cx, &uri).await?;
        let record = access.knowledge.records.get(&access.caller, &uri).await?;
        let mut view = ObjectView::of(record).within(size, size.room());
        view.chunk_count = Some(access.chunk_count(&view.uri).await?);
        if *include_content {
            let content = access.content(&view.uri).await?;
            if let Some(content) = content {
                view.set_content(content, &self.limits, size);
            } else {
                let why = "it has no content; what it says is among its attributes";
                view.content_omitted = Some(why.to_owned());
            }
        }
        Ok(view)
    }

    async fn update(
        &self,
        arguments: UpdateArguments,
        cx: &RequestContext,
    ) -> Result<ObjectView, Failure> {
        let UpdateArguments { uri, kind, object_id, .. } = &arguments;
        let uri = self.uri(uri.as_ref(), kind.as_ref(), object_id.as_ref())?;
        let access = self.read(cx, &uri).await?;
        let mut patch = RecordPatch::new();
        patch.revision = arguments.revision;
        patch.name = arguments.name;
        patch.group = arguments.group_path.map(Some);
        patch.attributes = arguments.attributes;
        patch.media_type = arguments.media_type.map(Some);
        (patch.tags, patch.readers, patch.writers) =
            (arguments.tags, arguments.readers, arguments.writers);
        match content(arguments.content, arguments.content_base64)? {
            None => {}
            Some(Content::Bytes(bytes)) => patch.content = ContentChange::Set(bytes),
            Some(Content::Text(text)) => {
                let record = access.knowledge.records.get(&access.caller, &uri).await?;
                Access::with_text(&mut patch, &record, text);
            }
        }
        let record = access.update(&uri, patch).await?;
        let size = AnswerSize::Default;
        let mut view = ObjectView::of(record).within(size, size.room());
        view.chunk_count = Some(access.chunk_count(&view.uri).await?);
        Ok(view)
    }

    async fn delete(
        &self,
        arguments: &DeleteArguments,
        cx: &RequestContext,
    ) -> Result<Deleted, Failure> {
        let DeleteArguments { uri, kind, object_id, revision } = arguments;
        let uri = self.uri(uri.as_ref(), kind.as_ref(), object_id.as_ref())?;
        let access = self.read(cx, &uri).await?;
        let (record, chunks_removed) = access.delete(&uri, *revision).await?;
        Ok(Deleted { uri: record.uri().unwrap_or_default(), chunks_removed })
    }

    async fn list(
        &self,
        arguments: ListArguments,
        cx: &RequestContext,
    ) -> Result<ObjectList, Failure> {
        for kind in arguments.types.iter().chain(&arguments.kind) {
            ModelType::of(kind)?;
        }
        let Some(access) = self.service.open_existing(cx).await? else {
            return Ok(ObjectList { objects: Vec::new(), next_cursor: None });
        };
        let ListArguments { kind, types, group_path, name, tags, limit, details, cursor } =
            arguments;
        let mut filter = access.filter();
        filter.types = types.into_iter().chain(kind).collect();
        filter.group = group_path;
        filter.name = name;
        filter.tags = tags;
        filter.limit = Some(limit.unwrap_or(50));
        if cursor.as_ref().is_some_and(|cursor| !cursor.starts_with("am7://")) {
            return Err(Failure::invalid("cursor is not one that this tool gave"));
        }
        filter.after = cursor;
        let size = AnswerSize::of(limit.is_some(), self.limits.max_answer_bytes.get());
        let (objects, next_cursor) = access
            .listed(filter, size.room(), |record| {
                let listed = if details {
                    // Several records fit, whatever their attributes.
                    let share = size.room() / 8;
                    ListedObject::Whole(Box::new(ObjectView::of(record).within(size, share)))
                } else {
                    ListedObject::Short(ShortObject::of(record))
                };
                let cost = size.cost(&listed);
                Some((listed, cost))
            })
            .await?;
        Ok(ObjectList { objects, next_cursor })
    }
}

/// Tags, readers and writers of a record whose lists are cut.
const SHOWN_URIS: usize = 4;

fn json_size(value: &Value) -> usize {
    serde_json::to_vec(value).map_or(0, |json| json.len())
}

/// Content in arguments.
enum Content {
    Text(String),
    Bytes(Vec<u8>),
}

fn content(text: Option<String>, base64: Option<String>) -> Result<Option<Content>, Failure> {
    match (text, base64) {
        (Some(_), Some(_)) => Err(Failure::invalid("give either content or contentBase64")),
        (Some(text), None) => Ok(Some(Content::Text(text))),
        (None, Some(base64)) => match STANDARD.decode(base64.trim()) {
            Ok(bytes) => Ok(Some(Content::Bytes(bytes))),
            Err(error) => Err(Failure::invalid(format!("contentBase64 is not base64: {error}"))),
        },
        (None, None) => Ok(None),
    }
}

const CREATE_DESCRIPTION: &str =
    "Stores a new record, and returns its URI. am7_vectorize makes its text searchable.";
const GET_DESCRIPTION: &str = "Reads a record by its am7:// URI. resources/read gives any content.";
const UPDATE_DESCRIPTION: &str =
    "Changes a record; omitted arguments change nothing. Searches use its new text.";
const DELETE_DESCRIPTION: &str = "Permanently removes a record and its searchable passages.";
const LIST_DESCRIPTION: &str = "Lists the records that you may read, in pages. am7_get_object shows one whole, am7_vector_search searches their text.";
