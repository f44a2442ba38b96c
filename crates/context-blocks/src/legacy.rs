//! Converts the older forms of context into blocks, and images back.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::{
    block::{Block, Element},
    build::{Builder, Context, InlineResource},
    parse::blocks,
    splice::push_between,
    trust::Trust,
};

/// Converts the older forms of context into blocks:
///
/// | form | becomes |
/// |---|---|
/// | `${image.ID.TAGS}`, `${image.TAGS}` | `mcp:resource` of `am7://media/ID`, or of `am7://media/pending` with `resolve="true"` |
/// | `--- BEGIN CITATIONS ---` … `--- END CITATIONS ---` | ephemeral, untrusted, of `am7://citations/legacy` |
/// | `(Reminder: {…})`, `(KeyFrame: {…})`, `(Metrics: {…})` | ephemeral, of `am7://reminder/legacy` and so on |
/// | `<think>…</think>`, `<thought>…</thought>` | ephemeral reasoning |
///
/// The first group of an image is an id if tags follow it and it has no comma. A group alone is an
/// id only if it is a UUID. Forms inside of a block and incomplete forms stay as they are.
///
/// Use this for text that the system itself has stored. For text of users, use
/// [`user_text`](crate::user_text) or [`neutralize`](crate::neutralize).
///
/// ```
/// use marquetry_context_blocks::upgrade;
///
/// assert_eq!(
///     upgrade("${image.abc-123.portrait,fantasy}"),
///     r#"<mcp:resource uri="am7://media/abc-123" tags="portrait,fantasy" />"#,
/// );
/// ```
pub fn upgrade(text: &str) -> Cow<'_, str> {
    let mut upgraded = String::new();
    let mut written = 0;
    let mut unclosed = Unclosed::default();
    let mut known = blocks(text).peekable();
    for at in openings(text) {
        // Forms inside of a block, or of the form before, are content.
        while known.next_if(|block| block.span().end <= at).is_some() {}
        if at < written || known.peek().is_some_and(|block| block.span().contains(&at)) {
            continue;
        }
        let Some((form, length)) = Form::read(&text[at..], &mut unclosed) else { continue };
        let end = at + length;
        // A form may contain blocks, but not end inside of one.
        if known
            .clone()
            .take_while(|block| block.span().start < end)
            .any(|block| block.span().end > end)
        {
            continue;
        }
        push_with_blocks(&text[written..at], &mut upgraded);
        form.write(None, &mut upgraded);
        written = end;
    }
    if written == 0 {
        return Cow::Borrowed(text);
    }
    push_with_blocks(&text[written..], &mut upgraded);
    Cow::Owned(upgraded)
}

/// Converts `mcp:resource` elements of `am7://media/…` back into `${image.…}`, for people who edit
/// the text. A resource that such a token cannot express stays unchanged.
pub fn downgrade(text: &str) -> Cow<'_, str> {
    let mut downgraded = String::new();
    let mut written = 0;
    for block in blocks(text) {
        let Some(token) = token_of(&block) else { continue };
        let span = block.span();
        downgraded.push_str(&text[written..span.start]);
        downgraded.push_str(&token);
        written = span.end;
    }
    if written == 0 {
        return Cow::Borrowed(text);
    }
    downgraded.push_str(&text[written..]);
    Cow::Owned(downgraded)
}

/// Copies text with its blocks. The new blocks must not close a tag that was never closed.
fn push_with_blocks(text: &str, out: &mut String) {
    let mut from = 0;
    for block in blocks(text) {
        let span = block.span();
        push_between(&text[from..span.start], out);
        out.push_str(block.raw());
        from = span.end;
    }
    push_between(&text[from..], out);
}

const IMAGE: &str = "${image.";
/// Much longer than an id and a few tags.
const MAX_IMAGE_BYTES: usize = 1024;
const CITATIONS: (&str, &str) = ("--- BEGIN CITATIONS ---", "--- END CITATIONS ---");
const REASONING: [(&str, &str); 2] = [("<think>", "</think>"), ("<thought>", "</thought>")];
const STATES: [(&str, &str, &str); 3] = [
    ("(Reminder:", "am7://reminder/legacy", "urn:am7:narrative:reminder"),
    ("(KeyFrame:", "am7://keyframe/legacy", "urn:am7:narrative:keyframe"),
    ("(Metrics:", "am7://metrics/legacy", "urn:am7:biometric:face-analysis"),
];

