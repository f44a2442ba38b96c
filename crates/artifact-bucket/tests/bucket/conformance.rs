//! The conformance suite, and what several stores on one bucket owe each other.

use std::{collections::BTreeSet, sync::Arc, time::SystemTime};

use bytes::Bytes;
use marquetry_artifact_bucket::{BucketOptions, BucketStore};
use marquetry_artifacts::{
    ArtifactName, ArtifactStore as _, NewArtifact, Scope, StoreError, Version,
    store::{Page, Versions, conformance},
};
use object_store::{ObjectStore, ObjectStoreExt as _, memory::InMemory, path::Path};

use crate::server::Server;

pub(crate) fn options() -> BucketOptions {
    BucketOptions::default()
}

pub(crate) fn artifact(name: &str, content: impl Into<Bytes>) -> NewArtifact {
    let name = ArtifactName::parse(name).unwrap();
    NewArtifact::new(name, "x/y", SystemTime::UNIX_EPOCH, content.into())
}

fn in_memory(bucket: &Arc<InMemory>, options: BucketOptions) -> BucketStore {
    let bucket: Arc<dyn ObjectStore> = bucket.clone();
    BucketStore::new(bucket, &"s3://bucket/a/b".parse().unwrap(), options)
}

#[tokio::test(flavor = "multi_thread")]
async fn conforms_in_memory() {
    conformance::check(async || in_memory(&Arc::default(), options())).await;
    conformance::check_limit(async |limit| {
        in_memory(&Arc::default(), options().with_max_total_bytes(limit))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn conforms_on_a_server() {
    let Some(server) = Server::start().await else { return };
    conformance::check(async || server.new_store(options())).await;
    conformance::check_limit(async |limit| server.new_store(options().with_max_total_bytes(limit)))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_of_two_stores_never_share_a_version() {
    let Some(server) = Server::start().await else { return };
    let stores = [0, 1].map(|_| server.store("shared", options()));
    let mut tasks = Vec::new();
    for number in 0..32 {
        let store = stores[number % 2].clone();
        tasks.push(tokio::spawn(async move {
            store.put(&Scope::local(), artifact("a", number.to_string())).await
        }));
    }
    let mut versions = BTreeSet::new();
    for (number, task) in tasks.into_iter().enumerate() {
        let record = task.await.unwrap().unwrap();
        assert!(versions.insert(record.version));
        let version = Version::Number(record.version);
        let got = stores[1 - number % 2].get(&Scope::local(), &record.name, version).await.unwrap();
        assert_eq!(got.content, number.to_string());
    }
    assert_eq!(versions, (0..32).collect());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_holds_for_all_stores_together() {
    const LIMIT: u64 = 4_000_000;
    let Some(server) = Server::start().await else { return };
    let stores = [0, 1].map(|_| server.store("limit", options().with_max_total_bytes(LIMIT)));
    for number in 0..100_u32 {
        let content = vec![number as u8; 100_000];
        let store = &stores[number as usize % 2];
        store.put(&Scope::local(), artifact(&format!("{number}"), content)).await.unwrap();
    }
    let page = Page::new(None, Page::MAX_LIMIT);
    let listing = stores[0].list(&Scope::local(), &page).await.unwrap();
    let held: u64 = listing.records.iter().map(|record| record.size_bytes).sum();
    assert!(held <= LIMIT + LIMIT / 16, "{held}");
    let evicted: u64 = stores.iter().map(|store| store.usage().evicted).sum();
    assert_eq!(listing.records.len() as u64 + evicted, 100);
    for record in listing.records {
        stores[1].get(&Scope::local(), &record.name, Version::Latest).await.unwrap();
    }
    let first = stores[1].get(&Scope::local(), &artifact("0", "").name, Version::Latest).await;
    assert!(matches!(first, Err(StoreError::Expired { .. })), "{first:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bytes_are_uploaded_once_and_in_parts() {
    let Some(server) = Server::start().await else { return };
    let store = server.new_store(options());
    let content: Vec<u8> = (0..20_000_000_u32).map(|n| (n * 7 % 251) as u8).collect();
    store.put(&Scope::local(), artifact("a", content.clone())).await.unwrap();
    let seen = server.proxy.take_seen();
    assert_eq!(seen.iter().filter(|line| line.contains("partNumber=")).count(), 3, "{seen:?}");

    store.put(&Scope::local(), artifact("b", content.clone())).await.unwrap();
    let seen = server.proxy.take_seen();
    assert!(!seen.iter().any(|line| line.contains("partNumber=")), "{seen:?}");
    assert!(seen.len() <= 4, "{seen:?}");

    let name = artifact("b", "").name;
    let got = store.get(&Scope::local(), &name, Version::Latest).await.unwrap();
    assert!(got.content == content);
    for range in [0..10, 1_048_570..1_048_580, 5_000_000..9_000_000, 19_999_990..u64::MAX] {
        let want = &content[range.start as usize..(range.end as usize).min(content.len())];
        let bytes = store.read_range(&Scope::local(), &name, Version::Latest, range).await.unwrap();
        assert!(bytes == want);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_byte_is_reported() {
    let bucket = Arc::new(InMemory::new());
    let store = in_memory(&bucket, options());
    let scope = Scope::local();
    let content = vec![7; 3_000_000];
    store.put(&scope, artifact("small", "abcdef")).await.unwrap();
    store.put(&scope, artifact("large", content.clone())).await.unwrap();
    let objects: Vec<_> = objects(&bucket).await;
    for path in objects.iter().filter(|path| path.as_ref().contains("/content/")) {
        let mut bytes = bucket.get(path).await.unwrap().bytes().await.unwrap().to_vec();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        bucket.put(path, bytes.into()).await.unwrap();
    }
    for name in ["small", "large"] {
        let name = artifact(name, "").name;
        let error = store.get(&scope, &name, Version::Latest).await.unwrap_err().to_string();
        let want = format!(
            "artifact \"{name}\" version 0 is damaged: its bytes do not have the hash that was recorded"
        );
        assert_eq!(error, want);
    }
    let name = artifact("large", "").name;
    let damaged = store.read_range(&scope, &name, Version::Latest, 1_400_000..1_400_010).await;
    assert!(matches!(damaged, Err(StoreError::Corrupt { .. })), "{damaged:?}");
    let other = store.read_range(&scope, &name, Version::Latest, 0..10).await.unwrap();
    assert_eq!(other, content[..10], "another piece is whole");

    // Equal bytes do not rely on the damaged ones.
    store.put(&scope, artifact("again", content.clone())).await.unwrap();
    let name = artifact("again", "").name;
    assert!(store.get(&scope, &name, Version::Latest).await.unwrap().content == content);
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_objects_are_counted_and_hide_nothing() {
    let bucket = Arc::new(InMemory::new());
    let store = in_memory(&bucket, options());
    let scope = Scope::local();
    for content in ["zero", "one"] {
        store.put(&scope, artifact("a", content)).await.unwrap();
    }
    let objects = objects(&bucket).await;
    let record = objects.iter().find(|path| path.as_ref().ends_with("01")).unwrap();
    bucket.put(record, "{".into()).await.unwrap();
    bucket.put(&Path::from("a/b/versions/x/y/zz/1"), "of others".into()).await.unwrap();
    let name = artifact("a", "").name;
    let error = store.get(&scope, &name, Version::Latest).await.unwrap_err().to_string();
    assert_eq!(error, "artifact \"a\" version 1 is damaged: its record cannot be read");
    let listing = store.list(&scope, &Page::default()).await.unwrap();
    assert_eq!((listing.records[0].version, listing.damaged), (0, 1));
    assert_eq!(store.versions(&scope, &name).await.unwrap().len(), 1);
    assert_eq!(store.put(&scope, artifact("a", "two")).await.unwrap().version, 2);

    for path in objects.iter().filter(|path| path.as_ref().contains("/content/")) {
        bucket.delete(path).await.unwrap();
    }
    let error = store.get(&scope, &name, Version::Number(0)).await.unwrap_err().to_string();
    assert_eq!(error, "artifact \"a\" version 0 is damaged: its bytes are missing");
    assert_eq!(store.delete(&scope, &name, Versions::All).await.unwrap(), 3);
}

async fn objects(bucket: &Arc<InMemory>) -> Vec<Path> {
    use futures_util::TryStreamExt as _;
    bucket.list(None).map_ok(|object| object.location).try_collect().await.unwrap()
}
