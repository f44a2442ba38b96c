//! The HTTP routes, with the checks that each request must pass.

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use axum::{
    Extension, Router,
    body::Body,
    extract::{OriginalUri, Request, State},
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri, header,
        request::Parts,
    },
    middleware::{Next, from_fn, from_fn_with_state},
    routing::{any, get},
};
use marquetry_console::{Console, Viewer};
use marquetry_oauth::server::ResourceServer;
use marquetry_protocol::{
    error_code,
    server::{
        Server,
        http::{
            Authenticator, ConnectionInfo, Denial, HostGuard, HttpEndpoint, LegacySseEndpoint,
            Refusal,
        },
    },
};
use marquetry_rate_limit::LogLimit;
use serde_json::json;
use tracing::Instrument as _;

use crate::console::chat_routes;
use crate::console::{ServerBackend, artifact_routes};
use crate::{
    health::{ADMIN, Health},
    home,
    rest::{self, McpV1, Rest, RestError, json_response},
};

const MCP: &str = "/mcp";

/// Stream of HTTP+SSE, the transport of 2024-11-05.
const SSE: &str = "/sse";

/// Messages of HTTP+SSE clients.
pub(crate) const MESSAGES: &str = "/messages";

/// The endpoints behind the routes.
pub(crate) struct Routes {
    pub(crate) mcp: HttpEndpoint,
    pub(crate) sse: LegacySseEndpoint,
    pub(crate) guard: HostGuard,
    /// `server.allowed_origins`.
    pub(crate) origins: Vec<String>,
    pub(crate) authenticator: Option<Arc<dyn Authenticator>>,
    /// See [`metadata_routes`].
    pub(crate) metadata: Router,
    pub(crate) health: Arc<Health>,
    pub(crate) rest: Arc<Rest>,
    pub(crate) mcp_v1: Arc<McpV1>,
    /// The configured URL of `/mcp`.
    pub(crate) endpoint: Option<String>,
    /// Further routes, for administrators.
    pub(crate) admin: Router,
    /// The console, if it is switched on, and what it shows.
    pub(crate) console: Option<(Console, Arc<ServerBackend>)>,
}

/// Whether the listener of a request is on a loopback address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnLoopback(pub(crate) bool);

/// Refuses requests with foreign `Host` or `Origin` headers before they reach a route.
struct RequestGuard {
    guard: HostGuard,
    /// Origins of other servers whose pages may call, in lower case.
    origins: Vec<String>,
    /// Bounds the log of refusals.
    logged: LogLimit,
}

impl RequestGuard {
    fn new(guard: HostGuard, origins: Vec<String>) -> Self {
        let origins = origins
            .into_iter()
            .map(|origin| origin.trim_end_matches('/').to_ascii_lowercase())
            .collect();
        Self { guard, origins, logged: LogLimit::new(MAX_LOGGED_REFUSALS) }
    }

    /// Returns the first of the headers `Host` and `Origin` that is refused. The guard accepts
    /// every page on this machine; this check accepts only pages of this server and of the
    /// configured origins, because any program on this machine can serve a page with content from
    /// elsewhere.
    fn check(&self, request: &Request) -> Result<(), RestError> {
        self.guard.check_request(request).map_err(|refusal| match refusal {
            Refusal::Origin(origin) => RestError::OriginNotAllowed(origin),
            Refusal::Host(host) => RestError::HostNotAllowed(host),
            _ => RestError::HostNotAllowed(String::new()),
        })?;
        let Some(origin) = request.headers().get(header::ORIGIN) else {
            return check_site(request);
        };
        let origin = String::from_utf8_lossy(origin.as_bytes()).to_ascii_lowercase();
        let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
        let host = authority.or(request.headers().get(header::HOST).map(HeaderValue::as_bytes));
        let page = origin.split_once("://").map(|(_, host)| host.as_bytes());
        let is_own = match (page, host) {
            (Some(page), Some(host)) => page.eq_ignore_ascii_case(host),
            _ => false,
        };
        if is_own || self.origins.contains(&origin) {
            return Ok(());
        }
        Err(RestError::OriginNotAllowed(marquetry_protocol::shortened(&origin).to_owned()))
    }
}

