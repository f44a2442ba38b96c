//! Whole lists, from all their pages.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};

use super::{CallOptions, Client, ClientError};
use crate::{
    Revision, error_code,
    types::{Prompt, Resource, ResourceTemplate, Tool},
};

const TEMPLATES: &str = "resourceTemplates";

impl Client {
    /// Every tool of the server. Over HTTP a stateless server's tools with a wrong `x-mcp-header` are left out, with a
    /// warning in the trace, as the specification demands; what the others mark is repeated in headers when they are
    /// called.
    ///
    /// # Errors
    /// As [`Client::request`], and when the list has more items or bytes, or takes longer, than the
    /// [options](super::ClientOptions) allow.
    pub async fn list_tools(&self) -> Result<Vec<Tool>, ClientError> {
        let mut tools = self.list("tools/list", "tools").await?;
        self.inner.link.learn(&self.inner.server, &mut tools);
        #[cfg(feature = "schema")]
        if self.inner.options.check_results {
            self.inner.schemas.learn(&tools);
        }
        Ok(tools)
    }

    /// Every prompt of the server.
    ///
    /// # Errors
    /// As [`Self::list_tools`].
    pub async fn list_prompts(&self) -> Result<Vec<Prompt>, ClientError> {
        self.list("prompts/list", "prompts").await
    }

    /// Every resource of the server.
    ///
    /// # Errors
    /// As [`Self::list_tools`].
    pub async fn list_resources(&self) -> Result<Vec<Resource>, ClientError> {
        self.list("resources/list", "resources").await
    }

    /// Every resource template of the server.
    ///
    /// # Errors
    /// As [`Self::list_tools`].
    pub async fn list_resource_templates(&self) -> Result<Vec<ResourceTemplate>, ClientError> {
        if self.inner.server.revision != Revision::V2024_10_07 {
            return self.list("resources/templates/list", TEMPLATES).await;
        }
        // 2024-10-07 has them in the list of resources. Servers that only call themselves so, as those of the official
        // SDKs, answer as its successor does.
        let listed = self.list("resources/list", TEMPLATES).await?;
        if !listed.is_empty() {
            return Ok(listed);
        }
        match self.list("resources/templates/list", TEMPLATES).await {
            Err(ClientError::Rpc(error)) if error.code == error_code::METHOD_NOT_FOUND => {
                Ok(listed)
            }
            outcome => outcome,
        }
    }

    pub(super) async fn list<T: DeserializeOwned>(
        &self,
        method: &str,
        member: &str,
    ) -> Result<Vec<T>, ClientError> {
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
    ) -> Result<Vec<T>, ClientError> {
        let mut items = Vec::new();
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
            let (page, next) = read_page::<T>(&result, member)
                .map_err(|error| ClientError::Protocol(format!("answer to '{method}': {error}")))?;
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
                _ => return Ok(items),
            }
        }
    }
}

/// One page; an item that cannot be read is left out with a warning, so that it does not hide the others.
fn read_page<T: DeserializeOwned>(
    result: &RawValue,
    member: &str,
) -> serde_json::Result<(Vec<T>, Option<String>)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Page {
        next_cursor: Option<String>,
        #[serde(flatten)]
        rest: crate::types::JsonObject,
    }
    let mut page: Page = serde_json::from_str(result.get())?;
    let items: Vec<serde_json::Value> = match page.rest.remove(member) {
        Some(items) => serde_json::from_value(items)?,
        // In the list of resources they may be missing.
        None if member == TEMPLATES => Vec::new(),
        None => return Err(serde::de::Error::custom(format!("no member '{member}'"))),
    };
    let items = items.into_iter().filter_map(|item| {
        T::deserialize(&item)
            .inspect_err(|error| tracing::warn!(%error, member, "an item cannot be read"))
            .ok()
    });
    Ok((items.collect(), page.next_cursor))
}
