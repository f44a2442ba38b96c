//! Tracks open elements, and whether their contents are visible: the part of tree construction in
//! the HTML Standard (section 13.2.6) that determines this.

use super::Attributes;

/// The open elements, outermost first.
#[derive(Default)]
pub(super) struct OpenElements {
    stack: Vec<Open>,
    hidden: usize,
    foreign: usize,
    preformatted: usize,
    headings: usize,
}

struct Open {
    name: Box<[u8]>,
    is_hidden: bool,
}

/// Number of open elements that are searched for the start of an end tag. People do not write
/// deeper nesting; searching all of a hundred thousand open elements for as many end tags would
/// take minutes.
const MAX_LOOK: usize = 256;

impl OpenElements {
    /// Returns the number of open elements.
    pub(super) fn depth(&self) -> usize {
        self.stack.len()
    }

    pub(super) fn is_hidden(&self) -> bool {
        self.hidden > 0
    }

    /// Returns whether the current element is in SVG or MathML.
    pub(super) fn in_foreign(&self) -> bool {
        self.foreign > 0
    }

    pub(super) fn is_preformatted(&self) -> bool {
        self.preformatted > 0
    }

    pub(super) fn in_heading(&self) -> bool {
        self.headings > 0
    }

    pub(super) fn start(&mut self, name: &[u8], attributes: &Attributes, is_self_closing: bool) {
        self.close_implied(name);
        if is_void(name) || (is_self_closing && (self.in_foreign() || is_foreign(name))) {
            return;
        }
        let is_hidden = is_never_shown(name) || hides(name, attributes);
        self.stack.push(Open { name: name.into(), is_hidden });
        self.count(name, is_hidden, usize::wrapping_add);
    }

    /// Closes the element of an end tag, and the elements within it. An end tag without an element
    /// is ignored.
    pub(super) fn end(&mut self, name: &[u8]) {
        // `</b>` does not end a block that was opened within `<b>`, and `</div>` does not end a
        // table that was opened within `<div>`. Otherwise text that a browser hides would be
        // extracted.
        let stops: fn(&[u8]) -> bool = if is_special(name) { is_scope } else { is_special };
        self.close(|open| open == name, |open| stops(open) && open != name);
    }

    /// Closes elements whose end tag may be omitted before this start tag.
    fn close_implied(&mut self, name: &[u8]) {
        match name {
            b"li" => self.close(|open| open == b"li", |open| is_special(open) && !is_passed(open)),
            b"dt" | b"dd" => self.close(
                |open| matches!(open, b"dt" | b"dd"),
                |open| is_special(open) && !is_passed(open),
            ),
            b"td" | b"th" => self.close(
                |open| matches!(open, b"td" | b"th"),
                |open| matches!(open, b"tr" | b"table" | b"template"),
            ),
            b"tr" => {
                self.close(|open| open == b"tr", |open| matches!(open, b"table" | b"template"));
            }
            b"rb" | b"rt" | b"rtc" | b"rp" => {
                self.close(|open| matches!(open, b"rb" | b"rt" | b"rp"), |open| open == b"ruby");
            }
            b"tbody" | b"tfoot" | b"thead" => self.close(
                |open| matches!(open, b"tbody" | b"tfoot" | b"thead"),
                |open| matches!(open, b"table" | b"template"),
            ),
            _ => {}
        }
        // A block ends a paragraph.
        if is_block(name) {
            self.close(|open| open == b"p", |open| is_special(open) && open != b"p");
        }
        if is_heading(name) {
            let top = self.stack.last().is_some_and(|open| is_heading(&open.name));
            if top {
                self.pop();
            }
        }
    }

    /// Closes the innermost element that `is_it` accepts, unless an element that `stops` accepts is
    /// within it.
    fn close(&mut self, is_it: impl Fn(&[u8]) -> bool, stops: impl Fn(&[u8]) -> bool) {
        for (above, open) in self.stack.iter().rev().take(MAX_LOOK).enumerate() {
            if is_it(&open.name) {
                for _ in 0..=above {
                    self.pop();
                }
                return;
            }
            if stops(&open.name) {
                return;
            }
        }
    }

    fn pop(&mut self) {
        if let Some(Open { name, is_hidden }) = self.stack.pop() {
            self.count(&name, is_hidden, usize::wrapping_sub);
        }
    }

    fn count(&mut self, name: &[u8], is_hidden: bool, change: fn(usize, usize) -> usize) {
        let counts = [
            (&mut self.hidden, is_hidden),
            (&mut self.foreign, is_foreign(name)),
            (&mut self.preformatted, matches!(name, b"pre" | b"textarea")),
            (&mut self.headings, is_heading(name)),
        ];
        for (count, applies) in counts {
            *count = change(*count, usize::from(applies));
        }
    }
}

