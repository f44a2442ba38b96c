//! A table of methods, which jsonrpsee keeps.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt as _;
use jsonrpsee::{
    ConnectionId, Extensions,
    core::server::{MethodCallback, MethodResponse, Methods},
    types::{Id, Params},
};
use marquetry_protocol_wire::RpcError;
use serde_json::value::RawValue;

use super::{Reply, RequestContext, Server};

/// Methods by name.
///
/// A callback of jsonrpsee takes its parameters as text and returns its result as text. Neither
/// suits us: it would copy every large result, and it refuses negative ids. Call and outcome
/// therefore travel in the extensions, the only argument that can hold any type, and this file is
/// the only one that knows.
#[derive(Clone, Default)]
pub(super) struct MethodTable(Methods);

/// A method from a table.
pub(super) struct Method {
    pub(super) name: &'static str,
    /// Whether it takes [`MethodCall::raw_params`]; the protocol's own methods take their
    /// parameters from the [`RequestContext`], without a copy.
    pub(super) is_extension: bool,
    callback: MethodCallback,
}

/// A call of a method.
#[derive(Clone)]
pub(super) struct MethodCall {
    pub(super) server: Server,
    pub(super) cx: RequestContext,
    /// The parameters as the client wrote them, for a method of an extension.
    pub(super) raw_params: Option<Box<RawValue>>,
}

#[derive(Clone)]
struct Outcome(Result<Reply, RpcError>);

impl MethodTable {
    /// Adds a method with a new name.
    pub(super) fn add<F, Fut>(&mut self, name: &'static str, method: F)
    where
        F: Fn(MethodCall) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<Reply, RpcError>> + Send,
    {
        let callback = MethodCallback::Async(Arc::new(
            move |_id, _params, _connection, _limit, mut extensions: Extensions| {
                let method = method.clone();
                Box::pin(async move {
                    let call = extensions.remove().expect("Method::call inserts the call");
                    extensions.insert(Outcome(method(call).await));
                    MethodResponse::notification().with_extensions(extensions)
                })
            },
        ));
        self.0.verify_and_insert(name, callback).expect("the callers add each name once");
    }

    pub(super) fn find(&self, name: &str) -> Option<Method> {
        let (name, callback) = self.0.method_with_name(name)?;
        Some(Method { name, is_extension: false, callback: callback.clone() })
    }
}

impl Method {
    /// Calls the method. A panic becomes an error.
    pub(super) async fn call(self, call: MethodCall) -> Result<Reply, RpcError> {
        let MethodCallback::Async(callback) = self.callback else {
            return Err(RpcError::internal("only asynchronous methods are added to a table"));
        };
        let mut extensions = Extensions::new();
        extensions.insert(call);
        let work = callback(Id::Null, Params::new(None), ConnectionId(0), usize::MAX, extensions);
        let Ok(mut response) = AssertUnwindSafe(work).catch_unwind().await else {
            return Err(RpcError::internal(format!("method '{}' panicked", self.name)));
        };
        let Some(Outcome(outcome)) = response.extensions_mut().remove() else {
            return Err(RpcError::internal("the method returned no outcome"));
        };
        outcome
    }
}
