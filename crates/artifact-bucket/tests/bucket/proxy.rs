//! A proxy in front of the server of S3, which makes requests fail.

use std::{
    convert::Infallible,
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
use hyper::{
    Request, Response,
    body::{Body, Frame, Incoming, SizeHint},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use marquetry_endpoint::http_client;
use tokio::net::TcpListener;

/// A fault of requests.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// The answer is 503, and the server does not see the request.
    Unavailable,
    /// The answer is that of another status and this code of S3.
    Refused(u16, &'static str),
    /// The connection ends before the server sees the request.
    LostRequest,
    /// The connection ends after the server has done the request.
    LostAnswer,
    /// The connection ends in the middle of the answer's body.
    CutAnswer,
    /// The answer comes late.
    Slow(Duration),
}

/// Requests that have a fault.
#[derive(Clone, Debug)]
struct Rule {
    method: &'static str,
    /// Part of the path and query.
    part: &'static str,
    fault: Fault,
    /// Requests that are left alone first.
    skipped: usize,
    times: usize,
}

#[derive(Clone)]
pub(crate) struct Proxy(Arc<Inner>);

struct Inner {
    url: String,
    target: String,
    client: reqwest::Client,
    rules: Mutex<Vec<Rule>>,
    /// Requests that were seen, as method and path.
    seen: Mutex<Vec<String>>,
    /// moto tests `If-None-Match` and writes in two steps, which another thread can come between.
    create: tokio::sync::Mutex<()>,
}

impl Proxy {
    pub(crate) async fn start(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let client = http_client(&target.parse().unwrap()).unwrap();
        let proxy = Self(Arc::new(Inner {
            url,
            target,
            client,
            rules: Mutex::default(),
            seen: Mutex::default(),
            create: tokio::sync::Mutex::default(),
        }));
        let served = proxy.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let proxy = served.clone();
                let service = service_fn(move |request| {
                    let proxy = proxy.clone();
                    async move { proxy.answer(request).await }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        proxy
    }

    pub(crate) fn url(&self) -> &str {
        &self.0.url
    }

    /// Lets the next `times` requests of this method, and with this part in their path, fail.
    pub(crate) fn fail(
        &self,
        method: &'static str,
        part: &'static str,
        fault: Fault,
        times: usize,
    ) {
        self.fail_after(0, method, part, fault, times);
    }

    pub(crate) fn fail_after(
        &self,
        skipped: usize,
        method: &'static str,
        part: &'static str,
        fault: Fault,
        times: usize,
    ) {
        self.0.rules.lock().unwrap().push(Rule { method, part, fault, skipped, times });
    }

    /// Ends all faults, and returns the number of those that did not happen.
    pub(crate) fn heal(&self) -> usize {
        let rules = std::mem::take(&mut *self.0.rules.lock().unwrap());
        rules.iter().map(|rule| rule.times).filter(|times| *times < usize::MAX / 2).sum()
    }

    /// Returns the requests since the last call.
    pub(crate) fn take_seen(&self) -> Vec<String> {
        std::mem::take(&mut self.0.seen.lock().unwrap())
    }

    fn fault_of(&self, method: &str, path: &str) -> Option<Fault> {
        let mut rules = self.0.rules.lock().unwrap();
        for rule in rules.iter_mut() {
            if rule.method == method && path.contains(rule.part) {
                if rule.skipped > 0 {
                    rule.skipped -= 1;
                } else if rule.times > 0 {
                    rule.times -= 1;
                    return Some(rule.fault);
                }
            }
        }
        None
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> io::Result<Response<BoxBody<Bytes, io::Error>>> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().unwrap().to_string();
        self.0.seen.lock().unwrap().push(format!("{} {path}", parts.method));
        let fault = self.fault_of(parts.method.as_str(), &path);
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        match fault {
            Some(Fault::Unavailable) => return Ok(refusal(503, "SlowDown")),
            Some(Fault::Refused(status, code)) => return Ok(refusal(status, code)),
            Some(Fault::LostRequest) => return Err(io::Error::other("lost")),
            Some(Fault::Slow(time)) => tokio::time::sleep(time).await,
            _ => {}
        }
        let is_create = parts.headers.contains_key("if-none-match");
        let sent = async {
            let _lock = if is_create { Some(self.0.create.lock().await) } else { None };
            let url = format!("{}{path}", self.0.target);
            let request = self.0.client.request(parts.method, url).headers(parts.headers);
            let response = request.body(body).send().await?;
            let response = http::Response::<reqwest::Body>::from(response);
            let (parts, body) = response.into_parts();
            Ok::<_, reqwest::Error>((parts, body.collect().await?.to_bytes()))
        };
        let (mut parts, body) = sent.await.map_err(io::Error::other)?;
        parts.headers.remove("transfer-encoding");
        parts.headers.remove("connection");
        match fault {
            Some(Fault::LostAnswer) => Err(io::Error::other("lost")),
            Some(Fault::CutAnswer) => {
                let length = body.len() as u64;
                let half = body.slice(..body.len() / 2);
                Ok(Response::from_parts(parts, Cut { half: Some(half), length }.boxed()))
            }
            _ => Ok(Response::from_parts(parts, Full::new(body).map_err(never).boxed())),
        }
    }
}

fn refusal(status: u16, code: &str) -> Response<BoxBody<Bytes, io::Error>> {
    let body = format!("<Error><Code>{code}</Code><Message>m</Message></Error>");
    let body = Full::new(Bytes::from(body)).map_err(never).boxed();
    Response::builder().status(status).body(body).unwrap()
}

fn never(never: Infallible) -> io::Error {
    match never {}
}

/// A body that ends in the middle.
struct Cut {
    half: Option<Bytes>,
    length: u64,
}

impl Body for Cut {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(Some(match self.half.take() {
            Some(half) => Ok(Frame::data(half)),
            None => Err(io::Error::other("cut")),
        }))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.length)
    }
}
