//! Queries a table with SQL, in a private database in memory.

use std::{fmt, sync::Arc, sync::mpsc, time::Duration};

use libsql::{AuthAction, Authorization, Builder, Connection, Value};

use crate::{
    QueryLimits, Table,
    cells::CellValue,
    limits::{Deadline, Stopped},
};

/// Longest statement, in bytes.
const MAX_SQL_BYTES: usize = 10_000;

/// Rows between two looks at the clock.
const ROWS_PER_LOOK: usize = 256;
/// Time after which a query is stopped that was cancelled or uses too much memory.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Time between two interrupts.
const MIN_WAIT: Duration = Duration::from_millis(10);

/// Functions that make large values of small ones, or reach files.
const DENIED_FUNCTIONS: [&str; 8] = [
    "load_extension",
    "zeroblob",
    "randomblob",
    "printf",
    "format",
    "readfile",
    "writefile",
    // It returns an address of the process.
    "fts3_tokenizer",
];

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
    /// The query was cancelled.
    #[error("the query was cancelled")]
    Cancelled,
    /// The process has grown by more than this number of bytes.
    #[error("{}", crate::limits::memory_message("query", *.0))]
    Memory(u64),
}

/// Runs one statement that reads tables, whose names and columns are quoted with `"` if they are
/// not plain names. The first table is also `data`.
///
/// The database is in memory and belongs to this call. An authorizer allows only reading: no other
/// file or database, no change, no pragma.
///
/// The engine works on the thread that polls the future, for at most the time limit, which counts
/// from the call.
///
/// # Errors
///
/// Returns an error if the statement is not valid, is not a single query, or takes too long.
pub async fn sql(
    tables: &[Table],
    statement: &str,
    limits: &QueryLimits,
) -> Result<SqlOutput, SqlError> {
    let deadline = Deadline::start(limits);
    let statement = single_statement(statement)?;
    let database = Builder::new_local(":memory:").build().await.map_err(engine)?;
    let connection = database.connect().map_err(engine)?;
    let timer = Timer::start(&connection, deadline.clone());
    let result = run(&connection, tables, statement, limits, &deadline).await;
    match (result, timer.stop()) {
        (Err(_), Some(Stopped::Late)) => Err(SqlError::Time(limits.time)),
        (Err(_), Some(Stopped::Cancelled)) => Err(SqlError::Cancelled),
        (Err(_), Some(Stopped::Memory(bytes))) => Err(SqlError::Memory(bytes)),
        (result, _) => result,
    }
}

async fn run(
    connection: &Connection,
    tables: &[Table],
    statement: &str,
    limits: &QueryLimits,
    deadline: &Deadline,
) -> Result<SqlOutput, SqlError> {
    // Names are unique without regard to case.
    let mut names = Vec::new();
    for table in tables {
        let mut name = table.name.clone();
        while names.iter().any(|other: &String| other.eq_ignore_ascii_case(&name)) {
            name.push('_');
        }
        fill(connection, &name, table, deadline).await?;
        names.push(name);
    }
    let has_data = names.iter().any(|name| name.eq_ignore_ascii_case("data"));
    if let Some(first) = names.first().filter(|_| !has_data) {
        let view = format!("CREATE VIEW data AS SELECT * FROM {}", quoted(first));
        connection.execute(&view, ()).await.map_err(engine)?;
    }
    connection.authorizer(Some(Arc::new(|context| authorize(&context.action)))).map_err(engine)?;
    let output = read(connection, statement, limits).await.map_err(engine)?;
    if output.columns.is_empty() {
        return Err(SqlError::Statement("the statement is not a query: it returns no columns"));
    }
    Ok(output)
}

