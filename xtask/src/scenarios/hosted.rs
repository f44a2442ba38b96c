//! The server as a library in this process, on a real socket or on real pipes.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use marquetry::{App, Config};
use marquetry_artifacts::{ArtifactStore, DirectoryOptions, DirectoryStore, MemoryStore};
use marquetry_scenarios::given::StoreFault;
use tokio::{
    net::{TcpListener, unix::pipe},
    task::JoinHandle,
};

use super::store::{Defect, FaultyStore};

/// A server in this process.
pub(crate) struct HostedServer {
    app: App,
    address: Option<SocketAddr>,
    serving: Option<JoinHandle<io::Result<()>>>,
}

impl HostedServer {
    /// Starts it from its configuration, as the program does. Only faults of the store, including
    /// injected defects, come from outside.
    pub(crate) async fn start(
        config: &str,
        faults: &[StoreFault],
        defect: Option<Defect>,
    ) -> Result<Self, String> {
        let config = Config::from_toml(config, "the scenario's configuration")
            .map_err(|error| error.to_string())?;
        let defect = defect.filter(|defect| defect.affects_store());
        let store: Option<Arc<dyn ArtifactStore>> = if faults.is_empty() && defect.is_none() {
            None
        } else {
            let inner: Arc<dyn ArtifactStore> = match &config.artifacts.directory {
                None => Arc::new(MemoryStore::default()),
                Some(path) => Arc::new(
                    DirectoryStore::open(path, DirectoryOptions::default())
                        .map_err(|error| error.to_string())?,
                ),
            };
            Some(Arc::new(FaultyStore::new(inner, faults, defect)))
        };
        let mut builder = App::builder(config);
        if let Some(store) = store {
            builder = builder.store(store);
        }
        let app = builder.start().await.map_err(|error| error.to_string())?;
        Ok(Self { app, address: None, serving: None })
    }

    /// Serves HTTP on a free port.
    pub(crate) async fn serve_http(&mut self) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let app = self.app.clone();
        self.serving = Some(tokio::spawn(async move { app.serve(listener).await }));
        self.address = Some(address);
        Ok(address)
    }

    /// Serves one client on pipes, and returns the client's ends.
    pub(crate) fn serve_stdio(&mut self) -> io::Result<(pipe::Receiver, pipe::Sender)> {
        let (to_server, input) = pipe::pipe()?;
        let (output, from_server) = pipe::pipe()?;
        let app = self.app.clone();
        self.serving = Some(tokio::spawn(async move { app.serve_stdio(input, output).await }));
        Ok((from_server, to_server))
    }

    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Returns the report of `/healthz`.
    pub(crate) fn health(&self) -> serde_json::Value {
        self.app.health()
    }

    pub(crate) async fn end(self) -> Result<(), String> {
        self.app.shutdown().await;
        match self.serving {
            None => Ok(()),
            Some(serving) => serving
                .await
                .map_err(|error| format!("the server failed: {error}"))?
                .map_err(|error| format!("the server failed: {error}")),
        }
    }
}
