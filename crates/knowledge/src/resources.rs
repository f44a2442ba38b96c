//! Records and passages as resources of MCP.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use marquetry_context_blocks::Am7Uri;
use marquetry_protocol::types::{
    CompleteParams, CompleteReference, CompleteResult, Completion, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate,
};
use marquetry_rag::{ChunkId, ModelType, Record, RecordFilter, ResourceView};
use marquetry_thumbnail::{Thumbnail, ThumbnailSize};
use serde_json::{Value, json};

use crate::{
    access::Access,
    failure::{ErrorCode, Failure},
    kinds::CHUNK,
    media::{is_svg, wanted_size},
    parameters::parameters,
    search::PassageQuery,
};

/// URI templates of knowledge; seed 003, part 4.
const TEMPLATES: [(&str, &str, &str, &str); 3] = [
    (OBJECT, "AM7 Object", "Any record by type and ID, as JSON.", "application/json"),
    (
        SEARCH,
        "Vector Search",
        "Passages of stored documents, by words and meaning, as JSON.",
        "application/json",
    ),
    (
        MEDIA,
        "Media Resource",
        "Content of a record: a document, a picture, sound. With ?size=256 a thumbnail of a picture.",
        "*/*",
    ),
];

const OBJECT: &str = "am7://{org}/{type}/{id}";
const SEARCH: &str = "am7://{org}/vector/search?q={query}&type={type}&limit={limit}&threshold={threshold}&tags={tags}&scope={scope}&distinct={distinct}";

/// Parameters of a search.
const SEARCH_PARAMETERS: [&str; 7] =
    ["q", "type", "limit", "threshold", "tags", "scope", "distinct"];
const MEDIA: &str = "am7://{org}/media/{type}/{id}";

/// Member of a resource's `_meta` that holds name, type and revision of its record.
pub const RECORD_META: &str = "marquetry/record";

/// Checks that records may have a type.
///
/// # Errors
///
/// Returns an error if the type is unknown; the message lists the known ones.
pub fn check_type(kind: &str) -> Result<(), Failure> {
    ModelType::of(kind).map(|_| ()).map_err(Failure::from)
}

/// Returns the templates for lists.
pub fn templates() -> impl Iterator<Item = ResourceTemplate> {
    TEMPLATES.into_iter().map(|(uri, name, description, mime_type)| ResourceTemplate {
        uri_template: uri.to_owned(),
        name: name.to_owned(),
        description: Some(description.to_owned()),
        mime_type: Some(mime_type.to_owned()),
        ..ResourceTemplate::default()
    })
}

/// Returns whether a completion is about one of these templates.
#[must_use]
pub fn is_completed_here(params: &CompleteParams) -> bool {
    let CompleteReference::Resource { uri } = &params.reference else { return false };
    TEMPLATES.iter().any(|(ours, ..)| ours == uri)
}

impl Access {
    /// Lists a page of converted records, each with its size, and the URI after which the next page
    /// begins. The page ends before it exceeds `max_bytes`, but has at least one record. Records
    /// are read in parts, because each may be large.
    ///
    /// # Errors
    ///
    /// Returns an error if the records cannot be read.
    pub async fn listed<T>(
        &self,
        mut filter: RecordFilter,
        max_bytes: usize,
        form: impl Fn(Record) -> Option<(T, usize)>,
    ) -> Result<(Vec<T>, Option<String>), Failure> {
        const PART: usize = 50;
        // Without a limit on bytes, one part is a whole page: each part checks the caller's
        // permissions again.
        let part = match max_bytes {
            usize::MAX => self.knowledge.records.limits().max_page,
            _ => PART,
        };
        let mut room = filter.limit.unwrap_or(PART);
        let mut all = Vec::new();
        let mut bytes = 0_usize;
        let mut last = None;
        loop {
            filter.limit = Some(room.min(part));
            let page = self.knowledge.records.list(&self.caller, &filter).await?;
            room -= room.min(part);
            for record in page.records {
                let uri = record.uri();
                if let Some((one, size)) = form(record) {
                    bytes = bytes.saturating_add(size);
                    if bytes > max_bytes && !all.is_empty() {
                        return Ok((all, last));
                    }
                    all.push(one);
                }
                last = uri;
            }
            if room == 0 || page.next.is_none() {
                return Ok((all, page.next));
            }
            filter.after = page.next;
        }
    }