/// Returns whether an element begins and ends a block of text.
pub(super) fn is_block(name: &[u8]) -> bool {
    is_heading(name)
        || matches!(
            name,
            b"address"
                | b"article"
                | b"aside"
                | b"blockquote"
                | b"center"
                | b"dd"
                | b"details"
                | b"dialog"
                | b"dir"
                | b"div"
                | b"dl"
                | b"dt"
                | b"fieldset"
                | b"figcaption"
                | b"figure"
                | b"footer"
                | b"form"
                | b"header"
                | b"hgroup"
                | b"hr"
                | b"legend"
                | b"li"
                | b"main"
                | b"menu"
                | b"nav"
                | b"ol"
                | b"p"
                | b"pre"
                | b"search"
                | b"section"
                | b"summary"
                | b"table"
                | b"ul"
        )
}

fn is_heading(name: &[u8]) -> bool {
    matches!(name, [b'h', b'1'..=b'6'])
}

/// Returns whether an element is in the Standard's category "special": end tags of other elements
/// do not close it.
fn is_special(name: &[u8]) -> bool {
    is_block(name)
        || is_scope(name)
        || matches!(
            name,
            b"body"
                | b"button"
                | b"col"
                | b"colgroup"
                | b"frameset"
                | b"head"
                | b"iframe"
                | b"listing"
                | b"noembed"
                | b"noframes"
                | b"noscript"
                | b"plaintext"
                | b"script"
                | b"select"
                | b"style"
                | b"tbody"
                | b"textarea"
                | b"tfoot"
                | b"thead"
                | b"title"
                | b"tr"
                | b"xmp"
        )
}

/// Returns whether an element limits the scope of end tags ("has an element in scope").
fn is_scope(name: &[u8]) -> bool {
    matches!(
        name,
        b"applet"
            | b"caption"
            | b"html"
            | b"marquee"
            | b"object"
            | b"table"
            | b"td"
            | b"template"
            | b"th"
    )
}

/// Returns whether the search for an open `li`, `dt` or `dd` continues beyond this special element.
fn is_passed(name: &[u8]) -> bool {
    matches!(name, b"address" | b"div" | b"p")
}

fn is_foreign(name: &[u8]) -> bool {
    matches!(name, b"svg" | b"math")
}

fn is_void(name: &[u8]) -> bool {
    matches!(
        name,
        b"area"
            | b"base"
            | b"basefont"
            | b"bgsound"
            | b"br"
            | b"col"
            | b"embed"
            | b"hr"
            | b"img"
            | b"input"
            | b"link"
            | b"meta"
            | b"param"
            | b"source"
            | b"track"
            | b"wbr"
            | b"frame"
            | b"keygen"
    )
}

/// Returns whether browsers never show the text of an element, or show it above other text (ruby).
fn is_never_shown(name: &[u8]) -> bool {
    matches!(
        name,
        b"audio"
            | b"canvas"
            | b"datalist"
            | b"iframe"
            | b"noembed"
            | b"noframes"
            | b"noscript"
            | b"object"
            | b"rp"
            | b"rt"
            | b"rtc"
            | b"script"
            | b"style"
            | b"template"
            | b"title"
            | b"video"
    )
}

/// Returns whether the attributes of an element hide it. Style sheets are not considered.
pub(super) fn hides(name: &[u8], attributes: &Attributes) -> bool {
    if attributes.contains_key("hidden") || (name == b"dialog" && !attributes.contains_key("open"))
    {
        return true;
    }
    let Some(style) = attributes.get("style") else { return false };
    let style = without_comments(&style.to_ascii_lowercase());
    style.split(';').filter_map(|declaration| declaration.split_once(':')).any(|(name, value)| {
        let value = value.split('!').next().unwrap_or(value).trim();
        match name.trim() {
            "display" => value == "none",
            "visibility" => matches!(value, "hidden" | "collapse"),
            "opacity" | "font-size" => is_zero(value),
            _ => false,
        }
    })
}

/// Returns whether a value with any unit is almost 0.
fn is_zero(value: &str) -> bool {
    let number = value.trim_end_matches(|end: char| end.is_ascii_alphabetic() || end == '%');
    number.parse::<f64>().is_ok_and(|number| number <= 0.01)
}

fn without_comments(style: &str) -> String {
    let mut rest = style;
    let mut kept = String::with_capacity(style.len());
    while let Some((before, after)) = rest.split_once("/*") {
        kept.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    kept + rest
}
