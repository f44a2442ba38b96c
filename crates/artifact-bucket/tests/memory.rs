//! Measures the memory of a large artifact. It runs in a separate process, so that other tests are
//! not measured with it.

#[path = "bucket/proxy.rs"]
#[expect(dead_code, reason = "this test has no faults")]
mod proxy;
#[path = "bucket/server.rs"]
#[expect(dead_code, reason = "this test needs no proxy")]
mod server;

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_large_artifact_costs_at_most_its_size_and_three_tenths() {
    use std::time::SystemTime;

    use bytes::Bytes;
    use marquetry_artifact_bucket::BucketOptions;
    use marquetry_artifacts::{ArtifactName, ArtifactStore as _, NewArtifact, Scope, Version};

    const BYTES: u64 = 100 << 20;

    fn memory(key: &str) -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    let Some(program) = server::program() else { return };
    let (_moto, url) = server::start(&program).await;
    let store = server::store(&url, "memory", BucketOptions::default());
    let before = memory("VmHWM:").max(memory("VmRSS:"));
    let name = ArtifactName::parse("image.png").unwrap();
    let content = Bytes::from((0..BYTES).map(|at| (at * 7 % 251) as u8).collect::<Vec<_>>());
    let artifact = NewArtifact::new(name.clone(), "image/png", SystemTime::UNIX_EPOCH, content);
    store.put(&Scope::local(), artifact).await.unwrap();
    let put = memory("VmHWM:") - before;
    let got = store.get(&Scope::local(), &name, Version::Latest).await.unwrap();
    assert_eq!(got.content.len() as u64, BYTES);
    let get = memory("VmHWM:") - before;
    println!("a put takes {put} bytes of memory, a read {get}");
    assert!(put <= BYTES / 10 * 13, "{put}");
    assert!(get <= BYTES / 10 * 13, "{get}");
}
