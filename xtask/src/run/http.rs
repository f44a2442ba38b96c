//! HTTP as a plain client speaks it: one request a connection, the whole answer.

use std::io;

use bytes::Bytes;
use http::{Method, Request, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use tokio::net::TcpStream;

/// What is asked.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// Sends a request to `address` and gives the answer as `{status, headers, body}`. Header names are
/// in lower case; the body is parsed when it is JSON by its type, and a string otherwise.
pub(crate) async fn exchange(
    address: std::net::SocketAddr,
    request: Exchange,
) -> io::Result<Value> {
    let method = Method::from_bytes(request.method.as_bytes()).map_err(io::Error::other)?;
    let uri: Uri = request.path.parse().map_err(io::Error::other)?;
    let mut builder = Request::builder().method(method).uri(uri);
    if !request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        builder = builder.header(header::HOST, address.to_string());
    }
    for (name, value) in &request.headers {
        builder = builder.header(name, value);
    }
    let request = builder.body(Full::new(Bytes::from(request.body))).map_err(io::Error::other)?;

    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let connection = tokio::spawn(connection);
    let answer = sender.send_request(request).await.map_err(io::Error::other)?;
    let (head, body) = answer.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
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
    Ok(json!({ "status": head.status.as_u16(), "headers": headers, "body": body }))
}
