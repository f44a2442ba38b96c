//! Relationships: how the parts of an office document name each other (ECMA-376 part 2, 6.5).

use std::collections::HashMap;

use quick_xml::events::Event;

use super::{attribute, each_event};
use crate::ExtractError;

/// The relationships of a part, in order.
#[derive(Default)]
pub(crate) struct Relationships {
    list: Vec<Relationship>,
    by_id: HashMap<String, usize>,
}

/// A reference from one part to another one.
pub(crate) struct Relationship {
    pub(crate) id: String,
    /// The last segment of the type, which is the same in both editions of the standard.
    pub(crate) kind: String,
    /// Name of the other part.
    pub(crate) target: String,
}

impl Relationships {
    /// Reads the relationships of a part in a folder. External ones, such as links, are left out.
    pub(super) fn read(
        format: &'static str,
        part: &str,
        folder: &str,
        xml: &[u8],
    ) -> Result<Self, ExtractError> {
        let mut relationships = Self::default();
        each_event(format, part, xml, |event| {
            let (Event::Start(element) | Event::Empty(element)) = event else { return Ok(()) };
            if attribute(&element, "TargetMode").as_deref() == Some("External") {
                return Ok(());
            }
            if let Some(target) = attribute(&element, "Target") {
                let kind = attribute(&element, "Type").unwrap_or_default();
                let id = attribute(&element, "Id").unwrap_or_default();
                relationships.by_id.insert(id.clone(), relationships.list.len());
                relationships.list.push(Relationship {
                    id,
                    kind: kind.rsplit('/').next().unwrap_or_default().to_owned(),
                    target: resolved_path(folder, &target),
                });
            }
            Ok(())
        })?;
        Ok(relationships)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Relationship> {
        self.list.iter()
    }

    pub(crate) fn by_id(&self, id: &str) -> Option<&Relationship> {
        self.by_id.get(id).and_then(|index| self.list.get(*index))
    }

    pub(crate) fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Relationship> {
        self.list.iter().filter(move |relationship| relationship.kind == kind)
    }
}

/// Converts a reference in a part of this folder to a path in the archive.
pub(crate) fn resolved_path(folder: &str, reference: &str) -> String {
    let reference = reference.split(['#', '?']).next().unwrap_or(reference).replace('\\', "/");
    let reference = percent_decoded(&reference);
    let mut segments: Vec<&str> =
        if reference.starts_with('/') { Vec::new() } else { folder.split('/').collect() };
    for segment in reference.split('/') {
        match segment {
            "" | "." => {}
            ".." => _ = segments.pop(),
            segment => segments.push(segment),
        }
    }
    segments.retain(|segment| !segment.is_empty());
    segments.join("/")
}

/// Decodes `%20` and the like.
pub(super) fn percent_decoded(reference: &str) -> String {
    let mut bytes = Vec::with_capacity(reference.len());
    let mut rest = reference.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.first_chunk::<2>().filter(|_| first == b'%');
        let code = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            bytes.push(byte);
            rest = &after[2..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_paths_within_the_archive() {
        for (folder, reference, expected) in [
            ("OEBPS", "text/a%20b.xhtml#x", "OEBPS/text/a b.xhtml"),
            ("OEBPS", "../../../etc/passwd", "etc/passwd"),
            ("", "a%zz%4", "a%zz%4"),
            ("xl", "worksheets/sheet1.xml", "xl/worksheets/sheet1.xml"),
            ("xl", "/xl/sheet1.xml", "xl/sheet1.xml"),
            ("xl", "../../../a/./b.xml", "a/b.xml"),
            ("ppt/slides", "..\\charts\\chart1.xml", "ppt/charts/chart1.xml"),
        ] {
            assert_eq!(resolved_path(folder, reference), expected, "{reference}");
        }
    }
}
