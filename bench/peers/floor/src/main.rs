//! The least that an answer can cost: bare hyper that parses the JSON of an echo call and writes
//! its answer, without sessions, revisions, checks, limits or errors. `peer-floor json` prints its
//! URL; `peer-floor stdio` serves lines.

use std::{
    borrow::Cow,
    convert::Infallible,
    error::Error,
    io::{BufRead as _, Write as _},
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Option<Params<'a>>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    arguments: Option<Arguments<'a>>,
}

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

#[derive(Serialize)]
struct Answer<'a> {
    jsonrpc: &'static str,
    id: &'a RawValue,
    result: Answered<'a>,
}

#[derive(Serialize)]
struct Answered<'a> {
    content: [Text<'a>; 1],
}

#[derive(Serialize)]
struct Text<'a> {
    r#type: &'static str,
    text: &'a str,
}

/// The answer to a call; the other requests get one without text, notifications get none.
fn answer(bytes: &[u8]) -> Option<Vec<u8>> {
    let call: Call<'_> = serde_json::from_slice(bytes).ok()?;
    let id = call.id?;
    if call.method == "initialize" {
        let result = r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"floor","version":"0"}}"#;
        return Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#).into());
    }
    let arguments = call.params.and_then(|params| params.arguments);
    let text = arguments.as_ref().map_or("", |arguments| &*arguments.text);
    let content = [Text { r#type: "text", text }];
    serde_json::to_vec(&Answer { jsonrpc: "2.0", id, result: Answered { content } }).ok()
}

async fn handle(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let body = request.into_body().collect().await?.to_bytes();
    let mut response = Response::new(Full::from(answer(&body).unwrap_or_default()));
    let json = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, json);
    Ok(response)
}

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1).as_deref() {
        Some("stdio") => serve_stdio(),
        Some("json") => serve_http().map(|never| match never {}),
        _ => Err("json or stdio?".into()),
    }
}

fn serve_stdio() -> Result<(), Box<dyn Error>> {
    let mut output = std::io::stdout().lock();
    let mut input = std::io::stdin().lock();
    let mut line = Vec::new();
    while { line.clear(); input.read_until(b'\n', &mut line)? } > 0 {
        if let Some(mut answer) = answer(&line) {
            answer.push(b'\n');
            output.write_all(&answer)?;
            output.flush()?;
        }
    }
    Ok(())
}

#[tokio::main]
async fn serve_http() -> Result<Infallible, Box<dyn Error>> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let connection =
            http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(handle));
        tokio::spawn(async move {
            // A client that goes away is its own affair.
            _ = connection.await;
        });
    }
}