/// Refuses requests from pages of other sites that have no `Origin` header, such as requests for
/// images. Links to this server's own page work from everywhere.
fn check_site(request: &Request) -> Result<(), RestError> {
    let headers = request.headers();
    let Some(site) = headers.get(SITE) else { return Ok(()) };
    let is_other = site != "same-origin" && site != "none";
    let is_link = request.uri().path() == "/"
        && headers.get("sec-fetch-dest").is_some_and(|destination| destination == "document");
    if is_other && !is_link {
        let site = String::from_utf8_lossy(site.as_bytes());
        return Err(RestError::CrossSite(marquetry_protocol::shortened(&site).to_owned()));
    }
    Ok(())
}

/// The header in which a browser names the relation of the requesting site to this server (Fetch
/// Metadata Request Headers, section 2.4).
const SITE: &str = "sec-fetch-site";

/// Returns the router of `/`, `/mcp`, `/sse`, `/messages`, `/mcp/v1/…`, `/media/…`, `/api/tools`,
/// `/api/tools/{name}`, `/healthz`, `/livez`, `/readyz`, of the console, and of the metadata for
/// clients that log in.
pub(crate) fn router(routes: Routes) -> Router {
    let (console, console_routes) = match routes.console {
        Some((console, backend)) => {
            let server = routes.rest.server.clone();
            let data = console_routes(&console, backend, server, routes.authenticator.clone());
            let routes = console.open_router().merge(data);
            (Some(console), routes)
        }
        None => (None, Router::new()),
    };
    let Routes {
        mcp,
        sse,
        guard,
        origins,
        authenticator,
        metadata,
        health,
        rest,
        mcp_v1,
        endpoint,
        ..
    } = routes;
    let admin = routes
        .admin
        .layer(from_fn(while_client_waits))
        .layer(from_fn_with_state(authenticator.clone(), for_administrators));
    let messages = sse.clone();
    let site = home::Site { endpoint, wants_token: authenticator.is_some(), console };
    let home_site = site.clone();
    metadata
        .route(
            MCP,
            any(move |OriginalUri(original): OriginalUri, request: Request| {
                let mcp = mcp.clone();
                let site = site.clone();
                async move {
                    if home::is_browser_visit(&request) {
                        let prefix = mount_path(&original, request.uri());
                        return home::page_response(request.headers(), prefix, &site);
                    }
                    recorded(&mcp, &site, request).await
                }
            }),
        )
        .route(
            SSE,
            any(move |OriginalUri(original): OriginalUri, request: Request| {
                let sse = match mount_path(&original, request.uri()) {
                    "" => sse.clone(),
                    prefix => sse.with_messages_path(format!("{prefix}{MESSAGES}")),
                };
                async move { sse.stream(&request).await.map(Body::new) }
            }),
        )
        .route(
            MESSAGES,
            any(move |request: Request| {
                let messages = messages.clone();
                async move { messages.message(request).await.map(Body::new) }
            }),
        )
        .route(
            "/",
            get(async move |OriginalUri(original): OriginalUri, uri: Uri, headers: HeaderMap| {
                home::answer(&headers, mount_path(&original, &uri), &home_site)
            }),
        )
        .merge(console_routes)
        .merge(admin)
        .merge(health_routes(health, authenticator.clone()))
        .merge(
            rest::routes(rest)
                .merge(rest::media_routes(mcp_v1.clone()))
                .merge(rest::mcp_v1_routes(mcp_v1))
                .route_layer(from_fn_with_state(authenticator, authenticate)),
        )
        .fallback(async |request: Request| refusal(request.uri().path(), &RestError::NotFound))
        .method_not_allowed_fallback(async |request: Request| {
            refusal(request.uri().path(), &RestError::MethodNotAllowed)
        })
        .layer(from_fn_with_state(Arc::new(RequestGuard::new(guard, origins)), check))
}

