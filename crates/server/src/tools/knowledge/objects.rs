//! Making, reading, changing, removing and listing records.

use std::collections::BTreeSet;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use marquetry_protocol::server::{RequestContext, Toolbox};
use marquetry_rag::{ContentChange, ModelType, NewRecord, Record, RecordPatch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Answer, CREATE, DELETE, GET, KnowledgeTools, LIST_OBJECTS, UPDATE};
use crate::{
    config::Limits,
    knowledge::{Access, Failure},
};

const NOTE: &str = "data.note";

/// What `am7_create_object` takes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CreateArguments {
    /// Model type: "data.data" for documents and media, "data.note" for notes, "common.tag" for tags, "auth.group" for groups of users.
    #[serde(rename = "type")]
    kind: String,
    /// What to call it.
    name: String,
    /// Where to put it: "~/Notes" lies in your home, "/Shared/Papers" does not. Groups that are missing are made.
    group_path: Option<String>,
    /// What else there is to say of it; which names a type knows is in the error when one has the wrong type.
    #[serde(default)]
    attributes: Map<String, Value>,
    /// Its text; of a note, what it says.
    content: Option<String>,
    /// Its bytes in base64, instead of content.
    content_base64: Option<String>,
    /// What its content is; "text/plain" for content unless said.
    media_type: Option<String>,
    /// Tags that it gets, by name or URI; they must be there.
    #[serde(default)]
    tags: BTreeSet<String>,
    /// Who may read it beside you: URIs of users and groups.
    #[serde(default)]
    readers: BTreeSet<String>,
    /// Who may change it beside you: URIs of users and groups.
    #[serde(default)]
    writers: BTreeSet<String>,
}

/// What `am7_get_object` takes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GetArguments {
    /// The record's am7:// URI; or give type and objectId.
    uri: Option<String>,
    /// Its type, with objectId instead of uri.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Its id, with type instead of uri.
    object_id: Option<String>,
    /// Whether its content is to come with it, where that is text and not too large.
    #[serde(default)]
    include_content: bool,
}

/// What `am7_update_object` takes. What is not given stays.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct UpdateArguments {
    /// The record's am7:// URI; or give type and objectId.
    uri: Option<String>,
    /// Its type, with objectId instead of uri.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Its id, with type instead of uri.
    object_id: Option<String>,
    /// The revision that you have seen; if it is another by now, nothing is changed.
    revision: Option<u64>,
    /// What to call it.
    name: Option<String>,
    /// Where to move it.
    group_path: Option<String>,
    /// Attributes to set; null removes one. Others stay.
    #[serde(default)]
    attributes: Map<String, Value>,
    /// Its new text.
    content: Option<String>,
    /// Its new bytes in base64, instead of content.
    content_base64: Option<String>,
    /// What its content is.
    media_type: Option<String>,
    /// All the tags that it is to have, by name or URI.
    tags: Option<BTreeSet<String>>,
    /// All who may read it beside its owner.
    readers: Option<BTreeSet<String>>,
    /// All who may change it beside its owner.
    writers: Option<BTreeSet<String>>,
}

/// What `am7_delete_object` takes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DeleteArguments {
    /// The record's am7:// URI; or give type and objectId.
    uri: Option<String>,
    /// Its type, with objectId instead of uri.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Its id, with type instead of uri.
    object_id: Option<String>,
    /// The revision that you have seen; if it is another by now, nothing is removed.
    revision: Option<u64>,
}

/// What `am7_list_objects` takes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ListArguments {
    /// Only records of this type.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Only records of one of these types.
    #[serde(default)]
    types: Vec<String>,
    /// Only records that lie directly in this group, such as "~/Notes".
    group_path: Option<String>,
    /// Only records with just this name.
    name: Option<String>,
    /// Only records with all of these tags, by name or URI.
    #[serde(default)]
    tags: Vec<String>,
    /// How many to list at most: 50 unless said.
    #[schemars(range(min = 1, max = 500))]
    limit: Option<usize>,
    /// The nextCursor of an earlier answer, for the records after those.
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
            created: record.created,
            modified: record.modified,
            revision: record.revision,
            content: None,
            content_omitted: None,
            chunk_count: None,
        }
    }

    /// Takes a content along, or says why not, and how else to get it.
    fn set_content(&mut self, content: Vec<u8>, limits: &Limits) {
        let bytes = content.len();
        let (here, whole) = (limits.read_artifact_max_bytes.get(), limits.max_resource_bytes.get());
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
                format!("it is no text but {kind}, {bytes} bytes")
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
        access.create(new).await.map(ObjectView::of)
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
        let mut view = ObjectView::of(record);
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
        let mut view = ObjectView::of(record);
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
        let Some(access) = self.library.if_there(cx).await? else {
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
        let (objects, next_cursor) = access
            .listed(filter, self.limits.max_resource_bytes.get(), |record| {
                Some(ObjectView::of(record))
            })
            .await?;
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

const CREATE_DESCRIPTION: &str = "Keeps a new record: a document or medium (data.data), a note (data.note), a tag (common.tag), a group of users \
     (auth.group) or another. The answer has its URI. am7_vectorize makes it findable by what it says.";
const GET_DESCRIPTION: &str = "Reads a record by its am7:// URI, or by type and objectId. With includeContent its text comes along; resources/read \
     gives any content, and contentOmitted says where it does so.";
const UPDATE_DESCRIPTION: &str = "Changes a record; what is not given stays. A record that searches find is found by what it says from then on, and \
     by nothing that it said before.";
const DELETE_DESCRIPTION: &str =
    "Removes a record for good, with the passages that searches found of it.";
const LIST_DESCRIPTION: &str = "Lists the records that you may read, by type, group, name or tags, in pages. To find passages by what they say, \
     use am7_vector_search.";
