//! URLs of a server: as configured, and in its answers, which must have the same origin.

use http::{Uri, uri::Authority};

use crate::server_url::check_port;

/// Splits a URL into the URL without user and password, and these two. The connection pool of
/// hyper-util logs the host of a URL with them.
///
/// # Errors
/// Returns an error if the URL has no valid host.
pub(super) fn without_user(uri: &Uri) -> Result<(Uri, Option<String>), http::Error> {
    let authority = uri.authority().map_or("", Authority::as_str);
    let Some((user, host)) = authority.rsplit_once('@') else { return Ok((uri.clone(), None)) };
    let mut parts = uri.clone().into_parts();
    parts.authority = Some(host.parse::<Authority>()?);
    Ok((Uri::from_parts(parts)?, Some(user.to_owned())))
}

/// Resolves `reference` against `base`. The result must have the same origin: otherwise a server
/// could direct the client's headers to another server.
///
/// # Errors
/// Returns an error with the reason, as a fragment that follows "address that".
pub(super) fn resolved(base: &Uri, reference: &str) -> Result<Uri, &'static str> {
    const NO_URL: &str = "is not a URL";
    const FOREIGN: &str = "is of another origin";
    let reference = reference.split('#').next().unwrap_or_default();
    // Programs disagree about whether a backslash is a slash.
    if reference.contains(['\\', '\t', '\r', '\n', ' ']) {
        return Err(NO_URL);
    }
    let scheme = base.scheme_str().ok_or(NO_URL)?;
    let authority = base.authority().ok_or(NO_URL)?;
    let is_absolute = reference.find(':').is_some_and(|colon| {
        let name = &reference[..colon];
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    });
    let absolute = match (is_absolute, reference.strip_prefix("//")) {
        (true, _) => Some(reference.to_owned()),
        (false, Some(rest)) => Some(format!("{scheme}://{rest}")),
        (false, None) => None,
    };
    let path = match absolute {
        Some(absolute) => {
            let absolute: Uri = absolute.parse().map_err(|_| NO_URL)?;
            check_port(&absolute).map_err(|_| NO_URL)?;
            if !is_same_origin(base, &absolute) {
                return Err(FOREIGN);
            }
            absolute.path_and_query().map_or("/", |path| path.as_str()).to_owned()
        }
        None => relative(base, reference),
    };
    // The origin as configured.
    let (path, query) = match path.split_once('?') {
        Some((path, query)) => (path, format!("?{query}")),
        None => (&*path, String::new()),
    };
    let path = without_dots(path);
    Uri::builder()
        .scheme(scheme)
        .authority(authority.clone())
        .path_and_query(format!("{path}{query}"))
        .build()
        .map_err(|_| NO_URL)
}

/// Returns whether both URLs have the same scheme, host and port. A missing port is the default of
/// the scheme. Hosts compare without case.
fn is_same_origin(base: &Uri, other: &Uri) -> bool {
    // Another user is another identity.
    let has_user = other.authority().is_some_and(|it| it.as_str().contains('@'));
    base.scheme_str() == other.scheme_str()
        && base.host().is_some()
        && host(base) == host(other)
        && port(base) == port(other)
        && !has_user
}

fn host(uri: &Uri) -> Option<String> {
    uri.host().map(|host| host.trim_end_matches('.').to_ascii_lowercase())
}

fn port(uri: &Uri) -> Option<u16> {
    uri.port_u16().or(match uri.scheme_str() {
        Some("http") => Some(80),
        Some("https") => Some(443),
        _ => None,
    })
}

fn relative(base: &Uri, reference: &str) -> String {
    if reference.starts_with('/') {
        return reference.to_owned();
    }
    let folder = base.path().rfind('/').map_or("/", |slash| &base.path()[..=slash]);
    match reference {
        "" => base.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
        query if query.starts_with('?') => format!("{}{query}", base.path()),
        name => format!("{folder}{name}"),
    }
}

/// Returns a path without `.` and `..` (RFC 3986, section 5.2.4).
fn without_dots(path: &str) -> String {
    let mut kept = Vec::new();
    let mut ends_in_folder = false;
    for part in path.split('/').skip(1) {
        ends_in_folder = matches!(part, "." | "..");
        match part {
            "." => {}
            ".." => _ = kept.pop(),
            part => kept.push(part),
        }
    }
    let end = if ends_in_folder && !kept.is_empty() { "/" } else { "" };
    format!("/{}{end}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_split_from_addresses() {
        for (url, address, user) in [
            ("http://h:1/p?q", "http://h:1/p?q", None),
            ("https://me:a%40b@h:1/p@q?k=@", "https://h:1/p@q?k=@", Some("me:a%40b")),
            ("http://me@[::1]:1", "http://[::1]:1/", Some("me")),
        ] {
            let (found, of) = without_user(&url.parse().unwrap()).unwrap();
            assert_eq!((&*found.to_string(), of.as_deref()), (address, user), "{url}");
        }
    }

    #[test]
    fn addresses_stay_with_their_origin() {
        let base = "http://127.0.0.1:1/a/sse?x=/y";
        for (base, address, want) in [
            (base, "/messages?id=1", Some("http://127.0.0.1:1/messages?id=1")),
            (base, "messages", Some("http://127.0.0.1:1/a/messages")),
            (base, "../m?a=../b", Some("http://127.0.0.1:1/m?a=../b")),
            (base, "../../../m", Some("http://127.0.0.1:1/m")),
            (base, "?id=1", Some("http://127.0.0.1:1/a/sse?id=1")),
            (base, "http://127.0.0.1:1/m", Some("http://127.0.0.1:1/m")),
            (base, "//127.0.0.1:1/m", Some("http://127.0.0.1:1/m")),
            (
                base,
                "/m?next=http://evil.example/",
                Some("http://127.0.0.1:1/m?next=http://evil.example/"),
            ),
            (base, "http://127.0.0.1:12/m", None),
            (base, "http://127.0.0.1:1.evil.example/m", None),
            (base, "http://127.0.0.1:1@evil.example/m", None),
            (base, "http://user@127.0.0.1:1/m", None),
            (base, "https://127.0.0.1:1/m", None),
            (base, "//evil.example/m", None),
            (base, "/\\\\evil.example/m", None),
            (base, "javascript:alert(1)", None),
            ("http://h", "/m", Some("http://h/m")),
            ("http://h", "http://h:65616/m", None),
            (
                "https://Host.example/sse",
                "https://host.example:443/m",
                Some("https://Host.example/m"),
            ),
            ("http://h.example:80/sse", "HTTP://H.EXAMPLE/m", Some("http://h.example:80/m")),
            ("https://h.example/sse", "https://h.example:8443/m", None),
        ] {
            let found = resolved(&base.parse().unwrap(), address).ok().map(|uri| uri.to_string());
            assert_eq!(found.as_deref(), want, "{base} {address}");
        }
    }
}
