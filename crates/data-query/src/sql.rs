//! Queries a table with SQL, in a private database in memory.

use std::{fmt, sync::Arc, sync::mpsc, time::Duration};

use libsql::{AuthAction, Authorization, Builder, Connection, Value};

use crate::{QueryLimits, Table, table::Cell};

/// Longest statement, in bytes.
const MAX_SQL_BYTES: usize = 10_000;

/// Functions that make large values of small ones, or reach files.
const DENIED_FUNCTIONS: [&str; 7] =
    ["load_extension", "zeroblob", "randomblob", "printf", "format", "readfile", "writefile"];

/// The rows that a statement returns.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SqlOutput {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The rows, as CSV with a header.
    pub csv: String,
    /// Number of rows in `csv`.
    pub rows: usize,
    /// Whether further rows are left out.
    pub has_more: bool,
}

impl fmt::Display for SqlOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.csv)
    }
}

/// Why a statement has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SqlError {
    /// The statement is empty, too long, or not alone.
    #[error("{0}")]
    Statement(&'static str),
    /// The statement is not valid, or does what is not allowed.
    #[error("{0}")]
    Engine(String),
    /// The statement took too long.
    #[error("the query took longer than {} ms and was stopped", .0.as_millis())]
    Time(Duration),
}

/// Runs one statement that reads the table `data`, whose columns are quoted with `"` if they are not
/// plain names.
///
/// The database is in memory and belongs to this call. An authorizer allows only reading: no other
/// file or database, no change, no pragma.
///
/// The engine works on the thread that polls the future, for at most the time limit.
///
/// # Errors
///
/// Returns an error if the statement is not valid, is not a single query, or takes too long.
pub async fn sql(
    table: &Table,
    statement: &str,
    limits: &QueryLimits,
) -> Result<SqlOutput, SqlError> {
    let statement = single_statement(statement)?;
    let engine = |error: libsql::Error| SqlError::Engine(message(&error));
    let database = Builder::new_local(":memory:").build().await.map_err(engine)?;
    let connection = database.connect().map_err(engine)?;
    fill(&connection, table).await.map_err(engine)?;
    connection.authorizer(Some(Arc::new(|context| authorize(&context.action)))).map_err(engine)?;

    let timer = Timer::start(&connection, limits.time);
    let result = read(&connection, statement, limits).await;
    let is_late = timer.stop();
    match result {
        Err(_) if is_late => Err(SqlError::Time(limits.time)),
        other => other.map_err(engine),
    }
}

async fn fill(connection: &Connection, table: &Table) -> libsql::Result<()> {
    // Without a type, the engine converts no value.
    let columns: Vec<_> = table.columns.iter().map(|name| quoted(name)).collect();
    connection.execute(&format!("CREATE TABLE data ({})", columns.join(", ")), ()).await?;
    connection.execute("BEGIN", ()).await?;
    let marks = vec!["?"; columns.len()].join(", ");
    let insert = connection.prepare(&format!("INSERT INTO data VALUES ({marks})")).await?;
    for row in &table.rows {
        let values: Vec<Value> = row.iter().map(value).collect();
        insert.execute(values).await?;
        insert.reset();
    }
    connection.execute("COMMIT", ()).await?;
    Ok(())
}

async fn read(
    connection: &Connection,
    statement: &str,
    limits: &QueryLimits,
) -> libsql::Result<SqlOutput> {
    let mut rows = connection.query(statement, ()).await?;
    let count = rows.column_count();
    let columns: Vec<String> =
        (0..count).map(|index| rows.column_name(index).unwrap_or_default().to_owned()).collect();
    let mut output = SqlOutput { columns, ..SqlOutput::default() };
    output.csv = line(output.columns.iter().map(String::as_str));
    while let Some(row) = rows.next().await? {
        let cells = (0..count).map(|index| row.get_value(index).map(shown));
        let cells = cells.collect::<libsql::Result<Vec<_>>>()?;
        let line = line(cells.iter().map(String::as_str));
        let is_full = output.rows == limits.max_rows
            || output.csv.len() + line.len() > limits.max_output_bytes && output.rows > 0;
        if is_full {
            output.has_more = true;
            break;
        }
        output.csv.push_str(&line);
        output.rows += 1;
    }
    if output.csv.len() > limits.max_output_bytes {
        output.csv.truncate(output.csv.floor_char_boundary(limits.max_output_bytes));
        output.has_more = true;
    }
    Ok(output)
}

/// Interrupts a connection when its time is over.
struct Timer {
    stop: mpsc::Sender<()>,
    thread: std::thread::JoinHandle<bool>,
}

impl Timer {
    fn start(connection: &Connection, time: Duration) -> Self {
        let (stop, stopped) = mpsc::channel();
        let connection = connection.clone();
        let thread = std::thread::spawn(move || {
            let mut is_late = false;
            let mut wait = time;
            // A statement that begins after an interrupt is not interrupted, so it is repeated.
            while stopped.recv_timeout(wait) == Err(mpsc::RecvTimeoutError::Timeout) {
                is_late = true;
                wait = Duration::from_millis(10);
                if connection.interrupt().is_err() {
                    break;
                }
            }
            is_late
        });
        Self { stop, thread }
    }

