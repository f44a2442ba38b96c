//! Errors of calls: which of them are the upstream's fault, and what the agent gets.

use std::{borrow::Cow, fmt};

use marquetry_protocol::{Era, RpcError, client::ClientError, error_code};
use marquetry_redact::without_known_secrets;
use serde::{Deserialize, Serialize};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use super::{Upstream, UpstreamState, limited::Limited, stderr::last_lines};

/// Error for an upstream that gave no answer.
#[derive(Debug)]
#[non_exhaustive]
pub struct Unreachable {
    /// The upstream's name.
    pub upstream: String,
    /// Name of its state, for programs.
    pub state: &'static str,
    /// Kind of the failure, for programs.
    pub kind: FailureKind,
    /// Description of the failure, which continues a sentence that begins with the upstream's name.
    pub what: String,
}

/// Kind of a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The upstream is down, or was lost during the call.
    Unreachable,
    /// The upstream did not answer in time.
    Timeout,
    /// The upstream refuses this server's credentials.
    Unauthorized,
}

/// Error of a tool call.
#[derive(Debug)]
pub enum CallFailure {
    /// A protocol error: the upstream's own, passed on unchanged, or an unknown tool.
    Rpc(RpcError),
    /// The upstream gave no answer.
    Unreachable(Unreachable),
    /// A limit of this server refuses the call for now.
    Limited(Limited),
    /// This gateway refuses the call, for a reason that the model can act on.
    Refused(String),
    /// No person has allowed the call, for this reason. The upstream did not get it.
    NotAllowed(String),
}

impl Unreachable {
    pub(super) fn of(upstream: &Upstream, state: &UpstreamState) -> Self {
        Self {
            upstream: upstream.name().to_owned(),
            state: state.name(),
            kind: FailureKind::Unreachable,
            what: state.to_string(),
        }
    }

    pub(super) fn during_call(
        upstream: &Upstream,
        state: &UpstreamState,
        error: &ClientError,
    ) -> Self {
        let mut what = match error {
            ClientError::Closed(reason) => format!("ended during the call ({reason})"),
            ClientError::Timeout(limit) => {
                let is_usual = *limit == upstream.call_timeout();
                let setting = if is_usual { "call_timeout_ms" } else { "max_call_ms" };
                format!("gave no answer within {} ms ({setting})", limit.as_millis())
            }
            error => format!("gave no answer: {error}"),
        };
        if let UpstreamState::BackingOff { retry_in_ms, .. } = state {
            what += &format!("; it is started again within {} s", retry_in_ms.div_ceil(1_000));
        }
        what += &last_lines(state.stderr());
        what = without_known_secrets(what).into_owned();
        let kind = match error {
            ClientError::Timeout(_) => FailureKind::Timeout,
            _ => FailureKind::Unreachable,
        };
        Self { upstream: upstream.name().to_owned(), state: state.name(), kind, what }
    }

    /// Returns the facts for programs as JSON.
    #[must_use]
    pub fn data(&self) -> serde_json::Value {
        json!({"upstream": self.upstream, "state": self.state, "kind": self.kind})
    }
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "upstream '{}' {}", self.upstream, self.what)
    }
}

impl From<RpcError> for CallFailure {
    fn from(error: RpcError) -> Self {
        Self::Rpc(error)
    }
}

/// Prompts and resources have no failed results, so a missing upstream is a protocol error.
impl From<CallFailure> for RpcError {
    fn from(failure: CallFailure) -> Self {
        match failure {
            CallFailure::Rpc(error) => error,
            CallFailure::Unreachable(unreachable) => {
                Self::internal(unreachable.to_string()).with_data(&unreachable.data())
            }
            CallFailure::Limited(limited) => {
                Self::too_many_requests(limited.to_string()).with_data(&limited.data())
            }
            CallFailure::Refused(why) => Self::invalid_params(why),
            CallFailure::NotAllowed(why) => Self::invalid_request(why),
        }
    }
}

/// Returns the error for an agent whose call an upstream refused with 401 or 403.
///
/// The upstream refuses the credentials of this gateway: an agent has none there, and its own token
/// must not be forwarded (2025-11-25, "Token Passthrough"). A 401 would ask the agent to log in at
/// this server, so the agent gets an error with the upstream's name and status.
pub(super) fn unauthorized(
    upstream: &Upstream,
    why: &str,
    status: u16,
    challenges: Vec<String>,
) -> RpcError {
    let message = format!("upstream '{}' {why}", upstream.name());
    RpcError::new(UPSTREAM_UNAUTHORIZED, message).with_data(&json!({
        "upstream": upstream.name(),
        "kind": FailureKind::Unauthorized,
        "status": status,
        "wwwAuthenticate": challenges,
    }))
}

