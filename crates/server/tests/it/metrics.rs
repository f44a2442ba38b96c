//! Metrics: their text, who may read them, `promtool`, and a real Prometheus.

use std::{
    env, fs,
    io::Write as _,
    net::SocketAddr,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use marquetry::{App, Config, ConfigSource, ServerSwitches};
use marquetry_observe::ServerMetrics;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::{
    support::{Answer, Running, ask, call, token_of, until, users_toml, within},
    upstream::child_toml,
};

/// Serves the metrics of a server on a free port.
async fn serve_metrics(server: &Running) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = server.app.clone();
    tokio::spawn(async move { app.serve_metrics(listener).await.unwrap() });
    address
}

async fn get(address: SocketAddr, headers: &str) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    within(stream.read_to_end(&mut bytes)).await.unwrap();
    Answer::parse(&bytes)
}

async fn text(address: SocketAddr) -> String {
    let answer = get(address, "Host: localhost\r\n").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

/// Returns the value of a sample.
fn value(text: &str, sample: &str) -> f64 {
    let line =
        text.lines().find(|line| line.strip_prefix(sample).is_some_and(|it| it.starts_with(' ')));
    line.unwrap_or_else(|| panic!("no {sample} in {text}"))
        .rsplit_once(' ')
        .unwrap()
        .1
        .parse()
        .unwrap()
}

/// Returns whether a program is installed. In continuous integration it must be.
fn is_installed(program: &str) -> bool {
    if Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
    {
        return true;
    }
    assert!(env::var("CI").is_err(), "{program} is not installed");
    eprintln!("SKIPPED: {program} is not installed");
    false
}

const CONFIG: &str = "metrics.listen = '127.0.0.1:9464'\n";

#[tokio::test]
async fn requests_and_upstreams_are_counted() {
    let server = Running::start(&format!("{CONFIG}{}", child_toml("local"))).await;
    let address = serve_metrics(&server).await;
    let agent = server.agent().await;
    for _ in 0..3 {
        call(&agent, "local__echo", json!({"text": "a"})).await.unwrap();
    }
    for number in 0..20 {
        _ = call(&agent, &format!("local__unknown{number}"), json!({})).await.unwrap_err();
        _ = ask(&agent, "resources/read", json!({"uri": format!("test://{number}")})).await;
        _ = ask(&agent, &format!("unknown/{number}"), json!({})).await.unwrap_err();
    }
    call(&agent, "encodePlantUML", json!({"plantumlCode": "A -> B"})).await.unwrap();
    let text = text(address).await;
    for (side, method) in [("server", "tools/call"), ("client", "tools/call")] {
        let sample = format!(
            "mcp_{side}_operation_duration_seconds_count{{mcp_method_name=\"{method}\",upstream=\"local\",gen_ai_tool_name=\"echo\",error_type=\"\"}}"
        );
        assert_eq!(value(&text, &sample), 3.0);
    }
    let failed = |method: &str, error: &str| {
        format!(
            "mcp_server_operation_duration_seconds_count{{mcp_method_name=\"{method}\",upstream=\"\",gen_ai_tool_name=\"\",error_type=\"{error}\"}}"
        )
    };
    assert_eq!(value(&text, &failed("tools/call", "-32602")), 20.0);
    assert_eq!(value(&text, &failed("_other", "-32601")), 20.0);
    assert!(text.contains("upstream=\"marquetry\",gen_ai_tool_name=\"encodePlantUML\""), "{text}");
    assert!(!text.contains("unknown") && !text.contains("test://"), "{text}");
    assert_eq!(
        value(&text, "marquetry_overhead_seconds_count{mcp_method_name=\"tools/call\"}"),
        3.0
    );
    assert!(value(&text, "marquetry_overhead_seconds_sum{mcp_method_name=\"tools/call\"}") < 1.0);
    assert_eq!(value(&text, "marquetry_upstream_up{upstream=\"local\"}"), 1.0);
    assert_eq!(value(&text, "marquetry_instances{upstream=\"local\"}"), 1.0);
    assert_eq!(value(&text, "marquetry_restarts_total{upstream=\"local\"}"), 0.0);
    assert_eq!(value(&text, "marquetry_sessions"), 1.0);
    assert_eq!(
        (value(&text, "marquetry_audit_up"), value(&text, "marquetry_in_flight")),
        (1.0, 0.0)
    );
    server.stop().await;
}

#[tokio::test]
async fn instances_of_an_isolated_server_are_counted() {
    let config = format!("{CONFIG}{}isolation = 'session'\n", child_toml("local"));
    let server = Running::start(&config).await;
    let address = serve_metrics(&server).await;
    let mut agents = Vec::new();
    for _ in 0..2 {
        let agent = server.agent().await;
        call(&agent, "local__echo", json!({"text": "a"})).await.unwrap();
        agents.push(agent);
    }
    let counted = text(address).await;
    let sample = "marquetry_instances{upstream=\"local\"}";
    assert_eq!(value(&counted, sample), 3.0, "with the one for lists");
    let health = server.http("GET", "/healthz", &[], b"").await.json();
    let want = json!({"ready": 2, "not_ready": 0, "max": 16});
    assert_eq!(health["upstreams"][0]["instances"], want);
    for agent in agents {
        agent.close().await;
    }
    until("they end with their sessions", async || value(&text(address).await, sample) == 1.0)
        .await;
    server.stop().await;
}

/// A configuration that can be read once.
struct ReadableOnce(AtomicBool);

impl ConfigSource for ReadableOnce {
    fn read(&self, _: &ServerSwitches) -> Result<(Config, Vec<String>), String> {
        if self.0.swap(true, Ordering::Relaxed) {
            return Err("it is gone".to_owned());
        }
        let config = Config::from_toml(CONFIG, "m.toml").map_err(|error| error.to_string())?;
        Ok((config, Vec::new()))
    }

    fn has_changed(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn reloads_are_counted_by_their_result() {
    let source = Arc::new(ReadableOnce(AtomicBool::new(false)));
    let config = Config::from_toml(CONFIG, "m.toml").unwrap();
    let app = App::builder(config).reload_from(source).start().await.unwrap();
    let server = Running::serve(app).await;
    let address = serve_metrics(&server).await;
    assert!(server.app.reload().await.is_ok());
    assert_eq!(server.app.reload().await.unwrap_err(), "it is gone");
    let text = text(address).await;
    for result in ["ok", "failed"] {
        let sample = format!("marquetry_config_reloads_total{{result=\"{result}\"}}");
        assert_eq!(value(&text, &sample), 1.0, "{result}");
    }
    server.stop().await;
}

#[tokio::test]
async fn an_upstream_that_is_gone_is_down() {
    let down = "[mcp_servers.gone]\ncommand = '/no/such/program'\n[mcp_servers.off]\ncommand = 'x'\ndisabled = true\n";
    let server = Running::start(&format!("{CONFIG}{down}")).await;
    let text = text(serve_metrics(&server).await).await;
    assert_eq!(value(&text, "marquetry_upstream_up{upstream=\"gone\"}"), 0.0);
    assert!(!text.contains("\"off\""), "{text}");
    server.stop().await;
}

#[tokio::test]
async fn pages_of_a_browser_and_callers_without_the_scope_read_nothing() {
    let server = Running::start(CONFIG).await;
    let address = serve_metrics(&server).await;
    assert_eq!(get(address, "Host: evil.example\r\n").await.status, 403);
    assert_eq!(
        get(address, "Host: localhost\r\nOrigin: https://evil.example\r\n").await.status,
        403
    );
    let other = server.http("GET", "/metrics", &[], b"").await;
    assert_eq!(other.status, 404, "only the listener of its own has the metrics");
    server.stop().await;

    let folder = tempfile::tempdir().unwrap();
    let users = users_toml(folder.path(), &["ann", "scraper"]);
    let users =
        users.replace("[auth.tokens.scraper]\n", "[auth.tokens.scraper]\nscopes = ['metrics']\n");
    let server = Running::start(&format!("{CONFIG}{users}")).await;
    // Each address of the machine: other machines can reach it.
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let app = server.app.clone();
    tokio::spawn(async move { app.serve_metrics(listener).await.unwrap() });
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let with = |token: &str| format!("Host: metrics.example\r\nAuthorization: Bearer {token}\r\n");
    let refused = get(address, "Host: metrics.example\r\n").await;
    assert_eq!(refused.status, 401);
    assert!(refused.header("www-authenticate").is_some());
    assert_eq!(get(address, &with("wrong")).await.status, 401);
    assert_eq!(get(address, &with(&token_of("ann"))).await.status, 403);
    assert_eq!(get(address, &with(&token_of("scraper"))).await.status, 200);
    server.stop().await;
    let error = "[metrics]\nlisten = '0.0.0.0:9464'\n";
    let error = marquetry::Config::from_toml(error, "m.toml").unwrap().check().unwrap_err();
    assert!(
        error.to_string().starts_with("m.toml:2:10: metrics.listen: 0.0.0.0:9464 can be reached"),
        "{error}"
    );
}

#[tokio::test]
async fn a_scraper_that_never_reads_holds_nobody_up() {
    let server = Running::start(CONFIG).await;
    let address = serve_metrics(&server).await;
    let mut silent = Vec::new();
    for _ in 0..50 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100);
        stream.write_all(request.as_bytes()).await.unwrap();
        silent.push(stream);
    }
    assert!(text(address).await.contains("marquetry_build_info"));
    within(server.app.shutdown()).await;
    drop(silent);
}

#[tokio::test]
async fn promtool_has_nothing_to_say() {
    if !is_installed("promtool") {
        return;
    }
    let server = Running::start(&format!("{CONFIG}{}", child_toml("local"))).await;
    let address = serve_metrics(&server).await;
    let agent = server.agent().await;
    call(&agent, "local__echo", json!({"text": "a"})).await.unwrap();
    let text = text(address).await;
    let checked = tokio::task::spawn_blocking(move || {
        let mut promtool = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        promtool.wait_with_output().unwrap()
    });
    let output = checked.await.unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success() && said.is_empty(), "{said}");
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/prometheus/alerts.yml");
    let output = Command::new("promtool").args(["check", "rules", rules]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    server.stop().await;
}

#[tokio::test]
async fn prometheus_scrapes_both_formats() {
    if !is_installed("prometheus") {
        return;
    }
    let server = Running::start(&format!("{CONFIG}{}", child_toml("local"))).await;
    let address = serve_metrics(&server).await;
    let agent = server.agent().await;
    call(&agent, "local__echo", json!({"text": "a"})).await.unwrap();
    let open_metrics =
        get(address, "Host: localhost\r\nAccept: application/openmetrics-text\r\n").await;
    assert_eq!(
        open_metrics.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert!(open_metrics.body.ends_with("# EOF\n"));

    // Prometheus prefers OpenMetrics. `promtool` reads the other format.
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "global: {{ scrape_interval: 200ms, scrape_timeout: 200ms }}\nscrape_configs:\n- job_name: marquetry\n  static_configs: [{{ targets: ['{address}'] }}]\n"
    );
    fs::write(folder.path().join("prometheus.yml"), config).unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut prometheus = Command::new("prometheus")
        .arg(format!("--config.file={}", folder.path().join("prometheus.yml").display()))
        .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
        .arg(format!("--web.listen-address={free}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let query = async |query: &str| -> Option<Value> {
        let mut stream = TcpStream::connect(free).await.ok()?;
        let request =
            format!("GET /api/v1/query?query={query} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.ok()?;
        let answer: Value = serde_json::from_str(&Answer::parse(&bytes).body).ok()?;
        answer["data"]["result"].as_array()?.first().map(|it| it["value"][1].clone())
    };
    let count = "mcp_server_operation_duration_seconds_count%7Bgen_ai_tool_name=%22echo%22%7D";
    let mut scraped = None;
    for _ in 0..200 {
        scraped = query(count).await;
        if scraped.is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let up = query("up").await;
    let version = query("marquetry_build_info").await;
    prometheus.kill().unwrap();
    prometheus.wait().unwrap();
    assert_eq!((scraped, up, version), (Some(json!("1")), Some(json!("1")), Some(json!("1"))));
    server.stop().await;
}

/// The endings of the samples of a histogram.
const ENDINGS: [&str; 3] = ["_bucket", "_sum", "_count"];

#[test]
fn dashboards_and_alerts_name_metrics_that_exist() {
    let packaging = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging");
    let names = ServerMetrics::new("1").names();
    let alerts = fs::read_to_string(format!("{packaging}/prometheus/alerts.yml")).unwrap();
    let dashboard = fs::read_to_string(format!("{packaging}/grafana/marquetry.json")).unwrap();
    serde_json::from_str::<Value>(&dashboard).unwrap();
    for (file, text) in [("alerts", &alerts), ("dashboard", &dashboard)] {
        let words = text.split(|char: char| !(char.is_ascii_alphanumeric() || char == '_'));
        let words: Vec<&str> = words
            .filter(|word| {
                ["marquetry_", "mcp_server_", "mcp_client_", "process_"]
                    .iter()
                    .any(|it| word.starts_with(it))
            })
            .collect();
        assert!(words.len() > 10, "{file}: {words:?}");
        for word in words {
            let name = ENDINGS.iter().find_map(|ending| word.strip_suffix(ending)).unwrap_or(word);
            assert!(names.contains(&name) || names.contains(&word), "{file}: {word}");
        }
    }
    // Each metric that means trouble has an alert.
    for name in [
        "marquetry_upstream_up",
        "marquetry_restarts_total",
        "marquetry_audit_up",
        "marquetry_audit_dropped_total",
        "marquetry_config_reloads_total",
        "marquetry_tls_not_after_timestamp_seconds",
        "marquetry_pins_changed",
        "marquetry_denied_total",
        "marquetry_limited_total",
        "marquetry_overhead_seconds",
    ] {
        assert!(alerts.contains(name), "{name}");
    }
}

#[test]
fn every_metric_name_is_in_the_book() {
    let book = include_str!("../../../../docs/guide/observe.md");
    for name in ServerMetrics::new("1").names() {
        let is_named = book.contains(name) || name.starts_with("process_");
        assert!(is_named, "{name}");
    }
}
