//! Styles, which inherit from each other (ECMA-376 part 1, 17.7).

use std::collections::HashMap;

use quick_xml::events::Event;

use super::{FORMAT, is_on, outline_level};
use crate::{
    ExtractError,
    package::{attribute, each_event},
};

/// The styles of a document, by their ids.
#[derive(Default)]
pub(super) struct Styles(HashMap<String, Style>);

#[derive(Default)]
struct Style {
    based_on: Option<String>,
    /// Level of a heading by the name of the style. Word translates the ids of styles, but not
    /// their names.
    named_level: Option<u8>,
    /// Level that the style sets; `Some(None)` for body text.
    level: Option<Option<u8>>,
    is_hidden: Option<bool>,
    list: Option<String>,
    list_level: Option<usize>,
}

/// Longest chain of styles that is followed; chains may be circles.
const MAX_CHAIN: usize = 32;

impl Styles {
    pub(super) fn read(part: &str, xml: &[u8]) -> Result<Self, ExtractError> {
        let mut styles = HashMap::new();
        let mut id = String::new();
        each_event(FORMAT, part, xml, |event| {
            let (Event::Start(element) | Event::Empty(element)) = event else { return Ok(()) };
            let value = attribute(&element, "val");
            let name = element.local_name();
            if name.as_ref() == "style" {
                id = attribute(&element, "styleId").unwrap_or_default();
                styles.insert(id.clone(), Style::default());
                return Ok(());
            }
            let Some(style) = styles.get_mut(&id) else { return Ok(()) };
            match name.as_ref() {
                "name" => style.named_level = named_level(&value.unwrap_or_default()),
                "basedOn" => style.based_on = value,
                "outlineLvl" => style.level = Some(outline_level(value)),
                "vanish" => style.is_hidden = Some(is_on(value.as_deref())),
                "numId" => style.list = value,
                "ilvl" => style.list_level = value.and_then(|level| level.parse().ok()),
                _ => {}
            }
            Ok(())
        })?;
        Ok(Self(styles))
    }

    /// Returns the level of headings of a style.
    pub(super) fn level(&self, id: &str) -> Option<u8> {
        if !self.0.contains_key(id) {
            // Some programs refer to the built-in styles without writing them.
            return named_level(&id.to_ascii_lowercase().replace("heading", "heading "));
        }
        self.chain(id).find_map(|style| style.level.or(style.named_level.map(Some))).flatten()
    }

    /// Returns whether a style hides its text.
    pub(super) fn is_hidden(&self, id: &str) -> bool {
        self.chain(id).find_map(|style| style.is_hidden).unwrap_or_default()
    }

    /// Returns the list of a style's paragraphs, and their level in it.
    pub(super) fn list(&self, id: &str) -> Option<(&str, Option<usize>)> {
        let list = self.chain(id).find_map(|style| style.list.as_deref())?;
        Some((list, self.chain(id).find_map(|style| style.list_level)))
    }

    /// Returns a style and those on which it is based, the nearest first.
    fn chain(&self, id: &str) -> impl Iterator<Item = &Style> {
        std::iter::successors(self.0.get(id), |style| self.0.get(style.based_on.as_ref()?))
            .take(MAX_CHAIN)
    }
}

/// Returns the level of headings of a built-in style.
fn named_level(name: &str) -> Option<u8> {
    let name = name.to_ascii_lowercase();
    match name.strip_prefix("heading ") {
        Some(level) => level.trim().parse().ok().filter(|level| (1..=9).contains(level)),
        None => (name == "title").then_some(1),
    }
}
