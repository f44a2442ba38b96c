//! `am7_embed`, and the models that a request may name.

use axum::{Json, Router, routing::post};
use marquetry_protocol::{Revision, client::ClientOptions};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::AbortHandle};

use crate::support::{Running, call, within};

/// An Ollama whose vectors tell the first character and the length of a text.
struct Ollama {
    url: String,
    server: AbortHandle,
}

impl Ollama {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let embed = async |Json(body): Json<Value>| {
            let texts = body["input"].as_array().unwrap().iter().map(|text| text.as_str().unwrap());
            let vector = |text: &str| json!([text.as_bytes()[0], text.len(), 1]);
            let vectors: Vec<Value> = texts.map(vector).collect();
            Json(json!({"model": body["model"], "embeddings": vectors}))
        };
        let app = Router::new().route("/api/embed", post(embed));
        let serving = async move { axum::serve(listener, app).await };
        Self { url, server: tokio::spawn(serving).abort_handle() }
    }
}

impl Drop for Ollama {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn server(folder: &std::path::Path, ollama: &Ollama, settings: &str) -> Running {
    let database = folder.join("knowledge.db");
    let toml = format!(
        "{settings}\n[knowledge]\ndatabase = '{}'\n[knowledge.embeddings.other]\nprovider = 'ollama'\nmodel = 'm'\nbase_url = '{}'\ndimension = 3\nquery_prefix = 'q '\npassage_prefix = 'p '\n[knowledge.embeddings.same]\n",
        database.display(),
        ollama.url
    );
    Running::start(&toml).await
}

/// Calls a tool, and returns its data or its error.
async fn done(server: &Running, tool: &str, arguments: Value) -> Result<Value, String> {
    let agent = Box::pin(server.agent_with(Revision::V2025_11_25, ClientOptions::default())).await;
    let result = within(Box::pin(call(&agent, tool, arguments))).await;
    agent.close().await;
    let result = result.map_err(|error| error.to_string())?;
    if result["isError"] == true {
        return Err(result["content"][0]["text"].as_str().unwrap().to_owned());
    }
    Ok(result["structuredContent"].clone())
}

#[tokio::test]
async fn vectors_come_from_the_named_model() {
    let folder = tempfile::tempdir().unwrap();
    let ollama = Ollama::start().await;
    let server = server(folder.path(), &ollama, "tools.embedding = true").await;
    let texts = json!(["bread", "a longer text"]);
    let own = done(&server, "am7_embed", json!({ "texts": texts })).await.unwrap();
    assert_eq!((&own["model"], &own["dimension"]), (&json!("minilm-static-256-i8"), &json!(256)));
    let vectors = own["vectors"].as_array().unwrap();
    assert_eq!(vectors.len(), 2);
    assert!(vectors.iter().all(|vector| vector.as_array().unwrap().len() == 256));
    assert_ne!(vectors[0], vectors[1]);
    let same = done(&server, "am7_embed", json!({"texts": texts, "model": "same"})).await.unwrap();
    assert_eq!(same, own);

    // The prefix of a question is another one than that of a passage.
    let embed = async |kind: &str| {
        let arguments = json!({"texts": texts, "model": "other", "kind": kind});
        done(&server, "am7_embed", arguments).await.unwrap()
    };
    let passages = embed("passage").await;
    let questions = embed("query").await;
    assert_eq!(passages["dimension"], 3);
    assert_ne!(passages["vectors"], questions["vectors"]);
    let default = json!({"texts": texts, "model": "other"});
    assert_eq!(done(&server, "am7_embed", default).await.unwrap(), passages);
    // No database was needed.
    assert!(!folder.path().join("knowledge.db").exists());

    for (arguments, want) in [
        (json!({"texts": []}), "texts is empty"),
        (json!({"texts": ["a", ""]}), "texts[1] is empty"),
        (json!({"texts": vec!["a"; 300]}), "300 texts of 300 bytes; a call may have 256 texts"),
        (json!({"texts": vec!["a"; 256]}), "more than limits.max_own_answer_bytes"),
        (
            json!({"texts": ["a"], "model": "none"}),
            "unknown model \"none\"; of the models in [knowledge.embeddings] there are other, same",
        ),
        (json!({"texts": ["a"], "kind": "title"}), "title"),
    ] {
        let error = done(&server, "am7_embed", arguments).await.unwrap_err();
        assert!(error.contains(want), "{error}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_database_belongs_to_the_model_that_filled_it() {
    let folder = tempfile::tempdir().unwrap();
    let ollama = Ollama::start().await;
    let server = server(folder.path(), &ollama, "").await;
    let text = json!({"content": "The mill grinds wheat.", "model": "same"});
    done(&server, "am7_vectorize", text).await.unwrap();
    for model in ["same", "minilm-static-256-i8"] {
        let search = json!({"query": "wheat", "model": model});
        let found = done(&server, "am7_vector_search", search).await.unwrap();
        assert_eq!(found["results"][0]["text"], "The mill grinds wheat.", "{model}");
    }
    let asked = [
        ("am7_vector_search", json!({"query": "wheat", "model": "other"})),
        ("am7_vectorize", json!({"content": "Rye.", "model": "other"})),
    ];
    for (tool, arguments) in asked {
        let error = done(&server, tool, arguments).await.unwrap_err();
        let want = "model \"other\" has not filled this database: a database belongs to the model that filled it, here \"minilm-static-256-i8\"";
        assert!(error.starts_with(want), "{error}");
    }
    let unknown = json!({"query": "wheat", "model": "none"});
    let error = done(&server, "am7_vector_search", unknown).await.unwrap_err();
    assert!(error.starts_with("unknown model \"none\""), "{error}");
    // The tool is off by default.
    let error = done(&server, "am7_embed", json!({"texts": ["a"]})).await.unwrap_err();
    assert!(error.contains("unknown tool 'am7_embed'"), "{error}");
    server.stop().await;
}

#[test]
fn each_model_is_checked_at_the_start() {
    for (model, key) in
        [("model = 'm'", "model"), ("provider = 'ollama'", "model"), ("folder = 'm'", "folder")]
    {
        let toml = format!("[knowledge]\ndatabase = 'k.db'\n[knowledge.embeddings.a]\n{model}\n");
        let config = marquetry::Config::from_toml(&toml, "m.toml").unwrap();
        let error = config.check().unwrap_err().to_string();
        assert!(error.contains(&format!("knowledge.embeddings.a.{key}: ")), "{error}");
    }
}
