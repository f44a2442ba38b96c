//! Injects defects into a server's messages: a proxy in front of the server alters them.
//!
//! The runner checks what it received over the wire. It does not know of the defect.

use std::{
    convert::Infallible,
    io,
    net::{Ipv4Addr, SocketAddr},
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::{Body, Frame, Incoming},
    client::conn::http1 as client,
    server::conn::http1 as server,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::store::Defect;

/// The key of the capture report in an answer's `_meta`.
const CAPTURE: &str = "marquetry/capture";

/// A status that the server never sends.
const WRONG_STATUS: u16 = 299;

/// The client side of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The scenario's agent, which speaks MCP.
    Agent,
    /// The `http` requests of a scenario.
    Http,
}

/// A running proxy, stopped when dropped.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    _stop: DropGuard,
}

/// Forwards requests to the server, and injects the defect.
#[derive(Clone)]
struct Forwarder {
    server: SocketAddr,
    defect: Defect,
    /// The client side to which the defect belongs.
    side: Side,
    stop: CancellationToken,
}

impl Proxy {
    /// Starts a proxy in front of `server`.
    pub(crate) async fn start(server: SocketAddr, defect: Defect, side: Side) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let forwarder = Forwarder { server, defect, side, stop: stop.clone() };
        tokio::spawn(async move {
            loop {
                let accepted = tokio::select! {
                    () = forwarder.stop.cancelled() => return,
                    accepted = listener.accept() => accepted,
                };
                let Ok((stream, _)) = accepted else { return };
                tokio::spawn(serve(stream, forwarder.clone()));
            }
        });
        Ok(Self { address, _stop: stop.drop_guard() })
    }
}

async fn serve(stream: TcpStream, forwarder: Forwarder) {
    _ = stream.set_nodelay(true);
    let stop = forwarder.stop.clone();
    let service = service_fn(move |request| {
        let forwarder = forwarder.clone();
        async move { Ok::<_, Infallible>(forwarder.answer(request).await) }
    });
    let connection = server::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        () = stop.cancelled() => {}
        // A client that disconnects ends its connection to the server, as without a proxy.
        _ = connection => {}
    }
}

impl Forwarder {
    async fn answer(&self, request: Request<Incoming>) -> Response<ChannelBody> {
        let forwarded = if self.defect == Defect::LostClientMessages {
            // The request to the server continues after the client disconnects, so that the server
            // does not notice it.
            let forwarder = self.clone();
            let task = tokio::spawn(async move {
                tokio::select! {
                    () = forwarder.stop.cancelled() => Err(io::Error::other("the proxy stops")),
                    forwarded = forwarder.forward(request) => forwarded,
                }
            });
            task.await.map_err(io::Error::other).flatten()
        } else {
            self.forward(request).await
        };
        forwarded.unwrap_or_else(|error| {
            let mut response = Response::new(ChannelBody::whole(error.to_string().into()));
            *response.status_mut() = StatusCode::BAD_GATEWAY;
            response
        })
    }

