//! Logins of a client.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;
use http::StatusCode;
use http_body_util::{BodyExt, Full};
use hyper_util::{client::legacy::Client as HyperClient, rt::TokioExecutor};
use marquetry_oauth::{
    client::{
        ClientProof, DirectoryStore, LoginRequest, LoopbackBrowser, MemoryStore, OAuth,
        OAuthOptions, RegisteredClient, SecretMethod, UserAgent,
    },
    server::KeySource,
};
use marquetry_protocol::{
    client::{AuthorizationError, CallOptions, Client, ClientError, ClientOptions, HttpTarget},
    types::CallToolParams,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::soon;
use crate::{
    issuer::{Instead, Issuer, Key},
    resource::{Site, open, options, reserve},
};

/// Opens the page and follows its redirect at once.
struct Headless;

#[async_trait]
impl UserAgent for Headless {
    fn redirect_uri(&self) -> String {
        "http://127.0.0.1:9/callback".to_owned()
    }

    async fn login(&self, request: &LoginRequest) -> Result<String, AuthorizationError> {
        let (_, location, _) = get(&request.url).await;
        location.ok_or_else(|| {
            AuthorizationError::Answer("the login page does not redirect".to_owned())
        })
    }
}

/// Returns status, target of the redirect, and text.
async fn get(url: &str) -> (StatusCode, Option<String>, String) {
    let client = HyperClient::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let response = client.get(url.parse().unwrap()).await.unwrap();
    let status = response.status();
    let location = response.headers().get("location").map(|to| to.to_str().unwrap().to_owned());
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, location, String::from_utf8(body.to_vec()).unwrap())
}

fn with_person() -> OAuthOptions {
    let mut options = OAuthOptions::default();
    options.user_agent = Some(Arc::new(Headless));
    options
}

async fn place() -> (Issuer, Site) {
    let issuer = Issuer::start().await;
    let (listener, url) = reserve().await;
    let mut options = options(&issuer, &url, KeySource::Discovered);
    // It asks for the keys with each request.
    (options.key_pause, options.key_max_age) = (Duration::ZERO, Duration::ZERO);
    (issuer, open(listener, url.clone(), options))
}

async fn connect(url: &str, oauth: OAuthOptions) -> Result<Client, ClientError> {
    let oauth = OAuth::new(url, oauth).map_err(ClientError::Authorization)?;
    let options = ClientOptions { authorizer: Some(Arc::new(oauth)), ..ClientOptions::default() };
    let target = HttpTarget { url: url.to_owned(), ..HttpTarget::default() };
    soon("an answer", Client::http(target, options)).await
}

async fn whoami(client: &Client) -> String {
    let call = CallToolParams::new("whoami", &json!({})).unwrap();
    let answer =
        soon("an answer", client.call_tool_raw(&call, CallOptions::default())).await.unwrap();
    let answer: Value = serde_json::from_str(answer.get()).unwrap();
    answer["content"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn one_login_serves_all_requests() {
    let (issuer, site) = place().await;
    let client = connect(&site.url, with_person()).await.unwrap();
    assert_eq!(whoami(&client).await, "ann extra+tools");
    let asked = issuer.last("/authorize");
    for (name, value) in [
        ("resource", &*site.url),
        ("scope", "offline_access tools"),
        ("prompt", "consent"),
        ("client_id", "registered"),
        ("code_challenge_method", "S256"),
        ("response_type", "code"),
    ] {
        assert_eq!(asked[name], value, "{name}");
    }
    assert_eq!(issuer.last("/token")["resource"], site.url);
    // The server no longer accepts its tokens, and all calls notice that at the same time.
    issuer.set(|state| state.keys = vec![Key::es256("two")]);
    let all = join_all((0..8).map(|_| whoami(&client))).await;
    assert!(all.iter().all(|who| who == "ann extra+tools"));
    let counted = ["/register", "/authorize", "/token"].map(|path| issuer.count(path));
    assert_eq!(counted, [1, 1, 2], "registered, logged in, refreshed");
}

#[tokio::test]
async fn tokens_are_refreshed_before_they_end() {
    let (issuer, site) = place().await;
    issuer.set(|state| state.lifetime = Duration::from_secs(20));
    let client = connect(&site.url, with_person()).await.unwrap();
    assert_eq!(whoami(&client).await, "ann extra+tools");
    let before = issuer.count("/token");
    assert_eq!(whoami(&client).await, "ann extra+tools");
    assert_eq!(issuer.count("/token"), before + 1);
    assert_eq!(issuer.count("/authorize"), 1);
    assert_eq!(issuer.last("/token")["grant_type"], "refresh_token");
}

#[tokio::test]
async fn a_login_outlives_the_process() {
    let (issuer, site) = place().await;
    let directory = tempfile::tempdir().unwrap();
    let stored = |user_agent: Option<Arc<dyn UserAgent>>| {
        let mut options = OAuthOptions::default();
        options.store = Arc::new(DirectoryStore::new(directory.path()));
        options.user_agent = user_agent;
        options
    };
    let error = connect(&site.url, stored(None)).await.map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), format!("no authorization: a login at {} is needed", issuer.url));
    connect(&site.url, stored(Some(Arc::new(Headless)))).await.unwrap();
    let again = connect(&site.url, stored(None)).await.unwrap();
    assert_eq!(whoami(&again).await, "ann extra+tools");
    assert_eq!(issuer.count("/authorize"), 1);

    // The stored tokens are no longer valid: neither the access token nor the refresh token.
    issuer.set(|state| {
        state.keys = vec![Key::es256("two")];
        let denied = json!({ "error": "invalid_grant" }).to_string();
        state.instead.insert("/token".to_owned(), (StatusCode::BAD_REQUEST, vec![], denied));
    });
    let error = connect(&site.url, stored(None)).await.map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("a login at "), "{error}");
    issuer.set(|state| state.instead.clear());
    connect(&site.url, stored(Some(Arc::new(Headless)))).await.unwrap();
    assert_eq!((issuer.count("/register"), issuer.count("/authorize")), (1, 2));
}

