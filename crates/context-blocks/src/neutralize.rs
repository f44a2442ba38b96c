//! Text that comes from outside and must not become a block.

use std::borrow::Cow;

use crate::{legacy, markup};

/// Makes text harmless in which a user, a document or a tool might have written a block.
///
/// The first character of everything that opens or closes a block, or that [`upgrade`](crate::upgrade) would turn
/// into one, becomes a numeric entity. It looks the same where the text is shown as HTML or Markdown, and no parser
/// of blocks sees anything in it any more. Apply it to a whole message: a part that ends in the middle of a tag
/// could be completed by what follows.
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

/// Where tags of blocks open and close.
fn tags(text: &str) -> impl Iterator<Item = usize> {
    let mut at = 0;
    let openings = std::iter::from_fn(move || {
        let found = markup::find_opening(text, at)?;
        at = found + 1;
        Some(found)
    });
    let mut at = 0;
    let closings = std::iter::from_fn(move || {
        let found = markup::find_any_closing(text, at)?;
        at = found + 1;
        Some(found)
    });
    openings.chain(closings)
}

/// Writes text that stands between blocks: no tag of a block is left in it, not even one that begins before it, at
/// the end of `out`.
pub(crate) fn push_between(text: &str, out: &mut String) {
    // What was removed before this text may have stood in the middle of a tag.
    let seam = out.len();
    let longest = b"</mcp:".len() - 1;
    if let Some(at) =
        out.as_bytes()[seam.saturating_sub(longest)..].iter().rposition(|&byte| byte == b'<')
    {
        let at = seam.saturating_sub(longest) + at;
        let tail = &out[at..];
        let continues = ["<mcp:", "</mcp:"].into_iter().any(|tag| {
            let Some((begun, missing)) = tag.split_at_checked(tail.len()) else { return false };
            tail.eq_ignore_ascii_case(begun)
                && text
                    .get(..missing.len())
                    .is_some_and(|found| found.eq_ignore_ascii_case(missing))
        });
        if continues {
            out.replace_range(at..=at, "&#60;");
        }
    }
    let mut from = 0;
    for at in tags(text).collect::<std::collections::BTreeSet<_>>() {
        out.push_str(&text[from..at]);
        push_entity(b'<', out);
        from = at + 1;
    }
    out.push_str(&text[from..]);
}

fn push_entity(byte: u8, out: &mut String) {
    out.push_str("&#");
    out.push_str(&byte.to_string());
    out.push(';');
}