/// Answers a request to the MCP endpoint, and logs its messages for the console.
async fn recorded(mcp: &HttpEndpoint, site: &home::Site, request: Request) -> Response<Body> {
    let Some(console) = &site.console else { return mcp.handle(request).await.map(Body::new) };
    console.log_exchange(request, async |request| mcp.handle(request).await.map(Body::new)).await
}

/// Returns the path under which the router is nested, given the URI of a request and the rest of it
/// that reaches the router. Empty at the root.
fn mount_path<'a>(original: &'a Uri, rest: &Uri) -> &'a str {
    let path = original.path();
    path.strip_suffix(rest.path()).unwrap_or(path).trim_end_matches('/')
}

/// Refused requests that are logged in a second.
const MAX_LOGGED_REFUSALS: u32 = 5;

/// Returns `/healthz`, `/livez`, `/readyz`. They need no token, but the details of `/healthz` do.
fn health_routes(health: Arc<Health>, authenticator: Option<Arc<dyn Authenticator>>) -> Router {
    let ready = health.clone();
    Router::new()
        .route("/livez", get(async || json_response(StatusCode::OK, &json!({"status": "alive"}))))
        .route(
            "/readyz",
            get(async move || match ready.readiness() {
                Ok(()) => json_response(StatusCode::OK, &json!({"status": "ready"})),
                Err(why) => {
                    let body = json!({"status": why.name()});
                    json_response(StatusCode::SERVICE_UNAVAILABLE, &body)
                }
            }),
        )
        .route(
            "/healthz",
            get(async move |here: Option<Extension<OnLoopback>>, request: Request| {
                let is_here = here.is_some_and(|Extension(OnLoopback(is_here))| is_here);
                let (head, _) = request.into_parts();
                match may_see_details(is_here, &head, authenticator.as_deref()).await {
                    Ok(true) => json_response(StatusCode::OK, &health.report()),
                    Ok(false) => {
                        let body = json!({"status": health.status().name()});
                        json_response(StatusCode::OK, &body)
                    }
                    Err(denial) => denied("/healthz", denial),
                }
            }),
        )
}

/// Returns whether a request may see the whole report of `/healthz`. With authentication it needs a
/// token with the scope `admin`; without, it must come from this machine.
async fn may_see_details(
    is_here: bool,
    head: &Parts,
    authenticator: Option<&dyn Authenticator>,
) -> Result<bool, Denial> {
    let Some(authenticator) = authenticator else {
        // A proxy on this machine forwards requests from other machines.
        let is_named_here = HostGuard::loopback().check(&head.headers).is_ok();
        let is_forwarded =
            ["forwarded", "x-forwarded-for"].iter().any(|name| head.headers.contains_key(*name));
        return Ok(is_here && is_named_here && !is_forwarded);
    };
    if !head.headers.contains_key(header::AUTHORIZATION) {
        return Ok(false);
    }
    Ok(authenticator.authenticate(head).await?.has_scope(ADMIN))
}

