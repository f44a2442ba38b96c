//! Requests of an upstream's Views: tools and resources of that upstream, and of no other.

use marquetry_apps_ext::types::{DENIED, UiUri};
use marquetry_protocol::{
    RpcError,
    server::{Reply, RequestContext},
    shortened,
    types::{CallToolParams, ReadResourceParams, ReadResourceResult, Tool},
};
use percent_encoding::percent_decode_str;

use super::{CallFailure, Gateway, Route, ToolAnswer};

/// The request header that limits `resources/read`, the lists of resources and the list of prompts
/// to one server. Its value is the server's name in percent-encoding. A host sends it with the
/// requests of a View, since a View may reach only "the same server connection" (MCP Apps,
/// visibility).
pub const SERVER_HEADER: &str = "marquetry-server";

impl Gateway {
    /// Returns the index of the upstream to which a request is bound by [`SERVER_HEADER`]. `None`
    /// without the header, and for `own`, the name of this server.
    ///
    /// # Errors
    /// Returns an error if there is no such server.
    pub fn bound_to(&self, own: &str, cx: &RequestContext) -> Result<Option<usize>, RpcError> {
        let Some(name) = cx.header(SERVER_HEADER) else { return Ok(None) };
        let name = percent_decode_str(name).decode_utf8_lossy();
        let found = self.upstreams.iter().position(|upstream| upstream.name() == name);
        match found {
            None if name != own => Err(RpcError::invalid_params(format!(
                "the header {SERVER_HEADER} names the unknown server '{}'",
                shortened(&name)
            ))),
            found => Ok(found),
        }
    }

    /// Calls a tool for a View of the upstream with this index. `params` has the tool's name at the
    /// upstream, as the View knows it.
    ///
    /// # Errors
    /// Returns an error if the upstream offers no such tool, if Views may not call it, or if
    /// [`Gateway::call_tool`] returns one.
    pub async fn call_tool_for_view(
        &self,
        upstream: usize,
        params: CallToolParams,
        cx: &RequestContext,
    ) -> Result<ToolAnswer, CallFailure> {
        let catalog = self.catalog();
        let at = Route { upstream, name: params.name.clone() };
        let route = catalog.exposed_tool(&at).and_then(|exposed| catalog.tool(exposed));
        match route {
            Some(route) if route.ui.visibility.app => self.call_at(route, params, cx).await,
            Some(_) => Err(denied(&params.name, "is not for Views: its visibility lacks \"app\"")),
            None => Err(denied(&params.name, "is not a tool of the server of this View")),
        }
    }

    /// Returns the tools that Views of an upstream may call, under the upstream's own names.
    #[must_use]
    pub fn tools_for_view(&self, upstream: usize) -> Vec<Tool> {
        let catalog = self.catalog();
        let Some(owner) = self.upstreams.get(upstream) else { return Vec::new() };
        let listing = owner.listing();
        let tools = listing.tools.iter().filter(|tool| {
            let at = Route { upstream, name: tool.name.clone() };
            let route = catalog.exposed_tool(&at).and_then(|exposed| catalog.tool(exposed));
            route.is_some_and(|route| route.ui.visibility.app)
        });
        tools.cloned().collect()
    }

    /// Reads a resource of the upstream with this index, under the upstream's own URI: a View, or a
    /// resource that a View requests.
    ///
    /// # Errors
    /// Returns an error if there is no such upstream, or if [`Gateway::read_resource`] returns one.
    pub async fn read_resource_for_view(
        &self,
        upstream: usize,
        params: ReadResourceParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        if upstream >= self.upstreams.len() {
            return Err(RpcError::resource_not_found(&params.uri));
        }
        self.read_at(upstream, params, cx).await
    }

    /// Reads a View whose offered URI differs from its URI at the upstream. The answer has the URI
    /// that the client requested.
    pub(super) async fn read_renamed(
        &self,
        view: Route,
        params: ReadResourceParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let exposed = params.uri;
        let params = ReadResourceParams { uri: view.name, meta: params.meta };
        let own = params.uri.clone();
        let answer = self.read_at(view.upstream, params, cx).await;
        let reply = answer.map_err(|error| match error.code {
            marquetry_protocol::error_code::RESOURCE_NOT_FOUND => {
                RpcError::resource_not_found(&exposed)
            }
            _ => error,
        })?;
        let Ok(mut result) = serde_json::from_str::<ReadResourceResult>(reply.get().get()) else {
            return Ok(reply);
        };
        for contents in result.contents.iter_mut().filter(|contents| contents.uri == own) {
            contents.uri.clone_from(&exposed);
        }
        Ok(Reply::json(&result)?.private())
    }

    /// Returns the URI under which clients see a View of an upstream.
    #[must_use]
    pub fn exposed_view(&self, upstream: usize, uri: &UiUri) -> Option<UiUri> {
        self.catalog().exposed_view(upstream, uri).cloned()
    }
}

/// Returns a refusal with the extension's general code, because it has no special one
/// (specification, "Error codes").
fn denied(tool: &str, why: &str) -> CallFailure {
    let tool = shortened(tool);
    CallFailure::Rpc(RpcError::new(DENIED, format!("tool '{tool}' {why}")))
}
