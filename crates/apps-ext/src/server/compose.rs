//! Inlines the scripts and style sheets of a document.

/// The reason why a file could not be inlined into a document.
pub(super) enum ComposeError<E> {
    /// The file does not exist.
    Missing(String),
    /// The file contains a text that would end its element in a document.
    Unsafe(String, &'static str),
    Read(E),
}

/// Inlines scripts and style sheets with a relative path, and returns the document. Elements with
/// other addresses stay unchanged, as do comments and the contents of scripts and styles.
///
/// `find` returns the text of a file, or `None` if the file is missing. The path has no `..` and
/// does not start with `/`.
pub(super) fn compose<E>(
    html: &str,
    mut find: impl FnMut(&str) -> Result<Option<String>, E>,
) -> Result<String, ComposeError<E>> {
    let mut composed = String::with_capacity(html.len());
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        composed.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = if rest.starts_with("<!--") {
            rest.find("-->").map_or(rest.len(), |end| end + 3)
        } else if let Some(tag) = Tag::at(rest) {
            // The contents of these elements are not markup.
            let raw = ["script", "style", "textarea", "title"].into_iter().find(|it| tag.is(it));
            let end = match raw {
                None => tag.length,
                Some(name) => {
                    tag.length
                        + end_of(&rest[tag.length..], name).unwrap_or(rest.len() - tag.length)
                }
            };
            if let Some(file) = tag.file() {
                let text = find(file)
                    .map_err(ComposeError::Read)?
                    .ok_or_else(|| ComposeError::Missing(file.to_owned()))?;
                let name = if tag.is("script") { "script" } else { "style" };
                let attributes = tag.kept_attributes();
                composed.push_str(&format!("<{name}{attributes}>{}", checked(file, text, name)?));
                composed.push_str(&format!("</{name}>"));
                rest = match raw {
                    Some(_) => rest[end..].split_once('>').map_or("", |(_, after)| after),
                    None => &rest[end..],
                };
                continue;
            }
            end
        } else {
            1
        };
        composed.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    composed.push_str(rest);
    Ok(composed)
}

/// Returns the text of a script or style sheet, if a document can contain it.
fn checked<E>(file: &str, text: String, element: &str) -> Result<String, ComposeError<E>> {
    let dangers: &[(&'static str, bool)] = match element {
        // After `<!--` a parser counts script tags (HTML, "script data double escaped state").
        "script" => &[("</script", false), ("<!--", false)],
        _ => &[("</style", false)],
    };
    let lower = text.to_ascii_lowercase();
    match dangers.iter().find(|(danger, _)| lower.contains(danger)) {
        Some((danger, _)) => Err(ComposeError::Unsafe(file.to_owned(), danger)),
        None => Ok(text),
    }
}

/// Returns the place of the end tag of an element whose content is not markup.
fn end_of(rest: &str, name: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + rest[from..].find("</")?;
        let after = &rest[at + 2..];
        if after.get(..name.len()).is_some_and(|it| it.eq_ignore_ascii_case(name)) {
            return Some(at);
        }
        from = at + 2;
    }
}

/// A start tag.
struct Tag<'a> {
    name: &'a str,
    /// Names and values, without quotes.
    attributes: Vec<(&'a str, Option<&'a str>)>,
    /// Length of the tag up to its `>`, in bytes.
    length: usize,
}