    /// Lists a page of records as resources, and the cursor of the next page: the URI after which
    /// it begins.
    ///
    /// # Errors
    ///
    /// Returns an error if a type is unknown, or if the records cannot be read.
    pub async fn resources(
        &self,
        types: &[String],
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Resource>, Option<String>), Failure> {
        let mut filter = self.filter();
        filter.types = types.to_vec();
        filter.after = after.map(str::to_owned);
        filter.limit = Some(limit);
        // As resources they are small.
        self.listed(filter, usize::MAX, |record| Some((resource(&record)?, 0))).await
    }

    /// Lists a page of all records as resources, and the cursor of the next page. Documents and
    /// notes come first; groups, tags and users last.
    ///
    /// # Errors
    ///
    /// Returns an error if the cursor is not one of this list, or if the records cannot be read.
    pub async fn all_resources(
        &self,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Resource>, Option<String>), Failure> {
        let (mut part, mut after) = match cursor {
            None => (0, None),
            Some(cursor) => {
                let (part, after) = cursor.split_once(':').ok_or_else(foreign_cursor)?;
                let part =
                    part.parse().ok().filter(|part| *part < PARTS).ok_or_else(foreign_cursor)?;
                (part, Some(after.to_owned()).filter(|after| !after.is_empty()))
            }
        };
        let mut all = Vec::new();
        loop {
            let types = types_of(part);
            let room = limit - all.len();
            let (resources, next) = self.resources(&types, after.as_deref(), room).await?;
            all.extend(resources);
            if let Some(next) = next {
                return Ok((all, Some(format!("{part}:{next}"))));
            }
            part += 1;
            after = None;
            if part == PARTS || all.len() >= limit {
                return Ok((all, (part < PARTS).then(|| format!("{part}:"))));
            }
        }
    }

    /// Reads an `am7://` URI: a record, its content, a passage or a search.
    ///
    /// # Errors
    ///
    /// Returns an error if the URI names nothing that the caller may read, or if the content has
    /// more than `max_bytes`.
    pub async fn read(&self, uri: &str, max_bytes: usize) -> Result<ReadResourceResult, Failure> {
        let parsed = Am7Uri::parse(uri).map_err(|error| Failure::invalid(error.to_string()))?;
        if parsed.organization() != self.caller.organization {
            return Err(not_found(uri));
        }
        let contents = if parsed.is_vector_search() {
            vec![self.read_search(uri, &parsed).await?]
        } else if parsed.is_media()
            && let Some(size) = wanted_size(&parsed)?
        {
            self.read_thumbnail(uri, size, max_bytes).await?.into_iter().collect()
        } else if parsed.object_type() == Some(CHUNK) && !parsed.is_media() {
            parameters(&parsed, &[])?;
            vec![self.read_chunk(uri, parsed.id().unwrap_or_default()).await?]
        } else {
            let is_media = parsed.is_media();
            if !is_media {
                parameters(&parsed, &[])?;
            }
            let record = self.knowledge.records.get(&self.caller, uri).await?;
            let mut contents = Vec::new();
            if !is_media {
                contents.push(record_contents(&record));
            }
            if is_media || !record.is_media() {
                contents.extend(self.read_bytes(&record, max_bytes).await?);
            }
            contents
        };
        if contents.is_empty() {
            return Err(Failure::new(ErrorCode::NotFound, format!("{uri} has no content")));
        }
        Ok(ReadResourceResult { contents, meta: None })
    }

    async fn read_search(&self, uri: &str, parsed: &Am7Uri) -> Result<ResourceContents, Failure> {
        let query = passage_query(parsed)?;
        let results = self.search(&query).await?;
        let text = json!({"query": query.text, "results": results}).to_string();
        Ok(ResourceContents {
            uri: uri.to_owned(),
            mime_type: Some("application/json".to_owned()),
            text: Some(text),
            ..ResourceContents::default()
        })
    }

