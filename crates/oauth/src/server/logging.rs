//! Refused tokens in the log.

use std::sync::Arc;

use async_trait::async_trait;
use http::{header, request::Parts};
use marquetry_protocol::{
    auth::Challenge,
    server::{
        Principal,
        http::{Authenticator, ConnectionInfo, Denial},
    },
};
use marquetry_rate_limit::LogLimit;

/// Logs the tokens that another authenticator refuses: at most one each second, after a burst of
/// ten. A request without a token is how clients ask for the challenge, and is not logged.
pub struct LoggingAuthenticator {
    inner: Arc<dyn Authenticator>,
    logged: LogLimit,
}

impl LoggingAuthenticator {
    /// Logs what `inner` refuses.
    #[must_use]
    pub fn new(inner: Arc<dyn Authenticator>) -> Self {
        Self { inner, logged: LogLimit::new(1) }
    }
}

#[async_trait]
impl Authenticator for LoggingAuthenticator {
    async fn authenticate(&self, request: &Parts) -> Result<Arc<Principal>, Denial> {
        let denial = match self.inner.authenticate(request).await {
            Err(denial) if request.headers.contains_key(header::AUTHORIZATION) => denial,
            other => return other,
        };
        if let Some(suppressed) = self.logged.admit() {
            let connection = request.extensions.get::<ConnectionInfo>();
            let address = connection.map(|connection| connection.address().to_string());
            let path = request.uri.path();
            let status = denial.status.as_u16();
            let problem = &denial.message;
            tracing::warn!(address, path, status, problem, suppressed, "a token was refused");
        }
        Err(denial)
    }

    fn step_up(&self, scopes: &[String]) -> Challenge {
        self.inner.step_up(scopes)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use http::{Request, StatusCode};

    use super::*;

    struct Refusing;

    #[async_trait]
    impl Authenticator for Refusing {
        async fn authenticate(&self, _: &Parts) -> Result<Arc<Principal>, Denial> {
            let status = StatusCode::UNAUTHORIZED;
            let challenge = Challenge::new("Bearer");
            Err(Denial { status, challenge, message: "the token has expired".to_owned() })
        }
    }

    #[tokio::test]
    async fn refused_tokens_are_logged_at_a_bounded_rate_and_not_shown() {
        static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());
        struct Sink;
        impl std::io::Write for Sink {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                LOG.lock().unwrap().write(bytes)
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(|| Sink).finish();
        let _log = tracing::subscriber::set_default(subscriber);
        let authenticator = LoggingAuthenticator::new(Arc::new(Refusing));
        for authorization in [None, Some("Bearer hush")] {
            for _ in 0..1_000 {
                let request = Request::get("/mcp?key=hush");
                let request = match authorization {
                    Some(token) => request.header(header::AUTHORIZATION, token),
                    None => request,
                };
                let (head, ()) = request.body(()).unwrap().into_parts();
                assert!(authenticator.authenticate(&head).await.is_err());
            }
            let log = String::from_utf8(LOG.lock().unwrap().clone()).unwrap();
            let lines = log.lines().count();
            assert!(!log.contains("hush"), "{log}");
            if authorization.is_none() {
                assert_eq!(lines, 0, "{log}");
            } else {
                assert!((10..20).contains(&lines), "{lines} lines");
                assert!(log.contains("WARN") && log.contains("the token has expired"), "{log}");
            }
        }
    }
}