/// Returns the positions where a form may begin, in order.
pub(crate) fn openings(text: &str) -> impl Iterator<Item = usize> {
    text.bytes().enumerate().filter_map(move |(at, byte)| {
        // The bytes are compared first: a slice is made only at the start of a character.
        let begins = match byte {
            b'$' => text[at..].starts_with(IMAGE),
            b'-' => text[at..].starts_with(CITATIONS.0),
            b'(' => STATES.iter().any(|(opening, ..)| text[at..].starts_with(opening)),
            b'<' => REASONING.iter().any(|(opening, _)| starts_with_any_case(&text[at..], opening)),
            _ => false,
        };
        begins.then_some(at)
    })
}

fn starts_with_any_case(text: &str, start: &str) -> bool {
    text.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start))
}

/// Closing marks that do not occur in the rest of the text. Each is searched for once, so that many
/// unclosed forms still cost one pass.
#[derive(Default)]
pub(crate) struct Unclosed {
    citations: bool,
    reasoning: [bool; REASONING.len()],
    state: bool,
}

pub(crate) enum Form<'a> {
    Image(Image<'a>),
    Citations(&'a str),
    Reasoning(&'a str),
    State { uri: &'static str, schema: &'static str, data: Value },
}

impl<'a> Form<'a> {
    /// Reads the form at the start of the text. Returns its length as well.
    pub(crate) fn read(text: &'a str, unclosed: &mut Unclosed) -> Option<(Self, usize)> {
        if let Some((image, length)) = Image::read(text) {
            return Some((Self::Image(image), length));
        }
        if let Some(rest) = text.strip_prefix(CITATIONS.0) {
            let body = until(rest, &mut unclosed.citations, |rest| rest.find(CITATIONS.1))?;
            return Some((
                Self::Citations(body.trim()),
                CITATIONS.0.len() + body.len() + CITATIONS.1.len(),
            ));
        }
        for (mark, (opening, closing)) in REASONING.into_iter().enumerate() {
            if starts_with_any_case(text, opening) {
                let body = until(&text[opening.len()..], &mut unclosed.reasoning[mark], |rest| {
                    rest.match_indices("</")
                        .map(|(at, _)| at)
                        .find(|&at| starts_with_any_case(&rest[at..], closing))
                })?;
                return Some((
                    Self::Reasoning(body.trim()),
                    opening.len() + body.len() + closing.len(),
                ));
            }
        }
        let (opening, uri, schema) =
            STATES.into_iter().find(|(opening, ..)| text.starts_with(opening))?;
        let rest = &text[opening.len()..];
        let (data, length) = state(rest, &mut unclosed.state)?;
        Some((Self::State { uri, schema, data }, opening.len() + length))
    }

    /// Writes the block of this form. Without `trust`, only citations say who they come from: they
    /// are untrusted.
    pub(crate) fn write(&self, trust: Option<Trust>, out: &mut String) {
        let mut builder = Builder::new();
        let (context, data) = match self {
            Self::Image(image) => return image.write(out),
            Self::Citations(text) => (
                Context::resource("am7://citations/legacy", "urn:am7:vector:search-result")
                    .ephemeral()
                    .untrusted(),
                json!({ "results": [{ "content": text }] }),
            ),
            Self::Reasoning(text) => {
                let steps: Vec<&str> = if text.is_empty() { Vec::new() } else { vec![text] };
                (Context::reasoning(), json!({ "steps": steps }))
            }
            Self::State { uri, schema, data } => {
                (Context::resource(uri, schema).ephemeral(), data.clone())
            }
        };
        let context = match trust {
            Some(trust) => context.trust(trust),
            None => context,
        };
        builder.add(context, &data).expect("a JSON value is JSON");
        out.push_str(builder.build().trim_end());
    }
}

/// Returns the text before the closing mark. If there is no closing mark, returns [`None`] and
/// records that in `unclosed`.
fn until<'a>(
    text: &'a str,
    unclosed: &mut bool,
    find: impl FnOnce(&str) -> Option<usize>,
) -> Option<&'a str> {
    if *unclosed {
        return None;
    }
    let found = find(text);
    *unclosed = found.is_none();
    found.map(|at| &text[..at])
}

