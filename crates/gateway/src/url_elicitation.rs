//! Converts errors of upstreams for the agent's revision, in particular requests to visit pages
//! before a call can continue.
//!
//! In 2025-11-25 an upstream refuses such a call with -32042, and the client repeats it after the
//! visit. 2026-07-28 has no such error: a stateless agent gets `input_required` with the pages. It
//! comes back when its user has *opened* them, which is earlier than the upstream knows of the
//! visit. So this module repeats the call for a while before it asks the user again.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use marquetry_protocol::{
    Era, RpcError,
    client::{Client, ClientError},
    error_code,
    server::{RequestContext, fair::Slot},
    types::{ElicitAction, ElicitResult},
};
use serde::Deserialize;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use super::{
    Gateway, Upstream,
    asker::for_agent,
    bridge::{Carried, Outcome, Outgoing},
    poll::polled_once,
};

/// Pages of one error that an agent is asked to visit; further ones are asked for with the next
/// error.
const MAX_PAGES: usize = 16;

/// Time for an upstream to notice a visit to its page, before the user is asked again.
const PATIENCE: Duration = Duration::from_secs(30);

/// The first and the longest pause between two calls in that time. A
/// report of an upstream (`notifications/elicitation/complete`) ends a pause early.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(4));

impl Gateway {
    /// Sends a request as [`Self::exchange`] does. If the upstream asks a stateless agent for a
    /// visit to a page (-32042, 2025-11-25), the agent gets `input_required`, and the request is
    /// sent again.
    pub(super) async fn exchange_with_url_elicitation(
        &self,
        index: usize,
        client: &Client,
        request: Outgoing,
        slot: Option<Slot>,
        cx: &RequestContext,
    ) -> Outcome {
        let slot = slot.map(Arc::new);
        // MCP has `input_required` only for these methods.
        let can_ask = cx.revision().era() == Era::Stateless
            && matches!(request.target.method, "tools/call" | "prompts/get" | "resources/read");
        if !can_ask {
            return self.exchange(index, client, request, slot, cx).await;
        }
        let upstream = &self.upstreams[index];
        let (round, has_visited) = match cx.carried().map_err(ClientError::Rpc)? {
            Some(Carried::Visiting { round, pages }) => {
                let visits = (0..pages).map(|page| visit(cx, round, page));
                match visits.min().unwrap_or(Visit::Unanswered) {
                    // Another call would only ask the same again.
                    Visit::Refused => return Err(ClientError::Rpc(not_visited(upstream))),
                    Visit::Unanswered => (round, false),
                    Visit::Accepted => (round, true),
                }
            }
            _ => (0, false),
        };
        let mut pause = PAUSES.0;
        let give_up = Instant::now() + PATIENCE;
        let pages = loop {
            // Before the call, so that a report during the call is not missed. The reports of all
            // upstreams end the pause: a call too many does no harm, since it was refused before.
            let finished = self.pages.finished.notified();
            // A single call needs no copy of its parameters, and almost all calls are single.
            if !has_visited {
                match self.exchange(index, client, request, slot, cx).await {
                    Err(ClientError::Rpc(error)) if is_page(&error) => {
                        break pages(error).map_err(ClientError::Rpc)?;
                    }
                    outcome => return outcome,
                }
            }
            let exchange = self.exchange(index, client, request.clone(), slot.clone(), cx);
            let error = match exchange.await {
                Err(ClientError::Rpc(error)) if is_page(&error) => error,
                outcome => return outcome,
            };
            if Instant::now() + pause > give_up {
                break pages(error).map_err(ClientError::Rpc)?;
            }
            // The agent reports that its user has opened the page, not that the user is done.
            _ = tokio::time::timeout(pause, finished).await;
            pause = (pause * 2).min(PAUSES.1);
        };
        let max = self.options.limits.max_questions_per_call;
        if round >= max {
            return Err(ClientError::TooManyRounds(max));
        }
        let round = round + 1;
        let carried = Carried::Visiting { round, pages: pages.len() };
        cx.carry(&carried).map_err(ClientError::Rpc)?;
        for (page, params) in pages.iter().enumerate() {
            let asked = async {
                let params =
                    for_agent(upstream.name(), cx.revision(), "elicitation/create", params)?;
                cx.ask(&key(round, page), "elicitation/create", &params).await
            };
            if let Some(Err(error)) = polled_once(asked).await {
                return Err(ClientError::Rpc(error));
            }
        }
        // The agent is asked, and this future is dropped.
        std::future::pending().await
    }
}

