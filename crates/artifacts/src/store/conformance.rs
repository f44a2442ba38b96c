//! The tests that every [`ArtifactStore`] must pass.
//!
//! They need a Tokio runtime, preferably with several threads, and panic with the broken rule.

use std::{collections::BTreeSet, ops::Range, sync::Arc, time::Duration, time::SystemTime};

use bytes::Bytes;

use super::{
    Artifact, ArtifactStore, ContentHash, NewArtifact, Page, Record, Scope, StoreError, Version,
    Versions,
};
use crate::name::ArtifactName;

/// Runs every test against a new, empty store of `make`.
///
/// ```
/// # #[cfg(feature = "conformance")]
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use marquetry_artifacts::{MemoryStore, store::conformance};
///
/// conformance::check(async || MemoryStore::default()).await;
/// # });
/// ```
///
/// # Panics
/// When the store breaks a rule.
pub async fn check<S: ArtifactStore>(make: impl AsyncFn() -> S) {
    a_put_artifact_is_read_unchanged(&make().await).await;
    versions_count_from_zero(&make().await).await;
    a_missing_artifact_is_not_found(&make().await).await;
    ranges_are_cut_at_the_end(&make().await).await;
    scopes_do_not_touch(&make().await).await;
    similar_names_do_not_touch(&make().await).await;
    lists_come_in_pages(&make().await).await;
    deletes_are_thorough(&make().await).await;
    concurrent_puts_get_different_versions(Arc::new(make().await)).await;
}

/// Runs every test of a limit against a new, empty store of `make`, which is given the limit in
/// bytes.
///
/// [`ArtifactStore`] states the rule of eviction. A store may evict a few more versions than it
/// must.
///
/// ```
/// # #[cfg(feature = "conformance")]
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use marquetry_artifacts::{MemoryLimits, MemoryStore, store::conformance};
///
/// conformance::check_limit(async |max_total_bytes| {
///     MemoryStore::new(MemoryLimits::default().with_max_total_bytes(max_total_bytes))
/// })
/// .await;
/// # });
/// ```
///
/// # Panics
/// When the store breaks a rule.
pub async fn check_limit<S: ArtifactStore>(make: impl AsyncFn(u64) -> S) {
    the_least_recently_used_goes_first(&make(LIMIT).await).await;
    the_owner_who_holds_the_most_loses_first(&make(LIMIT).await).await;
    sessions_of_a_user_share_a_quota(&make(LIMIT).await).await;
    an_expired_version_is_reported_and_its_number_not_reused(&make(LIMIT).await).await;
    an_artifact_that_never_fits_evicts_nothing(&make(LIMIT).await).await;
    deletes_make_room(&make(LIMIT).await).await;
}

/// Room for five artifacts of 100,000 bytes with their overhead, but not for six.
const LIMIT: u64 = 595_000;

fn large(text: &str) -> NewArtifact {
    of(text, &[b'x'; 100_000])
}

async fn is_there(store: &impl ArtifactStore, scope: &Scope, text: &str) -> bool {
    match store.record(scope, &name(text), Version::Latest).await {
        Ok(_) => true,
        Err(StoreError::Expired { .. }) => false,
        Err(error) => panic!("{text} was there: {error}"),
    }
}

async fn the_least_recently_used_goes_first(store: &impl ArtifactStore) {
    let scope = Scope::local();
    for text in ["a", "b", "c", "d", "e"] {
        store.put(&scope, large(text)).await.expect("put");
    }
    assert_eq!(store.usage().evicted, 0, "five fit");
    store.get(&scope, &name("a"), Version::Latest).await.expect("get");
    store.read_range(&scope, &name("b"), Version::Latest, 0..1).await.expect("read_range");
    store.list(&scope, &Page::default()).await.expect("list");
    store.record(&scope, &name("c"), Version::Latest).await.expect("record");

    store.put(&scope, large("f")).await.expect("a full store makes room");
    let usage = store.usage();
    assert!(usage.bytes <= LIMIT && usage.evicted > 0, "{usage:?}");
    assert_eq!(usage.limit, Some(LIMIT));
    assert!(!is_there(store, &scope, "c").await, "c was used the longest ago");
    for text in ["a", "b", "e", "f"] {
        assert!(is_there(store, &scope, text).await, "{text} was used later");
    }
    let listed = store.list(&scope, &Page::default()).await.expect("list");
    assert!(listed.records.iter().all(|record| record.name.as_str() != "c"));
}

