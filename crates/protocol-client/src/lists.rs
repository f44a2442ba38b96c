//! Complete lists, joined from all their pages.

use std::{collections::HashSet, time::Duration};

use marquetry_protocol_wire::{
    DEFAULT_MAX_NESTING, Era, Revision, error_code, has_long_integers,
    members::Members,
    shortened,
    types::{CacheHint, CacheScope, Prompt, Resource, ResourceTemplate, Tool},
    with_finite_numbers,
};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};
use tokio::time::Instant;

use super::{
    CallOptions, Client, ClientError, ProtocolError,
    list_item::{self, Item},
    log_rate::LogRate,
    shared::is_too_deep,
};

/// The member of a result that has the resource templates.
const TEMPLATES: &str = "resourceTemplates";
/// Maximum number of consecutive pages without a valid item.
const MAX_EMPTY_PAGES: usize = 100;

/// A complete list, and for how long it may be cached.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fetched<T> {
    /// The items of all pages.
    pub items: Vec<T>,
    /// The shortest time of all pages; public only if all pages are. [`None`] for servers with
    /// sessions, which send no cache hints.
    pub cache: Option<CacheHint>,
    /// Why the list may lack items: [`ProtocolError::TooManyItems`],
    /// [`ProtocolError::ListTooLong`], [`ProtocolError::ListTooSlow`],
    /// [`ProtocolError::PageFailed`], [`ProtocolError::InvalidCursor`],
    /// [`ProtocolError::RepeatedCursor`] or [`ProtocolError::TooManyEmptyPages`]. The log has a
    /// warning, too.
    pub incomplete: Option<ProtocolError>,
    /// Items that were left out because they are invalid, at most 20.
    pub skipped: Vec<SkippedItem>,
}

/// An item of a list that is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkippedItem {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The problem with it.
    pub problem: String,
}

/// Maximum number of invalid items that are kept of a list.
const MAX_SKIPPED: usize = 20;

impl Client {
    /// Lists every tool of the server.
    ///
    /// Members of a tool that strict clients refuse are removed or rewritten. Tools without a name,
    /// or whose arguments cannot be an object, are left out. So are tools of a stateless server
    /// over HTTP with an invalid `x-mcp-header`, as the specification demands. Each is logged as a
    /// warning. Arguments with a valid `x-mcp-header` are repeated in headers when the tool is
    /// called.
    ///
    /// The list ends early, with a warning, if it has more items or bytes than the
    /// [options](super::ClientOptions) allow, if its pages together take longer than one request
    /// may, or if a page after the first is refused or invalid. [`Self::fetch_tools`] returns the
    /// reason.
    ///
    /// # Errors
    /// Returns an error as [`Client::request`] does.
    pub async fn list_tools(&self) -> Result<Vec<Tool>, ClientError> {
        self.fetch_tools().await.map(|fetched| fetched.items)
    }

    /// Lists as [`Self::list_tools`] does, and returns the cache hint, too.
    ///
    /// # Errors
    /// Returns an error as [`Self::list_tools`] does.
    pub async fn fetch_tools(&self) -> Result<Fetched<Tool>, ClientError> {
        let mut fetched = self.fetch("tools/list", "tools").await?;
        self.inner.link.accept_tools(&self.inner.server, &mut fetched.items);
        #[cfg(feature = "schema")]
        if self.inner.options.check_results {
            self.inner.schemas.replace(&fetched.items);
        }
        Ok(fetched)
    }

    /// Lists every prompt of the server.
    ///
    /// # Errors
    /// Returns an error as [`Self::list_tools`] does.
    pub async fn list_prompts(&self) -> Result<Vec<Prompt>, ClientError> {
        self.fetch_prompts().await.map(|fetched| fetched.items)
    }

    /// Lists as [`Self::list_prompts`] does, and returns the cache hint, too.
    ///
    /// # Errors
    /// Returns an error as [`Self::list_tools`] does.
    pub async fn fetch_prompts(&self) -> Result<Fetched<Prompt>, ClientError> {
        self.fetch("prompts/list", "prompts").await
    }

    /// Lists every resource of the server.
    ///
    /// # Errors
    /// Returns an error as [`Self::list_tools`] does.
    pub async fn list_resources(&self) -> Result<Vec<Resource>, ClientError> {
        self.fetch_resources().await.map(|fetched| fetched.items)
    }

