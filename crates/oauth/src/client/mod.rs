//! OAuth 2.1 for a client: finding a server's authorization server, getting tokens there, and
//! sending them.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use marquetry_oauth::client::{LoopbackBrowser, OAuth, OAuthOptions};
//! use marquetry_protocol::client::{Client, ClientOptions, HttpTarget};
//!
//! let url = "https://mcp.example/mcp";
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let mut oauth = OAuthOptions::default();
//! oauth.user_agent = Some(Arc::new(LoopbackBrowser::new(listener, |url| println!("Log in at {url}"))?));
//! let options = ClientOptions {
//!     authorizer: Some(Arc::new(OAuth::new(url, oauth)?)),
//!     ..ClientOptions::default()
//! };
//! let client = Client::http(HttpTarget { url: url.into(), ..Default::default() }, options).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What to know
//! - Every URL that a server names must be `https:` or on this machine, and a server that is
//!   elsewhere can name none on this machine or in a private network. Redirects of metadata are
//!   followed within their origin, others are not; size and time are bounded.
//! - A client's id and secret belong to the issuer that gave them, and no other one sees them. A
//!   token goes to the origin of its server alone.
//! - One login at a time: requests that are refused meanwhile wait for it.
//! - Nothing here shows a token or a secret in an error, a log line or a `Debug` form.

mod clock;
mod discovery;
mod login;
mod options;
mod possession;
mod random;
mod registration;
mod store;
mod token;
mod user_agent;

use std::{
    collections::BTreeSet,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header, request};
use marquetry_protocol::client::{AuthorizationError, Authorizer, Interaction, Refusal};
use tokio::sync::{Mutex, OwnedMutexGuard, watch};

use self::{
    clock::now,
    discovery::{AuthorizationServer, Discovery, Resource},
    possession::Nonces,
    store::{Method, Tokens},
    token::{ClientIdentity, TokenAnswer, TokenEndpoint},
};
pub use self::{
    options::{
        Assertion, ClientProof, Grant, IdentityProvider, OAuthOptions, RegisteredClient,
        SecretMethod,
    },
    store::{CredentialStore, Credentials, DirectoryStore, MemoryStore},
    user_agent::{LoginRequest, LoopbackBrowser, UserAgent},
};
use crate::{
    ResourceMetadata, Secret, SigningKey,
    fetch::{Fetcher, Reach},
    url::{same_origin, same_url},
};

/// Authorization for one server.
pub struct OAuth(Arc<Flow>);

/// The authorization for one server, shared with its tasks.
struct Flow {
    /// The server's URL as it was given; its credentials are stored under it.
    server: String,
    uri: Uri,
    reach: Reach,
    options: OAuthOptions,
    fetcher: Fetcher,
    nonces: Nonces,
    /// The token to send with each request.
    active: RwLock<Option<Arc<ActiveToken>>>,
    /// Held while tokens are requested, so that concurrent requests share one login.
    work: Arc<Mutex<Work>>,
    /// Whether a person is being asked to log in.
    asking: watch::Sender<bool>,
}

/// The token to send with each request.
struct ActiveToken {
    authorization: HeaderValue,
    token: Secret,
    key: Option<SigningKey>,
    expires_at: Option<u64>,
    source: Source,
    /// Whether the server has accepted it at least once.
    accepted: AtomicBool,
}

impl ActiveToken {
    fn has_expired(&self) -> bool {
        /// A token with less time left than this counts as expired, in seconds.
        const MARGIN: u64 = 30;
        self.expires_at.is_some_and(|expires_at| expires_at <= now() + MARGIN)
    }
}

/// A login by a person that has not ended.
struct RunningLogin<'a>(&'a watch::Sender<bool>);

impl<'a> RunningLogin<'a> {
    fn begin(asking: &'a watch::Sender<bool>) -> Self {
        asking.send_replace(true);
        Self(asking)
    }
}

impl Drop for RunningLogin<'_> {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}

/// Endpoint that issued a token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Store,
    Refresh,
    Grant,
}

#[derive(Default)]
struct Work {
    loaded: bool,
    credentials: Credentials,
    /// The scopes that were requested after a server asked for more.
    widened: Option<BTreeSet<String>>,
}

