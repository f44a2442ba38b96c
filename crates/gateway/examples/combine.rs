//! Combines two servers on loopback ports into one, on standard input and output.
//!
//! `cargo run -p marquetry-gateway --example combine`, or as a server of any MCP client.

use std::{io, sync::Arc};

use async_trait::async_trait;
use marquetry_gateway::{Gateway, GatewayOptions, Transport, UpstreamOptions};
use marquetry_protocol::{
    RpcError,
    server::{self, Handler, Reply, RequestContext, Server, ServerDescription, Toolbox, http},
    types::{CallToolParams, ListChanged, ListToolsResult},
};

/// Offers the tools of all upstreams.
struct Combined(Arc<Gateway>);

#[async_trait]
impl Handler for Combined {
    fn describe(&self) -> ServerDescription {
        let mut description = ServerDescription::default();
        "combined".clone_into(&mut description.info.name);
        description.capabilities.tools = Some(ListChanged::default());
        description
    }
    async fn list_tools(
        &self,
        _: Option<&str>,
        _: &RequestContext,
    ) -> Result<ListToolsResult, RpcError> {
        Ok(ListToolsResult { tools: self.0.catalog().tools.clone(), next_cursor: None })
    }
    async fn call_tool(
        &self,
        call: CallToolParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        Ok(Reply::raw(self.0.call_tool(call, cx).await?.result))
    }
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let mut options = GatewayOptions::default();
    for name in ["bakery", "cellar"] {
        let toolbox =
            Toolbox::new(name, "1.0.0").tool("greet", "Greets a visitor.", move |(): (), _| {
                std::future::ready(format!("Welcome to the {name}."))
            });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/mcp", listener.local_addr()?);
        let endpoint = http::HttpEndpoint::new(Server::new(toolbox), http::HttpOptions::default());
        tokio::spawn(http::serve(listener, endpoint).into_future());
        let upstream = UpstreamOptions::new(name, Transport::http(url));
        options = options.with_upstream(upstream);
    }
    let gateway = Gateway::start(options, Arc::new(()));
    gateway.settled().await;
    server::serve_stdio(&Server::new(Combined(gateway)), Default::default()).await
}
