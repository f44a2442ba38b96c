//! Events about messages between this server and its upstreams, and about artifacts. Events are
//! sent only while a page listens; progress and open questions are also kept for pages that are
//! opened later.

use bytes::Bytes;
use serde_json::{json, value::RawValue};

use crate::{Audience, Console, Direction, NewMessage, Side, calls::now_ms};

/// Maximum number of bytes of a text in an event; longer texts are cut.
const MAX_TEXT: usize = 1_000;

/// The call that an event belongs to.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallOrigin<'a> {
    /// The id of the principal who calls.
    pub owner: Option<&'a str>,
    /// The id of the call's record.
    pub call: Option<&'a str>,
}

impl CallOrigin<'_> {
    fn audience(&self) -> Audience {
        Audience::Owner(self.owner.map(str::to_owned))
    }
}

/// A question of an upstream to the agent of a call.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamQuestion<'a> {
    /// Unique number of the question.
    pub number: u64,
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: &'a str,
    /// The upstream that asks.
    pub server: &'a str,
    /// The parameters of the question while it is open; `None` closes it, because it was answered
    /// or given up.
    pub params: Option<&'a RawValue>,
}

/// A message between this server and an upstream.
#[derive(Clone, Copy, Debug)]
pub enum UpstreamMessage<'a> {
    /// A request or a notification.
    Call {
        /// Its method.
        method: &'a str,
        /// Its parameters.
        params: &'a RawValue,
    },
    /// The result of a request.
    Result(&'a RawValue),
    /// The message of an error.
    Error(&'a str),
}

impl Console {
    /// Adds the event `call.progress`, and keeps it for pages that are opened later.
    pub fn call_progress(
        &self,
        origin: CallOrigin<'_>,
        server: &str,
        (progress, total): (f64, Option<f64>),
        message: Option<&str>,
    ) {
        let data = json!({
            "id": origin.call,
            "tool": self.tool_of(origin),
            "server": server,
            "progress": progress,
            "total": total,
            "message": message.map(cut),
        });
        self.events().push("call.progress", || origin.audience(), || &data);
        if let Some(call) = origin.call {
            self.calls().set_progress(call, &data);
        }
    }

    /// Adds the event `server.log` for a line of an upstream's standard error.
    pub fn server_stderr(&self, server: &str, line: &str) {
        self.events().push(
            "server.log",
            || Audience::Administrators,
            || {
                json!({
                    "server": server, "source": "stderr", "level": null, "logger": null,
                    "text": cut(line), "at": now_ms(),
                })
            },
        );
    }

    /// Adds the event `server.log` for the parameters of `notifications/message` of an upstream.
    pub fn server_log(&self, server: &str, params: &RawValue) {
        #[derive(serde::Deserialize)]
        struct LogParams {
            level: Option<String>,
            logger: Option<String>,
            #[serde(default)]
            data: serde_json::Value,
        }
        self.events().push(
            "server.log",
            || Audience::Administrators,
            || {
                let logged = serde_json::from_str::<LogParams>(params.get()).ok();
                let text = match logged.as_ref().map(|it| &it.data) {
                    Some(serde_json::Value::String(text)) => text.clone(),
                    Some(data) => data.to_string(),
                    None => params.get().to_owned(),
                };
                let level = logged.as_ref().and_then(|it| it.level.as_deref());
                let logger = logged.as_ref().and_then(|it| it.logger.as_deref());
                json!({
                    "server": server,
                    "source": "message",
                    "level": level.map(cut),
                    "logger": logger.map(cut),
                    "text": cut(&text),
                    "at": now_ms(),
                })
            },
        );
    }

    /// Adds the event `artifact`: the list of artifacts has changed.
    pub fn artifacts_changed(&self, audience: Audience) {
        self.events().push(
            "artifact",
            || audience,
            || json!({"call": null, "name": null, "version": null}),
        );
    }

    /// Adds the event `question`, and keeps the question while it is open.
    pub fn question(&self, origin: CallOrigin<'_>, question: UpstreamQuestion<'_>) {
        #[derive(serde::Deserialize)]
        struct Params {
            message: Option<String>,
        }
        let UpstreamQuestion { number, method, server, params } = question;
        let data = {
            let message = params.and_then(|it| serde_json::from_str::<Params>(it.get()).ok());
            json!({
                "id": format!("{}-q{number}", self.events().run()),
                "state": if params.is_some() { "open" } else { "closed" },
                "method": method,
                "server": server,
                "call": origin.call,
                "tool": self.tool_of(origin),
                "message": message.and_then(|it| it.message).map(|it| cut(&it).to_owned()),
            })
        };
        match params {
            Some(_) => self.questions().opened(number, origin.owner, data.clone()),
            None => self.questions().closed(number),
        }
        self.events().push("question", || origin.audience(), || data);
    }

    /// Logs a message between this server and an upstream, while a page listens. At most 64 KiB of
    /// it are copied.
    pub fn upstream_message(
        &self,
        origin: Option<CallOrigin<'_>>,
        server: &str,
        direction: Direction,
        message: UpstreamMessage<'_>,
    ) {
        if !self.events().has_subscribers() {
            return;
        }
        fn quoted(text: &str) -> String {
            serde_json::Value::from(text).to_string()
        }
        let (begin, body, end) = match message {
            UpstreamMessage::Call { method, params } => {
                (format!(r#"{{"method":{},"params":"#, quoted(method)), params.get(), "}")
            }
            UpstreamMessage::Result(result) => (r#"{"result":"#.to_owned(), result.get(), "}"),
            UpstreamMessage::Error(text) => {
                (format!(r#"{{"error":{{"message":{}"#, quoted(text)), "", "}}")
            }
        };
        let bytes = begin.len() + body.len() + end.len();
        let mut json = Vec::with_capacity(bytes.min(crate::messages::MAX_MESSAGE));
        for part in [&begin, body, end] {
            let room = crate::messages::MAX_MESSAGE - json.len();
            json.extend_from_slice(&part.as_bytes()[..part.len().min(room)]);
        }
        let origin = origin.unwrap_or_default();
        self.messages().push(NewMessage {
            side: Side::Upstream,
            direction,
            peer: server,
            owner: origin.owner,
            call: origin.call,
            json: Bytes::from(json),
            bytes,
        });
    }

    /// Logs a message of an agent on a pipe, or one to it: its beginning, and the size of the
    /// whole. Such an agent has no principal.
    pub fn pipe_message(&self, direction: Direction, beginning: Vec<u8>, bytes: usize) {
        if beginning.trim_ascii().is_empty() {
            return;
        }
        self.messages().push(NewMessage {
            side: Side::Agent,
            direction,
            peer: "stdio",
            owner: None,
            call: None,
            json: Bytes::from(beginning),
            bytes,
        });
    }

    fn tool_of(&self, origin: CallOrigin<'_>) -> Option<String> {
        self.calls().tool_of(origin.call?)
    }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;
    use serde_json::{Value, value::to_raw_value};

    use super::*;
    use crate::{NewCall, Options, Viewer};

    /// Collects the events that a viewer's page receives for `act`, as names and data.
    async fn events_for(viewer: Viewer, act: impl FnOnce(&Console)) -> Vec<(String, Value)> {
        let console = Console::new(Options::default());
        let slot = console.events().acquire_slot(&viewer).unwrap();
        let stream = console.events_shared().stream(viewer, None, slot, Box::new(|_| Value::Null));
        act(&console);
        // The end of what was done.
        console.events().push("end", || Audience::Everyone, || "end");
        let chunks: Vec<_> = stream.take(2).collect().await;
        let bytes = chunks[1].as_ref().unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        fn field<'a>(event: &'a str, name: &str) -> &'a str {
            event.lines().find_map(|line| line.strip_prefix(name)).unwrap()
        }
        let all = text.split("\n\n").filter(|it| !it.is_empty()).map(|event| {
            let name = field(event, "event: ").to_owned();
            (name, serde_json::from_str(field(event, "data: ")).unwrap())
        });
        all.filter(|(name, _)| !matches!(&**name, "end" | "stats" | "call.started" | "call.ended"))
            .collect()
    }

    fn raw(value: &Value) -> Box<RawValue> {
        to_raw_value(value).unwrap()
    }

    fn everything(console: &Console) {
        let call = console.calls().begin(NewCall::new("lab__show").owner(Some("anna".into())));
        let origin = CallOrigin { owner: Some("anna"), call: Some(call.id()) };
        console.call_progress(origin, "lab", (1.0, Some(2.0)), Some("half"));
        let kept = console.calls().get(call.id(), &Viewer::everything()).unwrap();
        assert_eq!(kept["progress"]["message"], "half", "a page that is opened later shows it");
        let params = raw(&json!({"message": "Your name?", "requestedSchema": {}}));
        let question = UpstreamQuestion {
            number: 7,
            method: "elicitation/create",
            server: "lab",
            params: Some(&params),
        };
        console.question(origin, question);
        console.question(origin, UpstreamQuestion { params: None, ..question });
        call.saved("a.csv", 3);
        console.server_stderr("lab", &"x".repeat(5_000));
        console.server_log("lab", &raw(&json!({"level": "error", "data": {"a": 1}})));
    }

    #[tokio::test(start_paused = true)]
    async fn callers_see_their_calls_and_administrators_see_logs_too() {
        fn names(events: &[(String, Value)]) -> Vec<String> {
            events.iter().map(|it| it.0.clone()).collect()
        }
        let of_call = ["call.progress", "question", "question", "artifact"];
        let anna = events_for(Viewer::of("anna", false), everything).await;
        assert_eq!(names(&anna), of_call);
        let progress = &anna[0].1;
        let opened = &anna[1].1;
        let closed = &anna[2].1;
        let id = progress["id"].as_str().unwrap();
        assert_eq!(
            *progress,
            json!({"id": id, "tool": "lab__show", "server": "lab", "progress": 1.0, "total": 2.0, "message": "half"})
        );
        let question = json!({
            "id": opened["id"], "state": "open", "method": "elicitation/create", "server": "lab",
            "call": id, "tool": "lab__show", "message": "Your name?",
        });
        assert_eq!(*opened, question);
        assert_eq!((&closed["id"], closed["state"].as_str()), (&opened["id"], Some("closed")));
        assert_eq!(anna[3].1, json!({"call": id, "name": "a.csv", "version": 3}));

        assert_eq!(events_for(Viewer::of("bert", false), everything).await, []);
        let admin = events_for(Viewer::of("root", true), everything).await;
        assert_eq!(names(&admin), [&of_call[..], &["server.log", "server.log"]].concat());
        assert_eq!(admin[4].1["text"].as_str().unwrap().len(), MAX_TEXT);
        assert_eq!(
            (&admin[4].1["source"], &admin[5].1["level"]),
            (&json!("stderr"), &json!("error"))
        );
        assert_eq!(admin[5].1["text"], r#"{"a":1}"#);
    }

    #[test]
    fn an_open_question_is_seen_by_its_caller_also_when_no_page_listened() {
        let console = Console::new(Options::default());
        let params = raw(&json!({"message": "Your name?"}));
        let origin = CallOrigin { owner: Some("anna"), call: None };
        let method = "elicitation/create";
        let question = UpstreamQuestion { number: 7, method, server: "lab", params: Some(&params) };
        console.question(origin, question);
        let anna = Viewer::of("anna", false);
        let bert = Viewer::of("bert", false);
        let root = Viewer::of("root", true);
        assert_eq!(console.questions().of(&anna)[0]["message"], "Your name?");
        assert!(console.questions().of(&bert).is_empty());
        assert_eq!(console.questions().of(&root).len(), 1);
        console.question(origin, UpstreamQuestion { params: None, ..question });
        assert!(console.questions().of(&root).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn messages_of_upstreams_are_logged_while_a_page_listens() {
        let console = Console::new(Options::default());
        let params = raw(&json!({}));
        fn log_call(console: &Console, params: &RawValue) {
            let message = UpstreamMessage::Call { method: "tools/call", params };
            console.upstream_message(None, "lab", Direction::Sent, message);
        }
        log_call(&console, &params);
        assert!(console.messages().list(&Viewer::everything(), None, None, None, 9).is_empty());
        let viewer = Viewer::everything();
        let slot = console.events().acquire_slot(&viewer).unwrap();
        let _page = console.events_shared().stream(viewer, None, slot, Box::new(|_| Value::Null));
        log_call(&console, &params);
        let listed = console.messages().list(&Viewer::everything(), None, None, None, 9);
        assert_eq!(listed.len(), 1);
        assert_eq!((&listed[0]["side"], &listed[0]["peer"]), (&json!("upstream"), &json!("lab")));
        assert_eq!((&listed[0]["kind"], &listed[0]["bytes"]), (&json!("tools/call"), &json!(35)));
        assert!(
            console.messages().list(&Viewer::of("anna", false), None, None, None, 9).is_empty()
        );
    }
}