    /// Lists as [`Self::list_resources`] does, and returns the cache hint, too.
    ///
    /// # Errors
    /// Returns an error as [`Self::list_tools`] does.
    pub async fn fetch_resources(&self) -> Result<Fetched<Resource>, ClientError> {
        self.fetch("resources/list", "resources").await
    }

    /// Lists every resource template of the server.
    ///
    /// # Errors
    /// Returns an error as [`Self::list_tools`] does.
    pub async fn list_resource_templates(&self) -> Result<Vec<ResourceTemplate>, ClientError> {
        self.fetch_resource_templates().await.map(|fetched| fetched.items)
    }

    /// Lists as [`Self::list_resource_templates`] does, and returns the cache hint, too.
    ///
    /// # Errors
    /// Returns an error as [`Self::list_tools`] does.
    pub async fn fetch_resource_templates(&self) -> Result<Fetched<ResourceTemplate>, ClientError> {
        if self.inner.server.revision != Revision::V2024_10_07 {
            return self.fetch("resources/templates/list", TEMPLATES).await;
        }
        // 2024-10-07 has templates in the list of resources. Servers that claim that revision
        // without support for it, such as those of the official SDKs, answer as its successor does.
        let fetched = self.fetch("resources/list", TEMPLATES).await?;
        if !fetched.items.is_empty() {
            return Ok(fetched);
        }
        match self.fetch("resources/templates/list", TEMPLATES).await {
            Err(ClientError::Rpc(error)) if error.code == error_code::METHOD_NOT_FOUND => {
                Ok(fetched)
            }
            outcome => outcome,
        }
    }

    /// Fetches all pages of a list. `member` is the member of each result that has the items.
    pub(super) async fn fetch<T: Item>(
        &self,
        method: &str,
        member: &str,
    ) -> Result<Fetched<T>, ClientError> {
        let options = &self.inner.options;
        // For all pages together: each may take long, and there may be many.
        let time_limit = options.request_timeout;
        let deadline = Instant::now().checked_add(time_limit);
        let mut fetched =
            Fetched { items: Vec::new(), cache: None, incomplete: None, skipped: Vec::new() };
        let mut cursors = Cursors::default();
        let mut cursor: Option<String> = None;
        let mut bytes = 0;
        let rates = LogRates::default();
        loop {
            // One item more than allowed shows that the list is too long.
            let room = (options.max_list_items - fetched.items.len()).saturating_add(1);
            let result = self.request_page(method, cursor.as_deref(), deadline).await;
            let page = result.and_then(|result| {
                bytes += result.get().len();
                read_page::<T>(&result, member, room, &rates)
                    .map_err(|error| ClientError::result(method, error))
            });
            let page = match page {
                Ok(page) => page,
                Err(error) if cursor.is_some() => {
                    let error = page_problem(method, time_limit, error)?;
                    return Ok(fetched.ending_early(error));
                }
                Err(error) => return Err(error),
            };
            if self.inner.server.revision.era() == Era::Stateless {
                let cache = fetched.cache.map_or(page.hint, |cache| stricter(cache, page.hint));
                fetched.cache = Some(cache);
            }
            let is_empty = page.items.is_empty();
            let skipped_room = MAX_SKIPPED - fetched.skipped.len();
            fetched.skipped.extend(page.skipped.into_iter().take(skipped_room));
            fetched.items.extend(page.items);
            let next = if fetched.items.len() > options.max_list_items {
                fetched.items.truncate(options.max_list_items);
                let limit = options.max_list_items;
                Err(ProtocolError::TooManyItems { method: method.to_owned(), limit })
            } else if bytes > options.max_message_bytes && matches!(page.next, NextPage::Cursor(_))
            {
                let limit = options.max_message_bytes;
                Err(ProtocolError::ListTooLong { method: method.to_owned(), limit })
            } else {
                cursors.next(method, page.next, is_empty)
            };
            match next {
                Ok(Some(next)) => cursor = Some(next),
                Ok(None) => return Ok(fetched),
                Err(error) => return Ok(fetched.ending_early(error)),
            }
        }
    }

    /// Requests the page at a cursor, or the first one.
    async fn request_page(
        &self,
        method: &str,
        cursor: Option<&str>,
        deadline: Option<Instant>,
    ) -> Result<Box<RawValue>, ClientError> {
        let params = cursor
            .map(|cursor| to_raw_value(&json!({ "cursor": cursor })))
            .transpose()
            .map_err(ClientError::params)?;
        let request = self.request(method, params.as_deref(), CallOptions::default());
        let Some(deadline) = deadline else { return request.await };
        tokio::time::timeout_at(deadline, request)
            .await
            .unwrap_or(Err(ClientError::Timeout(self.inner.options.request_timeout)))
    }
}

