//! JSON with comments: the positions of its members, and edits of its text.

use std::ops::Range;

use serde_json::{Map, Value, value::RawValue};

use crate::{error::EditError, style::Style};

/// Maximum nesting; deeper files are not configuration.
const MAX_DEPTH: usize = 128;

/// A value of a text.
#[derive(Debug)]
pub(crate) struct Node {
    span: Range<usize>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Object(Vec<Member>),
    Array(Vec<Element>),
    Scalar,
}

#[derive(Debug)]
struct Member {
    key: String,
    value: Node,
    element: ElementSpan,
}

#[derive(Debug)]
struct Element {
    value: Node,
    element: ElementSpan,
}

/// The position of a member of an object or of an item of an array.
#[derive(Clone, Debug)]
struct ElementSpan {
    span: Range<usize>,
    /// The comma after it.
    comma: Option<usize>,
}

/// Parses a text that holds one value.
pub(crate) fn parse(text: &str) -> Result<Node, EditError> {
    let mut parser = Parser { text, at: if text.starts_with('\u{feff}') { 3 } else { 0 } };
    parser.skip_trivia()?;
    let root = parser.value(0)?;
    parser.skip_trivia()?;
    if parser.at < text.len() {
        return Err(parser.error("expected the end of the file"));
    }
    Ok(root)
}

/// Returns the value of a text. Scalars are strings of their source text, so that nothing is lost
/// that a number or a string of Rust cannot hold.
pub(crate) fn value_of(text: &str) -> Result<Value, EditError> {
    if is_blank(text) {
        return Ok(Value::Object(Map::new()));
    }
    to_value(text, &parse(text)?)
}

/// Returns a value in the form of [`value_of`].
pub(crate) fn with_source_scalars(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| (key.clone(), with_source_scalars(value)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(with_source_scalars).collect(),
        scalar => scalar.to_string().into(),
    }
}

fn to_value(text: &str, node: &Node) -> Result<Value, EditError> {
    Ok(match &node.kind {
        Kind::Scalar => text[node.span.clone()].into(),
        Kind::Array(items) => {
            let items = items.iter().map(|item| to_value(text, &item.value));
            items.collect::<Result<_, _>>()?
        }
        Kind::Object(members) => {
            let mut object = Map::new();
            for member in members {
                let value = to_value(text, &member.value)?;
                if object.insert(member.key.clone(), value).is_some() {
                    return Err(EditError::Duplicate { key: member.key.clone() });
                }
            }
            object.into()
        }
    })
}

/// Returns the value at a path, as JSON.
pub(crate) fn get(text: &str, path: &[&str]) -> Result<Option<Value>, EditError> {
    if is_blank(text) {
        return Ok(None);
    }
    let root = parse(text)?;
    let Some(node) = find(&root, path) else { return Ok(None) };
    plain_value(text, node).map(Some)
}

fn plain_value(text: &str, node: &Node) -> Result<Value, EditError> {
    Ok(match &node.kind {
        Kind::Scalar => serde_json::from_str(&text[node.span.clone()]).map_err(|_| {
            EditError::syntax(text, node.span.start, "the value cannot be represented")
        })?,
        Kind::Array(items) => {
            let items = items.iter().map(|item| plain_value(text, &item.value));
            items.collect::<Result<_, _>>()?
        }
        Kind::Object(members) => {
            let members = members
                .iter()
                .map(|member| Ok((member.key.clone(), plain_value(text, &member.value)?)));
            members.collect::<Result<Map<_, _>, EditError>>()?.into()
        }
    })
}

/// Sets the value at a path of keys, and creates the objects that are missing.
pub(crate) fn set(text: &str, path: &[&str], value: &Value) -> Result<String, EditError> {
    let style = Style::of(text);
    let (Some((last, _)), false) = (path.split_last(), is_blank(text)) else {
        let bom = if text.starts_with('\u{feff}') { "\u{feff}" } else { "" };
        let document = render(&nested(path, value), "", &style);
        return Ok(format!("{bom}{document}{}", style.newline));
    };
    let root = parse(text)?;
    let style = style.with_unit(indent_of_first(text, &root));
    let mut container = &root;
    for (depth, key) in path.iter().enumerate() {
        let Kind::Object(members) = &container.kind else {
            return Err(EditError::NotAnObject { path: path[..depth].join(".") });
        };
        match members.iter().find(|member| member.key == *key) {
            Some(member) if key == last && depth + 1 == path.len() => {
                let indent = line_indent(text, member.element.span.start);
                let is_inline = is_on_one_line(text, &container.span);
                let rendered = rendered(value, indent, &style, is_inline);
                return Ok(replaced(text, member.value.span.clone(), &rendered));
            }
            Some(member) => container = &member.value,
            None => {
                let value = nested(&path[depth + 1..], value);
                return Ok(insert(text, &root, container, Some(key), &value, &style));
            }
        }
    }
    Ok(text.to_owned())
}