/// Converts an upstream's error for an agent.
///
/// Codes from -32020 to -32099 are defined by the specification. For a stateless agent they would
/// be errors of this server; only "missing capability" applies to the agent itself. In sessions all
/// errors pass; only pages to visit get the upstream's name.
pub(super) fn error_for_agent(upstream: &Upstream, error: RpcError, era: Era) -> RpcError {
    let code = error.code;
    let is_reserved = (-32099..=-32020).contains(&code) && code != error_code::MISSING_CAPABILITY;
    match era {
        Era::Stateless if is_reserved => {
            let message = format!("upstream '{}' refused: {}", upstream.name(), error.message);
            let mut data = json!({"upstream": upstream.name(), "code": code});
            if let Some(said) = error.data {
                data["data"] = json!(said);
            }
            RpcError::internal(message).with_data(&data)
        }
        Era::Session if is_page(&error) => with_name(upstream, error),
        _ => error,
    }
}

fn is_page(error: &RpcError) -> bool {
    error.code == error_code::URL_ELICITATION_REQUIRED
}

/// Returns the pages that an error of an upstream names.
///
/// # Errors
/// Returns an error, the one given, if it names no page.
fn pages(error: RpcError) -> Result<Vec<Box<RawValue>>, RpcError> {
    #[derive(Deserialize)]
    struct Data {
        elicitations: Vec<Box<RawValue>>,
    }
    #[derive(Deserialize)]
    struct Page {
        mode: String,
        url: String,
    }
    fn is_page(page: &RawValue) -> bool {
        serde_json::from_str(page.get())
            .is_ok_and(|Page { mode, url }| mode == "url" && !url.is_empty())
    }
    let data = error.data.as_ref().and_then(|data| serde_json::from_str(data.get()).ok());
    let pages: Vec<_> = data
        .map(|Data { elicitations }| {
            elicitations.into_iter().filter(|page| is_page(page)).take(MAX_PAGES).collect()
        })
        .unwrap_or_default();
    if pages.is_empty() { Err(error) } else { Ok(pages) }
}

/// Adds the upstream's name to the message about each page.
fn with_name(upstream: &Upstream, mut error: RpcError) -> RpcError {
    let data = error.data.as_ref().and_then(|data| serde_json::from_str(data.get()).ok());
    let Some(mut data) = data else { return error };
    let data: &mut Value = &mut data;
    let pages = data.get_mut("elicitations").and_then(Value::as_array_mut);
    for page in pages.into_iter().flatten() {
        if let Some(Value::String(message)) = page.get_mut("message") {
            message.insert_str(0, &format!("[{}] ", upstream.name()));
        }
    }
    error.data = to_raw_value(data).ok().or(error.data);
    error
}

/// The agent's answer about one page, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Visit {
    Refused,
    Unanswered,
    Accepted,
}

fn visit(cx: &RequestContext, round: usize, page: usize) -> Visit {
    let answer = cx.answers().and_then(|answers| answers.get(&key(round, page)));
    match answer.and_then(|answer| serde_json::from_str::<ElicitResult>(answer.get()).ok()) {
        Some(ElicitResult { action: ElicitAction::Accept, .. }) => Visit::Accepted,
        Some(_) => Visit::Refused,
        None => Visit::Unanswered,
    }
}

/// Returns the key of the question for one page. It includes the round, so that earlier answers do
/// not match.
fn key(round: usize, page: usize) -> String {
    format!("visit-{round}.{page}")
}

fn not_visited(upstream: &Upstream) -> RpcError {
    let name = upstream.name();
    let message =
        format!("upstream '{name}' requires a visit to its page, and the user did not make it");
    let code = error_code::URL_ELICITATION_REQUIRED;
    RpcError::internal(message).with_data(&json!({"upstream": name, "code": code}))
}
