use std::ops::Range;

/// Shortest run of characters that is found, unless a `data:` URI declares it.
const LONG: usize = 256;
/// Shortest run that is found if a `data:` URI declares it.
const DECLARED: usize = 64;
/// Lengths of the lines of encoded data (RFC 2045, 6.8; RFC 7468, 2), and of those that were broken
/// once more.
const LINE: std::ops::RangeInclusive<usize> = 56..=80;
/// Number of lines that are found.
const LINES: usize = 4;

/// Returns the passages of a text that are data in base64, such as images in Markdown, certificates
/// and attachments: long runs, blocks of lines of one length, and what a `data:` URI declares.
pub fn encoded_passages(text: &str) -> Vec<Range<usize>> {
    let mut passages = Vec::new();
    let mut block = Block::default();
    for run in runs(text) {
        let is_declared = text[..run.start].ends_with(";base64,") && run.len() >= DECLARED;
        if is_declared || (run.len() >= LONG && is_mixed(&text[run.clone()])) {
            block.end(text, &mut passages);
            // The lines of a declared run may be broken.
            let is_complete = !LINE.contains(&run.len());
            block = Block { lines: LINES, is_complete, ..Block::of(run) };
        } else if block.goes_on(text, &run) {
            block.add(run);
        } else {
            block.end(text, &mut passages);
            block = if LINE.contains(&run.len()) { Block::of(run) } else { Block::default() };
        }
    }
    block.end(text, &mut passages);
    passages
}

/// Lines of encoded data.
#[derive(Default)]
struct Block {
    span: Range<usize>,
    lines: usize,
    /// Length of each line but the last one.
    length: usize,
    is_complete: bool,
}

impl Block {
    fn of(run: Range<usize>) -> Self {
        Self { length: run.len(), span: run, lines: 1, is_complete: false }
    }

    /// Returns whether a run is the next line.
    fn goes_on(&self, text: &str, run: &Range<usize>) -> bool {
        // A line may be indented or quoted, and HTML has a space for a line break.
        const BETWEEN: [&str; 6] = ["\n", "\r\n", " ", "\n ", "\r\n ", "\n> "];
        self.lines > 0
            && !self.is_complete
            && run.len() <= self.length
            && BETWEEN.contains(&&text[self.span.end..run.start])
            && (run.len() == self.length || (self.lines + 1 >= LINES && is_last_line(text, run)))
    }

    fn add(&mut self, run: Range<usize>) {
        self.is_complete = run.len() < self.length;
        self.span.end = run.end;
        self.lines += 1;
    }

    fn end(&mut self, text: &str, passages: &mut Vec<Range<usize>>) {
        let Self { span, lines, .. } = std::mem::take(self);
        let is_declared = text[..span.start].ends_with(";base64,");
        if lines >= LINES && (is_declared || is_mixed(&text[span.clone()])) {
            passages.push(span);
        }
    }
}

/// Returns whether a short run is the last line of a block, and not a word.
fn is_last_line(text: &str, run: &Range<usize>) -> bool {
    let run = &text[run.clone()];
    run.ends_with('=') || (run.len().is_multiple_of(4) && is_mixed(run))
}

/// Returns the runs of characters of base64 and base64url, with their padding.
fn runs(text: &str) -> impl Iterator<Item = Range<usize>> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        at += bytes[at..].iter().position(|byte| is_base64(*byte))?;
        let start = at;
        let digits = bytes[at..].iter().take_while(|byte| is_base64(**byte)).count();
        at += digits;
        at += bytes[at..].iter().take(2).take_while(|byte| **byte == b'=').count();
        Some(start..at)
    })
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

/// Returns whether a run has the letters and digits of encoded data, unlike a long name, a path, a
/// hexadecimal number or a sequence of bases.
fn is_mixed(run: &str) -> bool {
    let bytes = &run.as_bytes()[..run.len().min(4096)];
    let upper = bytes.iter().filter(|byte| byte.is_ascii_uppercase()).count();
    let lower = bytes.iter().filter(|byte| byte.is_ascii_lowercase()).count();
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
    let others = bytes.len() - upper - lower - digits;
    upper * 8 >= bytes.len()
        && lower * 8 >= bytes.len()
        && digits * 50 >= bytes.len()
        && others * 8 <= bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declared_run_is_found_and_words_are_not() {
        let text = format!("a ![x](data:a/b;base64,{}) b", "A".repeat(80));
        let found = encoded_passages(&text);
        assert_eq!(found.len(), 1);
        assert_eq!(&text[found[0].clone()], "A".repeat(80));
        assert!(encoded_passages(&"averylongwordwithoutspaces".repeat(20)).is_empty());
    }
}
