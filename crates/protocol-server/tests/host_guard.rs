//! Checks of `Host` and `Origin`.

use http::{HeaderMap, Request, Version, header};
use marquetry_protocol_server::http::{HostGuard, Refusal};

#[test]
fn loopback_and_named_hosts_are_allowed() {
    let guard = HostGuard::loopback()
        .and_hosts(["Tools.example:8443".to_owned(), "any.example".to_owned()])
        .and_origins(["https://App.example/".to_owned()]);
    for host in [
        "localhost",
        "LOCALHOST:3001",
        "127.0.0.1:1",
        "127.8.8.8",
        "[::1]",
        "[::1]:80",
        "tools.example:8443",
        "any.example:9",
    ] {
        assert_eq!(guard.check(&headers(host, None)), Ok(()), "{host}");
    }
    for host in [
        "",
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "tools.example",
        "128.0.0.1",
        "localhost:x",
        "::1",
    ] {
        assert_eq!(
            guard.check(&headers(host, None)),
            Err(Refusal::Host(host.to_owned())),
            "{host}"
        );
    }
    for origin in ["http://localhost:5173", "https://127.0.0.1", "https://app.example"] {
        assert_eq!(guard.check(&headers("localhost", Some(origin))), Ok(()), "{origin}");
    }
    for origin in [
        "null",
        "",
        "https://evil.example",
        "file://localhost",
        "http://localhost.evil.example",
        "https://app.example:1",
    ] {
        assert_eq!(
            guard.check(&headers("localhost", Some(origin))),
            Err(Refusal::Origin(origin.to_owned())),
            "{origin}"
        );
    }
}

#[test]
fn headers_may_be_missing_or_repeated() {
    let guard = HostGuard::loopback();
    let local = "http://localhost";
    assert_eq!(guard.check(&headers_of(&["localhost"], &[])), Ok(()));
    assert_eq!(guard.check(&headers_of(&["localhost"], &[local])), Ok(()));
    assert_eq!(guard.check(&headers_of(&[], &[])).unwrap_err(), Refusal::Host(String::new()));
    let twice = guard.check(&headers_of(&["localhost", "localhost"], &[])).unwrap_err();
    assert_eq!(twice, Refusal::Host("localhost, and another".to_owned()));
    let twice = guard.check(&headers_of(&["localhost"], &[local, local])).unwrap_err();
    assert_eq!(twice, Refusal::Origin("several at once".to_owned()));

    let mut request = Request::post("http://localhost/mcp").version(Version::HTTP_2);
    *request.headers_mut().unwrap() = headers_of(&["localhost", "localhost"], &[local]);
    let mut request = request.body(()).unwrap();
    assert_eq!(guard.check_request(&request), Ok(()));
    *request.headers_mut() = headers_of(&["localhost"], &[local, local]);
    assert!(guard.check_request(&request).is_err());
}

#[test]
fn over_http2_the_authority_is_the_host() {
    assert_eq!(check_http2("http://127.0.0.1:1/mcp", None), Ok(()));
    assert_eq!(check_http2("http://127.0.0.1:1/mcp", Some("127.0.0.1:1")), Ok(()));
    let evil = Refusal::Host("evil.example".to_owned());
    assert_eq!(check_http2("http://evil.example/mcp", None), Err(evil.clone()));
    assert_eq!(check_http2("/mcp", Some("evil.example")), Err(evil));
    assert_eq!(check_http2("/mcp", None).unwrap_err().to_string(), "the Host header is missing");
    let both = Refusal::Host("localhost, and another".to_owned());
    assert_eq!(check_http2("http://evil.example/mcp", Some("localhost")), Err(both));
}

#[test]
fn over_http1_a_whole_url_is_the_host_too() {
    let check = |uri: &str| {
        let request = Request::post(uri).header(header::HOST, "localhost").body(()).unwrap();
        HostGuard::loopback().check_request(&request)
    };
    assert_eq!(check("http://localhost/mcp"), Ok(()));
    let both = Refusal::Host("localhost, and another".to_owned());
    assert_eq!(check("http://evil.example/mcp"), Err(both));
}

fn check_http2(uri: &str, host: Option<&str>) -> Result<(), Refusal> {
    let mut request = Request::post(uri).version(Version::HTTP_2).body(()).unwrap();
    if let Some(host) = host {
        request.headers_mut().insert(header::HOST, host.parse().unwrap());
    }
    HostGuard::loopback().check_request(&request)
}

fn headers(host: &str, origin: Option<&str>) -> HeaderMap {
    headers_of(&[host], origin.as_slice())
}

fn headers_of(hosts: &[&str], origins: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for host in hosts {
        headers.append(header::HOST, host.parse().unwrap());
    }
    for origin in origins {
        headers.append(header::ORIGIN, origin.parse().unwrap());
    }
    headers
}
