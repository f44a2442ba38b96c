//! The server speaks TLS, as OpenSSL sees it.

#![cfg(target_os = "linux")]

use std::{
    path::Path,
    process::{Command as Blocking, Stdio},
    time::{Duration, Instant, UNIX_EPOCH},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    process::Command,
};

use crate::{program::Program, support::within};

const TLS: &str = "[server.tls]\ncertificate = 'server.pem'\nkey = 'server.key'\n";

/// Makes an authority, and certificates of it for a server and a client.
fn make_certificates(folder: &Path) {
    fn openssl(folder: &Path, arguments: &[&str]) {
        let made = Blocking::new("openssl")
            .args(arguments)
            .current_dir(folder)
            .output()
            .expect("openssl is installed (apt-get install openssl)");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    let new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    let mut authority = vec!["req", "-x509", "-days", "30", "-subj", "/CN=authority"];
    authority.extend(new_key);
    authority.extend(["-keyout", "ca.key", "-out", "ca.pem"]);
    openssl(folder, &authority);
    std::fs::write(folder.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n").unwrap();
    for name in ["server", "second", "client"] {
        let mut request = vec!["req", "-subj", "/CN=localhost"];
        request.extend(new_key);
        let (key, signing, certificate) =
            (format!("{name}.key"), format!("{name}.csr"), format!("{name}.pem"));
        request.extend(["-keyout", &key, "-out", &signing]);
        openssl(folder, &request);
        let sign = ["x509", "-req", "-days", "20", "-CA", "ca.pem", "-CAkey", "ca.key"];
        let mut sign = sign.to_vec();
        sign.extend([
            "-CAcreateserial",
            "-extfile",
            "names",
            "-in",
            &signing,
            "-out",
            &certificate,
        ]);
        openssl(folder, &sign);
    }
}

fn address(program: &Program) -> String {
    program.url.strip_prefix("https://").unwrap().strip_suffix("/mcp").unwrap().to_owned()
}

/// Sends `GET /livez` by `openssl s_client` with these arguments. Returns whether the handshake
/// succeeded, and what was printed.
async fn client(program: &Program, arguments: &[&str]) -> (bool, String) {
    let mut client = Command::new("openssl")
        .args(["s_client", "-connect", &address(program), "-CAfile", "ca.pem", "-ign_eof"])
        .args(["-verify_return_error", "-servername", "localhost"])
        .args(arguments)
        .current_dir(program.path("."))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let request = "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    _ = client.stdin.take().unwrap().write_all(request.as_bytes()).await;
    let output = within(client.wait_with_output()).await.unwrap();
    let printed = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&printed).into_owned())
}

#[tokio::test]
async fn openssl_finds_current_versions_and_suites_alone() {
    let program = Program::start_with(TLS, make_certificates).await;
    assert!(program.url.starts_with("https://127.0.0.1:"), "{}", program.url);
    for (version, name) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        let (is_done, said) = client(&program, &[version, "-alpn", "http/1.1"]).await;
        assert!(is_done && said.contains("{\"status\":\"alive\"}"), "{said}");
        assert!(said.contains(&format!("New, {name}, Cipher is")), "{said}");
        assert!(said.contains("ALPN protocol: http/1.1"), "{said}");
        assert!(said.contains("Verification: OK"), "{said}");
    }
    // The client chooses HTTP/2, and then sends nothing of it.
    let (_, said) = client(&program, &["-alpn", "h2,http/1.1"]).await;
    assert!(said.contains("ALPN protocol: h2"), "{said}");
    for old in [
        &["-tls1"][..],
        &["-tls1_1"],
        &["-tls1_2", "-cipher", "AES128-SHA:AES256-SHA:AES128-GCM-SHA256"],
        &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA256:ECDHE-ECDSA-AES256-SHA"],
        &["-tls1_2", "-cipher", "NULL:aNULL:EXPORT:RC4:3DES:@SECLEVEL=0"],
        &["-alpn", "spdy/3"],
    ] {
        let (is_done, said) = client(&program, old).await;
        assert!(!is_done && !said.contains("alive"), "{old:?}: {said}");
    }
    program.stop().await;
}

#[tokio::test]
async fn clients_need_certificates_if_the_server_names_authorities() {
    let toml = format!("{TLS}client_ca = 'ca.pem'\n");
    let program = Program::start_with(&toml, make_certificates).await;
    let (_, said) = client(&program, &[]).await;
    assert!(!said.contains("alive"), "{said}");
    let (is_done, said) = client(&program, &["-cert", "client.pem", "-key", "client.key"]).await;
    assert!(is_done && said.contains("alive"), "{said}");
    program.stop().await;
}

