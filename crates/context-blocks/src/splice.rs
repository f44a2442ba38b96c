//! Joins text so that no tag of a block arises at a joint.

use crate::markup;

/// Returns the positions of opening and closing tags of blocks.
pub(crate) fn tags(text: &str) -> impl Iterator<Item = usize> {
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

/// Appends text between blocks with its tags escaped, including a tag that begins at the end of
/// `out`.
pub(crate) fn push_between(text: &str, out: &mut String) {
    // A block that was removed before this text may have been in the middle of a tag.
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

/// Appends the numeric entity of an ASCII character.
pub(crate) fn push_entity(byte: u8, out: &mut String) {
    out.push_str("&#");
    out.push_str(&byte.to_string());
    out.push(';');
}
