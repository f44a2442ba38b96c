//! A server without documents, records and chat.

use std::sync::Arc;

use marquetry_config::{Config, ConfigError, NOT_BUILT};
use marquetry_gateway::GatewayOptions;
use marquetry_protocol::{
    RpcError,
    server::{ChangeListener, Principal, Reply, RequestContext, Server, Toolbox},
    types::{
        CallToolResult, CompleteParams, CompleteResult, GetPromptParams, Prompt, Resource,
        ResourceTemplate,
    },
};
use serde_json::{Map, Value};

use crate::faults::Faults;

/// There is no model that could get contexts of Views.
pub(crate) type ViewContexts = ();

/// Documents, records and chat of a program that is built without them.
#[derive(Clone)]
pub(crate) struct Knowledge;

type Page = (Vec<Resource>, Option<String>);

impl Knowledge {
    pub(crate) fn new(
        _: &Config,
        _: Arc<dyn ChangeListener>,
        _: ViewContexts,
    ) -> Result<Self, ConfigError> {
        Ok(Self)
    }

    /// The configuration has no upstream with sampling: it needs a model.
    pub(crate) fn add_sampler(&self, _: &Config, _: &mut GatewayOptions) {}

    pub(crate) fn is_enabled(&self) -> bool {
        false
    }

    pub(crate) async fn close(&self) {}

    pub(crate) fn add_methods(&self, server: Server) -> Server {
        server
    }

    pub(crate) fn reserved_tools(_: &Config) -> &'static [&'static str] {
        &[]
    }

    pub(crate) fn add_tools(&self, toolbox: Toolbox) -> Toolbox {
        toolbox
    }

    pub(crate) fn is_listed(&self, _: &str) -> bool {
        true
    }

    pub(crate) fn listing(_: &str) -> Option<(&'static str, Value)> {
        None
    }

    pub(crate) fn finish(_: &str, _: &mut CallToolResult, _: &Faults) -> Option<Value> {
        None
    }

    pub(crate) fn instructions(_: impl Fn(&str) -> bool) -> Option<String> {
        None
    }

    pub(crate) fn owns(&self, _: &str) -> bool {
        false
    }

    pub(crate) async fn resources(
        &self,
        _: Option<&str>,
        _: usize,
        _: &RequestContext,
    ) -> Result<Page, RpcError> {
        Ok(Page::default())
    }

    pub(crate) async fn resources_of_type(
        &self,
        _: String,
        _: Option<&str>,
        _: usize,
        _: Option<&Principal>,
    ) -> Result<Page, RpcError> {
        Err(RpcError::invalid_params(format!("type: {NOT_BUILT}")))
    }

    pub(crate) fn templates(&self) -> Vec<ResourceTemplate> {
        Vec::new()
    }

    pub(crate) async fn read(
        &self,
        uri: &str,
        _: usize,
        _: &RequestContext,
    ) -> Result<Reply, RpcError> {
        Err(RpcError::resource_not_found(uri))
    }

    pub(crate) fn record_name(_: &Map<String, Value>) -> Option<&Value> {
        None
    }

    pub(crate) async fn watch(&self, uri: &str, _: &RequestContext) -> Result<(), RpcError> {
        Err(RpcError::resource_not_found(uri))
    }

    pub(crate) fn unwatch(&self, _: &str) {}

    pub(crate) async fn prompts(
        &self,
        _: impl Fn(&str) -> bool,
        _: &RequestContext,
    ) -> Result<Vec<Prompt>, RpcError> {
        Ok(Vec::new())
    }

    pub(crate) async fn prompt(
        &self,
        _: &GetPromptParams,
        _: impl Fn(&str) -> bool,
        _: &RequestContext,
    ) -> Result<Option<Reply>, RpcError> {
        Ok(None)
    }

    pub(crate) async fn complete(
        &self,
        _: &CompleteParams,
        _: impl Fn(&str) -> bool,
        _: &RequestContext,
    ) -> Result<Option<CompleteResult>, RpcError> {
        Ok(None)
    }
}

/// No code is known without knowledge.
pub(crate) fn code_of_failure(_: &str) -> Option<(u16, &'static str)> {
    None
}
