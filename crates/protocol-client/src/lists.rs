//! Whole lists, from all their pages.

use marquetry_protocol_wire::{
    Era, Revision, error_code,
    types::{CacheHint, CacheScope, JsonObject, Prompt, Resource, ResourceTemplate, Tool},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use super::{CallOptions, Client, ClientError, log_rate::LogRate};

const TEMPLATES: &str = "resourceTemplates";

/// A whole list, and how long it may be kept.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fetched<T> {
    /// The items of all pages.
    pub items: Vec<T>,
    /// The shortest time and the narrowest scope of all pages; none for servers with sessions, which say nothing of it.
    pub cache: Option<CacheHint>,
}

impl Client {
    /// Every tool of the server. Over HTTP a stateless server's tools with a wrong `x-mcp-header` are left out, with a
    /// warning in the trace, as the specification demands; what the others mark is repeated in headers when they are
    /// called.
    ///
    /// # Errors
    /// As [`Client::request`], and when the list has more items or bytes, or takes longer, than the
    /// [options](super::ClientOptions) allow.
    pub async fn list_tools(&self) -> Result<Vec<Tool>, ClientError> {
        self.fetch_tools().await.map(|fetched| fetched.items)
    }

    /// As [`Self::list_tools`], with how long the list may be kept.
    ///
    /// # Errors
    /// As [`Self::list_tools`].
    pub async fn fetch_tools(&self) -> Result<Fetched<Tool>, ClientError> {
        let mut fetched = self.fetch("tools/list", "tools").await?;
        self.inner.link.learn(&self.inner.server, &mut fetched.items);
        #[cfg(feature = "schema")]
        if self.inner.options.check_results {
            self.inner.schemas.learn(&fetched.items);
        }
        Ok(fetched)
    }

    /// Every prompt of the server.
    ///
    /// # Errors
    /// As [`Self::list_tools`].
    pub async fn list_prompts(&self) -> Result<Vec<Prompt>, ClientError> {
        self.fetch_prompts().await.map(|fetched| fetched.items)
    }

    /// As [`Self::list_prompts`], with how long the list may be kept.
    ///
    /// # Errors
    /// As [`Self::list_tools`].
    pub async fn fetch_prompts(&self) -> Result<Fetched<Prompt>, ClientError> {
        self.fetch("prompts/list", "prompts").await
    }

    /// Every resource of the server.
    ///
    /// # Errors
    /// As [`Self::list_tools`].
    pub async fn list_resources(&self) -> Result<Vec<Resource>, ClientError> {
        self.fetch_resources().await.map(|fetched| fetched.items)
    }

    /// As [`Self::list_resources`], with how long the list may be kept.
    ///
    /// # Errors
    /// As [`Self::list_tools`].
    pub async fn fetch_resources(&self) -> Result<Fetched<Resource>, ClientError> {
        self.fetch("resources/list", "resources").await
    }

    /// Every resource template of the server.
    ///
    /// # Errors
    /// As [`Self::list_tools`].
    pub async fn list_resource_templates(&self) -> Result<Vec<ResourceTemplate>, ClientError> {
        self.fetch_resource_templates().await.map(|fetched| fetched.items)
    }

