//! The MIME type of Views.

/// Returns whether a MIME type is that of a View: `text/html` with the parameter `profile=mcp-app`.
///
/// The specification writes it without spaces. Servers in the field write a space after the
/// semicolon, quotes around the value, capitals, or a `charset`; all of these name the same type
/// (RFC 9110, section 8.3.1).
///
/// ```
/// use marquetry_apps_ext::types::is_view_mime_type;
///
/// assert!(is_view_mime_type("text/html; charset=utf-8; profile=\"mcp-app\""));
/// assert!(!is_view_mime_type("text/html"));
/// ```
#[must_use]
pub fn is_view_mime_type(text: &str) -> bool {
    let (media_type, parameters) = text.split_once(';').unwrap_or((text, ""));
    media_type.trim().eq_ignore_ascii_case("text/html")
        && parameters.split(';').filter_map(|it| it.split_once('=')).any(|(name, value)| {
            let value = value.trim();
            let unquoted = value.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
            name.trim().eq_ignore_ascii_case("profile")
                && unquoted.unwrap_or(value).eq_ignore_ascii_case("mcp-app")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_type_are_equal() {
        for text in [
            "text/html;profile=mcp-app",
            "text/html; profile=mcp-app",
            " Text/HTML ;\tPROFILE = \"MCP-App\" ",
            "text/html;profile=mcp-app;charset=utf-8",
            "text/html; charset=\"utf-8\" ; profile=mcp-app;",
        ] {
            assert!(is_view_mime_type(text), "{text:?}");
        }
    }

    #[test]
    fn other_types_are_no_views() {
        for text in [
            "",
            "text/html",
            "text/html;profile=",
            "text/html;profile=mcp-app2",
            "text/html;profile=\"mcp-app",
            "text/html;x-profile=mcp-app",
            "text/htmlx;profile=mcp-app",
            "application/xhtml+xml;profile=mcp-app",
            "profile=mcp-app",
        ] {
            assert!(!is_view_mime_type(text), "{text:?}");
        }
    }
}
