//! The HTTP routes, with the checks that each request must pass.

use std::{collections::BTreeSet, sync::Arc};

use axum::{
    Extension, Router,
    body::Body,
    extract::{OriginalUri, Path, Request},
    http::{HeaderMap, Response, StatusCode, Uri},
    middleware::{Next, from_fn, from_fn_with_state, map_request},
    routing::{any, get},
};
use marquetry_console::Console;
use marquetry_oauth::server::ResourceServer;
use marquetry_protocol::server::{
    Server,
    http::{
        Authenticator, ConnectionInfo, HostGuard, HttpEndpoint, LegacySseEndpoint, SelectedProfile,
    },
};
use serde_json::json;

pub(crate) use self::authentication::OnLoopback;
use self::{
    authentication::{Anonymous, Authentication, Sender, authenticate, require_admin, with_viewer},
    body::{BodyReceiver, count_answer, receive_body},
    guard::{RequestGuard, check},
};
use crate::{
    console::{ServerBackend, artifact_routes, chat_routes},
    health::{Health, NotReady},
    home,
    rest::{self, McpV1, Rest, RestError, json_response},
};

#[cfg(test)]
mod all_routes;
mod authentication;
mod body;
mod guard;

const MCP: &str = "/mcp";

/// The part of `/mcp` that a profile has.
const PROFILE: &str = "/mcp/profiles/{profile}";

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
    /// The scheme of URLs that are not configured.
    pub(crate) scheme: &'static str,
    /// Further routes, for administrators.
    pub(crate) admin: Router,
    /// The console, if it is switched on, and what it shows.
    pub(crate) console: Option<(Console, Arc<ServerBackend>)>,
}

/// Returns the router of `/`, `/mcp`, `/mcp/profiles/{name}`, `/sse`, `/messages`, `/mcp/v1/…`,
/// `/media/…`, `/api/tools`, `/api/tools/{name}`, `/healthz`, `/livez`, `/readyz`, of the console,
/// and of the metadata for clients that log in.
pub(crate) fn router(routes: Routes) -> Router {
    /// Body of a request without a token: the code of a login.
    const MAX_OPEN_BODY_BYTES: usize = 4 << 10;
    let limits = &routes.rest.limits;
    let server = routes.rest.server.clone();
    // The routes have smaller limits of their own.
    let max_bytes = limits.max_receive_bytes_per_caller.get();
    let receiver = BodyReceiver::new(&server, limits, max_bytes);
    let (console, console_routes) = match routes.console {
        Some((console, backend)) => {
            let server = server.clone();
            let open_receiver = BodyReceiver::new(&server, limits, MAX_OPEN_BODY_BYTES);
            let data = console_routes(
                &console,
                backend,
                server,
                receiver.clone(),
                routes.authenticator.clone(),
            );
            let open = console.open_router();
            let routes =
                open.route_layer(from_fn_with_state(open_receiver, receive_body)).merge(data);
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
        scheme,
        ..
    } = routes;
    let admin = routes
        .admin
        .layer(from_fn(while_client_waits))
        .layer(from_fn_with_state(server.clone(), count_answer))
        .layer(from_fn_with_state(receiver, receive_body))
        .layer(from_fn(require_admin))
        .layer(from_fn_with_state(
            Authentication { authenticator: authenticator.clone(), anonymous: Anonymous::Allowed },
            authenticate,
        ));
    let messages = sse.clone();
    let gateway = rest.gateway.clone();
    let site = home::Site { endpoint, scheme, wants_token: authenticator.is_some(), console };
    let home_site = site.clone();
    let profile_site = site.clone();
    let profiles = mcp.clone();
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
            PROFILE,
            any(async move |Path(profile): Path<String>, mut request: Request| {
                if !gateway.has_profile(&profile) {
                    let known = gateway.profile_names();
                    return RestError::ProfileNotFound { name: profile, known }.response();
                }
                request.extensions_mut().insert(SelectedProfile(profile.into()));
                recorded(&profiles, &profile_site, request).await
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
                .route_layer(from_fn_with_state(server, count_answer))
                .merge(rest::media_routes(mcp_v1.clone()))
                .merge(rest::mcp_v1_routes(mcp_v1))
                .route_layer(from_fn_with_state(
                    Authentication { authenticator, anonymous: Anonymous::Refused },
                    authenticate,
                )),
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

/// Returns `/healthz`, `/livez`, `/readyz`. They need no token, but the details of `/healthz` do.
fn health_routes(health: Arc<Health>, authenticator: Option<Arc<dyn Authenticator>>) -> Router {
    let authentication = Authentication { authenticator, anonymous: Anonymous::Allowed };
    let ready = health.clone();
    Router::new()
        .route("/livez", get(async || json_response(StatusCode::OK, &json!({"status": "alive"}))))
        .route(
            "/readyz",
            get(async move || {
                let body = match ready.readiness() {
                    Err(why) => json!({"status": why.name()}),
                    // It has no secrets: callers whose saves fail see it, too.
                    Ok(()) => match ready.store_problem().await {
                        Some(problem) => json!({
                            "status": NotReady::Failing.name(), "problem": problem,
                        }),
                        None => return json_response(StatusCode::OK, &json!({"status": "ready"})),
                    },
                };
                json_response(StatusCode::SERVICE_UNAVAILABLE, &body)
            }),
        )
        .route(
            "/healthz",
            get(async move |Extension(sender): Extension<Sender>| {
                let report = if sender.is_admin {
                    health.report()
                } else {
                    json!({"status": health.status().name()})
                };
                json_response(StatusCode::OK, &report)
            })
            .route_layer(from_fn_with_state(authentication, authenticate)),
        )
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

/// Returns the routes of the console's data. They have the checks of the other routes, and need a
/// viewer.
fn console_routes(
    console: &Console,
    backend: Arc<ServerBackend>,
    server: Server,
    receiver: BodyReceiver,
    authenticator: Option<Arc<dyn Authenticator>>,
) -> Router {
    let artifacts = artifact_routes(backend.artifacts.clone());
    let chats = chat_routes(server.clone(), backend.knowledge.clone());
    let own = console.guarded(artifacts.merge(chats));
    let authentication = Authentication { authenticator, anonymous: Anonymous::Refused };
    console
        .api_router(backend)
        .merge(own)
        .route_layer(from_fn_with_state(server, count_answer))
        .route_layer(from_fn_with_state(receiver, receive_body))
        .route_layer(map_request(with_viewer))
        .route_layer(from_fn_with_state(authentication, authenticate))
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
