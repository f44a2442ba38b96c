//! A server with one tool that is shown in a View, on standard input and output.
//!
//! `cargo run -p marquetry-apps-ext --features server --example clock`, or as an upstream of any
//! MCP client. A host with Views shows the time in a page with a button that calls the tool again;
//! other clients get a text.

use std::time::{SystemTime, UNIX_EPOCH};

use marquetry_apps_ext::server::{Apps, View};
use marquetry_protocol::server::{Server, Toolbox, serve_stdio};

const PAGE: &str = r#"<!doctype html>
<title>Clock</title>
<h1 id="time">…</h1>
<button id="again">Again</button>
<script>
  let last = 0;
  const post = (message) => parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
  const request = (method, params) => post({ id: ++last, method, params });
  const show = (result) => (document.getElementById("time").textContent = result.content[0].text);
  addEventListener("message", ({ source, data }) => {
    if (source !== parent || data?.jsonrpc !== "2.0") return;
    if (data.id === 1 && data.result) post({ method: "ui/notifications/initialized", params: {} });
    else if (data.method === "ui/notifications/tool-result") show(data.params);
    else if (data.method === "ui/resource-teardown" || data.method === "ping") post({ id: data.id, result: {} });
    else if (data.result?.content) show(data.result);
  });
  document.getElementById("again").onclick = () => request("tools/call", { name: "clock", arguments: {} });
  request("ui/initialize", { protocolVersion: "2026-01-26", appInfo: { name: "clock", version: "1.0.0" }, appCapabilities: {} });
</script>
"#;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let toolbox = Toolbox::new("clock", "1.0.0").tool(
        "clock",
        "Tells the time, in UTC.",
        async |(): (), _| {
            let seconds =
                SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            format!("{:02}:{:02}:{:02}", seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60)
        },
    );
    let apps = Apps::new()
        .view(
            "ui://clock/page.html",
            View::html(PAGE).title("Clock").description("Shows the time."),
        )
        .show("clock", "ui://clock/page.html");
    serve_stdio(&Server::new(apps.wrap(toolbox)), Default::default()).await
}
