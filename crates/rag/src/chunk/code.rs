//! Finds the blocks of source code: functions, classes, groups of declarations.
//!
//! Most languages separate functions by blank lines, and indent the contents of a block. So a block
//! begins at the first line after a blank line that is indented no further than the blocks around
//! it. A block that is too long is divided at its own inner blocks.

use std::ops::Range;

use super::{ChunkError, cutter::Cutter};

/// Maximum number of bytes of several blocks in one chunk. Small declarations share a chunk; a
/// function usually has its own.
const JOINED: usize = 1 << 10;
/// Longest block in bytes that is not divided; about a hundred lines.
const LONGEST_BLOCK: usize = 4 << 10;
/// Longest block, in bytes, in which inner blocks are searched; a longer one is divided at any line
/// end.
const LONGEST_LOOK: usize = 256 << 10;
/// Deepest nesting at which blocks are divided. Deeper blocks are divided by lines.
const MAX_DEPTH: usize = 8;

/// A line that is not blank.
struct Line {
    span: Range<usize>,
    indent: usize,
    /// Whether a blank line precedes it.
    is_apart: bool,
    kind: Kind,
    tokens: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Closes a block that an earlier line opened: `}`, `end`.
    Closing,
    /// Continues a block that an earlier line began: `else`, `catch`.
    Continuing,
    /// Describes the lines below it: comments, attributes.
    Leading,
    Other,
}

/// Passes the blocks of a part of a program to the cutter.
pub(super) fn push_blocks<F: Fn(&str) -> usize>(
    text: &str,
    part: Range<usize>,
    cutter: &mut Cutter<'_, F>,
) -> Result<(), ChunkError> {
    cutter.join_up_to(JOINED);
    let mut block: Vec<Line> = Vec::new();
    let mut is_apart = false;
    let mut start = part.start;
    for line in text[part].split_inclusive('\n') {
        let span = start..start + line.trim_end().len();
        start += line.len();
        if span.is_empty() {
            is_apart = true;
            continue;
        }
        let tokens = cutter.tokens_of_line(span.clone())?;
        let line = Line::new(text, span, std::mem::take(&mut is_apart), tokens);
        let is_long =
            block.first().is_some_and(|first| line.span.end - first.span.start > LONGEST_LOOK);
        if is_long || block.last().is_some_and(|last| begins(&line, last, 0)) {
            push(&std::mem::take(&mut block), 0, cutter)?;
        }
        block.push(line);
    }
    push(&block, 0, cutter)
}

/// Passes a block to the cutter; if the block is too long, passes its inner blocks.
fn push<F: Fn(&str) -> usize>(
    block: &[Line],
    depth: usize,
    cutter: &mut Cutter<'_, F>,
) -> Result<(), ChunkError> {
    let (Some(first), Some(last)) = (block.first(), block.last()) else { return Ok(()) };
    let span = first.span.start..last.span.end;
    let tokens = block.iter().map(|line| line.tokens).fold(0, usize::saturating_add);
    if span.len() <= LONGEST_BLOCK && cutter.fits(span.len(), tokens) {
        return cutter.push_block(span);
    }
    // The first and last lines of a block are not inner blocks.
    let outer = block.iter().map(|line| line.indent).min().unwrap_or(0);
    let inner = block.iter().map(|line| line.indent).filter(|indent| *indent > outer).min();
    let Some(inner) = inner.filter(|_| depth < MAX_DEPTH) else {
        return push_lines(block, cutter);
    };
    let mut from = 0;
    for at in 1..block.len() {
        if begins(&block[at], &block[at - 1], inner) {
            push(&block[from..at], depth + 1, cutter)?;
            from = at;
        }
    }
    match from {
        // There are no inner blocks.
        0 => push_lines(block, cutter),
        _ => push(&block[from..], depth + 1, cutter),
    }
}

/// Passes lines in groups, each with as many lines as fit. Groups end at blank lines if possible.
fn push_lines<F: Fn(&str) -> usize>(
    block: &[Line],
    cutter: &mut Cutter<'_, F>,
) -> Result<(), ChunkError> {
    let mut rest = block;
    while let Some(first) = rest.first() {
        let mut tokens = 0_usize;
        let fitting = rest.iter().take_while(|line| {
            tokens = tokens.saturating_add(line.tokens);
            let bytes = line.span.end - first.span.start;
            bytes <= LONGEST_BLOCK && cutter.fits(bytes, tokens)
        });
        let max = fitting.count().max(1);
        let apart = (max / 2..max).rev().find(|&at| at > 0 && rest[at].is_apart);
        let count = if max == rest.len() { max } else { apart.unwrap_or(max) };
        cutter.push_block(first.span.start..rest[count - 1].span.end)?;
        rest = &rest[count..];
    }
    Ok(())
}

/// Returns whether a block begins at a line, given the line before and the indentation of the
/// blocks.
fn begins(line: &Line, before: &Line, indent: usize) -> bool {
    if line.indent > indent || matches!(line.kind, Kind::Closing | Kind::Continuing) {
        return false;
    }
    // A comment stays with the lines below it, even across a blank line.
    let is_led = before.kind == Kind::Leading && before.indent <= indent;
    let is_closed = before.kind == Kind::Closing && before.indent <= indent;
    (line.is_apart && !is_led) || is_closed
}

impl Line {
    fn new(text: &str, span: Range<usize>, is_apart: bool, tokens: usize) -> Self {
        const TAB: usize = 4;
        let line = &text[span.clone()];
        let content = line.trim_start();
        let space = &line[..line.len() - content.len()];
        let indent = space.chars().map(|one| if one == '\t' { TAB } else { 1 }).sum();
        Self {
            span: span.start + space.len()..span.end,
            indent,
            is_apart,
            kind: kind(content),
            tokens,
        }
    }
}

fn kind(line: &str) -> Kind {
    let word = line.split(|one: char| !one.is_alphanumeric()).next().unwrap_or_default();
    let leads = ["//", "/*", "*", "#", "--", ";;", "@"];
    if line.starts_with(['}', ')', ']']) || matches!(word, "end" | "fi" | "done" | "esac") {
        Kind::Closing
    } else if matches!(word, "else" | "elif" | "elseif" | "catch" | "except" | "finally" | "rescue")
    {
        Kind::Continuing
    } else if leads.iter().any(|lead| line.starts_with(lead)) {
        Kind::Leading
    } else {
        Kind::Other
    }
}
