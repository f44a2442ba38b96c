//! Texts of annotations that the interpreter does not draw: values of forms, and notes.

use hayro_interpret::{
    hayro_syntax::{
        object::{Array, Dict, Name, Object, Rect, String as PdfString},
        page::Page,
    },
    kurbo::{Affine, Point},
};

use super::{page::PageText, strings};

/// Flags of annotations that no reader sees (ISO 32000-2, 12.5.3): hidden, or not on a screen.
const INVISIBLE: u32 = 1 << 1 | 1 << 5;
/// Flag of a text field whose value is a password (ISO 32000-2, 12.7.5.3).
const PASSWORD: u32 = 1 << 13;

/// Annotations whose text is a note of a reader of the document.
const NOTES: [&[u8]; 9] = [
    b"Text",
    b"Highlight",
    b"Underline",
    b"Squiggly",
    b"StrikeOut",
    b"Caret",
    b"Square",
    b"Circle",
    b"Ink",
];

/// Adds the texts of a page's annotations that are not drawn. Viewers draw values of forms
/// themselves if the document has no appearance for them, and show notes beside the page.
///
/// Returns the notes, which have no place in the text of the page.
pub(super) fn add(page: &Page<'_>, transform: Affine, text: &mut PageText) -> Vec<String> {
    let mut notes = Vec::new();
    let Some(annotations) = page.raw().get::<Array<'_>>(b"Annots") else { return notes };
    for annotation in annotations.iter::<Dict<'_>>() {
        text.check();
        if annotation.get::<u32>(b"F").unwrap_or(0) & INVISIBLE != 0 {
            continue;
        }
        let Some(subtype) = annotation.get::<Name<'_>>(b"Subtype") else { continue };
        let Some(rect) = annotation.get::<Rect>(b"Rect") else { continue };
        let content = match subtype.as_ref() {
            b"Widget" => value(&annotation),
            b"FreeText" => contents(&annotation),
            other if NOTES.contains(&other) => {
                notes.extend(contents(&annotation).filter(|note| !note.trim().is_empty()));
                continue;
            }
            _ => continue,
        };
        if let Some(content) = content.filter(|content| !content.trim().is_empty()) {
            add_lines(&content, rect, transform, text);
        }
    }
    notes
}

fn contents(annotation: &Dict<'_>) -> Option<String> {
    Some(strings::text(annotation.get::<PdfString<'_>>(b"Contents")?.as_bytes()))
}

/// Returns the value of a field: a text, or the chosen items of a list.
fn value(widget: &Dict<'_>) -> Option<String> {
    let kind = field_with(widget, b"FT")?.get::<Name<'_>>(b"FT")?;
    let flags = field_with(widget, b"Ff").and_then(|field| field.get::<u32>(b"Ff")).unwrap_or(0);
    let value = field_with(widget, b"V")?.get::<Object<'_>>(b"V")?;
    match kind.as_ref() {
        b"Tx" if flags & PASSWORD == 0 => text_of(&value),
        b"Ch" => {
            let chosen: Vec<String> = match &value {
                Object::Array(chosen) => {
                    chosen.iter::<Object<'_>>().filter_map(|one| text_of(&one)).collect()
                }
                one => vec![text_of(one)?],
            };
            let shown = chosen.into_iter().map(|one| shown_option(widget, &one).unwrap_or(one));
            Some(shown.collect::<Vec<_>>().join("\n"))
        }
        _ => None,
    }
}

/// Returns the text that a list shows for a value.
fn shown_option(widget: &Dict<'_>, value: &str) -> Option<String> {
    let options = field_with(widget, b"Opt")?.get::<Array<'_>>(b"Opt")?;
    options.iter::<Array<'_>>().find_map(|pair| {
        let mut pair = pair.iter::<PdfString<'_>>();
        let exported = pair.next()?;
        let shown = pair.next()?;
        (strings::text(exported.as_bytes()) == value).then(|| strings::text(shown.as_bytes()))
    })
}

fn text_of(value: &Object<'_>) -> Option<String> {
    match value {
        Object::String(text) => Some(strings::text(text.as_bytes())),
        Object::Stream(text) => Some(strings::text(&text.decoded().ok()?)),
        _ => None,
    }
}

/// Returns the field that has an entry: this one, or one above it.
fn field_with<'a>(field: &Dict<'a>, key: &[u8]) -> Option<Dict<'a>> {
    /// Maximum depth of fields. A field may name itself as its parent.
    const DEPTH: usize = 16;
    let mut field = field.clone();
    for _ in 0..DEPTH {
        if field.contains_key(key) {
            return Some(field);
        }
        field = field.get::<Dict<'a>>(b"Parent")?;
    }
    None
}

/// Adds the lines of a text to the rectangle of an annotation, unless its appearance shows them.
fn add_lines(content: &str, rect: Rect, transform: Affine, text: &mut PageText) {
    /// The usual size of text in forms.
    const SIZE: f64 = 12.0;
    let one = transform * Point::new(rect.x0, rect.y0);
    let other = transform * Point::new(rect.x1, rect.y1);
    let low = Point::new(one.x.min(other.x), one.y.min(other.y));
    let high = Point::new(one.x.max(other.x), one.y.max(other.y));
    if !low.is_finite() || !high.is_finite() {
        return;
    }
    if text.shows(content, low, high) {
        text.move_to_line(low, high);
        return;
    }
    let lines: Vec<&str> = content.lines().map(str::trim).filter(|it| !it.is_empty()).collect();
    let height = ((high.y - low.y) / lines.len().max(1) as f64).max(1.0);
    let size = SIZE.min(height);
    for (number, line) in lines.into_iter().enumerate() {
        let base = low.y + height * (number as f64 + 0.5) + 0.35 * size;
        text.add_text(line, Point::new(low.x, base), Point::new(high.x, base), size);
    }
}
