//! Routes, and who may ask for them.

use std::{collections::BTreeSet, sync::Arc, time::Instant};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderName, HeaderValue, Method, Response, StatusCode, header},
    middleware::{Next, from_fn_with_state},
    routing::{any, get},
};
use marquetry_protocol::server::{
    auth::ResourceServer,
    http::{Authenticator as _, HostGuard, HttpEndpoint, LegacySseEndpoint, Refusal},
};
use serde_json::json;

use tracing::Instrument as _;

use crate::{
    gateway::Gateway,
    health,
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
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) rest: Arc<Rest>,
    pub(crate) mcp_v1: Arc<McpV1>,
}

/// `/mcp`, `/sse`, `/messages`, `/mcp/v1/…`, `/api/tools`, `/api/tools/{name}`, `/healthz`, and metadata for clients that have to log in.
pub(crate) fn router(site: Site) -> Router {
    let Site { mcp, sse, guard, auth, gateway, rest, mcp_v1 } = site;
    let messages = sse.clone();
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
            "/healthz",
            get(move || {
                let gateway = gateway.clone();
                async move { json_response(StatusCode::OK, &health::report(&gateway)) }
            }),
        )
        .merge(
            rest::routes(rest)
                .merge(rest::mcp_v1_routes(mcp_v1))
                .route_layer(from_fn_with_state(auth, authenticate)),
        )
        .fallback(async |request: Request| refusal(request.uri().path(), &RestError::NotFound))
        .method_not_allowed_fallback(async |request: Request| {
            refusal(request.uri().path(), &RestError::MethodNotAllowed)
        })
        .layer(from_fn_with_state(Arc::new(guard), check))
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

/// Lets in who shows a good token. The MCP endpoints do so for themselves.
async fn authenticate(
    State(auth): State<Option<Arc<ResourceServer>>>,
    mut request: Request,
    next: Next,
) -> Response<Body> {
    let Some(auth) = auth else { return next.run(request).await };
    let headers = request.headers().clone();
    match auth.authenticate(&headers).await {
        Ok(principal) => {
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        Err(denial) => {
            let challenge = denial.www_authenticate();
            let mut response = refusal(request.uri().path(), &RestError::from(denial));
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            response
        }
    }
}

/// Refuses foreign hosts and pages, and tells browsers which pages may read the answers.
async fn check(
    State(guard): State<Arc<HostGuard>>,
    request: Request,
    next: Next,
) -> Response<Body> {
    // The MCP endpoints check for themselves, and refuse in JSON-RPC.
    if ![MCP, SSE, MESSAGES].contains(&request.uri().path())
        && let Err(refusal) = guard.check(request.headers())
    {
        tracing::warn!(%refusal, "request refused");
        let error = match refusal {
            Refusal::Origin(_) => RestError::OriginNotAllowed,
            _ => RestError::HostNotAllowed,
        };
        return self::refusal(request.uri().path(), &error);
    }
    let origin = request.headers().get(header::ORIGIN).cloned();
    let allowed = guard.check(request.headers()).is_ok();
    let is_preflight = request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let span = tracing::info_span!("http", %method, path);
    let started = Instant::now();
    let mut response = if is_preflight && allowed {
        preflight(&request)
    } else {
        next.run(request).instrument(span.clone()).await
    };
    let ms = started.elapsed().as_millis() as u64;
    tracing::debug!(parent: &span, status = response.status().as_u16(), ms, "answered");
    if let Some(origin) = origin.filter(|_| allowed) {
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