impl OAuth {
    /// Creates the authorization for the server at `url`.
    ///
    /// # Errors
    /// Returns an error if the URL is invalid, if it is neither `https:` nor on this machine
    /// (anyone on the way could read the token), or if the client has a secret without an issuer.
    pub fn new(url: &str, options: OAuthOptions) -> Result<Self, AuthorizationError> {
        let checked = match url.parse() {
            Ok(uri) => {
                let reach = Reach::of(&uri);
                reach.check(url).map(|uri| (uri, reach))
            }
            Err(_) => Err("it is not a valid URL"),
        };
        let (uri, reach) = checked.map_err(|why| AuthorizationError::Url {
            what: "server",
            url: marquetry_protocol::client::without_secrets(url),
            why,
        })?;
        if let Some(RegisteredClient { id, proof: ClientProof::Secret(_), issuer: None }) =
            &options.client
            && !options.secret_for_first_issuer
        {
            return Err(AuthorizationError::Credentials(format!(
                "the secret of client '{id}' needs the issuer that gave it: the server could name any"
            )));
        }
        let fetcher =
            Fetcher::new(options.max_document_bytes, options.document_timeout, &options.network);
        Ok(Self(Arc::new(Flow {
            server: url.to_owned(),
            uri,
            reach,
            options,
            fetcher,
            nonces: Nonces::default(),
            active: RwLock::default(),
            work: Arc::default(),
            asking: watch::Sender::new(false),
        })))
    }
}

impl OAuth {
    /// Gets new tokens without a refused request: for servers that ask for a token only at some
    /// calls. Returns false if neither the server nor its origin names an authorization server.
    ///
    /// # Errors
    /// Returns an error if the login fails.
    pub async fn log_in(&self) -> Result<bool, AuthorizationError> {
        let flow = &self.0;
        let mut work = flow.work.clone().lock_owned().await;
        flow.load(&mut work).await?;
        let refusal = Refusal::default();
        let discovery = flow.discovery();
        let found = discovery.resource(&flow.uri, &refusal).await?;
        let (server, described) = flow.authorization_server(&work, &discovery, found).await?;
        if server.assumed {
            return Ok(false);
        }
        flow.obtain_anew(work, &server, described.as_ref(), &refusal).await?;
        Ok(true)
    }
}