async fn fill(
    connection: &Connection,
    name: &str,
    table: &Table,
    deadline: &Deadline,
) -> Result<(), SqlError> {
    let name = quoted(name);
    // Without a type, the engine converts no value.
    let columns: Vec<_> = table.columns.iter().map(|name| quoted(name)).collect();
    let create = format!("CREATE TABLE {name} ({})", columns.join(", "));
    connection.execute(&create, ()).await.map_err(engine)?;
    connection.execute("BEGIN", ()).await.map_err(engine)?;
    let marks = vec!["?"; columns.len()].join(", ");
    let insert = format!("INSERT INTO {name} VALUES ({marks})");
    let insert = connection.prepare(&insert).await.map_err(engine)?;
    for row in 0..table.row_count() {
        if row % ROWS_PER_LOOK == 0 && deadline.check().is_err() {
            // The timer knows the reason.
            return Err(SqlError::Statement("the query was stopped"));
        }
        let values = (0..columns.len()).map(|column| value(table.cells.get(row, column)));
        let values: Vec<Value> = values.collect();
        insert.execute(values).await.map_err(engine)?;
        insert.reset();
    }
    connection.execute("COMMIT", ()).await.map_err(engine)?;
    Ok(())
}

fn engine(error: libsql::Error) -> SqlError {
    SqlError::Engine(message(&error))
}

async fn read(
    connection: &Connection,
    statement: &str,
    limits: &QueryLimits,
) -> libsql::Result<SqlOutput> {
    let prepared = connection.prepare(statement).await?;
    let columns: Vec<_> =
        prepared.columns().iter().map(|column| column.name().to_owned()).collect();
    if columns.is_empty() {
        return Ok(SqlOutput::default());
    }
    let mut rows = connection.query(&with_readable_cells(statement, columns.len()), ()).await?;
    let count = rows.column_count();
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

/// Returns a query of what a statement returns, in which texts are blobs, and blobs their lengths.
/// The binding reads a text to its first null character, and panics if it is not UTF-8.
fn with_readable_cells(statement: &str, columns: usize) -> String {
    let names: Vec<_> = (0..columns).map(|index| format!("c{index}")).collect();
    let cells: Vec<_> = names
        .iter()
        .map(|name| {
            format!("CASE typeof({name}) WHEN 'text' THEN CAST({name} AS BLOB) WHEN 'blob' THEN '(' || length({name}) || ' bytes)' ELSE {name} END")
        })
        .collect();
    let names = names.join(", ");
    let cells = cells.join(", ");
    // The statement may end with a comment.
    format!("WITH cells({names}) AS ({statement}\n) SELECT {cells} FROM cells")
}

/// Interrupts a connection when its time is over, or when the query is cancelled.
struct Timer {
    stop: mpsc::Sender<()>,
    thread: std::thread::JoinHandle<Option<Stopped>>,
}

impl Timer {
    fn start(connection: &Connection, deadline: Deadline) -> Self {
        let (stop, stopped) = mpsc::channel();
        let connection = connection.clone();
        let thread = std::thread::spawn(move || {
            let mut reason = None;
            let mut wait = deadline.rest().clamp(MIN_WAIT, CHECK_INTERVAL);
            while stopped.recv_timeout(wait) == Err(mpsc::RecvTimeoutError::Timeout) {
                wait = deadline.rest().clamp(MIN_WAIT, CHECK_INTERVAL);
                let checked = deadline.check().and_then(|()| deadline.check_memory());
                if let Err(stopped) = checked {
                    reason.get_or_insert(stopped);
                }
                if reason.is_none() {
                    continue;
                }
                // A statement that begins after an interrupt is not interrupted, so it is repeated.
                wait = MIN_WAIT;
                if connection.interrupt().is_err() {
                    break;
                }
            }
            reason.or_else(|| deadline.check().err())
        });
        Self { stop, thread }
    }

    /// Stops the timer, and returns why it has interrupted the connection, if it has.
    fn stop(self) -> Option<Stopped> {
        drop(self.stop);
        self.thread.join().unwrap_or(Some(Stopped::Late))
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
    if without_quoted(sql).contains(';') {
        return Err(SqlError::Statement("one statement at a time: ';' is not at the end"));
    }
    Ok(sql)
}

/// Returns a statement without texts, quoted names and comments.
fn without_quoted(sql: &str) -> String {
    let mut rest = sql;
    let mut plain = String::new();
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '\'' | '"' | '`' => Some(first.to_string()),
            '[' => Some("]".to_owned()),
            _ if rest.starts_with("--") => Some("\n".to_owned()),
            _ if rest.starts_with("/*") => Some("*/".to_owned()),
            _ => None,
        };
        let skipped = end.map_or(first.len_utf8(), |end| {
            let start = if rest.starts_with("/*") { 2 } else { first.len_utf8() };
            rest[start..].find(&end).map_or(rest.len(), |at| start + at + end.len())
        });
        if skipped == first.len_utf8() {
            plain.push(first);
        }
        rest = &rest[skipped..];
    }
    plain
}