/// The cursors of a list so far. A server may send them in a circle, or send pages without items
/// for ever.
#[derive(Default)]
struct Cursors {
    seen: HashSet<String>,
    /// Number of consecutive pages without a valid item.
    empty_pages: usize,
}

impl Cursors {
    /// Returns the cursor of the page after this one; [`None`] after the last page.
    ///
    /// # Errors
    /// Returns an error if the list must not be read further.
    fn next(
        &mut self,
        method: &str,
        next: NextPage,
        is_empty: bool,
    ) -> Result<Option<String>, ProtocolError> {
        let method = method.to_owned();
        self.empty_pages = if is_empty { self.empty_pages + 1 } else { 0 };
        let cursor = match next {
            NextPage::End => return Ok(None),
            NextPage::Invalid => return Err(ProtocolError::InvalidCursor { method }),
            NextPage::Cursor(cursor) => cursor,
        };
        if !self.seen.insert(cursor.clone()) {
            return Err(ProtocolError::RepeatedCursor { method });
        }
        if self.empty_pages > MAX_EMPTY_PAGES {
            return Err(ProtocolError::TooManyEmptyPages { method, limit: MAX_EMPTY_PAGES });
        }
        Ok(Some(cursor))
    }
}

impl<T> Fetched<T> {
    /// Returns the list up to the point where `error` ends it.
    fn ending_early(self, error: ProtocolError) -> Self {
        let items = self.items.len();
        tracing::warn!(%error, items, "a list ends early; it may lack items");
        Self { incomplete: Some(error), ..self }
    }
}

/// Converts the failure of a page after the first to the reason why the list is incomplete.
///
/// # Errors
/// Returns `error` itself if it concerns more than this page, such as a lost connection.
fn page_problem(
    method: &str,
    limit: Duration,
    error: ClientError,
) -> Result<ProtocolError, ClientError> {
    let method = method.to_owned();
    match error {
        ClientError::Timeout(_) => Ok(ProtocolError::ListTooSlow { method, limit }),
        error @ (ClientError::Rpc(_) | ClientError::Protocol(ProtocolError::Result { .. })) => {
            Ok(ProtocolError::PageFailed { method, problem: error.to_string() })
        }
        error => Err(error),
    }
}

/// Combines the hints of two pages: the shorter time, and public only if both are.
fn stricter(a: CacheHint, b: CacheHint) -> CacheHint {
    let is_public = [a, b].iter().all(|hint| hint.cache_scope == CacheScope::Public);
    let cache_scope = if is_public { CacheScope::Public } else { CacheScope::Private };
    CacheHint { ttl_ms: a.ttl_ms.min(b.ttl_ms), cache_scope }
}

struct Page<T> {
    items: Vec<T>,
    /// At most [`MAX_SKIPPED`].
    skipped: Vec<SkippedItem>,
    next: NextPage,
    hint: CacheHint,
}

/// What follows a page.
enum NextPage {
    End,
    Cursor(String),
    /// The cursor is not a string.
    Invalid,
}

/// Limits how often invalid items of a list are logged. Repaired and skipped items are counted
/// apart, so that many repairs do not hide a skipped item.
#[derive(Default)]
struct LogRates {
    repaired: LogRate,
    skipped: LogRate,
}

/// Parses one page, up to `room` valid items. Invalid items are repaired, or else left out, with a
/// warning, so that they do not hide the others.
fn read_page<T: Item>(
    result: &RawValue,
    member: &str,
    room: usize,
    rates: &LogRates,
) -> serde_json::Result<Page<T>> {
    let members: Members<'_> = serde_json::from_str(result.get())?;
    // Each item is parsed alone, so that one that cannot be does not take the others with it.
    let items: Vec<&RawValue> = match members.get(member).map(RawValue::get) {
        // Some servers send null for an empty list.
        Some("null") => Vec::new(),
        Some(items) => serde_json::from_str(items)?,
        // Templates may be missing from the list of resources.
        None if member == TEMPLATES => Vec::new(),
        None => return Err(serde::de::Error::custom(format!("no member '{member}'"))),
    };
    let next = match members.read::<Value>("nextCursor") {
        Ok(None) => NextPage::End,
        // Some servers send an empty cursor with the last page.
        Ok(Some(Value::String(next))) if next.is_empty() => NextPage::End,
        Ok(Some(Value::String(next))) => NextPage::Cursor(next),
        _ => NextPage::Invalid,
    };
    let mut skipped = Vec::new();
    let items = items.into_iter().filter_map(|item| {
        let read = read_item(item, member, rates);
        read.map_err(|item| {
            if skipped.len() < MAX_SKIPPED {
                skipped.push(item);
            }
        })
        .ok()
    });
    let items = items.take(room).collect();
    Ok(Page { items, skipped, next, hint: hint_of(&members) })
}

