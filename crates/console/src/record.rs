//! The record of one call.

use std::{sync::Arc, time::Duration};

use marquetry_protocol::ResultKind;
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use crate::secrets::without_secrets;

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The tool answered.
    Ok,
    /// The tool answered that it failed (`isError`).
    ToolFailed,
    /// The tool asks the client a question; the client calls again with the answer.
    InputRequired,
    /// A protocol error.
    RpcError {
        /// Its JSON-RPC code.
        code: i64,
        /// Its message.
        message: String,
    },
    /// The gateway got no answer from the upstream.
    GatewayError {
        /// The message that the agent got.
        message: String,
    },
    /// The agent cancelled the call, or disconnected.
    Cancelled {
        /// The reason that the agent gave.
        reason: Option<String>,
    },
}

impl Outcome {
    /// Returns the outcome that a result states: whether the tool failed, or asks.
    #[must_use]
    pub fn of_result(result: &RawValue) -> Self {
        match ResultKind::of(result) {
            ResultKind::Failed => Self::ToolFailed,
            ResultKind::InputRequired => Self::InputRequired,
            _ => Self::Ok,
        }
    }

    /// Returns the name of the outcome in the data of the console.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ToolFailed => "tool_failed",
            Self::InputRequired => "input_required",
            Self::RpcError { .. } => "rpc_error",
            Self::GatewayError { .. } => "gateway_error",
            Self::Cancelled { .. } => "cancelled",
        }
    }

    /// Cuts a message that is longer than a list of calls shows.
    pub(crate) fn shorten(&mut self) {
        const MAX_MESSAGE_BYTES: usize = 4 << 10;
        if let Self::RpcError { message, .. }
        | Self::GatewayError { message }
        | Self::Cancelled { reason: Some(message) } = self
            && message.len() > MAX_MESSAGE_BYTES
        {
            message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
            message.push('…');
            message.shrink_to_fit();
        }
    }

    /// The size of memory that its message takes.
    fn cost(&self) -> usize {
        match self {
            Self::RpcError { message, .. }
            | Self::GatewayError { message }
            | Self::Cancelled { reason: Some(message) } => message.len(),
            _ => 0,
        }
    }

    fn problem(&self) -> Option<Value> {
        match self {
            Self::RpcError { code, message } => Some(json!({"code": code, "message": message})),
            Self::GatewayError { message } | Self::Cancelled { reason: Some(message) } => {
                Some(json!({"message": message}))
            }
            _ => None,
        }
    }
}

/// A text that is stored if it fits the limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoredText {
    /// Its size, whether it is kept or not.
    pub(crate) bytes: usize,
    pub(crate) text: Option<Arc<str>>,
}

impl StoredText {
    /// The size of memory that it takes.
    pub(crate) fn cost(&self) -> usize {
        self.text.as_ref().map_or(0, |text| text.len())
    }

    fn json(&self) -> Value {
        json!({"bytes": self.bytes, "kept": self.text.is_some()})
    }
}

/// One step of a call, with its time.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// Time since the call began, in microseconds.
    pub(crate) at_us: u64,
}

/// One call.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) number: u64,
    /// The part of [`Record::cost`] that the log of calls has counted.
    pub(crate) counted: usize,
    pub(crate) owner: Option<String>,
    pub(crate) tool: String,
    /// The upstream, or none for a tool of this server.
    pub(crate) server: Option<String>,
    pub(crate) client: Option<String>,
    pub(crate) revision: Option<&'static str>,
    /// When it began, in milliseconds since 1970.
    pub(crate) started_ms: u64,
    /// How long it took, once it is over.
    pub(crate) took: Option<Duration>,
    pub(crate) outcome: Option<Outcome>,
    /// The arguments as the agent wrote them. Secrets are removed when a page shows them.
    pub(crate) arguments: StoredText,
    /// The names of arguments that the tool's input schema marks as secret.
    pub(crate) secret_names: Box<[String]>,
    /// The upstream's answer.
    pub(crate) upstream: Option<StoredText>,
    /// The answer that the model gets.
    pub(crate) model: Option<StoredText>,
    /// The report of the capture as JSON, if the answer was changed. Parsed, it would take ten
    /// times the memory.
    pub(crate) capture: Option<StoredText>,
    /// The settings that decided what the model is shown, as a list of JSON.
    pub(crate) decided: Option<Box<str>>,
    /// Bytes and tokens of the answer that the model does not get.
    pub(crate) kept: Option<(u64, u64)>,
    pub(crate) steps: Vec<Step>,
    /// The last event of its progress, as JSON.
    pub(crate) progress: Option<Box<str>>,
}

