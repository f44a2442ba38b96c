//! Connecting, and calling what is there.

use marquetry_protocol::{
    client::{CallOptions, ClientOptions},
    types::CallToolParams,
};
use serde_json::json;

use crate::{Assignment, Failed};

pub(crate) async fn initialize(assignment: &Assignment) -> Result<(), Failed> {
    let client = assignment.connect(ClientOptions::default()).await?;
    client.list_tools().await?;
    client.close().await;
    Ok(())
}

/// The server has one tool, which adds.
pub(crate) async fn call_tools(assignment: &Assignment) -> Result<(), Failed> {
    let client = assignment.connect(ClientOptions::default()).await?;
    for tool in client.list_tools().await? {
        let call = CallToolParams::new(&tool.name, &json!({ "a": 5, "b": 3 }))?;
        client.call_tool(&call, CallOptions::default()).await?;
    }
    client.close().await;
    Ok(())
}