/// Removes the member at a path; a missing one changes nothing.
pub(crate) fn remove(text: &str, path: &[&str]) -> Result<String, EditError> {
    let Some((last, above)) = path.split_last() else { return Ok(text.to_owned()) };
    if is_blank(text) {
        return Ok(text.to_owned());
    }
    let root = parse(text)?;
    let Some(container) = find(&root, above) else { return Ok(text.to_owned()) };
    let Kind::Object(members) = &container.kind else { return Ok(text.to_owned()) };
    let Some(index) = members.iter().position(|member| member.key == *last) else {
        return Ok(text.to_owned());
    };
    let elements: Vec<_> = members.iter().map(|member| member.element.clone()).collect();
    Ok(without_element(text, container, &elements, index))
}

/// Adds a string to the array at a path.
pub(crate) fn add_item(text: &str, path: &[&str], item: &str) -> Result<String, EditError> {
    let root = parse(text)?;
    let style = Style::of(text).with_unit(indent_of_first(text, &root));
    let Some(container) = find(&root, path) else { return Ok(text.to_owned()) };
    let Kind::Array(_) = container.kind else { return Ok(text.to_owned()) };
    Ok(insert(text, &root, container, None, &item.into(), &style))
}

/// Removes a string from the array at a path.
pub(crate) fn remove_item(text: &str, path: &[&str], item: &str) -> Result<String, EditError> {
    let root = parse(text)?;
    let Some(container) = find(&root, path) else { return Ok(text.to_owned()) };
    let Kind::Array(items) = &container.kind else { return Ok(text.to_owned()) };
    let index = items.iter().position(|it| {
        serde_json::from_str::<String>(&text[it.value.span.clone()]).is_ok_and(|it| it == item)
    });
    let Some(index) = index else { return Ok(text.to_owned()) };
    let elements: Vec<_> = items.iter().map(|item| item.element.clone()).collect();
    Ok(without_element(text, container, &elements, index))
}

pub(crate) fn is_blank(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim().is_empty()
}

fn nested(path: &[&str], value: &Value) -> Value {
    path.iter().rev().fold(value.clone(), |inner, key| {
        Value::Object(Map::from_iter([((*key).to_owned(), inner)]))
    })
}

fn find<'n>(root: &'n Node, path: &[&str]) -> Option<&'n Node> {
    let mut node = root;
    for key in path {
        let Kind::Object(members) = &node.kind else { return None };
        node = &members.iter().find(|member| member.key == *key)?.value;
    }
    Some(node)
}

/// Inserts a member or an item at the end of a container.
fn insert(
    text: &str,
    root: &Node,
    container: &Node,
    key: Option<&str>,
    value: &Value,
    style: &Style,
) -> String {
    let elements: Vec<&ElementSpan> = match &container.kind {
        Kind::Object(members) => members.iter().map(|member| &member.element).collect(),
        Kind::Array(items) => items.iter().map(|item| &item.element).collect(),
        Kind::Scalar => return text.to_owned(),
    };
    let outer = line_indent(text, container.span.start);
    let close = container.span.end - 1;
    // After the last comment, so that it stays with the member before it.
    let at = text[..close].trim_end_matches([' ', '\t', '\r', '\n']).len();
    // An empty object gets lines of its own, unless the whole file is one line.
    let is_one_line_file =
        is_on_one_line(text, &root.span) && container.span.start > root.span.start;
    let is_inline =
        is_on_one_line(text, &container.span) && (!elements.is_empty() || is_one_line_file);
    let own_indent = match elements.first() {
        Some(first) if starts_its_line(text, first.span.start) => {
            line_indent(text, first.span.start).to_owned()
        }
        _ => format!("{outer}{}", style.unit),
    };
    let mut element = String::new();
    if let Some(key) = key {
        element = format!("{}: ", Value::from(key));
    }
    element.push_str(&rendered(value, &own_indent, style, is_inline));
    let last = elements.last();
    let has_comma = last.is_some_and(|last| last.comma.is_some());
    if has_comma {
        element.push(',');
    }
    let needs_line_end = !is_inline && !text[at..close].contains('\n');
    let mut inserted = if is_inline && elements.is_empty() {
        element
    } else if is_inline {
        format!(" {element}")
    } else {
        format!("{}{own_indent}{element}", style.newline)
    };
    if needs_line_end {
        inserted.push_str(style.newline);
        inserted.push_str(outer);
    }
    let mut edited = replaced(text, at..at, &inserted);
    if let Some(last) = last.filter(|last| last.comma.is_none()) {
        edited.insert(last.span.end, ',');
    }
    edited
}

