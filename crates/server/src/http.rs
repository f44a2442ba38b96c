//! Routes, and who may ask for them.

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use axum::{
    Extension, Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header},
    middleware::{Next, from_fn_with_state},
    routing::{any, get},
};
use marquetry_gateway::Rate;
use marquetry_oauth::server::ResourceServer;
use marquetry_protocol::{
    error_code,
    server::http::{Denial, HostGuard, HttpEndpoint, LegacySseEndpoint, Refusal},
};
use serde_json::json;
use tracing::Instrument as _;

use crate::{
    health::{ADMIN, Health},
    home,
    rest::{self, McpV1, Rest, RestError, json_response},
};

const MCP: &str = "/mcp";

/// Where clients of HTTP+SSE, the transport of 2024-11-05, open their stream.
const SSE: &str = "/sse";

/// Where they send their messages.
pub(crate) const MESSAGES: &str = "/messages";

/// What the routes lead to.
pub(crate) struct Site {
    pub(crate) mcp: HttpEndpoint,
    pub(crate) sse: LegacySseEndpoint,
    pub(crate) guard: HostGuard,
    pub(crate) auth: Option<Arc<ResourceServer>>,
    pub(crate) health: Arc<Health>,
    pub(crate) rest: Arc<Rest>,
    pub(crate) mcp_v1: Arc<McpV1>,
    /// The URL of `/mcp` as the configuration names it.
    pub(crate) endpoint: Option<String>,
}

/// Whether only this machine reaches the listener that a request came by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnLoopback(pub(crate) bool);

/// What a request must pass before it reaches a route.
struct Door {
    guard: HostGuard,
    refusals: Rate,
}

