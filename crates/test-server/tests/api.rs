//! The API through a socket, with its client: answers fit the OpenAPI document, and limits are
//! kept.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use marquetry_judge::{
    ApiKey, FixedModels, LibsqlStore, MemoryStore, ModelSettings, ResultStore, Runner, Status,
    TestCase,
    stats::Change,
    store::{
        Configuration, ConfigurationFilter, ConfigurationOrigin, LibsqlOptions, NewConfiguration,
        NewRun, OutcomeFilter, PageRequest, ResultFilter, RunStatus,
    },
};
use marquetry_llm::{ChatAnswer, ChatError, ChatModel, ChatRequest};
use marquetry_scenarios::plain_http::{Exchange, exchange};
use marquetry_test_server::{
    ApiOptions, CaseDefaults, ClientError, TestApi, TestClient, TestResult, Tests,
    api::document,
    client::{ConfigurationRun, NewOverride},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};

/// A model that answers "Four." when it is let through, or at once if the prompt begins with "At
/// once".
struct Gated {
    gate: Arc<Semaphore>,
    running: Arc<AtomicUsize>,
}

#[async_trait]
impl ChatModel for Gated {
    fn name(&self) -> &'static str {
        "gated"
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatAnswer, ChatError> {
        if format!("{request:?}").contains("At once") {
            return Ok(ChatAnswer::text("Four."));
        }
        self.running.fetch_add(1, Ordering::SeqCst);
        let _leaves = Leaves(Arc::clone(&self.running));
        let _passes = self.gate.acquire().await;
        Ok(ChatAnswer::text("Four."))
    }
}

/// Counts down when a request to the model ends or is dropped.
struct Leaves(Arc<AtomicUsize>);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

struct World {
    api: TestApi,
    address: std::net::SocketAddr,
    gate: Arc<Semaphore>,
    running: Arc<AtomicUsize>,
}

impl World {
    /// Serves tests whose model answers at once, if `open`.
    async fn start(options: ApiOptions, open: bool) -> Self {
        Self::with_store(options, open, Arc::new(MemoryStore::default())).await
    }

    /// Serves the same with results in a store.
    async fn with_store(options: ApiOptions, open: bool, store: Arc<dyn ResultStore>) -> Self {
        let gate = Arc::new(Semaphore::new(if open { Semaphore::MAX_PERMITS } else { 0 }));
        let running = Arc::new(AtomicUsize::new(0));
        let model = || Gated { gate: Arc::clone(&gate), running: Arc::clone(&running) };
        let runner = Runner::new(FixedModels::new(model(), model()), store);
        let mut defaults = CaseDefaults::default();
        defaults.agent_config = Some(ModelSettings::new("custom", "gated"));
        let api = TestApi::new(Tests::new(runner, defaults), options);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = api.clone();
        tokio::spawn(async move { served.serve(listener, std::future::pending()).await });
        Self { api, address, gate, running }
    }

    fn client(&self) -> TestClient {
        TestClient::at(format!("http://{}/", self.address))
    }

    async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let mut request =
            Exchange { method: method.to_owned(), path: path.to_owned(), ..Exchange::default() };
        if let Some(body) = body {
            request.headers.push(("content-type".to_owned(), "application/json".to_owned()));
            request.body = body.to_string().into_bytes();
        }
        exchange(self.address, request).await.unwrap()
    }

    async fn events(&self, query: &str) -> EventNames {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        let head =
            format!("GET /api/test/events{query} HTTP/1.0\r\nhost: {}\r\n\r\n", self.address);
        socket.write_all(head.as_bytes()).await.unwrap();
        EventNames { socket, text: String::new(), at: 0 }
    }

    async fn until_running(&self, count: usize) {
        for _ in 0..500 {
            if self.running.load(Ordering::SeqCst) == count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{} tests run, not {count}", self.running.load(Ordering::SeqCst));
    }
}

/// A case that passes if the model says "Four.".
fn case(name: &str) -> TestCase {
    serde_json::from_value(
        json!({"name": name, "prompt": "Two and two?", "expect": {"answer": "Four."}}),
    )
    .unwrap()
}

/// A configuration whose judge is this model.
fn judged_by(model: &str) -> NewConfiguration {
    NewConfiguration {
        name: "nightly".to_owned(),
        judge_config: Some(ModelSettings::new("openai", model)),
        ..NewConfiguration::default()
    }
}

