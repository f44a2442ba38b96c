//! Handshakes with the newest certificate that could be used.

use std::{
    fmt, io,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::SystemTime,
};

use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::files::{TlsBytes, TlsError, TlsFiles};

/// TLS of a server. Its files can be read again at any time.
pub struct Tls {
    files: TlsFiles,
    current: RwLock<Current>,
    /// The last attempt to read the files.
    attempt: Mutex<Attempt>,
}

struct Current {
    config: Arc<ServerConfig>,
    not_after: SystemTime,
}

struct Attempt {
    /// The hash of the bytes that were read; `None` if they could not be read.
    hash: Option<blake3::Hash>,
    problem: Option<TlsError>,
}

/// What [`Tls::refresh`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Refresh {
    /// The files, or the reason why they cannot be used, are the same as before.
    Unchanged,
    /// New connections use the new files.
    Replaced,
    /// The new files cannot be used; the old certificate stays.
    Failed(TlsError),
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// Returns an error if the files cannot be used.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let bytes = TlsBytes::read(&files)?;
        let (config, not_after) = bytes.config(&files, SystemTime::now())?;
        let config = Arc::new(config);
        Ok(Self {
            files,
            current: RwLock::new(Current { config, not_after }),
            attempt: Mutex::new(Attempt { hash: Some(bytes.hash()), problem: None }),
        })
    }

    /// Reads the files again, and uses them for new connections if they can be used.
    pub fn refresh(&self) -> Refresh {
        self.refresh_at(SystemTime::now())
    }

    fn refresh_at(&self, now: SystemTime) -> Refresh {
        // Held to the end: an older pair never replaces a newer one.
        let mut attempt = self.attempt.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = TlsBytes::read(&self.files);
        let hash = bytes.as_ref().ok().map(TlsBytes::hash);
        if hash.is_some() && hash == attempt.hash {
            return Refresh::Unchanged;
        }
        attempt.hash = hash;
        match bytes.and_then(|bytes| bytes.config(&self.files, now)) {
            Ok((config, not_after)) => {
                let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
                *current = Current { config: Arc::new(config), not_after };
                attempt.problem = None;
                Refresh::Replaced
            }
            Err(error) if attempt.problem.as_ref() == Some(&error) => Refresh::Unchanged,
            Err(error) => {
                attempt.problem = Some(error.clone());
                Refresh::Failed(error)
            }
        }
    }

    /// Returns why the files as they are now cannot be used; an older certificate is in use then.
    #[must_use]
    pub fn problem(&self) -> Option<TlsError> {
        self.attempt.lock().unwrap_or_else(PoisonError::into_inner).problem.clone()
    }

    /// Returns when the certificate in use expires.
    #[must_use]
    pub fn not_after(&self) -> SystemTime {
        self.current.read().unwrap_or_else(PoisonError::into_inner).not_after
    }

    /// Returns the files.
    #[must_use]
    pub fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// Waits for the handshake of a client. The caller limits the time.
    ///
    /// # Errors
    ///
    /// Returns an error if the client ends the connection, shares no version or suite, or has no
    /// certificate that is needed.
    pub async fn accept(&self, socket: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let config = self.current.read().unwrap_or_else(PoisonError::into_inner).config.clone();
        TlsAcceptor::from(config).accept(socket).await
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, process::Command, time::Duration};

    use super::*;

    /// Makes a certificate of its own authority and a key, with the real program.
    fn make_pair(folder: &Path, name: &str) {
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
            .args(["-nodes", "-days", "30", "-subj", "/CN=localhost"])
            .args(["-addext", "subjectAltName=DNS:localhost", "-keyout"])
            .arg(folder.join(format!("{name}.key")))
            .arg("-out")
            .arg(folder.join(format!("{name}.pem")))
            .output()
            .expect("openssl is installed (apt-get install openssl)");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            for name in ["a", "b"] {
                make_pair(folder.path(), name);
            }
            let folder = Self(folder);
            folder.copy("a.pem", "c.pem");
            folder.copy("a.key", "c.key");
            folder
        }

        fn copy(&self, from: &str, to: &str) {
            fs::copy(self.0.path().join(from), self.0.path().join(to)).unwrap();
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.0.path().join(name), text).unwrap();
        }

        fn files(&self) -> TlsFiles {
            TlsFiles::new(self.0.path().join("c.pem"), self.0.path().join("c.key"))
        }
    }

    fn failed(refresh: Refresh) -> String {
        let Refresh::Failed(error) = refresh else { panic!("{refresh:?}") };
        error.to_string()
    }

    fn config_of(tls: &Tls) -> Arc<ServerConfig> {
        tls.current.read().unwrap().config.clone()
    }

    #[test]
    fn a_pair_that_cannot_be_used_leaves_the_old_one() {
        let folder = Folder::new();
        let tls = Tls::load(folder.files()).unwrap();
        let old = config_of(&tls);
        assert_eq!(tls.refresh(), Refresh::Unchanged);
        let left = tls.not_after().duration_since(SystemTime::now()).unwrap();
        assert_eq!(left.as_secs().div_ceil(86_400), 30);

        folder.copy("b.pem", "c.pem");
        assert!(
            failed(tls.refresh()).ends_with("cannot be used together: they do not form a pair")
        );
        assert_eq!(tls.refresh(), Refresh::Unchanged, "it is reported once");
        assert!(tls.problem().is_some());
        for (name, text, want) in [
            ("c.pem", "no certificate", "has no certificate in PEM"),
            (
                "c.pem",
                "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                "its validity cannot be read",
            ),
            (
                "c.pem",
                "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
                "has an invalid certificate",
            ),
            ("c.key", "", "has an invalid certificate"),
        ] {
            folder.write(name, text);
            let refresh = tls.refresh();
            if name == "c.pem" {
                assert!(failed(refresh).contains(want), "{text}");
            }
        }
        folder.copy("b.pem", "c.pem");
        assert!(failed(tls.refresh()).contains("has no private key in PEM"));
        fs::remove_file(folder.0.path().join("c.key")).unwrap();
        assert!(failed(tls.refresh()).contains("cannot be read: No such file"));
        assert_eq!(tls.refresh(), Refresh::Unchanged);
        assert!(Arc::ptr_eq(&old, &config_of(&tls)));

        folder.copy("b.key", "c.key");
        assert_eq!(tls.refresh(), Refresh::Replaced);
        assert_eq!(tls.problem(), None);
        assert!(!Arc::ptr_eq(&old, &config_of(&tls)));
    }

    #[test]
    fn a_certificate_out_of_its_time_is_refused() {
        let folder = Folder::new();
        let tls = Tls::load(folder.files()).unwrap();
        folder.copy("b.pem", "c.pem");
        folder.copy("b.key", "c.key");
        let now = SystemTime::now();
        let later = now + Duration::from_hours(24 * 33);
        assert!(failed(tls.refresh_at(later)).ends_with("c.pem\" expired 3 days ago"));
        // The same bytes are judged again only when they change.
        folder.write("c.key", &(fs::read_to_string(folder.0.path().join("b.key")).unwrap() + "\n"));
        let early = now - Duration::from_hours(24);
        assert!(failed(tls.refresh_at(early)).contains("is not valid yet"));
    }

    #[test]
    fn authorities_of_clients_are_read_again() {
        let folder = Folder::new();
        let files = folder.files().with_client_ca(folder.0.path().join("ca.pem"));
        let missing = Tls::load(files.clone()).unwrap_err().to_string();
        assert!(missing.contains("ca.pem\" cannot be read"), "{missing}");
        folder.copy("a.pem", "ca.pem");
        let tls = Tls::load(files).unwrap();
        folder.copy("b.pem", "ca.pem");
        assert_eq!(tls.refresh(), Refresh::Replaced);
        folder.write("ca.pem", "");
        assert!(failed(tls.refresh()).contains("ca.pem\" has no certificate"));
    }
}
