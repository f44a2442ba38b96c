//! The errors that keep an [`App`](super::App) from starting.

use marquetry_config::ConfigError;

/// Why an [`App`](super::App) could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The artifact directory cannot be used.
    #[error("artifacts.directory: failed to open {path:?}: {problem}")]
    Store {
        /// The directory.
        path: std::path::PathBuf,
        /// The problem.
        problem: String,
    },
    /// The bucket of artifacts cannot be used.
    #[error("artifacts.bucket: {problem}")]
    Bucket {
        /// The problem.
        problem: String,
    },
    /// The configuration is incomplete or contradicts itself; see
    /// [`Config::check`](marquetry_config::Config::check).
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The files of `server.tls` cannot be used.
    #[error("server.tls: {0}")]
    Tls(#[from] marquetry_inbound_tls::TlsError),
    /// `artifacts.store` is the directory store, and there is no `artifacts.directory`.
    #[error("artifacts.directory: the directory store needs a directory")]
    NoDirectory,
    /// Two tools have one name: two that were added, or an added one and one of this server.
    #[error("tool {name:?} cannot be added: another tool of this server has that name")]
    ToolNameTaken {
        /// The name.
        name: String,
    },
    /// [`AppBuilder::authenticator`](super::AppBuilder::authenticator) was called, and the
    /// configuration has tokens or an issuer in `[auth]`.
    #[error("an authenticator was added, but [auth] is also configured; use one of them")]
    TwoAuthenticators,
}
