//! Skills (SEP-2640): listed without being read, and returned only if they match their entry in the
//! list.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use marquetry_protocol::{
    RpcError,
    client::{Client, ClientOptions, SKILLS_EXTENSION, SkillError},
    server::{Handler, Reply, RequestContext, Server, ServerDescription, page, serve_pipe},
    types::{
        Implementation, ReadResourceParams, ReadResourceResult, ResourceContents,
        ResourcesCapability, ServerCapabilities,
    },
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const TEA: &str = "---\nname: tea\ndescription: Makes tea.\n---\nSee kinds.md.\n";
const KINDS: &str = "Green and black.\n";

#[tokio::test]
async fn a_skill_is_listed_loaded_and_read_when_needed() {
    let (read, client) = offering(TEA, KINDS, true).await;
    let entries = client.list_skills().await.unwrap();
    let names: Vec<_> = entries.iter().map(|entry| entry.name().unwrap()).collect();
    // From two pages; two skills may have one name.
    assert_eq!(names, ["tea", "tea"]);
    assert_eq!(entries[0].description(), Some("Makes tea."));
    assert_eq!(client.skill("skill://tea/SKILL.md").await.unwrap(), entries[0]);
    assert!(read.lock().unwrap().is_empty());

    let skill = client.load_skill(entries[0].clone()).await.unwrap();
    assert_eq!(skill.text(), TEA);
    assert_eq!(*read.lock().unwrap(), ["skill://tea/SKILL.md"]);
    for file in ["kinds.md", "./kinds.md", "skill://tea/kinds.md"] {
        assert_eq!(skill.read(file).await.unwrap(), KINDS.as_bytes(), "{file}");
    }
    let before = read.lock().unwrap().len();
    for file in ["../coffee/SKILL.md", "other.md", "skill://coffee/kinds.md"] {
        let refused = skill.read(file).await.unwrap_err();
        assert!(matches!(refused, SkillError::NotListed { .. }), "{file}: {refused}");
    }
    assert_eq!(read.lock().unwrap().len(), before);
}

#[tokio::test]
async fn a_skill_that_differs_from_its_listing_is_not_loaded() {
    let longer = format!("{TEA}And more.\n");
    let other = TEA.replace("See", "Buy");
    for (served, want) in [
        (longer.as_str(), "skill://tea/SKILL.md has 66 bytes, but should have 56"),
        (&other, "skill://tea/SKILL.md has another digest than the skill's list entry"),
    ] {
        let (_, client) = offering(served, KINDS, true).await;
        let entry = client.list_skills().await.unwrap().remove(0);
        let Err(error) = client.load_skill(entry).await else { panic!("{served} was loaded") };
        assert_eq!(error.to_string(), want);
    }

    let (_, client) = offering(TEA, "Poison.\n", true).await;
    let skill = client.load_skill(client.list_skills().await.unwrap().remove(0)).await.unwrap();
    assert!(matches!(skill.read("kinds.md").await.unwrap_err(), SkillError::Size { .. }));

    // The second entry has the right digest of a file whose content contradicts the entry.
    let entry = client.list_skills().await.unwrap().remove(1);
    let Err(SkillError::Frontmatter { what, .. }) = client.load_skill(entry).await else {
        panic!("the skill was loaded")
    };
    assert_eq!(what, "field 'description' differs");
}

#[tokio::test]
async fn skills_that_cannot_be_verified_are_not_loaded() {
    let (_, client) = offering(TEA, KINDS, true).await;
    let mut entry = client.list_skills().await.unwrap().remove(0);
    let file = entry.resources.as_ref().unwrap()[0].clone();
    entry.resources = Some(vec![file; 513]);
    assert!(matches!(
        client.load_skill(entry.clone()).await,
        Err(SkillError::TooLarge { files: 513, .. })
    ));
    entry.resources = None;
    assert!(matches!(client.load_skill(entry).await, Err(SkillError::NoDigests)));

    let (_, client) = offering(TEA, KINDS, false).await;
    assert!(matches!(client.list_skills().await, Err(SkillError::NotOffered)));
}

/// Returns the URIs that were read from a server, and a client of it. The entries are always those
/// of `TEA` and `KINDS`; the second skill is served as listed, but its entry has another
/// description.
async fn offering(tea: &str, kinds: &str, declared: bool) -> (Arc<Mutex<Vec<String>>>, Client) {
    let read = Arc::new(Mutex::new(Vec::new()));
    let shelf = Shelf {
        files: vec![
            ("skill://tea/SKILL.md".to_owned(), tea.to_owned()),
            ("skill://tea/kinds.md".to_owned(), kinds.to_owned()),
            ("skill://old/tea/SKILL.md".to_owned(), TEA.to_owned()),
        ],
        read: read.clone(),
        declared,
    };
    let server = Server::new(shelf)
        .with_method("skills/list", async |params, _| {
            let params: Value = params
                .map(|params| serde_json::from_str(params.get()).unwrap())
                .unwrap_or_default();
            let entries = [entry("skill://tea", "Makes tea."), entry("skill://old/tea", "Old.")];
            let (range, next) = page(entries.len(), params["cursor"].as_str(), 1)?;
            let mut list = json!({ "skills": entries[range] });
            if let Some(next) = next {
                list["nextCursor"] = next.into();
            }
            Reply::json(&list)
        })
        .and_then(|server| {
            server.with_method("skills/get", async |_, _| {
                Reply::json(&json!({ "skill": entry("skill://tea", "Makes tea.") }))
            })
        })
        .unwrap();
    let (reader, output) = tokio::io::simplex(4096);
    let (input, writer) = tokio::io::simplex(4096);
    tokio::spawn(async move { serve_pipe(&server, input, output, Default::default()).await });
    (read, Client::connect(reader, writer, ClientOptions::default()).await.unwrap())
}

fn entry(root: &str, description: &str) -> Value {
    let file = |name: &str, text: &str| {
        let digest = Sha256::digest(text.as_bytes());
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let digest = format!("sha256:{digest}");
        json!({ "uri": format!("{root}/{name}"), "digest": digest, "size": text.len() })
    };
    json!({
        "uri": format!("{root}/SKILL.md"),
        "frontmatter": { "name": "tea", "description": description },
        "resources": [file("SKILL.md", TEA), file("kinds.md", KINDS)],
    })
}

struct Shelf {
    files: Vec<(String, String)>,
    read: Arc<Mutex<Vec<String>>>,
    declared: bool,
}

#[async_trait]
impl Handler for Shelf {
    fn describe(&self) -> ServerDescription {
        let mut capabilities = ServerCapabilities::default();
        capabilities.resources = Some(ResourcesCapability::default());
        if self.declared {
            capabilities.extensions.insert(SKILLS_EXTENSION.to_owned(), json!({}));
        }
        let info = Implementation::new("shelf", "1");
        ServerDescription { info, capabilities, instructions: None }
    }

    async fn read_resource(
        &self,
        params: ReadResourceParams,
        _: &RequestContext,
    ) -> Result<Reply, RpcError> {
        self.read.lock().unwrap().push(params.uri.clone());
        let found = self.files.iter().find(|(uri, _)| *uri == params.uri);
        let (uri, text) = found.ok_or_else(|| RpcError::resource_not_found(&params.uri))?.clone();
        let contents = ResourceContents { uri, text: Some(text), ..Default::default() };
        Reply::json(&ReadResourceResult { contents: vec![contents], meta: None })
    }
}
