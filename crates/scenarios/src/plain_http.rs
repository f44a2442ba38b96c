//! A plain HTTP client: one request for each connection, and the whole answer.

use std::{io, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{Method, Request, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpSocket, TcpStream},
    time::timeout,
};

/// An HTTP request.
#[derive(Debug, Default)]
pub struct Exchange {
    /// The method.
    pub method: String,
    /// The path, with the query.
    pub path: String,
    /// Headers; `host` is added unless it is one of them.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Reads the response for this time only.
    pub hang_up_after: Option<Duration>,
}

/// Connection of a request whose answer is not read. Dropping it closes the connection.
pub(crate) struct Unread {
    _stream: TcpStream,
}

/// Sends a request and reads nothing.
pub(crate) async fn send_unread(
    address: std::net::SocketAddr,
    request: &Exchange,
) -> io::Result<Unread> {
    let mut head = format!("{} {} HTTP/1.1\r\nhost: {address}\r\n", request.method, request.path);
    for (name, value) in &request.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\n\r\n", request.body.len()));
    // A small receive buffer makes the server's own queue fill up.
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4 << 10)?;
    let mut stream = socket.connect(address).await?;
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&request.body).await?;
    Ok(Unread { _stream: stream })
}

/// Sends a request to `address` and returns the answer as `{status, headers, body}`. Header names
/// are in lower case. The body is parsed if its type is JSON, else it is a string.
///
/// # Errors
///
/// Returns an error if the request is malformed, or if the connection fails.
pub async fn exchange(address: std::net::SocketAddr, request: Exchange) -> io::Result<Value> {
    let method = Method::from_bytes(request.method.as_bytes()).map_err(io::Error::other)?;
    let uri: Uri = request.path.parse().map_err(io::Error::other)?;
    let mut builder = Request::builder().method(method).uri(uri);
    if !request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        builder = builder.header(header::HOST, address.to_string());
    }
    for (name, value) in &request.headers {
        builder = builder.header(name, value);
    }
    let request_time = request.hang_up_after;
    let request = builder.body(Full::new(Bytes::from(request.body))).map_err(io::Error::other)?;

    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let connection = tokio::spawn(connection);
    let answer = sender.send_request(request).await.map_err(io::Error::other)?;
    let (head, body) = answer.into_parts();
    let body = read(body, request_time).await?;
    drop(sender);
    connection.abort();

    let mut headers = Map::new();
    for name in head.headers.keys() {
        let values = head
            .headers
            .get_all(name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()));
        headers.insert(name.as_str().to_owned(), values.collect::<Vec<_>>().join(", ").into());
    }
    let is_json = headers
        .get("content-type")
        .and_then(Value::as_str)
        .is_some_and(|value| value.split(';').next() == Some("application/json"));
    let body = match serde_json::from_slice(&body) {
        Ok(value) if is_json => value,
        _ => Value::String(String::from_utf8_lossy(&body).into_owned()),
    };
    let mut outcome = json!({ "status": head.status.as_u16(), "headers": headers, "body": body });
    let is_stream = outcome["headers"]["content-type"].as_str() == Some("text/event-stream");
    if is_stream && let Some(text) = outcome["body"].as_str() {
        outcome["events"] = text.split("\n\n").filter_map(event).collect();
    }
    Ok(outcome)
}

/// Returns the body; after `time`, the part of it that has arrived.
async fn read(mut body: hyper::body::Incoming, time: Option<Duration>) -> io::Result<Bytes> {
    let mut read = BytesMut::new();
    let all = async {
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame.map_err(io::Error::other)?.into_data() {
                read.extend_from_slice(&data);
            }
        }
        io::Result::Ok(())
    };
    match time {
        None => all.await?,
        Some(time) => timeout(time, all).await.unwrap_or(Ok(()))?,
    }
    Ok(read.freeze())
}

/// Parses one event of a stream. Comments are not events.
fn event(block: &str) -> Option<Value> {
    let mut event = Map::new();
    for line in block.lines() {
        let (field, value) = line.split_once(':')?;
        let value = value.strip_prefix(' ').unwrap_or(value);
        if field == "data" {
            let data = serde_json::from_str(value).unwrap_or_else(|_| value.into());
            event.insert("data".to_owned(), data);
        } else if !field.is_empty() {
            event.insert(field.to_owned(), value.into());
        }
    }
    (!event.is_empty()).then(|| event.into())
}