    /// Forwards a request, and returns the altered response.
    async fn forward(&self, request: Request<Incoming>) -> io::Result<Response<ChannelBody>> {
        let (mut head, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let Some(body) = self.request_body(body) else {
            let mut response = Response::new(ChannelBody::whole(Bytes::new()));
            *response.status_mut() = StatusCode::ACCEPTED;
            return Ok(response);
        };
        set_length(&mut head.headers, &body);
        let response = self.send(Request::from_parts(head, Full::new(body))).await?;
        let (mut head, body) = response.into_parts();
        if self.defect == Defect::WrongStatus && self.side == Side::Http {
            head.status = StatusCode::from_u16(WRONG_STATUS).map_err(io::Error::other)?;
        }
        let media_type = head.headers.get(header::CONTENT_TYPE);
        if media_type.is_some_and(|it| it.as_bytes().starts_with(b"text/event-stream")) {
            let (sender, receiver) = mpsc::channel(16);
            let forwarder = self.clone();
            tokio::spawn(async move {
                tokio::select! {
                    () = forwarder.stop.cancelled() => {}
                    () = forwarder.forward_events(body, sender) => {}
                }
            });
            return Ok(Response::from_parts(head, ChannelBody(receiver)));
        }
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let body = self.response_body(body);
        if head.headers.contains_key(header::CONTENT_LENGTH) {
            set_length(&mut head.headers, &body);
        }
        Ok(Response::from_parts(head, ChannelBody::whole(body)))
    }

    /// Sends a request over a new connection to the server.
    async fn send(&self, request: Request<Full<Bytes>>) -> io::Result<Response<Incoming>> {
        let stream = TcpStream::connect(self.server).await?;
        stream.set_nodelay(true)?;
        let handshake = client::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(io::Error::other)?;
        let stop = self.stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                _ = connection => {}
            }
        });
        sender.send_request(request).await.map_err(io::Error::other)
    }

    /// Returns the request body for the server; [`None`] if the request is dropped.
    fn request_body(&self, body: Bytes) -> Option<Bytes> {
        if self.defect != Defect::LostClientMessages {
            return Some(body);
        }
        let Ok(mut message) = serde_json::from_slice::<Value>(&body) else { return Some(body) };
        let is_answer = message.get("method").is_none() && message.get("id").is_some();
        if is_answer || message["method"] == "notifications/cancelled" {
            return None;
        }
        let params = message.get_mut("params").and_then(Value::as_object_mut);
        match params.and_then(|params| params.remove("inputResponses")) {
            Some(_) => Some(message.to_string().into()),
            None => Some(body),
        }
    }

    /// Returns the response body for the client.
    fn response_body(&self, body: Bytes) -> Bytes {
        let Ok(mut messages) = serde_json::from_slice::<Value>(&body) else { return body };
        let intact = messages.clone();
        match &mut messages {
            Value::Array(messages) => {
                if self.loses_messages() {
                    messages.pop();
                }
                for message in messages.iter_mut() {
                    self.inject(message);
                }
            }
            message => self.inject(message),
        }
        if messages == intact { body } else { messages.to_string().into() }
    }

    fn loses_messages(&self) -> bool {
        self.defect == Defect::LostMessage && self.side == Side::Http
    }

    /// Forwards the altered events of a stream. A disconnect of the client ends the stream, unless
    /// the defect hides it.
    async fn forward_events(&self, mut body: Incoming, sender: mpsc::Sender<Bytes>) {
        let mut buffer = BytesMut::new();
        let mut last_event: Option<Bytes> = None;
        loop {
            let frame = tokio::select! {
                () = sender.closed(), if self.defect != Defect::LostClientMessages => return,
                frame = body.frame() => frame,
            };
            let Some(Ok(frame)) = frame else { break };
            let Ok(data) = frame.into_data() else { continue };
            buffer.extend_from_slice(&data);
            while let Some(end) = buffer.windows(2).position(|pair| pair == b"\n\n") {
                let event = self.event(buffer.split_to(end + 2).freeze());
                // Only the end of the stream shows which event is the last one.
                let event =
                    if self.loses_messages() { last_event.replace(event) } else { Some(event) };
                if let Some(event) = event {
                    _ = sender.send(event).await;
                }
            }
        }
        if !self.loses_messages() {
            _ = sender.send(buffer.freeze()).await;
        }
    }

    /// Returns an event with altered data. The server writes data on one line.
    fn event(&self, event: Bytes) -> Bytes {
        let Ok(text) = std::str::from_utf8(&event) else { return event };
        let lines = text.split_inclusive('\n').map(|line| match line.strip_prefix("data: ") {
            Some(data) => {
                let data = Bytes::copy_from_slice(data.trim_end().as_bytes());
                format!("data: {}\n", String::from_utf8_lossy(&self.response_body(data)))
            }
            None => line.to_owned(),
        });
        lines.collect::<String>().into()
    }

    /// Alters a message to an agent.
    fn inject(&self, message: &mut Value) {
        if self.side != Side::Agent {
            return;
        }
        let Some(result) = message.get_mut("result") else { return };
        let capture = result.get_mut("_meta").and_then(|meta| meta.get_mut(CAPTURE));
        let is_captured = capture.is_some();
        let is_cut = capture.as_ref().is_some_and(|capture| capture.get("truncated").is_some());
        if self.defect == Defect::WrongStatus
            && let Some(status) = capture.and_then(|capture| capture.get_mut("status"))
        {
            *status = "sabotaged".into();
        }
        let Some(content) = result.get_mut("content").and_then(Value::as_array_mut) else {
            return;
        };
        // The notice comes first if something is missing, else last.
        let notice = if is_cut { 0 } else { content.len().saturating_sub(1) };
        match self.defect {
            Defect::ExtraContent => content.push(json!({"type": "text", "text": "more"})),
            Defect::MissingContent => drop(content.pop()),
            Defect::WrongNotice if is_captured => {
                content[notice] = json!({"type": "text", "text": "[All is well.]"});
            }
            Defect::WrongText => {
                for (index, item) in content.iter_mut().enumerate() {
                    if is_captured && index == notice {
                        continue;
                    }
                    if let Some(text) = item.get("text").and_then(Value::as_str) {
                        item["text"] = format!("{text}!").into();
                    }
                }
            }
            _ => {}
        }
    }
}