#[tokio::test]
async fn a_failure_ends_no_login() {
    let (issuer, site) = place().await;
    let mut options = with_person();
    options.store = Arc::new(MemoryStore::default());
    connect(&site.url, options.clone()).await.unwrap();
    options.user_agent = None;
    let client = connect(&site.url, options).await.unwrap();
    for (status, error) in [(503, "temporarily_unavailable"), (401, "invalid_client")] {
        issuer.set(|state| {
            state.keys = vec![Key::es256("two")];
            let denied = json!({ "error": error }).to_string();
            let denied = (StatusCode::from_u16(status).unwrap(), vec![], denied);
            state.instead.insert("/token".to_owned(), denied);
        });
        let call = CallToolParams::new("whoami", &json!({})).unwrap();
        let failed = client.call_tool_raw(&call, CallOptions::default()).await.unwrap_err();
        assert!(failed.to_string().contains(error), "{failed}");
    }
    issuer.set(|state| state.instead.clear());
    assert_eq!(whoami(&client).await, "ann extra+tools");
    assert_eq!(issuer.count("/authorize"), 1);
    assert_eq!(issuer.last("/token")["grant_type"], "refresh_token");
}

#[tokio::test]
async fn a_person_logs_in_again_however_the_refresh_was_refused() {
    for (status, body, registrations) in [
        (400, json!({ "error": "invalid_grant" }).to_string(), 1),
        (400, json!({ "error": "invalid_request", "error_description": null }).to_string(), 1),
        (401, json!({ "error": "invalid_token" }).to_string(), 1),
        (401, json!({ "error": "invalid_client" }).to_string(), 2),
        (200, json!({ "error": "bad_refresh_token" }).to_string(), 1),
        (403, "<html>".to_owned(), 1),
        (500, String::new(), 1),
    ] {
        let (issuer, site) = place().await;
        issuer.set(|state| state.lifetime = Duration::from_secs(20));
        let client = connect(&site.url, with_person()).await.unwrap();
        issuer.set(|state| {
            state.keys = vec![Key::es256("two")];
            state.lifetime = Duration::from_mins(10);
            state.refresh_refusal = Some((StatusCode::from_u16(status).unwrap(), body.clone()));
        });
        assert_eq!(whoami(&client).await, "ann extra+tools", "{status} {body}");
        let counted = ["/authorize", "/register"].map(|path| issuer.count(path));
        assert_eq!(counted, [2, registrations], "{status} {body}");
    }
}

