//! The automatic numbers of items and headings (OpenDocument 1.3 part 3, 16.30 to 16.34).

use std::collections::HashMap;

use marquetry_office_values::Numerals;
use quick_xml::events::BytesStart;

use crate::package::attribute;

/// Number of levels of a list.
const LEVELS: usize = 10;

/// Counts the items of lists, and the headings.
#[derive(Default)]
pub(super) struct Lists {
    styles: HashMap<String, [Level; LEVELS]>,
    /// The levels of headings.
    outline: [Level; LEVELS],
    /// The list style that is being read; the outline has no name.
    style: Option<String>,
    /// The open lists, outermost first.
    open: Vec<List>,
    /// The last numbers of ended lists, by style.
    ended: HashMap<String, u32>,
    headings: [u32; LEVELS],
}

/// How a level of a list style is numbered.
#[derive(Clone, Default)]
struct Level {
    /// `None` for a bullet, or for no mark.
    numerals: Option<Numerals>,
    prefix: String,
    suffix: String,
    start: u32,
    /// Number of levels in the number.
    shown: usize,
}

struct List {
    style: String,
    /// Number of the last item; `None` before the first one.
    last: Option<u32>,
}

impl Lists {
    /// Reads an element of the styles.
    pub(super) fn style(&mut self, element: &BytesStart<'_>) {
        match element.local_name().as_ref() {
            "list-style" => self.style = attribute(element, "name"),
            "outline-style" => self.style = None,
            "list-level-style-number" | "outline-level-style" => {
                let Some(number) = level_of(element, "level") else { return };
                let levels = match &self.style {
                    Some(style) => self.styles.entry(style.clone()).or_default(),
                    None => &mut self.outline,
                };
                levels[number] = Level::read(element);
            }
            _ => {}
        }
    }

    pub(super) fn start_list(&mut self, element: &BytesStart<'_>) {
        let outer = self.open.last().map(|list| list.style.clone());
        let style = attribute(element, "style-name").or(outer).unwrap_or_default();
        let goes_on = attribute(element, "continue-numbering").as_deref() == Some("true")
            || attribute(element, "continue-list").is_some();
        let last = self.ended.get(&style).copied().filter(|_| goes_on && self.open.is_empty());
        self.open.push(List { style, last });
    }

    pub(super) fn end_list(&mut self) {
        let Some(List { style, last: Some(last) }) = self.open.pop() else { return };
        if self.open.is_empty() {
            self.ended.insert(style, last);
        }
    }

    /// Begins an item; returns its mark.
    pub(super) fn start_item(&mut self, element: &BytesStart<'_>) -> String {
        let depth = self.open.len().clamp(1, LEVELS) - 1;
        let Some(list) = self.open.last_mut() else { return "- ".to_owned() };
        let levels = self.styles.get(&list.style);
        let level = levels.map(|levels| &levels[depth]);
        let set = attribute(element, "start-value").and_then(|start| start.parse().ok());
        let next = list.last.map(|last: u32| last.saturating_add(1));
        let start = level.map_or(1, |level| level.start);
        list.last = Some(set.or(next).unwrap_or(start));
        let numbers: Vec<u32> = self.open.iter().map(|it| it.last.unwrap_or(1)).collect();
        let label = levels.and_then(|levels| label(levels, depth, &numbers));
        label.unwrap_or_else(|| "- ".to_owned())
    }

    /// Begins a heading outside of lists; returns its number, if there is one.
    pub(super) fn start_heading(&mut self, level: u8) -> Option<String> {
        let depth = usize::from(level).clamp(1, LEVELS) - 1;
        let start = self.outline[depth].start;
        let number = &mut self.headings[depth];
        *number = if *number == 0 { start.max(1) } else { number.saturating_add(1) };
        self.headings[depth + 1..].fill(0);
        label(&self.outline, depth, &self.headings)
    }
}

impl Level {
    fn read(element: &BytesStart<'_>) -> Self {
        let numerals = match attribute(element, "num-format").as_deref() {
            None | Some("") => None,
            Some("A") => Some(Numerals::UpperLetter),
            Some("a") => Some(Numerals::LowerLetter),
            Some("I") => Some(Numerals::UpperRoman),
            Some("i") => Some(Numerals::LowerRoman),
            Some(format) if format.starts_with(['一', '壹']) => Some(Numerals::Ideographs),
            Some(_) => Some(Numerals::Decimal),
        };
        Self {
            numerals,
            prefix: attribute(element, "num-prefix").unwrap_or_default(),
            suffix: attribute(element, "num-suffix").unwrap_or_default(),
            start: attribute(element, "start-value")
                .and_then(|start| start.parse().ok())
                .unwrap_or(1),
            shown: attribute(element, "display-levels")
                .and_then(|levels| levels.parse().ok())
                .unwrap_or(1),
        }
    }
}

/// Returns the level in an attribute, which is counted from 1, counted from 0.
fn level_of(element: &BytesStart<'_>, name: &str) -> Option<usize> {
    let level = attribute(element, name)?.parse::<usize>().ok()?.checked_sub(1)?;
    (level < LEVELS).then_some(level)
}

/// Writes the number of a level, with those of the levels around it that it shows.
fn label(levels: &[Level; LEVELS], depth: usize, numbers: &[u32]) -> Option<String> {
    let level = &levels[depth];
    level.numerals?;
    let first = (depth + 1).saturating_sub(level.shown.max(1));
    let numbers: Vec<String> = (first..=depth)
        .filter_map(|at| Some(levels[at].numerals?.write(numbers.get(at).copied()?.max(1))))
        .collect();
    Some(format!("{}{}{} ", level.prefix, numbers.join("."), level.suffix))
}
