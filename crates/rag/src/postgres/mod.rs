//! Connections to a PostgreSQL, for all that is kept there.

mod failure;
mod lease;
mod tls;

use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use tokio_postgres::{Client, Config, types::ToSql};

use self::tls::Tls;
pub(crate) use self::{failure::Failure, lease::Lease};

/// A value beside a statement.
pub(crate) type Parameter<'a> = &'a (dyn ToSql + Sync);

/// How a PostgreSQL is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PostgresOptions {
    /// Throw away what was indexed with another model, or by an older version of this program.
    pub reset: bool,
    /// How many connections calls have at most; 8 by default. More calls than that wait for one. Beside them there is
    /// one while the index of vectors is made, and one for a moment to cancel a statement.
    pub max_connections: usize,
    /// How many chunks are compared with a question one by one, which is exact, when so many pass its filter; 20,000 by
    /// default, for which 256 numbers each that takes as long as the index does. A database of more gets an index of
    /// its vectors, which is made while others read and write; until it is there, all are compared.
    pub scan_up_to: u32,
    /// How many bytes a record may have; 64 MiB by default. PostgreSQL itself takes no more than 1 GB.
    pub max_content_bytes: u64,
    /// How long a statement may take on the server; a minute by default.
    pub statement_timeout: Duration,
    /// How long a writer waits for another one; 30 seconds by default.
    pub lock_timeout: Duration,
    /// How long a call may wait for a connection, a new one or another's; 10 seconds by default.
    pub connect_timeout: Duration,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            reset: false,
            max_connections: 8,
            scan_up_to: 20_000,
            max_content_bytes: 64 << 20,
            statement_timeout: Duration::from_secs(60),
            lock_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
        }
    }
}

/// Serialises those who make tables: two at once would fail. Any number that others hardly use.
const MAKING_TABLES: i64 = 0x6d61_7271_7565_7472;

/// The connections.
pub(crate) struct Connections {
    pool: Pool,
    config: Config,
    tls: Tls,
    session: String,
    options: PostgresOptions,
}

impl Connections {
    /// Reads the URL; nothing is connected yet.
    pub(crate) fn new(url: &str, options: PostgresOptions) -> Result<Self, Failure> {
        let (mut config, tls) = tls::read(url)?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(options.connect_timeout);
        }
        // Else a server that vanishes without a word would be waited for for hours.
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
            .map_err(|error| Failure::Engine(error.to_string()))?;
        Ok(Self { pool, config, tls, session, options })
    }

    pub(crate) fn options(&self) -> &PostgresOptions {
        &self.options
    }

    pub(crate) async fn get(&self) -> Result<Lease, Failure> {
        let got = self.pool.get().await.map(|object| Lease::new(object, self.tls.clone()));
        got.map_err(|error| Failure::of_pool(error, self.options.max_connections))
    }

    /// A connection beside those that calls use, for what takes long. It ends when it is dropped and has done all.
    pub(crate) async fn apart(&self) -> Result<Client, Failure> {
        let (client, connection) = self.config.connect(self.tls.clone()).await?;
        tokio::spawn(connection);
        client.batch_execute(&self.session).await?;
        Ok(client)
    }

    /// Runs statements if a query says so, with nobody else making tables at the same time.
    pub(crate) async fn make_anew(&self, query: &str, statements: &str) -> Result<(), Failure> {
        let mut client = self.get().await?;
        let transaction = client.transaction().await?;
        transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&MAKING_TABLES]).await?;
        if transaction.query_one(query, &[]).await?.try_get(0)? {
            transaction.batch_execute(statements).await?;
        }
        transaction.commit().await?;
        client.done();
        Ok(())
    }

    /// Makes tables if the named one is not there yet, with nobody else doing so at the same time.
    pub(crate) async fn make(&self, table: &str, tables: &str) -> Result<(), Failure> {
        let mut client = self.get().await?;
        let transaction = client.transaction().await?;
        transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&MAKING_TABLES]).await?;
        let there = transaction.query_one(IS_THERE, &[&table]).await?;
        if !there.try_get::<_, bool>(0)? {
            transaction.batch_execute(tables).await?;
        }
        transaction.commit().await?;
        client.done();
        Ok(())
    }
}

/// Whether there is a table or index of this name in the schema that ours are made in.
const IS_THERE: &str =
    "SELECT to_regclass(quote_ident(current_schema()) || '.' || $1::text) IS NOT NULL";

/// What each connection is told first.
fn session(options: &PostgresOptions) -> String {
    // Types of an extension are found wherever it was made; compiling queries takes longer than they do.
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
