//! Checks the URLs that a View asks the host to open.

/// Why a View may not open a URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The text is too long, or is not a URL with a scheme and something after it.
    #[error("Invalid URL")]
    Invalid,
    /// The scheme is not `http`, `https` or `mailto`.
    #[error("Policy violation: a View may open http:, https: and mailto: URLs, not {scheme}:")]
    Scheme {
        /// The scheme of the URL.
        scheme: String,
    },
    /// The URL has a user name, which can make it look like the URL of another host.
    #[error("Policy violation: a View may not open a URL with a user name")]
    UserName,
}

/// Maximum length of a URL, in bytes.
const MAX_BYTES: usize = 8 << 10;

/// Checks the URL of `ui/open-link`. Allows `http`, `https` and `mailto`. Refuses characters that a
/// browser interprets differently from what a person reads.
///
/// ```
/// use marquetry_apps_ext::host::check_link;
///
/// assert!(check_link("https://example.com/a?b#c").is_ok());
/// assert!(check_link("javascript:alert(1)").is_err());
/// assert!(check_link("https://bank.example@evil.example/").is_err());
/// ```
///
/// # Errors
/// Returns an error if the View may not open the URL.
pub fn check_link(url: &str) -> Result<(), LinkError> {
    // Browsers remove tabs and line ends from a URL, and treat a backslash as a slash.
    if url.len() > MAX_BYTES
        || url.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\')
    {
        return Err(LinkError::Invalid);
    }
    let (scheme, rest) = url.split_once(':').ok_or(LinkError::Invalid)?;
    let is_scheme = !scheme.is_empty()
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    if !is_scheme {
        return Err(LinkError::Invalid);
    }
    match scheme.to_ascii_lowercase().as_str() {
        "http" | "https" => check_authority(rest),
        "mailto" if rest.is_empty() => Err(LinkError::Invalid),
        "mailto" => Ok(()),
        other => Err(LinkError::Scheme { scheme: marquetry_protocol::shortened(other).to_owned() }),
    }
}

/// Checks the part of an `http` or `https` URL after its scheme: it must name a host, and no user.
fn check_authority(rest: &str) -> Result<(), LinkError> {
    let rest = rest.strip_prefix("//").ok_or(LinkError::Invalid)?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(LinkError::UserName);
    }
    let host = authority.split(':').next().unwrap_or_default();
    if host.is_empty() {
        return Err(LinkError::Invalid);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_links_are_allowed() {
        for url in ["http://a", "HTTPS://a.b:8/c?d=@#e", "https://[::1]/", "mailto:a@b.c"] {
            assert_eq!(check_link(url), Ok(()), "{url}");
        }
        for url in [
            "",
            "a",
            "https:a",
            "https:/a",
            "https://",
            "https:///a",
            "https://:80/",
            "https://a b",
            " https://a",
            "java\nscript:x",
            "https://a\\@b",
            "mailto:",
            "://a",
            "1 2:3",
            "https://a/\u{7f}",
        ] {
            assert_eq!(check_link(url), Err(LinkError::Invalid), "{url:?}");
        }
        for url in
            ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "ui://a", "blob:x"]
        {
            assert!(matches!(check_link(url), Err(LinkError::Scheme { .. })), "{url}");
        }
        assert_eq!(check_link("https://a@b"), Err(LinkError::UserName));
        assert_eq!(
            check_link(&format!("https://a/{}", "b".repeat(9_000))),
            Err(LinkError::Invalid)
        );
    }
}
