//! Spreadsheets: XLSX (Office Open XML, ECMA-376) and ODS (OpenDocument, ISO/IEC 26300). Each sheet
//! has its name above it, and each row is one line with the displayed text of its cells.
//!
//! Both formats are read by our own code. The crate calamine was tried: it reserves as much memory
//! as a workbook declares, and allocates the whole rectangle between the first and the last cell.

mod number;
mod ods;
mod sheets;
mod xlsx;

pub(crate) use self::{ods::Ods, xlsx::Xlsx};
