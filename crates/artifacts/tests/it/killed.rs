//! A process that is killed while it writes leaves only complete artifacts.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use marquetry_artifacts::{
    ArtifactName, ArtifactStore, DirectoryOptions, DirectoryStore, NewArtifact, Scope, Version,
    store::Page,
};

/// Names the directory that the child, which is this same test binary, is to write to until it is
/// killed.
const CHILD: &str = "MARQUETRY_TEST_WRITE_TO";

fn options() -> DirectoryOptions {
    DirectoryOptions::default().with_durable(false).with_max_total_bytes(1 << 40)
}

fn artifact(name: &str, fill: u8) -> NewArtifact {
    let content = Bytes::from(vec![fill; 20_000 + usize::from(fill) * 100]);
    NewArtifact::new(ArtifactName::parse(name).unwrap(), "x/y", SystemTime::UNIX_EPOCH, content)
}

#[tokio::test(flavor = "multi_thread")]
async fn child_that_writes_until_it_is_killed() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let store = DirectoryStore::open(path, options()).unwrap();
    loop {
        for fill in 0..=255 {
            store.put(&Scope::local(), artifact("same.bin", fill)).await.unwrap();
            store.put(&Scope::local(), artifact(&format!("{fill}.bin"), fill)).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_leaves_whole_artifacts_only() {
    let root = tempfile::tempdir().unwrap();
    let mut written = 0;
    for round in 0..25 {
        let mut children: Vec<_> = (0..2).map(|_| child(root.path())).collect();
        // Waits for a different time in each round, long enough for both to be at work in most
        // rounds.
        tokio::time::sleep(Duration::from_millis(60 + round * 7 % 50)).await;
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        written = check(root.path()).await;
    }
    assert!(written > 100, "the children wrote {written} artifacts");
}

fn child(path: &Path) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::child_that_writes_until_it_is_killed"])
        .env(CHILD, path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Checks that every listed version can be read, that its hash is right, and that numbers have no
/// gaps. Returns the number of versions.
async fn check(path: &Path) -> usize {
    let store = DirectoryStore::open(path, options()).unwrap();
    let page = Page::new(None, Page::MAX_LIMIT);
    let mut count = 0;
    for latest in store.list(&Scope::local(), &page).await.unwrap().records {
        let versions = store.versions(&Scope::local(), &latest.name).await.unwrap();
        for (number, record) in versions.iter().enumerate() {
            assert_eq!(record.version, number as u64);
            let version = Version::Number(record.version);
            store.get(&Scope::local(), &latest.name, version).await.unwrap();
            count += 1;
        }
        assert_eq!(latest, versions[versions.len() - 1]);
    }
    count
}