#[tokio::test]
async fn answers_fit_the_document() {
    let world = World::start(ApiOptions::default(), true).await;
    let client = world.client();
    let (run, results) = client.run_batch(None, &[case("a")], |_| {}).await.unwrap();
    let configuration = client.create_configuration(&judged_by("a")).await.unwrap();
    let unused = client.create_configuration(&judged_by("b")).await.unwrap();
    let served = world.ask("GET", "/api/test/openapi.json", None).await;
    let document = document();
    assert_eq!(served["body"], document);
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let operation_id = operation["operationId"].as_str().unwrap();
            let id = match path {
                path if path.contains("results") => &results[0].id,
                // Only a configuration without a run can be deleted.
                _ if operation_id == "deleteConfiguration" => &unused.id,
                path if path.contains("configurations") => &configuration.id,
                _ => &run.id,
            };
            let mut path = path.replace("{id}", id);
            let mut body = None;
            match operation_id {
                "runTest" => body = Some(json!(case("b"))),
                "runBatch" | "runConfiguration" => body = Some(json!({"cases": [case("c")]})),
                "createConfiguration" => body = Some(json!(judged_by("m"))),
                "putOverride" => {
                    body = Some(json!({"trial": 0, "passed": true, "reason": "It is four."}));
                }
                "history" => path.push_str("?name=a"),
                "compare" => path.push_str(&format!("?base={0}&new={0}", run.id)),
                // It ends when the server does; see below.
                "events" => continue,
                _ => {}
            }
            let answer = world.ask(&method.to_uppercase(), &path, body).await;
            assert_eq!(answer["status"], 200, "{path}: {answer}");
            let content = operation["responses"]["200"]["content"].as_object().unwrap();
            let (media_type, content) = content.iter().next().unwrap();
            let found = answer["headers"]["content-type"].as_str().unwrap();
            assert!(found.starts_with(media_type.as_str()), "{path}: {found}");
            let mut schema = content["schema"].clone();
            schema["components"] = document["components"].clone();
            let validator = jsonschema::validator_for(&schema).unwrap();
            let problems: Vec<String> =
                validator.iter_errors(&answer["body"]).map(|error| error.to_string()).collect();
            assert!(problems.is_empty(), "{path}: {problems:?}");
            if ["runBatch", "runConfiguration"].contains(&operation_id) {
                let names: Vec<&str> = answer["events"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|event| event["event"].as_str().unwrap())
                    .collect();
                assert_eq!(names, ["started", "result", "completed"]);
            }
        }
    }
    // A router that had more than the document would be wrong, too; both are made of one list,
    // which the document shows.
    assert_eq!(document["paths"].as_object().unwrap().len(), 19);
}

/// seed: 004/03
#[tokio::test]
async fn the_client_runs_tests_and_reads_results() {
    let world = World::start(ApiOptions::default(), true).await;
    let client = world.client();
    let result = client.run_test(&case("one")).await.unwrap();
    assert_eq!((result.status, result.error), (Status::Passed, None));
    let mut seen = Vec::new();
    let mut failing = case("two");
    failing.expect = serde_json::from_value(json!({"answer": "Five."})).unwrap();
    let cases = [case("one"), failing, case("")];
    let (run, results) = client
        .run_batch(Some("nightly"), &cases, |progress| seen.push((progress.done, progress.total)))
        .await
        .unwrap();
    assert_eq!(seen, [(1, 3), (2, 3), (3, 3)]);
    let statuses: Vec<Status> = results.iter().map(|result| result.status).collect();
    assert_eq!(statuses, [Status::Passed, Status::Failed, Status::Error]);
    assert_eq!((run.status, run.name.as_deref()), (RunStatus::Completed, Some("nightly")));
    assert_eq!((run.passed_tests, run.failed_tests, run.error_tests), (1, 1, 1));
    let mut filter = ResultFilter::default();
    filter.name = Some("one".to_owned());
    filter.page.limit = Some(1);
    let first = client.results(&filter).await.unwrap();
    filter.page.cursor.clone_from(&first.next_cursor);
    let second = client.results(&filter).await.unwrap();
    assert_eq!(first.items[0].run_id.as_ref(), Some(&run.id));
    assert_eq!((second.items[0].id.clone(), second.next_cursor), (result.id, None));
}

/// seed: 004/21
/// seed: 004/22
#[tokio::test]
async fn discovery_takes_the_first_test_server() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let other = World::start(ApiOptions::default(), true).await;
    let second = World::start(ApiOptions::default(), true).await;
    // A port without a listener.
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let ports = [free, other.address.port(), second.address.port()];
    let client = TestClient::discover().with_ports(ports);
    client.connect().await.unwrap();
    assert_eq!(client.base_url(), Some(format!("http://{}/", other.address).as_str()));
    let began = std::time::Instant::now();
    let port = silent.local_addr().unwrap().port();
    let error = TestClient::discover().with_ports([port]).connect().await.unwrap_err();
    assert!((1900..2900).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    let text = error.to_string();
    assert!(text.contains("marquetry test-server  # Starts on :3002"), "{text}");
    assert!(text.contains("ENABLE_TESTING=true marquetry serve  # Starts on :3001"), "{text}");
    let order: Vec<u16> =
        TestClient::TEST_PORTS.into_iter().chain(TestClient::MAIN_PORTS).collect();
    assert_eq!(order, [3002, 3003, 3004, 3001, 3000]);
}

/// seed: 004/20
#[tokio::test]
async fn a_given_url_that_is_no_test_server_is_named() {
    for url in ["http://127.0.0.1:9", "nonsense"] {
        let error = TestClient::at(url).run_test(&case("a")).await.unwrap_err();
        assert!(matches!(error, ClientError::NotATestServer(_)), "{error:?}");
        assert_eq!(error.to_string(), format!("Provided URL {url} is not a test server"));
    }
}

