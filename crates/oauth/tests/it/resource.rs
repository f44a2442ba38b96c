//! Access to a protected server.

use std::{convert::Infallible, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::{client::legacy::Client as HyperClient, rt::TokioExecutor};
use marquetry_oauth::server::{
    KeySource, ResourceServer, ResourceServerError, ResourceServerOptions, StaticToken, TokenIssuer,
};
use marquetry_protocol::{
    RpcError,
    auth::Challenge,
    server::{
        Handler, Reply, RequestContext, Server, ServerDescription, TaskOptions,
        http::{HttpEndpoint, HttpOptions, LegacySseEndpoint, RequestBody, ResponseBody, serve},
    },
    types::{
        CallToolParams, CallToolResult, ElicitParams, Implementation, ServerCapabilities,
        TASKS_EXTENSION,
    },
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::issuer::{Issuer, Key, b64, now};

/// A protected server: `whoami` returns the caller, `sure` asks the user first, `later` continues
/// as a task.
pub(super) struct Site {
    pub(super) url: String,
    serving: JoinHandle<()>,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

struct WhoAmI;

#[async_trait]
impl Handler for WhoAmI {
    fn describe(&self) -> ServerDescription {
        let mut capabilities = ServerCapabilities::default();
        capabilities.tools = Some(Default::default());
        capabilities.add_extension(TASKS_EXTENSION);
        ServerDescription {
            info: Implementation::new("whoami", "1"),
            capabilities,
            instructions: None,
        }
    }

    async fn call_tool(
        &self,
        params: CallToolParams,
        cx: &RequestContext,
    ) -> Result<Reply, RpcError> {
        if params.name == "sure" {
            cx.elicit("first", &ElicitParams::form("sure?", json!({ "type": "object" }))).await?;
            cx.elicit("second", &ElicitParams::form("really?", json!({ "type": "object" })))
                .await?;
        }
        match &*params.name {
            "later" => cx.run_as_task(TaskOptions::default(), async |cx| who(&cx)).await,
            _ => who(cx),
        }
    }
}

fn who(cx: &RequestContext) -> Result<Reply, RpcError> {
    let principal = cx.principal().expect("nobody else gets here");
    let scopes: Vec<&str> = principal.scopes.iter().map(String::as_str).collect();
    Reply::json(&CallToolResult::text(format!("{} {}", principal.subject, scopes.join("+"))))
}

/// Opens a listener, so that the resource's URL is known before its server starts.
pub(super) async fn reserve() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    (listener, url)
}

pub(super) fn options(issuer: &Issuer, url: &str, keys: KeySource) -> ResourceServerOptions {
    let mut options = ResourceServerOptions::default();
    options.issuer =
        Some(TokenIssuer { issuer: issuer.url.clone(), resource: url.to_owned(), keys });
    options.required_scopes = vec!["tools".to_owned()];
    options.static_tokens = vec![
        StaticToken::new("ci", "hush-ci", ["tools"]),
        StaticToken::new("narrow", "hush-narrow", ["other"]),
    ];
    options.clock_skew = Duration::from_secs(5);
    options
}

pub(super) fn open(listener: TcpListener, url: String, options: ResourceServerOptions) -> Site {
    let resource = Arc::new(ResourceServer::new(options).unwrap());
    let http = HttpOptions { authenticator: Some(resource.clone()), ..HttpOptions::default() };
    let server = Server::new(WhoAmI);
    let sse = LegacySseEndpoint::new(server.clone(), http.clone(), "/messages");
    let mcp = HttpEndpoint::new(server, http);
    let service = service_fn(move |request: Request<RequestBody>| {
        let mcp = mcp.clone();
        let sse = sse.clone();
        let resource = resource.clone();
        async move {
            let path = request.uri().path().to_owned();
            Ok::<_, Infallible>(match path.as_str() {
                "/mcp" => mcp.handle(request).await,
                "/sse" => sse.stream(&request).await,
                "/messages" => sse.message(request).await,
                path if Some(path) == resource.metadata_path() => {
                    let metadata = serde_json::to_vec(&resource.metadata().unwrap()).unwrap();
                    http::Response::new(ResponseBody::whole(metadata))
                }
                _ => {
                    let nothing = http::Response::builder().status(404);
                    nothing.body(ResponseBody::empty()).unwrap()
                }
            })
        }
    });
    let serving = tokio::spawn(async move {
        serve(listener, service).await.unwrap();
    });
    Site { url, serving }
}

async fn site(keys: KeySource) -> (Issuer, Site) {
    let issuer = Issuer::start().await;
    let (listener, url) = reserve().await;
    let options = options(&issuer, &url, keys);
    let site = open(listener, url, options);
    (issuer, site)
}

/// The program chooses the cryptography provider of `jsonwebtoken` (C12); the crate does not set
/// one.
#[tokio::test]
async fn the_provider_of_the_process_is_left_alone() {
    use jsonwebtoken::crypto::{CryptoProvider, KeyUtils};
    static PROVIDER: CryptoProvider = CryptoProvider {
        signer_factory: |_, _| panic!("asked to sign"),
        verifier_factory: |_, _| panic!("asked to verify"),
        key_utils: KeyUtils::new_unimplemented(),
    };
    let (issuer, site) = site(KeySource::Discovered).await;
    let token = issuer.token(&site.url);
    let first = whoami(&site, &[&format!("Bearer {token}")]).await;
    assert_eq!(first.status, StatusCode::OK, "{}", first.body);
    assert!(PROVIDER.install_default().is_ok(), "nobody has installed another");
    let again = whoami(&site, &[&format!("Bearer {token}")]).await;
    assert_eq!(again.status, StatusCode::OK, "and nobody asks it");
}

/// One answer.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Value,
}

impl Answer {
    fn challenge(&self) -> Challenge {
        let value = self.headers["www-authenticate"].to_str().unwrap();
        let mut found = Challenge::parse(value);
        assert_eq!(found.len(), 1, "{value}");
        found.remove(0)
    }

    /// The reason of a refusal: status, error and its description.
    fn refusal(&self) -> String {
        let challenge = self.challenge();
        let error = challenge.get("error").unwrap_or("-");
        let description = challenge.get("error_description").unwrap_or("-");
        format!("{} {error}: {description}", self.status.as_u16())
    }
}

async fn send(url: &str, method: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut request = Request::builder()
        .method(method)
        .uri(url)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let client = HyperClient::builder(TokioExecutor::new()).build_http();
    let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
    let response = client.request(request).await.unwrap();
    let (head, body) = response.into_parts();
    let body = if let Some("text/event-stream") =
        head.headers.get("content-type").map(|value| value.to_str().unwrap())
    {
        Value::Null
    } else {
        let bytes = body.collect().await.unwrap().to_bytes();
        serde_json::from_slice(&bytes).unwrap_or(Value::Null)
    };
    Answer { status: head.status, headers: head.headers, body }
}

/// Calls `whoami` without a session.
async fn whoami(site: &Site, authorization: &[&str]) -> Answer {
    call(site, "whoami", authorization, json!({})).await
}

async fn call(site: &Site, tool: &str, authorization: &[&str], more: Value) -> Answer {
    let mut params = json!({ "name": tool, "arguments": {} });
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    request(site, "tools/call", tool, authorization, params).await
}

async fn request(
    site: &Site,
    method: &str,
    name: &str,
    authorization: &[&str],
    mut params: Value,
) -> Answer {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities":
            { "elicitation": {}, "extensions": { TASKS_EXTENSION: {} } },
    });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let mut headers =
        vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method), ("mcp-name", name)];
    headers.extend(authorization.iter().map(|value| ("authorization", *value)));
    send(&site.url, "POST", &headers, &body.to_string()).await
}

