//! The public keys of an issuer.

use std::{
    io::Read,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use http::{StatusCode, Uri};
use jsonwebtoken::{
    Algorithm, AlgorithmFamily, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse},
};
use serde::Deserialize;
use tokio::{
    sync::{Mutex, OwnedMutexGuard},
    task::JoinHandle,
};

use super::{
    options::{KeySource, ResourceServerOptions, TokenIssuer},
    token_error::TokenError,
};
use crate::{
    fetch::{Fetcher, Reach},
    url::same_url,
};

/// The keys of one issuer, fetched on demand.
pub(super) struct Keys {
    issuer: String,
    source: KeySource,
    fetcher: Fetcher,
    max_bytes: usize,
    lifetime: Duration,
    max_age: Duration,
    pause: Duration,
    cached: std::sync::RwLock<Arc<CachedKeys>>,
    /// Held while keys are fetched; contains the time of the last attempt.
    fetching: Arc<Mutex<Option<Instant>>>,
}

#[derive(Default)]
struct CachedKeys {
    keys: Vec<Key>,
    fetched: Option<Instant>,
}

/// A key and the algorithms it may be used with.
struct Key {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

impl Keys {
    pub(super) fn new(
        issuer: &TokenIssuer,
        fetcher: Fetcher,
        options: &ResourceServerOptions,
    ) -> Self {
        Self {
            issuer: issuer.issuer.clone(),
            source: issuer.keys.clone(),
            fetcher,
            max_bytes: options.max_key_bytes,
            lifetime: options.key_lifetime,
            max_age: options.key_max_age,
            pause: options.key_pause,
            cached: Default::default(),
            fetching: Arc::default(),
        }
    }

    /// Returns the key for a token with this header.
    pub(super) async fn find(
        self: &Arc<Self>,
        algorithm: Algorithm,
        id: Option<&str>,
    ) -> Result<DecodingKey, TokenError> {
        let before = self.cached();
        let age = before.fetched.map(|fetched| fetched.elapsed());
        if let Some(age) = age.filter(|age| *age < self.max_age)
            && let Some(key) = before.find(algorithm, id)
        {
            if age >= self.lifetime {
                self.fetch_in_background(before.fetched);
            }
            return Ok(key);
        }
        self.fetch_unless_just_done(before.fetched).await;
        let cached = self.cached();
        let is_new = cached.fetched != before.fetched;
        if !is_new && cached.fetched.is_none_or(|fetched| fetched.elapsed() >= self.max_age) {
            return Err(TokenError::KeysUnavailable);
        }
        cached.find(algorithm, id).ok_or(TokenError::Invalid("its issuer has no such key"))
    }

    /// Fetches without a token as the cause; does not count for the pause between fetches.
    pub(super) async fn warm_up(&self) -> Result<(), String> {
        let _held = self.fetching.lock().await;
        self.fetch().await
    }

