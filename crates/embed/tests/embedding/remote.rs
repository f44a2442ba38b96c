//! Models behind an endpoint: correct and faulty ones.

use std::{
    iter::repeat_with,
    time::{Duration, Instant},
};

use axum::response::Response;
use marquetry_embed::{
    EmbedError, Embedder, EmbeddingModel,
    remote::{EmbeddingApi, EndpointFailure, RemoteEmbedder, RemoteOptions},
};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::server::{
    DIMENSION, Endpoint, KEY, fails, options, says, unit_vector, vector, vectors_of,
};

const BOTH: [EmbeddingApi; 2] = [EmbeddingApi::OpenAi, EmbeddingApi::Ollama];

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

#[track_caller]
fn assert_near(vectors: &[Vec<f32>], expected: &[Vec<f32>]) {
    assert_eq!(vectors.len(), expected.len());
    for (vector, expected) in vectors.iter().zip(expected) {
        assert_eq!(vector.len(), expected.len());
        for (value, expected) in vector.iter().zip(expected) {
            assert!((value - expected).abs() < 1e-6, "{vectors:?}");
        }
    }
}

/// Embeds one text with this answer of the endpoint.
async fn asked(api: EmbeddingApi, answer: Response) -> Result<Vec<Vec<f32>>, EmbedError> {
    let endpoint = Endpoint::new(api, [answer]);
    let mut options = endpoint.options().await;
    options.retries = 0;
    RemoteEmbedder::open(options).await.unwrap().embed(&texts(&["one"])).await
}

#[track_caller]
fn failure(outcome: Result<Vec<Vec<f32>>, EmbedError>) -> (EndpointFailure, String) {
    let error = outcome.unwrap_err();
    let message = error.to_string();
    assert!(!message.contains("nobody-may-see"), "{message}");
    let EmbedError::Endpoint { endpoint, failure } = error else { panic!("{error}") };
    assert!(endpoint.starts_with("http://127.0.0.1:") && message.contains(&endpoint), "{message}");
    (failure, message)
}

#[tokio::test]
async fn texts_get_their_vectors_with_length_one() {
    for api in BOTH {
        let endpoint = Endpoint::new(api, []);
        let options = endpoint.options().await;
        let origin = options.base_url.clone().unwrap().replace("/v1/", "");
        let model = RemoteEmbedder::open(options).await.unwrap();
        let identity = format!("{}:small-model@{origin}", api.name());
        assert_eq!(model.model(), &EmbeddingModel::new(identity, DIMENSION));

        let vectors = model.embed(&texts(&["one", "", "two", " \n"])).await.unwrap();
        let zeros = vec![0.0; DIMENSION];
        assert_near(&vectors, &[unit_vector("one"), zeros.clone(), unit_vector("two"), zeros]);
        assert!(model.embed(&[]).await.unwrap().is_empty());

        let [seen] = &endpoint.seen()[..] else { panic!("{} requests", endpoint.seen().len()) };
        assert_eq!(seen.headers["authorization"], format!("Bearer {KEY}"));
        assert_eq!(seen.headers["content-type"], "application/json");
        let expected = match api {
            EmbeddingApi::Ollama => {
                ("/api/embed", json!({"model": "small-model", "input": ["one", "two"]}))
            }
            _ => (
                "/v1/embeddings",
                json!({"model": "small-model", "input": ["one", "two"], "encoding_format": "float"}),
            ),
        };
        assert_eq!((&*seen.path, &seen.body), (expected.0, &expected.1));
    }
}

#[tokio::test]
async fn a_dimension_is_asked_for_once_or_given() {
    for api in BOTH {
        let endpoint = Endpoint::new(api, []);
        let mut options = endpoint.options().await;
        options.dimension = None;
        options.identity = Some("mine".to_owned());
        let model = RemoteEmbedder::open(options).await.unwrap();
        assert_eq!(model.model(), &EmbeddingModel::new("mine", DIMENSION));
        model.embed(&texts(&["one"])).await.unwrap();
        assert_eq!(endpoint.seen().len(), 2);

        let endpoint = Endpoint::new(api, []);
        let mut options = endpoint.options().await;
        options.ask_for_dimension = true;
        let model = RemoteEmbedder::open(options).await.unwrap();
        assert!(endpoint.seen().is_empty(), "nobody had to be asked");
        model.embed(&texts(&["one"])).await.unwrap();
        assert_eq!(endpoint.seen()[0].body["dimensions"], json!(DIMENSION));
    }
    let endpoint =
        Endpoint::new(EmbeddingApi::Ollama, [says("application/json", "{\"embeddings\":[[]]}")]);
    let mut options = endpoint.options().await;
    options.dimension = None;
    let error = RemoteEmbedder::open(options).await.err().unwrap();
    assert!(error.to_string().contains("without numbers"), "{error}");
}