#[tokio::test]
async fn a_person_can_log_in_before_a_request_is_refused() {
    let (issuer, site) = place().await;
    let mut options = with_person();
    options.store = Arc::new(MemoryStore::default());
    let oauth = OAuth::new(&site.url, options.clone()).unwrap();
    assert!(soon("a login", oauth.log_in()).await.unwrap());
    assert!(soon("another login", oauth.log_in()).await.unwrap());
    let counted = ["/register", "/authorize"].map(|path| issuer.count(path));
    assert_eq!(counted, [1, 2]);
    options.user_agent = None;
    assert_eq!(
        whoami(&connect(&site.url, options.clone()).await.unwrap()).await,
        "ann extra+tools"
    );
    // Neither this server nor its origin names an authorization server.
    let bare = Issuer::start().await;
    bare.set(|state| {
        state.instead.insert(METADATA.to_owned(), (StatusCode::NOT_FOUND, vec![], String::new()));
    });
    let oauth = OAuth::new(&format!("{}/mcp", bare.url), with_person()).unwrap();
    assert!(!soon("an answer", oauth.log_in()).await.unwrap());
    assert_eq!(bare.count("/authorize"), 0);
}

/// Logs in at a server at `/mcp` of `issuer`, which replaces its answers for some paths. No token
/// is accepted there, which is the error of a login that succeeded.
async fn logs_in(
    what: &str,
    options: OAuthOptions,
    instead: impl FnOnce(&str) -> Vec<(&'static str, Instead)>,
) -> Issuer {
    let (issuer, error) = refused_with(options, instead).await;
    assert!(error.contains("its token is new"), "{what}: {error}");
    issuer
}

#[tokio::test]
async fn harmless_variants_of_documents_are_read() {
    const RESOURCE: &str = "/.well-known/oauth-protected-resource/mcp";
    let resource = |url: &str, name: &str, value: Value| {
        let mut body = json!({ "resource": format!("{url}/mcp"), "authorization_servers": [url] });
        body[name] = value;
        vec![(RESOURCE, ok(body))]
    };
    for name in
        ["scopes_supported", "bearer_methods_supported", "dpop_bound_access_tokens_required", "x"]
    {
        for value in [json!(null), json!("a b"), json!({ "a": 1 })] {
            let what = format!("{name} {value}");
            logs_in(&what, with_person(), |url| resource(url, name, value)).await;
        }
    }
    for servers in [json!(null), json!([])] {
        logs_in("no servers", with_person(), |url| resource(url, "authorization_servers", servers))
            .await;
    }
    logs_in("a slash", with_person(), |url| {
        resource(url, "authorization_servers", json!([format!("{url}/")]))
    })
    .await;

    for name in [
        "scopes_supported",
        "token_endpoint_auth_methods_supported",
        "client_id_metadata_document_supported",
        "authorization_response_iss_parameter_supported",
        "dpop_signing_alg_values_supported",
    ] {
        for value in [json!(null), json!([]), json!("true")] {
            let what = format!("{name} {value}");
            if what == r#"token_endpoint_auth_methods_supported "true""# {
                continue;
            }
            logs_in(&what, with_person(), |url| vec![(METADATA, ok(described(url, name, value)))])
                .await;
        }
    }
    logs_in("a slash", with_person(), |url| {
        vec![(METADATA, ok(described(url, "issuer", json!(format!("{url}/")))))]
    })
    .await;
    for to in ["/elsewhere", "{url}/elsewhere"] {
        logs_in("a redirect within the origin", with_person(), |url| {
            let to = to.replace("{url}", url);
            let moved = (StatusCode::MOVED_PERMANENTLY, vec![("location", to)], String::new());
            vec![
                (METADATA, moved),
                ("/elsewhere", ok(described(url, "scopes_supported", json!(null)))),
            ]
        })
        .await;
    }

    for (name, value) in [
        ("expires_in", json!("3600")),
        ("expires_in", json!(0)),
        ("token_type", json!(null)),
        ("refresh_token", json!(null)),
        ("refresh_token", json!("")),
        ("scope", json!(["a", "b"])),
    ] {
        let what = format!("{name} {value}");
        let mut body = json!({ "access_token": "hush", "token_type": "bearer" });
        body[name] = value;
        logs_in(&what, with_person(), |_| vec![("/token", ok(body))]).await;
    }
    for (name, value) in [
        ("client_secret", json!(null)),
        ("client_secret_expires_at", json!("0")),
        ("client_secret_expires_at", json!(null)),
        ("token_endpoint_auth_method", json!(null)),
        ("client_id", json!(7)),
    ] {
        let what = format!("{name} {value}");
        let mut body = json!({ "client_id": "registered", "client_secret": "hush-client" });
        body[name] = value;
        let token = ok(json!({ "access_token": "hush", "token_type": "bearer" }));
        logs_in(&what, with_person(), |_| vec![("/register", ok(body)), ("/token", token)]).await;
    }
}