    /// Stops the timer, and returns whether the time was over.
    fn stop(self) -> bool {
        drop(self.stop);
        self.thread.join().unwrap_or(true)
    }
}

fn authorize(action: &AuthAction<'_>) -> Authorization {
    match action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => {
            Authorization::Allow
        }
        AuthAction::Function { function_name }
            if !DENIED_FUNCTIONS.iter().any(|name| name.eq_ignore_ascii_case(function_name)) =>
        {
            Authorization::Allow
        }
        _ => Authorization::Deny,
    }
}

/// Returns a statement without its last semicolon. The engine would run the first of several
/// statements and ignore the others.
fn single_statement(sql: &str) -> Result<&str, SqlError> {
    let sql = sql.trim().trim_end_matches(';').trim_end();
    if sql.is_empty() {
        return Err(SqlError::Statement("the statement is empty"));
    }
    if sql.len() > MAX_SQL_BYTES {
        return Err(SqlError::Statement("the statement has more than 10,000 bytes"));
    }
    let mut quote = None;
    for character in sql.chars() {
        match (quote, character) {
            (None, ';') => {
                return Err(SqlError::Statement("one statement at a time: ';' is not at the end"));
            }
            (None, '\'' | '"' | '`') => quote = Some(character),
            (None, '[') => quote = Some(']'),
            (Some(open), character) if open == character => quote = None,
            _ => {}
        }
    }
    Ok(sql)
}

fn message(error: &libsql::Error) -> String {
    let text = match error {
        libsql::Error::SqliteFailure(_, text) => text.clone(),
        other => other.to_string(),
    };
    if text.contains("not authorized") {
        return "only queries of the table data are allowed: no change, no other file, no pragma"
            .to_owned();
    }
    text
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn value(cell: &Cell) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Integer(integer) => Value::Integer(*integer),
        Cell::Real(real) => Value::Real(*real),
        Cell::Text(text) => Value::Text(text.clone()),
    }
}

fn shown(value: Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Integer(integer) => integer.to_string(),
        Value::Real(real) => real.to_string(),
        Value::Text(text) => text,
        Value::Blob(bytes) => format!("({} bytes)", bytes.len()),
    }
}

/// Returns cells as a line of CSV.
fn line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // Writing to memory does not fail.
    let _ = writer.write_record(cells);
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table::from_csv("name,price,first name\nbread,2.5,Ann\nmilk,1,Bob\ntea,4,\n", b',').unwrap()
    }

    async fn run(statement: &str) -> Result<SqlOutput, SqlError> {
        let limits = QueryLimits { time: Duration::from_millis(300), ..QueryLimits::default() };
        sql(&table(), statement, &limits).await
    }

    #[track_caller]
    fn check(result: Result<SqlOutput, SqlError>, want: &str) {
        assert_eq!(result.unwrap().csv, want);
    }

    #[tokio::test]
    async fn tables_are_queried() {
        check(run("SELECT sum(price) AS total FROM data").await, "total\n7.5\n");
        check(
            run("select name from data where \"first name\" = 'Ann; or' or price > 2;").await,
            "name\nbread\ntea\n",
        );
        check(run("WITH t AS (SELECT 1 AS a) SELECT * FROM t").await, "a\n1\n");
    }

    #[tokio::test]
    async fn output_is_bounded() {
        let limits = QueryLimits { max_rows: 2, ..QueryLimits::default() };
        let output = sql(&table(), "SELECT name FROM data", &limits).await.unwrap();
        assert_eq!((output.rows, output.has_more), (2, true));
        let limits = QueryLimits { max_output_bytes: 12, ..QueryLimits::default() };
        let output = sql(&table(), "SELECT name FROM data", &limits).await.unwrap();
        assert_eq!((output.csv.as_str(), output.has_more), ("name\nbread\n", true));
    }

    #[tokio::test]
    async fn nothing_but_reading_is_allowed() {
        for statement in [
            "DELETE FROM data",
            "DROP TABLE data",
            "CREATE TABLE x (a)",
            "ATTACH '/tmp/x.db' AS x",
            "PRAGMA table_info(data)",
            "INSERT INTO data VALUES (1, 2, 3)",
            "UPDATE data SET price = 0",
            "SELECT load_extension('x')",
            "SELECT zeroblob(1000000000)",
            "SELECT printf('%1000000000d', 1)",
            "VACUUM INTO '/tmp/x.db'",
            "BEGIN",
        ] {
            let error = run(statement).await.unwrap_err();
            assert!(matches!(error, SqlError::Engine(_)), "{statement}: {error}");
        }
    }

    #[tokio::test]
    async fn endless_queries_are_stopped() {
        let endless = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t";
        assert_eq!(run(endless).await, Err(SqlError::Time(Duration::from_millis(300))));
    }

    #[tokio::test]
    async fn errors_say_why() {
        #[track_caller]
        fn check(result: Result<SqlOutput, SqlError>, want: &str) {
            let error = result.unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
        check(run("SELECT colour FROM data").await, "no such column: colour");
        check(run("SELECT 1; SELECT 2").await, "one statement at a time");
        check(run(" ; ").await, "empty");
        check(run(&"x".repeat(20_000)).await, "10,000 bytes");
    }
}
