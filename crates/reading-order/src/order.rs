//! Brings the lines of a page into reading order.
//!
//! Most programs draw a page in the order in which it is read. That order is kept, because it also
//! tells the cells of a table apart. It is changed where it cannot be right: where the lines of
//! columns are drawn row by row, or where a page is drawn upwards.

use crate::{
    bidi::{Drawn, is_mostly_right_to_left, logical},
    characters::without_kashidas,
    columns::{columns, downwards},
    hyphens::{is_hyphen, without_hyphens},
    lines::Line,
};

/// Returns the text of the lines of a page, in the order in which they were drawn.
pub(crate) fn text(lines: Vec<Line>) -> String {
    let count = lines.iter().map(|line| line.direction + 1).max().unwrap_or(0);
    let mut of_directions: Vec<Vec<Line>> = vec![Vec::new(); count];
    for line in lines {
        of_directions[line.direction].push(line);
    }
    let texts: Vec<String> = of_directions.into_iter().map(text_of_direction).collect();
    let texts: Vec<&str> =
        texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty()).collect();
    texts.join("\n\n")
}

fn text_of_direction(lines: Vec<Line>) -> String {
    let drawn = Drawn::of(&lines);
    let is_right_to_left = is_mostly_right_to_left(lines.iter().flat_map(Line::characters));
    let order = downwards(&lines, columns(&lines, (0..lines.len()).collect(), is_right_to_left));
    let mut lines: Vec<Option<Line>> = lines.into_iter().map(Some).collect();
    let mut rows: Vec<Line> = Vec::new();
    for index in order {
        let Some(line) = lines[index].take() else { continue };
        match rows.last_mut() {
            Some(row) if row.is_beside(&line) => row.join(line),
            _ => rows.push(line),
        }
    }
    let mut text = String::new();
    let mut last: Option<&Line> = None;
    for row in &rows {
        let content = logical(row, drawn, is_right_to_left);
        let content = content.trim();
        if content.is_empty() {
            continue;
        }
        if let Some(last) = last {
            text.push_str(between(last, row, &text, content));
        }
        text.push_str(content);
        last = Some(row);
    }
    without_kashidas(without_hyphens(&text))
}

/// Returns the separator between two lines: the end of a line or of a paragraph.
fn between(last: &Line, next: &Line, before: &str, after: &str) -> &'static str {
    let down = next.base - last.base;
    let is_next_line = down > 0.0 && down < 1.9 * last.size.max(next.size);
    // A sentence goes on at the top of the next column.
    let is_next_column = down < 0.0
        && !last.overlaps(next)
        && after.starts_with(char::is_lowercase)
        && before.ends_with(|end: char| end.is_alphabetic() || is_hyphen(end) || end == ',');
    if is_next_line || is_next_column { "\n" } else { "\n\n" }
}