    /// As [`Self::list_resource_templates`], with how long the list may be kept.
    ///
    /// # Errors
    /// As [`Self::list_tools`].
    pub async fn fetch_resource_templates(&self) -> Result<Fetched<ResourceTemplate>, ClientError> {
        if self.inner.server.revision != Revision::V2024_10_07 {
            return self.fetch("resources/templates/list", TEMPLATES).await;
        }
        // 2024-10-07 has them in the list of resources. Servers that only call themselves so, as those of the official
        // SDKs, answer as its successor does.
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

    pub(super) async fn fetch<T: DeserializeOwned>(
        &self,
        method: &str,
        member: &str,
    ) -> Result<Fetched<T>, ClientError> {
        let options = &self.inner.options;
        let whole =
            self.all_pages(method, member, options.max_list_items, options.max_message_bytes);
        // For all pages together: each may take long, and there may be many.
        let timeout = options.request_timeout;
        tokio::time::timeout(timeout, whole).await.map_err(|_| ClientError::Timeout(timeout))?
    }

    async fn all_pages<T: DeserializeOwned>(
        &self,
        method: &str,
        member: &str,
        most_items: usize,
        most_bytes: usize,
    ) -> Result<Fetched<T>, ClientError> {
        let mut items = Vec::new();
        let mut cache: Option<CacheHint> = None;
        let mut bytes = 0;
        let mut cursor: Option<String> = None;
        loop {
            let params = cursor.as_ref().map(|cursor| to_raw_value(&json!({ "cursor": cursor })));
            let params =
                params.transpose().map_err(|error| ClientError::Protocol(error.to_string()))?;
            let result = self.request(method, params.as_deref(), CallOptions::default()).await?;
            bytes += result.get().len();
            if bytes > most_bytes {
                return Err(ClientError::Protocol(format!(
                    "'{method}' gives more than {most_bytes} bytes"
                )));
            }
            let Page { items: page, next, hint } = read_page::<T>(&result, member)
                .map_err(|error| ClientError::Protocol(format!("answer to '{method}': {error}")))?;
            if self.inner.server.revision.era() == Era::Stateless {
                cache = Some(cache.map_or(hint, |cache| narrowest(cache, hint)));
            }
            // A server that gives cursors for ever, with nothing behind them, must not keep us.
            let empty = page.is_empty();
            items.extend(page);
            if items.len() > most_items {
                return Err(ClientError::Protocol(format!(
                    "'{method}' gives more than {most_items} items"
                )));
            }
            match next {
                Some(next) if !empty => cursor = Some(next),
                _ => return Ok(Fetched { items, cache }),
            }
        }
    }
}

/// What holds for two pages together.
fn narrowest(a: CacheHint, b: CacheHint) -> CacheHint {
    let is_public = [a, b].iter().all(|hint| hint.cache_scope == CacheScope::Public);
    let cache_scope = if is_public { CacheScope::Public } else { CacheScope::Private };
    CacheHint { ttl_ms: a.ttl_ms.min(b.ttl_ms), cache_scope }
}

struct Page<T> {
    items: Vec<T>,
    next: Option<String>,
    hint: CacheHint,
}

/// One page; an item that cannot be read is left out with a warning, so that it does not hide the others.
fn read_page<T: DeserializeOwned>(result: &RawValue, member: &str) -> serde_json::Result<Page<T>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Members {
        next_cursor: Option<String>,
        #[serde(flatten)]
        rest: JsonObject,
    }
    let Members { next_cursor, mut rest } = serde_json::from_str(result.get())?;
    let items: Vec<Value> = match rest.remove(member) {
        Some(items) => serde_json::from_value(items)?,
        // In the list of resources they may be missing.
        None if member == TEMPLATES => Vec::new(),
        None => return Err(serde::de::Error::custom(format!("no member '{member}'"))),
    };
    let unreadable = LogRate::default();
    let items = items.into_iter().filter_map(|item| {
        let warn = |error: &serde_json::Error| {
            if let Some(count) = unreadable.count() {
                tracing::warn!(%error, member, count, "an item cannot be read");
            }
        };
        T::deserialize(&item).inspect_err(warn).ok()
    });
    Ok(Page { items: items.collect(), next: next_cursor, hint: hint_of(&rest) })
}

/// The hint in a page. A time that is missing or none counts as no time, a scope as private: what nobody said to be
/// everybody's is not.
fn hint_of(page: &JsonObject) -> CacheHint {
    let ttl_ms = page.get("ttlMs").and_then(Value::as_f64).unwrap_or_default();
    let cache_scope = match page.get("cacheScope").and_then(Value::as_str) {
        Some("public") => CacheScope::Public,
        _ => CacheScope::Private,
    };
    // Negative numbers become 0, and those that are too large the largest.
    CacheHint { ttl_ms: ttl_ms as u64, cache_scope }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_may_be_kept_as_long_as_its_shortest_page_and_for_whom_all_may_be() {
        let hint = |page: Value| hint_of(page.as_object().unwrap());
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
}
