//! Headers and footers of the sections of a document (ECMA-376 part 1, 17.10).

use quick_xml::events::BytesStart;

use super::is_on;
use crate::package::attribute;

/// Collects which headers and footers are shown.
#[derive(Default)]
pub(super) struct Sections {
    /// The ids of the relationships, in order; sections may share them.
    pub(super) headers: Vec<String>,
    pub(super) footers: Vec<String>,
    /// Those of the open section.
    open: Vec<Reference>,
    /// Whether the first page of the open section differs from the others.
    has_first_page: bool,
}

struct Reference {
    is_header: bool,
    is_first_page: bool,
    id: String,
}

impl Sections {
    pub(super) fn start(&mut self, element: &BytesStart<'_>) {
        let name = element.local_name();
        match name.as_ref() {
            "headerReference" | "footerReference" => self.open.push(Reference {
                is_header: name.as_ref() == "headerReference",
                is_first_page: attribute(element, "type").as_deref() == Some("first"),
                id: attribute(element, "id").unwrap_or_default(),
            }),
            "titlePg" => self.has_first_page = is_on(attribute(element, "val").as_deref()),
            _ => {}
        }
    }

    /// Ends a section. A header of a first page that is like the others is not shown.
    pub(super) fn end(&mut self) {
        let has_first_page = std::mem::take(&mut self.has_first_page);
        for reference in self.open.drain(..) {
            if reference.is_first_page && !has_first_page {
                continue;
            }
            let ids = if reference.is_header { &mut self.headers } else { &mut self.footers };
            ids.push(reference.id);
        }
    }
}
