//! Answers to a server's questions, in both eras.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use marquetry_protocol_wire::{Request, RpcError, envelope, types::InputRequest};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use super::{error::ClientError, handler::ClientHandler};

/// A stateless server's questions (2026-07-28, `input_required`).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InputRequired {
    #[serde(default)]
    input_requests: BTreeMap<String, InputRequest>,
    #[serde(default)]
    request_state: Option<String>,
}

impl InputRequired {
    /// Returns whether it contains a question.
    pub(super) fn asks(&self) -> bool {
        !self.input_requests.is_empty()
    }
}

/// Returns the bytes of the answer to a session-era server's request.
pub(super) async fn answer(handler: &dyn ClientHandler, request: Answerable) -> Vec<u8> {
    match result(handler, &request.method, request.params.as_deref()).await {
        Ok(result) => envelope::write_result(&request.id, &result),
        Err(error) => envelope::write_error(Some(&request.id), &error),
    }
}

/// A request that owns its data.
pub(super) struct Answerable {
    pub(super) id: marquetry_protocol_wire::RequestId,
    method: String,
    params: Option<Box<RawValue>>,
}

impl From<&Request<'_>> for Answerable {
    fn from(request: &Request<'_>) -> Self {
        Self {
            id: request.id.clone(),
            method: request.method.clone().into_owned(),
            params: request.params.map(ToOwned::to_owned),
        }
    }
}

/// Returns the parameters of the next round: those of the first one with the answers to the
/// server's questions.
pub(super) async fn next_round(
    handler: &dyn ClientHandler,
    params: Option<&RawValue>,
    asked: InputRequired,
) -> Result<Box<RawValue>, ClientError> {
    let answers = asked.input_requests.iter().map(async |(key, question)| {
        let answer = result(handler, &question.method, question.params.as_deref()).await?;
        Ok::<_, RpcError>((key.as_str(), answer))
    });
    // Without an answer the request cannot continue; the caller gets the reason.
    let answers: BTreeMap<&str, Box<RawValue>> =
        try_join_all(answers).await.map_err(ClientError::Unanswered)?.into_iter().collect();
    let mut members: BTreeMap<String, Box<RawValue>> = match params {
        Some(params) => serde_json::from_str(params.get()).map_err(ClientError::params)?,
        None => BTreeMap::new(),
    };
    members
        .insert("inputResponses".to_owned(), to_raw_value(&answers).map_err(ClientError::params)?);
    match asked.request_state {
        // The state belongs to the server: it is sent back unchanged.
        Some(state) => members
            .insert("requestState".to_owned(), to_raw_value(&state).map_err(ClientError::params)?),
        None => members.remove("requestState"),
    };
    to_raw_value(&members).map_err(ClientError::params)
}

pub(super) async fn result(
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
