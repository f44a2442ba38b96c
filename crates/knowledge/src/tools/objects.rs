//! Making, reading, changing, removing and listing records.

use std::collections::BTreeSet;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use marquetry_protocol::server::{RequestContext, Toolbox};
use marquetry_rag::{ContentChange, ModelType, NewRecord, Record, RecordPatch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Answer, AnswerLimits, CREATE, DELETE, GET, KnowledgeTools, LIST_OBJECTS, UPDATE};
use crate::{access::Access, failure::Failure, kinds::NOTE};

/// What `am7_create_object` takes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CreateArguments {
    /// "data.data" (document, medium), "data.note", "common.tag", "auth.group" (users) or another.
    #[serde(rename = "type")]
    kind: String,
    name: String,
    /// Where it lies: "~/Notes" (your home) or "/Shared/Papers".
    group_path: Option<String>,
    #[serde(default)]
    attributes: Map<String, Value>,
    /// Its text.
    content: Option<String>,
    /// Its bytes, instead of content.
    content_base64: Option<String>,
    /// "text/plain" unless said.
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

/// What `am7_get_object` takes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GetArguments {
    /// Or give type and objectId.
    uri: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    object_id: Option<String>,
    /// Also its text, if not too large.
    #[serde(default)]
    include_content: bool,
}

/// What `am7_update_object` takes. What is not given stays.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct UpdateArguments {
    /// Or give type and objectId.
    uri: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    object_id: Option<String>,
    /// The one you have seen; if it has another, nothing changes.
    revision: Option<u64>,
    name: Option<String>,
    group_path: Option<String>,
    /// Those to set; null removes one.
    #[serde(default)]
    attributes: Map<String, Value>,
    content: Option<String>,
    content_base64: Option<String>,
    media_type: Option<String>,
    /// All that it is to have.
    tags: Option<BTreeSet<String>>,
    /// All of them.
    readers: Option<BTreeSet<String>>,
    /// All of them.
    writers: Option<BTreeSet<String>>,
}

/// What `am7_delete_object` takes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DeleteArguments {
    /// Or give type and objectId.
    uri: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    object_id: Option<String>,
    /// The one you have seen; if it has another, nothing is removed.
    revision: Option<u64>,
}

/// What `am7_list_objects` takes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ListArguments {
    #[serde(rename = "type")]
    kind: Option<String>,
    /// One of these.
    #[serde(default)]
    types: Vec<String>,
    /// The group they lie in, such as "~/Notes".
    group_path: Option<String>,
    /// The whole name.
    name: Option<String>,
    /// All of these.
    #[serde(default)]
    tags: Vec<String>,
    /// 50 unless said.
    #[schemars(range(min = 1, max = 500))]
    limit: Option<usize>,
    /// The nextCursor of an earlier answer.
    cursor: Option<String>,
}

/// A record.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectView {
    /// Its URI, by which all tools know it.
    uri: String,
    /// Its id among those of its type.
    object_id: String,
    /// Its type.
    #[serde(rename = "type")]
    kind: String,
    /// What it is called.
    name: String,
    /// The path of the group that it lies in; ~ is its owner's home.
    #[serde(skip_serializing_if = "Option::is_none")]
    group_path: Option<String>,
    /// The URI of its owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    /// URIs of its tags.
    tags: BTreeSet<String>,
    /// Who may read it beside its owner.
    readers: BTreeSet<String>,
    /// Who may change it beside its owner.
    writers: BTreeSet<String>,
    /// What its content is.
    #[serde(skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
    /// Where its content can be read, if it is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    media_uri: Option<String>,
    /// What else there is to say of it.
    attributes: Map<String, Value>,
    /// Which attributes are not shown whole, and how to get them.
    #[serde(skip_serializing_if = "Option::is_none")]
    attributes_omitted: Option<String>,
    /// When it was made, in milliseconds since 1970.
    created: u64,
    /// When it was changed last, in milliseconds since 1970.
    modified: u64,
    /// Grows with each change.
    revision: u64,
    /// Its text, if it was asked for, is text and is not too large.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// Why content is not there though it was asked for, and how to get it.
    #[serde(skip_serializing_if = "Option::is_none")]
    content_omitted: Option<String>,
    /// By how many passages a search finds it; 0 until am7_vectorize was called for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    chunk_count: Option<u64>,
}