fn set_length(headers: &mut HeaderMap, body: &Bytes) {
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    headers.remove(header::TRANSFER_ENCODING);
}

/// A body that is read from a channel.
struct ChannelBody(mpsc::Receiver<Bytes>);

impl ChannelBody {
    fn whole(body: Bytes) -> Self {
        let (sender, receiver) = mpsc::channel(1);
        if !body.is_empty() {
            _ = sender.try_send(body);
        }
        Self(receiver)
    }
}

impl Body for ChannelBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|data| data.map(|data| Ok(Frame::data(data))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forwarder(defect: Defect, side: Side) -> Forwarder {
        let server = SocketAddr::from(([127, 0, 0, 1], 1));
        Forwarder { server, defect, side, stop: CancellationToken::new() }
    }

    #[track_caller]
    fn check(forwarder: &Forwarder, before: Value, after: Value) {
        let body = forwarder.response_body(before.to_string().into());
        assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), after);
    }

    #[test]
    fn only_answers_to_agents_are_damaged() {
        let before = result(json!([text("a"), text("b")]));
        check(&of(Defect::WrongText), before.clone(), result(json!([text("a!"), text("b!")])));
        check(&of(Defect::MissingContent), before.clone(), result(json!([text("a")])));
        let more = result(json!([text("a"), text("b"), text("more")]));
        check(&of(Defect::ExtraContent), before.clone(), more);
        check(&of(Defect::WrongNotice), before.clone(), before.clone());
        check(&forwarder(Defect::WrongText, Side::Http), before.clone(), before);
        let before = captured("processed", "[notice]");
        check(&of(Defect::WrongStatus), before.clone(), captured("sabotaged", "[notice]"));
        check(&of(Defect::WrongNotice), before, captured("processed", "[All is well.]"));
        check(
            &of(Defect::WrongText),
            json!({"result": {"tools": []}}),
            json!({"result": {"tools": []}}),
        );
    }

    fn of(defect: Defect) -> Forwarder {
        forwarder(defect, Side::Agent)
    }

    fn result(content: Value) -> Value {
        json!({"id": 1, "result": {"content": content}})
    }

    fn text(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    fn captured(status: &str, notice: &str) -> Value {
        let meta = json!({CAPTURE: {"status": status}});
        json!({"result": {"content": [text("a"), text(notice)], "_meta": meta}})
    }

    #[test]
    fn messages_are_lost_at_the_end_of_a_batch() {
        let lost = forwarder(Defect::LostMessage, Side::Http);
        check(&lost, json!([{"id": 1}, {"id": 2}]), json!([{"id": 1}]));
        check(&lost, json!({"id": 1}), json!({"id": 1}));
    }

    #[test]
    fn answers_and_cancellations_of_an_agent_are_lost() {
        assert_eq!(forwarded(&json!({"id": 1, "result": {}})), None);
        assert_eq!(forwarded(&json!({"method": "notifications/cancelled"})), None);
        let answered = json!({"id": 1, "method": "tools/call", "params": {"name": "a", "inputResponses": {"q": 1}}});
        let call = json!({"id": 1, "method": "tools/call", "params": {"name": "a"}});
        assert_eq!(forwarded(&answered), Some(call));
    }

    /// Returns the message that reaches the server past the defect.
    fn forwarded(message: &Value) -> Option<Value> {
        let lost = forwarder(Defect::LostClientMessages, Side::Agent);
        let body = lost.request_body(message.to_string().into())?;
        Some(serde_json::from_slice(&body).unwrap())
    }

    #[test]
    fn an_event_keeps_its_form() {
        let wrong = forwarder(Defect::MissingContent, Side::Agent);
        let event = "id: 7\ndata: {\"result\":{\"content\":[1]}}\n\n";
        let damaged = wrong.event(Bytes::from(event));
        assert_eq!(damaged, "id: 7\ndata: {\"result\":{\"content\":[]}}\n\n");
        assert_eq!(wrong.event(Bytes::from(": alive\n\n")), ": alive\n\n");
    }
}