#[tokio::test]
async fn a_token_is_required_but_for_the_health_check() {
    let mut options = ApiOptions::default();
    options.token = Some(ApiKey::new("t0k"));
    let world = World::start(options, true).await;
    let error = world.client().run_test(&case("a")).await.unwrap_err();
    assert!(matches!(error, ClientError::Refused { status: 401, .. }), "{error:?}");
    // A result whose id is "health" is no health check.
    let error = world.client().result("health").await.unwrap_err();
    assert!(matches!(error, ClientError::Refused { status: 401, .. }), "{error:?}");
    let with_token = world.client().with_token(ApiKey::new("t0k"));
    assert_eq!(with_token.run_test(&case("a")).await.unwrap().status, Status::Passed);
}

#[tokio::test]
async fn a_token_is_sent_to_no_server_that_a_search_has_found() {
    let found = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = found.local_addr().unwrap().port();
    let client = TestClient::discover().with_ports([port]).with_token(ApiKey::new("t0k"));
    let error = client.run_test(&case("a")).await.unwrap_err();
    assert!(matches!(error, ClientError::TokenWithoutUrl), "{error:?}");
    assert!(error.to_string().contains("use TestClient::at"), "{error}");
    let connected = tokio::time::timeout(Duration::from_millis(50), found.accept()).await;
    assert!(connected.is_err(), "nothing is asked");
}

#[tokio::test]
async fn commands_are_refused_unless_they_are_allowed() {
    let world = World::start(ApiOptions::default(), true).await;
    let mut started = case("a");
    started.server_configs =
        serde_json::from_value(json!([{"type": "stdio", "command": "true"}])).unwrap();
    let error = world.client().run_test(&started).await.unwrap_err();
    assert!(matches!(error, ClientError::Refused { status: 403, .. }), "{error:?}");
    let batch = world.client().run_batch(None, &[case("b"), started], |_| {}).await.unwrap_err();
    assert!(matches!(batch, ClientError::Refused { status: 403, .. }), "{batch:?}");
}

#[tokio::test]
async fn a_batch_with_an_unknown_member_is_refused() {
    let world = World::start(ApiOptions::default(), true).await;
    let batch = json!({"cases": [case("a")], "parallel": 1});
    let answer = world.ask("POST", "/api/test/batch", Some(batch)).await;
    assert_eq!(answer["status"], 400, "{answer}");
    let told = answer["body"]["error"].as_str().unwrap();
    assert!(told.contains("unknown field `parallel`") && told.contains("`concurrency`"), "{told}");
}

