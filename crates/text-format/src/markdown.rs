//! Detects Markdown by the events of its parser.

use pulldown_cmark::{Event, HeadingLevel, LinkType, Options, Parser, Tag, TagEnd};

/// Parser events that are examined.
const MAX_EVENTS: usize = 20_000;
/// Points from which a text counts as Markdown: one strong signal (a link, table or fence), or at
/// least two weaker ones.
const LIKELY: u32 = 4;

/// Signals of Markdown in a text.
#[derive(Debug, Default)]
pub(super) struct Score {
    points: u32,
    /// A signal that other formats do not have by accident.
    has_sure_sign: bool,
}

impl Score {
    pub(super) fn is_likely(&self) -> bool {
        self.points >= LIKELY
    }

    /// Returns whether the text is likely Markdown, and not YAML with comments and lists.
    pub(super) fn is_certain(&self) -> bool {
        self.is_likely() && self.has_sure_sign
    }

    /// Returns the confidence in per cent.
    pub(super) fn confidence(&self) -> u8 {
        if self.points >= 2 * LIKELY { 95 } else { 75 }
    }
}

/// Scores a text. Each kind of signal counts once, however often it occurs.
pub(super) fn judge(text: &str) -> Score {
    let (front_matter, text) = without_front_matter(text);
    if text.starts_with("#!") || is_program(text) {
        return Score::default();
    }
    let mut found = Signs::default();
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    for (event, range) in Parser::new_ext(text, options).into_offset_iter().take(MAX_EVENTS) {
        found.see(&event, text, range);
    }
    let mut score = found.score();
    if front_matter && score.points > 0 {
        score = Score { points: score.points + LIKELY, has_sure_sign: true };
    }
    score
}

#[derive(Default)]
struct Signs {
    title: bool,
    /// Headings follow each other line by line: they are probably comments of a program.
    headings_look_like_comments: bool,
    heading: Option<HeadingLevel>,
    heading_apart: bool,
    levels: bool,
    underlined: bool,
    underlined_level: Option<HeadingLevel>,
    items: u32,
    /// Number of items of each open list.
    open: Vec<u32>,
    quote: bool,
    rule: bool,
    fence: bool,
    table: bool,
    link: bool,
    strong: bool,
    emphasis: bool,
    code: bool,
    strikethrough: bool,
    task: bool,
}

impl Signs {
    fn see(&mut self, event: &Event<'_>, text: &str, range: std::ops::Range<usize>) {
        match event {
            Event::Start(Tag::Heading { level, .. }) => self.see_heading(*level, text, range),
            Event::Start(Tag::List(_)) => self.open.push(0),
            Event::End(TagEnd::List(_)) => {
                self.open.pop();
            }
            Event::Start(Tag::Item) => {
                if let Some(items) = self.open.last_mut() {
                    *items += 1;
                    self.items = self.items.max(*items);
                }
            }
            Event::Start(Tag::BlockQuote(_)) => self.quote = true,
            Event::Rule => self.rule = true,
            Event::Start(Tag::CodeBlock(pulldown_cmark::CodeBlockKind::Fenced(_))) => {
                let fence = &text[range];
                self.fence |= fence.trim_end().ends_with(['`', '~']) && fence.lines().count() > 1;
            }
            Event::Start(Tag::Table(_)) => self.table = true,
            Event::Start(Tag::Link { link_type, dest_url, .. }) => {
                self.link |= !matches!(link_type, LinkType::Autolink | LinkType::Email)
                    && !dest_url.is_empty();
            }
            Event::Start(Tag::Image { dest_url, .. }) => self.link |= !dest_url.is_empty(),
            Event::Start(Tag::Strong) => self.strong = true,
            Event::Start(Tag::Emphasis) => self.emphasis = true,
            Event::Start(Tag::Strikethrough) => self.strikethrough = true,
            Event::Code(_) => self.code = true,
            Event::TaskListMarker(_) => self.task = true,
            _ => {}
        }
    }

