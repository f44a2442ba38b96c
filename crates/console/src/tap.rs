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

use crate::{Console, Direction, NewMessage, Side, messages::MAX_MESSAGE};

/// The response header that names the record of a tool call.
pub const CALL_HEADER: &str = "marquetry-call";

/// A request extension, in which the handler of a tool call names the record of the call for
/// [`Console::log_exchange`].
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

    /// Returns the record, if the request is a tool call that has begun.
    #[must_use]
    pub fn recorded(&self) -> Option<&Recorded> {
        self.0.get()
    }
}

impl Console {
    /// Answers a request to an MCP endpoint with `answer`, and logs the messages of both bodies. If
    /// the request is a tool call with a record, a response header ([`CALL_HEADER`]) names it.
    /// Unauthorized requests are not logged.
    pub async fn log_exchange<F: Future<Output = Response>>(
        &self,
        mut request: Request,
        answer: impl FnOnce(Request<CopiedBody>) -> F,
    ) -> Response {
        let slot = RecordSlot::default();
        let copied = Copied::default();
        request.extensions_mut().insert(slot.clone());
        let is_page = request.headers().get("sec-fetch-site").is_some_and(|it| it == "same-origin");
        let caller = if is_page { "console" } else { "agent" };
        let request = request.map(|body| TappedBody { body, reader: copied.clone() });
        let mut response = answer(request).await;
        if response.status() == StatusCode::UNAUTHORIZED {
            return response;
        }
        if let Some(record) = slot.0.get()
            && let Ok(id) = HeaderValue::from_str(&record.id)
        {
            response.headers_mut().insert(CALL_HEADER, id);
        }
        let exchange = Exchange { console: self.clone(), slot, caller };
        exchange.received(&copied);
        let content_type = response.headers().get(header::CONTENT_TYPE);
        let is_stream =
            content_type.is_some_and(|it| it.as_bytes().starts_with(b"text/event-stream"));
        let reader = ResponseLog { exchange, is_stream, part: Part::default() };
        response.map(|body| Body::new(TappedBody { body, reader }))
    }
}

/// A copy of the beginning of a body.
#[derive(Clone, Debug, Default)]
pub struct Copied(Arc<Mutex<Part>>);

/// The beginning of a message, at most [`MAX_MESSAGE`] bytes.
#[derive(Debug, Default)]
struct Part {
    beginning: Beginning,
    total: usize,
}

#[derive(Debug)]
enum Beginning {
    /// One frame, which is not copied. Most answers have one frame.
    Whole(Bytes),
    Copied(Vec<u8>),
}

impl Default for Beginning {
    fn default() -> Self {
        Self::Copied(Vec::new())
    }
}

impl Part {
    fn add(&mut self, bytes: &[u8]) {
        self.total += bytes.len();
        if let Beginning::Whole(frame) = &self.beginning {
            self.beginning = Beginning::Copied(frame.to_vec());
        }
        let Beginning::Copied(copied) = &mut self.beginning else { return };
        let room = MAX_MESSAGE.saturating_sub(copied.len()).min(bytes.len());
        copied.extend_from_slice(&bytes[..room]);
    }

    /// Adds a frame that is a buffer of its own.
    fn add_frame(&mut self, frame: &Bytes) {
        if self.total == 0 && frame.len() <= MAX_MESSAGE {
            self.total = frame.len();
            self.beginning = Beginning::Whole(frame.clone());
        } else {
            self.add(frame);
        }
    }

    fn into_bytes(self) -> Bytes {
        match self.beginning {
            Beginning::Whole(frame) => frame,
            Beginning::Copied(copied) => copied.into(),
        }
    }
}

/// Where the messages of one exchange go.
#[derive(Clone)]
struct Exchange {
    console: Console,
    slot: RecordSlot,
    /// Name of the caller for messages without a record of a call.
    caller: &'static str,
}

impl Exchange {
    /// Logs a message. Only administrators see a message that belongs to no tool call, since its
    /// principal is not known yet.
    fn push(&self, direction: Direction, part: Part) {
        let bytes = part.total;
        let json = part.into_bytes();
        if json.trim_ascii().is_empty() {
            return;
        }
        let record = self.slot.0.get();
        self.console.messages().push(NewMessage {
            side: Side::Agent,
            direction,
            peer: record.and_then(|record| record.client.as_deref()).unwrap_or(self.caller),
            owner: record.and_then(|record| record.owner.as_deref()),
            call: record.map(|record| record.id.as_str()),
            json,
            bytes,
        });
    }

    /// Logs the request that was copied while it was read.
    fn received(&self, copied: &Copied) {
        let part = std::mem::take(&mut *copied.0.lock().unwrap_or_else(PoisonError::into_inner));
        self.push(Direction::Received, part);
    }
}

/// A request body that is copied while it is read.
pub type CopiedBody = TappedBody<Copied>;

/// A body that passes a copy of its data to a reader.
#[derive(Debug)]
pub struct TappedBody<R> {
    body: Body,
    reader: R,
}

/// Reads the data of a body.
pub trait Reader: Unpin {
    /// Takes the next part of the data.
    fn read(&mut self, data: &Bytes);
}

impl<R: Reader> HttpBody for TappedBody<R> {
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
            self.reader.read(data);
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

impl Reader for Copied {
    fn read(&mut self, data: &Bytes) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(data);
    }
}

/// Logs the messages of a response body: the one of a JSON body, or each of a stream of events.
struct ResponseLog {
    exchange: Exchange,
    is_stream: bool,
    part: Part,
}

impl Reader for ResponseLog {
    fn read(&mut self, data: &Bytes) {
        if !self.is_stream {
            self.part.add_frame(data);
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
}

impl ResponseLog {
    fn end_line(&mut self) {
        const FIELD: &[u8] = b"data:";
        let Part { beginning: Beginning::Copied(mut line), total } = std::mem::take(&mut self.part)
        else {
            return;
        };
        if line.starts_with(FIELD) {
            line.drain(..FIELD.len());
            let message = Part { beginning: Beginning::Copied(line), total: total - FIELD.len() };
            self.exchange.push(Direction::Sent, message);
        }
    }

    fn end(&mut self) {
        if self.is_stream {
            self.end_line();
        } else {
            let part = std::mem::take(&mut self.part);
            self.exchange.push(Direction::Sent, part);
        }
    }
}

/// Bodies are not polled again after their last frame, so the end of a body is its drop.
impl Drop for ResponseLog {
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
        let exchange =
            Exchange { console: console.clone(), slot: RecordSlot::default(), caller: "agent" };
        let mut log = ResponseLog { exchange, is_stream, part: Part::default() };
        for part in parts {
            log.read(&Bytes::copy_from_slice(part));
        }
        drop(log);
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
        let large = Bytes::from(vec![b'x'; 10 * MAX_MESSAGE]);
        for mut part in [Part::default(), Part { total: 1, ..Part::default() }] {
            let before = part.total;
            part.add_frame(&large);
            assert_eq!(part.total, before + large.len());
            assert_eq!(part.into_bytes().len(), MAX_MESSAGE);
        }
        assert_eq!(logged(false, &[br#"{"result":{"t":""#, &large])[0].1, 16 + large.len() as u64);
    }
}
