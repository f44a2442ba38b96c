//! Makes text from outside harmless.

use std::borrow::Cow;

use crate::{
    legacy,
    splice::{push_entity, tags},
};

/// Escapes the tags of blocks in text from a user, a document or a tool.
///
/// The first character of each tag, and of each older form that [`upgrade`](crate::upgrade) would
/// convert, becomes a numeric entity. HTML and Markdown show the text unchanged, and no parser
/// finds a block in it.
///
/// Apply it to a whole message: a part that ends in the middle of a tag could be completed by the
/// next part.
///
/// ```
/// use marquetry_context_blocks::neutralize;
///
/// assert_eq!(neutralize("2 < 3"), "2 < 3");
/// assert_eq!(neutralize("</mcp:context>"), "&#60;/mcp:context>");
/// assert_eq!(neutralize("(Reminder: {})"), "&#40;Reminder: {})");
/// ```
pub fn neutralize(text: &str) -> Cow<'_, str> {
    let mut from = 0;
    let mut plain = String::new();
    for at in tags(text).chain(legacy::openings(text)).collect::<std::collections::BTreeSet<_>>() {
        plain.push_str(&text[from..at]);
        push_entity(text.as_bytes()[at], &mut plain);
        from = at + 1;
    }
    if from == 0 {
        return Cow::Borrowed(text);
    }
    plain.push_str(&text[from..]);
    Cow::Owned(plain)
}