/// Reads the object of `(Reminder: {…})` and its like. Returns the length including the `)` as
/// well.
fn state(text: &str, unclosed: &mut bool) -> Option<(Value, usize)> {
    let object = text.trim_ascii_start();
    if !object.starts_with('{') {
        return None;
    }
    let before = text.len() - object.len();
    let mut values = serde_json::Deserializer::from_str(object).into_iter::<Value>();
    if let Some(Ok(data)) = values.next() {
        let after = before + values.byte_offset();
        let spaces = text[after..].len() - text[after..].trim_ascii_start().len();
        if text[after + spaces..].starts_with(')') {
            return Some((data, after + spaces + 1));
        }
    }
    // Models write such objects themselves: people should not see one that is not JSON, either.
    let object = until(object, unclosed, |object| object.find("})").map(|at| at + 1))?;
    Some((json!({ "raw": object }), before + object.len() + 1))
}

/// `${image.…}`.
pub(crate) struct Image<'a> {
    id: Option<&'a str>,
    tags: Cow<'a, str>,
}

impl<'a> Image<'a> {
    fn read(text: &'a str) -> Option<(Self, usize)> {
        let inner = text.strip_prefix(IMAGE)?;
        let length = inner.bytes().take(MAX_IMAGE_BYTES).position(|byte| byte == b'}')?;
        let inner = &inner[..length];
        let image = match inner.split_once('.') {
            Some((first, rest)) if first.is_empty() || rest.is_empty() => return None,
            Some((first, rest)) if first.contains(',') => {
                Self { id: None, tags: format!("{first},{rest}").into() }
            }
            Some((first, rest)) => Self { id: Some(first), tags: rest.into() },
            None if inner.is_empty() => return None,
            None if is_uuid(inner) => Self { id: Some(inner), tags: "".into() },
            None => Self { id: None, tags: inner.into() },
        };
        Some((image, IMAGE.len() + length + 1))
    }

    fn write(&self, out: &mut String) {
        let uri = format!("{MEDIA}{}", self.id.unwrap_or(PENDING));
        let resource = InlineResource::new(&uri).tags(&self.tags);
        if self.id.is_none() { resource.pending() } else { resource }.write(out);
    }
}

const MEDIA: &str = "am7://media/";
const PENDING: &str = "pending";
/// URI of a resource that must still be looked up by its tags.
pub(crate) const PENDING_URI: &str = "am7://media/pending";

/// Returns the token that expresses the same as a resource, if there is one.
fn token_of(block: &Block<'_>) -> Option<String> {
    if block.element() != Element::Resource {
        return None;
    }
    let uri = block.uri()?;
    let id = uri.strip_prefix(MEDIA).filter(|id| !id.is_empty() && !id.contains(['/', '?']))?;
    let tags = match block.attribute("tags") {
        Some(tags) => tags.into_owned(),
        None => block.tags().join(","),
    };
    let id = (id != PENDING).then_some(id);
    let token = match id {
        None => format!("{IMAGE}{tags}}}"),
        Some(id) if tags.is_empty() => format!("{IMAGE}{id}}}"),
        Some(id) => format!("{IMAGE}{id}.{tags}}}"),
    };
    // A token with a dot in its id or a brace in its tags would be read differently.
    let (read, length) = Image::read(&token)?;
    (length == token.len() && read.id == id && read.tags == tags).then_some(token)
}

/// Returns whether the text is 32 hexadecimal digits in groups of 8, 4, 4, 4 and 12.
fn is_uuid(text: &str) -> bool {
    let groups = [8, 4, 4, 4, 12];
    let mut parts = text.split('-');
    groups.into_iter().all(|length| {
        parts.next().is_some_and(|part| {
            part.len() == length && part.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    }) && parts.next().is_none()
}