impl Flow {
    fn discovery(&self) -> Discovery<'_> {
        Discovery { fetcher: &self.fetcher, reach: self.reach }
    }

    fn active(&self) -> Option<Arc<ActiveToken>> {
        self.active.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Loads the stored credentials, once.
    async fn load(&self, work: &mut Work) -> Result<(), AuthorizationError> {
        if work.loaded {
            return Ok(());
        }
        work.credentials = self.stored().await?.unwrap_or_default();
        work.loaded = true;
        self.show(work.credentials.tokens.as_ref(), Source::Store)
    }

    async fn stored(&self) -> Result<Option<Credentials>, AuthorizationError> {
        self.options.store.load(&self.server).await.map_err(|source| AuthorizationError::Io {
            what: "stored credentials".to_owned(),
            source,
        })
    }

    async fn save(&self, work: &Work) -> Result<(), AuthorizationError> {
        self.options.store.save(&self.server, &work.credentials).await.map_err(|source| {
            AuthorizationError::Io { what: "failed to store credentials".to_owned(), source }
        })
    }

    /// Sends these tokens from now on.
    fn show(&self, tokens: Option<&Tokens>, source: Source) -> Result<(), AuthorizationError> {
        let active = match tokens {
            None => None,
            Some(tokens) => {
                let key = tokens.key.as_ref().map(possession::read).transpose()?;
                let scheme = if key.is_some() { "DPoP" } else { "Bearer" };
                let text = format!("{scheme} {}", tokens.access.expose());
                let mut authorization = HeaderValue::from_str(&text).map_err(|_| {
                    AuthorizationError::Answer("the token is not valid in a header".to_owned())
                })?;
                authorization.set_sensitive(true);
                Some(Arc::new(ActiveToken {
                    authorization,
                    token: tokens.access.clone(),
                    key,
                    expires_at: tokens.expires_at,
                    source,
                    accepted: AtomicBool::new(false),
                }))
            }
        };
        *self.active.write().unwrap_or_else(PoisonError::into_inner) = active;
        Ok(())
    }

    /// Loads tokens that another process has stored since; returns false if there are none.
    async fn take_newer(&self, work: &mut Work) -> Result<bool, AuthorizationError> {
        let Some(kept) = self.stored().await? else { return Ok(false) };
        let (Some(theirs), Some(ours)) = (&kept.tokens, &work.credentials.tokens) else {
            return Ok(false);
        };
        let is_same_access = theirs.access.expose() == ours.access.expose();
        let their_refresh = theirs.refresh.as_ref().map(Secret::expose);
        if is_same_access && their_refresh == ours.refresh.as_ref().map(Secret::expose) {
            return Ok(false);
        }
        self.show(Some(theirs), Source::Store)?;
        work.credentials = kept;
        Ok(true)
    }

    /// Runs [`Self::refresh`] as a task that outlives the request that caused it: the authorization
    /// server may revoke the old token when it issues a new one, which must then be stored.
    async fn refresh_apart(
        self: &Arc<Self>,
        mut work: OwnedMutexGuard<Work>,
    ) -> Result<(OwnedMutexGuard<Work>, Result<bool, AuthorizationError>), AuthorizationError> {
        let flow = self.clone();
        let task = tokio::spawn(async move {
            let refreshed = flow.refresh(&mut work).await;
            Ok((work, refreshed))
        });
        task.await.unwrap_or_else(|error| {
            let source = std::io::Error::other(error);
            Err(AuthorizationError::Io { what: "refresh of tokens".to_owned(), source })
        })
    }

    /// Refreshes the tokens without a login; returns false if that is impossible.
    async fn refresh(&self, work: &mut Work) -> Result<bool, AuthorizationError> {
        if self.take_newer(work).await? && !self.active().is_some_and(|active| active.has_expired())
        {
            return Ok(true);
        }
        let Some(old) = work.credentials.tokens.clone() else { return Ok(false) };
        let Some(refresh) = &old.refresh else { return Ok(false) };
        let Some(client) = self.identity_of(work, &old) else { return Ok(false) };
        let key = old.key.as_ref().map(possession::read).transpose()?;
        let mut params = vec![("grant_type", "refresh_token"), ("refresh_token", refresh.expose())];
        let resource = old.resource.as_deref().filter(|_| self.options.send_resource);
        params.extend(resource.map(|resource| ("resource", resource)));
        let discovery = self.discovery();
        let endpoint = TokenEndpoint {
            discovery: &discovery,
            issuer: &old.issuer,
            url: &old.token_endpoint,
            client: &client,
            key: key.as_ref(),
            nonces: &self.nonces,
        };
        let answer = match endpoint.ask(&params).await {
            Ok(answer) => answer,
            // The refresh token was refused: there are no tokens now, unless another process has
            // stored new ones.
            Err(AuthorizationError::Denied { error, .. }) if error == "invalid_grant" => {
                if self.take_newer(work).await? {
                    return Ok(true);
                }
                tracing::debug!(error, "failed to refresh tokens");
                work.credentials.tokens = None;
                self.show(None, Source::Refresh)?;
                self.save(work).await?;
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        let scope = old.scope.clone();
        let mut tokens = Self::tokens(answer, &endpoint)?;
        tokens.resource = old.resource.clone();
        tokens.scope = tokens.scope.or(scope);
        tokens.refresh = tokens.refresh.or(old.refresh);
        self.show(Some(&tokens), Source::Refresh)?;
        work.widened = None;
        work.credentials.tokens = Some(tokens);
        self.save(work).await?;
        Ok(true)
    }

    /// Returns the client id with which these tokens were requested.
    fn identity_of(&self, work: &Work, tokens: &Tokens) -> Option<ClientIdentity> {
        let proof = match (&self.options.client, tokens.method) {
            (_, Method::None) => ClientProof::None,
            // Two issuers may give the same id, but not the same secret.
            (Some(client), _)
                if client.id == tokens.client_id
                    && client
                        .issuer
                        .as_ref()
                        .is_none_or(|issuer| same_url(issuer, &tokens.issuer)) =>
            {
                client.proof.clone()
            }
            _ => {
                let known = work.credentials.registration(&tokens.issuer)?;
                let secret = known.client_secret.clone()?;
                (known.client_id == tokens.client_id).then_some(ClientProof::Secret(secret))?
            }
        };
        Some(ClientIdentity { id: tokens.client_id.clone(), method: tokens.method, proof })
    }

    /// Checks the answer of a token endpoint.
    fn tokens(
        answer: TokenAnswer,
        endpoint: &TokenEndpoint<'_>,
    ) -> Result<Tokens, AuthorizationError> {
        const LONGEST: f64 = 10.0 * 365.0 * 86_400.0;
        let key = match answer.token_type.to_ascii_lowercase().as_str() {
            "bearer" => None,
            "dpop" if endpoint.key.is_some() => endpoint.key.map(possession::stored),
            _ => {
                return Err(AuthorizationError::Answer(format!(
                    "it gives a token of type '{}'",
                    marquetry_protocol::shortened(&answer.token_type)
                )));
            }
        };
        // Some servers send 0 for tokens that do not expire.
        let lifetime = answer.expires_in.filter(|seconds| *seconds > 0.0);
        Ok(Tokens {
            issuer: endpoint.issuer.to_owned(),
            token_endpoint: endpoint.url.to_owned(),
            client_id: endpoint.client.id.clone(),
            method: endpoint.client.method,
            resource: None,
            access: answer.access_token,
            key,
            refresh: answer.refresh_token.map(Secret::from),
            expires_at: lifetime.map(|seconds| now() + seconds.min(LONGEST) as u64),
            scope: answer.scope.map(|scopes| scopes.join(" ")),
        })
    }

    /// Gets tokens for a request that was refused.
    async fn obtain(
        self: &Arc<Self>,
        mut work: OwnedMutexGuard<Work>,
        refusal: &Refusal,
        interaction: Interaction,
    ) -> Result<(), AuthorizationError> {
        let discovery = self.discovery();
        let found = discovery.resource(&self.uri, refusal).await?;
        let (server, described) = self.authorization_server(&work, &discovery, found).await?;
        let insufficient = refusal.is_insufficient_scope();
        // Tokens of one authorization server are not shown to another.
        let tokens = work.credentials.tokens.as_ref();
        let is_same = tokens.is_some_and(|tokens| same_url(&tokens.issuer, &server.issuer));
        let refused_anew = self.active().is_some_and(|active| {
            active.source == Source::Refresh && !active.accepted.load(Ordering::Relaxed)
        });
        let may_ask = interaction == Interaction::Allowed && self.can_grant();
        if is_same && !insufficient && !refused_anew {
            let (returned, refreshed) = self.refresh_apart(work).await?;
            work = returned;
            match refreshed {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) if may_ask => self.give_up_refresh(&mut work, &server, &error),
                Err(error) => return Err(error),
            }
        }
        let is_login = matches!(self.options.grant, Grant::Login);
        if is_login && !may_ask {
            return Err(AuthorizationError::LoginRequired { issuer: server.issuer });
        }
        self.obtain_anew(work, &server, described.as_ref(), refusal).await
    }

    /// Returns whether new tokens can be requested: by a person, or with the client's credentials.
    fn can_grant(&self) -> bool {
        !matches!(self.options.grant, Grant::Login) || self.options.user_agent.is_some()
    }

    /// Prepares for a new grant after a refresh failed, whatever the reason: servers refuse a
    /// refresh token with many codes and statuses. A client that the server has forgotten registers
    /// again.
    fn give_up_refresh(
        &self,
        work: &mut Work,
        server: &AuthorizationServer,
        error: &AuthorizationError,
    ) {
        tracing::debug!(%error, "failed to refresh tokens");
        if matches!(error, AuthorizationError::Denied { error, .. } if error == "invalid_client") {
            work.credentials.forget_registration(&server.issuer);
        }
    }

    /// Requests tokens by the client's grant, without those that it has.
    async fn obtain_anew(
        self: &Arc<Self>,
        mut work: OwnedMutexGuard<Work>,
        server: &AuthorizationServer,
        described: Option<&ResourceMetadata>,
        refusal: &Refusal,
    ) -> Result<(), AuthorizationError> {
        let discovery = self.discovery();
        let insufficient = refusal.is_insufficient_scope();
        let tokens = work.credentials.tokens.as_ref();
        let is_same = tokens.is_some_and(|tokens| same_url(&tokens.issuer, &server.issuer));
        let resource = described
            .filter(|_| self.options.send_resource)
            .map(|described| described.resource.clone());
        let scopes = self.scopes(&work, server, described, refusal, is_same);
        let widened = (insufficient && is_same).then(|| scopes.clone());
        if widened.is_some() && work.widened == widened {
            let wanted = refusal.parameter("scope").unwrap_or_default();
            return Err(AuthorizationError::ScopeLoop(
                marquetry_protocol::shortened(wanted).to_owned(),
            ));
        }
        let scope = scopes.into_iter().collect::<Vec<_>>().join(" ");
        let scope = Some(scope).filter(|scope| !scope.is_empty());

        let key = self.proves_possession(server, described, refusal).then(SigningKey::generate);
        let client = self.client(server, &discovery, &mut work).await?;
        let endpoint = TokenEndpoint {
            discovery: &discovery,
            issuer: &server.issuer,
            url: &server.token_endpoint,
            client: &client,
            key: key.as_ref(),
            nonces: &self.nonces,
        };
        let answer = self.grant(server, &endpoint, resource.as_deref(), scope.as_deref()).await?;
        let mut tokens = Self::tokens(answer, &endpoint)?;
        tokens.resource = resource;
        tokens.scope = tokens.scope.or(scope);
        self.show(Some(&tokens), Source::Grant)?;
        work.credentials.tokens = Some(tokens);
        if widened.is_some() {
            work.widened = widened;
        }
        self.save(&work).await
    }

    /// Loads the stored tokens, and refreshes them if they have expired.
    async fn prepare(
        self: &Arc<Self>,
        mut work: OwnedMutexGuard<Work>,
    ) -> Result<(), AuthorizationError> {
        self.load(&mut work).await?;
        // Another request may have done it in the meantime.
        if self.active().is_some_and(|active| active.has_expired()) {
            let (_work, refreshed) = self.refresh_apart(work).await?;
            match refreshed {
                // The server refuses the old token, and then the person logs in.
                Err(error) if self.can_grant() => {
                    tracing::debug!(%error, "failed to refresh tokens");
                }
                refreshed => _ = refreshed?,
            }
        }
        Ok(())
    }

    /// Returns the authorization server to use, preferably one at which this client is registered.
    async fn authorization_server(
        &self,
        work: &Work,
        discovery: &Discovery<'_>,
        found: Resource,
    ) -> Result<(AuthorizationServer, Option<ResourceMetadata>), AuthorizationError> {
        match found {
            Resource::Undescribed { issuer } => {
                let server = discovery.issuer(&issuer).await?;
                Ok((server.unwrap_or_else(|| AuthorizationServer::assumed(&issuer)), None))
            }
            Resource::Described(described) => {
                let offered = &described.authorization_servers;
                let ours = self.options.client.as_ref().and_then(|client| client.issuer.as_ref());
                let registered_at = offered.iter().find(|issuer| {
                    ours.is_some_and(|ours| same_url(ours, issuer))
                        || work.credentials.registration(issuer).is_some()
                });
                let Some(issuer) = registered_at.or(offered.first()) else {
                    return Err(AuthorizationError::Answer("no authorization server".to_owned()));
                };
                let lacks = "has no metadata";
                let server = discovery.issuer(issuer).await?.ok_or_else(|| {
                    AuthorizationError::Unsupported { issuer: issuer.clone(), lacks }
                })?;
                Ok((server, Some(described)))
            }
        }
    }

    /// Returns the scopes to request: those of the refusal, else those of the server's metadata,
    /// else none (2025-11-25, "Scope Selection Strategy"). If the server asks for more scopes,
    /// those already granted are kept (SEP-2350).
    fn scopes(
        &self,
        work: &Work,
        server: &AuthorizationServer,
        described: Option<&ResourceMetadata>,
        refusal: &Refusal,
        is_same: bool,
    ) -> BTreeSet<String> {
        let mut scopes: BTreeSet<String> = match refusal.parameter("scope") {
            Some(wanted) => wanted.split_ascii_whitespace().map(str::to_owned).collect(),
            None => described
                .and_then(|described| described.scopes_supported.clone())
                .unwrap_or_default()
                .into_iter()
                .collect(),
        };
        scopes.extend(self.options.scopes.iter().cloned());
        if is_same && refusal.is_insufficient_scope() {
            let tokens = work.credentials.tokens.as_ref();
            let had = tokens.and_then(|tokens| tokens.scope.as_deref()).unwrap_or_default();
            scopes.extend(had.split_ascii_whitespace().map(str::to_owned));
        }
        const OFFLINE: &str = "offline_access";
        let is_login = matches!(self.options.grant, Grant::Login);
        // Alone it would ask for no other scope.
        if self.options.offline_access
            && is_login
            && !scopes.is_empty()
            && server.has_scope(OFFLINE)
        {
            scopes.insert(OFFLINE.to_owned());
        }
        scopes
    }

    /// Returns whether to bind tokens to a key: the server asks for it, and both sides support it.
    fn proves_possession(
        &self,
        server: &AuthorizationServer,
        described: Option<&ResourceMetadata>,
        refusal: &Refusal,
    ) -> bool {
        let is_wanted = refusal.challenges.iter().any(|challenge| challenge.is("DPoP"))
            || described.is_some_and(|described| {
                described.dpop_bound_access_tokens_required
                    || has_es256(described.dpop_signing_alg_values_supported.as_deref())
            });
        self.options.proof_of_possession
            && is_wanted
            && has_es256(server.dpop_signing_alg_values_supported.as_deref())
    }

    /// Returns the client id at that server. Registers the client if necessary.
    async fn client(
        &self,
        server: &AuthorizationServer,
        discovery: &Discovery<'_>,
        work: &mut Work,
    ) -> Result<ClientIdentity, AuthorizationError> {
        let before = work.credentials.registrations.len();
        let first = work.credentials.first_issuer.is_some();
        let identity =
            registration::identity(&self.options, server, discovery, &mut work.credentials).await?;
        let credentials = &work.credentials;
        if credentials.registrations.len() != before || credentials.first_issuer.is_some() != first
        {
            self.save(work).await?;
        }
        Ok(identity)
    }

    async fn grant(
        &self,
        server: &AuthorizationServer,
        endpoint: &TokenEndpoint<'_>,
        resource: Option<&str>,
        scope: Option<&str>,
    ) -> Result<TokenAnswer, AuthorizationError> {
        const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
        let assertion;
        let mut params = match &self.options.grant {
            Grant::Login => {
                let _asking = RunningLogin::begin(&self.asking);
                return login::login(&self.options, server, endpoint, resource, scope).await;
            }
            Grant::ClientCredentials => vec![("grant_type", "client_credentials")],
            Grant::JwtBearer(source) => {
                assertion = source.assertion(&server.issuer).await?;
                vec![("grant_type", JWT_BEARER), ("assertion", assertion.expose())]
            }
            Grant::EnterpriseManaged(provider) => {
                assertion = self.exchange(provider, &server.issuer, resource, scope).await?;
                vec![("grant_type", JWT_BEARER), ("assertion", assertion.expose())]
            }
        };
        params.extend(scope.map(|scope| ("scope", scope)));
        params.extend(resource.map(|resource| ("resource", resource)));
        endpoint.ask(&params).await
    }

    /// Exchanges a person's id token for an assertion that `issuer` accepts (extension
    /// Enterprise-Managed Authorization, "Token Exchange").
    async fn exchange(
        &self,
        provider: &IdentityProvider,
        issuer: &str,
        resource: Option<&str>,
        scope: Option<&str>,
    ) -> Result<Secret, AuthorizationError> {
        const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
        let id_token = provider.id_token.assertion(&provider.token_endpoint).await?;
        let (method, proof) = match &provider.client_secret {
            Some(secret) => (Method::ClientSecretPost, ClientProof::Secret(secret.clone())),
            None => (Method::None, ClientProof::None),
        };
        let client = ClientIdentity { id: provider.client_id.clone(), method, proof };
        // The address comes from the configuration.
        let reach = provider.token_endpoint.parse().map_or(self.reach, |uri| Reach::of(&uri));
        let endpoint = TokenEndpoint {
            discovery: &Discovery { fetcher: &self.fetcher, reach },
            issuer: &provider.token_endpoint,
            url: &provider.token_endpoint,
            client: &client,
            key: None,
            nonces: &self.nonces,
        };
        let mut params = vec![
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("requested_token_type", ID_JAG),
            ("audience", issuer),
            ("subject_token", id_token.expose()),
            ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
        ];
        params.extend(scope.map(|scope| ("scope", scope)));
        params.extend(resource.map(|resource| ("resource", resource)));
        let answer = endpoint.ask(&params).await?;
        match answer.issued_token_type.as_deref() {
            Some(ID_JAG) => Ok(answer.access_token),
            _ => Err(AuthorizationError::Answer(
                "the identity provider returned a token of another type than ID-JAG".to_owned(),
            )),
        }
    }
}

/// Returns whether a list of algorithms has ES256, which this client signs its proofs with.
fn has_es256(algorithms: Option<&[String]>) -> bool {
    algorithms.unwrap_or_default().iter().any(|algorithm| algorithm == "ES256")
}

#[async_trait]
impl Authorizer for OAuth {
    async fn sign(&self, request: &mut request::Parts) -> Result<(), AuthorizationError> {
        let flow = &self.0;
        if !same_origin(&request.uri, &flow.uri) {
            return Ok(());
        }
        let mut active = flow.active().filter(|active| !active.has_expired());
        if active.is_none() {
            // A login takes long: requests that are refused in the meantime wait for it.
            let mut asking = flow.asking.subscribe();
            let work = tokio::select! {
                biased;
                work = flow.work.clone().lock_owned() => work,
                _ = asking.wait_for(|asking| *asking) => return Ok(()),
            };
            flow.prepare(work).await?;
            active = flow.active();
        }
        let Some(active) = active else { return Ok(()) };
        request.headers.insert(header::AUTHORIZATION, active.authorization.clone());
        if let Some(key) = &active.key {
            let token = Some(&active.token);
            let proof = possession::proof(key, &flow.nonces, &request.method, &request.uri, token)?;
            request.headers.insert("dpop", proof);
        }
        Ok(())
    }

    fn on_response(&self, uri: &Uri, status: StatusCode, headers: &HeaderMap) -> bool {
        let is_new = self.0.nonces.update(uri, headers);
        let active = self.0.active();
        if let Some(active) = &active
            && !matches!(status, StatusCode::UNAUTHORIZED)
        {
            active.accepted.store(true, Ordering::Relaxed);
        }
        let is_bound = active.is_some_and(|active| active.key.is_some());
        is_new && is_bound && status == StatusCode::UNAUTHORIZED
    }

    async fn authorize(
        &self,
        refusal: &Refusal,
        interaction: Interaction,
    ) -> Result<(), AuthorizationError> {
        let flow = &self.0;
        let mut work = flow.work.clone().lock_owned().await;
        flow.load(&mut work).await?;
        if let Some(active) = flow.active() {
            let is_active = refusal.presented() == Some(&active.authorization);
            if !is_active {
                // Another request has got newer tokens in the meantime.
                return Ok(());
            }
            if active.source == Source::Grant
                && !active.accepted.load(Ordering::Relaxed)
                && !refusal.is_insufficient_scope()
            {
                return Err(AuthorizationError::Answer(
                    "its token is new, and the server does not accept it".to_owned(),
                ));
            }
        }
        flow.obtain(work, refusal, interaction).await
    }
}
