//! Pools of connections to a PostgreSQL.
//!
//! Statements and rows are types of the crate `tokio_postgres`; users of this module depend on it,
//! too.

mod error;
mod lease;
mod tls;

use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use tokio_postgres::{Client, Config, types::ToSql};

pub use self::lease::Lease;
use self::tls::Tls;
use crate::DatabaseError;

/// A parameter of a statement.
pub type Parameter<'a> = &'a (dyn ToSql + Sync);

/// Limits of a [`PostgresPool`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolOptions {
    /// Maximum connections; 8 by default. Further calls wait for a free one. Two more connections
    /// may exist: that of [`PostgresPool::connect`], and for a short time one that cancels a
    /// statement.
    pub max_connections: usize,
    /// Time limit of a statement on the server; 60 s by default.
    pub statement_timeout: Duration,
    /// Longest wait for a lock of another writer; 30 s by default.
    pub lock_timeout: Duration,
    /// Longest wait for a connection, new or in use; 10 s by default.
    pub connect_timeout: Duration,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            max_connections: 8,
            statement_timeout: Duration::from_mins(1),
            lock_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
        }
    }
}

/// Number of the advisory lock that is held while tables are created: two processes at once would
/// fail. Other programs are unlikely to use it.
const CREATING_TABLES: i64 = 0x6d61_7271_7565_7472;

/// Connections to one database. Each is handed out as a [`Lease`].
pub struct PostgresPool {
    pool: Pool,
    config: Config,
    tls: Tls,
    session: String,
    options: PoolOptions,
}

impl PostgresPool {
    /// Parses the URL, `postgres://user:password@host:port/database`. Opens no connection yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the URL does not parse, or if it names a file of certificates that
    /// cannot be used.
    pub fn new(url: &str, options: PoolOptions) -> Result<Self, DatabaseError> {
        let (mut config, tls) = tls::read(url)?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(options.connect_timeout);
        }
        // Otherwise a call would wait for hours for a server that vanished without closing its
        // connections.
        config.keepalives_idle(Duration::from_secs(30));
        config.tcp_user_timeout(Duration::from_secs(30));
        if config.get_application_name().is_none() {
            config.application_name("marquetry");
        }
        let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let session = session(&options);
        let first = session.clone();
        let pool = Pool::builder(Manager::from_config(config.clone(), tls.clone(), manager))
            .max_size(options.max_connections.max(1))
            .wait_timeout(Some(options.connect_timeout))
            .runtime(Runtime::Tokio1)
            .post_create(Hook::async_fn(move |client, _| {
                let first = first.clone();
                Box::pin(
                    async move { client.batch_execute(&first).await.map_err(HookError::Backend) },
                )
            }))
            .build()
            .map_err(|error| DatabaseError::engine(error.to_string()))?;
        Ok(Self { pool, config, tls, session, options })
    }

    /// Returns the limits.
    pub fn options(&self) -> &PoolOptions {
        &self.options
    }

    /// Waits for a free connection.
    ///
    /// # Errors
    ///
    /// Returns an error if no connection is available in time.
    pub async fn get(&self) -> Result<Lease, DatabaseError> {
        let got = self.pool.get().await.map(|object| Lease::new(object, self.tls.clone()));
        got.map_err(|error| error::from_pool_error(error, self.options.max_connections))
    }

    /// Opens a connection outside of the pool, for statements that take long. It closes when it is
    /// dropped and has answered everything.
    ///
    /// # Errors
    ///
    /// Returns an error if the server refuses the statement or the connection fails.
    pub async fn connect(&self) -> Result<Client, DatabaseError> {
        let (client, connection) = self.config.connect(self.tls.clone()).await?;
        tokio::spawn(connection);
        client.batch_execute(&self.session).await?;
        Ok(client)
    }

    /// Runs statements if `condition`, a query, returns true, while no other process creates
    /// tables.
    ///
    /// # Errors
    ///
    /// Returns an error if the server refuses a statement or the connection fails; nothing was
    /// changed.
    pub async fn run_if(&self, condition: &str, statements: &str) -> Result<(), DatabaseError> {
        let mut client = self.get().await?;
        let transaction = client.transaction().await?;
        transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&CREATING_TABLES]).await?;
        if transaction.query_one(condition, &[]).await?.try_get(0)? {
            transaction.batch_execute(statements).await?;
        }
        transaction.commit().await?;
        client.done();
        Ok(())
    }

    /// Runs the statements that create tables, unless the named table exists.
    ///
    /// # Errors
    ///
    /// Returns an error if the server refuses a statement or the connection fails; nothing was
    /// changed.
    pub async fn create_tables(&self, table: &str, tables: &str) -> Result<(), DatabaseError> {
        let mut client = self.get().await?;
        let transaction = client.transaction().await?;
        transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&CREATING_TABLES]).await?;
        let there = transaction.query_one(IS_THERE, &[&table]).await?;
        if !there.try_get::<_, bool>(0)? {
            transaction.batch_execute(tables).await?;
        }
        transaction.commit().await?;
        client.done();
        Ok(())
    }
}

/// Whether the schema of our tables has a table or index of this name.
const IS_THERE: &str =
    "SELECT to_regclass(quote_ident(current_schema()) || '.' || $1::text) IS NOT NULL";

/// Settings of each connection.
fn session(options: &PoolOptions) -> String {
    // The types of an extension may be in any schema. JIT compilation takes longer than these
    // queries.
    format!(
        "SET statement_timeout = {}; SET lock_timeout = {}; SET idle_in_transaction_session_timeout = {}; SET jit = off; \
         SELECT set_config('search_path', current_setting('search_path') || ', ' || quote_ident(n.nspname), false) \
         FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace \
         WHERE e.extname = 'vector' AND NOT n.nspname = ANY (current_schemas(true))",
        options.statement_timeout.as_millis(),
        options.lock_timeout.as_millis(),
        options.statement_timeout.as_millis(),
    )
}

impl std::fmt::Debug for PostgresPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresPool").field("options", &self.options).finish_non_exhaustive()
    }
}
