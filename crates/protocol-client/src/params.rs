//! Parameters that a revision adds to a request.

use std::collections::BTreeMap;

use marquetry_protocol_wire::{
    Era, RequestId, Revision,
    types::{
        ClientCapabilities, JsonObject, LogLevel, ServerCapabilities, TASKS_EXTENSION, meta_key,
    },
};
use serde::Deserialize;
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};

use super::{error::ClientError, options::ClientOptions};

/// Values for a request's `_meta`.
pub(super) struct Asks<'a> {
    pub(super) revision: Revision,
    pub(super) options: &'a ClientOptions,
    /// Capabilities for this request, if they differ from the options.
    pub(super) capabilities: Option<&'a ClientCapabilities>,
    /// The level of log messages that a stateless server should send.
    pub(super) log_level: Option<LogLevel>,
    pub(super) progress_token: Option<&'a RequestId>,
    /// Whether the request may be answered with a task.
    pub(super) tasks: bool,
}

/// Returns the parameters with these values; [`None`] if they need no change.
pub(super) fn prepare(
    params: Option<&RawValue>,
    asks: &Asks<'_>,
) -> Result<Option<Box<RawValue>>, ClientError> {
    if asks.revision.era() == Era::Session && asks.progress_token.is_none() {
        return Ok(None);
    }
    let mut members: BTreeMap<String, Box<RawValue>> = match params {
        Some(params) => serde_json::from_str(params.get()).map_err(ClientError::params)?,
        None => BTreeMap::new(),
    };
    let mut meta: JsonObject = match members.get("_meta") {
        Some(meta) => serde_json::from_str(meta.get()).map_err(ClientError::params)?,
        None => JsonObject::new(),
    };
    if asks.revision.era() == Era::Stateless {
        meta.insert(meta_key::PROTOCOL_VERSION.to_owned(), json!(asks.revision));
        let mut capabilities = asks.capabilities.unwrap_or(&asks.options.capabilities).clone();
        if asks.tasks {
            capabilities.add_extension(TASKS_EXTENSION);
        }
        meta.insert(meta_key::CLIENT_CAPABILITIES.to_owned(), json!(capabilities));
        if let Some(level) = asks.log_level {
            meta.insert(meta_key::LOG_LEVEL.to_owned(), json!(level));
        }
        meta.insert(meta_key::CLIENT_INFO.to_owned(), json!(asks.options.implementation));
    }
    if let Some(token) = asks.progress_token {
        meta.insert("progressToken".to_owned(), json!(token));
    }
    members.insert("_meta".to_owned(), to_raw_value(&meta).map_err(ClientError::params)?);
    to_raw_value(&members).map(Some).map_err(ClientError::params)
}

/// The kind of a stateless server's result (2026-07-28, `resultType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResultKind {
    /// The answer.
    Complete,
    /// A question.
    InputRequired,
    /// A task that will have the answer.
    Task,
    /// An unknown kind, which must not be taken for an answer (2026-07-28, "ResultType").
    Unknown,
}

impl ResultKind {
    pub(super) fn of(result: &RawValue) -> Self {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Kind<'a> {
            #[serde(borrow)]
            result_type: Option<std::borrow::Cow<'a, str>>,
        }
        // A search is cheaper than parsing, and results may be large.
        let text = result.get();
        if text.starts_with(r#"{"resultType":"complete""#)
            || text.contains(r#""resultType":"complete""#)
                && !text.contains("input_required")
                && !text.contains("taskId")
            || !text.contains("resultType")
        {
            return Self::Complete;
        }
        // Servers of older revisions send none.
        let kind = serde_json::from_str::<Kind<'_>>(text).ok().and_then(|kind| kind.result_type);
        match kind.as_deref() {
            None | Some("complete") => Self::Complete,
            Some("input_required") => Self::InputRequired,
            Some("task") => Self::Task,
            Some(_) => Self::Unknown,
        }
    }
}

/// Returns the parameters of `subscriptions/listen`, for every announcement that the server
/// declares; [`None`] if it declares none.
pub(super) fn listen_params(capabilities: &ServerCapabilities) -> Option<Box<RawValue>> {
    let tools = capabilities.tools.is_some_and(|tools| tools.list_changed);
    let prompts = capabilities.prompts.is_some_and(|prompts| prompts.list_changed);
    let resources = capabilities.resources.is_some_and(|resources| resources.list_changed);
    if !(tools || prompts || resources) {
        return None;
    }
    let wanted = json!({
        "toolsListChanged": tools, "promptsListChanged": prompts, "resourcesListChanged": resources,
    });
    to_raw_value(&json!({ "notifications": wanted })).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meta_is_added_to_and_the_rest_is_kept() {
        let options = ClientOptions::default();
        let params = RawValue::from_string(
            r#"{"name":"t","arguments":{"a":1.0},"_meta":{"x":1}}"#.to_owned(),
        )
        .unwrap();
        let id = RequestId::from(4);
        let asks = Asks {
            revision: Revision::V2025_11_25,
            options: &options,
            capabilities: None,
            log_level: None,
            progress_token: None,
            tasks: true,
        };
        assert!(prepare(Some(&params), &asks).unwrap().is_none());

        let asks = Asks {
            revision: Revision::V2025_11_25,
            options: &options,
            capabilities: None,
            log_level: None,
            progress_token: Some(&id),
            tasks: true,
        };
        let prepared = prepare(Some(&params), &asks).unwrap().unwrap();
        assert_eq!(
            prepared.get(),
            r#"{"_meta":{"x":1,"progressToken":4},"arguments":{"a":1.0},"name":"t"}"#
        );

        let asks = Asks {
            revision: Revision::V2026_07_28,
            options: &options,
            capabilities: None,
            log_level: None,
            progress_token: None,
            tasks: true,
        };
        let prepared: JsonObject =
            serde_json::from_str(prepare(None, &asks).unwrap().unwrap().get()).unwrap();
        assert_eq!(prepared["_meta"][meta_key::PROTOCOL_VERSION], "2026-07-28");
        assert_eq!(
            prepared["_meta"][meta_key::CLIENT_CAPABILITIES],
            json!({ "extensions": { TASKS_EXTENSION: {} } })
        );
        let asks = Asks { tasks: false, ..asks };
        let prepared: JsonObject =
            serde_json::from_str(prepare(None, &asks).unwrap().unwrap().get()).unwrap();
        assert_eq!(prepared["_meta"][meta_key::CLIENT_CAPABILITIES], json!({}));
    }

    #[test]
    fn questions_are_told_from_answers() {
        for (text, kind) in [
            (r#"{"resultType":"input_required","inputRequests":{}}"#, ResultKind::InputRequired),
            (r#"{"taskId":"1","resultType":"task"}"#, ResultKind::Task),
            (
                r#"{"resultType":"complete","content":[{"text":"input_required"}]}"#,
                ResultKind::Complete,
            ),
            (r#"{"resultType":"complete","taskId":"task"}"#, ResultKind::Complete),
            (r#"{"content":[]}"#, ResultKind::Complete),
            (r#"{"content":["resultType"]}"#, ResultKind::Complete),
            (r#"{"content":[],"resultType":"complete"}"#, ResultKind::Complete),
            (r#"{"content":[],"resultType":"hologram"}"#, ResultKind::Unknown),
        ] {
            let result = RawValue::from_string(text.to_owned()).unwrap();
            assert_eq!(ResultKind::of(&result), kind, "{text}");
        }
    }
}
