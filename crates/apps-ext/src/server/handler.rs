//! A handler that adds Views to another handler.

use std::collections::BTreeMap;

use async_trait::async_trait;
use marquetry_protocol::{
    RpcError, error_code,
    server::{Handler, Reply, RequestContext, ServerDescription},
    shortened,
    types::{
        CacheHint, CacheScope, CallToolParams, ClientCapabilities, ListResourceTemplatesResult,
        ListResourcesResult, ListToolsResult, ReadResourceParams, ReadResourceResult, Resource,
    },
};
use serde_json::value::{RawValue, to_raw_value};

use super::{
    apps::Apps,
    content::{is_view, without_views},
};
use crate::types::{EXTENSION, FLAT_RESOURCE_KEY, UI_META_KEY, client_settings};

/// Maximum pages without visible entries that one request reads. Some clients take an empty page
/// for the end of the list.
const MAX_EMPTY_PAGES: usize = 100;

/// A handler that adds the extension to another handler. [`Apps::wrap`] creates it.
pub struct AppsHandler<H> {
    inner: H,
    apps: Apps,
    /// The Views, as entries of `resources/list`.
    listed: Vec<Resource>,
    /// The answers to `resources/read`, by URI.
    contents: BTreeMap<String, Box<RawValue>>,
}

impl Apps {
    /// Wraps a handler and adds the extension to it. Clients without Views do not get the handler's
    /// own metadata of Views either: that of its tools, and its resources `ui://…`, also in the
    /// answers of tools. They cannot call tools that [`Apps::tool`] gives to Views alone.
    #[must_use]
    pub fn wrap<H: Handler>(self, handler: H) -> AppsHandler<H> {
        AppsHandler::new(self, handler)
    }
}

impl<H: Handler> AppsHandler<H> {
    fn new(apps: Apps, inner: H) -> Self {
        let listed = apps.views.iter().map(|(uri, view)| view.resource(uri)).collect();
        let contents = apps.views.iter().map(|(uri, view)| {
            let contents = ReadResourceResult { contents: vec![view.contents(uri)], meta: None };
            let contents = to_raw_value(&contents).expect("text can be serialised");
            (uri.as_str().to_owned(), contents)
        });
        Self { listed, contents: contents.collect(), inner, apps }
    }

    /// Returns the Views and their tools.
    #[must_use]
    pub fn apps(&self) -> &Apps {
        &self.apps
    }

    /// Returns the wrapped handler.
    #[must_use]
    pub fn wrapped(&self) -> &H {
        &self.inner
    }

    fn is_enabled(&self, cx: &RequestContext) -> bool {
        self.apps.is_enabled_for(cx.capabilities())
    }

    /// Adds the extension for a client that has it, too.
    fn with_extension(
        &self,
        description: ServerDescription,
        client: &ClientCapabilities,
    ) -> ServerDescription {
        let mut description = self.with_resources(description);
        let extensions = &mut description.capabilities.extensions;
        if self.apps.is_enabled_for(client) {
            extensions.insert(EXTENSION.to_owned(), client_settings());
        } else {
            extensions.shift_remove(EXTENSION);
        }
        description
    }

    /// Adds the capability for resources if there are Views. Every client gets it, because some
    /// hosts read Views without declaring the extension.
    fn with_resources(&self, mut description: ServerDescription) -> ServerDescription {
        if !self.listed.is_empty() {
            description.capabilities.resources.get_or_insert_default();
        }
        description
    }
}

#[async_trait]
impl<H: Handler> Handler for AppsHandler<H> {
    fn inner(&self) -> Option<&dyn Handler> {
        Some(&self.inner)
    }

    fn describe(&self) -> ServerDescription {
        self.with_resources(self.inner.describe())
    }

    fn describe_for(&self, client: &ClientCapabilities) -> ServerDescription {
        self.with_extension(self.inner.describe_for(client), client)
    }

    fn describe_to(&self, client: &ClientCapabilities, cx: &RequestContext) -> ServerDescription {
        self.with_extension(self.inner.describe_to(client, cx), client)
    }

    /// A shared cache must not store answers that depend on the client's capabilities (2026-07-28,
    /// "Caching").
    fn cache_hint(&self, method: &str) -> CacheHint {
        let hint = self.inner.cache_hint(method);
        let is_gated = matches!(
            method,
            "server/discover" | "tools/list" | "resources/list" | "resources/templates/list"
        );
        if is_gated && self.apps.is_gated() {
            CacheHint { cache_scope: CacheScope::Private, ..hint }
        } else {
            hint
        }
    }

