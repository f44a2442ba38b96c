//! EPUB 2 and 3: the chapters of a book in order, each an XHTML document.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use quick_xml::events::Event;

use crate::{
    ExtractError, Extracted, Extractor, Heading, Problem, Source,
    decode::{declared_after, decode},
    document::{PART_BYTES, readings_left_out},
    html,
    package::{self, Package, attribute, each_event, properties, resolved_path},
};

/// Reads books.
pub(crate) struct Epub;

const MEDIA_TYPE: &str = "application/epub+zip";

/// Name of the format in errors.
const FORMAT: &str = "EPUB";

impl Extractor for Epub {
    fn media_types(&self) -> &[&str] {
        &[MEDIA_TYPE]
    }

    fn extensions(&self) -> &[(&str, &str)] {
        &[("epub", MEDIA_TYPE)]
    }

    fn recognize(&self, bytes: &[u8]) -> Option<&'static str> {
        // The first part of the archive is the media type, without compression.
        let start = &bytes[..bytes.len().min(200)];
        let is_one =
            bytes.starts_with(b"PK\x03\x04") && package::names(start, MEDIA_TYPE.as_bytes());
        is_one.then_some(MEDIA_TYPE)
    }

    fn is_zip_archive(&self) -> bool {
        true
    }

    fn extract(&self, source: &Source<'_>) -> Result<Extracted, ExtractError> {
        let mut package = Package::open(FORMAT, source)?;
        let path = root_file(&package.required("META-INF/container.xml")?)?;
        let opf = package.required(&path)?;
        let mut extracted = Extracted::default();
        properties(FORMAT, &path, &opf, &mut extracted)?;
        let chapters = spine(&path, &opf)?;
        let locked = encrypted(&package.optional("META-INF/encryption.xml")?)?;
        let mut hidden = 0;
        let mut readings = 0;
        let mut missing = 0;
        for chapter in chapters {
            if locked.contains(&chapter) {
                return Err(ExtractError::Encrypted);
            }
            let Some(bytes) = package.part(&chapter)? else {
                missing += 1;
                continue;
            };
            let declared = declared_after(&bytes, "encoding", 256);
            let text = decode(&bytes, declared).into_text();
            let page = html::read(&with_ends(&text), source)?;
            hidden += page.hidden;
            readings += page.readings;
            append(&mut extracted, page);
            source.check(extracted.content.len() + extracted.headings.len() * PART_BYTES)?;
        }
        if hidden > 0 {
            extracted.problems.push(Problem::Hidden { count: hidden });
        }
        if readings > 0 {
            extracted.problems.push(readings_left_out(readings));
        }
        if missing > 0 {
            let reason = format!("{missing} chapters are named, and not there");
            extracted.problems.push(Problem::Other { reason });
        }
        Ok(extracted)
    }
}

/// Appends a chapter to the previous ones.
fn append(extracted: &mut Extracted, page: html::Read) {
    if page.content.is_empty() {
        return;
    }
    if !extracted.content.is_empty() {
        extracted.content.push_str("\n\n");
    }
    let start = extracted.content.len();
    extracted.content.push_str(&page.content);
    let headings = page.headings.into_iter().map(|heading| Heading {
        span: start + heading.span.start..start + heading.span.end,
        ..heading
    });
    extracted.headings.extend(headings);
}

/// Returns the path of the package document, which lists the parts of the book.
fn root_file(container: &[u8]) -> Result<String, ExtractError> {
    let mut path = None;
    each_event(FORMAT, "META-INF/container.xml", container, |event| {
        if let Event::Start(element) | Event::Empty(element) = event
            && element.local_name().as_ref() == "rootfile"
            && path.is_none()
        {
            path = attribute(&element, "full-path");
        }
        Ok(())
    })?;
    let reason = "META-INF/container.xml names no package document".to_owned();
    path.ok_or(ExtractError::Malformed { format: FORMAT, reason })
}

