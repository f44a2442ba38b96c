//! The automatic numbers of paragraphs (ECMA-376 part 1, 17.9).

use std::collections::{HashMap, HashSet};

use marquetry_office_values::Numerals;
use quick_xml::events::{BytesStart, Event};

use super::{FORMAT, styles::Styles};
use crate::{
    ExtractError,
    package::{attribute, each_event},
};

/// Number of levels of a list.
const LEVELS: usize = 9;

/// The lists of a document, and how far each is counted.
#[derive(Default)]
pub(super) struct Numbering {
    definitions: HashMap<String, Definition>,
    lists: HashMap<String, List>,
    /// The last numbers by definition and level; `None` before the first one.
    counts: HashMap<String, [Option<u32>; LEVELS]>,
    /// The lists that have begun to count at their own start.
    started: HashSet<(String, usize)>,
}

/// A definition of levels, which several lists may use and continue (`abstractNum`).
#[derive(Default)]
struct Definition {
    levels: [Level; LEVELS],
    /// The style that defines the levels instead.
    style: Option<String>,
}

#[derive(Clone, Default)]
struct Level {
    format: String,
    text: String,
    start: u32,
    /// The style of the paragraphs at this level.
    style: Option<String>,
}

/// A list (`num`).
#[derive(Default)]
struct List {
    definition: String,
    starts: HashMap<usize, u32>,
    levels: HashMap<usize, Level>,
}

/// The mark before a paragraph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Label {
    Bullet,
    Number(String),
}

impl Numbering {
    pub(super) fn read(part: &str, xml: &[u8]) -> Result<Self, ExtractError> {
        let mut reader = NumberingReader::default();
        each_event(FORMAT, part, xml, |event| {
            match event {
                Event::Start(element) => reader.start(&element),
                Event::Empty(element) => {
                    reader.start(&element);
                    reader.end(element.local_name().as_ref());
                }
                Event::End(element) => reader.end(element.local_name().as_ref()),
                _ => {}
            }
            Ok(())
        })?;
        Ok(reader.numbering)
    }

    /// Counts a paragraph of a list; returns its mark. The list 0 is none.
    pub(super) fn next(
        &mut self,
        styles: &Styles,
        list: &str,
        level: Option<usize>,
        style: &str,
    ) -> Option<Label> {
        if list == "0" {
            return None;
        }
        // A list without a definition is one of bullets.
        let Some(found) = self.lists.get(list) else { return Some(Label::Bullet) };
        let id = self.definition_of(found, styles);
        let Some(definition) = self.definitions.get(id) else { return Some(Label::Bullet) };
        let of_style = definition.levels.iter().position(|it| it.style.as_deref() == Some(style));
        let level = level.or(of_style).unwrap_or_default().min(LEVELS - 1);
        let levels: Vec<Level> = (0..LEVELS)
            .map(|at| found.levels.get(&at).unwrap_or(&definition.levels[at]).clone())
            .collect();
        let own_start = found.starts.get(&level).copied();
        let counts = self.counts.entry(id.to_owned()).or_default();
        match own_start {
            Some(start) if self.started.insert((list.to_owned(), level)) => {
                counts[level] = Some(start);
            }
            _ => counts[level] = Some(counts[level].map_or(levels[level].start, |it| it + 1)),
        }
        counts[level + 1..].fill(None);
        match levels[level].format.as_str() {
            "bullet" => Some(Label::Bullet),
            _ => Some(Label::Number(label(&levels, level, counts))).filter(|it| !it.is_blank()),
        }
    }

    /// Returns the id of a list's definition, which may be that of a style's list.
    fn definition_of<'a>(&'a self, list: &'a List, styles: &'a Styles) -> &'a str {
        let style = self.definitions.get(&list.definition).and_then(|it| it.style.as_deref());
        let of_style = style.and_then(|style| self.lists.get(styles.list(style)?.0));
        &of_style.unwrap_or(list).definition
    }
}

impl Label {
    fn is_blank(&self) -> bool {
        matches!(self, Self::Number(text) if text.trim().is_empty())
    }
}