    /// Returns a passage, if the caller may read its source.
    async fn read_chunk(&self, uri: &str, id: &str) -> Result<ResourceContents, Failure> {
        let id: ChunkId = id.parse().map_err(|_| not_found(uri))?;
        let chunk = self.knowledge.pipeline.store().chunk(id).await?;
        let (document, chunk) = chunk.ok_or_else(|| not_found(uri))?;
        if !self.may_see(&document).await? {
            return Err(not_found(uri));
        }
        let meta = json!({
            "name": chunk_name(chunk.index, chunk.count),
            "sourceUri": chunk.document,
            "sourceType": document.kind,
            "chunk": chunk.index,
            "chunkCount": chunk.count,
        });
        Ok(ResourceContents {
            uri: uri.to_owned(),
            mime_type: Some("text/plain".to_owned()),
            text: Some(chunk.content),
            meta: json!({RECORD_META: meta}).as_object().cloned(),
            ..ResourceContents::default()
        })
    }

    /// Returns the content of a record, if it has any.
    async fn read_bytes(
        &self,
        record: &Record,
        max_bytes: usize,
    ) -> Result<Option<ResourceContents>, Failure> {
        let uri = record.uri().unwrap_or_default();
        let Some(length) = self.content_length(&uri).await? else { return Ok(None) };
        if length > max_bytes as u64 {
            let message = format!(
                "{uri} holds {length} bytes, more than limits.max_resource_bytes ({max_bytes}); am7_vectorize and am7_vector_search find passages of what it says"
            );
            return Err(Failure::new(ErrorCode::LimitExceeded, message));
        }
        let Some(content) = self.content(&uri).await? else { return Ok(None) };
        let media_type = record.media_type.clone();
        let contents = ResourceContents {
            uri: record.media_uri().unwrap_or(uri),
            mime_type: media_type.or_else(|| Some("application/octet-stream".to_owned())),
            meta: record_meta(record),
            ..ResourceContents::default()
        };
        Ok(Some(match String::from_utf8(content) {
            Ok(text) => ResourceContents { text: Some(text), ..contents },
            Err(error) => {
                ResourceContents { blob: Some(STANDARD.encode(error.as_bytes())), ..contents }
            }
        }))
    }

    /// Returns a thumbnail of the picture that a record holds; an SVG as it is.
    async fn read_thumbnail(
        &self,
        uri: &str,
        size: ThumbnailSize,
        max_bytes: usize,
    ) -> Result<Option<ResourceContents>, Failure> {
        let record = self.knowledge.records.get(&self.caller, uri).await?;
        if is_svg(&record) {
            return self.read_bytes(&record, max_bytes).await;
        }
        let content = self.content(uri).await?;
        let Some(content) = content else { return Ok(None) };
        let Thumbnail { media_type, bytes } = self.thumbnail(content, size).await?;
        if bytes.len() > max_bytes {
            let message = format!(
                "the thumbnail has {} bytes, more than limits.max_resource_bytes ({max_bytes}); ask for a smaller size",
                bytes.len()
            );
            return Err(Failure::new(ErrorCode::LimitExceeded, message));
        }
        Ok(Some(ResourceContents {
            uri: uri.to_owned(),
            mime_type: Some(media_type.to_owned()),
            blob: Some(STANDARD.encode(bytes)),
            meta: record_meta(&record),
            ..ResourceContents::default()
        }))
    }

    /// Returns the record to watch, which the caller must be able to read.
    pub(crate) async fn watched(&self, uri: &str) -> Result<Record, Failure> {
        let parsed = Am7Uri::parse(uri).map_err(|error| Failure::invalid(error.to_string()))?;
        if parsed.is_vector_search() || parsed.object_type() == Some(CHUNK) {
            return Err(Failure::invalid("searches and passages cannot be subscribed to"));
        }
        let record = self.knowledge.records.get(&self.caller, uri).await?;
        let known = if parsed.is_media() { record.media_uri() } else { record.uri() };
        match known {
            Some(known) if known == uri => Ok(record),
            known => {
                Err(Failure::invalid(format!("subscribe to it as {}", known.unwrap_or_default())))
            }
        }
    }

