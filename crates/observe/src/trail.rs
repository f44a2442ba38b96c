//! The audit log of a server: what of an event is written.

use std::{fmt, sync::Arc};

use http::request::Parts;
use marquetry_audit::AuditLog;
use marquetry_protocol::{
    RpcError,
    server::{Peer, RequestContext},
};
use marquetry_rate_limit::LogLimit;
use marquetry_redact::json_without_secrets;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use crate::event::{RequestEnd, RequestEvent, RequestTarget, address_of, principal_name};

/// How much of the arguments of a call is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArgumentDetail {
    /// Nothing.
    None,
    /// The names of the members.
    #[default]
    Keys,
    /// Everything but secrets.
    Full,
}

/// The audit log of a server, and what is written to it.
#[derive(Clone)]
pub struct AuditTrail {
    log: AuditLog,
    detail: ArgumentDetail,
    is_hidden: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    wrong_logins: Arc<LogLimit>,
}

impl AuditTrail {
    /// Writes events to this log, with the names of arguments.
    #[must_use]
    pub fn new(log: AuditLog) -> Self {
        Self {
            log,
            detail: ArgumentDetail::default(),
            is_hidden: Arc::new(|_| false),
            wrong_logins: Arc::new(LogLimit::new(10)),
        }
    }

    /// Sets how much of the arguments is written.
    #[must_use]
    pub fn with_arguments(self, detail: ArgumentDetail) -> Self {
        Self { detail, ..self }
    }

    /// Sets which members of arguments are hidden, by their names, beside those that are secrets by
    /// name or form.
    #[must_use]
    pub fn hiding(self, is_hidden: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { is_hidden: Arc::new(is_hidden), ..self }
    }

    /// Returns the log.
    #[must_use]
    pub fn log(&self) -> &AuditLog {
        &self.log
    }

    /// Writes another event than a request, such as a reload of the configuration, and waits for
    /// its line. A failure is in the state of the log.
    pub async fn event(&self, event: &Value) {
        _ = self.log.write(event).await;
    }

    /// Hands over another event than a request, and does not wait for its line.
    pub fn hand_over(&self, event: &Value) {
        // The log counts what it cannot take.
        _ = self.log.submit(event);
    }

    /// Hands over a login to the console. Wrong codes are written at most ten a second after a
    /// burst of a hundred.
    pub fn console_login(&self, is_right: bool) {
        let suppressed = if is_right { Some(0) } else { self.wrong_logins.admit() };
        let Some(suppressed) = suppressed else { return };
        let outcome = if is_right { "ok" } else { "denied" };
        let event = match suppressed {
            0 => json!({"event": "console_login", "outcome": outcome}),
            _ => json!({"event": "console_login", "outcome": outcome, "suppressed": suppressed}),
        };
        _ = self.log.submit(&event);
    }

    /// Returns an error for requests while the log refuses events.
    pub(crate) fn accepts(&self) -> Result<(), RpcError> {
        self.log.accepts().map_err(|error| refused(&error))
    }

    pub(crate) async fn write(
        &self,
        cx: &RequestContext,
        target: &RequestTarget,
        end: &RequestEnd<'_>,
    ) -> Result<(), RpcError> {
        let event = RequestEvent::new(cx, target, end, self.arguments(cx, end));
        self.log.write(&event).await.map_err(|error| refused(&error))
    }

    /// Hands over the event of a request whose client no longer waits.
    pub(crate) fn submit(&self, cx: &RequestContext, target: &RequestTarget, end: &RequestEnd<'_>) {
        let event = RequestEvent::new(cx, target, end, self.arguments(cx, end));
        // The log counts what it cannot take.
        _ = self.log.submit(&event);
    }

    /// Hands over a request that was refused before it ran.
    pub(crate) fn refused(&self, method: &str, peer: &Peer, error: &RpcError) {
        const MAX_METHOD: usize = 100;
        let method = &method[..method.floor_char_boundary(MAX_METHOD)];
        let principal = peer.principal();
        let event = json!({
            "event": "request",
            "principal": principal_name(principal.map(|it| &**it)),
            "issuer": principal.and_then(|it| it.issuer.as_deref()),
            "address": peer.http().and_then(address_of),
            "method": method,
            "outcome": "refused",
            "code": error.code,
        });
        _ = self.log.submit(&event);
    }

    /// Writes that a token was refused.
    pub(crate) async fn token_refused(
        &self,
        head: &Parts,
        status: u16,
        problem: &str,
        suppressed: u64,
    ) {
        const MAX_PROBLEM: usize = 500;
        let mut event = json!({
            "event": "token_refused",
            "address": address_of(head),
            "path": head.uri.path().get(..200).unwrap_or(head.uri.path()),
            "outcome": "denied",
            "code": status,
            "problem": &problem[..problem.floor_char_boundary(MAX_PROBLEM)],
        });
        if suppressed > 0 {
            event["suppressed"] = json!(suppressed);
        }
        self.event(&event).await;
    }

    /// Returns the arguments of a call as they are written.
    fn arguments(&self, cx: &RequestContext, end: &RequestEnd<'_>) -> Option<Box<RawValue>> {
        /// Longer arguments are only counted.
        const MAX_BYTES: usize = 16 << 10;
        const MAX_KEYS: usize = 64;
        const MAX_KEY: usize = 100;
        if self.detail == ArgumentDetail::None {
            return None;
        }
        let arguments = match &end.notes.arguments {
            Some(inner) => inner,
            None => cx.param("arguments")?.get(),
        };
        if arguments.len() > MAX_BYTES {
            return to_raw_value(&json!({"omitted_bytes": arguments.len()})).ok();
        }
        let value: Value = serde_json::from_str(arguments).ok()?;
        let Value::Object(members) = &value else { return None };
        if self.detail == ArgumentDetail::Keys {
            let keys = members.keys().take(MAX_KEYS);
            let keys: Vec<&str> =
                keys.map(|key| &key[..key.floor_char_boundary(MAX_KEY)]).collect();
            return to_raw_value(&keys).ok();
        }
        let mut hidden = end.notes.secret_names.clone();
        self.hidden_names(&value, &mut hidden);
        let shown = json_without_secrets(arguments, &hidden, "[redacted]");
        // A line of the log has no line ends.
        let shown: Value = serde_json::from_str(&shown).ok()?;
        to_raw_value(&shown).ok()
    }

    /// Adds the names of hidden members at any depth.
    fn hidden_names(&self, value: &Value, names: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    if (self.is_hidden)(name) {
                        names.push(name.clone());
                    }
                    self.hidden_names(value, names);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.hidden_names(item, names)),
            _ => {}
        }
    }
}

impl fmt::Debug for AuditTrail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditTrail")
            .field("log", &self.log)
            .field("detail", &self.detail)
            .finish_non_exhaustive()
    }
}

/// Returns the error for a request whose event cannot be written. The agent learns no path.
fn refused(error: &marquetry_audit::AuditError) -> RpcError {
    tracing::error!(%error, "a request was refused: its event cannot be written");
    RpcError::internal(
        "the audit log cannot be written, and audit.on_error is \"refuse\"; tell the administrator",
    )
}