/// `/`, `/mcp`, `/sse`, `/messages`, `/mcp/v1/…`, `/api/tools`, `/api/tools/{name}`, `/healthz`, `/livez`, `/readyz`, and metadata for clients
/// that have to log in.
pub(crate) fn router(site: Site) -> Router {
    let Site { mcp, sse, guard, auth, health, rest, mcp_v1, endpoint } = site;
    let messages = sse.clone();
    let wants_token = auth.is_some();
    let mut router = Router::new();
    for path in metadata_paths(auth.as_deref()) {
        let auth = auth.clone();
        router = router.route(&path, get(async move || metadata(auth.as_deref())));
    }
    router
        .route(
            MCP,
            any(move |request: Request| {
                let mcp = mcp.clone();
                async move { mcp.handle(request).await.map(Body::new) }
            }),
        )
        .route(
            SSE,
            any(move |request: Request| {
                let sse = sse.clone();
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
            get(async move |headers: HeaderMap| {
                home::answer(&headers, endpoint.as_deref(), wants_token)
            }),
        )
        .merge(health_routes(health, auth.clone()))
        .merge(
            rest::routes(rest)
                .merge(rest::mcp_v1_routes(mcp_v1))
                .route_layer(from_fn_with_state(auth, authenticate)),
        )
        .fallback(async |request: Request| refusal(request.uri().path(), &RestError::NotFound))
        .method_not_allowed_fallback(async |request: Request| {
            refusal(request.uri().path(), &RestError::MethodNotAllowed)
        })
        .layer(from_fn_with_state(Arc::new(Door { guard, refusals: Rate::new(REFUSALS) }), check))
}

/// Refused requests that are logged in a second.
const REFUSALS: u32 = 5;

/// `/healthz`, `/livez`, `/readyz`. All are open; only who may know more is told more.
fn health_routes(health: Arc<Health>, auth: Option<Arc<ResourceServer>>) -> Router {
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
            get(async move |here: Option<Extension<OnLoopback>>, headers: HeaderMap| {
                let is_here = here.is_some_and(|Extension(OnLoopback(is_here))| is_here);
                match may_know_more(is_here, &headers, auth.as_deref()).await {
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

/// Whether a request gets the whole of `/healthz`: with `[auth]` one with a token of the scope `admin`, without it one of this machine.
async fn may_know_more(
    is_here: bool,
    headers: &HeaderMap,
    auth: Option<&ResourceServer>,
) -> Result<bool, Denial> {
    let Some(auth) = auth else {
        // A proxy on this machine lets others in, by a name of theirs.
        let is_named_here = HostGuard::loopback().check(headers).is_ok();
        let is_forwarded =
            ["forwarded", "x-forwarded-for"].iter().any(|name| headers.contains_key(*name));
        return Ok(is_here && is_named_here && !is_forwarded);
    };
    if !headers.contains_key(header::AUTHORIZATION) {
        return Ok(false);
    }
    Ok(auth.check(headers).await?.has_scope(ADMIN))
}

/// A refusal in the form that the path's own errors have.
fn refusal(path: &str, error: &RestError) -> Response<Body> {
    if rest::is_mcp_v1(path) { rest::mcp_v1_refusal(error) } else { error.response() }
}

/// Where clients look for what they need to log in (RFC 9728): with the path of the resource, and without.
fn metadata_paths(auth: Option<&ResourceServer>) -> BTreeSet<String> {
    let path = auth.and_then(ResourceServer::metadata_path);
    let paths = path.into_iter().flat_map(|path| [path, ResourceServer::ROOT_METADATA_PATH]);
    paths.map(str::to_owned).collect()
}

fn metadata(auth: Option<&ResourceServer>) -> Response<Body> {
    match auth.and_then(ResourceServer::metadata) {
        Some(metadata) => json_response(StatusCode::OK, &json!(metadata)),
        None => RestError::NotFound.response(),
    }
}

/// Authenticates by bearer token. The MCP endpoints do so for themselves.
async fn authenticate(
    State(auth): State<Option<Arc<ResourceServer>>>,
    mut request: Request,
    next: Next,
) -> Response<Body> {
    let Some(auth) = auth else { return next.run(request).await };
    let headers = request.headers().clone();
    match auth.check(&headers).await {
        Ok(principal) => {
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        Err(denial) => denied(request.uri().path(), denial),
    }
}

/// The answer to a token that is not good.
fn denied(path: &str, denial: Denial) -> Response<Body> {
    let challenge = denial.www_authenticate();
    let mut response = refusal(path, &RestError::from(denial));
    response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    response
}

/// Refuses foreign hosts and pages, and tells browsers which pages may read the answers.
async fn check(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response<Body> {
    let guard = &door.guard;
    if let Err(refusal) = guard.check_request(&request) {
        let error = match &refusal {
            Refusal::Origin(origin) => RestError::OriginNotAllowed(origin.clone()),
            Refusal::Host(host) => RestError::HostNotAllowed(host.clone()),
            _ => RestError::HostNotAllowed(String::new()),
        };
        if let Some(suppressed) = door.refusals.admit() {
            let (.., advice) = error.parts();
            tracing::warn!(suppressed, "request refused: {advice}");
        }
        return refused(&request, &error);
    }
    let origin = request.headers().get(header::ORIGIN).cloned();
    let is_preflight = request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
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

/// The answer to a request from a foreign host or page, in the form of its path: a JSON-RPC error where MCP is spoken.
fn refused(request: &Request, error: &RestError) -> Response<Body> {
    let path = request.uri().path();
    let mut response = if [MCP, SSE, MESSAGES].contains(&path) {
        let (status, _, message) = error.parts();
        let error = json!({"code": error_code::INVALID_REQUEST, "message": message});
        json_response(status, &json!({"jsonrpc": "2.0", "id": null, "error": error}))
    } else {
        refusal(path, error)
    };
    // Its body stays unread, and must not be taken for the next request.
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

// `tower_http::cors` has one list of methods for all paths, and takes every OPTIONS for such a question. Its span of a request
// would be set up in as many lines as `check` has for it.
/// The answer to a browser that asks before it sends. Nothing here uses cookies, so a page may send what headers it likes.
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