/// Parses an item of a list, repaired if necessary. Logs a repair, and an item that stays invalid.
fn read_item<T: Item>(item: &RawValue, member: &str, rates: &LogRates) -> Result<T, SkippedItem> {
    let mut repairs = Vec::new();
    let mut members = Value::Null;
    let parsed = read_value(item, &mut repairs).and_then(|item| {
        members = item;
        list_item::parse(&mut members, &mut repairs)
    });
    let name = members.get("name").and_then(Value::as_str).map(shortened);
    match parsed {
        Ok(item) => {
            if !repairs.is_empty()
                && let Some(count) = rates.repaired.count()
            {
                let repairs = repairs.join("; ");
                let error = shortened(&repairs);
                tracing::warn!(error, member, name, count, "repaired an invalid item of a list");
            }
            Ok(item)
        }
        Err(error) => {
            if let Some(count) = rates.skipped.count() {
                tracing::warn!(error, member, name, count, "skipped an invalid item of a list");
            }
            let problem = shortened(&error).to_owned();
            Err(SkippedItem { name: name.map(ToOwned::to_owned), problem })
        }
    }
}

/// Parses an item. Numbers beyond the largest `double` become the largest one, which means the same
/// in the limits of a schema, and integers beyond 64 bits the nearest `double`.
///
/// # Errors
/// Returns an error with the problem if the item cannot be parsed.
fn read_value(item: &RawValue, repairs: &mut Vec<String>) -> Result<Value, String> {
    if is_too_deep(item) {
        return Err(format!("nested more than {DEFAULT_MAX_NESTING} levels deep"));
    }
    // With numbers of any length, `serde_json` would treat every number in the program as a text. A
    // client that reads the list into doubles, as JavaScript does, sees no difference.
    if has_long_integers(item.get()) {
        repairs.push(
            "integers must fit into 64 bits, and are listed as the nearest double".to_owned(),
        );
    }
    let error = match serde_json::from_str(item.get()) {
        Ok(item) => return Ok(item),
        Err(error) => error,
    };
    let finite = with_finite_numbers(item.get()).ok_or_else(|| error.to_string())?;
    let item = serde_json::from_str(&finite).map_err(|error| error.to_string())?;
    repairs.push("numbers must be at most 1.8e308".to_owned());
    Ok(item)
}

/// Returns the hint in a page. A missing or invalid time counts as zero, a missing or invalid scope
/// as private.
fn hint_of(page: &Members<'_>) -> CacheHint {
    let ttl_ms: f64 = page.read("ttlMs").ok().flatten().unwrap_or_default();
    let cache_scope = match page.read("cacheScope").ok().flatten() {
        Some("public") => CacheScope::Public,
        _ => CacheScope::Private,
    };
    // The conversion saturates: negative times become 0, too long ones `u64::MAX`.
    CacheHint { ttl_ms: ttl_ms as u64, cache_scope }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_hint_of_a_list_is_as_strict_as_the_strictest_page() {
        let public = hint(json!({ "ttlMs": 60_000, "cacheScope": "public" }));
        assert_eq!(public, CacheHint { ttl_ms: 60_000, cache_scope: CacheScope::Public });
        let private = hint(json!({ "ttlMs": 1e30, "cacheScope": "ours" }));
        assert_eq!(private, CacheHint { ttl_ms: u64::MAX, cache_scope: CacheScope::Private });
        assert_eq!(hint(json!({ "ttlMs": -1 })), CacheHint::default());
        assert_eq!(hint(json!({})), CacheHint::default());
        let both = CacheHint { ttl_ms: 60_000, cache_scope: CacheScope::Private };
        assert_eq!((stricter(public, private), stricter(private, public)), (both, both));
        assert_eq!(stricter(public, public), public);
    }

    fn hint(page: Value) -> CacheHint {
        hint_of(&Members::of(Some(&to_raw_value(&page).unwrap())))
    }
}
