//! Parses the blocks of a text in one scan from left to right.

use std::fmt;

use crate::{
    block::{Block, Element},
    markup::{StartTag, find_closing, find_opening},
};

/// Returns the blocks of a text in order. A text without blocks costs no allocation.
pub fn blocks(text: &str) -> Blocks<'_> {
    Blocks(Scanner::new(text))
}

/// Parses a text into its blocks, and the problems of tags that do not form complete blocks.
///
/// ```
/// let parsed = marquetry_context_blocks::parse(r#"A<mcp:context type="x">B</mcp:context>C <mcp:context>"#);
/// assert_eq!(parsed.blocks[0].body(), "B");
/// assert_eq!(parsed.problems[0].to_string(), "byte 40: <mcp:context> is not closed");
/// ```
pub fn parse(text: &str) -> Parsed<'_> {
    let mut parsed = Parsed::default();
    for found in Scanner::new(text) {
        match found {
            Ok(block) => parsed.blocks.push(block),
            Err(problem) if parsed.problems.len() < Parsed::MAX_PROBLEMS => {
                parsed.problems.push(problem);
            }
            Err(_) => {}
        }
    }
    parsed
}

/// The result of [`parse`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parsed<'a> {
    /// The blocks in the order of the text, without overlap.
    pub blocks: Vec<Block<'a>>,
    /// Tags that do not form complete blocks and stay text; at most [`Self::MAX_PROBLEMS`].
    pub problems: Vec<Problem>,
}

impl Parsed<'_> {
    /// Number of problems that are reported; further ones are dropped.
    pub const MAX_PROBLEMS: usize = 100;
}

/// Iterator over the blocks of a text; see [`blocks`].
#[derive(Clone, Debug)]
pub struct Blocks<'a>(Scanner<'a>);

impl<'a> Iterator for Blocks<'a> {
    type Item = Block<'a>;

    fn next(&mut self) -> Option<Block<'a>> {
        self.0.find_map(Result::ok)
    }
}

/// A tag that does not begin a complete block and stays text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// Position of the tag, in bytes.
    pub at: usize,
    /// The kind of problem.
    pub kind: ProblemKind,
}

/// The kind of a [`Problem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProblemKind {
    /// The start tag does not end, or another tag begins inside of it.
    MalformedTag(Element),
    /// There is no end tag.
    Unclosed(Element),
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ProblemKind::MalformedTag(element) => {
                write!(out, "byte {}: the tag <mcp:{} …> does not end", self.at, element.name())
            }
            ProblemKind::Unclosed(element) => {
                write!(out, "byte {}: <mcp:{}> is not closed", self.at, element.name())
            }
        }
    }
}

/// Iterator over the blocks of a text and its problems. The body of a block is not scanned.
#[derive(Clone, Debug)]
struct Scanner<'a> {
    text: &'a str,
    /// Where the search for the next tag begins.
    at: usize,
    /// For each [`Element`], whether the rest of the text is known to have no end tag of it. The
    /// rest is then not searched again, so that many unclosed blocks still cost one pass.
    unclosed: [bool; 2],
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, at: 0, unclosed: [false; 2] }
    }

    /// Reads the block whose tag begins at `start`; [`None`] for the tag of another element.
    fn read(&mut self, start: usize) -> Option<Result<Block<'a>, Problem>> {
        let text = self.text;
        self.at = start + 1;
        let Some(tag) = StartTag::read(text, start) else {
            let kind = ProblemKind::MalformedTag(element_at(&text[start + "<mcp:".len()..])?);
            return Some(Err(Problem { at: start, kind }));
        };
        let element = Element::from_name(tag.name)?;
        self.at = tag.end;
        let (body, end) = if tag.closed {
            ("", tag.end)
        } else {
            let unclosed = &mut self.unclosed[element as usize];
            let closing =
                if *unclosed { None } else { find_closing(text, tag.end, element.name()) };
            let Some((body_end, end)) = closing else {
                *unclosed = true;
                return Some(Err(Problem { at: start, kind: ProblemKind::Unclosed(element) }));
            };
            (text[tag.end..body_end].trim(), end)
        };
        self.at = end;
        Some(Ok(Block { element, attributes: tag.attributes, body, raw: &text[start..end], start }))
    }
}

impl<'a> Iterator for Scanner<'a> {
    type Item = Result<Block<'a>, Problem>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(start) = find_opening(self.text, self.at) {
            if let Some(found) = self.read(start) {
                return Some(found);
            }
        }
        self.at = self.text.len();
        None
    }
}

/// Returns the element whose name a text begins with.
fn element_at(text: &str) -> Option<Element> {
    [Element::Context, Element::Resource].into_iter().find(|element| {
        let name = element.name();
        text.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name))
    })
}
