//! A small authorization server on loopback, controlled by the test.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use ring::{
    digest,
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
        RsaKeyPair, RsaPublicKeyComponents,
    },
};
use rustls_pki_types::{PrivatePkcs8KeyDer, pem::PemObject};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

/// An authorization server.
pub(super) struct Issuer {
    pub(super) url: String,
    pub(super) state: Arc<Mutex<State>>,
    serving: JoinHandle<()>,
}

/// Its settings, and the requests that it received.
pub(super) struct State {
    pub(super) keys: Vec<Key>,
    /// Every request: path with query, and body.
    pub(super) seen: Vec<(String, String)>,
    /// Lifetime of its tokens.
    pub(super) lifetime: Duration,
    /// Answers that replace the normal ones, by path.
    pub(super) instead: HashMap<String, Instead>,
    /// The answer to every refresh token, instead of new tokens.
    pub(super) refresh_refusal: Option<(StatusCode, String)>,
    /// Time before each answer.
    pub(super) delay: Duration,
    challenge: String,
    refresh: Option<String>,
    granted: u32,
}

/// Status, headers and body.
pub(super) type Instead = (StatusCode, Vec<(&'static str, String)>, String);

/// A key that signs tokens.
pub(super) struct Key {
    pub(super) id: Option<&'static str>,
    pair: Pair,
}

enum Pair {
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

impl Key {
    pub(super) fn es256(id: &'static str) -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let der = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, der.as_ref(), &random).unwrap();
        Self { id: Some(id), pair: Pair::Ecdsa(pair) }
    }

    pub(super) fn ed25519(id: &'static str) -> Self {
        let der = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self {
            id: Some(id),
            pair: Pair::Ed25519(Ed25519KeyPair::from_pkcs8(der.as_ref()).unwrap()),
        }
    }

    /// Always the same key: generating one is slow, and ring cannot do it.
    pub(super) fn rsa(id: &'static str) -> Self {
        let der = PrivatePkcs8KeyDer::from_pem_slice(include_bytes!("rsa.pem")).unwrap();
        let pair = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).unwrap();
        Self { id: Some(id), pair: Pair::Rsa(pair) }
    }

    pub(super) fn algorithm(&self) -> &'static str {
        match self.pair {
            Pair::Ecdsa(_) => "ES256",
            Pair::Ed25519(_) => "EdDSA",
            Pair::Rsa(_) => "RS256",
        }
    }

    pub(super) fn jwk(&self) -> Value {
        let mut jwk = match &self.pair {
            Pair::Ecdsa(pair) => {
                let point = pair.public_key().as_ref();
                json!({ "kty": "EC", "crv": "P-256", "x": b64(&point[1..33]), "y": b64(&point[33..]) })
            }
            Pair::Ed25519(pair) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "x": b64(pair.public_key().as_ref()) })
            }
            Pair::Rsa(_) => {
                let (n, e) = self.rsa_public();
                json!({ "kty": "RSA", "use": "sig", "alg": "RS256", "n": b64(&n), "e": b64(&e) })
            }
        };
        if let Some(id) = self.id {
            jwk["kid"] = id.into();
        }
        jwk
    }

    /// Modulus and exponent.
    pub(super) fn rsa_public(&self) -> (Vec<u8>, Vec<u8>) {
        let Pair::Rsa(pair) = &self.pair else { panic!("no RSA key") };
        let public = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public());
        (public.n, public.e)
    }

    /// A token with these claims.
    pub(super) fn sign(&self, claims: &Value) -> String {
        let mut header = json!({ "typ": "at+jwt", "alg": self.algorithm() });
        if let Some(id) = self.id {
            header["kid"] = id.into();
        }
        self.sign_as(&header, claims)
    }

    /// The same with another header.
    pub(super) fn sign_as(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", b64(header.to_string()), b64(claims.to_string()));
        let random = SystemRandom::new();
        let signature = match &self.pair {
            Pair::Ecdsa(pair) => pair.sign(&random, message.as_bytes()).unwrap().as_ref().to_vec(),
            Pair::Ed25519(pair) => pair.sign(message.as_bytes()).as_ref().to_vec(),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message.as_bytes(), &mut signature).unwrap();
                signature
            }
        };
        format!("{message}.{}", b64(signature))
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Issuer {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State {
            keys: vec![Key::es256("one")],
            seen: Vec::new(),
            lifetime: Duration::from_mins(10),
            instead: HashMap::new(),
            refresh_refusal: None,
            delay: Duration::ZERO,
            challenge: String::new(),
            refresh: None,
            granted: 0,
        }));
        let served = state.clone();
        let issuer = url.clone();
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let state = served.clone();
                let issuer = issuer.clone();
                let service =
                    service_fn(move |request| answer(state.clone(), issuer.clone(), request));
                let connection =
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::spawn(connection);
            }
        });
        Self { url, state, serving }
    }

    /// Changes its settings.
    pub(super) fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
    }

    /// Number of requests for a path.
    pub(super) fn count(&self, path: &str) -> usize {
        let state = self.state.lock().unwrap();
        state.seen.iter().filter(|(seen, _)| seen.split('?').next() == Some(path)).count()
    }

    /// The query and body of the last request for a path.
    pub(super) fn last(&self, path: &str) -> HashMap<String, String> {
        let state = self.state.lock().unwrap();
        let mut latest_first = state.seen.iter().rev();
        let (seen, body) = latest_first
            .find(|(seen, _)| seen.split('?').next() == Some(path))
            .expect("it was asked for");
        let query = seen.split_once('?').map_or("", |(_, query)| query);
        form(&format!("{query}&{body}"))
    }

    /// The claims of its tokens for `resource`.
    pub(super) fn claims(&self, resource: &str) -> Value {
        claims(&self.url, resource, 600)
    }

    /// A good token.
    pub(super) fn token(&self, resource: &str) -> String {
        self.state.lock().unwrap().keys[0].sign(&self.claims(resource))
    }
}