impl<'a> Tag<'a> {
    /// Parses the start tag at the beginning of `html`. Returns `None` if `html` begins with
    /// something else.
    fn at(html: &'a str) -> Option<Self> {
        let inner = html.strip_prefix('<')?;
        if !inner.starts_with(|it: char| it.is_ascii_alphabetic()) {
            return None;
        }
        fn is_end(it: char) -> bool {
            it.is_ascii_whitespace() || matches!(it, '/' | '>')
        }
        let (name, mut rest) = inner.split_at(inner.find(is_end)?);
        let mut attributes = Vec::new();
        loop {
            rest = rest.trim_start_matches(|it: char| it.is_ascii_whitespace() || it == '/');
            if let Some(after) = rest.strip_prefix('>') {
                return Some(Self { name, attributes, length: html.len() - after.len() });
            }
            let end = rest.find(|it: char| is_end(it) || it == '=').filter(|end| *end > 0);
            let (attribute, after) = rest.split_at(end?);
            rest = after.trim_ascii_start();
            let Some(value) = rest.strip_prefix('=') else {
                attributes.push((attribute, None));
                continue;
            };
            let value = value.trim_ascii_start();
            let quote = value.chars().next().filter(|it| matches!(it, '"' | '\''));
            let (value, after) = match quote {
                Some(quote) => value[1..].split_once(quote)?,
                None => {
                    value.split_at(value.find(|it: char| it.is_ascii_whitespace() || it == '>')?)
                }
            };
            attributes.push((attribute, Some(value)));
            rest = after;
        }
    }

    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    fn attribute(&self, name: &str) -> Option<&'a str> {
        let found = self.attributes.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.and_then(|(_, value)| *value)
    }

    /// Returns the relative path of a script or style sheet; `None` for other elements and
    /// addresses.
    fn file(&self) -> Option<&'a str> {
        let is_sheet = self.is("link")
            && self.attribute("rel").is_some_and(|it| it.eq_ignore_ascii_case("stylesheet"));
        let address = match () {
            () if self.is("script") => self.attribute("src")?,
            () if is_sheet => self.attribute("href")?,
            () => return None,
        };
        let path = address.strip_prefix("./").unwrap_or(address);
        let is_relative = !path.is_empty()
            && !path.contains([':', '\\', '?', '#', '%'])
            && path.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
        is_relative.then_some(path)
    }

    /// Returns the attributes that the element keeps, with a space before each.
    fn kept_attributes(&self) -> String {
        let dropped = ["src", "href", "rel", "integrity", "crossorigin", "async", "defer"];
        let kept = self
            .attributes
            .iter()
            .filter(|(name, _)| !dropped.iter().any(|it| it.eq_ignore_ascii_case(name)));
        let written = kept.map(|(name, value)| match value {
            None => format!(" {name}"),
            Some(value) if value.contains('"') => format!(" {name}='{value}'"),
            Some(value) => format!(" {name}=\"{value}\""),
        });
        written.collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn composed(html: &str) -> String {
        let composed = compose(html, |file| {
            Ok::<_, ()>(match file {
                "a.js" => Some("let a = '<p>'".to_owned()),
                "b/c.css" => Some("p > a { }".to_owned()),
                "bad.js" => Some("'</SCRIPT>'".to_owned()),
                "worse.js" => Some("'<!--'".to_owned()),
                _ => None,
            })
        });
        match composed {
            Ok(html) => html,
            Err(ComposeError::Missing(file)) => format!("missing {file}"),
            Err(ComposeError::Unsafe(file, text)) => format!("unsafe {file} {text}"),
            Err(ComposeError::Read(())) => "read".to_owned(),
        }
    }

    #[test]
    fn relative_scripts_and_styles_are_put_in() {
        for (html, want) in [
            ("x<script src=a.js></script>y", "x<script>let a = '<p>'</script>y"),
            (
                r#"<SCRIPT type="module" SRC='./a.js' defer></SCRIPT >."#,
                r#"<script type="module">let a = '<p>'</script>."#,
            ),
            (
                r#"<link href="b/c.css" rel="stylesheet" media='(x: "y")'/>"#,
                r#"<style media='(x: "y")'>p > a { }</style>"#,
            ),
            ("<script src=none.js></script>", "missing none.js"),
            ("<script src=bad.js></script>", "unsafe bad.js </script"),
            ("<script src=worse.js></script>", "unsafe worse.js <!--"),
        ] {
            assert_eq!(composed(html), want);
        }
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        for html in [
            "",
            "<",
            "a < b <3 <script",
            "<script src=",
            "<script src='a.js",
            "<script>let x = \"<script src=a.js>\"</script>",
            "<!-- <script src=a.js></script> --><p>",
            "<!-- <script src=a.js></script>",
            "<style>/* <link rel=stylesheet href=b/c.css> */</style>",
            "<title><script src=a.js></title>",
            "<script src=https://a.example/a.js></script>",
            "<script src=//a.example/a.js></script>",
            "<script src=/a.js></script>",
            "<script src=../a.js></script>",
            "<script src=b/../a.js></script>",
            "<script src='b\\a.js'></script>",
            "<script src='data:text/javascript,1'></script>",
            "<script src></script>",
            "<link rel=icon href=b/c.css>",
            "<img src=a.js>",
            "<p =x>",
        ] {
            assert_eq!(composed(html), html);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_composed_without_a_panic(html in r#"([<>/="' !-]|script|style|link|rel|src|href|stylesheet|a\.js|é|x){0,40}"#) {
            let with_files = composed(&html);
            // Without files to put in, nothing changes.
            let same = compose(&html, |_| Err(()));
            if let Ok(same) = same {
                prop_assert_eq!(same, html);
            } else {
                prop_assert!(!with_files.is_empty());
            }
        }
    }
}
