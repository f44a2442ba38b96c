//! A process that is killed while it writes loses nothing that it acknowledged, and leaves nothing
//! half visible: in a bucket, and in a directory. `MARQUETRY_TEST_PUTS=100` makes 2,000 puts in the
//! bucket, too, which take some minutes.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use marquetry_artifacts::{
    ArtifactName, ArtifactStore, DirectoryOptions, DirectoryStore, Scope, Version, store::Page,
};

use crate::{
    conformance::{artifact, options},
    server::{Server, store},
};

/// Names the directory, or the URL of the server, that the child writes to. The child is this same
/// test binary.
const CHILD: &str = "MARQUETRY_TEST_WRITE_TO";
/// Times that a child is killed.
const KILLS: u64 = 20;

fn open(target: &str) -> Arc<dyn ArtifactStore> {
    if target.starts_with("http://") {
        return Arc::new(store(target, "killed", options()));
    }
    Arc::new(DirectoryStore::open(target, DirectoryOptions::default()).unwrap())
}

/// Writes with four tasks, and prints a line for each acknowledged put.
#[tokio::test(flavor = "multi_thread")]
async fn child_that_writes_until_it_is_killed() {
    let Ok(target) = std::env::var(CHILD) else { return };
    let store = open(&target);
    let mut tasks = Vec::new();
    for task in 0..4_u64 {
        let store = store.clone();
        tasks.push(tokio::spawn(async move {
            let mut random = Random(task + u64::from(std::process::id()) * 8);
            loop {
                let name = format!("{}.bin", random.below(40));
                // Some bytes are equal to earlier ones.
                let content = vec![random.below(250) as u8; 1000 + random.below(3) as usize * 9000];
                let record = store.put(&Scope::local(), artifact(&name, content)).await.unwrap();
                println!("ack {} {} {}", record.name, record.version, record.hash);
            }
        }));
    }
    join_all(tasks).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_lose_nothing_in_a_directory() {
    let root = tempfile::tempdir().unwrap();
    kills_lose_nothing(root.path().to_str().unwrap(), 100).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_lose_nothing_in_a_bucket() {
    let Some(server) = Server::start().await else { return };
    let puts = std::env::var("MARQUETRY_TEST_PUTS").map_or(15, |puts| puts.parse().unwrap());
    kills_lose_nothing(server.proxy.url(), puts).await;
}

/// Kills children after `average` puts each.
async fn kills_lose_nothing(target: &str, average: u64) {
    let mut acknowledged = BTreeMap::new();
    for round in 0..KILLS {
        let mut random = Random(round);
        let puts = average / 2 + random.below(average + 1);
        let delay = Duration::from_micros(random.below(8000));
        let target = target.to_owned();
        let written = tokio::task::spawn_blocking(move || write_and_kill(&target, puts, delay));
        acknowledged.extend(written.await.unwrap());
    }
    // Other versions may be there, whose answer the child did not live to print.
    let store = open(target);
    let mut found = BTreeMap::new();
    let page = Page::new(None, Page::MAX_LIMIT);
    let listing = store.list(&Scope::local(), &page).await.unwrap();
    assert_eq!(listing.damaged, 0);
    for latest in listing.records {
        let versions = store.versions(&Scope::local(), &latest.name).await.unwrap();
        for (number, record) in versions.iter().enumerate() {
            assert_eq!(record.version, number as u64, "versions have no gaps");
            let version = Version::Number(record.version);
            let got = store.get(&Scope::local(), &record.name, version).await.unwrap();
            found.insert((got.record.name, got.record.version), got.record.hash.to_string());
        }
        // The server may still have been at work on the last put of a killed child.
        assert!(versions.contains(&latest), "{latest:?}");
    }
    for (key, hash) in &acknowledged {
        assert_eq!(found.get(key), Some(hash), "{key:?}");
    }
    println!("{KILLS} kills, {} puts acknowledged, {} found", acknowledged.len(), found.len());
    assert!(acknowledged.len() as u64 > KILLS * average / 2);
    assert!(found.len() < acknowledged.len() + KILLS as usize * 8);
}

/// Starts a child, kills it some time after its number of puts, and returns what it acknowledged.
fn write_and_kill(target: &str, puts: u64, delay: Duration) -> Vec<((ArtifactName, u64), String)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::child_that_writes_until_it_is_killed", "--nocapture"])
        .env(CHILD, target)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = Vec::new();
    for line in lines.map_while(Result::ok) {
        let Some((_, line)) = line.split_once("ack ") else { continue };
        let [name, version, hash] = line.split(' ').collect::<Vec<_>>()[..] else { continue };
        // The kill may have cut the last line.
        if hash.len() == "blake3:".len() + 64 {
            let name = ArtifactName::parse(name).unwrap();
            acknowledged.push(((name, version.parse().unwrap()), hash.to_owned()));
        }
        if acknowledged.len() as u64 == puts {
            std::thread::sleep(delay);
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(acknowledged.len() as u64 >= puts, "the child wrote {} puts", acknowledged.len());
    acknowledged
}

/// Numbers from a seed, by the algorithm xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        let mut state = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.0 = state;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }
}
