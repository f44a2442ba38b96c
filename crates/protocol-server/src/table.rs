//! The tables of methods, which jsonrpsee keeps.

use std::{future::Future, panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt as _;
use jsonrpsee::{
    ConnectionId, Extensions,
    core::server::{MethodCallback, MethodResponse, Methods},
    types::{Id, Params},
};
use marquetry_protocol_wire::{Era, RpcError};
use serde_json::value::RawValue;

use super::{Reply, RequestContext, Server};

/// A table for each era.
#[derive(Clone)]
pub(super) struct Tables {
    pub(super) session: MethodTable,
    pub(super) stateless: MethodTable,
    /// Methods of extensions, in both eras.
    pub(super) extension: MethodTable,
}

/// Methods by name.
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

/// A server has a method with that name already.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server has a method '{name}' already; give the new one another name")]
pub struct MethodExists {
    /// The name.
    pub name: &'static str,
}

/// The result of a method, stored in the extensions of its response, so that a large result is not
/// serialised again.
#[derive(Clone)]
struct Outcome(Result<Reply, RpcError>);

impl Tables {
    /// Adds a method of an extension.
    ///
    /// # Errors
    /// Returns an error if a method has that name.
    pub(super) fn with<F, Fut>(
        mut self,
        name: &'static str,
        answer: F,
    ) -> Result<Self, MethodExists>
    where
        F: Fn(Option<Box<RawValue>>, RequestContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Reply, RpcError>> + Send + 'static,
    {
        if self.session.has(name) || self.stateless.has(name) || self.extension.has(name) {
            return Err(MethodExists { name });
        }
        let answer = Arc::new(answer);
        self.extension.add(name, move |call: MethodCall| answer(call.raw_params, call.cx));
        Ok(self)
    }

    pub(super) fn find(&self, era: Era, name: &str) -> Option<Method> {
        let ours = match era {
            Era::Session => &self.session,
            Era::Stateless => &self.stateless,
        };
        ours.find(name, false).or_else(|| self.extension.find(name, true))
    }
}

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
                    let outcome = match extensions.remove::<MethodCall>() {
                        Some(call) => method(call).await,
                        None => Err(RpcError::internal("call came without its context")),
                    };
                    extensions.insert(Outcome(outcome));
                    MethodResponse::notification().with_extensions(extensions)
                })
            },
        ));
        self.0.verify_and_insert(name, callback).expect("the callers add each name once");
    }

    fn has(&self, name: &str) -> bool {
        self.0.method(name).is_some()
    }

    fn find(&self, name: &str, is_extension: bool) -> Option<Method> {
        let (name, callback) = self.0.method_with_name(name)?;
        Some(Method { name, is_extension, callback: callback.clone() })
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
        // Call and outcome pass through the extensions, and the other arguments are unused:
        // jsonrpsee does not support negative ids, and would copy the result to write one.
        let work = callback(Id::Null, Params::new(None), ConnectionId(0), usize::MAX, extensions);
        let Ok(mut response) = AssertUnwindSafe(work).catch_unwind().await else {
            return Err(RpcError::internal(format!("method '{}' panicked", self.name)));
        };
        match response.extensions_mut().remove::<Outcome>() {
            Some(Outcome(outcome)) => outcome,
            None => Err(RpcError::internal("the method returned no outcome")),
        }
    }
}