/// Waits until a store has so many results, and returns them.
async fn stored(world: &World, count: usize) -> Vec<TestResult> {
    for _ in 0..500 {
        let results = world.client().results(&ResultFilter::default()).await.unwrap().items;
        if results.len() == count {
            return results;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("there are not {count} results");
}

#[track_caller]
fn assert_client_left(result: &TestResult) {
    assert_eq!(result.status, Status::Error);
    let error = result.error.as_deref().unwrap();
    let reason = "the test was stopped: its client closed the connection before the result";
    assert!(error.starts_with(reason), "{error}");
}

#[tokio::test]
async fn a_test_whose_client_leaves_is_stored_with_the_reason() {
    let mut options = ApiOptions::default();
    options.max_running = 1;
    let world = World::start(options, false).await;
    let client = Arc::new(world.client());
    client.connect().await.unwrap();
    let run = |name: &'static str| {
        let client = Arc::clone(&client);
        tokio::spawn(async move { client.run_test(&case(name)).await })
    };
    let running = run("running");
    world.until_running(1).await;
    let waiting = run("waiting");
    tokio::time::sleep(Duration::from_millis(200)).await;
    waiting.abort();
    let [result] = &stored(&world, 1).await[..] else { unreachable!() };
    assert_eq!((&*result.test_case.name, result.trials.len()), ("waiting", 1));
    assert_client_left(result);
    running.abort();
    world.until_running(0).await;
    let results = stored(&world, 2).await;
    let result = results.iter().find(|result| result.test_case.name == "running").unwrap();
    assert_client_left(result);
    // Both places are free again.
    world.gate.add_permits(1000);
    assert_eq!(client.run_test(&case("next")).await.unwrap().status, Status::Passed);
}

#[tokio::test]
async fn the_answer_to_a_long_test_begins_before_its_end() {
    let mut options = ApiOptions::default();
    options.answer_after = Duration::from_millis(50);
    let world = World::start(options, false).await;
    let mut socket = TcpStream::connect(world.address).await.unwrap();
    let body = serde_json::to_string(&case("long")).unwrap();
    let head = format!(
        "POST /api/test/run HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        world.address,
        body.len()
    );
    socket.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    world.until_running(1).await;
    let mut bytes = [0; 4096];
    let read = socket.read(&mut bytes).await.unwrap();
    assert!(bytes[..read].starts_with(b"HTTP/1.1 200"), "the test still runs");
    // A client that leaves now is noticed as before.
    drop(socket);
    world.until_running(0).await;
    let [result] = &stored(&world, 1).await[..] else { unreachable!() };
    assert_client_left(result);
    // The spaces at its beginning do not change what the answer says.
    let client = Arc::new(world.client());
    let running = tokio::spawn(async move { client.run_test(&case("longer")).await });
    world.until_running(1).await;
    tokio::time::sleep(Duration::from_millis(150)).await;
    world.gate.add_permits(1000);
    assert_eq!(running.await.unwrap().unwrap().status, Status::Passed);
}

#[tokio::test]
async fn a_server_that_stops_answers_its_tests_and_stores_them() {
    let world = World::start(ApiOptions::default(), false).await;
    let client = Arc::new(world.client());
    let run = tokio::spawn({
        let client = Arc::clone(&client);
        async move { client.run_test(&case("a")).await }
    });
    world.until_running(1).await;
    world.api.stop().await;
    let [stored] = &stored(&world, 1).await[..] else { unreachable!() };
    assert!(stored.error.as_deref().unwrap().contains("the test server stopped"), "{stored:?}");
    assert_eq!(run.await.unwrap().unwrap().id, stored.id);
    // A test that comes later does not begin.
    let late = client.run_test(&case("b")).await.unwrap();
    assert!(late.error.unwrap().contains("the test server stopped"));
}

#[tokio::test]
async fn a_batch_ends_with_its_client() {
    let mut options = ApiOptions::default();
    options.max_running = 2;
    let world = World::start(options, false).await;
    let client = Arc::new(world.client());
    let batch = tokio::spawn({
        let client = Arc::clone(&client);
        async move { client.run_batch(None, &[case("a"), case("b"), case("c")], |_| {}).await }
    });
    world.until_running(2).await;
    batch.abort();
    world.until_running(0).await;
    let results = stored(&world, 2).await;
    results.iter().for_each(assert_client_left);
    for _ in 0..200 {
        let runs = world.ask("GET", "/api/test/runs", None).await;
        let run = &runs["body"]["items"][0];
        if run["status"] == "failed" {
            assert_eq!((&run["errorTests"], &run["totalTests"]), (&json!(2), &json!(3)));
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the run is not stored as failed");
}

/// A socket that does not read, with a small window.
async fn silent_reader(world: &World, request: &str) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut socket = socket.connect(world.address).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    socket
}

fn batch_request(world: &World, cases: &[TestCase]) -> String {
    let body = json!({"cases": cases}).to_string();
    format!(
        "POST /api/test/batch HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        world.address,
        body.len()
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_whose_client_does_not_read_holds_up_no_test_and_ends() {
    let mut options = ApiOptions::default();
    (options.max_running, options.max_body_bytes, options.max_batches) = (4, 64 << 20, 1);
    options.batch_read_timeout = Duration::from_secs(10);
    let world = World::start(options, false).await;
    let mut long = case("long");
    long.prompt = "At once".to_owned();
    long.description = Some("x".repeat(500_000));
    // Three tests wait for the model; the results of the others soon fill what the client does not
    // read.
    let mut cases = vec![case("a"), case("b"), case("c")];
    cases.resize(60, long);
    let unread = silent_reader(&world, &batch_request(&world, &cases)).await;
    let client = Arc::new(world.client());
    let ended = async || client.outcomes(&OutcomeFilter::default()).await.unwrap().len();
    let mut before = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(300)).await;
        match ended().await {
            now if now > 0 && now == before => break,
            now => before = now,
        }
    }
    assert!(before < 57, "a client that does not read holds up the rest of its batch");
    world.until_running(3).await;
    world.gate.add_permits(1000);
    world.until_running(0).await;
    // All places are free for others.
    world.gate.forget_permits(1000);
    let others: Vec<_> = (0..4)
        .map(|_| {
            let client = Arc::clone(&client);
            tokio::spawn(async move { client.run_test(&case("other")).await })
        })
        .collect();
    world.until_running(4).await;
    world.gate.add_permits(1000);
    for other in others {
        assert_eq!(other.await.unwrap().unwrap().status, Status::Passed);
    }
    let page = PageRequest::default();
    for _ in 0..2000 {
        let run = client.runs(&page).await.unwrap().items.remove(0);
        if run.status != RunStatus::Running {
            assert_eq!(run.status, RunStatus::Failed);
            assert!(run.passed_tests < 60, "no other test was started");
            drop(unread);
            // Its place is free.
            client.run_batch(None, &[case("next")], |_| {}).await.unwrap();
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the batch does not end");
}

#[tokio::test]
async fn more_batches_than_the_limit_are_refused() {
    let mut options = ApiOptions::default();
    options.max_batches = 1;
    let world = World::start(options, false).await;
    let client = Arc::new(world.client());
    let first = tokio::spawn({
        let client = Arc::clone(&client);
        async move { client.run_batch(None, &[case("a")], |_| {}).await }
    });
    world.until_running(1).await;
    let refused = world.ask("POST", "/api/test/batch", Some(json!({"cases": [case("b")]})));
    let refused = tokio::time::timeout(Duration::from_secs(5), refused).await.expect("an answer");
    assert_eq!(
        (&refused["status"], &refused["headers"]["retry-after"]),
        (&json!(503), &json!("1"))
    );
    assert!(refused["body"]["error"].as_str().unwrap().contains("1 batches are open"), "{refused}");
    world.gate.add_permits(1000);
    first.await.unwrap().unwrap();
    client.run_batch(None, &[case("c")], |_| {}).await.unwrap();
    // A batch that is refused for another reason keeps no place.
    for _ in 0..3 {
        let answer = world.ask("POST", "/api/test/batch", Some(json!({"cases": []}))).await;
        assert_eq!(answer["status"], 400, "{answer}");
    }
}

/// Returns what a socket receives until it is closed.
async fn rest(mut socket: TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = socket.read_to_end(&mut bytes);
    tokio::time::timeout(Duration::from_secs(5), read).await.expect("it is closed").unwrap();
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn connections_are_limited_in_number_and_time() {
    let mut options = ApiOptions::default();
    options.connections.max_connections = 1;
    options.connections.head_timeout = Duration::from_millis(300);
    let world = World::start(options, false).await;
    // Neither a connection without a request nor one with half of a head is kept.
    assert_eq!(rest(TcpStream::connect(world.address).await.unwrap()).await, "");
    let mut half = TcpStream::connect(world.address).await.unwrap();
    half.write_all(b"GET /api/test/health HTTP/1.1\r\nhost: 127").await.unwrap();
    assert!(!rest(half).await.contains("200"));
    let mut busy = TcpStream::connect(world.address).await.unwrap();
    let request = batch_request(&world, &[case("a")]);
    busy.write_all(request.as_bytes()).await.unwrap();
    world.until_running(1).await;
    let refused = rest(TcpStream::connect(world.address).await.unwrap()).await;
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("retry-after: 1"), "{refused}");
}

/// A request over a socket, and the status of its answer. `length` is that of the body if it does
/// not come whole.
async fn status_of(
    world: &World,
    method: &str,
    path: &str,
    (media_type, body, length): (&str, &str, usize),
) -> u16 {
    let mut socket = TcpStream::connect(world.address).await.unwrap();
    let host = world.address;
    let head =
        format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: {media_type}\r\n");
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len().max(length));
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    let read = socket.read_exact(&mut status);
    tokio::time::timeout(Duration::from_secs(5), read).await.expect("an answer").unwrap();
    std::str::from_utf8(&status[9..]).unwrap().parse().unwrap()
}

#[tokio::test]
async fn refusals_are_those_of_the_document() {
    let mut options = ApiOptions::default();
    (options.max_running, options.max_waiting) = (1, 0);
    (options.max_batches, options.max_streams) = (1, 1);
    (options.max_body_bytes, options.body_timeout) = (2000, Duration::from_millis(200));
    let store = Arc::new(MemoryStore::new());
    let world = World::with_store(options, false, store.clone()).await;
    let mut seen = std::collections::BTreeSet::new();
    let json = "application/json";
    let long = format!("{{\"name\": \"{}\"}}", "x".repeat(3000));
    let ok = serde_json::to_string(&case("a")).unwrap();
    for path in
        ["/run", "/batch", "/results/{id}/overrides", "/configurations", "/configurations/{id}/run"]
    {
        let asked = path.replace("{id}", "no");
        for body in
            [(json, "{}x", 0), (json, "{", 100), (json, long.as_str(), 0), ("text/plain", "{}", 0)]
        {
            let status = status_of(&world, "POST", &format!("/api/test{asked}"), body).await;
            seen.insert(("post", path, status.to_string()));
        }
    }
    let verdict = r#"{"trial": 0, "passed": true, "reason": "so"}"#;
    let path = "/results/{id}/overrides";
    let status =
        status_of(&world, "POST", "/api/test/results/no/overrides", (json, verdict, 0)).await;
    seen.insert(("post", path, status.to_string()));
    let client = world.client();
    let used = client.create_configuration(&judged_by("m")).await.unwrap().id;
    let new_run = NewRun { configuration_id: Some(used.clone()), ..NewRun::default() };
    store.start_run(new_run).await.unwrap();
    let mut secret = case("secret");
    let config = json!([{"type": "http", "url": "http://h", "headers": {"x-key": "secret"}}]);
    secret.server_configs = serde_json::from_value(config).unwrap();
    let lost = Configuration::shared_by([&secret]).unwrap();
    store.put_configuration(&lost).await.unwrap();
    let cases = json!({"cases": [case("a")]}).to_string();
    for (method, path, id) in [
        ("post", "/configurations/{id}/run", "no"),
        ("post", "/configurations/{id}/run", &lost.id),
        ("delete", "/configurations/{id}", "no"),
        ("delete", "/configurations/{id}", &used),
    ] {
        let asked = format!("/api/test{}", path.replace("{id}", id));
        let status = status_of(&world, &method.to_uppercase(), &asked, (json, &cases, 0)).await;
        seen.insert((method, path, status.to_string()));
    }
    for (path, query) in [
        ("/configurations", "?x"),
        ("/configurations/{id}", ""),
        ("/results", "?x"),
        ("/runs", "?x"),
        ("/outcomes", "?x"),
        ("/history", "?x"),
        ("/compare", "?x"),
        ("/compare", "?base=no&new=no"),
        ("/events", "?x"),
        ("/runs/{id}", ""),
        ("/results/{id}", ""),
        ("/results/{id}/overrides", ""),
    ] {
        let asked = format!("/api/test{}{query}", path.replace("{id}", "no"));
        let status = status_of(&world, "GET", &asked, (json, "", 0)).await;
        seen.insert(("get", path, status.to_string()));
    }
    // Everything is taken.
    let mut busy = TcpStream::connect(world.address).await.unwrap();
    busy.write_all(batch_request(&world, &[case("a")]).as_bytes()).await.unwrap();
    world.until_running(1).await;
    let mut stream = world.events("").await;
    assert_eq!(stream.next().await.as_deref(), Some("open"));
    for (method, path, body) in [
        ("post", "/run", &*ok),
        ("post", "/batch", "{}"),
        ("post", "/configurations/{id}/run", "{}"),
        ("get", "/events", ""),
    ] {
        let method_name = method.to_uppercase();
        let status =
            status_of(&world, &method_name, &format!("/api/test{path}"), (json, body, 0)).await;
        seen.insert((method, path, status.to_string()));
    }
    let document = document();
    let mut documented = std::collections::BTreeSet::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            for status in operation["responses"].as_object().unwrap().keys() {
                // These are alike for all operations.
                if !["200", "401", "403", "500"].contains(&status.as_str()) {
                    let path = path.strip_prefix("/api/test").unwrap();
                    documented.insert((method.as_str(), path, status.clone()));
                }
            }
        }
    }
    assert_eq!(seen, documented);
}

/// Runs a test whose result cannot be stored, and returns the error.
async fn unstored(store: LibsqlStore) -> String {
    let world = World::with_store(ApiOptions::default(), true, Arc::new(store)).await;
    let mut case = case("unstored");
    case.description = Some("x".repeat(100_000));
    let result = world.client().run_test(&case).await.unwrap();
    assert_eq!((result.status, result.success), (Status::Error, false));
    assert!(result.verdict.passed, "the verdict is returned all the same");
    assert!(world.client().results(&ResultFilter::default()).await.unwrap().items.is_empty());
    result.error.unwrap()
}

#[tokio::test]
async fn a_database_that_takes_no_result_is_an_error_with_advice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tests.db");
    let store = LibsqlStore::open(&path).await.unwrap();
    drop(store);
    let open = async |change: fn(&mut LibsqlOptions)| {
        let mut options = LibsqlOptions::default();
        change(&mut options);
        LibsqlStore::open_with(&path, options).await.unwrap()
    };
    let database = libsql::Builder::new_local(&path).build().await.unwrap();
    let connection = database.connect().unwrap();

    let full = open(|options| options.max_bytes = Some(90_000)).await;
    let error = unstored(full).await;
    assert!(
        error.starts_with("the result (passed) was not stored: the database or the disk is full"),
        "{error}"
    );
    assert!(error.contains("free space on the disk"), "{error}");

    let error = unstored(open(|options| options.read_only = true).await).await;
    assert!(error.contains("is read-only"), "{error}");
    assert!(error.contains("name another database"), "{error}");

    let locked = open(|options| options.lock_timeout = Duration::from_millis(200)).await;
    connection.execute("BEGIN IMMEDIATE", ()).await.unwrap();
    let error = unstored(locked).await;
    connection.execute("ROLLBACK", ()).await.unwrap();
    assert!(error.contains("the database is locked by another process"), "{error}");
    assert!(error.contains("end the program that keeps the database locked"), "{error}");
}

