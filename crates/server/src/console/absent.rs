//! A server without a console, which records nothing.

use marquetry_artifact_tools::ChangedFor;
use marquetry_artifacts::{Captured, Settings};
use marquetry_protocol::{
    RpcError,
    server::{Reply, RequestContext},
    types::CallToolParams,
};
use serde_json::{Value, value::RawValue};

/// Records no call.
#[derive(Clone, Default)]
pub(crate) struct Recorder;

/// The record of a call that is not kept.
pub(crate) struct CallRecord;

impl Recorder {
    /// There are no Views without a console.
    #[cfg(feature = "knowledge")]
    pub(crate) fn view_contexts(
        &self,
    ) -> Option<std::sync::Arc<dyn marquetry_knowledge::chat::TurnContext>> {
        None
    }

    /// There is no model that could get contexts of Views.
    #[cfg(not(feature = "knowledge"))]
    pub(crate) fn view_contexts(&self) {}

    pub(crate) fn artifacts_changed(&self, _: &ChangedFor<'_>) {}

    pub(crate) fn begin<'a>(
        &self,
        _: &CallToolParams,
        _: impl FnOnce() -> Option<&'a Value>,
        _: &RequestContext,
    ) -> CallRecord {
        CallRecord
    }
}

impl CallRecord {
    pub(crate) fn sent_to(&self, _: &str) {}

    pub(crate) fn said(&self, _: &RawValue) {}

    pub(crate) fn captured(&self, _: &Captured, _: &Settings) {}

    pub(crate) fn unreachable(&mut self, _: String) {}

    pub(crate) fn end(self, _: &Result<Reply, RpcError>) {}
}

/// Ignores changed lists, since there is no console to tell.
pub(crate) struct ListListener;

impl ListListener {
    pub(crate) fn tools_changed(&self) {}

    pub(crate) fn prompts_changed(&self) {}

    pub(crate) fn resources_changed(&self) {}
}
