//! HTTP+SSE, the transport of 2024-11-05: the server sends on one stream, and the client posts to
//! an address that this stream names.

use std::{sync::Arc, time::Duration};

use marquetry_protocol_wire::{
    DEFAULT_MAX_NESTING, Incoming, Message, RequestId, Revision, RpcError,
    envelope::write_error,
    error_code,
    line::{Line, read_line},
};
use tokio::{
    io::{AsyncWriteExt, BufReader, SimplexStream, WriteHalf},
    sync::{mpsc, oneshot},
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::{
    HttpTarget,
    address::resolved,
    body::Body,
    endpoint as endpoint_of,
    endpoint::{Endpoint, is_events},
};
use crate::{
    error::{ClientError, ProtocolError},
    events::CloseReason,
    options::ClientOptions,
    pipe::PipeLink,
    shared::Shared,
    sse::{Event, SseParser},
};

/// Maximum bytes between the stream and its reader.
const PIPE_BYTES: usize = 64 << 10;

/// Opens the stream; returns [`None`] if the server has no stream at that address.
pub(crate) async fn connect(
    target: &HttpTarget,
    options: &ClientOptions,
) -> Result<Option<PipeLink>, ClientError> {
    let shared = Arc::new(Shared::new(options));
    let stream = endpoint_of(target, shared.clone(), options)?;
    let opened = stream.send(stream.get(Revision::V2024_11_05));
    let response = tokio::time::timeout(options.connect_timeout, opened)
        .await
        .map_err(|_| ClientError::Timeout(options.connect_timeout))??;
    if !response.status().is_success() || !is_events(&response) {
        return Ok(None);
    }

    // Messages become lines, so the connection is then handled as a pipe.
    let (reader, incoming) = tokio::io::simplex(PIPE_BYTES);
    let (outgoing, writer) = tokio::io::simplex(PIPE_BYTES);
    let (named, address) = oneshot::channel();
    let stop = CancellationToken::new();
    let given_up = stop.clone().drop_guard();
    let (refuse, refused) = mpsc::channel(MAX_UNREAD_REFUSALS);
    let (head, body) = response.into_parts();
    let body = Body::new(&head.headers, body)
        .map_err(|error| ClientError::io(format!("stream of {}", stream.shown), error))?;
    let reading = read(body, incoming, named, refused, options.max_message_bytes);
    let ended = shared.clone();
    let reading = async move {
        let reason = reading.await;
        ended.end(reason);
    };
    tokio::spawn(stop.clone().run_until_cancelled_owned(reading.in_current_span()));
    let address = tokio::time::timeout(options.connect_timeout, address)
        .await
        .map_err(|_| ClientError::Timeout(options.connect_timeout))?
        .map_err(|_| ProtocolError::NoMessageEndpoint)?;
    let url = resolved(&stream.uri, &address)
        .map_err(|problem| ProtocolError::MessageEndpoint { endpoint: address, problem })?;
    let post = stream.at(url);
    tokio::spawn(stop.clone().run_until_cancelled_owned(write(
        post,
        outgoing,
        refuse,
        options.max_message_bytes,
    )));
    given_up.disarm();
    let gone = already_gone();
    Ok(Some(PipeLink::over(reader, writer, shared, options, stop, gone, Duration::ZERO)))
}

fn already_gone() -> Arc<tokio::sync::Notify> {
    let gone = Arc::new(tokio::sync::Notify::new());
    gone.notify_one();
    gone
}

/// Forwards each message of the stream, and each error from `refused`, as a line.
async fn read(
    mut body: Body,
    mut lines: WriteHalf<SimplexStream>,
    named: oneshot::Sender<String>,
    mut refused: mpsc::Receiver<Vec<u8>>,
    max: usize,
) -> CloseReason {
    let mut parser = SseParser::new(max);
    let mut named = Some(named);
    loop {
        let piece = tokio::select! {
            piece = body.next() => piece,
            Some(mut answer) = refused.recv() => {
                answer.push(b'\n');
                if lines.write_all(&answer).await.is_err() {
                    return CloseReason::Asked;
                }
                continue;
            }
        };
        let data = match piece {
            Ok(None) => return CloseReason::Ended("server has closed its stream".to_owned()),
            Err(error) => return CloseReason::Ended(format!("stream broke: {error}")),
            Ok(Some(piece)) => piece,
        };
        let mut whole = Vec::new();
        let parsed = parser.push(&data, |Event { name, data }| {
            if name == "endpoint" {
                if let Some(named) = named.take() {
                    _ = named.send(String::from_utf8_lossy(data).trim().to_owned());
                }
            } else {
                // A message on several lines is still one message.
                whole.extend(data.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }));
                whole.push(b'\n');
            }
        });
        if parsed.is_err() {
            return CloseReason::Broken(format!("server sent an event of more than {max} bytes"));
        }
        if lines.write_all(&whole).await.is_err() {
            return CloseReason::Asked;
        }
    }
}

/// Maximum number of unread refusals of messages.
const MAX_UNREAD_REFUSALS: usize = 16;

/// The status with which a server says that it has forgotten the session of the stream.
const NO_SESSION: u16 = 404;

/// Posts each line. If the server refuses a request but not its session, `refuse` gets an error as
/// the answer, and the connection continues.
async fn write(
    post: Endpoint,
    lines: tokio::io::ReadHalf<SimplexStream>,
    refuse: mpsc::Sender<Vec<u8>>,
    max: usize,
) {
    let mut lines = BufReader::new(lines);
    let mut buffer = Vec::new();
    loop {
        match read_line(&mut lines, &mut buffer, max).await {
            Ok(Line::Whole) => {
                let id = request_id(&buffer);
                let sent = post.tell(Revision::V2024_11_05, std::mem::take(&mut buffer)).await;
                if let (Err(ClientError::Http { status, body }), Some(id)) = (&sent, &id)
                    && *status != NO_SESSION
                {
                    let error = match status {
                        413 => RpcError::limit_exceeded(body),
                        500.. => RpcError::internal(format!("HTTP status {status}: {body}")),
                        _ => RpcError::new(error_code::INVALID_REQUEST, body),
                    };
                    if refuse.send(write_error(Some(id), &error)).await.is_ok() {
                        continue;
                    }
                }
                if let Err(error) = sent {
                    post.shared
                        .end(CloseReason::Ended(format!("posting a message failed: {error}")));
                    return;
                }
            }
            Ok(Line::Blank) => {}
            Ok(Line::TooLong) => {
                post.shared.end(CloseReason::Broken(format!(
                    "a message to the server has more than {max} bytes"
                )));
                return;
            }
            Ok(Line::End) | Err(_) => return,
        }
    }
}

/// Returns the id of a request; other messages need no answer.
fn request_id(message: &[u8]) -> Option<RequestId> {
    match Incoming::parse(message, DEFAULT_MAX_NESTING) {
        Ok(Incoming::Message(Message::Request(request))) => Some(request.id),
        _ => None,
    }
}