fn text(answer: &Answer) -> &str {
    answer.body["result"]["content"][0]["text"].as_str().unwrap_or("nothing")
}

#[tokio::test]
async fn good_tokens_come_in() {
    let (issuer, site) = site(KeySource::Discovered).await;
    issuer.set(|state| state.keys = vec![Key::es256("e"), Key::rsa("r"), Key::ed25519("d")]);
    for index in 0..3 {
        let token = {
            let state = issuer.state.lock().unwrap();
            state.keys[index].sign(&issuer_claims(&issuer, &site))
        };
        let answer = whoami(&site, &[&format!("Bearer {token}")]).await;
        assert_eq!(text(&answer), "ann extra+tools", "{}", answer.body);
    }
    assert_eq!(issuer.count("/jwks"), 1);
    let answer = whoami(&site, &["bearer hush-ci"]).await;
    assert_eq!(text(&answer), "ci tools");
}

#[tokio::test]
async fn harmless_variants_of_claims_are_read() {
    let (issuer, site) = site(KeySource::Discovered).await;
    for (name, value) in [
        ("iss", json!(format!("{}/", issuer.url))),
        ("aud", json!(format!("{}/", site.url))),
        ("aud", json!([format!("{}/", site.url)])),
        ("exp", json!((now() + 60).to_string())),
        ("nbf", json!(null)),
        ("nbf", json!("0")),
        ("cnf", json!(null)),
    ] {
        let mut claims = issuer_claims(&issuer, &site);
        claims[name] = value;
        let token = issuer.state.lock().unwrap().keys[0].sign(&claims);
        let answer = whoami(&site, &[&format!("Bearer {token}")]).await;
        assert_eq!(text(&answer), "ann extra+tools", "{name}: {}", answer.body);
    }
}