fn message(error: &libsql::Error) -> String {
    let text = match error {
        libsql::Error::SqliteFailure(_, text) => text.clone(),
        other => other.to_string(),
    };
    if text.contains("not authorized") {
        return "only queries of the data are allowed: no change, no other file, no pragma"
            .to_owned();
    }
    text
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn value(cell: CellValue<'_>) -> Value {
    match cell {
        CellValue::Null => Value::Null,
        CellValue::Integer(integer) => Value::Integer(integer),
        CellValue::Real(real) => Value::Real(real),
        CellValue::Text(text) => Value::Text(text.to_owned()),
    }
}

fn shown(value: Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Integer(integer) => integer.to_string(),
        Value::Real(real) => real.to_string(),
        Value::Text(text) => text,
        Value::Blob(text) => String::from_utf8_lossy(&text).into_owned(),
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

    fn table() -> Vec<Table> {
        let csv = "name,price,first name\nbread,2.5,Ann\nmilk,1,Bob\ntea,4,\n";
        vec![Table::from_csv(csv, b',').unwrap()]
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
        check(run("SELECT 1 AS a -- it's; all\n /* ; */ ;").await, "a\n1\n");
        let json = [Table::from_json(r#"[{"id": 1, "tags": ["x", "y"]}]"#).unwrap()];
        let nested = "SELECT data.id, value FROM data, json_each(tags)";
        check(sql(&json, nested, &QueryLimits::default()).await, "id,value\n1,x\n1,y\n");
    }

    #[tokio::test]
    async fn sheets_are_tables_and_the_first_one_is_data() {
        let first = Table::from_rows("Sales 2026", [[(0, "n")], [(0, "1")], [(0, "2")]]).unwrap();
        let second = Table::from_rows("sales 2026", [[(0, "n")], [(0, "5")]]).unwrap();
        let statement = "SELECT (SELECT sum(n) FROM data) AS a, (SELECT sum(n) FROM \"Sales 2026\") AS b, (SELECT n FROM \"sales 2026_\") AS c";
        let output = sql(&[first, second], statement, &QueryLimits::default()).await;
        check(output, "a,b,c\n3,3,5\n");
    }

    #[tokio::test]
    async fn texts_are_shown_whole_even_if_they_are_not_utf_8() {
        check(run("SELECT char(55296) AS a").await, "a\n\u{fffd}\u{fffd}\u{fffd}\n");
        check(
            run("SELECT CAST(x'61ff' AS TEXT) AS a, x'00ff' AS b").await,
            "a,b\na\u{fffd},(2 bytes)\n",
        );
        check(run("SELECT 'a' || char(0) || 'b' AS a").await, "a\na\0b\n");
        let json = [Table::from_json(r#"[{"s": "x\u0000y"}]"#).unwrap()];
        check(sql(&json, "SELECT s FROM data", &QueryLimits::default()).await, "s\nx\0y\n");
    }

    #[tokio::test]
    async fn the_order_of_rows_and_names_of_columns_stay() {
        check(
            run("SELECT name, name, price FROM data ORDER BY price DESC -- sorted").await,
            "name,name,price\ntea,tea,4\nbread,bread,2.5\nmilk,milk,1\n",
        );
        check(run("VALUES (1, NULL)").await, "column1,column2\n1,\n");
        check(
            run("WITH cells AS (SELECT 1 AS a) SELECT a FROM cells UNION ALL SELECT 2").await,
            "a\n1\n2\n",
        );
    }

    #[tokio::test]
    async fn a_query_that_uses_much_memory_is_stopped() {
        let limits = QueryLimits {
            time: Duration::from_secs(20),
            max_memory_bytes: 64 << 20,
            ..QueryLimits::default()
        };
        let doubled = "WITH RECURSIVE t(s) AS (SELECT 'aaaaaaaa' UNION ALL SELECT s || s FROM t) SELECT length(s) FROM t";
        let result = sql(&table(), doubled, &limits).await;
        if cfg!(target_os = "linux") {
            let error = result.unwrap_err();
            assert_eq!(error, SqlError::Memory(64 << 20));
            assert!(error.to_string().contains("grew by more than 64 MiB"), "{error}");
        }
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
            "CREATE TEMP TABLE x (a)",
            "ATTACH '/tmp/x.db' AS x",
            "DETACH main",
            "PRAGMA table_info(data)",
            "SELECT * FROM pragma_table_info('data')",
            "SELECT * FROM pragma_database_list",
            "PRAGMA query_only = 0",
            "PRAGMA journal_mode",
            "INSERT INTO data VALUES (1, 2, 3)",
            "REPLACE INTO data VALUES (1, 2, 3)",
            "UPDATE data SET price = 0",
            "SELECT load_extension('x')",
            "SELECT readfile('/etc/passwd')",
            "SELECT writefile('/tmp/x', 'y')",
            "SELECT zeroblob(1000000000)",
            "SELECT printf('%1000000000d', 1)",
            "SELECT hex(fts3_tokenizer('simple'))",
            "VACUUM INTO '/tmp/x.db'",
            "VACUUM",
            "REINDEX",
            "ANALYZE",
            "BEGIN",
            "SAVEPOINT a",
            "EXPLAIN ATTACH '/tmp/x.db' AS x",
            "WITH t AS (SELECT 1) DELETE FROM data",
        ] {
            let error = run(statement).await.unwrap_err();
            assert!(
                matches!(error, SqlError::Engine(_) | SqlError::Statement(_)),
                "{statement}: {error}"
            );
        }
        assert!(!std::path::Path::new("/tmp/x.db").exists());
    }

    #[tokio::test]
    async fn endless_queries_are_stopped() {
        for endless in [
            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t",
            "WITH t(n) AS (SELECT 1 UNION ALL SELECT n FROM t) SELECT max(n) FROM t",
        ] {
            let stopped = Err(SqlError::Time(Duration::from_millis(300)));
            assert_eq!(run(endless).await, stopped, "{endless}");
        }
    }

    #[tokio::test]
    async fn the_time_limit_counts_from_the_first_row() {
        let csv = "a,b,c\n".to_owned() + &"1,2,3\n".repeat(200_000);
        let large = [Table::from_csv(&csv, b',').unwrap()];
        let limits = QueryLimits { time: Duration::from_millis(20), ..QueryLimits::default() };
        let before = std::time::Instant::now();
        assert_eq!(
            sql(&large, "SELECT 1", &limits).await,
            Err(SqlError::Time(Duration::from_millis(20)))
        );
        assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
    }

    #[tokio::test]
    async fn a_cancelled_query_ends() {
        let limits = QueryLimits { time: Duration::from_mins(1), ..QueryLimits::default() };
        let cancel = limits.cancel.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            cancel.cancel();
        });
        let endless = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t";
        assert_eq!(sql(&table(), endless, &limits).await, Err(SqlError::Cancelled));
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
        check(run("SELECT 1 -- it's\n; DELETE FROM data").await, "one statement at a time");
        check(run("SELECT '; SELECT 2").await, "unrecognized token");
        check(run(" ; ").await, "empty");
        check(run(&"x".repeat(20_000)).await, "10,000 bytes");
    }
}