    /// Completes an argument of a template.
    ///
    /// # Errors
    ///
    /// Returns an error if the records cannot be read.
    pub async fn complete(&self, params: &CompleteParams) -> Result<CompleteResult, Failure> {
        const MAX_COMPLETIONS: usize = 100;
        let typed = params.argument.value.as_str();
        let mut values: Vec<String> = match params.argument.name.as_str() {
            "org" => vec![self.caller.organization.clone()],
            "type" => ModelType::ALL.iter().map(|model| model.name.to_owned()).collect(),
            "id" => {
                let arguments = params.context.as_ref().map(|context| &context.arguments);
                let kind = arguments.and_then(|arguments| arguments.get("type"));
                self.ids(kind.map(String::as_str), typed, MAX_COMPLETIONS + 1).await?
            }
            _ => Vec::new(),
        };
        values.retain(|value| value.starts_with(typed));
        let has_more = values.len() > MAX_COMPLETIONS;
        values.truncate(MAX_COMPLETIONS);
        let total = (!has_more).then_some(values.len() as u64);
        let completion = Completion { values, total, has_more: Some(has_more) };
        Ok(CompleteResult { completion })
    }

    /// Returns ids of records of a type that begin with a text.
    async fn ids(
        &self,
        kind: Option<&str>,
        typed: &str,
        max: usize,
    ) -> Result<Vec<String>, Failure> {
        let mut filter = self.filter();
        if let Some(kind) = kind {
            filter.types = vec![kind.to_owned()];
        }
        filter.limit = Some(self.knowledge.records.limits().max_page);
        let mut ids = Vec::new();
        // A list of one type is sorted by id; a list of several types is not.
        const PAGES: usize = 20;
        for _ in 0..PAGES {
            let page = self.knowledge.records.list(&self.caller, &filter).await?;
            let found = page.records.into_iter().map(|record| record.object_id);
            ids.extend(found.filter(|id| id.starts_with(typed)));
            filter.after = page.next;
            if ids.len() >= max || filter.after.is_none() {
                break;
            }
        }
        ids.truncate(max);
        Ok(ids)
    }
}

/// Returns the search that a URI names. `type` and `tags` may list several names, separated by
/// commas.
fn passage_query(uri: &Am7Uri) -> Result<PassageQuery, Failure> {
    let mut parameters = parameters(uri, &SEARCH_PARAMETERS)?;
    let limit = match parameters.remove("limit") {
        Some(text) => match text.parse::<usize>() {
            Ok(limit) if limit > 0 => Some(limit),
            _ => return Err(invalid("limit", "a whole number from 1 on", &text)),
        },
        None => None,
    };
    let threshold = match parameters.remove("threshold") {
        Some(text) => match text.parse::<f64>() {
            Ok(threshold) if (0.0..=1.0).contains(&threshold) => Some(threshold),
            _ => return Err(invalid("threshold", "a number from 0 to 1", &text)),
        },
        None => None,
    };
    let distinct = match parameters.remove("distinct").as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(text) => return Err(invalid("distinct", "true or false", text)),
    };
    Ok(PassageQuery {
        text: parameters.remove("q").unwrap_or_default(),
        scope: parameters.remove("scope"),
        types: names(parameters.remove("type")),
        tags: names(parameters.remove("tags")),
        limit,
        threshold,
        distinct,
        ..PassageQuery::default()
    })
}