#[tokio::test]
async fn the_client_reads_stored_results() {
    let world = World::start(ApiOptions::default(), true).await;
    let client = world.client();
    let mut failing = case("a/b & c");
    failing.expect = serde_json::from_value(json!({"answer": "Five."})).unwrap();
    let (first, _) = client.run_batch(None, &[case("a/b & c"), case("d")], |_| {}).await.unwrap();
    let (second, results) = client.run_batch(None, &[failing], |_| {}).await.unwrap();
    let result = client.result(&results[0].id).await.unwrap();
    assert_eq!(result, results[0]);
    let history = client.history("a/b & c", 10).await.unwrap();
    let statuses: Vec<Status> = history.entries.iter().map(|entry| entry.status).collect();
    assert_eq!(statuses, [Status::Failed, Status::Passed]);
    let cases = client.cases().await.unwrap();
    assert_eq!((cases.len(), cases[0].test_name.as_str(), cases[0].flips.count), (2, "a/b & c", 1));
    let of_run = client.outcomes(&OutcomeFilter::of_run(&first.id)).await.unwrap();
    assert_eq!(of_run.len(), 2);
    let compared = client.compare(&first.id, &second.id).await.unwrap();
    assert_eq!((compared.cases.len(), compared.verdict), (2, Change::InsufficientData));
    let page = PageRequest { limit: Some(1), cursor: None };
    let runs = client.runs(&page).await.unwrap();
    assert_eq!((runs.items[0].id.clone(), runs.next_cursor.is_some()), (second.id.clone(), true));
    assert_eq!(client.run(&second.id).await.unwrap().failed_tests, 1);
    for missing in [
        client.result("no").await.map(drop),
        client.overrides("no").await.map(drop),
        client.compare("no", &first.id).await.map(drop),
    ] {
        assert!(matches!(missing, Err(ClientError::Refused { status: 404, .. })), "{missing:?}");
    }
}

