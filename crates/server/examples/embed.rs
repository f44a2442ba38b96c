//! Embeds the server in an axum program: a tool of its own, and the routes of Marquetry under a
//! path.
//!
//! ```text
//! cargo run -p marquetry --example embed
//! npx @modelcontextprotocol/inspector --cli http://127.0.0.1:PORT/tools/mcp --method tools/list
//! ```

use std::error::Error;

use marquetry::{App, Config};
use tokio::net::TcpListener;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greet {
    /// Whom to greet.
    name: String,
}

// Visible in its crate for the test that runs it.
#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let app = App::builder(Config::default())
        .tool("greet", "Greets somebody.", async |greet: Greet, _| {
            format!("Hello, {}!", greet.name)
        })
        .start()
        .await?;
    let site = axum::Router::new().nest("/tools", app.router());

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/tools/mcp", listener.local_addr()?);
    let serving = axum::serve(listener, site).with_graceful_shutdown(app.stopping());
    let serving = tokio::spawn(serving.into_future());

    // The program ends with its input, so that another program can run it.
    tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await?;
    app.shutdown().await;
    serving.await??;
    Ok(())
}