pub(super) const FORBIDDEN: u16 = 403;

/// An upstream refuses this server's credentials.
const UPSTREAM_UNAUTHORIZED: i32 = 502;

/// Returns whether an error is the upstream's fault. A caller that cancels, or does not answer a
/// question, is not.
pub(super) fn is_fault_of_upstream(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::Closed(_)
            | ClientError::Io { .. }
            | ClientError::Http { .. }
            | ClientError::Timeout(_)
            | ClientError::Unauthorized(_)
    )
}

/// Converts an upstream's error for an agent.
///
/// Codes from -32020 to -32099 are defined by the specification. For a stateless agent they would
/// be errors of this server; only "missing capability" applies to the agent itself. In sessions all
/// codes pass. Messages get the upstream's name, and so do pages to visit.
pub(super) fn error_for_agent(upstream: &Upstream, mut error: RpcError, era: Era) -> RpcError {
    hide_known_secrets(&mut error);
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
        _ => {
            error.message = format!("upstream '{}': {}", upstream.name(), error.message);
            error
        }
    }
}

/// Removes secrets of this server, which an upstream may repeat.
fn hide_known_secrets(error: &mut RpcError) {
    if let Cow::Owned(message) = without_known_secrets(&*error.message) {
        error.message = message;
    }
    if let Some(data) = &error.data
        && let Cow::Owned(text) = without_known_secrets(data.get())
    {
        error.data = RawValue::from_string(text).ok();
    }
}

/// Returns whether an upstream requires a visit to a page before it answers (2025-11-25).
pub(super) fn is_page(error: &RpcError) -> bool {
    error.code == error_code::URL_ELICITATION_REQUIRED
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

/// Bytes of a message that are passed on: enough for a stack trace.
const MAX_MESSAGE_BYTES: usize = 16 << 10;
/// Bytes of data that are passed on. The lists of web pages in errors of URL elicitation are
/// smaller.
const MAX_DATA_BYTES: usize = 64 << 10;

/// Cuts a message that is too long, and says so in it; leaves out data that is too long.
pub(super) fn shortened_error(error: ClientError) -> ClientError {
    let ClientError::Rpc(mut error) = error else { return error };
    shorten(&mut error);
    ClientError::Rpc(error)
}

fn shorten(error: &mut RpcError) {
    let bytes = error.message.len();
    if bytes > MAX_MESSAGE_BYTES {
        let start = &error.message[..error.message.floor_char_boundary(MAX_MESSAGE_BYTES)];
        let message = format!("{start}… (the first {} of {bytes} bytes)", start.len());
        error.message = message;
    }
    if let Some(data) = error.data.take_if(|data| data.get().len() > MAX_DATA_BYTES) {
        let note = format!(" ({} bytes of data are left out)", data.get().len());
        error.message.push_str(&note);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn errors_of_a_caller_leave_the_upstream_trusted() {
        let refused = RpcError::invalid_params("nobody answers");
        for error in [
            ClientError::Cancelled,
            ClientError::TaskCancelled,
            ClientError::Unanswered(refused),
            ClientError::TooManyRounds(3),
        ] {
            assert!(!is_fault_of_upstream(&error), "{error}");
        }
        let http = ClientError::Http { status: 500, body: String::new() };
        for error in [ClientError::Timeout(Duration::from_secs(1)), http] {
            assert!(is_fault_of_upstream(&error), "{error}");
        }
    }

    #[test]
    fn a_short_error_is_passed_on_unchanged() {
        let error = RpcError::new(-32042, "x".repeat(MAX_MESSAGE_BYTES)).with_data(&["page"]);
        let mut same = error.clone();
        shorten(&mut same);
        assert_eq!(same, error);
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let mut error = RpcError::new(-32000, "ä".repeat(MAX_MESSAGE_BYTES) + "x");
        shorten(&mut error);
        assert!(error.message.starts_with("ää"));
        assert!(
            error.message.ends_with("ä… (the first 16384 of 32769 bytes)"),
            "{}",
            error.message
        );
        assert!(error.message.len() < MAX_MESSAGE_BYTES + 100);
    }

    #[test]
    fn long_data_is_left_out() {
        let mut error = RpcError::new(-32000, "no").with_data(&"x".repeat(MAX_DATA_BYTES));
        shorten(&mut error);
        assert_eq!(error, RpcError::new(-32000, "no (65538 bytes of data are left out)"));
    }
}