/// What `am7_list_objects` answers.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ObjectList {
    /// The records, in the order of their URIs.
    objects: Vec<ObjectView>,
    /// Give it as cursor to see more; a page of large records ends before its limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// What `am7_delete_object` answers.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Deleted {
    /// What is gone.
    uri: String,
    /// How many passages of it no search finds any more.
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

    /// How many bytes it has as JSON.
    fn size(&self) -> usize {
        serde_json::to_vec(self).map_or(0, |json| json.len())
    }

    /// The same with the largest attributes cut or left out, if it has more bytes than this.
    fn within(mut self, most: usize) -> Self {
        /// A note's first sentences.
        const KEPT: usize = 512;
        let size = |value: &Value| serde_json::to_vec(value).map_or(0, |json| json.len());
        let mut left = self.size();
        let mut sizes: Vec<_> =
            self.attributes.iter().map(|(name, value)| (size(value), name.clone())).collect();
        sizes.sort_by(|left, right| right.cmp(left));
        let mut cut = Vec::new();
        for (bytes, name) in sizes {
            if left <= most || bytes <= KEPT {
                break;
            }
            let kept = match self.attributes.get(&name) {
                Some(Value::String(text)) => {
                    format!("{}…", &text[..text.floor_char_boundary(KEPT / 2)]).into()
                }
                _ => Value::Null,
            };
            left = left.saturating_sub(bytes) + size(&kept);
            // How many are named is bounded as well.
            if cut.len() < 16 {
                cut.push(format!("{name} ({bytes} bytes)"));
            }
            self.attributes.insert(name, kept);
        }
        if !cut.is_empty() {
            let uri = &self.uri;
            let cut = cut.join(", ");
            self.attributes_omitted =
                Some(format!("cut or left out here: {cut}; resources/read of {uri} gives all"));
        }
        self
    }

    /// Takes a content along, or says why not, and how else to get it.
    fn set_content(&mut self, content: Vec<u8>, limits: &AnswerLimits) {
        let bytes = content.len();
        let (here, whole) = (limits.max_shown_content_bytes.get(), limits.max_resource_bytes.get());
        let why = match String::from_utf8(content) {
            Ok(text) if bytes <= here => {
                self.content = Some(text);
                return;
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
        let most = self.limits.max_answer_bytes.get() / 2;
        Ok(ObjectView::of(access.create(new).await?).within(most))
    }

    async fn get(
        &self,
        arguments: &GetArguments,
        cx: &RequestContext,
    ) -> Result<ObjectView, Failure> {
        let GetArguments { uri, kind, object_id, include_content } = arguments;
        let uri = self.uri(uri.as_ref(), kind.as_ref(), object_id.as_ref())?;
        let access = self.read(cx, &uri).await?;
        let record = access.knowledge.records.get(&access.caller, &uri).await?;
        let mut view = ObjectView::of(record).within(self.limits.max_answer_bytes.get() / 2);
        view.chunk_count = Some(access.chunk_count(&view.uri).await?);
        if *include_content {
            let content = access.knowledge.records.content(&access.caller, &view.uri).await?;
            match content {
                Some(content) => view.set_content(content, &self.limits),
                None => {
                    let why = "it has no content; what it says is among its attributes";
                    view.content_omitted = Some(why.to_owned());
                }
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
        let mut view = ObjectView::of(record).within(self.limits.max_answer_bytes.get() / 2);
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
        let Some(access) = self.service.if_there(cx).await? else {
            return Ok(ObjectList { objects: Vec::new(), next_cursor: None });
        };
        let ListArguments { kind, types, group_path, name, tags, limit, cursor } = arguments;
        let mut filter = access.filter();
        filter.types = types.into_iter().chain(kind).collect();
        (filter.group, filter.name, filter.tags) = (group_path, name, tags);
        filter.limit = Some(limit.unwrap_or(50));
        if cursor.as_ref().is_some_and(|cursor| !cursor.starts_with("am7://")) {
            return Err(Failure::invalid("cursor is not one that this tool gave"));
        }
        filter.after = cursor;
        // An answer has each record twice: as data, and as text.
        let most = self.limits.max_answer_bytes.get() / 2;
        let form = |record| {
            let view = ObjectView::of(record).within(most / 8);
            let size = view.size();
            Some((view, size))
        };
        let (objects, next_cursor) = access.listed(filter, most, form).await?;
        Ok(ObjectList { objects, next_cursor })
    }
}

/// A content as somebody gives it.
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

const CREATE_DESCRIPTION: &str = "Keeps a new record, and answers with its URI. am7_vectorize makes it findable by what it says.";
const GET_DESCRIPTION: &str = "Reads a record by its am7:// URI. resources/read gives any content.";
const UPDATE_DESCRIPTION: &str =
    "Changes a record; what is not given stays. Searches find what it says from then on.";
const DELETE_DESCRIPTION: &str =
    "Removes a record for good, with the passages that searches found of it.";
const LIST_DESCRIPTION: &str =
    "Lists the records that you may read, in pages. am7_vector_search finds what they say.";
