//! Metadata of servers and tools: all but their names.

use marquetry_protocol::{
    Feature, Revision,
    client::{CallOptions, ClientOptions},
    server::{Server, Toolbox},
    types::{Icon, ToolAnnotations},
};
use serde_json::{Value, json};

use crate::support::{Transport, client_of};

#[tokio::test]
async fn titles_and_icons_are_sent_if_they_exist() {
    let icon = Icon::new("https://example.com/i.svg").mime_type("image/svg+xml").size("any");
    let tools = Toolbox::new("drawn", "1")
        .tool("t", "Does nothing.", async |(): (), _| Ok::<_, String>("done"))
        .tool_description("t", |tool| {
            tool.name = "other".to_owned();
            tool.input_schema = Value::Null;
            tool.title = Some("Nothing".to_owned());
            tool.annotations =
                Some(ToolAnnotations { read_only: Some(true), ..ToolAnnotations::default() });
            tool.icons = vec![icon.clone()];
        })
        .description(|server| {
            server.info.title = Some("Drawn".to_owned());
            server.info.description = Some("For the test.".to_owned());
            server.info.website_url = Some("https://example.com".to_owned());
            server.info.icons = vec![icon.clone()];
        });
    let server = Server::new(tools);
    for revision in Revision::ALL {
        let options = ClientOptions::default();
        let (_guard, client) = client_of(&server, Transport::Pipe, revision, options).await;
        let list = client.request("tools/list", None, CallOptions::default()).await.unwrap();
        let list: Value = serde_json::from_str(list.get()).unwrap();
        let tool = &list["tools"][0];
        assert_eq!((&tool["name"], &tool["inputSchema"]["type"]), (&json!("t"), &json!("object")));
        let has = |feature, value: &Value| {
            assert_eq!(
                revision.has(feature),
                !value.is_null(),
                "{feature:?} in {revision}: {list}"
            );
        };
        has(Feature::Titles, &tool["title"]);
        has(Feature::ToolAnnotations, &tool["annotations"]);
        has(Feature::Icons, &tool["icons"]);
        let info = &client.server().info;
        assert_eq!(info.title.is_some(), revision.has(Feature::Titles), "{revision}");
        assert_eq!(info.icons.len(), usize::from(revision.has(Feature::Icons)), "{revision}");
        assert_eq!(info.website_url.is_some(), revision.has(Feature::Icons), "{revision}");
        assert_eq!(info.description.is_some(), revision.has(Feature::Icons), "{revision}");
    }
}
