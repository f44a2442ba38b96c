//! Pictures in messages that are named by their tags.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use marquetry_context_blocks::{Builder, InlineResource, blocks};
use marquetry_knowledge::{Access, Failure, kinds::DATA};
use marquetry_rag::{Record, RecordError, RecordFilter};

/// Maximum lookups for one message and its history. Further resources stay as they are.
const MAX_LOOKUPS: usize = 32;
/// Maximum pages of records that one lookup reads.
const MAX_PAGES: usize = 20;

/// Looks up media records by their tags, on behalf of one caller.
pub(super) struct Images<'a> {
    access: &'a Access,
    lookups: usize,
    /// The found records, by media type and tags.
    found: BTreeMap<(Option<String>, Vec<String>), Option<MediaRecord>>,
}

/// A media record.
#[derive(Clone)]
struct MediaRecord {
    uri: String,
    media_type: Option<String>,
}

impl<'a> Images<'a> {
    pub(super) fn new(access: &'a Access) -> Self {
        Self { access, lookups: 0, found: BTreeMap::new() }
    }

    /// Replaces each `mcp:resource` with `resolve="true"` by one with the URI of the newest media
    /// record that has all of its tags and that the caller may read. A resource without such a
    /// record stays as it is, and is added to `problems`.
    ///
    /// # Errors
    ///
    /// Returns an error if the records cannot be read.
    pub(super) async fn resolve<'t>(
        &mut self,
        text: &'t str,
        problems: &mut Vec<String>,
    ) -> Result<Cow<'t, str>, Failure> {
        let mut resolved = String::new();
        let mut written = 0;
        for block in blocks(text).filter(|block| block.is_inline() && block.is_pending()) {
            let tags = block.tags();
            let media_type = block.media_type().map(Cow::into_owned);
            let Some(found) = self.look_up(media_type, &tags).await? else {
                problems.push(not_found(&tags));
                continue;
            };
            let tags = tags.join(",");
            let mut resource = InlineResource::new(&found.uri).tags(&tags);
            if let Some(media_type) = &found.media_type {
                resource = resource.media_type(media_type);
            }
            let mut builder = Builder::new();
            builder.add_inline(&resource);
            resolved.push_str(&text[written..block.span().start]);
            resolved.push_str(&builder.build());
            written = block.span().end;
        }
        if written == 0 {
            return Ok(Cow::Borrowed(text));
        }
        resolved.push_str(&text[written..]);
        Ok(Cow::Owned(resolved))
    }

    async fn look_up(
        &mut self,
        media_type: Option<String>,
        tags: &[String],
    ) -> Result<Option<MediaRecord>, Failure> {
        let tags: BTreeSet<&String> = tags.iter().collect();
        // No record has more tags than a filter may name.
        if tags.is_empty() || tags.len() > self.access.knowledge.records.limits().max_tags {
            return Ok(None);
        }
        let tags: Vec<String> = tags.into_iter().cloned().collect();
        let key = (media_type, tags);
        if let Some(found) = self.found.get(&key) {
            return Ok(found.clone());
        }
        if self.lookups == MAX_LOOKUPS {
            return Ok(None);
        }
        self.lookups += 1;
        let found = self.newest(key.0.as_deref(), &key.1).await?;
        self.found.insert(key, found.clone());
        Ok(found)
    }

    /// Returns the newest media record with all of the tags; a picture before any other medium.
    async fn newest(
        &self,
        media_type: Option<&str>,
        tags: &[String],
    ) -> Result<Option<MediaRecord>, Failure> {
        let Access { knowledge, caller, .. } = self.access;
        let mut filter = RecordFilter::new(&caller.organization);
        filter.types = vec![DATA.to_owned()];
        for tag in tags {
            match knowledge.records.tag(caller, tag).await {
                Ok(tag) => filter.tags.extend(tag.uri()),
                // No record has such a tag.
                Err(
                    RecordError::UnknownTag(_)
                    | RecordError::Invalid { .. }
                    | RecordError::Uri { .. }
                    | RecordError::NotFound(_)
                    | RecordError::Limit { .. },
                ) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        let mut newest: Option<Record> = None;
        for _ in 0..MAX_PAGES {
            let page = knowledge.records.list(caller, &filter).await?;
            let fitting = page.records.into_iter().filter(|record| is_wanted(record, media_type));
            newest = newest.into_iter().chain(fitting).max_by_key(|record| {
                (is_picture(record), record.created, record.modified, record.object_id.clone())
            });
            filter.after = page.next;
            if filter.after.is_none() {
                break;
            }
        }
        Ok(newest.and_then(|record| {
            Some(MediaRecord { uri: record.media_uri()?, media_type: record.media_type })
        }))
    }
}

fn is_wanted(record: &Record, media_type: Option<&str>) -> bool {
    record.is_media()
        && media_type
            .is_none_or(|wanted| record.media_essence().eq_ignore_ascii_case(wanted.trim()))
}

fn is_picture(record: &Record) -> bool {
    record.media_essence().get(..6).is_some_and(|kind| kind.eq_ignore_ascii_case("image/"))
}

fn not_found(tags: &[String]) -> String {
    let tags = tags.join(", ");
    let tags = &tags[..tags.floor_char_boundary(200)];
    format!("no picture with all of the tags {tags:?} is found; it stays pending")
}