#[tokio::test]
async fn entra_gets_no_resource_and_the_configured_authentication() {
    let mut options = with_person();
    options.send_resource = false;
    options.secret_method = Some(SecretMethod::Basic);
    options.secret_for_first_issuer = true;
    let proof = ClientProof::Secret("hush".into());
    options.client = Some(RegisteredClient { id: "me".to_owned(), proof, issuer: None });
    let token = ok(json!({ "access_token": "hush", "token_type": "bearer" }));
    let issuer = logs_in("without resource", options, |_| vec![("/token", token)]).await;
    assert!(!issuer.last("/authorize").contains_key("resource"));
    let asked = issuer.last("/token");
    assert!(!asked.contains_key("resource") && !asked.contains_key("client_secret"), "{asked:?}");
}

#[tokio::test]
async fn a_registered_redirect_uri_is_used() {
    for (text, want) in [
        ("http://localhost/back", Ok(())),
        ("http://LOCALHOST:8080/", Ok(())),
        ("http://[::1]:8080/callback", Ok(())),
        ("https://localhost/back", Err("it must be of the form http://127.0.0.1:8080/callback")),
        ("http://a.example/back", Err("its host must be localhost or a loopback address")),
        ("http://0.0.0.0/back", Err("its host must be localhost or a loopback address")),
        ("http://localhost:99999/", Err("its port must be a number from 1 to 65535")),
        ("http://localhost/?a=b", Err("it must be of the form http://127.0.0.1:8080/callback")),
    ] {
        assert_eq!(LoopbackBrowser::check_redirect_uri(text), want, "{text}");
    }
    let browser = LoopbackBrowser::bind("http://localhost/back", |_| {}).await.unwrap();
    let uri = browser.redirect_uri();
    let port = uri.strip_prefix("http://localhost:").and_then(|it| it.strip_suffix("/back"));
    assert!(port.is_some_and(|port| port.parse::<u16>().is_ok()), "{uri}");
    let error = LoopbackBrowser::bind(&uri, |_| {}).await.map(|_| ()).unwrap_err().to_string();
    assert!(error.starts_with(&format!("failed to listen at {uri}: ")), "{error}");
}

#[tokio::test]
async fn tokens_of_another_process_are_used() {
    let (issuer, site) = place().await;
    let directory = tempfile::tempdir().unwrap();
    let stored = || {
        let mut options = with_person();
        options.store = Arc::new(DirectoryStore::new(directory.path()));
        options
    };
    let one = connect(&site.url, stored()).await.unwrap();
    let other = connect(&site.url, stored()).await.unwrap();
    issuer.set(|state| state.keys = vec![Key::es256("two")]);
    assert_eq!(whoami(&one).await, "ann extra+tools");
    let before = issuer.count("/token");
    assert_eq!(whoami(&other).await, "ann extra+tools");
    assert_eq!((issuer.count("/token"), issuer.count("/authorize")), (before, 1));
}

#[test]
fn a_secret_needs_its_issuer() {
    let mut options = OAuthOptions::default();
    let proof = ClientProof::Secret("hush".into());
    options.client = Some(RegisteredClient { id: "me".to_owned(), proof, issuer: None });
    let error = OAuth::new("https://a.example/mcp", options.clone()).err().unwrap().to_string();
    assert!(error.contains("client 'me' needs the issuer") && !error.contains("hush"), "{error}");
    options.secret_for_first_issuer = true;
    assert!(OAuth::new("https://a.example/mcp", options).is_ok());
}

#[tokio::test]
async fn a_token_that_is_never_accepted_is_not_asked_for_again_and_again() {
    let (issuer, site) = place().await;
    // The server verifies tokens with other keys than those that sign them.
    let other = json!({ "keys": [Key::es256("one").jwk()] }).to_string();
    issuer
        .set(|state| _ = state.instead.insert("/jwks".to_owned(), (StatusCode::OK, vec![], other)));
    let error = connect(&site.url, with_person()).await.map(|_| ()).unwrap_err();
    assert!(
        error.to_string().contains("its token is new, and the server does not accept it"),
        "{error}"
    );
    assert_eq!(issuer.count("/authorize"), 1);
}

