//! Broken set-ups of servers over HTTP.

use std::{sync::Arc, time::Duration};

use marquetry_doctor_command::{Cause, Outcome};
use marquetry_gateway::{Transport, UpstreamOptions};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpListener,
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig};

use crate::support::{check, examined};

/// Serves HTTP: each request gets the answer that `answer` returns for its text. Returns the URL
/// without a path.
pub(crate) async fn answering(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, answer.clone()));
        }
    });
    format!("http://{address}/")
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: Arc<impl Fn(&str) -> String>,
) {
    let mut request = Vec::new();
    let mut part = [0; 4096];
    // A request has a small body, which comes with its head or right after it.
    while let Ok(read @ 1..) = stream.read(&mut part).await {
        request.extend_from_slice(&part[..read]);
        // The beginning of TLS, which real servers answer with 400.
        if !request[0].is_ascii_alphabetic() {
            break;
        }
        let text = String::from_utf8_lossy(&request).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.to_lowercase();
        let length = length
            .split_once("content-length: ")
            .map_or(0, |(_, rest)| rest.split("\r\n").next().unwrap().trim().parse().unwrap());
        if body.len() >= length {
            break;
        }
    }
    let text = String::from_utf8_lossy(&request).into_owned();
    _ = stream.write_all(answer(&text).as_bytes()).await;
    _ = stream.shutdown().await;
}

pub(crate) fn response(status: &str, media_type: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

fn at(url: &str) -> UpstreamOptions {
    UpstreamOptions::new("remote", Transport::http(url))
}

fn with_token(mut options: UpstreamOptions) -> UpstreamOptions {
    let Transport::Http { headers, .. } = &mut options.transport else { panic!("a URL") };
    headers.insert("Authorization".to_owned(), "Bearer hush-hush-8412".to_owned());
    options
}

/// Returns the URL of a server that answers everything with this response.
async fn always(status: &str, media_type: &str, body: &str) -> String {
    let answer = response(status, media_type, body);
    answering(move |_| answer.clone()).await
}

#[tokio::test]
async fn tokens_that_are_missing_or_refused() {
    let url = always("401 Unauthorized", "text/plain", "no").await + "mcp";
    let found = check(at(&url), Cause::LoginNeeded, "401", "`marquetry login remote`").await;
    assert!(found.advice.contains("Authorization: Bearer"), "{found:?}");
    for status in ["401 Unauthorized", "403 Forbidden"] {
        let url = always(status, "text/plain", "no").await + "mcp";
        let found =
            check(with_token(at(&url)), Cause::TokenRefused, &status[..3], "renew it").await;
        assert!(!found.advice.contains("marquetry login"), "{found:?}");
    }
    let url = always("403 Forbidden", "text/plain", "no").await + "mcp";
    check(at(&url), Cause::Forbidden, "403", "\"headers\"").await;
}

#[tokio::test]
async fn addresses_that_are_wrong() {
    let url = always("404 Not Found", "text/html", "<html>no</html>").await;
    let found = check(at(&format!("{url}sse")), Cause::WrongPath, "404", "/mcp").await;
    assert!(!found.problem.contains("<html>"), "{found:?}");
    check(at(&format!("{url}mcp")), Cause::WrongPath, "404", "/sse").await;
    let url = always("200 OK", "text/html; charset=utf-8", "<!doctype html><p>Hi").await;
    check(at(&url), Cause::WebPage, "web page", "/mcp").await;
    let url = answering(|_| {
        "HTTP/1.1 302 Found\r\nlocation: https://login.example/?back=x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned()
    })
    .await;
    check(at(&url), Cause::Redirect, "https://login.example", "log").await;
    let url = always("503 Service Unavailable", "text/plain", "busy").await;
    check(at(&url), Cause::HttpStatus, "503", "log of the server").await;
}

#[tokio::test]
async fn hosts_that_cannot_be_reached() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let port = address.port().to_string();
    let url = format!("http://{address}/mcp");
    check(at(&url), Cause::ConnectionRefused, &port, "start the server").await;
    let url = "http://no-such-host.invalid/mcp";
    check(at(url), Cause::UnknownHost, "no-such-host.invalid", "\"url\"").await;
}

#[tokio::test]
async fn certificates_and_plain_http() {
    let certificate = CertificateDer::from_pem_slice(include_bytes!("../server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("../server-key.pem")).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            _ = acceptor.accept(stream).await;
        }
    });
    check(at(&url), Cause::Certificate, "UnknownIssuer", "gateway.ca_file").await;
    let plain = always("400 Bad Request", "text/plain", "").await.replace("http:", "https:");
    check(at(&plain), Cause::Tls, "cannot reach", "http://").await;
}

#[tokio::test]
async fn a_server_that_never_answers_and_one_that_speaks_something_else() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut options = at(&format!("http://{}/mcp", listener.local_addr().unwrap()));
    options.start_timeout = Duration::from_millis(500);
    check(options, Cause::Silent, "0.5 s", "start_timeout_ms").await;
    let url = always("200 OK", "application/json", "[1, 2").await;
    check(at(&url), Cause::InvalidAnswer, "invalid message", "update").await;
}

#[tokio::test]
async fn a_server_that_works_with_a_token_shows_no_secret() {
    let url = answering(|request| {
        let body = request.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let id = body.split("\"id\":").nth(1).unwrap_or("0").split([',', '}']).next().unwrap();
        let result = if body.contains("\"initialize\"") {
            r#""result":{"protocolVersion":"2025-03-26","capabilities":{},"serverInfo":{"name":"s","version":"1"}}"#
        } else {
            r#""error":{"code":-32601,"message":"unknown"}"#
        };
        response("200 OK", "application/json", &format!(r#"{{"jsonrpc":"2.0","id":{id},{result}}}"#))
    })
    .await;
    let report = examined(with_token(at(&url))).await;
    let Outcome::Ready(ready) = &report.outcome else { panic!("{report:?}") };
    assert_eq!(ready.introduction["revision"], "2025-03-26");
    assert!(!format!("{report:?}").contains("hush"), "{report:?}");
}
