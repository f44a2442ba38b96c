//! The server of S3, and stores on it.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use marquetry_artifact_bucket::{
    BucketAddress, BucketOptions, BucketSettings, BucketStore, ObjectStore, connect,
};
use marquetry_endpoint::http_client;

use crate::proxy::Proxy;

/// moto, a server of S3 in memory, behind a proxy.
pub(crate) struct Server {
    pub(crate) proxy: Proxy,
    _moto: Moto,
}

/// The process of moto. It is killed when dropped.
pub(crate) struct Moto(Child);

/// Variables of the environment with which a store is opened.
pub(crate) const VARIABLES: [(&str, &str); 2] =
    [("AWS_ACCESS_KEY_ID", "access"), ("AWS_SECRET_ACCESS_KEY", "hidden-value")];

/// Returns the program. If it is not installed, says so and returns none; with `CI=true`, fails.
pub(crate) fn program() -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/s3/.venv/bin/moto_server");
    if program.exists() {
        return Some(program);
    }
    let missing = "moto not found; run crates/artifact-bucket/tests/s3/install";
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{missing}");
    // Written directly, as the test harness hides the output of a passing test.
    _ = std::io::stderr().write_all(format!("SKIPPED (1): {missing}\n").as_bytes());
    None
}

impl Server {
    /// Starts a server with a bucket named `bucket`; none if it is not installed.
    pub(crate) async fn start() -> Option<Self> {
        let (moto, url) = start(&program()?).await;
        Some(Self { proxy: Proxy::start(url).await, _moto: moto })
    }

    /// Returns a store with a connection of its own.
    pub(crate) fn store(&self, prefix: &str, options: BucketOptions) -> BucketStore {
        store(self.proxy.url(), prefix, options)
    }

    /// Returns a store of a new, empty prefix.
    pub(crate) fn new_store(&self, options: BucketOptions) -> BucketStore {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        self.store(&format!("new/{}", COUNT.fetch_add(1, Ordering::Relaxed)), options)
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the program, and creates the bucket. Returns the URL.
pub(crate) async fn start(program: &Path) -> (Moto, String) {
    let mut child = Command::new(program)
        .args(["-H", "127.0.0.1", "-p", "0"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stderr = child.stderr.take().unwrap();
    let moto = Moto(child);
    let mut lines = BufReader::new(stderr).lines();
    let url = lines
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| Some(line.split_once("Running on ")?.1.trim().to_owned()))
        .expect("the server says where it listens");
    // Output that is not read would block the server.
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    let client = http_client(&url.parse().unwrap()).unwrap();
    let created = client.put(format!("{url}/bucket")).send().await.unwrap();
    assert!(created.status().is_success(), "{created:?}");
    (moto, url)
}

/// Returns a store on the server at this URL.
pub(crate) fn store(url: &str, prefix: &str, options: BucketOptions) -> BucketStore {
    let (bucket, address) = bucket(url, prefix);
    BucketStore::new(bucket, &address, options)
}

/// Returns the bucket of the server at this URL, and the address of a prefix in it.
pub(crate) fn bucket(url: &str, prefix: &str) -> (Arc<dyn ObjectStore>, BucketAddress) {
    let address = format!("s3://bucket/{prefix}").parse().unwrap();
    let settings = BucketSettings { address, endpoint: Some(url.to_owned()), region: None };
    let variables = VARIABLES.map(|(name, value)| (name.to_owned(), value.to_owned()));
    (connect(&settings, variables).unwrap(), settings.address)
}