fn claims(issuer: &str, resource: &str, lifetime: u64) -> Value {
    json!({
        "iss": issuer, "aud": resource, "sub": "ann", "scope": "tools extra",
        "iat": now(), "exp": now() + lifetime,
    })
}

pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

pub(super) fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn form(text: &str) -> HashMap<String, String> {
    form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

async fn answer(
    state: Arc<Mutex<State>>,
    issuer: String,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let body = String::from_utf8_lossy(&body).into_owned();
    let path = head.uri.path().to_owned();
    let delay = {
        let mut state = state.lock().unwrap();
        state.seen.push((head.uri.to_string(), body.clone()));
        state.delay
    };
    tokio::time::sleep(delay).await;
    let mut state = state.lock().unwrap();
    if let Some((status, headers, body)) = state.instead.get(&path) {
        let mut response = Response::builder().status(*status);
        for (name, value) in headers {
            response = response.header(*name, value);
        }
        return Ok(response.body(Full::new(body.clone().into())).unwrap());
    }
    let query = form(head.uri.query().unwrap_or_default());
    Ok(match (&head.method, path.as_str()) {
        (&Method::GET, "/.well-known/oauth-authorization-server") => json(
            200,
            json!({
                "issuer": issuer,
                "authorization_endpoint": format!("{issuer}/authorize"),
                "token_endpoint": format!("{issuer}/token"),
                "registration_endpoint": format!("{issuer}/register"),
                "jwks_uri": format!("{issuer}/jwks"),
                "scopes_supported": ["tools", "offline_access"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["client_secret_post"],
                "authorization_response_iss_parameter_supported": true,
            }),
        ),
        (&Method::GET, "/jwks") => {
            json(200, json!({ "keys": state.keys.iter().map(Key::jwk).collect::<Vec<_>>() }))
        }
        (&Method::POST, "/register") => json(
            201,
            json!({ "client_id": "registered", "client_secret": "hush-client",
                "token_endpoint_auth_method": "client_secret_post" }),
        ),
        (&Method::GET, "/authorize") => {
            state.challenge.clone_from(&query["code_challenge"]);
            let back = format!(
                "{}?code=hush-code&state={}&iss={issuer}",
                query["redirect_uri"], query["state"]
            );
            Response::builder().status(302).header("location", back).body(Full::default()).unwrap()
        }
        (&Method::POST, "/token") => {
            let form = form(&body);
            let is_client = form.get("client_secret").is_some_and(|secret| secret == "hush-client");
            let is_good = match form["grant_type"].as_str() {
                "authorization_code" => {
                    let verifier = form["code_verifier"].as_bytes();
                    form["code"] == "hush-code"
                        && b64(digest::digest(&digest::SHA256, verifier)) == state.challenge
                }
                "refresh_token" => form.get("refresh_token") == state.refresh.as_ref(),
                _ => false,
            };
            let refusal =
                state.refresh_refusal.clone().filter(|_| form["grant_type"] == "refresh_token");
            if let Some((status, body)) = refusal {
                Response::builder().status(status).body(Full::new(body.into())).unwrap()
            } else if !is_client || !is_good {
                json(400, json!({ "error": "invalid_grant", "error_description": "no" }))
            } else {
                state.granted += 1;
                let lifetime = state.lifetime.as_secs();
                let mut claims = claims(&issuer, &form["resource"], lifetime);
                claims["jti"] = state.granted.into();
                let refresh = format!("hush-refresh-{}", state.granted);
                state.refresh = Some(refresh.clone());
                json(
                    200,
                    json!({ "access_token": state.keys[0].sign(&claims), "token_type": "bearer",
                        "expires_in": lifetime, "refresh_token": refresh, "scope": "tools extra" }),
                )
            }
        }
        _ => json(404, json!({})),
    })
}

fn json(status: u16, body: Value) -> Response<Full<Bytes>> {
    Response::builder().status(status).body(Full::new(body.to_string().into())).unwrap()
}
