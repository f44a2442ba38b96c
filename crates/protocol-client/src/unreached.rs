//! Why an address of a server cannot be reached, as data for programs that advise people.

use std::{error::Error, fmt, io, iter::successors};

/// Why an address cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnreachedKind {
    /// The name of the host has no address.
    Name,
    /// No program listens on the port.
    Refused,
    /// The certificate of the server is not trusted, is expired, or is for another name.
    Certificate,
    /// The other side does not speak TLS, or none of our versions of it.
    Tls,
    /// Any other cause, such as a lost connection.
    Other,
}

/// The source of [`ClientError::Io`](crate::ClientError::Io) for an address that cannot be reached.
#[derive(Debug)]
pub(crate) struct Unreached {
    pub(crate) kind: UnreachedKind,
    text: String,
}

impl Unreached {
    /// Classifies the error of a connection.
    pub(crate) fn of(error: &(dyn Error + 'static)) -> Self {
        let kind = chain(error).find_map(kind_of).unwrap_or(UnreachedKind::Other);
        let text = chain(error).last().map(ToString::to_string).unwrap_or_default();
        Self { kind, text }
    }
}

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for Unreached {}

/// Returns an error and its causes.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(Some(error), |&error| error.source())
}

fn kind_of(error: &(dyn Error + 'static)) -> Option<UnreachedKind> {
    // The type of hyper-util's error is private.
    if error.to_string().starts_with("dns error") {
        return Some(UnreachedKind::Name);
    }
    #[cfg(feature = "tls")]
    if let Some(error) = error.downcast_ref::<rustls::Error>() {
        return Some(match error {
            rustls::Error::InvalidCertificate(_) => UnreachedKind::Certificate,
            _ => UnreachedKind::Tls,
        });
    }
    let error = error.downcast_ref::<io::Error>()?;
    if error.kind() == io::ErrorKind::ConnectionRefused {
        return Some(UnreachedKind::Refused);
    }
    // The source of such an error is that of the wrapped one, which the chain would leave out.
    kind_of(error.get_ref()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_errors_are_classified() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(Unreached::of(&refused).kind, UnreachedKind::Refused);
        let wrapped = io::Error::other(io::Error::other(refused));
        assert_eq!(Unreached::of(&wrapped).kind, UnreachedKind::Refused);
        let dns = io::Error::other("dns error");
        assert_eq!(Unreached::of(&dns).kind, UnreachedKind::Name);
        let other = Unreached::of(&io::Error::other("broken"));
        assert_eq!((other.kind, other.to_string().as_str()), (UnreachedKind::Other, "broken"));
    }

    #[cfg(feature = "tls")]
    #[test]
    fn certificates_are_told_apart_from_other_errors_of_tls() {
        let unknown = rustls::CertificateError::UnknownIssuer;
        for (error, want) in [
            (rustls::Error::InvalidCertificate(unknown), UnreachedKind::Certificate),
            (rustls::Error::HandshakeNotComplete, UnreachedKind::Tls),
        ] {
            let wrapped = io::Error::new(io::ErrorKind::InvalidData, error);
            assert_eq!(Unreached::of(&io::Error::other(wrapped)).kind, want);
        }
    }
}
