//! Copies the messages between agents and a server's MCP endpoint to the log of messages.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::Request,
    response::Response,
};
use http::{HeaderValue, StatusCode, header};
use http_body::{Frame, SizeHint};

use crate::{Console, Direction, NewMessage, Side};

/// The response header that names the record of a tool call.
pub const CALL_HEADER: &str = "marquetry-call";

/// What is copied of one message, in bytes; the log keeps no more.
const MAX_COPIED: usize = 64 << 10;

/// An extension of a request that [`Console::log_exchange`] logs: the handler of a tool call names its record there.
#[derive(Clone, Debug, Default)]
pub struct RecordSlot(Arc<OnceLock<Recorded>>);

/// The record of a request that is a tool call.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The id of the record.
    pub id: String,
    /// The principal who calls.
    pub owner: Option<String>,
    /// The name and version that the client gives itself.
    pub client: Option<String>,
}

impl RecordSlot {
    /// Names the record of a call. A batch has several calls; the first is named.
    pub fn name(&self, recorded: Recorded) {
        _ = self.0.set(recorded);
    }
}

impl Console {
    /// Answers a request to an MCP endpoint with `answer`, and logs the messages of both bodies. If the request is a tool call with a record, a
    /// response header ([`CALL_HEADER`]) names it. Requests without the right to call are not logged.
    pub async fn log_exchange<F: Future<Output = Response>>(
        &self,
        mut request: Request,
        answer: impl FnOnce(Request<CopiedBody>) -> F,
    ) -> Response {
        let (slot, copied) = (RecordSlot::default(), Copied::default());
        request.extensions_mut().insert(slot.clone());
        let request = request.map(|body| CopiedBody { body, copied: copied.clone() });
        let mut response = answer(request).await;
        if response.status() == StatusCode::UNAUTHORIZED {
            return response;
        }
        if let Some(record) = slot.0.get()
            && let Ok(id) = HeaderValue::from_str(&record.id)
        {
            response.headers_mut().insert(CALL_HEADER, id);
        }
        let exchange = Exchange { console: self.clone(), slot };
        exchange.received(&copied);
        let content_type = response.headers().get(header::CONTENT_TYPE);
        let is_stream =
            content_type.is_some_and(|it| it.as_bytes().starts_with(b"text/event-stream"));
        response.map(|body| Body::new(LoggedBody::new(body, exchange, is_stream)))
    }
}

/// A copy of the beginning of a body.
#[derive(Clone, Debug, Default)]
struct Copied(Arc<Mutex<Part>>);

#[derive(Debug, Default)]
struct Part {
    bytes: Vec<u8>,
    total: usize,
}

impl Part {
    fn add(&mut self, bytes: &[u8]) {
        self.total += bytes.len();
        let room = MAX_COPIED.saturating_sub(self.bytes.len()).min(bytes.len());
        self.bytes.extend_from_slice(&bytes[..room]);
    }
}

/// Where the messages of one exchange go.
#[derive(Clone)]
struct Exchange {
    console: Console,
    slot: RecordSlot,
}

impl Exchange {
    /// Logs a message. One that belongs to no tool call is shown to administrators alone, since its principal is not known yet.
    fn push(&self, direction: Direction, part: &Part) {
        let text = String::from_utf8_lossy(&part.bytes);
        if text.trim().is_empty() {
            return;
        }
        let record = self.slot.0.get();
        self.console.messages().push(&NewMessage {
            side: Side::Agent,
            direction,
            peer: record.and_then(|record| record.client.as_deref()).unwrap_or("agent"),
            owner: record.and_then(|record| record.owner.as_deref()),
            call: record.map(|record| record.id.as_str()),
            json: &text,
            bytes: part.total,
        });
    }

    /// Logs the request that was copied while it was read.
    fn received(&self, copied: &Copied) {
        let part = std::mem::take(&mut *copied.0.lock().unwrap_or_else(PoisonError::into_inner));
        self.push(Direction::Received, &part);
    }
}

/// A request body that is copied while it is read.
#[derive(Debug)]
pub struct CopiedBody {
    body: Body,
    copied: Copied,
}

impl HttpBody for CopiedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            self.copied.0.lock().unwrap_or_else(PoisonError::into_inner).add(data);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A response body whose messages are logged: the one of a JSON body, or each of a stream of events.
struct LoggedBody {
    body: Body,
    exchange: Exchange,
    is_stream: bool,
    part: Part,
}

impl LoggedBody {
    fn new(body: Body, exchange: Exchange, is_stream: bool) -> Self {
        Self { body, exchange, is_stream, part: Part::default() }
    }

    fn take(&mut self, data: &[u8]) {
        if !self.is_stream {
            self.part.add(data);
            return;
        }
        // Each event has its message on one line; other lines are short.
        for (index, line) in data.split(|byte| *byte == b'\n').enumerate() {
            if index > 0 {
                self.end_line();
            }
            self.part.add(line);
        }
    }

    fn end_line(&mut self) {
        let mut part = std::mem::take(&mut self.part);
        if part.bytes.starts_with(b"data:") {
            part.bytes.drain(..b"data:".len());
            part.total -= b"data:".len();
            self.exchange.push(Direction::Sent, &part);
        }
    }

    fn end(&mut self) {
        if self.is_stream {
            self.end_line();
        } else {
            let part = std::mem::take(&mut self.part);
            self.exchange.push(Direction::Sent, &part);
        }
    }
}

impl HttpBody for LoggedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            self.take(data);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Bodies are not polled again after their last frame, so that their end is where they are dropped.
impl Drop for LoggedBody {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Viewer};

    fn logged(is_stream: bool, parts: &[&[u8]]) -> Vec<(String, u64)> {
        let console = Console::new(Options::default());
        let exchange = Exchange { console: console.clone(), slot: RecordSlot::default() };
        let mut body = LoggedBody::new(Body::empty(), exchange, is_stream);
        parts.iter().for_each(|part| body.take(part));
        drop(body);
        let listed = console.messages().list(&Viewer::everything(), None, None, None, 10);
        let shown = listed.iter().rev();
        shown
            .map(|it| (it["kind"].as_str().unwrap().to_owned(), it["bytes"].as_u64().unwrap()))
            .collect()
    }

    #[test]
    fn messages_are_found_however_a_body_is_cut() {
        let json = br#"{"result":{}}"#;
        assert_eq!(logged(false, &[&json[..5], &json[5..]]), [("result".to_owned(), 13)]);
        assert_eq!(logged(false, &[]), []);
        let events = b"event: message\ndata: {\"method\":\"notifications/progress\"}\n\nid: 3\ndata: {\"result\":{}}\n\n: still here\n\n";
        let want = [("notifications/progress".to_owned(), 36), ("result".to_owned(), 14)];
        for cut in 0..events.len() {
            assert_eq!(logged(true, &[&events[..cut], &events[cut..]]), want, "{cut}");
        }
    }

    #[test]
    fn of_a_large_body_the_beginning_is_copied() {
        let large = vec![b'x'; 10 * MAX_COPIED];
        let mut part = Part::default();
        part.add(&large);
        assert_eq!((part.bytes.len(), part.total), (MAX_COPIED, large.len()));
        assert_eq!(logged(false, &[br#"{"result":{"t":""#, &large])[0].1, 16 + large.len() as u64);
    }
}
