//! A capturer with known names and time, and stores that fail on demand.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use marquetry_artifacts::{
    Artifact, ArtifactStore, ArtifactUri, Captured, Capturer, MemoryStore, NewArtifact, Record,
    Report, Scope, Settings, StoreError, ToolCall, Version,
    source::{FixedClock, SeededIds},
    store::Page,
};
use marquetry_protocol::types::{CallToolResult, Content};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

/// One pixel.
pub(crate) const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// The result of capturing one answer.
pub(crate) struct Seen {
    pub(crate) sent: String,
    pub(crate) captured: Captured,
    pub(crate) artifacts: Vec<Artifact>,
}

impl Seen {
    pub(crate) fn is_unchanged(&self) -> bool {
        match &self.captured {
            Captured::Unchanged(result) => {
                assert_eq!(result.get(), self.sent, "an unchanged answer has the same bytes");
                true
            }
            Captured::Changed { .. } => false,
        }
    }

    #[track_caller]
    pub(crate) fn report(&self) -> &Report {
        self.captured.report().expect("the answer was captured")
    }

    pub(crate) fn result(&self) -> Value {
        serde_json::from_str(self.raw_result()).unwrap()
    }

    pub(crate) fn raw_result(&self) -> &str {
        match &self.captured {
            Captured::Unchanged(result) | Captured::Changed { result, .. } => result.get(),
        }
    }

    pub(crate) fn content(&self) -> Vec<Value> {
        self.result()["content"].as_array().expect("content is a list").clone()
    }

    /// Position of the notice: first if something is missing, else last.
    fn notice_index(&self) -> usize {
        if self.report().truncated.is_some() { 0 } else { self.content().len() - 1 }
    }

    #[track_caller]
    pub(crate) fn notice(&self) -> String {
        let notice = self.content()[self.notice_index()]["text"].as_str().unwrap().to_owned();
        let message = &self.report().message;
        assert!(notice.starts_with(&format!("[{message}")), "{notice}\n{message}");
        notice
    }

    /// Text items apart from the notice.
    pub(crate) fn texts(&self) -> Vec<String> {
        let mut content = self.content();
        if !self.is_unchanged() {
            content.remove(self.notice_index());
        }
        content.iter().filter_map(|item| item["text"].as_str()).map(str::to_owned).collect()
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.artifacts.iter().map(|artifact| artifact.record.name.as_str()).collect()
    }

    #[track_caller]
    pub(crate) fn only(&self) -> &Artifact {
        let [artifact] = &self.artifacts[..] else {
            panic!("one artifact, not {:?}", self.names())
        };
        artifact
    }
}

/// Captures an answer with an empty store.
pub(crate) async fn capture(settings: &Settings, answer: Value) -> Seen {
    capture_raw(settings, &answer.to_string()).await
}

pub(crate) async fn capture_raw(settings: &Settings, answer: &str) -> Seen {
    capture_into(Arc::new(MemoryStore::default()), settings, answer).await
}

pub(crate) async fn capture_into(
    store: Arc<dyn ArtifactStore>,
    settings: &Settings,
    answer: &str,
) -> Seen {
    capture_call(store, settings, answer, None).await
}

/// The same of a tool with this output schema.
pub(crate) async fn capture_of(settings: &Settings, answer: &str, schema: &Value) -> Seen {
    capture_call(Arc::new(MemoryStore::default()), settings, answer, Some(schema)).await
}

async fn capture_call(
    store: Arc<dyn ArtifactStore>,
    settings: &Settings,
    answer: &str,
    schema: Option<&Value>,
) -> Seen {
    let scope = Scope::local();
    let raw = RawValue::from_string(answer.to_owned()).unwrap();
    let call = ToolCall::new(&scope, "srv__tool").with_output_schema(schema);
    let captured = capturer(Arc::clone(&store)).capture(call, settings, raw).await;
    let seen = Seen { sent: answer.to_owned(), captured, artifacts: everything(&*store).await };
    if let Captured::Changed { result, report } = &seen.captured {
        check(answer, result, report, settings, &seen.artifacts);
    }
    seen
}