#[tokio::test]
async fn texts_go_in_batches_and_come_back_in_their_order() {
    let endpoint = Endpoint::slow(Duration::from_millis(30));
    let mut options = endpoint.options().await;
    options.batch_texts = 4;
    options.batch_bytes = 20;
    options.parallel = 3;
    let model = RemoteEmbedder::open(options).await.unwrap();
    let mut texts: Vec<String> = (0..30).map(|number| format!("text{number}")).collect();
    texts.insert(10, "a text that is longer than a batch may be".to_owned());
    // Two callers share the limit of parallel requests.
    let (first, second) = tokio::join!(model.embed(&texts), model.embed(&texts));
    let expected: Vec<_> = texts.iter().map(|text| unit_vector(text)).collect();
    assert_near(&first.unwrap(), &expected);
    assert_near(&second.unwrap(), &expected);
    let seen = endpoint.seen();
    for request in &seen {
        let sent: Vec<_> =
            request.body["input"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let bytes: usize = sent.iter().map(|text| text.len()).sum();
        assert!(sent.len() == 1 || (sent.len() <= 4 && bytes <= 20), "{sent:?}");
    }
    assert!(seen.len() >= 2 * 31 / 4, "{}", seen.len());
    assert_eq!(endpoint.max_at_once(), 3);
}

fn item(index: usize, text: &str) -> Value {
    json!({"index": index, "embedding": vector(text)})
}

#[tokio::test]
async fn right_vectors_out_of_order_are_put_in_order() {
    let shuffled = json!({"data": [item(2, "c"), item(0, "a"), item(1, "b")]});
    let unnumbered = json!({"data": [{"embedding": vector("a")}, {"embedding": vector("b")}, {"embedding": vector("c")}]});
    let twice = json!({"data": [item(0, "a"), item(0, "b"), item(1, "c")]});
    let beyond = json!({"data": [item(1, "a"), item(2, "b"), item(3, "c")]});
    let answers = [&shuffled, &unnumbered, &twice, &beyond];
    let answers = answers.map(|body| says("application/json", body.to_string()));
    let endpoint = Endpoint::new(EmbeddingApi::OpenAi, answers);
    let model = RemoteEmbedder::open(endpoint.options().await).await.unwrap();
    for _ in ["shuffled", "unnumbered"] {
        let vectors = model.embed(&texts(&["a", "b", "c"])).await.unwrap();
        assert_near(&vectors, &["a", "b", "c"].map(unit_vector));
    }
    for _ in ["twice", "beyond"] {
        let (failure, _) = failure(model.embed(&texts(&["a", "b", "c"])).await);
        assert!(matches!(failure, EndpointFailure::Malformed(_)), "{failure}");
    }
}

#[tokio::test]
async fn a_wrong_dimension_is_an_error_that_says_what_to_do() {
    for api in BOTH {
        let error = asked(api, vectors_of(api, &[[1.0, 2.0]])).await.unwrap_err();
        let EmbedError::Dimension { wanted, got, .. } = error else { panic!("{error}") };
        assert_eq!((wanted, got), (DIMENSION, 2));
        assert!(error.to_string().contains("index the documents again"), "{error}");
    }
}

#[tokio::test]
async fn a_wrong_count_is_an_error() {
    for api in BOTH {
        for vectors in [&[][..], &[[1.0; DIMENSION]; 2]] {
            let error = asked(api, vectors_of(api, vectors)).await.unwrap_err();
            let EmbedError::Count { wanted: 1, got, .. } = error else { panic!("{error}") };
            assert_eq!(got, vectors.len());
        }
    }
}

#[tokio::test]
async fn values_that_are_not_finite_are_errors() {
    for api in BOTH {
        let with = |value: &str| {
            let template = match api {
                EmbeddingApi::Ollama => "{\"embeddings\": [[1, 2, X]]}",
                _ => "{\"data\": [{\"index\": 0, \"embedding\": [1, 2, X]}]}",
            };
            says("application/json", template.replace('X', value))
        };
        for value in ["null", "NaN", "\"3\"", "[3]"] {
            let (failure, _) = failure(asked(api, with(value)).await);
            assert!(matches!(failure, EndpointFailure::Malformed(_)), "{value}: {failure}");
        }
        // Numbers that do not fit into 32 bits; the error depends on how the JSON parser rounds.
        for value in ["1e300", "-1e999"] {
            let error = asked(api, with(value)).await.unwrap_err();
            let is_told = matches!(
                error,
                EmbedError::NotFinite { .. }
                    | EmbedError::Endpoint { failure: EndpointFailure::Malformed(_), .. }
            );
            assert!(is_told, "{error}");
        }
    }
}

#[tokio::test]
async fn garbage_and_web_pages_are_reported() {
    for api in BOTH {
        for body in ["", "{", "[]", "{}", "\0\u{1}", "{\"data\": 7, \"embeddings\": 7}"] {
            let (failure, message) = failure(asked(api, says("application/json", body)).await);
            assert!(matches!(failure, EndpointFailure::Malformed(_)), "{body}: {message}");
        }
        // An unexpected value is quoted, but shortened and without the key.
        let quoted = json!({"data": format!("{KEY}{}", "x".repeat(10_000)), "embeddings": KEY});
        let (_, message) = failure(asked(api, says("application/json", quoted.to_string())).await);
        assert!(message.len() < 600, "{message}");
        let page = says("text/html; charset=utf-8", "<!DOCTYPE html><title>Welcome</title>");
        let (_, message) = failure(asked(api, page).await);
        assert!(message.contains("it is text/html") && message.contains("base URL"), "{message}");
    }
}

#[tokio::test]
async fn a_busy_endpoint_is_asked_again() {
    let busy = |status, headers| fails(status, headers, json!({"error": {"message": "slow down"}}));
    let answers = [
        busy(429, &[("retry-after-ms", "5")][..]),
        busy(503, &[]),
        busy(429, &[("retry-after", "0")]),
    ];
    let endpoint = Endpoint::new(EmbeddingApi::OpenAi, answers);
    let model = RemoteEmbedder::open(endpoint.options().await).await.unwrap();
    assert_near(&model.embed(&texts(&["one"])).await.unwrap(), &[unit_vector("one")]);
    assert_eq!(endpoint.seen().len(), 4);
}

#[tokio::test]
async fn retries_are_bounded() {
    for (status, said) in
        [(429, json!({"error": "slow down"})), (500, json!({"error": {"message": "oh no"}}))]
    {
        let answers: Vec<_> = repeat_with(|| fails(status, &[], said.clone())).take(9).collect();
        let endpoint = Endpoint::new(EmbeddingApi::Ollama, answers);
        let mut options = endpoint.options().await;
        options.retries = 2;
        let (failure, message) =
            failure(RemoteEmbedder::open(options).await.unwrap().embed(&texts(&["one"])).await);
        assert_eq!(endpoint.seen().len(), 3);
        match failure {
            EndpointFailure::RateLimited { message, .. } => {
                assert_eq!((status, &*message), (429, "slow down"));
            }
            EndpointFailure::Failed { message, .. } => {
                assert_eq!((status, &*message), (500, "oh no"));
            }
            other => panic!("{other}"),
        }
        assert!(message.contains(&status.to_string()), "{message}");
    }
}

#[tokio::test]
async fn a_longer_wait_than_the_maximum_gets_no_retry() {
    let answer = fails(429, &[("retry-after", "86400")], json!({}));
    let endpoint = Endpoint::new(EmbeddingApi::OpenAi, [answer]);
    let model = RemoteEmbedder::open(endpoint.options().await).await.unwrap();
    let (failure, _) = failure(model.embed(&texts(&["one"])).await);
    assert_eq!(failure.retry_after(), Some(Duration::from_hours(24)));
    assert_eq!(endpoint.seen().len(), 1);
}

#[tokio::test]
async fn refusals_are_not_repeated_and_hold_no_key() {
    for (status, wanted) in [
        (401, "does not accept the key"),
        (403, "does not accept the key"),
        (404, "refuses"),
        (400, "refuses"),
    ] {
        // The key, also where the message is cut.
        let said = format!("{}{KEY} is wrong{KEY}", "x".repeat(290));
        let endpoint = Endpoint::new(
            EmbeddingApi::OpenAi,
            [fails(status, &[], json!({"error": {"message": said}}))],
        );
        let model = RemoteEmbedder::open(endpoint.options().await).await.unwrap();
        let (_, message) = failure(model.embed(&texts(&["one"])).await);
        assert!(message.contains(wanted) && message.contains(&status.to_string()), "{message}");
        assert!(!message.contains("sk-a") && message.len() < 600, "{message}");
        assert_eq!(endpoint.seen().len(), 1);
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let other = Endpoint::new(EmbeddingApi::OpenAi, []);
    let target = other.options().await.base_url.unwrap();
    let answer = fails(307, &[("location", &target)], json!({}));
    let (failure, message) = failure(asked(EmbeddingApi::OpenAi, answer).await);
    assert_eq!(failure, EndpointFailure::Redirected { status: 307, location: target.clone() });
    assert!(message.contains(&target), "{message}");
    assert!(other.seen().is_empty());
}

#[tokio::test]
async fn a_huge_answer_is_not_kept() {
    // Blank space without end, which JSON allows.
    let endless =
        futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b' '; 1 << 16]));
    let endpoint = Endpoint::new(
        EmbeddingApi::OpenAi,
        [says("application/json", axum::body::Body::from_stream(endless))],
    );
    let mut options = endpoint.options().await;
    options.max_answer_bytes = 1 << 20;
    let (failure, message) =
        failure(RemoteEmbedder::open(options).await.unwrap().embed(&texts(&["one"])).await);
    assert_eq!(failure, EndpointFailure::TooLarge(1 << 20));
    assert!(message.contains("more than 1048576 bytes"), "{message}");
}

