//! The endpoint that a scraper reads.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{HeaderValue, Response, StatusCode, header},
    routing::get,
};
use marquetry_metrics::Format;
use marquetry_protocol::server::http::{Authenticator, HostGuard};

use crate::ServerMetrics;

/// The scope of a token that may read the metrics.
const SCOPE: &str = "metrics";

/// Who may read the metrics.
#[derive(Clone)]
#[non_exhaustive]
pub enum MetricsAccess {
    /// Every program on this machine; the listener is on a loopback address. Pages of a browser
    /// cannot read them.
    ThisMachine,
    /// Holders of a token with the scope `metrics`.
    Token(Arc<dyn Authenticator>),
}

/// Returns the route `/metrics`. It writes the text format that the scraper accepts.
pub fn metrics_router(metrics: Arc<ServerMetrics>, access: MetricsAccess) -> Router {
    Router::new().route(
        "/metrics",
        get(async move |request: Request| {
            let head = request.into_parts().0;
            let refusal = match &access {
                MetricsAccess::ThisMachine => HostGuard::loopback()
                    .check(&head.headers)
                    .err()
                    .map(|refusal| text(StatusCode::FORBIDDEN, &refusal.to_string())),
                MetricsAccess::Token(authenticator) => {
                    match authenticator.authenticate(&head).await {
                        Ok(principal) if principal.has_scope(SCOPE) => None,
                        Ok(_) => {
                            let problem = format!("the token needs the scope {SCOPE}");
                            Some(text(StatusCode::FORBIDDEN, &problem))
                        }
                        Err(denial) => {
                            let mut response = text(denial.status, &denial.message);
                            let challenge = denial.www_authenticate();
                            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
                            Some(response)
                        }
                    }
                }
            };
            if let Some(refusal) = refusal {
                return refusal;
            }
            let accept = head.headers.get(header::ACCEPT).and_then(|it| it.to_str().ok());
            let format = Format::of_accept(accept.unwrap_or_default());
            let mut response = Response::new(Body::from(metrics.write(format)));
            let media_type = HeaderValue::from_static(format.media_type());
            response.headers_mut().insert(header::CONTENT_TYPE, media_type);
            response
        }),
    )
}

fn text(status: StatusCode, problem: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{problem}\n")));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}
