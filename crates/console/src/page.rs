//! The page and its files, which are embedded in the program.

use axum::{Router, body::Body, extract::Path, response::Response, routing::get};
use http::{HeaderValue, StatusCode, header};

use crate::Console;

/// A file of the page.
pub(crate) struct File {
    pub(crate) name: &'static str,
    media_type: &'static str,
    pub(crate) text: &'static str,
}

/// The files in `page`, and those of the module that reads blocks of context. That module is also a
/// part of the SDK for TypeScript, so that programs and this page read blocks alike.
macro_rules! files {
    ($($name:literal $media_type:literal),* ; context_blocks: $($module:literal),* $(,)?) => {
        &[
            $(File { name: $name, media_type: $media_type, text: include_str!(concat!("../page/", $name)) },)*
            $(File {
                name: concat!("context-blocks/", $module),
                media_type: "text/javascript; charset=utf-8",
                text: include_str!(concat!("../../../sdk/typescript/context-blocks/", $module)),
            },)*
        ]
    };
}

/// The page itself; the rest is in [`FILES`].
const INDEX: &str = include_str!("../page/index.html");

/// The files that the page loads. Each module has one subject.
pub(crate) const FILES: &[File] = files! {
    "style.css" "text/css; charset=utf-8",
    "api.js" "text/javascript; charset=utf-8",
    "app.js" "text/javascript; charset=utf-8",
    "as-text.js" "text/javascript; charset=utf-8",
    "calls.js" "text/javascript; charset=utf-8",
    "chart.js" "text/javascript; charset=utf-8",
    "chat.js" "text/javascript; charset=utf-8",
    "consent.js" "text/javascript; charset=utf-8",
    "content.js" "text/javascript; charset=utf-8",
    "dom.js" "text/javascript; charset=utf-8",
    "revisions.js" "text/javascript; charset=utf-8",
    "fields.js" "text/javascript; charset=utf-8",
    "form.js" "text/javascript; charset=utf-8",
    "home.js" "text/javascript; charset=utf-8",
    "json.js" "text/javascript; charset=utf-8",
    "messages.js" "text/javascript; charset=utf-8",
    "model.js" "text/javascript; charset=utf-8",
    "open-question.js" "text/javascript; charset=utf-8",
    "questions.js" "text/javascript; charset=utf-8",
    "result.js" "text/javascript; charset=utf-8",
    "scenario.js" "text/javascript; charset=utf-8",
    "schema.js" "text/javascript; charset=utf-8",
    "surroundings.js" "text/javascript; charset=utf-8",
    "tests.css" "text/css; charset=utf-8",
    "tests.js" "text/javascript; charset=utf-8",
    "tests-data.js" "text/javascript; charset=utf-8",
    "tools.js" "text/javascript; charset=utf-8",
    "trial.js" "text/javascript; charset=utf-8",
    "view-host.js" "text/javascript; charset=utf-8",
    "view-panel.js" "text/javascript; charset=utf-8";
    context_blocks: "block.js", "build.js", "datamark.js", "filter.js", "index.js", "json.js", "legacy.js", "markup.js",
    "neutralize.js", "parse.js", "splice.js", "text.js", "uri.js",
};

/// Facts about the server that the page contains before the user enters a token.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The path under which the routes are nested, without a slash at its end; empty at the root.
    pub prefix: &'a str,
    /// The URL of the MCP endpoint for clients.
    pub endpoint: &'a str,
    /// Requests need a token.
    pub wants_token: bool,
    /// The version of the program.
    pub version: &'static str,
}

/// The routes of the files of the page.
pub(crate) fn files_router() -> Router {
    Router::new().route("/console/{file}", get(async |Path(name): Path<String>| file(&name))).route(
        "/console/context-blocks/{file}",
        get(async |Path(name): Path<String>| file(&format!("context-blocks/{name}"))),
    )
}

/// Returns the Content-Security-Policy: the page loads nothing from other hosts, runs no inline
/// script, and cannot be framed. Only the sandbox's origin may be framed, for Views.
pub(crate) fn policy(sandbox_origin: Option<&str>) -> String {
    let frames = sandbox_origin.unwrap_or("'none'");
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob: data:; \
         media-src 'self' blob: data:; frame-src {frames}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'"
    )
}

pub(crate) fn page(console: &Console, site: &Site<'_>) -> Response {
    let page = INDEX
        .replace("{{prefix}}", &escaped(site.prefix))
        .replace("{{endpoint}}", &escaped(site.endpoint))
        .replace("{{token}}", if site.wants_token { "needed" } else { "" })
        .replace("{{version}}", site.version);
    let mut response = answer("text/html; charset=utf-8", page.into());
    let policy = policy(console.sandbox_origin().as_deref());
    let headers = response.headers_mut();
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    response
}

