//! The links of a drawing: only those that open a page.

use std::borrow::Cow;

/// Returns the SVG without the addresses of links that run a script or carry a document, such as
/// `javascript:` and `data:`. The text of such a link stays.
///
/// PlantUML draws every address that the author of a diagram writes, and a page that shows the SVG
/// as a part of itself would run the script as its own.
pub(super) fn without_unsafe_links(svg: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    let mut rest = svg;
    while let Some(at) = rest.find('<') {
        rest = &rest[at..];
        let opaque =
            [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>"), ("</", ">"), ("<!", ">")];
        if let Some((_, end)) = opaque.iter().find(|(start, _)| rest.starts_with(start)) {
            rest = rest.find(end).map_or("", |at| &rest[at + end.len()..]);
            continue;
        }
        let name_end = rest[1..].find(is_end_of_name).map_or(rest.len(), |at| at + 1);
        let is_image = matches!(&rest[1..name_end], "image" | "svg:image" | "feImage");
        rest = &rest[name_end..];
        while let Some(attribute) = Attribute::next(rest) {
            if attribute.is_address() && !is_safe(attribute.value, is_image) {
                let start = svg.len() - rest.len();
                out.push_str(&svg[copied..start]);
                copied = svg.len() - attribute.after.len();
            }
            rest = attribute.after;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(svg);
    }
    out.push_str(&svg[copied..]);
    Cow::Owned(out)
}

fn is_end_of_name(c: char) -> bool {
    c.is_ascii_whitespace() || matches!(c, '=' | '/' | '>' | '<')
}

/// An attribute of an element.
struct Attribute<'a> {
    name: &'a str,
    value: &'a str,
    /// The text after the attribute.
    after: &'a str,
}

impl<'a> Attribute<'a> {
    /// Returns the next attribute before the end of the element.
    fn next(text: &'a str) -> Option<Self> {
        let text = text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        let (name, rest) = text.split_at(text.find(is_end_of_name)?);
        let rest = rest.trim_ascii_start();
        let Some(rest) = rest.strip_prefix('=').map(str::trim_ascii_start) else {
            // An attribute without a value, as in HTML.
            return (!name.is_empty()).then_some(Self { name, value: "", after: rest });
        };
        let quote = rest.chars().next()?;
        let (value, after) = if quote == '"' || quote == '\'' {
            rest[1..].split_once(quote)?
        } else {
            rest.split_at(rest.find(|c: char| c.is_ascii_whitespace() || c == '>')?)
        };
        Some(Self { name, value, after })
    }

    fn is_address(&self) -> bool {
        let name = self.name.rsplit(':').next().unwrap_or_default();
        ["href", "src", "action", "formaction"].iter().any(|known| name.eq_ignore_ascii_case(known))
    }
}

/// Returns whether a browser opens a page at this address, or shows a picture.
fn is_safe(address: &str, is_image: bool) -> bool {
    let address: String = decoded(address)
        .chars()
        // Browsers leave them out of an address.
        .filter(|c| !c.is_control() && !c.is_whitespace())
        .map(|c| c.to_ascii_lowercase())
        .collect();
    let Some(end) = address.find([':', '/', '?', '#', '&']) else { return true };
    let (scheme, rest) = address.split_at(end);
    match rest.as_bytes()[0] {
        b':' => match scheme {
            "http" | "https" | "mailto" | "ftp" | "tel" => true,
            "data" => is_image && rest.starts_with(":image/"),
            _ => false,
        },
        // HTML has more names of characters than XML: `javascript&colon;`.
        b'&' => false,
        _ => true,
    }
}

/// Returns the text with the characters that XML and numbers name.
fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let named = after.split_once(';').and_then(|(name, after)| Some((character(name)?, after)));
        let (character, after) = named.unwrap_or(('&', after));
        out.push(character);
        rest = after;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn character(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(svg: &str, want: &str) {
        assert_eq!(without_unsafe_links(svg), want);
    }

    #[test]
    fn links_that_run_scripts_lose_their_address() {
        for address in [
            "javascript:alert(1)",
            " JaVaScRiPt:alert(1)",
            "java&#10;script:alert(1)",
            "java&#x0A;script:alert(1)",
            "java\tscript:alert(1)",
            "&#106;avascript:alert(1)",
            "javascript&colon;alert(1)",
            "vbscript:x",
            "data:text/html,&lt;b&gt;x",
            "data:image/svg+xml,x",
            "file:///etc/passwd",
        ] {
            let link = format!(
                r#"<a href="{address}" title="t" xlink:href='{address}'><text>x</text></a>"#
            );
            check(&link, r#"<a title="t"><text>x</text></a>"#);
        }
    }

    #[test]
    fn other_addresses_stay() {
        for address in [
            "http://e.org/?a=1&amp;b=javascript:x",
            "https://e.org",
            "mailto:a@b.c",
            "#part",
            "",
            "page.html",
            "/a:b",
            "?q=a:b",
        ] {
            let link = format!(r#"<a href="{address}" xlink:href="{address}">x</a>"#);
            check(&link, &link);
        }
        let picture = r#"<image height="1" xlink:href="data:image/png;base64,AA=="/>"#;
        check(picture, picture);
        check(
            r#"<image xlink:href="data:text/html,x"/><use href="javascript:x"/>"#,
            "<image/><use/>",
        );
    }

    #[test]
    fn only_attributes_of_elements_are_addresses() {
        for text in [
            r#"<!-- <a href="javascript:x"> --><![CDATA[<a href="javascript:x">]]>"#,
            r#"<?x <a href="javascript:x"?><text title="href='javascript:x'">href="javascript:x"</text>"#,
            "href < 1 <",
            "<a href=",
            "<a href='",
        ] {
            check(text, text);
        }
        check("<a href=javascript:x>y</a>", "<a>y</a>");
    }

    proptest! {
        #[test]
        fn any_text_is_taken(text in "[<>a!/?='\" hrefjavscript:&#;\\-\\[\\]ä]{0,60}") {
            let once = without_unsafe_links(&text);
            prop_assert!(once.len() <= text.len());
        }

        #[test]
        fn no_script_is_left(spaces in "[ \t\n\r]{0,3}", quote in "[\"']", name in "(xlink:)?[hH]ref") {
            let svg = format!("<svg><a{spaces} {name}{spaces}={spaces}{quote}{spaces}javascript:x{quote}>y</a></svg>");
            prop_assert!(!without_unsafe_links(&svg).contains("javascript"));
        }
    }
}