async fn the_owner_who_holds_the_most_loses_first(store: &impl ArtifactStore) {
    let [small, large_scope] =
        ["small", "large"].map(|user| Scope::new("app", user, "s").expect("short parts"));
    store.put(&small, large("first")).await.expect("put");
    for number in 0..30 {
        store.put(&large_scope, large(&format!("{number}"))).await.expect("put");
    }
    assert!(is_there(store, &small, "first").await, "another's flood removes nothing of mine");
    store.put(&small, large("second")).await.expect("put");
    assert!(is_there(store, &small, "first").await && is_there(store, &small, "second").await);
    assert!(is_there(store, &large_scope, "29").await, "the latest of the other stays");
}

async fn sessions_of_a_user_share_a_quota(store: &impl ArtifactStore) {
    fn scope(user: &str, session: &str) -> Scope {
        Scope::new("app", user, session).expect("short parts")
    }
    let victim = scope("victim", "s");
    for text in ["first", "second"] {
        store.put(&victim, large(text)).await.expect("put");
    }
    for number in 0..20 {
        let session = scope("flooder", &format!("session {number}"));
        store.put(&session, large("a")).await.expect("put");
    }
    for text in ["first", "second"] {
        assert!(
            is_there(store, &victim, text).await,
            "many small sessions of one user remove nothing of another"
        );
    }
    let last = scope("flooder", "session 19");
    assert!(is_there(store, &last, "a").await, "the latest of the other stays");
}

async fn an_expired_version_is_reported_and_its_number_not_reused(store: &impl ArtifactStore) {
    let scope = Scope::local();
    for _ in 0..12 {
        store.put(&scope, large("a")).await.expect("put");
    }
    let first = Version::Number(0);
    expired(store.record(&scope, &name("a"), first).await);
    expired(store.get(&scope, &name("a"), first).await);
    expired(store.read_range(&scope, &name("a"), first, 0..1).await);
    expired(store.delete(&scope, &name("a"), Versions::Number(0)).await);
    not_found(store.get(&scope, &name("a"), Version::Number(12)).await, "a", Version::Number(12));
    not_found(store.get(&scope, &name("b"), first).await, "b", first);
    let other = Scope::new("app", "other", "s").expect("short parts");
    not_found(store.get(&other, &name("a"), first).await, "a", first);

    for number in 0..12 {
        store.put(&scope, large(&format!("other{number}"))).await.expect("put");
    }
    expired(store.get(&scope, &name("a"), Version::Latest).await);
    expired(store.versions(&scope, &name("a")).await);
    let again = store.put(&scope, large("a")).await.expect("put");
    assert_eq!(again.version, 12, "the address of an expired version leads to nothing else");
    store.delete(&scope, &name("a"), Versions::All).await.expect("delete");
    not_found(store.get(&scope, &name("a"), Version::Latest).await, "a", Version::Latest);
}

#[track_caller]
fn expired<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(matches!(result, Err(StoreError::Expired { .. })), "it has expired: {result:?}");
}

async fn an_artifact_that_never_fits_evicts_nothing(store: &impl ArtifactStore) {
    let scope = Scope::local();
    store.put(&scope, large("a")).await.expect("put");
    let error = store.put(&scope, of("b", &vec![0; LIMIT as usize])).await;
    assert!(matches!(error, Err(StoreError::TooLarge { .. })), "{error:?}");
    assert!(is_there(store, &scope, "a").await);
    assert_eq!(store.usage().evicted, 0);
}

