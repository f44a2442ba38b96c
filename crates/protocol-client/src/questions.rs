//! Answers the server's questions, in both eras.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use marquetry_protocol_wire::{Request, RpcError, envelope, types::InputRequest};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use super::{error::ClientError, handler::ClientHandler};

/// The result by which a stateless server asks questions (2026-07-28, `input_required`).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InputRequired {
    #[serde(default)]
    input_requests: BTreeMap<String, InputRequest>,
    #[serde(default)]
    request_state: Option<String>,
}

impl InputRequired {
    /// Returns whether the result contains a question. One without only asks for a repeat.
    pub(super) fn has_questions(&self) -> bool {
        !self.input_requests.is_empty()
    }
}

/// Returns the response to a session-era server's request, as bytes to send.
pub(super) async fn response(handler: &dyn ClientHandler, request: OwnedRequest) -> Vec<u8> {
    match answer(handler, &request.method, request.params.as_deref()).await {
        Ok(result) => envelope::write_result(&request.id, &result),
        Err(error) => envelope::write_error(Some(&request.id), &error),
    }
}

/// A server's request that owns its data, so that a task of its own can answer it.
pub(super) struct OwnedRequest {
    pub(super) id: marquetry_protocol_wire::RequestId,
    method: String,
    params: Option<Box<RawValue>>,
}

impl From<&Request<'_>> for OwnedRequest {
    fn from(request: &Request<'_>) -> Self {
        Self {
            id: request.id.clone(),
            method: request.method.clone().into_owned(),
            params: request.params.map(ToOwned::to_owned),
        }
    }
}

/// Answers the questions and returns the parameters with which the request is repeated: those of
/// the first round, the answers, and the server's state.
pub(super) async fn next_round(
    handler: &dyn ClientHandler,
    params: Option<&RawValue>,
    asked: InputRequired,
) -> Result<Box<RawValue>, ClientError> {
    let answers = asked.input_requests.iter().map(async |(key, question)| {
        let answer = answer(handler, &question.method, question.params.as_deref()).await?;
        Ok::<_, RpcError>((key.as_str(), answer))
    });
    // Without an answer the request cannot continue; the caller gets the reason.
    let answers: BTreeMap<&str, Box<RawValue>> =
        try_join_all(answers).await.map_err(ClientError::Unanswered)?.into_iter().collect();
    let mut members: BTreeMap<String, Box<RawValue>> = match params {
        Some(params) => serde_json::from_str(params.get()).map_err(ClientError::params)?,
        None => BTreeMap::new(),
    };
    let answers = to_raw_value(&answers).map_err(ClientError::params)?;
    members.insert("inputResponses".to_owned(), answers);
    // The state belongs to the server: it is sent back unchanged.
    if let Some(state) = asked.request_state {
        let state = to_raw_value(&state).map_err(ClientError::params)?;
        members.insert("requestState".to_owned(), state);
    } else {
        members.remove("requestState");
    }
    to_raw_value(&members).map_err(ClientError::params)
}

/// Returns the handler's answer to a request. Pings are answered here.
pub(super) async fn answer(
    handler: &dyn ClientHandler,
    method: &str,
    params: Option<&RawValue>,
) -> Result<Box<RawValue>, RpcError> {
    match method {
        "ping" => to_raw_value(&serde_json::json!({}))
            .map_err(|error| RpcError::internal(error.to_string())),
        _ => handler.request(method, params).await,
    }
}
