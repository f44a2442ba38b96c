//! Requests of an upstream's Views for resources: of that upstream, and of no other.

use std::sync::PoisonError;

use marquetry_in_flight::Owner;
use marquetry_policy::ItemKind;
use marquetry_protocol::{
    RpcError, error_code,
    server::{Reply, RequestContext},
    shortened,
    types::{ReadResourceParams, ReadResourceResult},
};
use percent_encoding::percent_decode_str;

use super::{Gateway, List, Route};

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
        let upstreams = self.upstreams();
        let view = self.view(cx);
        let mut shown = upstreams.iter().filter(|upstream| view.shows_upstream(upstream.number()));
        let found = shown.find(|upstream| upstream.name() == name);
        let found = found.map(|upstream| upstream.number());
        if found.is_none() && name != own {
            return Err(RpcError::invalid_params(format!(
                "the header {SERVER_HEADER} names the unknown server '{}'",
                shortened(&name)
            )));
        }
        Ok(found)
    }

    /// Reads a resource of the upstream with this index, under the upstream's own URI: a View, or a
    /// resource that a View requests.
    ///
    /// A caller with a token reads only what the upstream offers to all callers or has linked to
    /// this one: any client can send [`SERVER_HEADER`], and with it could read what the upstream
    /// linked to another user.
    ///
    /// # Errors
    /// Returns an error if there is no such upstream, if it does not offer the resource to the
    /// caller, or if [`Gateway::read_resource`] returns one.
    pub async fn read_resource_for_view(
        &self,
        upstream: usize,
        params: ReadResourceParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let view = self.view(cx);
        if self.upstream(upstream).is_none() || !view.may_read(upstream, &params.uri) {
            return Err(RpcError::resource_not_found(&params.uri));
        }
        let to = Route { upstream, name: params.uri.clone() };
        view.check_scopes(ItemKind::Resource, &to, cx)?;
        if cx.principal().is_some() && !self.offers_resource(upstream, &params.uri, cx) {
            // The upstream may still be starting.
            self.started(List::Resources, cx).await?;
            if !self.offers_resource(upstream, &params.uri, cx) {
                return Err(RpcError::resource_not_found(&params.uri));
            }
        }
        self.read_at(upstream, params, cx).await
    }

    /// Returns whether the upstream with this index lists a resource, has a View or a template with
    /// its URI, or gave this caller a link to it.
    fn offers_resource(&self, upstream: usize, uri: &str, cx: &RequestContext) -> bool {
        let number = upstream;
        if let Some(upstream) = self.upstream(number)
            && self.view(cx).has_resource_at(&upstream, number, uri)
        {
            return true;
        }
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.get(&Owner::of(cx), uri) == Some(number)
    }

    /// Reads a View or resource whose exposed URI differs from its URI at the upstream. The answer
    /// has the exposed URI, which the client requested.
    pub(super) async fn read_renamed(
        &self,
        renamed: Route,
        params: ReadResourceParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let exposed_uri = params.uri;
        let upstream_uri = renamed.name;
        let params = ReadResourceParams { uri: upstream_uri.clone(), meta: params.meta };
        let answer = self.read_at(renamed.upstream, params, cx).await;
        let reply = answer.map_err(|error| match error.code {
            error_code::RESOURCE_NOT_FOUND => RpcError::resource_not_found(&exposed_uri),
            _ => error,
        })?;
        let Ok(mut result) = serde_json::from_str::<ReadResourceResult>(reply.get().get()) else {
            return Ok(reply);
        };
        for contents in &mut result.contents {
            if contents.uri == upstream_uri {
                contents.uri.clone_from(&exposed_uri);
            }
        }
        Ok(Reply::json(&result)?.private())
    }
}