    async fn list_tools(
        &self,
        cursor: Option<&str>,
        cx: &RequestContext,
    ) -> Result<ListToolsResult, RpcError> {
        let is_enabled = self.is_enabled(cx);
        first_visible_page(cursor, |cursor| async move {
            let mut list = self.inner.list_tools(cursor.as_deref(), cx).await?;
            let tools = list.tools.into_iter();
            list.tools = tools.filter_map(|tool| self.apps.listed(tool, is_enabled)).collect();
            Ok(list)
        })
        .await
    }

    async fn call_tool(
        &self,
        params: CallToolParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        if self.is_enabled(cx) {
            return self.inner.call_tool(params, cx).await;
        }
        if !self.apps.is_for_model(&params.name) {
            let name = shortened(&params.name);
            return Err(RpcError::invalid_params(format!("unknown tool '{name}'")));
        }
        let reply = self.inner.call_tool(params, cx).await?;
        Ok(reply.without_meta(&[UI_META_KEY, FLAT_RESOURCE_KEY]).edited(without_views))
    }

    /// The Views come before the first page of the handler's own resources.
    async fn list_resources(
        &self,
        cursor: Option<&str>,
        cx: &RequestContext,
    ) -> Result<ListResourcesResult, RpcError> {
        let is_enabled = self.is_enabled(cx);
        let is_offered = self.apps.is_offered_to(cx);
        first_visible_page(cursor, |cursor| async move {
            let list = self.inner.list_resources(cursor.as_deref(), cx).await;
            let mut list = self.empty_without_resources(list)?;
            list.resources.retain(|resource| {
                let is_our_view = is_offered && self.contents.contains_key(&resource.uri);
                !is_our_view && (is_enabled || !is_view(&resource.uri))
            });
            if is_enabled && is_offered && cursor.is_none() {
                list.resources.splice(..0, self.listed.iter().cloned());
            }
            Ok(list)
        })
        .await
    }

    async fn list_resource_templates(
        &self,
        cursor: Option<&str>,
        cx: &RequestContext,
    ) -> Result<ListResourceTemplatesResult, RpcError> {
        let is_enabled = self.is_enabled(cx);
        first_visible_page(cursor, |cursor| async move {
            let list = self.inner.list_resource_templates(cursor.as_deref(), cx).await;
            let mut list = self.empty_without_resources(list)?;
            list.resource_templates
                .retain(|template| is_enabled || !is_view(&template.uri_template));
            Ok(list)
        })
        .await
    }

    /// Every client can read Views, even without declaring the extension.
    async fn read_resource(
        &self,
        params: ReadResourceParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        if let Some(contents) = self.contents.get(&params.uri)
            && self.apps.is_offered_to(cx)
        {
            return Ok(Reply::raw(contents.clone()));
        }
        let uri = params.uri.clone();
        let reply = self.inner.read_resource(params, cx).await;
        reply.map_err(|error| match error.code {
            error_code::METHOD_NOT_FOUND if is_view(&uri) || !self.listed.is_empty() => {
                RpcError::resource_not_found(&uri)
            }
            _ => error,
        })
    }
}

impl<H: Handler> AppsHandler<H> {
    /// Returns an empty list if the wrapped handler has no resources, because Views make this a
    /// server with resources.
    fn empty_without_resources<T: Default>(
        &self,
        list: Result<T, RpcError>,
    ) -> Result<T, RpcError> {
        match list {
            Err(error) if error.code == error_code::METHOD_NOT_FOUND && !self.listed.is_empty() => {
                Ok(T::default())
            }
            list => list,
        }
    }
}

/// One page of a list.
trait Page {
    fn is_empty(&self) -> bool;
    fn next_cursor(&mut self) -> &mut Option<String>;
}

impl Page for ListToolsResult {
    fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    fn next_cursor(&mut self) -> &mut Option<String> {
        &mut self.next_cursor
    }
}

impl Page for ListResourcesResult {
    fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    fn next_cursor(&mut self) -> &mut Option<String> {
        &mut self.next_cursor
    }
}

impl Page for ListResourceTemplatesResult {
    fn is_empty(&self) -> bool {
        self.resource_templates.is_empty()
    }

    fn next_cursor(&mut self) -> &mut Option<String> {
        &mut self.next_cursor
    }
}

/// Reads pages until one has entries or is the last. After [`MAX_EMPTY_PAGES`] empty pages, returns
/// an empty one with the cursor of the next.
async fn first_visible_page<P, F, Fut>(cursor: Option<&str>, read: F) -> Result<P, RpcError>
where
    P: Page,
    F: Fn(Option<String>) -> Fut,
    Fut: Future<Output = Result<P, RpcError>>,
{
    let mut page = read(cursor.map(str::to_owned)).await?;
    for _ in 1..MAX_EMPTY_PAGES {
        if !page.is_empty() || page.next_cursor().is_none() {
            break;
        }
        page = read(page.next_cursor().take()).await?;
    }
    Ok(page)
}