async fn deletes_make_room(store: &impl ArtifactStore) {
    let scope = Scope::local();
    for round in 0..4 {
        for text in ["a", "b", "c", "d"] {
            store.put(&scope, large(text)).await.expect("put");
        }
        let which = if round % 2 == 0 { Versions::All } else { Versions::Number(0) };
        for text in ["a", "b", "c", "d"] {
            store.delete(&scope, &name(text), which).await.expect("delete");
        }
    }
    assert_eq!(store.usage().evicted, 0, "what was deleted makes room");
    assert_eq!(store.usage().bytes, 0, "and is charged no more");
}

async fn a_put_artifact_is_read_unchanged(store: &impl ArtifactStore) {
    let scope = Scope::local();
    let large: Vec<u8> = (0..300_000_u32).map(|n| (n * 7 % 251) as u8).collect();
    for (text, content) in
        [("empty.txt", vec![]), ("bytes.bin", (0..=255).collect()), ("large", large)]
    {
        let mut artifact = of(text, &content);
        "an \"odd\" description\n".clone_into(&mut artifact.metadata.description);
        artifact.metadata.source_tool_args = Some(serde_json::json!({"b": [1, null], "a": "ü"}));

        let record = store.put(&scope, artifact.clone()).await.expect("put");

        assert_eq!(record, Record::new(&artifact, 0), "the record of a put");
        assert_eq!(record.hash, ContentHash::of(&content));
        assert_eq!(
            store.record(&scope, &name(text), Version::Latest).await.expect("record"),
            record
        );
        let got = store.get(&scope, &name(text), Version::Number(0)).await.expect("get");
        assert_eq!(got, Artifact::new(record, Bytes::from(content)), "what was put under {text}");
    }
}

async fn versions_count_from_zero(store: &impl ArtifactStore) {
    let scope = Scope::local();
    for version in 0..12 {
        let record =
            store.put(&scope, of("a.txt", format!("{version}").as_bytes())).await.expect("put");
        assert_eq!(record.version, version, "versions count from 0");
    }
    assert_eq!(
        store.put(&scope, of("b.txt", b"")).await.expect("put").version,
        0,
        "each name counts for itself"
    );

    for (version, want) in
        [(Version::Latest, "11"), (Version::Number(0), "0"), (Version::Number(10), "10")]
    {
        let got = store.get(&scope, &name("a.txt"), version).await.expect("get");
        assert_eq!(got.content, want, "{version:?}");
    }
    let versions = store.versions(&scope, &name("a.txt")).await.expect("versions");
    let numbers: Vec<_> = versions.iter().map(|record| record.version).collect();
    assert_eq!(numbers, (0..12).collect::<Vec<_>>(), "the oldest version first");
}

async fn a_missing_artifact_is_not_found(store: &impl ArtifactStore) {
    let scope = Scope::local();
    store.put(&scope, of("a.txt", b"x")).await.expect("put");
    for (text, version) in
        [("b.txt", Version::Latest), ("b.txt", Version::Number(0)), ("a.txt", Version::Number(1))]
    {
        let name = name(text);
        not_found(store.record(&scope, &name, version).await, text, version);
        not_found(store.get(&scope, &name, version).await, text, version);
        not_found(store.read_range(&scope, &name, version, 0..1).await, text, version);
    }
    not_found(store.versions(&scope, &name("b.txt")).await, "b.txt", Version::Latest);
    not_found(store.delete(&scope, &name("b.txt"), Versions::All).await, "b.txt", Version::Latest);
    let other = store.delete(&scope, &name("a.txt"), Versions::Number(9)).await;
    not_found(other, "a.txt", Version::Number(9));
}

#[track_caller]
fn not_found<T: std::fmt::Debug>(result: Result<T, StoreError>, text: &str, wanted: Version) {
    match result {
        Err(StoreError::NotFound { name, version }) => {
            assert_eq!(name, text);
            assert_eq!(Version::from(version), wanted);
        }
        other => panic!("{text} {wanted:?} is not there, but the store says {other:?}"),
    }
}

