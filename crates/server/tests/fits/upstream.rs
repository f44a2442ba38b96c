//! An upstream over HTTP whose tools answer with much JSON.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use marquetry_protocol::{
    RpcError,
    server::{
        Handler, Reply, RequestContext, Server, ServerDescription,
        http::{HttpEndpoint, HttpOptions, ServeOptions, serve},
    },
    types::{CallToolParams, Implementation, ListToolsResult, ServerCapabilities, Tool},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Rows of the tools `rows` and `structured`: few, because builds for tests are slow, and a program
/// has two seconds.
const ROWS: u64 = 2_000;

#[derive(Clone, Default)]
pub(crate) struct DataUpstream {
    /// Arguments of the calls, in order.
    pub(crate) called: Arc<Mutex<Vec<Value>>>,
}

impl DataUpstream {
    /// Serves until the process ends, and returns a TOML table for it.
    pub(crate) async fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let endpoint = HttpEndpoint::new(Server::new(self.clone()), HttpOptions::default());
        let options = ServeOptions { shutdown_grace: Duration::ZERO, ..ServeOptions::default() };
        let serving = serve(listener, endpoint).with_options(options);
        tokio::spawn(serving.until(CancellationToken::new()).into_future());
        format!("[mcp_servers.data]\nurl = '{url}'\n")
    }

    pub(crate) fn last_arguments(&self) -> Value {
        self.called.lock().unwrap().last().unwrap().clone()
    }
}

pub(crate) fn rows() -> Value {
    let rows = (0..ROWS).map(|id| json!({"id": id, "name": format!("user {id}"), "price": id * 3, "note": "some words about it"}));
    Value::Array(rows.collect())
}

/// Text that is no JSON.
pub(crate) fn log() -> String {
    (0..2_000).map(|line| format!("2026-11-28 INFO request {line} served\n")).collect()
}

#[async_trait]
impl Handler for DataUpstream {
    fn describe(&self) -> ServerDescription {
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(Default::default());
        let info = Implementation::new("data", "1");
        ServerDescription { info, capabilities, instructions: None }
    }

    async fn list_tools(
        &self,
        _: Option<&str>,
        _: &RequestContext,
    ) -> Result<ListToolsResult, RpcError> {
        let strict = json!({
            "type": "object",
            "properties": {"q": {"type": "string"}},
            "additionalProperties": false,
        });
        let own = json!({"type": "object", "properties": {"_select": {"type": "string"}}});
        let tools = [
            ("rows", strict.clone()),
            ("structured", strict.clone()),
            ("log", strict.clone()),
            ("fails", strict.clone()),
            ("shown", strict),
            ("own", own),
        ];
        let tools = tools.into_iter().map(|(name, input_schema)| {
            let output_schema =
                (name == "structured").then(|| json!({"type": "object", "required": ["rows"]}));
            let meta = json!({"ui": {"resourceUri": "ui://data/shown.html"}});
            Tool {
                name: name.to_owned(),
                description: Some("Returns data.".to_owned()),
                input_schema,
                output_schema,
                meta: meta.as_object().filter(|_| name == "shown").cloned(),
                ..Tool::default()
            }
        });
        Ok(ListToolsResult { tools: tools.collect(), next_cursor: None })
    }

    async fn call_tool(
        &self,
        params: CallToolParams,
        _: &RequestContext,
    ) -> Result<Reply, RpcError> {
        let arguments = params.arguments.as_deref().map_or("null", |raw| raw.get());
        self.called.lock().unwrap().push(serde_json::from_str(arguments).unwrap());
        let text = |text: &str| json!([{"type": "text", "text": text}]);
        Reply::json(&match params.name.as_str() {
            "rows" => json!({"content": text(&rows().to_string())}),
            "structured" => {
                json!({"content": text("many rows"), "structuredContent": {"rows": rows()}})
            }
            "shown" => json!({"content": text("a chart"), "structuredContent": {"points": [1, 2]}}),
            "fails" => json!({"content": text("{\"a\": 1}"), "isError": true}),
            "own" => json!({"content": text(arguments)}),
            _ => json!({"content": text(&log())}),
        })
    }
}