impl Record {
    /// The size of memory that it takes: of itself, and of everything that a client, an upstream or
    /// a schema can make longer.
    pub(crate) fn cost(&self) -> usize {
        fn stored(text: Option<&StoredText>) -> usize {
            text.map_or(0, StoredText::cost)
        }
        // An answer that is identical on both sides is stored once.
        let model = match (&self.upstream, &self.model) {
            (Some(StoredText { text: Some(a), .. }), Some(StoredText { text: Some(b), .. }))
                if Arc::ptr_eq(a, b) =>
            {
                0
            }
            (_, model) => stored(model.as_ref()),
        };
        let names = self.secret_names.iter().map(|name| size_of::<String>() + name.len());
        size_of::<Self>()
            + self.tool.len()
            + [&self.owner, &self.server, &self.client]
                .into_iter()
                .map(|text| text.as_ref().map_or(0, String::len))
                .sum::<usize>()
            + self.arguments.cost()
            + names.sum::<usize>()
            + stored(self.upstream.as_ref())
            + model
            + self.outcome.as_ref().map_or(0, Outcome::cost)
            + stored(self.capture.as_ref())
            + self.decided.as_deref().map_or(0, str::len)
            + self.steps.capacity() * size_of::<Step>()
            + self.progress.as_deref().map_or(0, str::len)
    }

    /// Returns the fields that lists show.
    pub(crate) fn head(&self, run: &str) -> Value {
        json!({
            "id": format!("{run}-{}", self.number),
            "tool": self.tool,
            "server": self.server,
            "client": self.client,
            "started": self.started_ms,
            "us": self.took.map(micros),
            "outcome": self.outcome.as_ref().map_or("running", Outcome::name),
            "problem": self.outcome.as_ref().and_then(Outcome::problem),
            "said_bytes": self.upstream.as_ref().map(|it| it.bytes),
            "shown_bytes": self.model.as_ref().map(|it| it.bytes),
            "kept_bytes": self.kept.map(|(bytes, _)| bytes),
            "kept_tokens": self.kept.map(|(_, tokens)| tokens),
        })
    }

    /// Returns all fields except the answers.
    pub(crate) fn whole(&self, run: &str) -> Value {
        let mut whole = self.head(run);
        let is_same = match (&self.upstream, &self.model) {
            (Some(said), Some(shown)) => match (&said.text, &shown.text) {
                (Some(said), Some(shown)) => Arc::ptr_eq(said, shown),
                _ => false,
            },
            _ => false,
        };
        whole["revision"] = json!(self.revision);
        whole["owner"] = json!(self.owner);
        whole["arguments"] = self.arguments.json();
        // As text, because JavaScript would round large numbers.
        let arguments = self.arguments.text.as_deref();
        whole["arguments"]["json"] =
            json!(arguments.map(|text| without_secrets(text, &self.secret_names)));
        whole["upstream"] = json!(self.upstream.as_ref().map(StoredText::json));
        whole["model"] = json!(self.model.as_ref().map(StoredText::json));
        whole["same"] = json!(is_same);
        whole["capture"] = self.capture.as_ref().map_or(Value::Null, |report| {
            report.text.as_deref().map_or_else(
                || json!({"message": format!("The report has {} bytes, too many to be kept.", report.bytes)}),
                parsed,
            )
        });
        whole["decided"] = self.decided.as_deref().map_or_else(|| json!([]), parsed);
        whole["steps"] = json!(self.steps);
        whole["progress"] = self.progress.as_deref().map_or(Value::Null, parsed);
        whole
    }
}

fn parsed(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_default()
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
