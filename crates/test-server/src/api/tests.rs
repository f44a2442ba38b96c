//! Tests that count what waits, which no client sees.

use async_trait::async_trait;
use marquetry_judge::{FixedModels, MemoryStore, ModelSettings, Runner, Status, TestCase};
use marquetry_llm::{ChatAnswer, ChatError, ChatModel, ChatRequest};

use super::*;
use crate::{CaseDefaults, ClientError, TestClient};

/// A model that answers at once.
struct Four;

#[async_trait]
impl ChatModel for Four {
    fn name(&self) -> &'static str {
        "four"
    }

    async fn chat(&self, _: &ChatRequest) -> Result<ChatAnswer, ChatError> {
        Ok(ChatAnswer::text("Four."))
    }
}

fn case(name: &str) -> TestCase {
    let mut case = TestCase::new(name, "Two and two?");
    case.expect.answer = serde_json::from_value("Four.".into()).unwrap();
    case.agent_config = Some(ModelSettings::new("custom", "four"));
    case
}

#[tokio::test]
async fn a_test_over_the_limit_waits_for_a_place_and_more_are_refused() {
    let mut options = ApiOptions::default();
    (options.max_running, options.max_waiting) = (1, 1);
    let runner = Runner::new(FixedModels::new(Four, Four), Arc::new(MemoryStore::default()));
    let api = TestApi::new(Tests::new(runner, CaseDefaults::default()), options);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = api.clone();
    tokio::spawn(async move { served.serve(listener, std::future::pending()).await });
    let client = Arc::new(TestClient::at(url));
    client.connect().await.unwrap();

    let running = api.shared.slot().await.unwrap();
    let waits = tokio::spawn({
        let client = Arc::clone(&client);
        async move { client.run_test(&case("waits")).await }
    });
    let is_waiting = async {
        while api.shared.waiting.load(Ordering::Relaxed) != 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), is_waiting).await.expect("it waits");
    let refused = client.run_test(&case("refused")).await.unwrap_err();
    assert!(matches!(refused, ClientError::Refused { status: 503, .. }), "{refused:?}");
    assert!(!waits.is_finished());
    drop(running);
    assert_eq!(waits.await.unwrap().unwrap().status, Status::Passed);
    assert_eq!(api.shared.waiting.load(Ordering::Relaxed), 0);
}
