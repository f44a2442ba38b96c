//! The answer at `/`. Browsers get the console, or without it a small page that says how to
//! connect; programs get JSON.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header},
};
use serde_json::json;

use crate::rest::{accepts, json_response};

/// The small page loads nothing, runs no script, and cannot be framed.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// Facts about the server for the page.
#[derive(Clone)]
pub(crate) struct Site {
    /// The URL of the MCP endpoint as configured. Without it the page takes the request's `Host`.
    pub(crate) endpoint: Option<String>,
    /// The scheme of that URL.
    pub(crate) scheme: &'static str,
    pub(crate) wants_token: bool,
    /// Serves its page instead of the small one.
    pub(crate) console: Option<marquetry_console::Console>,
}

impl Site {
    fn endpoint(&self, headers: &HeaderMap, prefix: &str) -> String {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        match &self.endpoint {
            Some(url) => url.clone(),
            None => format!("{}://{}{prefix}/mcp", self.scheme, host.unwrap_or("127.0.0.1")),
        }
    }
}

/// Answers `GET /`: HTML to browsers, JSON to programs. `prefix` is the path under which the routes
/// are nested.
pub(crate) fn answer(headers: &HeaderMap, prefix: &str, site: &Site) -> Response<Body> {
    if is_browser(headers) {
        return page_response(headers, prefix, site);
    }
    let routes = json!({
        "mcp": format!("{prefix}/mcp"),
        "sse": format!("{prefix}/sse"),
        "rest": format!("{prefix}/mcp/v1/{{method}}"),
        "tools": format!("{prefix}/api/tools"),
        "health": format!("{prefix}/healthz"),
        "live": format!("{prefix}/livez"),
        "ready": format!("{prefix}/readyz"),
    });
    let endpoint = site.endpoint(headers, prefix);
    let body = json!({"name": "marquetry", "endpoint": endpoint, "token": site.wants_token, "routes": routes});
    json_response(StatusCode::OK, &body)
}

/// Returns whether a request to the MCP endpoint comes from a person's browser. MCP clients that
/// send GET ask for events.
pub(crate) fn is_browser_visit<B>(request: &Request<B>) -> bool {
    request.method() == Method::GET
        && is_browser(request.headers())
        && !accepts(request.headers(), "text/event-stream")
}

/// Returns the page for browsers.
pub(crate) fn page_response(headers: &HeaderMap, prefix: &str, site: &Site) -> Response<Body> {
    if let Some(console) = &site.console {
        let endpoint = site.endpoint(headers, prefix);
        let version = env!("CARGO_PKG_VERSION");
        return console.page(&marquetry_console::Site {
            prefix,
            endpoint: &endpoint,
            wants_token: site.wants_token,
            version,
        });
    }
    let page = page(&site.endpoint(headers, prefix), prefix, site.wants_token);
    let mut response = Response::new(Body::from(page));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    response
}

/// Returns whether `Accept` names HTML; programs send `*/*`.
fn is_browser(headers: &HeaderMap) -> bool {
    accepts(headers, "text/html")
}

fn page(endpoint: &str, prefix: &str, wants_token: bool) -> String {
    let mut server = json!({"type": "http", "url": endpoint});
    if wants_token {
        server["headers"] = json!({"Authorization": "Bearer YOUR_TOKEN"});
    }
    let config = json!({"mcpServers": {"marquetry": server}});
    let config = escaped(&serde_json::to_string_pretty(&config).unwrap_or_default());
    let endpoint = escaped(endpoint);
    let prefix = escaped(prefix);
    let access = if wants_token { "It needs a bearer token." } else { "It needs no token." };
    format!(
        "<!doctype html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<title>Marquetry</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 42rem; margin: 3rem auto; padding: 0 1rem }}
code, pre {{ font-family: ui-monospace, monospace; background: #8882; border-radius: .3rem }}
code {{ padding: .1rem .3rem }} pre {{ padding: .8rem; overflow-x: auto }}
</style>
<h1>Marquetry</h1>
<p>One MCP server that an agent connects to instead of its MCP servers. This page is for people; agents use the endpoint</p>
<pre>{endpoint}</pre>
<p>{access} Add it to your client's <code>mcp.json</code>:</p>
<pre>{config}</pre>
<p>To try the server by hand: <code>npx @modelcontextprotocol/inspector</code> with the transport <em>Streamable HTTP</em> and the endpoint above.</p>
<ul>
<li><a href=\"{prefix}/healthz\">/healthz</a> shows the state of this server and of the servers behind it, <a href=\"{prefix}/livez\">/livez</a> and <a href=\"{prefix}/readyz\">/readyz</a> are for supervisors.</li>
<li><code>POST /mcp/v1/tools/list</code> and other methods answer plain HTTP; <a href=\"{prefix}/api/tools\">/api/tools</a> lists the diagram tools.</li>
</ul>
</html>
"
    )
}

/// Escapes text for HTML.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            other => html.push(other),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_ask_for_html_and_programs_do_not() {
        for (accept, want) in [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true),
            ("TEXT/HTML;level=1", true),
            ("*/*", false),
            ("application/json", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            assert_eq!(is_browser(&headers), want, "{accept}");
        }
        assert!(!is_browser(&HeaderMap::new()));
    }

    #[test]
    fn markup_in_a_host_is_escaped() {
        let page = page("http://<script>alert(1)</script>/mcp", "", true);
        assert!(!page.contains("<script"), "{page}");
        assert!(page.contains("Bearer YOUR_TOKEN"), "{page}");
    }
}
