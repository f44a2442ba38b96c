//! Headers of files that clients have stored: they must not act as pages of this server.

use axum::http::{HeaderMap, HeaderValue, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// Whether a browser may show a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// It is saved.
    Never,
    /// It is shown if nothing in it can act, else saved; see [`is_passive`].
    IfPassive,
}

/// Sets the headers of a file: its media type, which browsers then believe, a name for saving it, and a sandbox unless it is passive.
/// Markup as an image in a page is shown all the same: scripts of such images never run.
pub(crate) fn set(headers: &mut HeaderMap, media_type: &str, name: &str, shown: Shown) {
    let is_shown = shown == Shown::IfPassive && is_passive(media_type);
    let plain = HeaderValue::from_static("application/octet-stream");
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_str(media_type).unwrap_or(plain));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if !is_shown {
        // A browser that shows a page after all must neither run its scripts nor load anything for it.
        let policy = HeaderValue::from_static("sandbox; default-src 'none'");
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    let kind = if is_shown { "inline" } else { "attachment" };
    let disposition = format!("{kind}; filename*=UTF-8''{}", file_name(name));
    let disposition = HeaderValue::from_str(&disposition);
    headers.insert(
        header::CONTENT_DISPOSITION,
        disposition.unwrap_or(HeaderValue::from_static("attachment")),
    );
}

/// Returns whether nothing in a file of this type can act in a browser: pixels, sound, video, plain text, and PDFs, whose scripts browsers run
/// apart from the page. Any other type counts as active, above all HTML, SVG, XML and JavaScript, and types that are not known here.
fn is_passive(media_type: &str) -> bool {
    const TYPES: [&str; 13] = [
        "application/json",
        "application/pdf",
        "image/avif",
        "image/bmp",
        "image/gif",
        "image/jpeg",
        "image/png",
        "image/tiff",
        "image/webp",
        "image/x-icon",
        "text/csv",
        "text/markdown",
        "text/plain",
    ];
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_recording = essence.starts_with("audio/") || essence.starts_with("video/");
    TYPES.contains(&essence.as_str()) || is_recording && !essence.ends_with("+xml")
}

/// Returns a name without folders and control characters, percent-encoded for `filename*` (RFC 8187).
fn file_name(name: &str) -> String {
    const MOST: usize = 150;
    let is_refused = |character: char| character.is_control() || "/\\:".contains(character);
    let name = name.replace(is_refused, "_");
    let name = name.trim_start_matches('.').trim();
    let name = &name[..name.floor_char_boundary(MOST)];
    let name = if name.is_empty() { "file" } else { name };
    utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(media_type: &str, name: &str, want: Expect) {
        let mut headers = HeaderMap::new();
        set(&mut headers, media_type, name, Shown::IfPassive);
        let lines = headers.iter().map(|(name, value)| format!("{name}: {value:?}\n"));
        want.assert_eq(&lines.collect::<String>());
    }

    #[test]
    fn a_picture_is_shown() {
        check(
            "image/png",
            "portrait.png",
            expect![[r#"
                content-type: "image/png"
                x-content-type-options: "nosniff"
                content-disposition: "inline; filename*=UTF-8''portrait%2Epng"
            "#]],
        );
    }

    #[test]
    fn markup_is_saved_and_cannot_act() {
        check(
            "image/svg+xml",
            "../a\r\nb\"c\u{2028}.svg",
            expect![[r#"
                content-type: "image/svg+xml"
                x-content-type-options: "nosniff"
                content-security-policy: "sandbox; default-src 'none'"
                content-disposition: "attachment; filename*=UTF-8''%5Fa%5F%5Fb%22c%E2%80%A8%2Esvg"
            "#]],
        );
    }

    #[test]
    fn only_known_types_are_passive() {
        for media_type in ["IMAGE/PNG", "text/plain; charset=utf-8", "audio/ogg", "application/pdf"]
        {
            assert!(is_passive(media_type), "{media_type}");
        }
        for media_type in [
            "text/html",
            "TEXT/HTML ; charset=utf-8",
            "application/xhtml+xml",
            "image/svg+xml",
            "text/xml",
            "application/xml",
            "video/x+xml",
            "text/javascript",
            "text/css",
            "application/octet-stream",
            "x/y",
            "",
        ] {
            assert!(!is_passive(media_type), "{media_type}");
        }
    }

    #[test]
    fn a_file_that_is_never_shown_is_saved_whatever_it_is() {
        let mut headers = HeaderMap::new();
        set(&mut headers, "image/png\n", "", Shown::Never);
        assert_eq!(headers["content-type"], "application/octet-stream");
        assert_eq!(headers["content-disposition"], "attachment; filename*=UTF-8''file");
        assert!(headers.contains_key("content-security-policy"));
    }
}