/// Writes the text of a level, in which `%2` is the number of the second level.
fn label(levels: &[Level], level: usize, counts: &[Option<u32>; LEVELS]) -> String {
    let mut label = String::new();
    let mut characters = levels[level].text.chars().peekable();
    while let Some(character) = characters.next() {
        let digit = characters.peek().filter(|_| character == '%').and_then(|it| it.to_digit(10));
        let Some(digit @ 1..=9) = digit else {
            label.push(character);
            continue;
        };
        characters.next();
        let at = digit as usize - 1;
        let number = counts[at].unwrap_or(levels[at].start);
        label.push_str(&written(&levels[at].format, number));
    }
    label
}

/// Writes a number in a format (ECMA-376 part 1, 17.18.59).
fn written(format: &str, number: u32) -> String {
    let numerals = match format {
        "none" => return String::new(),
        "upperLetter" => Numerals::UpperLetter,
        "lowerLetter" => Numerals::LowerLetter,
        "upperRoman" => Numerals::UpperRoman,
        "lowerRoman" => Numerals::LowerRoman,
        "decimalZero" => Numerals::DecimalZero,
        "chineseCounting"
        | "chineseCountingThousand"
        | "ideographTraditional"
        | "japaneseCounting"
        | "koreanCounting"
        | "taiwaneseCounting"
        | "taiwaneseCountingThousand" => Numerals::Ideographs,
        _ => Numerals::Decimal,
    };
    numerals.write(number)
}

#[derive(Default)]
struct NumberingReader {
    numbering: Numbering,
    /// The open definition, list and level.
    definition: Option<String>,
    list: Option<String>,
    level: Option<usize>,
}

impl NumberingReader {
    fn start(&mut self, element: &BytesStart<'_>) {
        let value = attribute(element, "val");
        match element.local_name().as_ref() {
            "abstractNum" => {
                let id = attribute(element, "abstractNumId").unwrap_or_default();
                self.numbering.definitions.insert(id.clone(), Definition::default());
                self.definition = Some(id);
            }
            "num" => {
                let id = attribute(element, "numId").unwrap_or_default();
                self.numbering.lists.insert(id.clone(), List::default());
                self.list = Some(id);
            }
            "lvl" | "lvlOverride" => {
                let level = attribute(element, "ilvl").and_then(|level| level.parse().ok());
                self.level = level.filter(|level| *level < LEVELS);
            }
            "abstractNumId" => {
                if let Some(list) = self.open_list() {
                    list.definition = value.unwrap_or_default();
                }
            }
            "numStyleLink" => {
                let id = self.definition.as_ref();
                if let Some(open) = id.and_then(|id| self.numbering.definitions.get_mut(id)) {
                    open.style = value;
                }
            }
            "startOverride" => {
                let level = self.level;
                let start = value.and_then(|start| start.parse().ok());
                if let Some(list) = self.open_list() {
                    list.starts.extend(level.zip(start));
                }
            }
            "numFmt" => self.set(|level| level.format = value.unwrap_or_default()),
            "lvlText" => self.set(|level| level.text = value.unwrap_or_default()),
            "pStyle" => self.set(|level| level.style = value),
            "start" => self.set(|level| {
                level.start = value.and_then(|start| start.parse().ok()).unwrap_or_default();
            }),
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "abstractNum" => self.definition = None,
            "num" => self.list = None,
            "lvlOverride" => self.level = None,
            _ => {}
        }
    }

    fn open_list(&mut self) -> Option<&mut List> {
        self.numbering.lists.get_mut(self.list.as_ref()?)
    }

    /// Changes the open level.
    fn set(&mut self, change: impl FnOnce(&mut Level)) {
        let Some(level) = self.level else { return };
        if let Some(id) = &self.definition {
            if let Some(definition) = self.numbering.definitions.get_mut(id) {
                change(&mut definition.levels[level]);
            }
        } else if let Some(list) = self.open_list() {
            change(list.levels.entry(level).or_default());
        }
    }
}
