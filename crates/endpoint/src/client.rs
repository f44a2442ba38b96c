//! The HTTP client.

use std::{sync::Arc, time::Duration};

use reqwest::{Client, Url, redirect};

use crate::is_loopback;

/// Why an HTTP client could not be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// TLS could not be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The client could not be built.
    #[error("cannot build an HTTP client: {0}")]
    Build(#[from] reqwest::Error),
}

/// Returns a client for a URL: TLS by ring with Mozilla's root certificates, no redirects, 10 s to
/// connect, and no proxy for a loopback address.
///
/// # Errors
///
/// Returns an error if the proxy or the certificates cannot be used; [`ClientError`] has the
/// reasons.
pub fn http_client(url: &Url) -> Result<Client, ClientError> {
    let roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut client = Client::builder()
        .tls_backend_preconfigured(tls)
        .connect_timeout(Duration::from_secs(10))
        // A redirect must not send the key to another address.
        .redirect(redirect::Policy::none());
    if is_loopback(url) {
        // A proxy would send requests for this machine to another machine.
        client = client.no_proxy();
    }
    Ok(client.build()?)
}
