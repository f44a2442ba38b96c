//! Complete lists, joined from all their pages.

use std::{collections::HashSet, time::Duration};

use marquetry_protocol_wire::{
    Era, Revision, error_code, shortened,
    types::{CacheHint, CacheScope, JsonObject, Prompt, Resource, ResourceTemplate, Tool},
};
use serde::Deserialize;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};
use tokio::time::Instant;

use super::{
    CallOptions, Client, ClientError, ProtocolError,
    list_item::{self, Item},
    log_rate::LogRate,
};

const TEMPLATES: &str = "resourceTemplates";
/// Maximum number of consecutive pages without a valid item.
const MAX_EMPTY_PAGES: usize = 100;

/// A complete list, and for how long it may be cached.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fetched<T> {
    /// The items of all pages.
    pub items: Vec<T>,
    /// The shortest time and the narrowest scope of all pages. [`None`] for servers with sessions,
    /// which send no cache hints.
    pub cache: Option<CacheHint>,
    /// Why the list may lack items: [`ProtocolError::TooManyItems`],
    /// [`ProtocolError::ListTooLong`], [`ProtocolError::ListTooSlow`],
    /// [`ProtocolError::PageFailed`], [`ProtocolError::InvalidCursor`],
    /// [`ProtocolError::RepeatedCursor`] or [`ProtocolError::TooManyEmptyPages`]. The log has a
    /// warning, too.
    pub incomplete: Option<ProtocolError>,
}

