//! Log lines about the connection to an upstream name the upstream.
#![cfg(unix)]

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use marquetry_gateway::{Gateway, GatewayOptions, Transport, UpstreamOptions};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Returns the first line that contains this text.
    fn line(&self, text: &str) -> Option<String> {
        let bytes = self.0.lock().unwrap();
        let log = String::from_utf8_lossy(&bytes);
        log.lines().find(|line| line.contains(text)).map(str::to_owned)
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn an_invalid_line_is_logged_with_its_upstream() {
    let line = line_of("echo nonsense; exec sleep 5", "that is not a message of MCP").await;
    assert!(line.contains(r#"connection{upstream="noisy"}"#), "{line}");
    assert!(line.contains(r#"line="nonsense""#), "{line}");
}

#[tokio::test]
async fn an_invalid_tool_is_logged_with_its_upstream() {
    let server = server_with_tools(r#"{"name":"odd","inputSchema":"x"}"#);
    let line = line_of(&server, "skipped an invalid item of a list").await;
    assert!(line.contains(r#"connection{upstream="noisy"}"#), "{line}");
    assert!(line.contains(r#"name="odd""#), "{line}");
    assert!(line.contains("inputSchema must be an object"), "{line}");
}

#[tokio::test]
async fn a_skipped_tool_is_logged_after_many_repaired_ones() {
    let mut tools =
        [r#"{"name":"repaired","inputSchema":{},"annotations":{"openWorldHint":1}}"#; 12].join(",");
    tools.push_str(r#",{"name":"odd","inputSchema":"x"}"#);
    let line = line_of(&server_with_tools(&tools), "skipped an invalid item of a list").await;
    assert!(line.contains(r#"name="odd""#) && line.contains("count=1"), "{line}");
}

#[tokio::test]
async fn a_flood_of_questions_is_a_few_lines() {
    let server = r#"while read -r line; do case "$line" in
        *server/discover*) echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}';;
        *'"initialize"'*) echo '{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}'; break;;
    esac; done
    i=0; while [ $i -lt 3000 ]; do i=$((i+1)); printf '{"jsonrpc":"2.0","id":"q%s","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}\n' $i; done
    echo nonsense; exec sleep 5"#;
    let (log, _) = log_until(server, "that is not a message of MCP").await;
    let lines = log.lines().filter(|line| line.contains("floods us with questions")).count();
    assert!((1..=22).contains(&lines), "{lines} lines");
}

/// Returns a server in shell with these tools.
fn server_with_tools(tools: &str) -> String {
    let script = r#"while read -r line; do case "$line" in
        *server/discover*) echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}';;
        *'"initialize"'*) echo '{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}';;
        *tools/list*) echo '{"jsonrpc":"2.0","id":3,"result":{"tools":[TOOLS]}}';;
    esac; done"#;
    script.replace("TOOLS", tools)
}

/// Starts an upstream `noisy` in shell, and returns the first line of the log that contains `text`.
async fn line_of(script: &str, text: &str) -> String {
    log_until(script, text).await.1
}

/// Starts an upstream `noisy` in shell, and returns the log when it has a line that contains
/// `text`, and that line.
async fn log_until(script: &str, text: &str) -> (String, String) {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
    let _guard = tracing::subscriber::set_default(subscriber.finish());

    let noisy = Transport::stdio("sh", ["-c", script]);
    let mut options = GatewayOptions::default().with_upstream(UpstreamOptions::new("noisy", noisy));
    options.stop_grace = Duration::from_millis(100);
    let gateway = Gateway::start(options, Arc::new(()));
    let line = tokio::time::timeout(Duration::from_secs(5), async {
        loop {
            match log.line(text) {
                Some(line) => return line,
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    });
    let line = line.await.expect("the line is logged");
    let all = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    gateway.stop().await;
    (all, line)
}