#[tokio::test]
async fn a_client_that_never_finishes_its_handshake_delays_nobody() {
    let toml = format!("limits.max_head_ms = 700\nlimits.max_connections = 20\n{TLS}");
    let program = Program::start_with(&toml, make_certificates).await;
    let mut idle = Vec::new();
    for number in 0..30 {
        let mut stream = TcpStream::connect(address(&program)).await.unwrap();
        // Some begin a record, and never end it.
        if number % 2 == 0 {
            stream.write_all(&[0x16, 3, 1, 2, 0, 1]).await.unwrap();
        }
        idle.push(stream);
    }
    let began = Instant::now();
    let (is_done, said) = client(&program, &[]).await;
    assert!(is_done && said.contains("alive"), "{said}");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    for mut stream in idle {
        // The server closes it.
        let mut rest = Vec::new();
        _ = within(tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut rest)).await;
    }
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_handshake_fails_while_certificates_are_replaced() {
    let toml = format!("log.level = 'info'\n{TLS}");
    let program = Program::start_with(&toml, make_certificates).await;
    let serial = async || {
        let (is_done, said) = client(&program, &["-showcerts"]).await;
        assert!(is_done, "{said}");
        said.split("-----BEGIN CERTIFICATE-----").nth(1).unwrap()[..200].to_owned()
    };
    let first = serial().await;
    let handshakes = async {
        let mut count = 0;
        let end = Instant::now() + Duration::from_secs(9);
        while Instant::now() < end {
            let (is_done, said) = client(&program, &[]).await;
            assert!(is_done && said.contains("alive"), "{said}");
            count += 1;
        }
        count
    };
    let swaps = async {
        // A pair that does not match, then one that does.
        std::fs::copy(program.path("second.pem"), program.path("server.pem")).unwrap();
        program.signal("-HUP").await;
        program.logs("they do not form a pair").await;
        assert_eq!(serial().await, first);
        std::fs::remove_file(program.path("server.key")).unwrap();
        program.logs("cannot be read").await;
        assert_eq!(serial().await, first);
        std::fs::copy(program.path("second.key"), program.path("server.key")).unwrap();
        // Noticed within 2 s, without a signal.
        program.logs("new connections use the new certificate").await;
        assert_ne!(serial().await, first);
    };
    let (count, ()) = tokio::join!(handshakes, swaps);
    assert!(count > 20, "{count}");
    program.stop().await;
}

/// A scraper on this machine knows neither the name nor the authority of the certificate.
#[tokio::test]
async fn metrics_on_loopback_need_no_tls() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let metrics = free.local_addr().unwrap();
    drop(free);
    let toml = format!("{TLS}[metrics]\nlisten = '{metrics}'\n");
    let program = Program::start_with(&toml, make_certificates).await;
    let mut stream = TcpStream::connect(metrics).await.unwrap();
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("marquetry_build_info"));
    // The certificate ends in the future.
    let end = answer.split_once("\nmarquetry_tls_not_after_timestamp_seconds ").unwrap().1;
    let end: f64 = end.lines().next().unwrap().parse().unwrap();
    assert!(UNIX_EPOCH.elapsed().unwrap().as_secs_f64() < end, "{end}");
    program.stop().await;
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("m.toml"), TLS).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_marquetry"))
        .args(["serve", "--listen", "127.0.0.1:0", "--config", "m.toml"])
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .output();
    let output = within(output).await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("error: server.tls: \"server.pem\" cannot be read: No such file"),
        "{said}"
    );
}

#[tokio::test]
async fn http2_names_the_host_in_its_target() {
    use tower_service::Service as _;

    let config = marquetry::Config::from_toml("knowledge.enabled = false", "test.toml").unwrap();
    let app = marquetry::App::builder(config).start().await.unwrap();
    let request = axum::http::Request::get("http://localhost:8443/")
        .version(axum::http::Version::HTTP_2)
        .header("accept", "application/json")
        .body(axum::body::Body::empty())
        .unwrap();
    let response = app.router().call(request).await.unwrap();
    let body = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
    let home: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(home["endpoint"], "http://localhost:8443/mcp");
    app.shutdown().await;
}