fn file(name: &str) -> Response {
    if let Some(file) = FILES.iter().find(|file| file.name == name) {
        answer(file.media_type, file.text.into())
    } else {
        let mut response = answer("text/plain; charset=utf-8", "no such file\n".into());
        *response.status_mut() = StatusCode::NOT_FOUND;
        response
    }
}

fn answer(media_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // The files change with the program, and come from memory.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response
}

/// Text as HTML.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            other => html.push(other),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds a module and its static imports.
    fn add_module(name: &str, found: &mut Vec<&'static str>) {
        let Some(file) = FILES.iter().find(|file| file.name == name) else {
            panic!("{name} is imported, and is not in FILES");
        };
        if found.contains(&file.name) {
            return;
        }
        found.push(file.name);
        let folder = file.name.rsplit_once('/').map_or("", |(folder, _)| folder);
        for quote in ['\'', '"'] {
            for rest in file.text.split(&format!(" from {quote}./")).skip(1) {
                let imported = rest.split(quote).next().unwrap_or_default();
                add_module(format!("{folder}/{imported}").trim_start_matches('/'), found);
            }
        }
    }

    /// The budget holds for each page together with the modules that it loads. Indentation does not
    /// count, because it depends on the formatter.
    #[test]
    fn every_page_stays_within_its_budget() {
        let app = FILES.iter().find(|file| file.name == "app.js").unwrap().text;
        let mut pages: Vec<&str> =
            app.split("import(\"./").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        // The page of one result of a test; `tests.js` loads it.
        pages.extend(["home.js", "trial.js"]);
        assert!(pages.contains(&"tools.js"), "{pages:?}");
        fn size(name: &str) -> usize {
            let file = FILES.iter().find(|file| file.name == name).unwrap();
            file.text.lines().map(|line| line.trim_start().len() + 1).sum()
        }
        for page in pages {
            let mut modules = Vec::new();
            add_module("app.js", &mut modules);
            for rest in INDEX.split("\"modulepreload\" href=\"{{prefix}}/console/").skip(1) {
                add_module(rest.split('"').next().unwrap(), &mut modules);
            }
            add_module(page, &mut modules);
            let mut bytes = INDEX.len() + size("style.css");
            if modules.contains(&"tests.js") {
                bytes += size("tests.css");
            }
            bytes += modules.iter().map(|name| size(name)).sum::<usize>();
            assert!(bytes <= 150_000, "{page}: {bytes} bytes");
            assert!(modules.len() <= 12, "{page}: {modules:?}");
        }
        // The page of chats loads this module together with its data, after the first paint.
        let mut module = Vec::new();
        add_module("context-blocks/index.js", &mut module);
        assert_eq!(module.len(), FILES.iter().filter(|file| file.name.contains('/')).count());
        assert!(module.iter().map(|name| size(name)).sum::<usize>() <= 50_000);
        for file in FILES {
            assert!(size(file.name) <= 22_000, "{} has more than one subject", file.name);
        }
    }

    #[test]
    fn the_page_writes_no_html_and_names_no_other_host() {
        for file in FILES.iter().filter(|file| file.name.ends_with(".js")) {
            for word in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "new Function",
            ] {
                assert!(!file.text.contains(word), "{} has {word}", file.name);
            }
            assert!(
                !file.text.contains("from 'http") && !file.text.contains("import('http"),
                "{}",
                file.name
            );
        }
        assert!(
            !INDEX.contains("style=") && !INDEX.contains("onclick"),
            "the policy would refuse it"
        );
    }

    #[test]
    fn a_host_is_text_and_no_markup() {
        let console = Console::new(crate::Options::default());
        let endpoint = "http://\"><script>alert(1)</script>/mcp";
        let response =
            page(&console, &Site { prefix: "", endpoint, wants_token: true, version: "1" });
        let policy =
            response.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
        assert!(policy.contains("frame-src 'none'") && !policy.contains("unsafe"), "{policy}");
        let body = futures_util::FutureExt::now_or_never(axum::body::to_bytes(
            response.into_body(),
            1 << 20,
        ));
        let text = String::from_utf8(body.unwrap().unwrap().to_vec()).unwrap();
        assert!(!text.contains("<script>alert"), "{text}");
        assert!(text.contains("&lt;script&gt;"), "{text}");
        console.allow_frames_of("http://127.0.0.1:9");
        let with_views = super::policy(console.sandbox_origin().as_deref());
        assert!(with_views.contains("frame-src http://127.0.0.1:9;"), "{with_views}");
    }
}
