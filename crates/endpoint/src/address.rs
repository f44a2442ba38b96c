//! Base URLs.

use std::net::IpAddr;

use reqwest::Url;

/// Whether requests may leave this machine without TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlainHttp {
    /// Plain `http:` reaches loopback addresses only.
    #[default]
    LoopbackOnly,
    /// Plain `http:` reaches any address; the network can then read texts and keys.
    Anywhere,
}

/// Why a base URL is rejected. No variant shows the URL, which may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BaseUrlError {
    /// Not an absolute URL of scheme `http` or `https`.
    #[error("the base URL is not an http: or https: URL")]
    Scheme,
    /// The URL contains a user or a password, which errors would show.
    #[error("the base URL contains a user or a password; use the setting for the key")]
    Credentials,
    /// A query or a fragment, to which no path can be appended.
    #[error("the base URL has a query or a fragment")]
    Query,
    /// Plain `http:` to another machine.
    #[error(
        "the base URL is plain http: to another machine, so others on the network can read texts and key; \
         use https:, or allow it (allow_plain_http)"
    )]
    PlainHttp,
}

/// Parses a base URL, such as `https://api.openai.com/v1`. The result ends with `/`, so that
/// [`Url::join`] appends.
///
/// ```
/// use marquetry_endpoint::{BaseUrlError, PlainHttp, base_url};
///
/// let url = base_url("https://api.openai.com/v1", PlainHttp::LoopbackOnly)?;
/// assert_eq!(url.join("embeddings").unwrap().as_str(), "https://api.openai.com/v1/embeddings");
/// let refused = base_url("http://models.example/v1", PlainHttp::LoopbackOnly);
/// assert_eq!(refused, Err(BaseUrlError::PlainHttp));
/// # Ok::<(), BaseUrlError>(())
/// ```
///
/// # Errors
///
/// Returns an error if the URL cannot be the base of an API; [`BaseUrlError`] has the reasons.
pub fn base_url(text: &str, plain: PlainHttp) -> Result<Url, BaseUrlError> {
    let url = Url::parse(&format!("{}/", text.trim_end_matches('/')))
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .ok_or(BaseUrlError::Scheme)?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(BaseUrlError::Credentials);
    }
    if text.contains(['?', '#']) {
        return Err(BaseUrlError::Query);
    }
    if url.scheme() == "http" && !is_loopback(&url) && plain == PlainHttp::LoopbackOnly {
        return Err(BaseUrlError::PlainHttp);
    }
    Ok(url)
}

/// Returns whether the host of a URL is `localhost` or a loopback address.
pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_are_checked() {
        #[track_caller]
        fn check(text: &str, want: Result<&str, BaseUrlError>) {
            let url = base_url(text, PlainHttp::LoopbackOnly);
            assert_eq!(url.as_ref().map(Url::as_str), want.as_ref().copied(), "{text}");
        }
        check("https://a.b/v1", Ok("https://a.b/v1/"));
        check("https://a.b/v1//", Ok("https://a.b/v1/"));
        for local in
            ["http://127.0.0.1:1/", "http://[::1]:1/", "http://localhost:1/", "http://127.8.9.1/"]
        {
            check(local, Ok(local));
        }
        for none in ["", "a.b", "ftp://a.b", "http://", "mailto:a@b"] {
            check(none, Err(BaseUrlError::Scheme));
        }
        for plain in ["http://a.b/v1", "http://localhost.a.b", "http://128.0.0.1"] {
            check(plain, Err(BaseUrlError::PlainHttp));
            assert!(base_url(plain, PlainHttp::Anywhere).is_ok());
        }
        for credentials in ["https://user@a.b", "https://:key@a.b"] {
            check(credentials, Err(BaseUrlError::Credentials));
        }
        for query in ["https://a.b?key=1", "https://a.b#x"] {
            check(query, Err(BaseUrlError::Query));
        }
    }
}
