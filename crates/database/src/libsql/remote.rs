//! A libSQL database on a server (sqld, Turso), by Hrana 2 over HTTP: `POST /v2/pipeline`.
//!
//! <https://github.com/tursodatabase/libsql/blob/main/docs/HRANA_2_SPEC.md>

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
    time::Duration,
};

use libsql::Value;
use marquetry_endpoint::{
    ApiKey, BaseUrlError, Endpoint, EndpointFailure, PlainHttp, RetryPolicy, base_url,
};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use super::row::Row;
use crate::{DatabaseError, blocking};

/// Longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum statements of one request. A transaction with more sends several requests.
const MAX_QUEUED: usize = 100;

/// A libSQL database on a server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RemoteLibsql {
    endpoint: Arc<Endpoint>,
}

impl RemoteLibsql {
    /// Returns the database at a URL: `libsql://host`, `https://host`, or `http://` for this
    /// machine. Nothing is sent.
    ///
    /// # Errors
    ///
    /// Returns an error if the URL is another one, or if no token may be sent to it.
    pub fn new(url: &str, token: Option<&str>) -> Result<Self, DatabaseError> {
        let http = match url.strip_prefix("libsql://") {
            Some(rest) => format!("https://{rest}"),
            None => url.to_owned(),
        };
        let base = base_url(&http, PlainHttp::LoopbackOnly).map_err(|error| {
            DatabaseError::Unusable(match error {
                BaseUrlError::Scheme => "its address is not a libsql:, https: or http: URL".to_owned(),
                BaseUrlError::Credentials | BaseUrlError::Query => {
                    "its URL has a user, a password, a query or a fragment; give the token separately".to_owned()
                }
                _ => "http: to another machine shows token and data to the network; use libsql: or https:".to_owned(),
            })
        })?;
        let url =
            base.join("v2/pipeline").map_err(|error| DatabaseError::Unusable(error.to_string()))?;
        let mut endpoint =
            Endpoint::new(url).map_err(|error| DatabaseError::Unusable(error.to_string()))?;
        endpoint.key = token.map(ApiKey::new);
        endpoint.timeout = TIMEOUT;
        // A statement whose answer was lost may have been executed.
        endpoint.retry = RetryPolicy::new(0, Duration::ZERO);
        Ok(Self { endpoint: Arc::new(endpoint) })
    }

    /// Works with the database, on Tokio's blocking threads.
    ///
    /// # Errors
    ///
    /// Returns an error if the work fails.
    pub async fn run<T: Send + 'static, E: From<DatabaseError> + Send + 'static>(
        &self,
        work: impl FnOnce(&Session) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let session = Session {
            remote: self.clone(),
            runtime: Handle::current(),
            baton: RefCell::default(),
            queued: RefCell::default(),
            in_transaction: Cell::default(),
        };
        blocking(move || work(&session)).await
    }
}

/// The requests of one piece of work.
#[derive(Debug)]
pub struct Session {
    remote: RemoteLibsql,
    runtime: Handle,
    /// Identifies the transaction at the server.
    baton: RefCell<Option<String>>,
    /// Statements of the transaction that were not sent yet.
    queued: RefCell<Vec<Statement>>,
    in_transaction: Cell<bool>,
}

#[derive(Serialize)]
struct Pipeline<'a> {
    baton: Option<String>,
    requests: &'a [Request<'a>],
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Request<'a> {
    Execute { stmt: &'a Statement },
    Batch { batch: Batch<'a> },
    Sequence { sql: &'a str },
    Close,
}

#[derive(Serialize)]
struct Batch<'a> {
    steps: Vec<Step<'a>>,
}

#[derive(Serialize)]
struct Step<'a> {
    /// Runs only if the step before succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    condition: Option<Condition>,
    stmt: &'a Statement,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Condition {
    Ok { step: usize },
}

#[derive(Debug, Serialize)]
struct Statement {
    sql: String,
    args: Vec<WireValue>,
    want_rows: bool,
}

/// A value. Integers are texts, since JSON numbers of other programs lose digits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireValue {
    Null,
    Integer {
        value: String,
    },
    Float {
        value: f64,
    },
    Text {
        value: String,
    },
    /// Neither sent nor read, because no table here has blobs.
    Blob {},
}