    fn cached(&self) -> Arc<CachedKeys> {
        self.cached.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// Fetches the keys; concurrent callers share one fetch.
    async fn fetch_unless_just_done(self: &Arc<Self>, seen: Option<Instant>) {
        let last = self.fetching.clone().lock_owned().await;
        if let Some(fetch) = self.start(last, seen) {
            // The task has logged the error.
            _ = fetch.await;
        }
    }

    /// Fetches in the background, unless a fetch is running.
    fn fetch_in_background(self: &Arc<Self>, seen: Option<Instant>) {
        if let Ok(last) = self.fetching.clone().try_lock_owned() {
            self.start(last, seen);
        }
    }

    /// Starts a fetch, unless the last one was too recent: unauthenticated clients must not be able
    /// to cause many requests to the issuer. The fetch is a task, so it continues if the caller
    /// that started it disconnects.
    fn start(
        self: &Arc<Self>,
        mut last: OwnedMutexGuard<Option<Instant>>,
        seen: Option<Instant>,
    ) -> Option<JoinHandle<()>> {
        let was_fetched_meanwhile = self.cached().fetched != seen;
        let too_soon = last.is_some_and(|last| last.elapsed() < self.pause);
        if was_fetched_meanwhile || too_soon {
            return None;
        }
        *last = Some(Instant::now());
        let keys = self.clone();
        Some(tokio::spawn(async move {
            let _held = last;
            if let Err(problem) = keys.fetch().await {
                tracing::warn!(
                    issuer = keys.issuer,
                    problem,
                    "failed to fetch the issuer's signing keys"
                );
            }
        }))
    }

    async fn fetch(&self) -> Result<(), String> {
        let document = match &self.source {
            KeySource::File(path) => {
                let path = path.clone();
                let max_bytes = self.max_bytes;
                tokio::task::spawn_blocking(move || read(&path, max_bytes))
                    .await
                    .unwrap_or_else(|error| Err(error.to_string()))?
            }
            KeySource::Url(url) => {
                let uri = Reach::Loopback.check(url).map_err(|why| format!("{url}: {why}"))?;
                self.document(&uri).await?.ok_or_else(|| format!("{url}: not found"))?
            }
            KeySource::Discovered => {
                let uri = self.discover().await?;
                self.document(&uri).await?.ok_or_else(|| format!("{uri}: not found"))?
            }
        };
        let keys = parse(&document)?;
        if keys.is_empty() {
            return Err("the key set contains no key that can verify a token".to_owned());
        }
        let cached = CachedKeys { keys, fetched: Some(Instant::now()) };
        *self.cached.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Arc::new(cached);
        Ok(())
    }

    /// Returns the URL of the keys from the issuer's metadata.
    async fn discover(&self) -> Result<Uri, String> {
        #[derive(Deserialize)]
        struct Metadata {
            issuer: String,
            jwks_uri: String,
        }
        let issuer: Uri =
            self.issuer.parse().map_err(|_| format!("'{}' is not a valid URL", self.issuer))?;
        let origin = format!(
            "{}://{}",
            issuer.scheme_str().unwrap_or_default(),
            issuer.authority().map_or("", |authority| authority.as_str())
        );
        let path = issuer.path().trim_end_matches('/');
        for url in [
            format!("{origin}/.well-known/oauth-authorization-server{path}"),
            format!("{origin}/.well-known/openid-configuration{path}"),
            format!("{origin}{path}/.well-known/openid-configuration"),
        ] {
            let uri = Reach::Loopback.check(&url).map_err(|why| format!("{url}: {why}"))?;
            let Some(document) = self.document(&uri).await? else { continue };
            let found: Metadata = serde_json::from_slice(&document)
                .map_err(|error| format!("{url}: invalid metadata: {error}"))?;
            if !same_url(&found.issuer, &self.issuer) {
                return Err(format!("{url}: names another issuer"));
            }
            return Reach::of(&issuer)
                .check(&found.jwks_uri)
                .map_err(|why| format!("{url}: address of keys: {why}"));
        }
        Err(format!("{} has no metadata", self.issuer))
    }

    async fn document(&self, uri: &Uri) -> Result<Option<Vec<u8>>, String> {
        let answer = self.fetcher.get(uri).await.map_err(|error| format!("{uri}: {error}"))?;
        match answer.status {
            StatusCode::OK => Ok(Some(answer.body.to_vec())),
            status if status.is_client_error() => Ok(None),
            status => Err(format!("{uri}: answers with status {}", status.as_u16())),
        }
    }
}

impl CachedKeys {
    /// Returns the key with this id; without an id, the only key for the algorithm.
    fn find(&self, algorithm: Algorithm, id: Option<&str>) -> Option<DecodingKey> {
        let mut fit = self.keys.iter().filter(|key| {
            key.algorithms.contains(&algorithm) && (id.is_none() || key.id.as_deref() == id)
        });
        match (fit.next(), fit.next()) {
            (Some(key), None) => Some(key.key.clone()),
            _ => None,
        }
    }
}

fn read(path: &Path, max_bytes: usize) -> Result<Vec<u8>, String> {
    let mut document = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(max_bytes as u64 + 1).read_to_end(&mut document))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    if document.len() > max_bytes {
        return Err(format!("{}: has more than {max_bytes} bytes", path.display()));
    }
    Ok(document)
}

/// Parses the keys of a JWK set that can verify a signature. Other keys and malformed ones are left
/// out.
fn parse(document: &[u8]) -> Result<Vec<Key>, String> {
    #[derive(Deserialize)]
    struct JwkSet {
        keys: Vec<serde_json::Value>,
    }
    let set: JwkSet = serde_json::from_slice(document)
        .map_err(|error| format!("is not a valid JWK set: {error}"))?;
    let keys = set.keys.into_iter().filter_map(|key| {
        let jwk: Jwk = serde_json::from_value(key).ok()?;
        let algorithms = algorithms(&jwk);
        let key = DecodingKey::from_jwk(&jwk).ok()?;
        let is_asymmetric = key.family() != AlgorithmFamily::Hmac;
        (is_asymmetric && !algorithms.is_empty()).then(|| Key {
            id: jwk.common.key_id.clone(),
            algorithms,
            key,
        })
    });
    Ok(keys.collect())
}

/// Returns the algorithms of a key: the one that it names, else all of its type.
fn algorithms(jwk: &Jwk) -> Vec<Algorithm> {
    use Algorithm::{ES256, ES384, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512};
    if jwk.common.public_key_use.as_ref().is_some_and(|used| *used != PublicKeyUse::Signature) {
        return Vec::new();
    }
    let of_type: &[Algorithm] = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => &[RS256, RS384, RS512, PS256, PS384, PS512],
        AlgorithmParameters::EllipticCurve(key) => match key.curve {
            EllipticCurve::P256 => &[ES256],
            EllipticCurve::P384 => &[ES384],
            _ => &[],
        },
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => &[EdDSA],
        _ => &[],
    };
    let Some(named) = jwk.common.key_algorithm else { return of_type.to_vec() };
    let name = named.to_string();
    of_type.iter().filter(|algorithm| format!("{algorithm:?}") == name).copied().collect()
}
