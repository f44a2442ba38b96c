//! Spreadsheets of given sheets.

use super::package::{open_document, package};

const MAIN: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
const RELATIONS: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";

/// A workbook of sheets with these names, attributes and contents, and of these further parts.
pub(crate) fn workbook(sheets: &[(&str, &str, &str)], others: &[(&str, &str)]) -> Vec<u8> {
    let mut list = String::new();
    let mut relations = String::new();
    let mut parts = Vec::new();
    for (number, (name, attributes, content)) in (1..).zip(sheets) {
        list +=
            &format!("<sheet name='{name}' sheetId='{number}' r:id='rId{number}' {attributes}/>");
        relations += &format!(
            "<Relationship Id='rId{number}' Type='{RELATIONS}/worksheet' Target='worksheets/sheet{number}.xml'/>"
        );
        let part = format!("xl/worksheets/sheet{number}.xml");
        parts.push((part, format!("<worksheet xmlns='{MAIN}'>{content}</worksheet>")));
    }
    let workbook = format!(
        "<workbook xmlns='{MAIN}' xmlns:r='{RELATIONS}'><sheets>{list}</sheets></workbook>"
    );
    let relations = format!("<Relationships>{relations}</Relationships>");
    let mut all =
        vec![("xl/workbook.xml", &*workbook), ("xl/_rels/workbook.xml.rels", &*relations)];
    all.extend(parts.iter().map(|(name, content)| (&**name, &**content)));
    all.extend(others);
    package(&all)
}

/// A workbook of one sheet with these rows.
pub(crate) fn rows(rows: &str) -> Vec<u8> {
    workbook(&[("Sheet1", "", &format!("<sheetData>{rows}</sheetData>"))], &[])
}

/// An OpenDocument spreadsheet of these styles and tables.
pub(crate) fn tables(styles: &str, tables: &str, others: &[(&str, &str)]) -> Vec<u8> {
    let content = format!(
        "<office:document-content xmlns:office='o' xmlns:table='t' xmlns:text='x' xmlns:style='s'>\
         <office:automatic-styles>{styles}</office:automatic-styles>\
         <office:body><office:spreadsheet>{tables}</office:spreadsheet></office:body></office:document-content>"
    );
    let parts: Vec<_> =
        [("content.xml", &*content)].into_iter().chain(others.iter().copied()).collect();
    open_document("application/vnd.oasis.opendocument.spreadsheet", &parts)
}
