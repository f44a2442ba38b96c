//! The few parts of rustdoc's HTML that the names need: attributes, and the text of an element.

/// Returns the values of an attribute, in their order.
pub(super) fn attributes<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!(" {name}=\"");
    html.split(&start).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// Returns the contents of all elements of a kind, which must not be nested.
pub(super) fn elements<'a>(html: &'a str, tag: &str) -> Vec<&'a str> {
    let (start, end) = (format!("<{tag}"), format!("</{tag}>"));
    html.split(&start)
        .skip(1)
        .filter_map(|rest| {
            // `<dt` is also the start of `<dtx>`.
            if !rest.starts_with(['>', ' ']) {
                return None;
            }
            Some(rest.split_once('>')?.1.split(&end).next().unwrap_or_default())
        })
        .collect()
}

/// Returns the text without its tags.
pub(super) fn text(html: &str) -> String {
    let mut text = String::new();
    for (number, part) in html.split('<').enumerate() {
        text.push_str(match (number, part.split_once('>')) {
            (0, _) => part,
            (_, Some((_, after))) => after,
            (_, None) => "",
        });
    }
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// Decodes a percent-encoded id.
pub(super) fn decoded(id: &str) -> String {
    let mut bytes = Vec::with_capacity(id.len());
    let mut rest = id.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = (first == b'%').then(|| after.get(..2)).flatten();
        let value = hex.and_then(|it| u8::from_str_radix(std::str::from_utf8(it).ok()?, 16).ok());
        bytes.push(value.unwrap_or(first));
        rest = if value.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_and_their_text_are_found() {
        let html = r#"<dl><dt id="a"><code>pub use <a href="x">b</a>::C&lt;D&gt;;</code></dt><dt>e</dt><dtx>f</dtx></dl>"#;
        let texts: Vec<_> = elements(html, "dt").into_iter().map(text).collect();
        assert_eq!(texts, ["pub use b::C<D>;", "e"]);
        assert_eq!(attributes(html, "id"), ["a"]);
    }

    #[test]
    fn ids_are_decoded() {
        assert_eq!(decoded("impl-From%3CA%3E-for-B"), "impl-From<A>-for-B");
        assert_eq!(decoded("100%"), "100%");
    }
}