/// Removes an element with the white space before it and one comma. Comments stay.
fn without_element(text: &str, container: &Node, elements: &[ElementSpan], index: usize) -> String {
    let element = &elements[index];
    let open = container.span.start + 1;
    let mut start = text[..element.span.start].trim_end_matches([' ', '\t', '\r', '\n']).len();
    let mut end = element.span.end;
    let mut comma_before = None;
    if let Some(comma) = element.comma {
        // A comment may stand between the value and its comma.
        if text[end..comma].trim().is_empty() {
            end = comma + 1;
        } else {
            comma_before = Some(comma);
        }
    } else if index > 0 {
        comma_before = elements[index - 1].comma;
    }
    if index == 0 && elements.len() > 1 && is_on_one_line(text, &container.span) {
        // `{"a": 1, "b": 2}`: the space after the brace stays, the one after the comma goes.
        start = element.span.start;
        end += text[end..].len() - text[end..].trim_start_matches([' ', '\t']).len();
    }
    // A comment of one line must not swallow what follows the element.
    let follows = text[end..].trim_start_matches([' ', '\t']);
    let ends_line = follows.is_empty() || follows.starts_with(['\n', '\r']);
    let trivia = match index.checked_sub(1).map(|before| &elements[before]) {
        Some(before) => before.comma.map_or(before.span.end, |comma| comma + 1),
        None => open,
    };
    if !ends_line && start < element.span.start && line_has_comment(text, trivia, start) {
        start = element.span.start;
    }
    let is_only = elements.len() == 1;
    let close = container.span.end - 1;
    if is_only
        && text[open..element.span.start].trim().is_empty()
        && text[end..close].trim().is_empty()
    {
        return replaced(text, open..close, "");
    }
    let edited = replaced(text, start..end, "");
    match comma_before {
        Some(comma) if comma >= end => {
            let comma = comma - (end - start);
            replaced(&edited, comma..comma + 1, "")
        }
        Some(comma) => replaced(&edited, comma..comma + 1, ""),
        None => edited,
    }
}

/// Returns whether a comment of one line may reach to `end`. The range holds white space and
/// comments alone.
fn line_has_comment(text: &str, start: usize, end: usize) -> bool {
    let end = end.max(start);
    let line = text[start..end].rfind('\n').map_or(start, |newline| start + newline + 1);
    text[line..end].contains("//")
}

fn replaced(text: &str, range: Range<usize>, with: &str) -> String {
    format!("{}{with}{}", &text[..range.start], &text[range.end..])
}

fn is_on_one_line(text: &str, span: &Range<usize>) -> bool {
    !text[span.clone()].contains('\n')
}

/// Returns the white space at the beginning of the line of an offset.
fn line_indent(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[start..at].trim_start_matches('\u{feff}');
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

fn starts_its_line(text: &str, at: usize) -> bool {
    let before = text[..at].trim_end_matches([' ', '\t']);
    before.ends_with('\n')
}

/// Returns the indentation of the first member of the root, if it has its own line.
fn indent_of_first<'t>(text: &'t str, root: &Node) -> Option<&'t str> {
    let Kind::Object(members) = &root.kind else { return None };
    let first = members.first()?.element.span.start;
    let indent = line_indent(text, first);
    (starts_its_line(text, first) && !indent.is_empty()).then_some(indent)
}

fn rendered(value: &Value, indent: &str, style: &Style, is_inline: bool) -> String {
    if is_inline {
        return inline(value);
    }
    render(value, indent, style)
}

