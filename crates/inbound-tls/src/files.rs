//! The files of a certificate, its key and the authorities of clients.

use std::{
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustls::{
    RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    server::WebPkiClientVerifier,
    version::{TLS12, TLS13},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};

use crate::validity::Validity;

/// The files that TLS needs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsFiles {
    /// The certificate of the server in PEM, followed by those of its authorities.
    pub certificate: PathBuf,
    /// The private key of the certificate in PEM.
    pub key: PathBuf,
    /// The certificates of the authorities whose clients may connect. `None`: every client may.
    pub client_ca: Option<PathBuf>,
}

impl TlsFiles {
    /// Creates the files of a server that needs no certificates of clients.
    #[must_use]
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self { certificate: certificate.into(), key: key.into(), client_ca: None }
    }

    /// Requires a certificate of one of these authorities from each client.
    #[must_use]
    pub fn with_client_ca(self, client_ca: impl Into<PathBuf>) -> Self {
        Self { client_ca: Some(client_ca.into()), ..self }
    }
}

/// Why the files cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{path:?} cannot be read: {problem}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// A file has no certificate.
    #[error("{path:?} has no certificate in PEM (\"BEGIN CERTIFICATE\")")]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The file of the key has no private key.
    #[error("{path:?} has no private key in PEM without a password (\"BEGIN PRIVATE KEY\")")]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// The certificate and its key do not form a pair.
    #[error(
        "the certificate {certificate:?} and the key {key:?} cannot be used together: {problem}"
    )]
    Mismatched {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// The problem.
        problem: String,
    },
    /// The certificate is malformed.
    #[error("{path:?} has an invalid certificate: {problem}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// The certificate has expired.
    #[error("the certificate {path:?} expired {} days ago", .seconds_ago / 86_400)]
    Expired {
        /// The file.
        path: PathBuf,
        /// The time since then.
        seconds_ago: u64,
    },
    /// The certificate is not valid yet.
    #[error("the certificate {path:?} is not valid yet; is the clock of this machine right?")]
    NotYetValid {
        /// The file.
        path: PathBuf,
    },
}

/// The bytes of the files.
pub(crate) struct TlsBytes {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl TlsBytes {
    pub(crate) fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        Ok(Self {
            certificate: read(&files.certificate)?,
            key: read(&files.key)?,
            client_ca: files.client_ca.as_deref().map(read).transpose()?,
        })
    }

    /// Returns a hash of all bytes.
    pub(crate) fn hash(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        let client_ca = self.client_ca.as_deref().unwrap_or_default();
        for part in [&self.certificate[..], &self.key, client_ca] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        hasher.finalize()
    }

    /// Returns the settings of new connections, and when the certificate ends.
    pub(crate) fn config(
        &self,
        files: &TlsFiles,
        now: SystemTime,
    ) -> Result<(ServerConfig, SystemTime), TlsError> {
        let chain = certificates(&files.certificate, &self.certificate)?;
        let not_after = check_validity(&files.certificate, &chain[0], now)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|_| TlsError::NoKey { path: files.key.clone() })?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|error| mismatched(files, &error))?;
        let builder = match (&files.client_ca, &self.client_ca) {
            (Some(path), Some(bytes)) => {
                let verifier = client_verifier(path, bytes, provider)?;
                builder.with_client_cert_verifier(verifier)
            }
            _ => builder.with_no_client_auth(),
        };
        let mut config =
            builder.with_single_cert(chain, key).map_err(|error| mismatched(files, &error))?;
        // The strongest suite of the server wins; auditors look for it.
        config.ignore_client_order = true;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok((config, not_after))
    }
}

fn mismatched(files: &TlsFiles, error: &rustls::Error) -> TlsError {
    let problem = match error {
        rustls::Error::InconsistentKeys(_) => "they do not form a pair".to_owned(),
        error => error.to_string(),
    };
    TlsError::Mismatched { certificate: files.certificate.clone(), key: files.key.clone(), problem }
}

fn client_verifier(
    path: &Path,
    bytes: &[u8],
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(path, bytes)? {
        roots.add(authority).map_err(|error| invalid(path, &error))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| invalid(path, &error))
}

fn invalid(path: &Path, error: &dyn std::fmt::Display) -> TlsError {
    TlsError::Invalid { path: path.to_owned(), problem: error.to_string() }
}

/// Returns the certificates of a file; at least one.
fn certificates(path: &Path, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    let certificates = certificates.map_err(|error| invalid(path, &error))?;
    if certificates.is_empty() {
        return Err(TlsError::NoCertificate { path: path.to_owned() });
    }
    Ok(certificates)
}

/// Returns when a certificate ends.
fn check_validity(
    path: &Path,
    certificate: &CertificateDer<'_>,
    now: SystemTime,
) -> Result<SystemTime, TlsError> {
    let validity =
        Validity::of(certificate).ok_or_else(|| invalid(path, &"its validity cannot be read"))?;
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
    if now > validity.not_after {
        let seconds_ago = now.abs_diff(validity.not_after);
        return Err(TlsError::Expired { path: path.to_owned(), seconds_ago });
    }
    if now < validity.not_before {
        return Err(TlsError::NotYetValid { path: path.to_owned() });
    }
    Ok(UNIX_EPOCH + Duration::from_secs(u64::try_from(validity.not_after).unwrap_or(0)))
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    const MAX_BYTES: u64 = 1 << 20;
    // A pipe without a writer would block.
    if !fs::metadata(path).map_err(|error| unreadable(path, error))?.is_file() {
        return Err(unreadable(path, "it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| unreadable(path, error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(unreadable(path, format!("it has more than {MAX_BYTES} bytes")));
    }
    Ok(bytes)
}

fn unreadable(path: &Path, problem: impl ToString) -> TlsError {
    TlsError::Unreadable { path: path.to_owned(), problem: problem.to_string() }
}