/// Returns names that are separated by commas.
fn names(list: Option<String>) -> Vec<String> {
    let list = list.unwrap_or_default();
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// Returns the failure of a parameter whose value cannot be used.
fn invalid(name: &str, expected: &str, value: &str) -> Failure {
    let value = &value[..value.floor_char_boundary(100)];
    Failure::invalid(format!("{name} must be {expected}, not {value:?}"))
}

fn foreign_cursor() -> Failure {
    Failure::invalid("cursor is not one that this list gave")
}

/// Number of parts of the list of all records.
const PARTS: usize = 3;

/// Returns the part in which a type is listed.
fn part_of(kind: &str) -> usize {
    match kind {
        "data.data" | "data.note" => 0,
        "auth.group" | "common.tag" | "system.user" => 2,
        _ => 1,
    }
}

/// Returns the types of a part: documents and notes first, groups, tags and users last.
fn types_of(part: usize) -> Vec<String> {
    let types = ModelType::ALL.iter().map(|model| model.name);
    types.filter(|kind| part_of(kind) == part).map(str::to_owned).collect()
}

/// Converts a record for lists.
fn resource(record: &Record) -> Option<Resource> {
    let view = ResourceView::of(record)?;
    Some(Resource {
        uri: view.uri,
        name: view.name,
        description: record
            .attributes
            .get("description")
            .and_then(Value::as_str)
            .map(str::to_owned),
        mime_type: Some(view.mime_type),
        size: record.attributes.get("size").and_then(Value::as_u64),
        meta: record_meta(record),
        ..Resource::default()
    })
}

/// Returns the record itself as JSON.
fn record_contents(record: &Record) -> ResourceContents {
    ResourceContents {
        uri: record.uri().unwrap_or_default(),
        mime_type: Some("application/json".to_owned()),
        text: Some(Value::Object(record.to_fields()).to_string()),
        meta: record_meta(record),
        ..ResourceContents::default()
    }
}

fn record_meta(record: &Record) -> Option<serde_json::Map<String, Value>> {
    let meta = json!({"name": record.name, "type": record.kind, "revision": record.revision});
    json!({RECORD_META: meta}).as_object().cloned()
}

/// Returns the name of a passage; seed 003, part 13.
pub(crate) fn chunk_name(index: u32, count: u32) -> String {
    format!("chunk-{index}-of-{count}")
}

fn not_found(uri: &str) -> Failure {
    let uri = &uri[..uri.floor_char_boundary(200)];
    Failure::new(ErrorCode::NotFound, format!("no record {uri}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(query: &str) -> Result<PassageQuery, Failure> {
        passage_query(&Am7Uri::parse(&format!("am7://default/vector/search{query}")).unwrap())
    }

    #[track_caller]
    fn refused(query: &str, want: &str) {
        let failure = asked(query).unwrap_err();
        assert_eq!((failure.code, &*failure.message), (ErrorCode::InvalidParams, want));
    }

    #[test]
    fn a_search_has_the_parameters_of_its_template() {
        let query = "?q=deep+learning&type=data.data,data.note&limit=3&threshold=0.5&tags=a,%20b%20c&scope=am7://default/data.data/x&distinct=true";
        let found = asked(query).unwrap();
        assert_eq!((&*found.text, found.limit), ("deep learning", Some(3)));
        assert_eq!(found.types, ["data.data", "data.note"]);
        assert_eq!(found.tags, ["a", "b c"]);
        assert_eq!((found.threshold, found.distinct), (Some(0.5), true));
        assert_eq!(found.scope.as_deref(), Some("am7://default/data.data/x"));
        // The template with only one variable set.
        let unset = SEARCH.split_once('?').unwrap().1;
        let names: Vec<_> = unset.split('&').map(|pair| pair.split('=').next().unwrap()).collect();
        assert_eq!(names, SEARCH_PARAMETERS);
        let only =
            names.iter().map(|name| format!("{name}={}", if *name == "q" { "x" } else { "" }));
        let found = asked(&format!("?{}", only.collect::<Vec<_>>().join("&"))).unwrap();
        assert_eq!((&*found.text, found.limit, found.threshold), ("x", None, None));
        assert!(found.types.is_empty() && found.tags.is_empty() && found.scope.is_none());
    }

    #[test]
    fn a_parameter_that_cannot_be_used_is_an_error() {
        const KNOWN: &str = "this URI may have q, type, limit, threshold, tags, scope, distinct";
        refused("?q=x&top=3", &format!("unknown parameter \"top\"; {KNOWN}"));
        refused("?q=x&Q=y", &format!("unknown parameter \"Q\"; {KNOWN}"));
        refused("?q=x&q=y", "duplicate parameter q");
        refused("?q=x&threshold=0.1&threshold=", "duplicate parameter threshold");
        for bad in ["1.5", "-0.1", "NaN", "inf", "much", "0,5"] {
            let want = format!("threshold must be a number from 0 to 1, not {bad:?}");
            refused(&format!("?q=x&threshold={bad}"), &want);
        }
        for bad in ["0", "-1", "ten", "1.5"] {
            let want = format!("limit must be a whole number from 1 on, not {bad:?}");
            refused(&format!("?q=x&limit={bad}"), &want);
        }
        refused("?q=x&distinct=yes", "distinct must be true or false, not \"yes\"");
        asked("?q=x&threshold=0&limit=1").unwrap();
        asked("?q=x&threshold=1").unwrap();
    }

    #[test]
    fn objects_have_no_parameters() {
        let uri = Am7Uri::parse("am7://default/data.data/x?size=256").unwrap();
        let failure = parameters(&uri, &[]).unwrap_err();
        assert_eq!(failure.message, "unknown parameter \"size\"; the URI of an object has none");
    }
}