#[tokio::test]
async fn a_slow_endpoint_is_given_up() {
    let endpoint = Endpoint::slow(Duration::from_mins(1));
    let mut options = endpoint.options().await;
    options.timeout = Duration::from_millis(100);
    let start = Instant::now();
    let (failure, _) =
        failure(RemoteEmbedder::open(options).await.unwrap().embed(&texts(&["one"])).await);
    assert_eq!(failure, EndpointFailure::Timeout(Duration::from_millis(100)));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());

    // An answer that arrives slowly and never ends.
    let drip = futures_util::stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        Some((Ok::<_, std::io::Error>(" "), ()))
    });
    let endpoint = Endpoint::new(
        EmbeddingApi::OpenAi,
        [says("application/json", axum::body::Body::from_stream(drip))],
    );
    let mut options = endpoint.options().await;
    options.timeout = Duration::from_millis(100);
    let (failure, _) =
        self::failure(RemoteEmbedder::open(options).await.unwrap().embed(&texts(&["one"])).await);
    assert_eq!(failure, EndpointFailure::Timeout(Duration::from_millis(100)));
}

#[tokio::test]
async fn closed_and_missing_endpoints_are_reported() {
    for begins_to_answer in [false, true] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut options = options(EmbeddingApi::OpenAi, &listener);
        options.retries = 1;
        let server = tokio::spawn(async move {
            for _ in 0..2 {
                let (mut connection, _) = listener.accept().await.unwrap();
                // Reads the request first, so that closing does not reset the connection.
                connection.readable().await.unwrap();
                _ = connection.try_read(&mut [0; 1 << 16]);
                if begins_to_answer {
                    let start = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{\"da";
                    connection.write_all(start).await.unwrap();
                }
            }
        });
        let model = RemoteEmbedder::open(options).await.unwrap();
        let (failure, _) = failure(model.embed(&texts(&["one"])).await);
        assert!(matches!(failure, EndpointFailure::Unreachable(_)), "{failure}");
        // The server has answered twice, and is closed now.
        server.await.unwrap();
        let (failure, message) = self::failure(model.embed(&texts(&["one"])).await);
        assert!(matches!(failure, EndpointFailure::Unreachable(_)), "{failure}");
        assert!(message.contains("check that it runs"), "{message}");
    }
}

#[tokio::test]
async fn one_batch_that_fails_fails_all() {
    let endpoint =
        Endpoint::new(EmbeddingApi::OpenAi, [fails(400, &[], json!({"error": "too long"}))]);
    let mut options = endpoint.options().await;
    options.batch_texts = 1;
    let model = RemoteEmbedder::open(options).await.unwrap();
    let (failure, _) = failure(model.embed(&texts(&["one", "two", "three"])).await);
    assert_eq!(failure, EndpointFailure::Refused { status: 400, message: "too long".to_owned() });
}

#[tokio::test]
async fn plain_http_to_another_machine_is_refused() {
    let mut options = RemoteOptions::new(EmbeddingApi::OpenAi, "small-model");
    options.base_url = Some("http://embeddings.example/v1".to_owned());
    let error = RemoteEmbedder::open(options).await.err().unwrap();
    assert!(error.to_string().contains("allow_plain_http"), "{error}");
}
