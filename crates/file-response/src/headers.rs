//! Headers of files that clients have stored: they must not act as pages of this server.

use http::{HeaderMap, HeaderValue, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// Whether a browser may show a file instead of saving it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InlineDisplay {
    /// The file is always saved.
    Never,
    /// The file is shown if nothing in it can act. Otherwise it is saved.
    IfPassive,
}

/// Sets the headers of a file: its media type, which browsers then believe, a name for saving it,
/// and a sandbox. A page can still show markup such as SVG as an image, in which scripts never run.
pub fn set_file_headers(
    headers: &mut HeaderMap,
    media_type: &str,
    name: &str,
    display: InlineDisplay,
) {
    let essence = essence(media_type);
    let is_shown = display == InlineDisplay::IfPassive && is_passive(&essence);
    let content_type = match charset(media_type) {
        Some(charset) => format!("{essence}; charset={charset}"),
        None => essence.clone(),
    };
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_str(&content_type).expect("essence and charset are tokens"),
    );
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // A browser that shows a page after all must neither run its scripts nor load anything for it.
    // Viewers of pictures and recordings load the file itself once more, and have a style.
    let policy = match essence.as_str() {
        // Viewers of PDFs do not work in a sandbox.
        "application/pdf" if is_shown => None,
        _ if is_shown => Some(
            "sandbox; default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'",
        ),
        _ => Some("sandbox; default-src 'none'"),
    };
    if let Some(policy) = policy {
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    }
    let kind = if is_shown { "inline" } else { "attachment" };
    let disposition = format!("{kind}; filename*=UTF-8''{}", file_name(name));
    headers.insert(
        header::CONTENT_DISPOSITION,
        HeaderValue::from_str(&disposition).unwrap_or(HeaderValue::from_static("attachment")),
    );
}

/// Returns whether nothing in a file of this type can act in a browser: pixels, sound, video, plain
/// text, and PDFs, whose scripts browsers run apart from the page. Any other type counts as active,
/// above all HTML, SVG, XML and JavaScript, and types that are not known here.
fn is_passive(essence: &str) -> bool {
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
    let is_recording = essence.starts_with("audio/") || essence.starts_with("video/");
    TYPES.contains(&essence) || is_recording && !essence.ends_with("+xml")
}

/// Returns a media type in lower case without its parameters. What a browser could read as another
/// type than this program, such as `image/png;x,text/html`, is `application/octet-stream`.
fn essence(media_type: &str) -> String {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    match essence.split_once('/') {
        Some((kind, subtype)) if is_token(kind) && is_token(subtype) => {
            essence.to_ascii_lowercase()
        }
        _ => "application/octet-stream".to_owned(),
    }
}

/// Returns the character set that a media type names.
fn charset(media_type: &str) -> Option<&str> {
    media_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let value = value.trim().trim_matches('"');
        (name.trim().eq_ignore_ascii_case("charset") && is_token(value)).then_some(value)
    })
}

/// Returns whether a text is a word of a media type (RFC 6838, section 4.2).
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
}

/// Returns a name without folders and control characters, percent-encoded for `filename*` (RFC
/// 8187).
fn file_name(name: &str) -> String {
    const MAX_BYTES: usize = 150;
    let flat =
        name.replace(|character: char| character.is_control() || "/\\:".contains(character), "_");
    let visible = flat.trim_start_matches('.').trim();
    let short = &visible[..visible.floor_char_boundary(MAX_BYTES)];
    let name = if short.is_empty() { "file" } else { short };
    utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(media_type: &str, name: &str, want: Expect) {
        let mut headers = HeaderMap::new();
        set_file_headers(&mut headers, media_type, name, InlineDisplay::IfPassive);
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
                content-security-policy: "sandbox; default-src 'none'; img-src 'self'; media-src 'self'; style-src 'unsafe-inline'"
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
            assert!(is_passive(&essence(media_type)), "{media_type}");
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
            "image/png,text/html",
            "",
        ] {
            assert!(!is_passive(&essence(media_type)), "{media_type}");
        }
    }

    #[test]
    fn a_browser_reads_one_media_type() {
        for (media_type, want) in [
            ("image/png;x,text/html", "image/png"),
            ("audio/ogg;a=b,text/html", "audio/ogg"),
            ("text/plain;charset=utf-8,text/html", "text/plain"),
            ("Text/Plain ; Charset=\"UTF-8\"", "text/plain; charset=UTF-8"),
            ("image/png,text/html", "application/octet-stream"),
            ("text", "application/octet-stream"),
        ] {
            let mut headers = HeaderMap::new();
            set_file_headers(&mut headers, media_type, "a", InlineDisplay::IfPassive);
            assert_eq!(headers["content-type"], want, "{media_type}");
        }
    }

    #[test]
    fn a_file_that_is_never_shown_is_saved_whatever_it_is() {
        let mut headers = HeaderMap::new();
        set_file_headers(&mut headers, "image/png\n", "", InlineDisplay::Never);
        assert_eq!(headers["content-type"], "image/png");
        assert_eq!(headers["content-disposition"], "attachment; filename*=UTF-8''file");
        assert!(headers.contains_key("content-security-policy"));
    }
}
