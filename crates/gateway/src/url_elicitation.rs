//! Asks stateless agents to visit pages that an upstream requires before a call can continue.
//!
//! In 2025-11-25 an upstream refuses such a call with -32042, and the client repeats it after the
//! visit. 2026-07-28 has no such error: a stateless agent gets `input_required` with the pages. It
//! comes back when its user has *opened* them, which is earlier than the upstream knows of the
//! visit. So this module repeats the call for a while before it asks the user again.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::FutureExt as _;
use marquetry_protocol::{
    RpcError,
    client::{Client, ClientError},
    error_code,
    server::{RequestContext, fair::Slot},
    types::{ElicitAction, ElicitResult},
};
use serde::Deserialize;
use serde_json::{json, value::RawValue};

use super::{
    Gateway, Upstream,
    asker::for_agent,
    bridge::{Carried, Outcome, Outgoing},
    call_error::is_page,
    upstream_set::InUse,
};

/// Pages of one error that an agent is asked to visit; further ones are asked for with the next
/// error.
const MAX_PAGES: usize = 16;

/// Time for an upstream to notice a visit to its page, before the user is asked again.
const PATIENCE: Duration = Duration::from_secs(30);

/// The first and the longest pause between two calls in that time. A report of an upstream
/// (`notifications/elicitation/complete`) ends a pause early, but an upstream need not send one.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(4));

/// The pages that an agent's user was asked to visit before the request is sent again.
#[derive(Clone, Copy)]
pub(super) struct Visits {
    pub(super) round: usize,
    pub(super) pages: usize,
}

impl Gateway {
    /// Sends a request again after its agent was asked for visits. While the upstream has not
    /// noticed an accepted visit, the request is repeated for a while.
    pub(super) async fn exchange_after(
        &self,
        Visits { round, pages }: Visits,
        upstream: &InUse,
        client: &Client,
        request: Outgoing,
        slot: Option<Arc<Slot>>,
        cx: &RequestContext,
    ) -> Outcome {
        // The worst answer decides, because the upstream wants every page visited.
        let visits = (0..pages).map(|page| visit(cx, round, page));
        match visits.min().unwrap_or(Visit::Unanswered) {
            // Another call would only ask the same again.
            Visit::Refused => {
                return Err(ClientError::Rpc(not_visited(upstream)));
            }
            Visit::Unanswered => return self.exchange(upstream, client, request, slot, cx).await,
            Visit::Accepted => {}
        }
        let mut pause = PAUSES.0;
        let give_up = Instant::now() + PATIENCE;
        loop {
            // Before the call, so that a report during the call is not missed. The reports of all
            // upstreams end the pause: a call too many does no harm, since it was refused before.
            let finished = self.pages.finished.notified();
            let outcome = self.exchange(upstream, client, request.clone(), slot.clone(), cx).await;
            let is_refused = matches!(&outcome, Err(ClientError::Rpc(error)) if is_page(error));
            // No pause that ends too late: the user would only wait longer for the same answer.
            if !is_refused || Instant::now() + pause > give_up {
                return outcome;
            }
            // The agent reports that its user has opened the page, not that the user is done.
            _ = tokio::time::timeout(pause, finished).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Asks a stateless agent for visits to the pages that `error` names. The agent gets
    /// `input_required`, and this future is dropped.
    pub(super) async fn ask_for_visits(
        &self,
        upstream: &Upstream,
        error: RpcError,
        round: usize,
        cx: &RequestContext,
    ) -> Outcome {
        let pages = pages(error).map_err(ClientError::Rpc)?;
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
            if let Some(Err(error)) = asked.now_or_never() {
                return Err(ClientError::Rpc(error));
            }
        }
        std::future::pending().await
    }
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
