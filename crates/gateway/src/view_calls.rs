//! Requests of an upstream's Views for resources: of that upstream, and of no other.

use marquetry_protocol::{
    RpcError,
    server::{Reply, RequestContext},
    shortened,
    types::{ReadResourceParams, ReadResourceResult},
};
use percent_encoding::percent_decode_str;

use super::{Gateway, Route};

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
}
