//! Opens documents whose end is missing, as far as they go.

use std::{fmt::Write as _, sync::Arc};

use hayro_interpret::hayro_syntax::{
    LoadPdfError, Pdf,
    object::{Dict, Name, Object},
};

/// Opens a document.
///
/// Many programs write the catalog and the tree of pages last. If they are missing, the pages that
/// were found are put into a new tree.
///
/// # Errors
///
/// Returns an error if there is no page, or the document is encrypted.
pub(super) fn open(bytes: Vec<u8>) -> Result<Pdf, LoadPdfError> {
    let bytes = Arc::new(bytes);
    match Pdf::new(bytes.clone()) {
        Err(LoadPdfError::Invalid) => {}
        opened => return opened,
    }
    // With an empty page, the objects can be read.
    let found = Pdf::new(Arc::new(with_pages(&bytes, "")))?;
    let mut kids = String::new();
    for object in found.objects() {
        let Object::Dict(page) = object else { continue };
        if is_page(&page)
            && let Some(id) = page.obj_id().filter(|id| id.obj_number < FIRST)
        {
            let _ = write!(kids, "{} {} R ", id.obj_number, id.gen_number);
        }
    }
    if kids.is_empty() {
        return Err(LoadPdfError::Invalid);
    }
    Pdf::new(Arc::new(with_pages(&bytes, &kids)))
}

fn is_page(object: &Dict<'_>) -> bool {
    object.get::<Name<'_>>(b"Type").is_some_and(|kind| kind.as_ref() == b"Page")
}

/// Number of the first object that is added; no document has as many objects.
const FIRST: u32 = 8_388_000;

/// Returns a document with a catalog for these pages, or for an empty one.
fn with_pages(bytes: &[u8], kids: &str) -> Vec<u8> {
    let [catalog, pages, page] = [FIRST, FIRST + 1, FIRST + 2];
    let count = kids.matches('R').count().max(1);
    let kids = if kids.is_empty() { format!("{page} 0 R") } else { kids.to_owned() };
    let added = format!(
        "\nendstream\nendobj\n\
         {page} 0 obj\n<< /Type /Page /Parent {pages} 0 R /MediaBox [0 0 9 9] >>\nendobj\n\
         {pages} 0 obj\n<< /Type /Pages /Kids [{kids}] /Count {count} /MediaBox [0 0 612 792] >>\nendobj\n\
         {catalog} 0 obj\n<< /Type /Catalog /Pages {pages} 0 R >>\nendobj\n\
         trailer\n<< /Size {} /Root {catalog} 0 R >>\n",
        page + 1
    );
    [bytes, added.as_bytes()].concat()
}