#[tokio::test]
async fn an_override_is_stored_with_its_author_and_reason() {
    let world = World::start(ApiOptions::default(), true).await;
    let client = world.client();
    let result = client.run_test(&case("a")).await.unwrap();
    let verdict = NewOverride { trial: 0, passed: false, reason: " It is 4. ", author: None };
    let stored = client.put_override(&result.id, verdict).await.unwrap();
    assert_eq!((stored.author.as_str(), stored.reason.as_str()), ("local", "It is 4."));
    let by_ann = NewOverride { author: Some("ann"), ..verdict };
    client.put_override(&result.id, by_ann).await.unwrap();
    client.put_override(&result.id, NewOverride { passed: true, ..by_ann }).await.unwrap();
    let all = client.overrides(&result.id).await.unwrap();
    let seen: Vec<_> = all.iter().map(|it| (it.author.as_str(), it.passed)).collect();
    assert_eq!(seen, [("local", false), ("ann", true)]);
    assert_eq!(client.result(&result.id).await.unwrap(), result, "the result stays as it is");
    let long = "x".repeat(5000);
    for (wrong, status) in [
        (NewOverride { reason: " ", ..verdict }, 400),
        (NewOverride { reason: &long, ..verdict }, 400),
        (NewOverride { author: Some(&long), ..verdict }, 400),
        (NewOverride { trial: 7, ..verdict }, 404),
    ] {
        let error = client.put_override(&result.id, wrong).await.unwrap_err();
        let ClientError::Refused { status: found, .. } = error else { panic!("{error:?}") };
        assert_eq!(found, status);
    }
}

