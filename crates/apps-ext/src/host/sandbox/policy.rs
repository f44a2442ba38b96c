//! Writes the content security policy of a View.

use crate::types::Csp;

/// Input of [`policy`]: origins that were checked before.
pub(super) struct PolicyInput<'a> {
    pub(super) csp: Option<&'a Csp>,
    pub(super) frame_ancestors: &'a [String],
}

/// Sources of images, audio and video. The specification has no `blob:`. Views need it to show a
/// resource that they read from their server (the published `server-video-resource` does); such a
/// URL refers to bytes of the View itself, never to a host.
const IMAGES_AND_MEDIA: &str = "'self' data: blob:";

/// Sources of scripts. The specification has neither `data:` nor `blob:`, which allow no more than
/// inline scripts do. PDF.js imports its worker from a `data:` URL.
const SCRIPTS: &str = "'self' 'unsafe-inline' data: blob:";

/// Sources of fonts. The specification has no `data:`, but bundlers put fonts into the style sheet,
/// since a View has to be one document.
const FONTS: &str = "'self' data:";

/// Sources of workers. Libraries that compute in the background make a worker from a blob (Cesium)
/// or a `data:` URL (PDF.js in the published `server-pdf`); it runs under the policy of the View,
/// as the scripts of the document do.
const WORKERS: &str = "blob: data:";

/// Returns the policy of the section "Security" of the specification, with stricter rules: no
/// connection to the proxy's own origin, no forms, no plugins, and only the host's pages may embed
/// the proxy.
pub(super) fn policy(input: &PolicyInput<'_>) -> String {
    let none = Csp::default();
    let csp = input.csp.unwrap_or(&none);
    let resources = &csp.resource_domains;
    let base = match csp.base_uri_domains.as_slice() {
        [] => "'self'".to_owned(),
        origins => origins.join(" "),
    };
    [
        "default-src 'none'".to_owned(),
        format!("script-src {}", sources_with(SCRIPTS, resources)),
        format!("style-src {}", sources_with("'self' 'unsafe-inline'", resources)),
        format!("img-src {}", sources_with(IMAGES_AND_MEDIA, resources)),
        format!("font-src {}", sources_with(FONTS, resources)),
        format!("media-src {}", sources_with(IMAGES_AND_MEDIA, resources)),
        format!("worker-src {WORKERS}"),
        format!("connect-src {}", sources_or_none(&csp.connect_domains)),
        format!("frame-src {}", sources_or_none(&csp.frame_domains)),
        format!("base-uri {base}"),
        "object-src 'none'".to_owned(),
        "form-action 'none'".to_owned(),
        format!("frame-ancestors {}", sources_or_none(input.frame_ancestors)),
    ]
    .join("; ")
}

fn sources_or_none(origins: &[String]) -> String {
    if origins.is_empty() { "'none'".to_owned() } else { origins.join(" ") }
}

fn sources_with(sources: &str, origins: &[String]) -> String {
    let new = origins.iter().filter(|origin| !sources.split(' ').any(|known| known == *origin));
    new.fold(sources.to_owned(), |all, origin| all + " " + origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_origins_nothing_can_be_reached() {
        let text = policy(&PolicyInput { csp: None, frame_ancestors: &[] });
        assert_eq!(
            text,
            "default-src 'none'; script-src 'self' 'unsafe-inline' data: blob:; style-src 'self' 'unsafe-inline'; \
             img-src 'self' data: blob:; font-src 'self' data:; media-src 'self' data: blob:; worker-src blob: data:; \
             connect-src 'none'; frame-src 'none'; \
             base-uri 'self'; object-src 'none'; form-action 'none'; frame-ancestors 'none'"
        );
    }

    #[test]
    fn origins_stand_in_their_directives() {
        let csp = Csp {
            connect_domains: vec!["wss://c".into()],
            resource_domains: vec!["https://r".into(), "https://*.s.t".into()],
            frame_domains: vec!["https://f".into()],
            base_uri_domains: vec!["https://b".into()],
        };
        let ancestors = ["http://127.0.0.1:1".to_owned()];
        let text = policy(&PolicyInput { csp: Some(&csp), frame_ancestors: &ancestors });
        for directive in [
            "script-src 'self' 'unsafe-inline' data: blob: https://r https://*.s.t;",
            "img-src 'self' data: blob: https://r https://*.s.t;",
            "connect-src wss://c;",
            "frame-src https://f;",
            "base-uri https://b;",
            "frame-ancestors http://127.0.0.1:1",
        ] {
            assert!(text.contains(directive), "{directive} in {text}");
        }
    }
}