#[derive(Deserialize)]
struct Answer {
    baton: Option<String>,
    results: Vec<Outcome>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Outcome {
    Ok { response: Response },
    Error { error: Problem },
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Response {
    Execute {
        result: Rows,
    },
    Batch {
        result: BatchResult,
    },
    #[serde(other)]
    Done,
}

#[derive(Deserialize)]
struct Rows {
    #[serde(default)]
    rows: Vec<Vec<WireValue>>,
}

#[derive(Deserialize)]
struct BatchResult {
    #[serde(default)]
    step_errors: Vec<Option<Problem>>,
}

#[derive(Deserialize)]
struct Problem {
    message: String,
    #[serde(default)]
    code: Option<String>,
}

impl WireValue {
    fn of(value: Value) -> Result<Self, DatabaseError> {
        Ok(match value {
            Value::Null => Self::Null,
            Value::Integer(number) => Self::Integer { value: number.to_string() },
            Value::Real(value) => Self::Float { value },
            Value::Text(value) => Self::Text { value },
            Value::Blob(_) => {
                return Err(DatabaseError::engine("a blob cannot be sent to a server"));
            }
        })
    }

    fn read(self) -> Result<Value, DatabaseError> {
        Ok(match self {
            Self::Null => Value::Null,
            Self::Integer { value } => {
                Value::Integer(value.parse().map_err(|_| malformed("an integer is not a number"))?)
            }
            Self::Float { value } => Value::Real(value),
            Self::Text { value } => Value::Text(value),
            Self::Blob {} => return Err(malformed("a value is a blob")),
        })
    }
}

impl Problem {
    fn into_error(self) -> DatabaseError {
        let Self { message, code } = self;
        // Extended codes have a third part, such as `SQLITE_BUSY_SNAPSHOT`.
        let code = code.unwrap_or_default();
        match code.strip_prefix("SQLITE_").and_then(|code| code.split('_').next()) {
            Some("BUSY" | "LOCKED") => DatabaseError::Busy,
            Some("FULL") => DatabaseError::Full,
            Some("READONLY") => DatabaseError::ReadOnly,
            Some("CORRUPT") => DatabaseError::Damaged(message),
            _ => DatabaseError::engine(message),
        }
    }
}

fn malformed(problem: &str) -> DatabaseError {
    DatabaseError::engine(format!("the server sent an invalid answer: {problem}"))
}

fn failed(failure: EndpointFailure) -> DatabaseError {
    match failure {
        EndpointFailure::Unauthorized { .. } => {
            DatabaseError::Denied(format!("its server {failure}"))
        }
        _ => DatabaseError::Disconnected(format!("its server {failure}")),
    }
}

impl Session {
    /// Sends requests, and returns their outcomes.
    fn send(&self, requests: &[Request<'_>]) -> Result<Vec<Outcome>, DatabaseError> {
        let pipeline = Pipeline { baton: self.baton.take(), requests };
        let sent = self.remote.endpoint.post_json(&pipeline);
        let answer = self.runtime.block_on(sent).map_err(failed)?;
        let Answer { baton, results } = serde_json::from_slice(&answer.body)
            .map_err(|error| failed(self.remote.endpoint.malformed(&answer, &error.to_string())))?;
        self.baton.replace(baton);
        if results.len() != requests.len() {
            return Err(malformed("it has not one result for each request"));
        }
        Ok(results)
    }

    /// Sends the queued statements, then `request`; returns the outcome of the latter.
    fn send_after_queue(&self, request: Request<'_>) -> Result<Response, DatabaseError> {
        let queued = self.queued.take();
        let mut requests = Vec::new();
        if !queued.is_empty() {
            requests.push(batch(&queued));
        }
        requests.push(request);
        if !self.in_transaction.get() {
            requests.push(Request::Close);
        }
        let mut outcomes = self.send(&requests)?.into_iter();
        if !queued.is_empty() {
            check_batch(outcomes.next())?;
        }
        match outcomes.next() {
            Some(Outcome::Ok { response }) => Ok(response),
            Some(Outcome::Error { error }) => Err(error.into_error()),
            None => Err(malformed("a result is missing")),
        }
    }

    /// Sends the queued statements and the end of the transaction, which is not reached if one of
    /// them fails.
    fn commit(&self) -> Result<(), DatabaseError> {
        let mut queued = self.queued.take();
        queued.push(statement("COMMIT", Vec::new(), false)?);
        let outcomes = self.send(&[batch(&queued), Request::Close])?;
        check_batch(outcomes.into_iter().next())
    }

    pub(super) fn select(&self, sql: &str, values: Vec<Value>) -> Result<Vec<Row>, DatabaseError> {
        let statement = statement(sql, values, true)?;
        let Response::Execute { result } =
            self.send_after_queue(Request::Execute { stmt: &statement })?
        else {
            return Err(malformed("a statement has another result"));
        };
        result
            .rows
            .into_iter()
            .map(|row| row.into_iter().map(WireValue::read).collect::<Result<_, _>>().map(Row))
            .collect()
    }

    pub(super) fn execute(&self, sql: &str, values: Vec<Value>) -> Result<(), DatabaseError> {
        let statement = statement(sql, values, false)?;
        let is_queued = self.in_transaction.get() && self.queued.borrow().len() < MAX_QUEUED;
        if is_queued {
            self.queued.borrow_mut().push(statement);
            return Ok(());
        }
        self.send_after_queue(Request::Execute { stmt: &statement }).map(drop)
    }

    pub(super) fn sequence(&self, sql: &str) -> Result<(), DatabaseError> {
        self.send_after_queue(Request::Sequence { sql }).map(drop)
    }

    pub(super) fn transaction<T, E: From<DatabaseError>>(
        &self,
        begin: &str,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.in_transaction.set(true);
        let begun = self.execute(begin, Vec::new()).map_err(E::from);
        let done = begun.and_then(|()| work()).and_then(|done| {
            self.commit()?;
            Ok(done)
        });
        self.in_transaction.set(false);
        self.queued.take();
        // The end of the stream rolls back what was not committed. If it cannot be sent, the server
        // ends the stream after some seconds.
        if self.baton.borrow().is_some() {
            _ = self.send(&[Request::Close]);
            self.baton.take();
        }
        done
    }
}

/// Returns the request for statements of which each runs only if the one before succeeded.
fn batch(statements: &[Statement]) -> Request<'_> {
    let steps = statements
        .iter()
        .enumerate()
        .map(|(index, stmt)| {
            let condition = index.checked_sub(1).map(|step| Condition::Ok { step });
            Step { condition, stmt }
        })
        .collect();
    Request::Batch { batch: Batch { steps } }
}

/// Returns the first error of a batch.
fn check_batch(outcome: Option<Outcome>) -> Result<(), DatabaseError> {
    match outcome {
        Some(Outcome::Ok { response: Response::Batch { result } }) => {
            match result.step_errors.into_iter().flatten().next() {
                Some(problem) => Err(problem.into_error()),
                None => Ok(()),
            }
        }
        Some(Outcome::Error { error }) => Err(error.into_error()),
        _ => Err(malformed("a batch has another result")),
    }
}

fn statement(sql: &str, values: Vec<Value>, want_rows: bool) -> Result<Statement, DatabaseError> {
    let args: Result<_, _> = values.into_iter().map(WireValue::of).collect();
    Ok(Statement { sql: sql.to_owned(), args: args?, want_rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_go_to_this_machine_or_by_tls() {
        for (given, want) in [
            ("libsql://db-me.turso.io", "https://db-me.turso.io/v2/pipeline"),
            ("https://db.example/a", "https://db.example/a/v2/pipeline"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v2/pipeline"),
        ] {
            let database = RemoteLibsql::new(given, Some("t")).unwrap();
            assert_eq!(database.endpoint.url.as_str(), want);
        }
        for (given, want) in [
            ("http://db.example", "http: to another machine"),
            ("libsql://me:secret@db.example", "give the token separately"),
            ("libsql://db.example?authToken=secret", "give the token separately"),
            ("tests.db", "not a libsql:"),
        ] {
            let error = RemoteLibsql::new(given, Some("t")).unwrap_err().to_string();
            assert!(error.contains(want) && !error.contains("secret"), "{given}: {error}");
        }
    }

    #[test]
    fn values_keep_all_digits() {
        for value in [
            Value::Null,
            Value::Integer(i64::MIN),
            Value::Real(0.1 + 0.2),
            Value::Text("ä\"\0\n".to_owned()),
        ] {
            let sent = serde_json::to_string(&WireValue::of(value.clone()).unwrap()).unwrap();
            let read: WireValue = serde_json::from_str(&sent).unwrap();
            assert_eq!(read.read().unwrap(), value, "{sent}");
        }
        assert!(WireValue::of(Value::Blob(vec![1])).is_err());
        let wrong = WireValue::Integer { value: "1.5".to_owned() };
        assert!(wrong.read().unwrap_err().to_string().contains("invalid answer"));
    }
}
