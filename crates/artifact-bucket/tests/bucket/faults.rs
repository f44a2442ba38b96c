//! A server that fails: nothing that was acknowledged is lost, and nothing is half visible.

use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _};
use marquetry_artifacts::{
    ArtifactStore as _, Scope, StoreError, Version,
    store::{Page, Versions},
};
use object_store::ObjectStore as _;

use crate::{
    conformance::{artifact, options},
    proxy::Fault,
    server::{Server, bucket},
};

const ALWAYS: usize = usize::MAX;

#[tokio::test(flavor = "multi_thread")]
async fn a_put_survives_each_single_fault() {
    let Some(server) = Server::start().await else { return };
    let store = server.new_store(options());
    let scope = Scope::local();
    // The first put counts.
    store.put(&scope, artifact("a", "first")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let late = Fault::Slow(Duration::from_millis(300));
    let mut version = 0;
    for fault in [Fault::Unavailable, Fault::LostRequest, Fault::LostAnswer, late] {
        for (method, part) in [("GET", "prefix="), ("PUT", "/content/"), ("PUT", "/versions/")] {
            version += 1;
            let content = format!("{fault:?} of {method} {part}");
            server.proxy.fail(method, part, fault, 1);
            let record = store.put(&scope, artifact("a", content.clone())).await.unwrap();
            assert_eq!(record.version, version, "{content}");
            let number = Version::Number(version);
            let got = store.get(&scope, &record.name, number).await.unwrap();
            assert_eq!(got.content, content);
            assert_eq!(server.proxy.heal(), 0, "{content} happened");
        }
    }
    let name = artifact("a", "").name;
    assert_eq!(store.versions(&scope, &name).await.unwrap().len() as u64, version + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_survives_each_single_fault() {
    let Some(server) = Server::start().await else { return };
    let store = server.new_store(options());
    let scope = Scope::local();
    let content = vec![7; 300_000];
    let name = store.put(&scope, artifact("a", content.clone())).await.unwrap().name;
    for fault in [Fault::Unavailable, Fault::LostRequest, Fault::LostAnswer, Fault::CutAnswer] {
        for part in ["prefix=", "/versions/", "/content/"] {
            server.proxy.fail("GET", part, fault, 1);
            let got = store.get(&scope, &name, Version::Latest).await;
            let got = got.unwrap_or_else(|error| panic!("{fault:?} of {part}: {error}"));
            assert!(got.content == content, "{fault:?} of {part}");
            assert_eq!(server.proxy.heal(), 0, "{fault:?} of {part}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_out_of_order_is_reported_and_nothing_is_half_visible() {
    let Some(server) = Server::start().await else { return };
    let store = server.new_store(options());
    let scope = Scope::local();
    store.put(&scope, artifact("a", "first")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let overloaded =
        "the server of the artifact bucket is overloaded or out of order (status 503); try again";
    for part in ["/content/", "/versions/"] {
        server.proxy.fail("PUT", part, Fault::Unavailable, ALWAYS);
        let error = store.put(&scope, artifact("b", format!("at {part}"))).await.unwrap_err();
        assert_eq!(error.to_string(), overloaded);
        server.proxy.heal();
        let b = store.get(&scope, &artifact("b", "").name, Version::Latest).await;
        assert!(matches!(b, Err(StoreError::NotFound { .. })), "{b:?}");
    }
    assert_eq!(store.list(&scope, &Page::default()).await.unwrap().records.len(), 1);

    server.proxy.fail("GET", "", Fault::Unavailable, ALWAYS);
    let name = artifact("a", "").name;
    let got = store.get(&scope, &name, Version::Latest).await.unwrap_err();
    assert_eq!(got.to_string(), overloaded);
    let listed = store.list(&scope, &Page::default()).await.unwrap_err();
    assert_eq!(listed.to_string(), overloaded);
    server.proxy.heal();

    // Each part of a large upload is sent again; a lost upload leaves nothing.
    let large = vec![9; 18 << 20];
    server.proxy.fail("PUT", "partNumber=2", Fault::LostAnswer, 1);
    store.put(&scope, artifact("large", large.clone())).await.unwrap();
    assert_eq!(server.proxy.heal(), 0);
    let name = artifact("large", "").name;
    assert!(store.get(&scope, &name, Version::Latest).await.unwrap().content == large);
    let other = vec![8; 18 << 20];
    server.proxy.fail("PUT", "partNumber=2", Fault::Unavailable, ALWAYS);
    let error = store.put(&scope, artifact("lost", other)).await.unwrap_err();
    assert_eq!(error.to_string(), overloaded);
    server.proxy.heal();
    assert_eq!(store.list(&scope, &Page::default()).await.unwrap().records.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_faults_at_once_lose_nothing_that_was_acknowledged() {
    let Some(server) = Server::start().await else { return };
    let store = server.new_store(options());
    let scope = Scope::local();
    for (skipped, fault) in [
        (5, Fault::Unavailable),
        (9, Fault::LostAnswer),
        (20, Fault::LostRequest),
        (31, Fault::LostAnswer),
    ] {
        server.proxy.fail_after(skipped, "PUT", "/", fault, 3);
        server.proxy.fail_after(skipped, "GET", "/", fault, 3);
    }
    let mut tasks = Vec::new();
    for number in 0..40 {
        let store = store.clone();
        let scope = scope.clone();
        tasks.push(tokio::spawn(async move {
            let name = format!("{}", number % 5);
            store.put(&scope, artifact(&name, format!("content {number}"))).await
        }));
    }
    let mut acknowledged = Vec::new();
    for (number, task) in tasks.into_iter().enumerate() {
        if let Ok(record) = task.await.unwrap() {
            acknowledged.push((number, record));
        }
    }
    server.proxy.heal();
    assert!(acknowledged.len() > 30, "{}", acknowledged.len());
    for (number, record) in &acknowledged {
        let got = store.get(&scope, &record.name, Version::Number(record.version)).await.unwrap();
        assert_eq!(got.content, format!("content {number}"));
    }
    for latest in store.list(&scope, &Page::default()).await.unwrap().records {
        for (number, record) in
            store.versions(&scope, &latest.name).await.unwrap().iter().enumerate()
        {
            assert_eq!(record.version, number as u64, "versions have no gaps");
            store.get(&scope, &record.name, Version::Number(record.version)).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_artifact_that_is_removed_while_it_is_read_is_not_damaged() {
    let Some(server) = Server::start().await else { return };
    let store = server.store("removed", options());
    let scope = Scope::local();
    let name = store.put(&scope, artifact("a", "text")).await.unwrap().name;
    server.proxy.fail("GET", "/content/", Fault::Slow(Duration::from_millis(500)), 1);
    let reading = tokio::spawn({
        let store = store.clone();
        let scope = scope.clone();
        let name = name.clone();
        async move { store.get(&scope, &name, Version::Latest).await }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let other = server.store("removed", options());
    other.delete(&scope, &name, Versions::All).await.unwrap();
    // As if its bytes had been collected since.
    let bucket = bucket(server.proxy.url(), "removed").0;
    let contents = bucket.list(Some(&"removed/content".into())).map_ok(|object| object.location);
    let deleted: Vec<_> = bucket.delete_stream(contents.boxed()).try_collect().await.unwrap();
    assert_eq!(deleted.len(), 1);
    let read = reading.await.unwrap();
    assert!(matches!(read, Err(StoreError::NotFound { .. })), "{read:?}");
    assert_eq!(server.proxy.heal(), 0);
}
