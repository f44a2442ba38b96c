//! Protects a server on a loopback port by tokens, and calls it without a token and with one.
//!
//! `cargo run -p marquetry-oauth --example protected_server`. With an `issuer` in the options, the
//! server accepts the tokens of an authorization server, too.

use std::{collections::BTreeMap, error::Error, sync::Arc};

use marquetry_oauth::server::{ResourceServer, ResourceServerOptions, StaticToken};
use marquetry_protocol::{
    client::{Client, ClientError, ClientOptions, HttpTarget},
    server::{
        RequestContext, Server, Toolbox,
        http::{HttpEndpoint, HttpOptions, serve},
    },
};
use tokio::net::TcpListener;

const TOKEN: &str = "an example, which a real server must not use";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut options = ResourceServerOptions::default();
    options.static_tokens = vec![StaticToken::new("ci", TOKEN, ["tools"])];
    options.required_scopes = vec!["tools".to_owned()];
    let authenticator = Some(Arc::new(ResourceServer::new(options)?) as _);

    let tools = Toolbox::new("names", "1.0.0").tool(
        "whoami",
        "Returns the name of the caller's token.",
        async |(): (), cx: RequestContext| {
            cx.principal().map(|caller| caller.subject.clone()).ok_or("no token")
        },
    );
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    let http = HttpOptions { authenticator, ..HttpOptions::default() };
    let endpoint = HttpEndpoint::new(Server::new(tools), http);
    tokio::spawn(serve(listener, endpoint).into_future());

    match connect(&url, None).await {
        Ok(_) => return Err("the server accepts clients without a token".into()),
        Err(error) => println!("without a token: {error}"),
    }
    let client = connect(&url, Some(TOKEN)).await?;
    let name: String = client.call_tool_as("whoami", &serde_json::json!({})).await?;
    println!("with a token: {name}");
    client.close().await;
    Ok(())
}

async fn connect(url: &str, token: Option<&str>) -> Result<Client, ClientError> {
    let header = token.map(|token| ("Authorization".to_owned(), format!("Bearer {token}")));
    let headers: BTreeMap<_, _> = header.into_iter().collect();
    let target = HttpTarget { url: url.to_owned(), headers };
    Client::http(target, ClientOptions::default()).await
}
