//! TLS to a server.

use std::{
    io,
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use percent_encoding::percent_decode_str;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::{
    Config, Socket,
    config::{Host, SslMode},
    tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream},
};

use crate::DatabaseError;

/// Parses a URL. A server on another machine is reached by TLS, unless the URL has
/// `sslmode=disable`; one on this machine only with `sslmode=require`. The certificate is always
/// checked, with its name, as with `verify-full`: by Mozilla's roots, or by those in the file of
/// `sslrootcert`.
pub(super) fn read(url: &str) -> Result<(Config, Tls), DatabaseError> {
    let (url, roots) = split(url);
    // The error of the parser may quote the URL, and so the password.
    let mut config: Config = url.parse().map_err(|_| {
        DatabaseError::Unusable(
            "its URL does not read: it is postgres://USER:PASSWORD@HOST:PORT/DATABASE?OPTIONS, with what is special \
             in a URL percent-encoded, and with no options but libpq's usual ones"
                .to_owned(),
        )
    })?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        let problem = "its URL names no host: it is postgres://USER:PASSWORD@HOST:PORT/DATABASE";
        return Err(DatabaseError::Unusable(problem.to_owned()));
    }
    let mode = match config.get_ssl_mode() {
        SslMode::Disable => SslMode::Disable,
        SslMode::Prefer if is_here(&config) => SslMode::Disable,
        _ => SslMode::Require,
    };
    config.ssl_mode(mode);
    let tls = if mode == SslMode::Require { Some(client(roots.as_deref())?) } else { None };
    Ok((config, Tls(tls)))
}

/// Removes from a URL the parameters that the driver does not know: `sslrootcert`, and
/// `verify-full`, which `require` means here.
fn split(url: &str) -> (String, Option<String>) {
    let Some((base, options)) = url.split_once('?') else { return (url.to_owned(), None) };
    let mut kept = Vec::new();
    let mut roots = None;
    for option in options.split('&') {
        match option.split_once('=') {
            Some(("sslrootcert", path)) => {
                roots = Some(percent_decode_str(path).decode_utf8_lossy().into_owned());
            }
            Some(("sslmode", "verify-full")) => kept.push("sslmode=require"),
            _ => kept.push(option),
        }
    }
    let options = kept.join("&");
    (if options.is_empty() { base.to_owned() } else { format!("{base}?{options}") }, roots)
}

/// Returns whether all servers that a URL names are on this machine.
fn is_here(config: &Config) -> bool {
    // `hostaddr` takes precedence over names.
    match config.get_hostaddrs() {
        [] => config.get_hosts().iter().all(is_host_here),
        addresses => addresses.iter().all(IpAddr::is_loopback),
    }
}

fn is_host_here(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

/// Uses ring, as all of Marquetry does.
fn client(roots: Option<&str>) -> Result<Arc<ClientConfig>, DatabaseError> {
    let store = match roots {
        None => webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect(),
        Some(path) => read_roots(path).map_err(|why| {
            DatabaseError::Unusable(format!("sslrootcert {path:?} cannot be used: {why}"))
        })?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let client = client.map_err(|error| DatabaseError::engine(error.to_string()))?;
    Ok(Arc::new(client.with_root_certificates(store).with_no_client_auth()))
}

fn read_roots(path: &str) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    let pem = std::fs::read(path).map_err(|error| error.to_string())?;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        store.add(certificate).map_err(|error| error.to_string())?;
    }
    if store.is_empty() {
        return Err("it has no certificate".to_owned());
    }
    Ok(store)
}

// `tokio-postgres-rustls` 0.13 does the same and binds the channel besides, for which it parses
// certificates: seven more crates (`x509-cert`, `der`, `spki`, a second `const-oid` …) instead of
// the 60 lines below.
/// The TLS configuration; None without TLS.
#[derive(Clone)]
pub(super) struct Tls(Option<Arc<ClientConfig>>);

/// TLS to one server.
pub(super) struct Connector(Option<(Arc<ClientConfig>, ServerName<'static>)>);

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Stream;
    type TlsConnect = Connector;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> Result<Connector, Self::Error> {
        // Also called without TLS, with a host that may be no valid name.
        let Some(client) = self.0.clone() else { return Ok(Connector(None)) };
        Ok(Connector(Some((client, ServerName::try_from(host.to_owned())?))))
    }
}

impl TlsConnect<Socket> for Connector {
    type Stream = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let Some((client, server)) = self.0 else {
                return Err(io::Error::other("this server does not support TLS"));
            };
            let connector = tokio_rustls::TlsConnector::from(client);
            Ok(Stream(connector.connect(server, socket).await?))
        })
    }
}

/// A TLS connection.
pub(super) struct Stream(tokio_rustls::client::TlsStream<Socket>);

impl TlsStream for Stream {
    /// Uses no channel binding: the check of the certificate prevents a man in the middle.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_machines_are_spoken_to_by_tls() {
        fn by_tls(address: &str) -> bool {
            let url = format!("postgres://u:p@{address}");
            let (config, _) = read(&url).unwrap_or_else(|error| panic!("{url}: {error:?}"));
            config.get_ssl_mode() == SslMode::Require
        }
        for here in [
            "127.0.0.2:1/x",
            "localhost/x",
            "[::1]/x",
            "%2Fnowhere/x",
            "127.0.0.1/x?sslmode=prefer",
        ] {
            assert!(!by_tls(here), "{here}");
        }
        // Linux treats the last but one as an address of this machine, too.
        for there in [
            "192.0.2.1/x",
            "db.invalid/x",
            "127.0.0.1,db.invalid/x",
            "[2001:db8::1]/x",
            "127.0.0.1/x?hostaddr=192.0.2.1",
            "db.invalid/x?sslmode=prefer",
            "0.0.0.0/x",
            "localhost/x?sslmode=require",
        ] {
            assert!(by_tls(there), "{there}");
        }
        assert!(by_tls("localhost/x?application_name=a&sslmode=verify-full"));
        assert!(!by_tls("db.invalid/x?sslmode=disable"));
        for refused in ["verify-ca", "allow", "x"] {
            assert!(read(&format!("postgres://u:p@localhost/x?sslmode={refused}")).is_err());
        }
    }

    #[test]
    fn roots_are_taken_from_the_url() {
        let url = "postgres://u:p@h/x?a=b&sslrootcert=/a%20b.pem&c=d";
        assert_eq!(
            split(url),
            ("postgres://u:p@h/x?a=b&c=d".to_owned(), Some("/a b.pem".to_owned()))
        );
        assert_eq!(
            split("postgres://h/x?sslrootcert=a"),
            ("postgres://h/x".to_owned(), Some("a".to_owned()))
        );
        let error =
            read("postgres://u:secret@db.invalid/x?sslrootcert=/nowhere.pem").err().unwrap();
        let DatabaseError::Unusable(why) = error else { panic!("{error:?}") };
        assert!(why.starts_with("sslrootcert \"/nowhere.pem\" cannot be used: "), "{why}");
    }
}