async fn ranges_are_cut_at_the_end(store: &impl ArtifactStore) {
    let scope = Scope::local();
    store.put(&scope, of("a.txt", b"0123456789")).await.expect("put");
    let backwards = Range { start: 5, end: 2 };
    for (range, want) in [
        (0..10, "0123456789"),
        (0..0, ""),
        (3..5, "34"),
        (8..100, "89"),
        (10..11, ""),
        (u64::MAX - 1..u64::MAX, ""),
        (backwards, ""),
    ] {
        let got = store
            .read_range(&scope, &name("a.txt"), Version::Latest, range.clone())
            .await
            .expect("read_range");
        assert_eq!(got, want, "{range:?}");
    }
}

async fn scopes_do_not_touch(store: &impl ArtifactStore) {
    let long = "x".repeat(Scope::MAX_PART_BYTES);
    let scopes = [
        ["a", "b", "c"],
        ["a", "c", "b"],
        ["A", "b", "c"],
        ["a/b", "c", "d"],
        ["a", "b/c", "d"],
        ["a", "b", "c/d"],
        ["..", "..", ".."],
        ["a", "..", "c"],
        [".", "/", "\\"],
        ["a\0", "b", "c"],
        ["ä", "b", "c"],
        ["a\u{308}", "b", "c"],
        [&long, &long, &long],
        ["CON", "nul", "a."],
    ]
    .map(|[app, user, session]| Scope::new(app, user, session).expect("parts of fit length"));
    for (index, scope) in scopes.iter().enumerate() {
        let record =
            store.put(scope, of("a.txt", format!("{index}").as_bytes())).await.expect("put");
        assert_eq!(record.version, 0, "{scope:?} is a new scope");
    }
    for (index, scope) in scopes.iter().enumerate() {
        let got = store.get(scope, &name("a.txt"), Version::Latest).await.expect("get");
        assert_eq!(got.content, format!("{index}"), "{scope:?}");
        assert_eq!(
            store.list(scope, &Page::default()).await.expect("list").records.len(),
            1,
            "{scope:?}"
        );
    }
    store.delete(&scopes[0], &name("a.txt"), Versions::All).await.expect("delete");
    assert!(
        store.get(&scopes[1], &name("a.txt"), Version::Latest).await.is_ok(),
        "deletes stay in their scope"
    );
}

async fn similar_names_do_not_touch(store: &impl ArtifactStore) {
    let scope = Scope::local();
    let long = "n".repeat(ArtifactName::MAX_BYTES - 1);
    let names = [
        "a.txt",
        "A.txt",
        "a.TXT",
        "a",
        "a%2etxt",
        "a txt",
        "a_txt",
        "ä.txt",
        "record.json",
        "tmp",
        "0",
        "a.b.c",
    ];
    let names =
        names.map(str::to_owned).into_iter().chain(["x", "y"].map(|end| format!("{long}{end}")));
    let names: BTreeSet<_> = names.collect();
    for text in &names {
        let record = store.put(&scope, of(text, text.as_bytes())).await.expect("put");
        assert_eq!(record.version, 0, "{text} is a new name");
    }
    for text in &names {
        let got = store.get(&scope, &name(text), Version::Latest).await.expect("get");
        assert_eq!(got.content, text.as_bytes());
        assert_eq!(got.record.name.as_str(), text);
    }
    let listed = store.list(&scope, &Page::default()).await.expect("list");
    let listed: Vec<_> =
        listed.records.iter().map(|record| record.name.as_str().to_owned()).collect();
    assert_eq!(listed, names.into_iter().collect::<Vec<_>>(), "names are listed in their order");
}

