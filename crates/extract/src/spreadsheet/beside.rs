//! What a sheet of Excel has beside its cells: comments, text boxes, charts, headers and footers.

use quick_xml::events::BytesStart;

use super::sheets::Sheets;
use crate::{
    ExtractError, Source,
    drawing::{Placeholders, Shapes, drawn_texts},
    gather::{TextElements, gather},
    package::{Package, attribute},
};

const FORMAT: &str = "XLSX";

/// Reads the drawings and the comments of a sheet.
pub(super) fn read(
    package: &mut Package<'_>,
    part: &str,
    source: &Source<'_>,
    sheets: &mut Sheets<'_>,
) -> Result<(), ExtractError> {
    let related = package.relationships(part)?;
    for drawing in related.of_kind("drawing") {
        let part = &drawing.target;
        let of_drawing = package.relationships(part)?;
        let drawn = drawn_texts(FORMAT, package, &of_drawing, source)?;
        let mut shapes = Shapes::new(Placeholders::All, &drawn);
        gather(FORMAT, part, &package.optional(part)?, source, 0, &mut shapes)?;
        shapes.trim_end();
        sheets.add_beside(&shapes.text)?;
        for _ in 0..shapes.hidden {
            sheets.count_hidden();
        }
    }
    // Excel writes the comments of a thread again for older programs.
    let has_threads = related.of_kind("threadedComment").next().is_some();
    let kind = if has_threads { "threadedComment" } else { "comments" };
    for comments in related.of_kind(kind) {
        let part = &comments.target;
        let mut text = Comments::default();
        gather(FORMAT, part, &package.optional(part)?, source, 0, &mut text)?;
        sheets.add_beside(&text.text)?;
    }
    Ok(())
}

/// Collects the comments of a sheet, each after its cell.
#[derive(Default)]
struct Comments {
    text: String,
    /// The cell, until its comment has text.
    cell: Option<String>,
    in_text: bool,
    phonetic: usize,
}

impl TextElements for Comments {
    fn start(&mut self, element: &BytesStart<'_>) {
        match element.local_name().as_ref() {
            "comment" | "threadedComment" => self.cell = attribute(element, "ref"),
            "rPh" => self.phonetic += 1,
            // The text of a thread is in `text`, of a comment in `t` within it.
            "t" | "text" => self.in_text = self.phonetic == 0,
            _ => self.in_text = false,
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "comment" | "threadedComment" => {
                self.in_text = false;
                if !self.text.is_empty() {
                    self.text.push('\n');
                }
            }
            "rPh" => self.phonetic = self.phonetic.saturating_sub(1),
            "t" | "text" => self.in_text = false,
            _ => {}
        }
    }

    fn push(&mut self, text: &str) {
        if self.cell.is_some() && text.trim().is_empty() {
            return;
        }
        if let Some(cell) = self.cell.take() {
            self.text.push_str(&format!("Comment ({cell}): "));
        }
        self.text.push_str(&text.replace('\n', " "));
    }

    fn is_in_text(&self) -> bool {
        self.in_text
    }

    fn len(&self) -> usize {
        self.text.len()
    }
}

/// Returns the text of a header or footer without its codes, such as `&L&"Arial,Bold"&12`
/// (ECMA-376 part 1, 18.3.1.46). A text that has only numbers of pages is empty.
pub(super) fn without_codes(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        plain.push_str(before);
        let Some(code) = after.chars().next() else { return plain };
        rest = &after[code.len_utf8()..];
        match code {
            '&' => plain.push('&'),
            'L' | 'C' | 'R' => plain.push(' '),
            '"' => rest = rest.split_once('"').map_or("", |(_, rest)| rest),
            'K' => rest = rest.get(6..).unwrap_or_default(),
            '0'..='9' => rest = rest.trim_start_matches(|it: char| it.is_ascii_digit()),
            _ => {}
        }
    }
    plain.push_str(rest);
    if plain.contains(char::is_alphabetic) { plain } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::without_codes;

    #[test]
    fn headers_are_text() {
        for (code, expected) in [
            (
                "&L&\"Arial,Bold\"&12Report&CBread && wine&RPage &P of &N",
                "Report Bread & wine Page  of",
            ),
            ("&C&KFF0000Draft", "Draft"),
            ("&C&P / &N", ""),
            ("&K", ""),
            ("&", ""),
        ] {
            assert_eq!(without_codes(code).trim(), expected, "{code}");
        }
    }
}