/// Returns the paths of the chapters, in reading order, each once. A book without a spine has all
/// its chapters in the order of the manifest.
fn spine(path: &str, opf: &[u8]) -> Result<Vec<String>, ExtractError> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut items: HashMap<String, String> = HashMap::new();
    let mut in_manifest = Vec::new();
    let mut references = Vec::new();
    each_event(FORMAT, path, opf, |event| {
        if let Event::Start(element) | Event::Empty(element) = event {
            match element.local_name().as_ref() {
                "item" => {
                    let kind = attribute(&element, "media-type").unwrap_or_default();
                    let named = attribute(&element, "id").zip(attribute(&element, "href"));
                    if let Some((id, href)) = named
                        && is_chapter(&kind, &href)
                    {
                        in_manifest.push(id.clone());
                        items.insert(id, resolved_path(folder, &href));
                    }
                }
                "itemref" => references.extend(attribute(&element, "idref")),
                _ => {}
            }
        }
        Ok(())
    })?;
    if !references.iter().any(|id| items.contains_key(id)) {
        references = in_manifest;
    }
    let mut seen = HashSet::new();
    let chapters = references.iter().filter_map(|id| items.get(id)).cloned();
    Ok(chapters.filter(|chapter| seen.insert(chapter.clone())).collect())
}

/// Returns whether an item of the manifest has text. Old and careless programs write other media
/// types for chapters, which the name shows.
fn is_chapter(media_type: &str, href: &str) -> bool {
    let media_type = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let path = href.split(['#', '?']).next().unwrap_or_default().to_ascii_lowercase();
    match media_type.as_str() {
        "application/xhtml+xml"
        | "text/html"
        | "text/x-oeb1-document"
        | "application/x-dtbook+xml"
        | "image/svg+xml" => true,
        _ => path.ends_with("html") || path.ends_with(".htm"),
    }
}

/// Returns the paths of encrypted parts. Encrypted fonts are allowed.
fn encrypted(xml: &[u8]) -> Result<HashSet<String>, ExtractError> {
    let mut parts = HashSet::new();
    each_event(FORMAT, "META-INF/encryption.xml", xml, |event| {
        if let Event::Start(element) | Event::Empty(element) = event
            && element.local_name().as_ref() == "CipherReference"
        {
            parts.extend(attribute(&element, "URI").map(|uri| resolved_path("", &uri)));
        }
        Ok(())
    })?;
    Ok(parts)
}

/// Adds end tags to empty elements of raw text and of readings: an HTML parser would read
/// everything after `<title/>` as the title.
fn with_ends(xhtml: &str) -> Cow<'_, str> {
    const RAW: [&str; 10] = [
        "title", "script", "style", "textarea", "iframe", "noscript", "noframes", "xmp", "rt", "rp",
    ];
    let mut changed = String::new();
    let mut from = 0;
    let mut at = 0;
    while let Some(found) = xhtml[at..].find('<') {
        let start = at + found + 1;
        at = start;
        let rest = &xhtml.as_bytes()[start..];
        let Some(name) = RAW.iter().find(|name| begins_with_name(rest, name)) else { continue };
        let Some(length) = xhtml[start..].find('>') else { break };
        at = start + length + 1;
        if xhtml[start..start + length].ends_with('/') {
            changed.push_str(&xhtml[from..start + length - 1]);
            changed.push_str("></");
            changed.push_str(name);
            changed.push('>');
            from = at;
        }
    }
    if from == 0 {
        return Cow::Borrowed(xhtml);
    }
    changed.push_str(&xhtml[from..]);
    Cow::Owned(changed)
}

/// Returns whether the text after `<` begins with the name of this element, in any case.
fn begins_with_name(tag: &[u8], name: &str) -> bool {
    let end = tag.get(name.len()).copied().unwrap_or_default();
    tag.get(..name.len()).is_some_and(|it| it.eq_ignore_ascii_case(name.as_bytes()))
        && (end.is_ascii_whitespace() || end == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_elements_of_raw_text_are_ended() {
        assert_eq!(with_ends("<Title/><p>A</p>"), "<Title></title><p>A</p>");
        assert_eq!(with_ends("<script src='x' /><br/>"), "<script src='x' ></script><br/>");
        assert_eq!(with_ends("<title>a/</title><titles/>"), "<title>a/</title><titles/>");
        assert_eq!(with_ends("<style"), "<style");
    }
}