/// Renders on several lines; short lists of scalars stay on one, as people write them.
fn render(value: &Value, indent: &str, style: &Style) -> String {
    let inner = format!("{indent}{}", style.unit);
    let Style { newline, .. } = style;
    match value {
        Value::Object(members) if !members.is_empty() => {
            let members: Vec<String> = members
                .iter()
                .map(|(key, value)| {
                    format!(
                        "{inner}{}: {}",
                        Value::from(key.as_str()),
                        render(value, &inner, style)
                    )
                })
                .collect();
            format!("{{{newline}{}{newline}{indent}}}", members.join(&format!(",{newline}")))
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            let items: Vec<String> = items
                .iter()
                .map(|item| format!("{inner}{}", render(item, &inner, style)))
                .collect();
            format!("[{newline}{}{newline}{indent}]", items.join(&format!(",{newline}")))
        }
        other => inline(other),
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members: Vec<String> = members
                .iter()
                .map(|(key, value)| format!("{}: {}", Value::from(key.as_str()), inline(value)))
                .collect();
            format!("{{{}}}", members.join(", "))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        scalar => scalar.to_string(),
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl Parser<'_> {
    fn error(&self, problem: &str) -> EditError {
        EditError::syntax(self.text, self.at, problem)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_trivia(&mut self) -> Result<(), EditError> {
        loop {
            let rest = &self.text[self.at..];
            let skipped = if rest.starts_with([' ', '\t', '\r', '\n']) {
                1
            } else if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if let Some(comment) = rest.strip_prefix("/*") {
                let end = comment.find("*/").ok_or_else(|| self.error("unclosed comment"))?;
                end + 4
            } else {
                return Ok(());
            };
            self.at += skipped;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, EditError> {
        if depth > MAX_DEPTH {
            return Err(self.error("nested too deeply"));
        }
        let start = self.at;
        let kind = match self.peek() {
            Some(b'{') => Kind::Object(self.members(depth)?),
            Some(b'[') => Kind::Array(self.items(depth)?),
            Some(b'"') => {
                self.string()?;
                Kind::Scalar
            }
            _ => {
                self.word()?;
                Kind::Scalar
            }
        };
        Ok(Node { span: start..self.at, kind })
    }

    fn members(&mut self, depth: usize) -> Result<Vec<Member>, EditError> {
        let mut members = Vec::new();
        self.at += 1;
        loop {
            self.skip_trivia()?;
            if self.peek() == Some(b'}') {
                self.at += 1;
                return Ok(members);
            }
            let start = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.error("expected a key in double quotes, or \"}\""));
            }
            self.string()?;
            let source = &self.text[start..self.at];
            // A lone half of a surrogate pair has no text; the source tells keys apart, too.
            let key = serde_json::from_str(source).unwrap_or_else(|_| source.to_owned());
            self.skip_trivia()?;
            if self.peek() != Some(b':') {
                return Err(self.error("expected \":\" after a key"));
            }
            self.at += 1;
            self.skip_trivia()?;
            let value = self.value(depth + 1)?;
            let span = start..self.at;
            let comma = self.comma(b'}')?;
            members.push(Member { key, value, element: ElementSpan { span, comma } });
        }
    }

    fn items(&mut self, depth: usize) -> Result<Vec<Element>, EditError> {
        let mut items = Vec::new();
        self.at += 1;
        loop {
            self.skip_trivia()?;
            if self.peek() == Some(b']') {
                self.at += 1;
                return Ok(items);
            }
            let value = self.value(depth + 1)?;
            let span = value.span.clone();
            let comma = self.comma(b']')?;
            items.push(Element { value, element: ElementSpan { span, comma } });
        }
    }

    /// Reads the comma after an element. Only the closing bracket may follow without one.
    fn comma(&mut self, close: u8) -> Result<Option<usize>, EditError> {
        self.skip_trivia()?;
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(Some(self.at - 1))
            }
            Some(other) if other == close => Ok(None),
            Some(_) => Err(self.error("expected \",\" or the end of the list")),
            None => Err(self.error("the text ends too early")),
        }
    }

    fn string(&mut self) -> Result<(), EditError> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut end = start + 1;
        while end < bytes.len() && bytes[end] != b'"' {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        let source = self.text.get(start..=end).ok_or_else(|| self.error("unclosed string"))?;
        if serde_json::from_str::<&RawValue>(source).is_err() {
            return Err(self.error("not a valid string"));
        }
        self.at = end + 1;
        Ok(())
    }

    /// Reads a number, `true`, `false` or `null`.
    fn word(&mut self) -> Result<(), EditError> {
        let rest = &self.text[self.at..];
        let length = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '+' | '-' | '.'))
            .unwrap_or(rest.len());
        let source = &rest[..length];
        if source.is_empty() || serde_json::from_str::<&RawValue>(source).is_err() {
            return Err(self.error("expected a value of JSON"));
        }
        self.at += length;
        Ok(())
    }
}