pub(crate) fn capturer(store: Arc<dyn ArtifactStore>) -> Capturer {
    let now = SystemTime::UNIX_EPOCH + Duration::from_hours(490896);
    Capturer::new(store).ids(Arc::new(SeededIds::new(7))).clock(Arc::new(FixedClock(now)))
}

/// Checks the rules for every captured answer.
fn check(
    sent: &str,
    result: &RawValue,
    report: &Report,
    settings: &Settings,
    artifacts: &[Artifact],
) {
    // If a strict client could parse the answer before, it can parse the captured one.
    if serde_json::from_str::<CallToolResult>(sent).is_ok() {
        serde_json::from_str::<CallToolResult>(result.get()).unwrap();
    }
    // The report is in the answer, and every artifact that it names is in the store.
    let result: Value = serde_json::from_str(result.get()).unwrap();
    let meta = &result["_meta"][marquetry_artifacts::META_KEY];
    let shown = serde_json::from_value::<Report>(meta.clone()).unwrap();
    if serde_json::to_string(report).unwrap().len() as u64 <= settings.report_max_bytes {
        assert_eq!(&shown, report);
    }
    for named in report.save.artifacts.iter().chain(&report.save.fallback_artifact) {
        let is_it = |artifact: &&Artifact| {
            (&artifact.record.name, artifact.record.version) == (&named.name, named.version)
        };
        let there = artifacts.iter().find(is_it).unwrap();
        assert_eq!((there.record.hash, there.record.size_bytes), (named.hash, named.size_bytes));
    }
    // Links and the notice are what the protocol calls by these names.
    let content = result["content"].as_array().unwrap();
    let place = if report.truncated.is_some() { 0 } else { content.len() - 1 };
    let Ok(Content::Text { text, .. }) = Content::deserialize(&content[place]) else {
        panic!("item {place} is the notice");
    };
    assert!(text.len() <= 4096, "the notice has {} bytes", text.len());
    for item in content
        .iter()
        .filter(|item| item["uri"].as_str().is_some_and(|uri| uri.starts_with("artifact:")))
    {
        let Ok(Content::ResourceLink(link)) = Content::deserialize(item) else {
            panic!("{item} is a link")
        };
        let uri: ArtifactUri = link.uri.parse().unwrap();
        assert_eq!(uri.name.as_str(), link.name);
    }
}

/// All artifacts of the local scope, all versions.
pub(crate) async fn everything(store: &dyn ArtifactStore) -> Vec<Artifact> {
    let scope = Scope::local();
    let mut artifacts = Vec::new();
    let page = Page::new(None, Page::MAX_LIMIT);
    for latest in store.list(&scope, &page).await.unwrap().records {
        for record in store.versions(&scope, &latest.name).await.unwrap() {
            artifacts.push(
                store.get(&scope, &record.name, Version::Number(record.version)).await.unwrap(),
            );
        }
    }
    artifacts
}

/// A memory store whose puts fail as the function says, which is given each put's number, from 0.
pub(crate) struct FailingStore {
    inner: MemoryStore,
    fails: fn(u64) -> bool,
    puts: AtomicU64,
}

impl FailingStore {
    pub(crate) fn new(fails: fn(u64) -> bool) -> Arc<Self> {
        Arc::new(Self { inner: MemoryStore::default(), fails, puts: AtomicU64::default() })
    }
}

#[async_trait]
impl marquetry_artifacts::store::DelegatingStore for FailingStore {
    fn inner(&self) -> &dyn ArtifactStore {
        &self.inner
    }

    async fn put(&self, scope: &Scope, artifact: NewArtifact) -> Result<Record, StoreError> {
        if (self.fails)(self.puts.fetch_add(1, Ordering::Relaxed)) {
            return Err(StoreError::Backend("the disk is on fire".to_owned()));
        }
        self.inner.put(scope, artifact).await
    }
}

/// The settings for a small context with these keys changed, in TOML.
pub(crate) fn settings(toml: &str) -> Settings {
    Settings::small_context().patched(&toml::from_str(toml).unwrap())
}