    fn see_heading(&mut self, level: HeadingLevel, text: &str, range: std::ops::Range<usize>) {
        let source = text[range.clone()].trim_start();
        if !source.starts_with('#') {
            // One line of words with a line of dashes or equals signs below. More lines are rather
            // a plain table or a log.
            self.underlined |= source.lines().count() == 2;
            self.levels |= self.underlined_level.is_some_and(|other| other != level);
            self.underlined_level = Some(level);
            return;
        }
        let below = text[range.end..].lines().next().unwrap_or_default();
        let is_apart = below.trim().is_empty();
        let has_text = source.trim_matches(['#', ' ', '\n']).chars().any(char::is_alphanumeric);
        if !has_text {
            return;
        }
        let next_is_heading =
            below.trim_start().starts_with(source.split(' ').next().unwrap_or("#"));
        self.headings_look_like_comments |=
            next_is_heading && below.trim_start().trim_start_matches('#').starts_with(' ');
        self.title |= is_apart
            && text[..range.start].trim().is_empty()
            && begins_like_prose(&text[range.end..]);
        self.heading_apart |= is_apart;
        self.levels |= self.heading.is_some_and(|other| other != level);
        self.heading = Some(level);
    }

    fn score(&self) -> Score {
        let headings = !self.headings_look_like_comments;
        let sure = [
            (self.link, 4),
            (self.table, 4),
            (self.fence, 4),
            (self.task, 3),
            (self.underlined, 3),
            (self.strong, 2),
            (self.strikethrough, 2),
            (self.levels && headings, 2),
        ];
        let unsure = [
            (self.title && headings, 1),
            (self.heading_apart && headings, 1),
            (self.heading.is_some() && headings, 2),
            (self.items >= 2, 2),
            (self.quote, 2),
            (self.code, 1),
            (self.emphasis, 1),
            (self.rule, 1),
        ];
        fn sum(signs: &[(bool, u32)]) -> u32 {
            signs.iter().filter(|(seen, _)| *seen).map(|(_, points)| points).sum()
        }
        Score { points: sum(&sure) + sum(&unsure), has_sure_sign: sum(&sure) > 0 }
    }
}

/// Returns whether text begins like a paragraph below a title: with a capital or a mark. Code below
/// a comment seldom does.
fn begins_like_prose(text: &str) -> bool {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.starts_with(|first: char| {
        first.is_uppercase()
            || (first.is_alphabetic() && !first.is_lowercase())
            || "-*+>|[!_`#1".contains(first)
    }) || line.ends_with('.')
}

/// Returns whether the text is source code, whose comments and operators would be mistaken for
/// Markdown: many lines outside of fences look like code.
fn is_program(text: &str) -> bool {
    #[rustfmt::skip]
    const WORDS: &[&str] = &[
        "import ", "from ", "def ", "class ", "use ", "fn ", "pub ", "func ", "package ",
        "public ", "private ", "static ", "#include", "#define", "var ", "let ", "const ", "my ",
        "sub ", "if (", "if [", "for (", "while ", "return", "export ", "function ", "@",
        "elif ", "else:", "try:", "}", "//", "/*", "* @", "impl ", "struct ", "mod ", "=head",
        "=cut", "--",
    ];
    let mut lines = 0;
    let mut code = 0;
    let mut in_fence = false;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()).take(400) {
        if line.starts_with("```") || line.starts_with("~~~") {
            in_fence = !in_fence;
        } else if !in_fence {
            lines += 1;
            let is_code = line.ends_with([';', '{', '}'])
                || line.ends_with("):")
                || WORDS.iter().any(|word| line.starts_with(word))
                || is_assignment(line);
            code += usize::from(is_code && line != "---");
        }
    }
    code >= 3 && code * 6 > lines || (lines < 5 && is_minified(text))
}

/// Returns whether a text of few lines is full of brackets and semicolons, as code for browsers is.
fn is_minified(text: &str) -> bool {
    let marks = text.bytes().filter(|byte| b"{}();=".contains(byte)).count();
    text.len() > 500 && marks * 12 > text.len()
}

/// Returns whether a line is `name = value`, or the head of a section in brackets.
fn is_assignment(line: &str) -> bool {
    fn is_name(name: &str) -> bool {
        let mut characters = name.chars();
        characters.next().is_some_and(|first| first.is_alphabetic() || first == '_')
            && characters.all(|it| it.is_alphanumeric() || "_-.".contains(it))
    }
    let section = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    section.is_some_and(is_name)
        || line.split_once('=').is_some_and(|(name, _)| is_name(name.trim_end()))
}

/// Skips YAML front matter between two lines of three dashes at the start, and says whether there
/// was any.
fn without_front_matter(text: &str) -> (bool, &str) {
    let body = text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n"));
    body.map_or((false, text), |(_, body)| (true, body))
}
