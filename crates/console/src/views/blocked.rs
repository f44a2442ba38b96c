//! What the policy of a View blocks, as browsers report it (CSP, `report-uri`).

use std::collections::BTreeSet;

use marquetry_protocol::shortened;
use serde::Deserialize;
use serde_json::{Value, json};

/// Maximum number of reports of one View that are kept. A View may try the same in a loop, with
/// another address each time.
const MAX_REPORTS: usize = 50;

/// The body of a report.
#[derive(Deserialize)]
pub(super) struct Report {
    #[serde(rename = "csp-report")]
    report: ReportMembers,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct ReportMembers {
    effective_directive: String,
    #[serde(default)]
    blocked_uri: String,
}

/// A source that the policy of a View does not allow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Blocked {
    /// The directive, such as `connect-src`.
    pub(super) directive: String,
    /// An origin; or a word such as `eval` or `data`, where there is no host.
    pub(super) source: String,
}

/// The sources that were reported for one View.
#[derive(Default)]
pub(super) struct Reported(BTreeSet<Blocked>);

impl Reported {
    /// Adds a source. Returns whether it is new, and among the first [`MAX_REPORTS`].
    pub(super) fn add(&mut self, blocked: &Blocked) -> bool {
        self.0.len() < MAX_REPORTS && self.0.insert(blocked.clone())
    }
}

impl From<Report> for Blocked {
    fn from(Report { report }: Report) -> Self {
        let directive = report.effective_directive.as_str();
        // Only the origin: a path or a query may hold data of the user.
        let source = match report.blocked_uri.split_once("://") {
            Some((scheme, rest)) => {
                let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
                let host = authority.rsplit('@').next().unwrap_or_default();
                format!("{scheme}://{host}")
            }
            None => report.blocked_uri.split(':').next().unwrap_or_default().to_owned(),
        };
        Self { directive: shortened(directive).to_owned(), source: shortened(&source).to_owned() }
    }
}

impl Blocked {
    /// Returns the member of the View's `_meta.ui.csp` that would allow the source; `None` if no
    /// declaration does.
    fn declaration(&self) -> Option<Value> {
        let member = match self.directive.trim_end_matches("-elem").trim_end_matches("-attr") {
            "connect-src" => "connectDomains",
            "script-src" | "style-src" | "img-src" | "font-src" | "media-src" => "resourceDomains",
            "frame-src" => "frameDomains",
            "base-uri" => "baseUriDomains",
            _ => return None,
        };
        let source = match self.source.as_str() {
            "data" | "blob" if member == "connectDomains" || member == "resourceDomains" => {
                format!("{}:", self.source)
            }
            host if host.contains("://") => host.to_owned(),
            _ => return None,
        };
        Some(json!({ member: [source] }))
    }

    /// Returns what a person has to know, in one sentence or two.
    pub(super) fn text(&self) -> String {
        let Self { directive, source } = self;
        match self.declaration() {
            Some(csp) => {
                let line = json!({ "csp": csp });
                format!(
                    "The policy blocks {source} ({directive}). To allow it, the server declares in _meta.ui of the View: {line}"
                )
            }
            None => format!(
                "The policy blocks {source} ({directive}). No declaration of the server allows it."
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocked(directive: &str, uri: &str) -> Blocked {
        let body = json!({"csp-report": {
            "document-uri": "about", "referrer": "", "violated-directive": directive,
            "effective-directive": directive, "original-policy": "default-src 'none'",
            "disposition": "enforce", "blocked-uri": uri, "status-code": 0, "script-sample": "",
        }});
        serde_json::from_value::<Report>(body).unwrap().into()
    }

    #[test]
    fn a_report_names_the_line_that_the_server_would_declare() {
        for (directive, uri, want) in [
            (
                "connect-src",
                "https://user@api.example:8443/a?secret=1#x",
                r#"blocks https://api.example:8443 (connect-src). To allow it, the server declares in _meta.ui of the View: {"csp":{"connectDomains":["https://api.example:8443"]}}"#,
            ),
            ("connect-src", "wss://live.example/s", r#"{"connectDomains":["wss://live.example"]}"#),
            (
                "script-src-elem",
                "https://cdn.example/x.js",
                r#"{"resourceDomains":["https://cdn.example"]}"#,
            ),
            (
                "style-src-attr",
                "https://cdn.example",
                r#"{"resourceDomains":["https://cdn.example"]}"#,
            ),
            ("script-src", "blob:null/1", r#"{"resourceDomains":["blob:"]}"#),
            ("connect-src", "data", r#"{"connectDomains":["data:"]}"#),
            ("frame-src", "https://video.example", r#"{"frameDomains":["https://video.example"]}"#),
            ("frame-src", "data", "No declaration"),
            (
                "script-src",
                "eval",
                "blocks eval (script-src). No declaration of the server allows it.",
            ),
            ("form-action", "https://form.example", "No declaration"),
        ] {
            let text = blocked(directive, uri).text();
            assert!(text.contains(want), "{text}");
        }
    }

    #[test]
    fn each_source_is_reported_once_and_their_number_is_limited() {
        let mut reported = Reported::default();
        assert!(reported.add(&blocked("img-src", "https://a.example/1")));
        assert!(!reported.add(&blocked("img-src", "https://a.example/2")));
        assert!(reported.add(&blocked("font-src", "https://a.example/1")));
        let added =
            (0..1_000).filter(|it| reported.add(&blocked("img-src", &format!("https://{it}/"))));
        assert_eq!(added.count(), MAX_REPORTS - 2);
    }
}
