//! The styles of paragraphs, of which some are headings.

use std::collections::HashMap;

/// The style sheet.
#[derive(Default)]
pub(super) struct Styles {
    styles: HashMap<i64, Style>,
    /// Number of the style that is being read.
    open: i64,
}

#[derive(Default)]
struct Style {
    name: String,
    /// Outline level, from 0; 9 is body text.
    outline: Option<i64>,
    based_on: Option<i64>,
}

impl Styles {
    /// Begins a style.
    pub(super) fn start(&mut self, number: Option<i64>) {
        self.open = number.unwrap_or_default();
        self.styles.insert(self.open, Style::default());
    }

    pub(super) fn set_outline(&mut self, level: Option<i64>) {
        self.styles.entry(self.open).or_default().outline = level;
    }

    pub(super) fn set_based_on(&mut self, number: Option<i64>) {
        self.styles.entry(self.open).or_default().based_on = number;
    }

    pub(super) fn push_name(&mut self, text: &str) {
        /// Longest name that matters.
        const MAX_NAME: usize = 64;
        let style = self.styles.entry(self.open).or_default();
        if style.name.len() < MAX_NAME {
            style.name.push_str(text.trim_end_matches(';'));
        }
    }

    /// Returns the level of the headings of a style.
    pub(super) fn level(&self, number: i64) -> Option<u8> {
        /// Longest chain of styles that is followed; chains may be circles.
        const MAX_CHAIN: usize = 32;
        let outline = std::iter::successors(self.styles.get(&number), |style| {
            self.styles.get(&style.based_on?)
        })
        .take(MAX_CHAIN)
        .find_map(Style::outline)?;
        level(Some(outline))
    }
}

impl Style {
    fn outline(&self) -> Option<i64> {
        let name = self.name.trim().to_ascii_lowercase();
        let of_name = match name.strip_prefix("heading ") {
            Some(number) => number.parse::<i64>().ok().map(|number| number - 1),
            None => (name == "title").then_some(0),
        };
        self.outline.or(of_name)
    }
}

/// Returns the level of headings for an outline level.
pub(super) fn level(outline: Option<i64>) -> Option<u8> {
    let level = outline.and_then(|outline| u8::try_from(outline).ok());
    level.filter(|level| *level < 9).map(|level| level + 1)
}