impl Client {
    /// Lists every tool of the server. Members of a tool that strict clients refuse are removed or
    /// rewritten. Tools without a name, or whose arguments cannot be an object, are left out. So
    /// are tools of a stateless server over HTTP with an invalid `x-mcp-header`, as the
    /// specification demands. The log has a warning for each. The arguments that other tools mark
    /// are repeated in headers when they are called. A list with more items or bytes than the
    /// [options](super::ClientOptions) allow, or whose pages take longer together than a request
    /// may, ends early, with a warning in the log, and so does a list whose later page is refused
    /// or invalid; [`Self::fetch_tools`] returns the reason.
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
        self.inner.link.learn(&self.inner.server, &mut fetched.items);
        #[cfg(feature = "schema")]
        if self.inner.options.check_results {
            self.inner.schemas.learn(&fetched.items);
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

    pub(super) async fn fetch<T: Item>(
        &self,
        method: &str,
        member: &str,
    ) -> Result<Fetched<T>, ClientError> {
        let options = &self.inner.options;
        let max_items = options.max_list_items;
        let max_bytes = options.max_message_bytes;
        // For all pages together: each may take long, and there may be many.
        let limit = options.request_timeout;
        let deadline = Instant::now().checked_add(limit);
        let mut fetched = Fetched { items: Vec::new(), cache: None, incomplete: None };
        let mut bytes = 0;
        let mut cursor: Option<String> = None;
        // A server may send cursors in a circle, and pages without items for ever.
        let mut cursors = HashSet::new();
        let mut empty_pages = 0;
        let rates = LogRates::default();
        loop {
            let params = cursor.as_ref().map(|cursor| to_raw_value(&json!({ "cursor": cursor })));
            let params = params.transpose().map_err(ClientError::params)?;
            let request = self.request(method, params.as_deref(), CallOptions::default());
            let result = match deadline {
                Some(deadline) => tokio::time::timeout_at(deadline, request).await,
                None => Ok(request.await),
            };
            let result = result.unwrap_or(Err(ClientError::Timeout(limit)));
            // One item more shows that the list is too long.
            let room = (max_items - fetched.items.len()).saturating_add(1);
            let page = result.and_then(|result| {
                bytes += result.get().len();
                read_page::<T>(&result, member, room, &rates)
                    .map_err(|error| ClientError::result(method, error))
            });
            let page = match page {
                Ok(page) => page,
                Err(error) if cursor.is_some() => {
                    let error = page_problem(method, limit, error)?;
                    return Ok(fetched.ending_early(error));
                }
                Err(error) => return Err(error),
            };
            if self.inner.server.revision.era() == Era::Stateless {
                let cache = fetched.cache.map_or(page.hint, |cache| narrowest(cache, page.hint));
                fetched.cache = Some(cache);
            }
            empty_pages = if page.items.is_empty() { empty_pages + 1 } else { 0 };
            fetched.items.extend(page.items);
            let method = method.to_owned();
            let error = if fetched.items.len() > max_items {
                fetched.items.truncate(max_items);
                ProtocolError::TooManyItems { method, limit: max_items }
            } else {
                match page.next {
                    NextPage::End => return Ok(fetched),
                    NextPage::Invalid => ProtocolError::InvalidCursor { method },
                    NextPage::Cursor(_) if bytes > max_bytes => {
                        ProtocolError::ListTooLong { method, limit: max_bytes }
                    }
                    NextPage::Cursor(next) if !cursors.insert(next.clone()) => {
                        ProtocolError::RepeatedCursor { method }
                    }
                    NextPage::Cursor(_) if empty_pages > MAX_EMPTY_PAGES => {
                        ProtocolError::TooManyEmptyPages { method, limit: MAX_EMPTY_PAGES }
                    }
                    NextPage::Cursor(next) => {
                        cursor = Some(next);
                        continue;
                    }
                }
            };
            return Ok(fetched.ending_early(error));
        }
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

/// Returns why a list ends before a later page of it.
///
/// # Errors
/// `error`, if no further request can succeed.
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

/// Combines the hints of two pages.
fn narrowest(a: CacheHint, b: CacheHint) -> CacheHint {
    let is_public = [a, b].iter().all(|hint| hint.cache_scope == CacheScope::Public);
    let cache_scope = if is_public { CacheScope::Public } else { CacheScope::Private };
    CacheHint { ttl_ms: a.ttl_ms.min(b.ttl_ms), cache_scope }
}

struct Page<T> {
    items: Vec<T>,
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

/// How often invalid items of a list are logged. Many repaired items do not hide one that is left
/// out.
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
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Members {
        #[serde(default)]
        next_cursor: Value,
        #[serde(flatten)]
        rest: JsonObject,
    }
    let Members { next_cursor, mut rest } = serde_json::from_str(result.get())?;
    let items: Vec<Value> = match rest.remove(member) {
        // Some languages write an empty list so.
        Some(Value::Null) => Vec::new(),
        Some(items) => serde_json::from_value(items)?,
        // Templates may be missing from the list of resources.
        None if member == TEMPLATES => Vec::new(),
        None => return Err(serde::de::Error::custom(format!("no member '{member}'"))),
    };
    let items = items.into_iter().filter_map(|mut item| {
        let mut repairs = Vec::new();
        let parsed = list_item::parse(&mut item, &mut repairs);
        let name = item.get("name").and_then(Value::as_str).map(shortened);
        match parsed {
            Ok(item) => {
                if !repairs.is_empty()
                    && let Some(count) = rates.repaired.count()
                {
                    let error = repairs.join("; ");
                    let error = shortened(&error);
                    tracing::warn!(
                        error,
                        member,
                        name,
                        count,
                        "repaired an invalid item of a list"
                    );
                }
                Some(item)
            }
            Err(error) => {
                if let Some(count) = rates.skipped.count() {
                    tracing::warn!(error, member, name, count, "skipped an invalid item of a list");
                }
                None
            }
        }
    });
    let next = match next_cursor {
        Value::Null => NextPage::End,
        // Some servers send an empty cursor with the last page.
        Value::String(next) if next.is_empty() => NextPage::End,
        Value::String(next) => NextPage::Cursor(next),
        _ => NextPage::Invalid,
    };
    Ok(Page { items: items.take(room).collect(), next, hint: hint_of(&rest) })
}

/// Returns the hint in a page. A missing or invalid time counts as zero, a missing or invalid scope
/// as private.
fn hint_of(page: &JsonObject) -> CacheHint {
    let ttl_ms = page.get("ttlMs").and_then(Value::as_f64).unwrap_or_default();
    let cache_scope = match page.get("cacheScope").and_then(Value::as_str) {
        Some("public") => CacheScope::Public,
        _ => CacheScope::Private,
    };
    // Negative numbers become 0, numbers that are too large the maximum.
    CacheHint { ttl_ms: ttl_ms as u64, cache_scope }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_may_be_kept_as_long_as_its_shortest_page_and_for_whom_all_may_be() {
        let public = hint(json!({ "ttlMs": 60_000, "cacheScope": "public" }));
        assert_eq!(public, CacheHint { ttl_ms: 60_000, cache_scope: CacheScope::Public });
        let private = hint(json!({ "ttlMs": 1e30, "cacheScope": "ours" }));
        assert_eq!(private, CacheHint { ttl_ms: u64::MAX, cache_scope: CacheScope::Private });
        assert_eq!(hint(json!({ "ttlMs": -1 })), CacheHint::default());
        assert_eq!(hint(json!({})), CacheHint::default());
        let both = CacheHint { ttl_ms: 60_000, cache_scope: CacheScope::Private };
        assert_eq!((narrowest(public, private), narrowest(private, public)), (both, both));
        assert_eq!(narrowest(public, public), public);
    }

    fn hint(page: Value) -> CacheHint {
        hint_of(page.as_object().unwrap())
    }
}