#[tokio::test]
async fn a_browser_on_this_machine_comes_back() {
    let (issuer, site) = place().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let pages = seen.clone();
    let browser = LoopbackBrowser::new(listener, move |url| {
        let url = url.to_owned();
        let pages = pages.clone();
        tokio::spawn(async move {
            let (_, back, _) = get(&url).await;
            let back = back.unwrap();
            let stranger = back.replace("state=", "state=x");
            let elsewhere = back.replace("/callback", "/favicon.ico");
            for url in [&*stranger, &*elsewhere, &*back] {
                let (status, _, text) = get(url).await;
                pages.lock().unwrap().push(format!("{} {text}", status.as_u16()));
            }
        });
    })
    .unwrap();
    let mut options = OAuthOptions::default();
    options.user_agent = Some(Arc::new(browser));
    let client = connect(&site.url, options).await.unwrap();
    assert_eq!(whoami(&client).await, "ann extra+tools");
    soon("the last page", async {
        while seen.lock().unwrap().len() < 3 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let want = [
        "400 This login was not asked for, or has ended.",
        "404 There is nothing here.",
        "200 You can close this page and go back to where you came from.",
    ];
    assert_eq!(*seen.lock().unwrap(), want);
    assert_eq!(issuer.count("/authorize"), 1);
}

#[tokio::test]
async fn only_this_machine_comes_back() {
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let refused =
        LoopbackBrowser::new(listener, |_| {}).err().map(|error: io::Error| error.to_string());
    assert_eq!(refused.as_deref(), Some("a login must come back to a loopback address"));
}

#[tokio::test]
async fn logins_have_a_time_limit() {
    struct Asleep;
    #[async_trait]
    impl UserAgent for Asleep {
        fn redirect_uri(&self) -> String {
            "http://127.0.0.1:9/callback".to_owned()
        }
        async fn login(&self, _: &LoginRequest) -> Result<String, AuthorizationError> {
            std::future::pending().await
        }
    }
    let (_issuer, site) = place().await;
    let mut options = OAuthOptions::default();
    options.user_agent = Some(Arc::new(Asleep));
    options.login_timeout = Duration::from_millis(50);
    let error = connect(&site.url, options).await.map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "no authorization: login was not completed within 0 s");
}

/// Returns the error of connecting to a server at `/mcp` of `issuer`, which replaces its answers
/// for some paths.
async fn refused(instead: impl FnOnce(&str) -> Vec<(&'static str, Instead)>) -> (Issuer, String) {
    refused_with(with_person(), instead).await
}

async fn refused_with(
    mut options: OAuthOptions,
    instead: impl FnOnce(&str) -> Vec<(&'static str, Instead)>,
) -> (Issuer, String) {
    let issuer = Issuer::start().await;
    let mut instead = instead(&issuer.url);
    let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", issuer.url);
    let challenge = format!(r#"Bearer resource_metadata="{metadata}""#);
    let wanted = (StatusCode::UNAUTHORIZED, vec![("www-authenticate", challenge)], String::new());
    let described = json!({
        "resource": format!("{}/mcp", issuer.url), "authorization_servers": [issuer.url],
    });
    let described = (StatusCode::OK, vec![], described.to_string());
    instead.insert(0, ("/mcp", wanted));
    instead.insert(1, ("/.well-known/oauth-protected-resource/mcp", described));
    issuer.set(|state| {
        let instead = instead.into_iter().map(|(path, instead)| (path.to_owned(), instead));
        state.instead.extend(instead);
    });
    options.document_timeout = Duration::from_millis(500);
    let error = connect(&format!("{}/mcp", issuer.url), options).await.map(|_| ()).unwrap_err();
    let error = error.to_string();
    assert!(!error.contains("hush"), "{error}");
    (issuer, error)
}

const METADATA: &str = "/.well-known/oauth-authorization-server";

fn ok(body: Value) -> Instead {
    (StatusCode::OK, vec![], body.to_string())
}

#[tokio::test]
async fn a_server_leads_us_nowhere_else() {
    let elsewhere = Issuer::start().await;
    let there = elsewhere.url.clone();
    let resource = "/.well-known/oauth-protected-resource/mcp";
    let (_, error) = refused(|_| {
        vec![(resource, ok(json!({ "resource": "https://other.example/mcp", "authorization_servers": [there] })))]
    })
    .await;
    assert!(error.contains("metadata is about 'https://other.example/mcp'"), "{error}");

    let (_, error) = refused(|url| {
        vec![(
            resource,
            ok(json!({ "resource": url, "authorization_servers": ["http://login.example"] })),
        )]
    })
    .await;
    assert!(
        error.ends_with("'http://login.example' is refused: it must be https, or on this machine"),
        "{error}"
    );

    // A redirect is not followed.
    let (_, error) = refused(|_| {
        let to = format!("{}{METADATA}", elsewhere.url);
        vec![(METADATA, (StatusCode::FOUND, vec![("location", to)], String::new()))]
    })
    .await;
    assert!(error.ends_with("answers with status 302"), "{error}");

    let (_, error) = refused(|_| vec![(METADATA, ok(json!({ "issuer": elsewhere.url })))]).await;
    assert!(error.contains("issuer should be"), "{error}");

    let (issuer, error) = refused(|url| {
        vec![(METADATA, ok(json!({ "issuer": url, "token_endpoint": "file:///etc/passwd" })))]
    })
    .await;
    assert!(error.contains("endpoint 'file:///etc/passwd' is refused"), "{error}");
    assert_eq!(issuer.count("/authorize"), 0);
    assert!(elsewhere.state.lock().unwrap().seen.is_empty());
}

/// Returns the metadata of the authorization server, with another value of one member.
fn described(url: &str, name: &str, value: Value) -> Value {
    let mut metadata = json!({
        "issuer": url, "authorization_endpoint": format!("{url}/authorize"),
        "token_endpoint": format!("{url}/token"), "registration_endpoint": format!("{url}/register"),
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["client_secret_post"],
    });
    metadata[name] = value;
    metadata
}

#[tokio::test]
async fn invalid_answers_are_clear_errors() {
    let endpoints =
        |url: &str, name: &str, value: Value| vec![(METADATA, ok(described(url, name, value)))];
    let (_, error) =
        refused(|url| endpoints(url, "code_challenge_methods_supported", json!(["plain"]))).await;
    assert!(error.contains("PKCE"), "{error}");
    let (_, error) = refused(|url| endpoints(url, "registration_endpoint", json!(null))).await;
    assert!(error.contains("registers no clients by itself; register one there"), "{error}");
    let (_, error) =
        refused(|_| vec![(METADATA, (StatusCode::OK, vec![], " ".repeat(300 << 10)))]).await;
    assert!(error.contains("at most 262144 bytes"), "{error}");
    let (_, error) =
        refused(|_| vec![(METADATA, (StatusCode::OK, vec![], "<html>".to_owned()))]).await;
    assert!(error.contains("is not valid authorization server metadata"), "{error}");
    let (_, error) = refused(|_| {
        let denied = json!({ "error": "invalid_redirect_uri", "error_description": "not there" });
        vec![("/register", (StatusCode::BAD_REQUEST, vec![], denied.to_string()))]
    })
    .await;
    assert!(
        error.ends_with("authorization server refused: invalid_redirect_uri: not there"),
        "{error}"
    );
    // Errors never quote a value that may be a secret, even if it is malformed.
    let (_, error) =
        refused(|_| vec![("/token", ok(json!({ "access_token": ["hush"], "token_type": 1 })))])
            .await;
    assert!(error.ends_with("returned an invalid token response"), "{error}");
    let (_, error) = refused(|_| {
        vec![("/token", ok(json!({ "access_token": "hu\nsh", "token_type": "bearer" })))]
    })
    .await;
    assert!(error.ends_with("the token is not valid in a header"), "{error}");
    let (_, error) =
        refused(|_| vec![("/token", ok(json!({ "access_token": "hush", "token_type": "mac" })))])
            .await;
    assert!(error.ends_with("it gives a token of type 'mac'"), "{error}");
}

#[tokio::test]
async fn a_slow_authorization_server_is_not_waited_for() {
    let issuer = Issuer::start().await;
    let (listener, url) = reserve().await;
    let site = open(listener, url.clone(), options(&issuer, &url, KeySource::Discovered));
    issuer.set(|state| state.delay = Duration::from_mins(1));
    let mut options = with_person();
    options.document_timeout = Duration::from_millis(200);
    let error = connect(&site.url, options).await.map(|_| ()).unwrap_err();
    assert!(error.to_string().ends_with("no answer within 0.2 s"), "{error}");
}

#[tokio::test]
async fn a_refusal_without_a_person_names_the_required_login() {
    let (_issuer, site) = place().await;
    let target = HttpTarget {
        url: site.url.clone(),
        headers: [("Authorization".to_owned(), "Bearer hush-narrow".to_owned())].into(),
    };
    assert!(!format!("{target:?}").contains("hush"));
    let error = Client::http(target, ClientOptions::default()).await.map(|_| ()).unwrap_err();
    assert!(!format!("{error:?}").contains("hush"));
    assert_eq!(
        error.to_string(),
        "server wants further permission (HTTP status 403, scope 'tools'): the token lacks a scope"
    );
}
