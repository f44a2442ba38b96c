//! A gateway that only forwards: hyper on one side, the pipes of a child on the other.

use std::{
    borrow::Cow,
    collections::HashMap,
    convert::Infallible,
    error::Error,
    process::Stdio,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request, Response, body::Incoming, header, server::conn::http1, service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{ChildStdin, ChildStdout, Command},
    sync::oneshot,
};

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Answer<'a> {
    id: Option<u64>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// Calls that wait for their answers, by the ids that the child sees.
#[derive(Default)]
struct Waiting {
    last_id: u64,
    calls: HashMap<u64, (Box<RawValue>, oneshot::Sender<Vec<u8>>)>,
}

struct Forwarder {
    input: tokio::sync::Mutex<ChildStdin>,
    waiting: Arc<Mutex<Waiting>>,
}

impl Forwarder {
    async fn answer(&self, body: &[u8]) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        let message: Message<'_> = serde_json::from_slice(body)?;
        let (sender, answer) = oneshot::channel();
        let mut line = Vec::with_capacity(body.len() + 64);
        line.extend_from_slice(br#"{"jsonrpc":"2.0""#);
        if let Some(id) = message.id {
            let mut waiting = self.waiting.lock().map_err(|_| "poisoned")?;
            waiting.last_id += 1;
            let sent = waiting.last_id;
            waiting.calls.insert(sent, (id.to_owned(), sender));
            line.extend_from_slice(format!(r#","id":{sent}"#).as_bytes());
        }
        line.extend_from_slice(format!(r#","method":"{}""#, message.method).as_bytes());
        if let Some(params) = message.params {
            line.extend_from_slice(br#","params":"#);
            line.extend_from_slice(params.get().as_bytes());
        }
        line.extend_from_slice(b"}\n");
        self.input.lock().await.write_all(&line).await?;
        if message.id.is_none() {
            return Ok(Vec::new());
        }
        Ok(answer.await?)
    }
}

async fn read_answers(output: ChildStdout, waiting: Arc<Mutex<Waiting>>) {
    let mut output = BufReader::with_capacity(64 << 10, output);
    let mut line = Vec::new();
    while let Ok(1..) = output.read_until(b'\n', &mut line).await {
        complete(&line, &waiting);
        line.clear();
    }
}

fn complete(line: &[u8], waiting: &Mutex<Waiting>) -> Option<()> {
    let answer: Answer<'_> = serde_json::from_slice(line).ok()?;
    let (id, sender) = waiting.lock().ok()?.calls.remove(&answer.id?)?;
    let (member, outcome) = match answer.result {
        Some(result) => ("result", result),
        None => ("error", answer.error?),
    };
    let mut message = Vec::with_capacity(outcome.get().len() + 64);
    message.extend_from_slice(format!(r#"{{"jsonrpc":"2.0","id":{id},"{member}":"#).as_bytes());
    message.extend_from_slice(outcome.get().as_bytes());
    message.push(b'}');
    sender.send(message).ok()
}

async fn handle(
    request: Request<Incoming>,
    forwarder: Arc<Forwarder>,
) -> Result<Response<Full<Bytes>>, Box<dyn Error + Send + Sync>> {
    let body = request.into_body().collect().await?.to_bytes();
    let mut response = Response::new(Full::from(forwarder.answer(&body).await?));
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    Ok(response)
}

/// Starts the command and serves until this process ends.
#[tokio::main]
pub(crate) async fn serve(command: Vec<String>) -> Result<Infallible, Box<dyn Error>> {
    let (program, arguments) = command.split_first().ok_or("`forward` needs a command")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let input = child.stdin.take().ok_or("a child without a pipe")?;
    let output = child.stdout.take().ok_or("a child without a pipe")?;
    let waiting = Arc::default();
    tokio::spawn(read_answers(output, Arc::clone(&waiting)));
    let forwarder = Arc::new(Forwarder { input: input.into(), waiting });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let forwarder = Arc::clone(&forwarder);
        tokio::spawn(async move {
            let service = service_fn(|request| handle(request, Arc::clone(&forwarder)));
            // A client may close its connection at any time.
            _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
