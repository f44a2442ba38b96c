//! Calls of an endpoint on this machine.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::post,
};
use marquetry_endpoint::{ApiKey, Endpoint, EndpointFailure, PlainHttp, base_url};
use serde_json::json;

const KEY: &str = "sk-secret";

/// Starts an endpoint that answers the request of each number, from 0.
async fn started(
    answer: impl Fn(usize, &HeaderMap) -> Response + Clone + Send + Sync + 'static,
) -> (Endpoint, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let requests = count.clone();
    let handler = move |headers: HeaderMap| async move {
        answer(requests.fetch_add(1, Ordering::SeqCst), &headers)
    };
    let router = Router::new().route("/v1/ask", post(handler));
    tokio::spawn(async { axum::serve(listener, router).await });
    let base = base_url(&format!("http://{address}/v1"), PlainHttp::LoopbackOnly).unwrap();
    let mut endpoint = Endpoint::new(base.join("ask").unwrap()).unwrap().with_key(ApiKey::new(KEY));
    endpoint.retry.longest_wait = Duration::from_millis(100);
    (endpoint, count)
}

#[tokio::test]
async fn a_busy_endpoint_is_asked_again_with_the_key() {
    let (endpoint, count) = started(|number, headers| {
        assert_eq!(headers["authorization"], format!("Bearer {KEY}"));
        match number {
            0 => (StatusCode::TOO_MANY_REQUESTS, [("retry-after-ms", "5")]).into_response(),
            1 => StatusCode::SERVICE_UNAVAILABLE.into_response(),
            _ => axum::Json(json!({"answer": 4})).into_response(),
        }
    })
    .await;
    let answer = endpoint.post_json(&json!({"question": "2 + 2"})).await.unwrap();
    assert_eq!(
        (&*answer.media_type, &answer.body[..]),
        ("application/json", &b"{\"answer\":4}"[..])
    );
    assert_eq!(count.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn failures_hold_no_key() {
    let (endpoint, _) = started(|_, headers| {
        let said = format!("wrong key {:?}", headers["authorization"]);
        (StatusCode::UNAUTHORIZED, said).into_response()
    })
    .await;
    let failure = endpoint.post_json(&json!({})).await.unwrap_err();
    assert_eq!(failure.to_string(), "does not accept the key (status 401): wrong key \"Bearer …\"");
    assert!(!format!("{failure:?} {endpoint:?}").contains(KEY));
}

#[tokio::test]
async fn answers_are_bounded() {
    let (mut endpoint, _) = started(|_, _| "x".repeat(1000).into_response()).await;
    endpoint.max_answer_bytes = 999;
    let failure = endpoint.post_json(&json!({})).await.unwrap_err();
    assert_eq!(failure, EndpointFailure::TooLarge(999));
    endpoint.max_answer_bytes = 1000;
    let answer = endpoint.post_json(&json!({})).await.unwrap();
    let failure = endpoint.malformed(&answer, &format!("expected a vector, not {KEY}"));
    assert_eq!(
        failure.to_string(),
        "sent an invalid answer: expected a vector, not …; it is text/plain; charset=utf-8: is the base URL right?"
    );
}