/// Drops the handler of a request whose client has disconnected, so that a test without a reader
/// makes no further model calls.
async fn while_client_waits(request: Request, next: Next) -> Response<Body> {
    let connection = request.extensions().get::<ConnectionInfo>().cloned();
    let gone = async {
        match connection {
            Some(connection) => connection.half_closed().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        response = next.run(request) => response,
        () = gone => json_response(StatusCode::BAD_REQUEST, &json!({"error": "the client has disconnected"})),
    }
}

/// Accepts callers with the scope `admin`; without authentication, callers on this machine.
async fn for_administrators(
    State(authenticator): State<Option<Arc<dyn Authenticator>>>,
    here: Option<Extension<OnLoopback>>,
    request: Request,
    next: Next,
) -> Response<Body> {
    let is_here = here.is_some_and(|Extension(OnLoopback(is_here))| is_here);
    let (mut head, body) = request.into_parts();
    let may_pass = match &authenticator {
        Some(_) if !head.headers.contains_key(header::AUTHORIZATION) => Ok(false),
        Some(authenticator) => authenticator.authenticate(&head).await.map(|caller| {
            let is_admin = caller.has_scope(ADMIN);
            // Handlers record the author of a change.
            head.extensions.insert(caller);
            is_admin
        }),
        None => may_see_details(is_here, &head, None).await,
    };
    match may_pass {
        Ok(true) => next.run(Request::from_parts(head, body)).await,
        Ok(false) => {
            let problem = "only callers on this machine may use this, or with [auth] tokens with the scope admin";
            json_response(StatusCode::FORBIDDEN, &json!({"error": problem}))
        }
        Err(denial) => denied(head.uri.path(), denial),
    }
}

/// Returns the routes of the console's data. They have the checks of the other routes, and need a
/// viewer.
fn console_routes(
    console: &Console,
    backend: Arc<ServerBackend>,
    server: Server,
    authenticator: Option<Arc<dyn Authenticator>>,
) -> Router {
    let artifacts = artifact_routes(backend.artifacts.clone());
    let chats = chat_routes(server, backend.knowledge.clone());
    let own = console.guarded(artifacts.merge(chats));
    console.api_router(backend).merge(own).route_layer(from_fn_with_state(authenticator, as_viewer))
}

/// Determines the viewer. With authentication it is the holder of the token. Without it, callers on
/// this machine see everything, and other machines see nothing.
async fn as_viewer(
    State(authenticator): State<Option<Arc<dyn Authenticator>>>,
    here: Option<Extension<OnLoopback>>,
    request: Request,
    next: Next,
) -> Response<Body> {
    let (mut head, body) = request.into_parts();
    let viewer = if let Some(authenticator) = &authenticator {
        match authenticator.authenticate(&head).await {
            Ok(principal) => {
                let viewer = viewer_of(&principal);
                head.extensions.insert(principal);
                Some(viewer)
            }
            Err(denial) => return denied(head.uri.path(), denial),
        }
    } else {
        let is_here = here.is_some_and(|Extension(OnLoopback(is_here))| is_here);
        match may_see_details(is_here, &head, None).await {
            Ok(true) => Some(Viewer::everything()),
            // The console's error says why it shows nothing.
            _ => None,
        }
    };
    if let Some(viewer) = viewer {
        head.extensions.insert(viewer);
    }
    next.run(Request::from_parts(head, body)).await
}

fn viewer_of(principal: &marquetry_protocol::server::Principal) -> Viewer {
    Viewer::of(principal.id(), principal.has_scope(ADMIN))
}

/// Returns a refusal as an error body of the path: REST or `/mcp/v1`.
fn refusal(path: &str, error: &RestError) -> Response<Body> {
    if rest::has_flat_errors(path) { rest::mcp_v1_refusal(error) } else { error.response() }
}

/// Returns the routes of the protected resource metadata (RFC 9728): with the path of the resource,
/// and without. Empty without an issuer.
pub(crate) fn metadata_routes(server: Option<Arc<ResourceServer>>) -> Router {
    let Some((server, path)) =
        server.and_then(|server| Some((server.clone(), server.metadata_path()?.to_owned())))
    else {
        return Router::new();
    };
    let paths = BTreeSet::from([path, ResourceServer::ROOT_METADATA_PATH.to_owned()]);
    paths.into_iter().fold(Router::new(), |router, path| {
        let server = server.clone();
        router.route(&path, get(async move || metadata(&server)))
    })
}

fn metadata(server: &ResourceServer) -> Response<Body> {
    match server.metadata() {
        Some(metadata) => json_response(StatusCode::OK, &json!(metadata)),
        None => RestError::NotFound.response(),
    }
}

/// Authenticates requests for the REST routes. The MCP endpoints authenticate by themselves.
async fn authenticate(
    State(authenticator): State<Option<Arc<dyn Authenticator>>>,
    request: Request,
    next: Next,
) -> Response<Body> {
    let Some(authenticator) = authenticator else { return next.run(request).await };
    let (mut head, body) = request.into_parts();
    match authenticator.authenticate(&head).await {
        Ok(principal) => {
            head.extensions.insert(principal);
            next.run(Request::from_parts(head, body)).await
        }
        Err(denial) => denied(head.uri.path(), denial),
    }
}

/// Returns the answer to a request whose token was refused.
fn denied(path: &str, denial: Denial) -> Response<Body> {
    let challenge = denial.www_authenticate();
    let mut response = refusal(path, &RestError::from(denial));
    response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    response
}

/// Checks `Host` and `Origin`, answers preflight requests, and adds CORS headers.
async fn check(
    State(guard): State<Arc<RequestGuard>>,
    request: Request,
    next: Next,
) -> Response<Body> {
    if let Err(error) = guard.check(&request) {
        if let Some(suppressed) = guard.logged.admit() {
            let (.., advice) = error.parts();
            tracing::warn!(suppressed, "request refused: {advice}");
        }
        return refused(&request, &error);
    }
    if let Some(encoding) = content_encoding(request.headers()) {
        return refused(&request, &RestError::BodyEncoded(encoding));
    }
    let origin = request.headers().get(header::ORIGIN).cloned();
    let is_preflight = request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let span = tracing::info_span!("http", %method, path);
    let started = Instant::now();
    let mut response = if is_preflight {
        preflight(&request)
    } else {
        next.run(request).instrument(span.clone()).await
    };
    let ms = started.elapsed().as_millis() as u64;
    tracing::debug!(parent: &span, status = response.status().as_u16(), ms, "answered");
    if let Some(origin) = origin {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
        headers.insert(
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("Mcp-Session-Id, Mcp-Protocol-Version, WWW-Authenticate"),
        );
    }
    response
}

/// Returns the encoding of a compressed body, which no route reads.
fn content_encoding(headers: &HeaderMap) -> Option<String> {
    let encoding = String::from_utf8_lossy(headers.get(header::CONTENT_ENCODING)?.as_bytes());
    let shown = &encoding[..encoding.floor_char_boundary(100)];
    (!encoding.eq_ignore_ascii_case("identity")).then(|| shown.to_owned())
}

/// Returns the answer to a request that fails a check: a JSON-RPC error at MCP paths, else an
/// error body of the path.
fn refused(request: &Request, error: &RestError) -> Response<Body> {
    let path = request.uri().path();
    let mut response = if [MCP, SSE, MESSAGES].contains(&path) {
        let (status, _, message) = error.parts();
        let error = json!({"code": error_code::INVALID_REQUEST, "message": message});
        json_response(status, &json!({"jsonrpc": "2.0", "id": null, "error": error}))
    } else {
        refusal(path, error)
    };
    // The body stays unread; the server must not parse it as the next request.
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

// `tower_http::cors` has one list of methods for all paths, and treats every OPTIONS request as a
// preflight request. Its request span would need as many lines as `check`.
/// Answers a preflight request. No route uses cookies, so an allowed page may send any header.
fn preflight(request: &Request) -> Response<Body> {
    const MAX_AGE: HeaderValue = HeaderValue::from_static("600");
    let methods = if request.uri().path() == MCP { "GET, POST, DELETE" } else { "GET, POST" };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    let asked: HeaderName = header::ACCESS_CONTROL_REQUEST_HEADERS;
    if let Some(asked) = request.headers().get(asked) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
    }
    response
}