async fn lists_come_in_pages(store: &impl ArtifactStore) {
    let scope = Scope::local();
    let empty = store.list(&scope, &Page::default()).await.expect("list");
    assert!(empty.records.is_empty() && empty.next.is_none(), "a new scope is empty");

    let mut want = BTreeSet::new();
    for number in 0..25 {
        let text = format!("{}.txt", number * 7 % 25);
        store.put(&scope, of(&text, b"old")).await.expect("put");
        store.put(&scope, of(&text, b"newer")).await.expect("put");
        want.insert(text);
    }
    for limit in [0, 1, 7, 25, 100, usize::MAX] {
        let mut page = Page { after: None, limit };
        let mut seen = Vec::new();
        loop {
            let listing = store.list(&scope, &page).await.expect("list");
            assert!(listing.records.len() <= page.bounded_limit(), "at most {limit} on a page");
            for record in listing.records {
                assert_eq!(
                    (record.version, record.size_bytes),
                    (1, 5),
                    "the latest version is listed"
                );
                seen.push(record.name.as_str().to_owned());
            }
            let Some(next) = listing.next else { break };
            page.after = Some(next);
        }
        assert_eq!(seen, want.iter().cloned().collect::<Vec<_>>(), "pages of {limit}");
    }
    let page = Page { after: Some(name("13.txt.which.was.never")), limit: 1 };
    let listing = store.list(&scope, &page).await.expect("list");
    assert_eq!(
        listing.records[0].name.as_str(),
        "14.txt",
        "a page may begin behind a name that is gone"
    );
}

async fn deletes_are_thorough(store: &impl ArtifactStore) {
    let scope = Scope::local();
    let text = name("a.txt");
    for content in ["0", "1", "2"] {
        store.put(&scope, of("a.txt", content.as_bytes())).await.expect("put");
    }
    assert_eq!(store.delete(&scope, &text, Versions::Number(1)).await.expect("delete"), 1);
    not_found(store.get(&scope, &text, Version::Number(1)).await, "a.txt", Version::Number(1));
    assert_eq!(store.get(&scope, &text, Version::Latest).await.expect("get").content, "2");
    assert_eq!(
        store.put(&scope, of("a.txt", b"3")).await.expect("put").version,
        3,
        "a gap is not filled"
    );
    assert_eq!(store.delete(&scope, &text, Versions::All).await.expect("delete"), 3);
    not_found(store.get(&scope, &text, Version::Latest).await, "a.txt", Version::Latest);
    assert!(store.list(&scope, &Page::default()).await.expect("list").records.is_empty());

    store.put(&scope, of("b.txt", b"0")).await.expect("put");
    store.delete(&scope, &name("b.txt"), Versions::Number(0)).await.expect("delete");
    assert!(
        store.list(&scope, &Page::default()).await.expect("list").records.is_empty(),
        "no name without a version"
    );
    store.put(&scope, of("b.txt", b"again")).await.expect("put after delete");
}

async fn concurrent_puts_get_different_versions(store: Arc<impl ArtifactStore>) {
    const PUTS: u64 = 24;
    let mut tasks = Vec::new();
    for number in 0..PUTS {
        let store = Arc::clone(&store);
        tasks.push(tokio::spawn(async move {
            let content = format!("content {number}");
            let record =
                store.put(&Scope::local(), of("a.txt", content.as_bytes())).await.expect("put");
            (record.version, content)
        }));
    }
    let mut versions = BTreeSet::new();
    for task in tasks {
        let (version, content) = task.await.expect("a put that does not panic");
        assert!(versions.insert(version), "version {version} was given twice");
        let got = store
            .get(&Scope::local(), &name("a.txt"), Version::Number(version))
            .await
            .expect("get");
        assert_eq!(got.content, content, "version {version}");
    }
    assert_eq!(versions, (0..PUTS).collect(), "versions have no gaps");
}

fn of(text: &str, content: &[u8]) -> NewArtifact {
    let created_at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_767_225_600_123);
    NewArtifact::new(name(text), "text/plain", created_at, Bytes::copy_from_slice(content))
}

fn name(text: &str) -> ArtifactName {
    ArtifactName::parse(text).expect("a good name")
}