fn issuer_claims(issuer: &Issuer, site: &Site) -> Value {
    json!({
        "iss": issuer.url, "aud": ["https://other.example", site.url], "sub": "ann",
        "scp": ["tools", "extra"], "exp": now() + 60, "nbf": now() - 1,
    })
}

#[tokio::test]
async fn requests_without_a_token_get_a_challenge() {
    let (issuer, site) = site(KeySource::Discovered).await;
    let answer = whoami(&site, &[]).await;
    assert_eq!(answer.refusal(), "401 -: -");
    let challenge = answer.challenge();
    assert_eq!(challenge.get("scope"), Some("tools"));
    let url = challenge.get("resource_metadata").unwrap();
    assert_eq!(url, site.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp"));
    let metadata = send(url, "GET", &[], "").await.body;
    let want = json!({
        "resource": site.url, "authorization_servers": [issuer.url],
        "scopes_supported": ["tools"], "bearer_methods_supported": ["header"],
    });
    assert_eq!(metadata, want);
    assert!(answer.body["error"]["message"].as_str().unwrap().contains("a token is needed"));
}

#[tokio::test]
async fn bad_tokens_do_not_come_in() {
    let (issuer, site) = site(KeySource::Discovered).await;
    let rsa = Key::rsa("r");
    issuer.set(|state| state.keys = vec![Key::es256("e"), Key::rsa("r")]);
    let good = issuer.claims(&site.url);
    let es256 = |claims: &Value| issuer.state.lock().unwrap().keys[0].sign(claims);
    let with = |key: &str, value: Value| {
        let mut claims = good.clone();
        claims[key] = value;
        es256(&claims)
    };
    let without = |key: &str| {
        let mut claims = good.clone();
        claims.as_object_mut().unwrap().remove(key);
        es256(&claims)
    };
    let headed = |header: Value| issuer.state.lock().unwrap().keys[0].sign_as(&header, &good);
    let unsigned = |header: Value, signature: &str| {
        format!("{}.{}.{signature}", b64(header.to_string()), b64(good.to_string()))
    };
    // The public key is used as the secret of an HMAC. A verifier that trusts the algorithm in the
    // header would accept it.
    let confused = |header: Value, secret: &[u8]| {
        let message = format!("{}.{}", b64(header.to_string()), b64(good.to_string()));
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
        format!("{message}.{}", b64(ring::hmac::sign(&key, message.as_bytes())))
    };
    let hs256 = json!({ "alg": "HS256", "kid": "r" });
    let mut changed = es256(&good);
    changed.replace_range(
        ..changed.find('.').unwrap(),
        &b64(json!({ "alg": "ES256", "kid": "e", "x": 1 }).to_string()),
    );
    let stranger = Key::es256("e").sign(&good);

    let expected = [
        ("expired", with("exp", json!(now() - 60)), "it has expired"),
        ("not yet", with("nbf", json!(now() + 600)), "it is not valid yet"),
        (
            "another resource",
            with("aud", json!("https://other.example")),
            "it is for another resource",
        ),
        (
            "a part of the resource",
            with("aud", json!(site.url.replace("/mcp", ""))),
            "it is for another resource",
        ),
        ("another issuer", with("iss", json!("https://evil.example")), "it is from another issuer"),
        ("issuers", with("iss", json!([issuer.url])), "it lacks exp, iss, aud or sub"),
        ("no issuer", without("iss"), "it lacks exp, iss, aud or sub"),
        ("no audience", without("aud"), "it lacks exp, iss, aud or sub"),
        ("no end", without("exp"), "it lacks exp, iss, aud or sub"),
        ("an end in words", with("exp", json!("never")), "it lacks exp, iss, aud or sub"),
        ("a start in words", with("nbf", json!("never")), "it lacks exp, iss, aud or sub"),
        ("no subject", without("sub"), "it lacks exp, iss, aud or sub"),
        ("nobody", with("sub", json!("")), "its claim sub is empty"),
        (
            "bound to a key",
            with("cnf", json!({ "jkt": "x" })),
            "it is bound to a key, and proofs of possession are not supported",
        ),
        ("unsigned", unsigned(json!({ "alg": "none" }), ""), "it cannot be read"),
        (
            "unsigned, shouting",
            unsigned(json!({ "alg": "NONE", "kid": "e" }), ""),
            "it cannot be read",
        ),
        (
            "without its signature",
            unsigned(json!({ "alg": "ES256", "kid": "e" }), ""),
            "its signature is wrong",
        ),
        (
            "HMAC with the modulus",
            confused(hs256.clone(), &rsa.rsa_public().0),
            "its algorithm has no public keys",
        ),
        (
            "HMAC with the JWK",
            confused(hs256, rsa.jwk().to_string().as_bytes()),
            "its algorithm has no public keys",
        ),
        (
            "another type of key",
            headed(json!({ "alg": "RS256", "kid": "e" })),
            "its issuer has no such key",
        ),
        (
            "an algorithm that the key is not for",
            headed(json!({ "alg": "PS256", "kid": "r" })),
            "its issuer has no such key",
        ),
        ("changed", changed, "its signature is wrong"),
        ("of a stranger with a known name", stranger, "its signature is wrong"),
        ("of an unknown key", Key::es256("two").sign(&good), "its issuer has no such key"),
        (
            "an id token's proof",
            headed(json!({ "typ": "dpop+jwt", "alg": "ES256", "kid": "e" })),
            "it is not an access token",
        ),
        (
            "unknown and critical",
            headed(json!({ "alg": "ES256", "kid": "e", "crit": ["b64"] })),
            "it has a critical header that is not supported",
        ),
        (
            "with its own key",
            headed(json!({ "alg": "ES256", "kid": "x", "jwk": rsa.jwk() })),
            "its issuer has no such key",
        ),
        ("nonsense", "a.b.c".to_owned(), "it cannot be read"),
        ("not even that", "nonsense".to_owned(), "it cannot be read"),
        ("nearly a fixed one", "hush-c".to_owned(), "it cannot be read"),
        ("long", "a".repeat(20_000), "it is too long"),
    ];
    for (what, token, why) in expected {
        let answer = whoami(&site, &[&format!("Bearer {token}")]).await;
        assert_eq!(answer.refusal(), format!("401 invalid_token: {why}"), "{what}");
        assert!(!answer.body.to_string().contains(&token), "{what}");
    }
    for (shown, why) in [
        (&["Basic aHVzaDpodXNo"][..], "it is not a bearer token"),
        (&["Bearer"], "it is not a bearer token"),
        (&["Bearer hush-ci", "Bearer hush-ci"], "there are several"),
    ] {
        assert_eq!(whoami(&site, shown).await.refusal(), format!("401 invalid_token: {why}"));
    }
    // All these tokens caused one request for keys, and another one for the unknown names of keys.
    assert!(issuer.count("/jwks") <= 2, "{}", issuer.count("/jwks"));
}

#[tokio::test]
async fn a_missing_scope_is_named_in_the_challenge() {
    let (issuer, site) = site(KeySource::Discovered).await;
    let mut claims = issuer.claims(&site.url);
    claims["scope"] = json!("extra");
    let token = issuer.state.lock().unwrap().keys[0].sign(&claims);
    for shown in [format!("Bearer {token}"), "Bearer hush-narrow".to_owned()] {
        let answer = whoami(&site, &[&shown]).await;
        assert_eq!(answer.refusal(), "403 insufficient_scope: the token lacks a scope");
        assert_eq!(answer.challenge().get("scope"), Some("tools"));
    }
}

#[tokio::test]
async fn new_keys_are_fetched_but_not_for_everybody() {
    let issuer = Issuer::start().await;
    let (listener, url) = reserve().await;
    let mut options = options(&issuer, &url, KeySource::Url(format!("{}/jwks", issuer.url)));
    options.key_pause = Duration::from_millis(300);
    let site = open(listener, url, options);
    let show = async || {
        let token = format!("Bearer {}", issuer.token(&site.url));
        whoami(&site, &[&token]).await
    };
    assert_eq!(show().await.status, StatusCode::OK);
    tokio::time::sleep(Duration::from_millis(350)).await;
    issuer.set(|state| state.keys = vec![Key::es256("two")]);
    assert_eq!(show().await.status, StatusCode::OK);
    assert_eq!(issuer.count("/jwks"), 2);
    // Many unknown names of keys.
    for _ in 0..20 {
        let token = format!("Bearer {}", Key::es256("x").sign(&issuer.claims(&site.url)));
        assert_eq!(
            whoami(&site, &[&token]).await.refusal(),
            "401 invalid_token: its issuer has no such key"
        );
    }
    assert!(issuer.count("/jwks") <= 4, "{}", issuer.count("/jwks"));
}

#[tokio::test]
async fn a_disconnected_caller_does_not_stop_the_fetch_of_keys() {
    let issuer = Issuer::start().await;
    issuer.set(|state| state.delay = Duration::from_millis(300));
    let url = "https://tools.example/mcp";
    let resource = ResourceServer::new(options(&issuer, url, KeySource::Discovered)).unwrap();
    let token = format!("Bearer {}", issuer.token(url));
    let headers = HeaderMap::from_iter([(http::header::AUTHORIZATION, token.parse().unwrap())]);
    let gone = Duration::from_millis(50);
    assert!(tokio::time::timeout(gone, resource.check(&headers)).await.is_err());
    assert!(resource.check(&headers).await.is_ok());
    assert_eq!(issuer.count("/jwks"), 1);
}

#[tokio::test]
async fn old_keys_do_for_a_while() {
    let issuer = Issuer::start().await;
    let url = "https://tools.example/mcp";
    let mut options = options(&issuer, url, KeySource::Discovered);
    (options.key_lifetime, options.key_pause) = (Duration::ZERO, Duration::ZERO);
    options.key_max_age = Duration::from_millis(600);
    options.key_timeout = Duration::from_millis(50);
    let resource = ResourceServer::new(options).unwrap();
    resource.warm_up().await.unwrap();
    let token = format!("Bearer {}", issuer.token(url));
    let headers = HeaderMap::from_iter([(http::header::AUTHORIZATION, token.parse().unwrap())]);
    issuer.set(|state| state.delay = Duration::from_mins(1));
    let principal = resource.check(&headers).await.unwrap();
    let left = principal.time_left().expect("its token has an end").as_secs();
    assert!((590..=605).contains(&left), "ten minutes and five seconds of skew: {left}");
    tokio::time::sleep(Duration::from_millis(650)).await;
    let denial = resource.check(&headers).await.unwrap_err();
    assert_eq!(denial.status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn missing_keys_are_not_reported_as_an_invalid_token() {
    let elsewhere = Issuer::start().await;
    for (what, status, headers, body) in [
        ("failure", StatusCode::INTERNAL_SERVER_ERROR, vec![], String::new()),
        ("nothing", StatusCode::NOT_FOUND, vec![], String::new()),
        (
            "a redirect",
            StatusCode::FOUND,
            vec![("location", format!("{}/jwks", elsewhere.url))],
            String::new(),
        ),
        ("too much", StatusCode::OK, vec![], format!(r#"{{"keys":[{}]}}"#, " ".repeat(300 << 10))),
        ("no keys", StatusCode::OK, vec![], r#"{"keys":[{"kty":"oct","k":"aHVzaA"}]}"#.to_owned()),
        ("no JSON", StatusCode::OK, vec![], "<html>".to_owned()),
    ] {
        let (issuer, site) = site(KeySource::Discovered).await;
        issuer.set(|state| _ = state.instead.insert("/jwks".to_owned(), (status, headers, body)));
        let answer = whoami(&site, &[&format!("Bearer {}", issuer.token(&site.url))]).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{what}");
        assert_eq!(text(&whoami(&site, &["Bearer hush-ci"]).await), "ci tools", "{what}");
    }
    assert_eq!(elsewhere.count("/jwks"), 0);
}

#[tokio::test]
async fn keys_come_from_a_file_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keys.json");
    let (issuer, site) = site(KeySource::File(file.clone())).await;
    let keys = json!({ "keys": [issuer.state.lock().unwrap().keys[0].jwk()] });
    std::fs::write(&file, keys.to_string()).unwrap();
    let answer = whoami(&site, &[&format!("Bearer {}", issuer.token(&site.url))]).await;
    assert_eq!(text(&answer), "ann extra+tools");
    assert!(issuer.state.lock().unwrap().seen.is_empty());
}

#[tokio::test]
async fn sessions_are_private_to_the_principal() {
    let (issuer, site) = site(KeySource::Discovered).await;
    let ann = format!("Bearer {}", issuer.token(&site.url));
    let hello = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "c", "version": "1" } },
    });
    let opened = send(&site.url, "POST", &[("authorization", &ann)], &hello.to_string()).await;
    let id = opened.headers["mcp-session-id"].to_str().unwrap();
    let body = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": { "name": "whoami" } })
    .to_string();
    let reached = async |method: &str, authorization: &str| {
        let headers = [("authorization", authorization), ("mcp-session-id", id)];
        send(&site.url, method, &headers, &body).await
    };
    for method in ["POST", "GET", "DELETE"] {
        assert_eq!(
            reached(method, "Bearer hush-ci").await.status,
            StatusCode::NOT_FOUND,
            "{method}"
        );
    }
    assert_eq!(text(&reached("POST", &ann).await), "ann extra+tools");
    // A new token of the same person has its own scopes, not those of the first token.
    let mut claims = issuer.claims(&site.url);
    claims["scope"] = json!("tools");
    let narrow = format!("Bearer {}", issuer.state.lock().unwrap().keys[0].sign(&claims));
    assert_eq!(text(&reached("POST", &narrow).await), "ann tools");
    assert_eq!(reached("DELETE", &narrow).await.status, StatusCode::NO_CONTENT);
    assert_eq!(reached("POST", &ann).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn streams_are_private_to_the_principal() {
    let (issuer, site) = site(KeySource::Discovered).await;
    let ann = format!("Bearer {}", issuer.token(&site.url));
    let sse = site.url.replace("/mcp", "/sse");
    let refused = send(&sse, "GET", &[], "").await;
    assert_eq!(refused.refusal(), "401 -: -");
    let client = HyperClient::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let request = Request::get(&sse).header("authorization", &ann);
    let mut stream = client.request(request.body(Full::default()).unwrap()).await.unwrap();
    let first = stream.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    let first = String::from_utf8(first.to_vec()).unwrap();
    let path = first.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let messages = site.url.replace("/mcp", path);
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
    for (authorization, status) in [("Bearer hush-ci", 404), (&ann, 202)] {
        let answer = send(&messages, "POST", &[("authorization", authorization)], &ping).await;
        assert_eq!(answer.status.as_u16(), status, "{authorization}");
    }
    assert_eq!(send(&messages, "POST", &[], &ping).await.status.as_u16(), 401);
}

#[tokio::test]
async fn answers_are_private_to_the_principal() {
    let (issuer, site) = site(KeySource::Discovered).await;
    let ann = format!("Bearer {}", issuer.token(&site.url));
    let asked = call(&site, "sure", &[&ann], json!({})).await;
    assert_eq!(asked.body["result"]["resultType"], "input_required", "{}", asked.body);
    let yes = json!({ "action": "accept", "content": {} });
    let again = call(&site, "sure", &[&ann], json!({ "inputResponses": { "first": yes } })).await;
    let state = again.body["result"]["requestState"].clone();
    assert!(state.is_string(), "{}", again.body);
    let last = json!({ "inputResponses": { "second": yes }, "requestState": state });
    let stolen = call(&site, "sure", &["Bearer hush-ci"], last.clone()).await;
    assert!(stolen.body["error"]["message"].as_str().unwrap().contains("requestState"));
    assert_eq!(text(&call(&site, "sure", &[&ann], last).await), "ann extra+tools");
}

#[tokio::test]
async fn tasks_are_private_to_the_principal() {
    let (issuer, site) = site(KeySource::Discovered).await;
    let ann = format!("Bearer {}", issuer.token(&site.url));
    let begun = call(&site, "later", &[&ann], json!({})).await;
    let id = begun.body["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{}", begun.body));
    for method in ["tasks/get", "tasks/cancel"] {
        let stolen = request(&site, method, id, &["Bearer hush-ci"], json!({ "taskId": id })).await;
        let why = stolen.body["error"]["message"].as_str().unwrap_or_default();
        assert!(why.contains("unknown task"), "{}", stolen.body);
    }
    let got = request(&site, "tasks/get", id, &[&ann], json!({ "taskId": id })).await;
    let text = &got.body["result"]["result"]["content"][0]["text"];
    assert_eq!(text, "ann extra+tools", "{}", got.body);
}

#[tokio::test]
async fn options_that_make_no_sense_are_refused() {
    let refused = |change: &dyn Fn(&mut ResourceServerOptions)| {
        let mut options = ResourceServerOptions::default();
        options.issuer = Some(TokenIssuer {
            issuer: "https://login.example".to_owned(),
            resource: "https://tools.example/mcp".to_owned(),
            keys: KeySource::Discovered,
        });
        change(&mut options);
        ResourceServer::new(options).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let issuer = |url: &'static str| {
        move |options: &mut ResourceServerOptions| {
            options.issuer.as_mut().unwrap().issuer = url.to_owned();
        }
    };
    assert_eq!(refused(&|_| {}), "");
    assert_eq!(
        refused(&|options| options.issuer = None),
        "neither an issuer nor a static token is configured"
    );
    assert_eq!(
        refused(&issuer("http://login.example")),
        "issuer 'http://login.example': it must be https, or on this machine"
    );
    assert_eq!(
        refused(&|options| options.required_scopes = vec!["a b".to_owned()]),
        "scope 'a b' contains characters that are not allowed in a scope (RFC 6749, section 3.3)"
    );
    let token = |name| StaticToken::new(name, "hush", [""; 0]);
    assert_eq!(
        refused(&|options| options.static_tokens = vec![token("a"), token("b")]),
        "'a' and 'b' have the same token; give each holder a different token"
    );
    let other = StaticToken::new("a", "another text", [""; 0]);
    assert_eq!(
        refused(&|options| options.static_tokens = vec![token("a"), other.clone()]),
        "there are two tokens with the name 'a'"
    );
    assert_eq!(
        ResourceServer::new(ResourceServerOptions::default()).err(),
        Some(ResourceServerError::NoTokenSource)
    );
}

#[tokio::test]
async fn tokens_appear_in_no_output() {
    let mut options = ResourceServerOptions::default();
    options.static_tokens = vec![StaticToken::new("ci", "hush", ["tools"])];
    assert!(!format!("{options:?}").contains("hush"));
    let resource = ResourceServer::new(options).unwrap();
    let mut headers = HeaderMap::new();
    headers.insert("authorization", "Bearer hush-hush".parse().unwrap());
    let denial = resource.check(&headers).await.unwrap_err();
    assert!(!format!("{denial:?}").contains("hush"));
    assert_eq!(
        denial.www_authenticate(),
        r#"Bearer error="invalid_token", error_description="it is unknown""#
    );
}
