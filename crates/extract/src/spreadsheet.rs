//! Spreadsheets: XLSX (Office Open XML, ECMA-376) and ODS (OpenDocument, ISO/IEC 26300). Each sheet under its name,
//! each row on a line, with the displayed text of its cells.
//!
//! Read by hand, as DOCX is: the crate calamine was looked at and left, as it reserves the memory that a workbook says it
//! needs, and lays out the rectangle between the first and the last cell.

mod number;
mod ods;
mod sheets;
mod xlsx;

pub(crate) use self::{ods::Ods, xlsx::Xlsx};
