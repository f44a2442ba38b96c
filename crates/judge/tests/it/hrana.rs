//! A libSQL server: Hrana 2 over HTTP on a database in a file. It replaces sqld, which no package
//! registry has.

use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, StatusCode},
    routing::post,
};
use libsql::{Connection, Database, Value, params_from_iter};
use serde_json::{Value as JsonValue, json};

/// A server that runs until it is dropped.
pub(crate) struct Server {
    pub(crate) url: String,
    /// The number of requests.
    pub(crate) requests: Arc<AtomicUsize>,
    serving: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

struct Shared {
    database: Database,
    token: &'static str,
    streams: Mutex<HashMap<String, Connection>>,
    next: AtomicU64,
    requests: Arc<AtomicUsize>,
}

impl Server {
    pub(crate) async fn start(path: &Path, token: &'static str) -> Self {
        let requests = Arc::new(AtomicUsize::new(0));
        let shared = Shared {
            database: libsql::Builder::new_local(path).build().await.unwrap(),
            token,
            streams: Mutex::default(),
            next: AtomicU64::new(0),
            requests: requests.clone(),
        };
        let routes = Router::new()
            .route("/v2/pipeline", post(pipeline))
            .layer(DefaultBodyLimit::disable())
            .with_state(Arc::new(shared));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { url, requests, serving }
    }
}

async fn pipeline(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Json(body): Json<JsonValue>,
) -> Result<Json<JsonValue>, (StatusCode, Json<JsonValue>)> {
    shared.requests.fetch_add(1, Ordering::Relaxed);
    let refused = |status, message: &str| (status, Json(json!({ "error": message })));
    let bearer = headers.get("authorization").and_then(|it| it.to_str().ok());
    if bearer != Some(&format!("Bearer {}", shared.token)) {
        return Err(refused(StatusCode::UNAUTHORIZED, "the token is wrong"));
    }
    let stream = if let Some(baton) = body["baton"].as_str() {
        shared.streams.lock().unwrap().remove(baton)
    } else {
        let connection = shared.database.connect().unwrap();
        connection.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
        Some(connection)
    };
    let stream = stream.ok_or_else(|| refused(StatusCode::BAD_REQUEST, "no such stream"))?;
    // SQLite waits for locks; other requests go on meanwhile, such as those of the transaction that
    // has the lock.
    let runtime = tokio::runtime::Handle::current();
    let requests = body["requests"].clone();
    let worked = tokio::task::spawn_blocking(move || {
        let (results, is_open) = runtime.block_on(answers(&stream, &requests));
        (stream, results, is_open)
    });
    let (stream, results, is_open) = worked.await.unwrap();
    let baton = is_open.then(|| {
        let baton = format!("b{}", shared.next.fetch_add(1, Ordering::Relaxed));
        shared.streams.lock().unwrap().insert(baton.clone(), stream);
        baton
    });
    Ok(Json(json!({ "baton": baton, "base_url": null, "results": results })))
}

/// Returns the result of each request, and whether the stream stays open.
async fn answers(stream: &Connection, requests: &JsonValue) -> (Vec<JsonValue>, bool) {
    let mut results = Vec::new();
    let mut is_open = true;
    for request in requests.as_array().unwrap() {
        let response = match request["type"].as_str().unwrap() {
            "execute" => execute(stream, &request["stmt"])
                .await
                .map(|result| json!({ "type": "execute", "result": result })),
            "batch" => {
                Ok(json!({ "type": "batch", "result": batch(stream, &request["batch"]).await }))
            }
            "sequence" => stream
                .execute_batch(request["sql"].as_str().unwrap())
                .await
                .map(|_| json!({ "type": "sequence" }))
                .map_err(problem),
            "close" => {
                is_open = false;
                Ok(json!({ "type": "close" }))
            }
            other => panic!("{other}"),
        };
        results.push(match response {
            Ok(response) => json!({ "type": "ok", "response": response }),
            Err(error) => json!({ "type": "error", "error": error }),
        });
    }
    (results, is_open)
}

async fn batch(stream: &Connection, batch: &JsonValue) -> JsonValue {
    let (mut outcomes, mut errors): (Vec<JsonValue>, Vec<JsonValue>) = Default::default();
    for step in batch["steps"].as_array().unwrap() {
        let after = step["condition"]["step"].as_u64().map(|it| usize::try_from(it).unwrap());
        let outcome = if after.is_none_or(|after| !outcomes[after].is_null()) {
            execute(stream, &step["stmt"]).await
        } else {
            Err(JsonValue::Null)
        };
        let (result, error) = match outcome {
            Ok(result) => (result, JsonValue::Null),
            Err(error) => (JsonValue::Null, error),
        };
        outcomes.push(result);
        errors.push(error);
    }
    json!({ "step_results": outcomes, "step_errors": errors })
}

async fn execute(stream: &Connection, statement: &JsonValue) -> Result<JsonValue, JsonValue> {
    let args = statement["args"].as_array().unwrap().iter().map(|arg| match &arg["type"] {
        it if it == "null" => Value::Null,
        it if it == "integer" => Value::Integer(arg["value"].as_str().unwrap().parse().unwrap()),
        it if it == "float" => Value::Real(arg["value"].as_f64().unwrap()),
        it if it == "text" => Value::Text(arg["value"].as_str().unwrap().to_owned()),
        other => panic!("{other}"),
    });
    let sql = statement["sql"].as_str().unwrap();
    let args: Vec<Value> = args.collect();
    let mut rows = stream.query(sql, params_from_iter(args)).await.map_err(problem)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().await.map_err(problem)? {
        let value = |column| match row.get_value(column).unwrap() {
            Value::Null => json!({ "type": "null" }),
            Value::Integer(number) => json!({ "type": "integer", "value": number.to_string() }),
            Value::Real(number) => json!({ "type": "float", "value": number }),
            Value::Text(text) => json!({ "type": "text", "value": text }),
            Value::Blob(_) => json!({ "type": "blob", "base64": "" }),
        };
        found.push((0..row.column_count()).map(value).collect::<Vec<_>>());
    }
    Ok(json!({ "cols": [], "rows": found, "affected_row_count": 0, "last_insert_rowid": null }))
}

fn problem(error: libsql::Error) -> JsonValue {
    let code = match &error {
        libsql::Error::SqliteFailure(5, _) => "SQLITE_BUSY",
        libsql::Error::SqliteFailure(19, _) => "SQLITE_CONSTRAINT",
        _ => "SQLITE_ERROR",
    };
    json!({ "message": error.to_string(), "code": code })
}