#[tokio::test]
async fn cases_run_with_a_stored_configuration() {
    let world = World::start(ApiOptions::default(), true).await;
    let client = world.client();
    let old = client.create_configuration(&judged_by("old")).await.unwrap();
    let mut new = judged_by("new");
    new.judge_config.as_mut().unwrap().api_key = Some("${JUDGE_KEY}".to_owned());
    let new = client.create_configuration(&new).await.unwrap();
    assert_eq!(client.configuration(&new.id).await.unwrap(), new);

    // The case has another judge; `judged` keeps this one from being asked.
    let mut own = case("a");
    (own.judge_config, own.judged) = (Some(ModelSettings::new("openai", "own")), Some(false));
    let cases = [own];
    let run = ConfigurationRun { cases: &cases, ..ConfigurationRun::default() };
    let error = client.run_configuration(&new.id, run, |_| {}).await.unwrap_err().to_string();
    assert!(error.contains("needs values for ${JUDGE_KEY}: give them in variables"), "{error}");
    let variables = [("JUDGE_KEY", "sk-secret-of-the-run")];
    let run = ConfigurationRun { variables: &variables, ..run };
    let mut done = 0;
    let (run, results) =
        client.run_configuration(&new.id, run, |progress| done = progress.done).await.unwrap();
    assert_eq!((done, run.name.as_deref(), run.status), (1, Some("nightly"), RunStatus::Completed));
    assert_eq!(results[0].status, Status::Passed, "{:?}", results[0].error);
    let judge = results[0].test_case.judge_config.as_ref().unwrap();
    assert_eq!((&*judge.model, &judge.api_key), ("new", &None));
    // The run leads to the configuration, in the list and by its id.
    let listed = client.runs(&PageRequest::default()).await.unwrap().items.remove(0);
    assert_eq!((&listed, listed.configuration_id.as_ref()), (&run, Some(&new.id)));
    for path in ["results", "runs", "configurations"] {
        let page = world.ask("GET", &format!("/api/test/{path}"), None).await.to_string();
        assert!(!page.contains("sk-secret-of-the-run"), "{page}");
    }

    // A batch stores what its cases share.
    client.run_batch(None, &[case("b")], |_| {}).await.unwrap();
    let mut shared = case("c");
    shared.judge_config = Some(ModelSettings::new("openai", "shared"));
    shared.judged = Some(false);
    let (run, _) = client.run_batch(None, &[shared], |_| {}).await.unwrap();
    let ids = async |filter: &ConfigurationFilter| -> Vec<String> {
        let page = client.configurations(filter).await.unwrap();
        page.items.into_iter().map(|configuration| configuration.id).collect()
    };
    let mut filter = ConfigurationFilter::default();
    filter.origin = Some(ConfigurationOrigin::Derived);
    assert_eq!(ids(&filter).await, [run.configuration_id.unwrap()]);
    (filter.origin, filter.name) = (None, Some("nightly".to_owned()));
    assert_eq!(ids(&filter).await, [&*new.id, &*old.id], "the newest is the current one");
    filter.page.limit = Some(1);
    let first = client.configurations(&filter).await.unwrap();
    filter.page.cursor = first.next_cursor;
    assert_eq!(ids(&filter).await, [&*old.id]);

    assert_eq!(client.delete_configuration(&old.id).await.unwrap(), old);
    let error = client.delete_configuration(&new.id).await.unwrap_err();
    assert!(matches!(error, ClientError::Refused { status: 409, .. }), "{error:?}");
    let error = error.to_string();
    assert!(error.contains("1 runs have the configuration"), "{error}");
    for missing in [
        client.configuration(&old.id).await.map(drop),
        client.delete_configuration(&old.id).await.map(drop),
        client.run_configuration(&old.id, ConfigurationRun::default(), |_| {}).await.map(drop),
    ] {
        let Err(ClientError::Refused { status: 404, reason }) = missing else {
            panic!("{missing:?}")
        };
        assert!(reason.contains("configuration") && reason.contains(&old.id), "{reason}");
    }
}

