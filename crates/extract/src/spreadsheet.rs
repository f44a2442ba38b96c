//! Spreadsheets: XLSX (Office Open XML, ECMA-376) and ODS (OpenDocument, ISO/IEC 26300). Each sheet
//! has its name above it, and each row is one line with the displayed text of its cells.
//!
//! Both formats are read by our own code. The crate calamine was tried: it reserves as much memory
//! as a workbook declares, and allocates the whole rectangle between the first and the last cell.

mod beside;
mod ods;
mod sheets;
mod xlsx;

pub use self::sheets::Sheet;
pub(crate) use self::{ods::Ods, xlsx::Xlsx};
use crate::{ExtractError, Extractor, Hint, Source, Stop};

/// Reads the sheets of a workbook, XLSX or ODS, as rows of cells. Numbers are plain, and days are
/// as in ISO 8601, whatever their format is.
///
/// # Errors
///
/// Returns an error if the document is not such a workbook, is encrypted or damaged, or exceeds a
/// limit of the hint. Each cell counts as 32 bytes of content beside its text.
pub fn sheets(bytes: &[u8], hint: &Hint<'_>) -> Result<Vec<Sheet>, ExtractError> {
    hint.limits.check_bytes(bytes.len() as u64)?;
    let stop = match hint.stop {
        Some(stop) => stop.and_within(hint.limits.max_time),
        None => Stop::within(hint.limits.max_time),
    };
    let source = Source {
        bytes,
        stop: &stop,
        media_type: "",
        charset: None,
        limits: &hint.limits,
        depth: 0,
    };
    let mut sheets = sheets::Sheets::of_rows(source);
    if Ods.recognize(bytes).is_some() {
        ods::read(&source, &mut sheets)?;
    } else {
        xlsx::read(&source, &mut sheets)?;
    }
    Ok(sheets.into_rows())
}