#[tokio::test]
async fn configurations_of_clumsy_and_hostile_users_are_refused_with_the_reason() {
    let world = World::start(ApiOptions::default(), true).await;
    let id = world.client().create_configuration(&judged_by("m")).await.unwrap().id;
    let server = json!({"type": "stdio", "command": "true"});
    let key = json!({"provider": "openai", "model": "m", "apiKey": "sk-1"});
    let huge = "x".repeat(70_000);
    let create = "/api/test/configurations";
    let run = &format!("{create}/{id}/run");
    for (path, body, status, reason) in [
        (create, json!({"name": ""}), 400, "name is blank"),
        (create, json!({"name": "a", "cases": []}), 400, "unknown field `cases`"),
        (create, json!({"name": "a", "judgeConfig": key}), 400, "judgeConfig.apiKey has a value"),
        (create, json!({"name": "a", "serverConfigs": [server]}), 403, "does not run commands"),
        (
            create,
            json!({"name": "a", "serverConfigs": [{"type": "http", "url": huge}]}),
            400,
            "use at most 65536",
        ),
        (run, json!({}), 400, "missing field `cases`"),
        (run, json!({"cases": []}), 400, "cases is empty"),
        (
            run,
            json!({"cases": [case("a")], "variables": {"KEY": "1"}}),
            400,
            "does not refer to; it refers to none",
        ),
    ] {
        let answer = world.ask("POST", path, Some(body)).await;
        assert_eq!(answer["status"], status, "{answer}");
        let told = answer["body"]["error"].as_str().unwrap();
        assert!(told.contains(reason) && !told.contains("sk-1"), "{told}");
    }
    let stored = world.client().configurations(&ConfigurationFilter::default()).await.unwrap();
    assert_eq!(stored.items.len(), 1, "none of them is stored");
}

#[tokio::test]
async fn pages_hear_of_a_batch_until_the_streams_close() {
    let world = World::start(ApiOptions::default(), false).await;
    let mut stream = world.events("").await;
    assert_eq!(stream.next().await.as_deref(), Some("open"));
    let client = world.client();
    let batch = tokio::spawn(async move { client.run_batch(None, &[case("a")], |_| {}).await });
    world.until_running(1).await;
    assert_eq!(stream.next().await.as_deref(), Some("runStarted"));
    assert_eq!(stream.next().await.as_deref(), Some("progress"));
    let mut late = world.events("").await;
    assert_eq!(late.next().await.as_deref(), Some("open"));
    assert_eq!(late.next().await.as_deref(), Some("progress"), "the last step of a test that runs");
    world.gate.add_permits(1000);
    let (run, _) = batch.await.unwrap().unwrap();
    let mut names = Vec::new();
    while let Some(name) = stream.next().await {
        names.push(name.clone());
        if name == "runEnded" {
            world.api.close_streams();
        }
    }
    assert_eq!(names[names.len() - 2..], ["ended", "runEnded"], "{names:?}");
    assert!(stream.text.contains(&run.id));
    // After the end of streams a new one ends at once, and no step is left.
    let mut late = world.events("").await;
    assert_eq!((late.next().await.as_deref(), late.next().await), (Some("open"), None));
}

#[tokio::test]
async fn a_stream_of_one_batch_hears_of_no_other() {
    let mut options = ApiOptions::default();
    options.max_streams = 1;
    let world = World::start(options, true).await;
    let mut stream = world.events("?run=another").await;
    assert_eq!(stream.next().await.as_deref(), Some("open"));
    let refused = world.ask("GET", "/api/test/events", None).await;
    assert_eq!(refused["status"], 503, "{refused}");
    world.client().run_batch(None, &[case("a")], |_| {}).await.unwrap();
    world.api.close_streams();
    assert_eq!(stream.next().await, None);
}

/// Reads the names of events.
struct EventNames {
    socket: TcpStream,
    text: String,
    at: usize,
}

impl EventNames {
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(found) = self.text[self.at..].find("event: ") {
                let begin = self.at + found + 7;
                if let Some(end) = self.text[begin..].find("\n\n") {
                    self.at = begin + end;
                    let name = self.text[begin..].lines().next()?;
                    return Some(name.to_owned());
                }
            }
            let mut bytes = [0; 4096];
            let read = self.socket.read(&mut bytes);
            let count = tokio::time::timeout(Duration::from_secs(10), read).await.unwrap().unwrap();
            if count == 0 {
                return None;
            }
            self.text.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }
}
