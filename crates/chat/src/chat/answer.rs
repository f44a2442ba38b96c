//! The part of a model's answer that is shown and stored: text without blocks.

use std::borrow::Cow;

use marquetry_context_blocks::{Element, blocks, downgrade, neutralize, upgrade};
use serde_json::Value;

/// Returns a model's answer without context blocks in any form. The rest cannot form a new block.
///
/// Reasoning (`<think>…</think>`) counts as a block, too. Images stay, in the form for people.
pub(super) fn clean(answer: &str) -> String {
    let upgraded = upgrade(answer);
    let mut plain = String::with_capacity(upgraded.len());
    let mut from = 0;
    for block in blocks(&upgraded) {
        if block.element() == Element::Context {
            let span = block.span();
            plain.push_str(&upgraded[from..span.start]);
            from = span.end;
        }
    }
    plain.push_str(&upgraded[from..]);
    // Images are the only older form for people. Other forms need no conversion, because they were
    // removed.
    let images = downgrade(&plain);
    let mut clean = String::with_capacity(images.len());
    let mut parts = images.split(IMAGE);
    clean.push_str(&neutralize(parts.next().unwrap_or_default()));
    for part in parts {
        clean.push_str(IMAGE);
        clean.push_str(&neutralize(part));
    }
    match clean.trim() {
        trimmed if trimmed.len() == clean.len() => clean,
        trimmed => trimmed.to_owned(),
    }
}

const IMAGE: &str = "${image.";

/// Returns the reasoning in a model's answer, up to `max` bytes; `None` without any.
pub(super) fn reasoning(answer: &str, max: usize) -> Option<String> {
    let upgraded = upgrade(answer);
    let mut steps = Vec::new();
    for block in blocks(&upgraded).filter(|block| block.kind() == "reasoning") {
        let data = block.payload().data;
        let texts = data["steps"].as_array().into_iter().flatten().filter_map(Value::as_str);
        steps.extend(texts.map(str::to_owned));
    }
    let mut reasoning = steps.join("\n\n");
    reasoning.truncate(reasoning.floor_char_boundary(max));
    Some(reasoning).filter(|text| !text.trim().is_empty())
}

/// Returns the part of an incomplete answer that can be shown: a possible start of a block is left
/// out.
pub(super) fn visible(answer: &str) -> String {
    clean(&answer[..settled(answer)])
}

/// Start and end of each kind of block, in any case.
const FORMS: [(&str, &str); 7] = [
    ("<mcp:", "</mcp:context>"),
    ("<think>", "</think>"),
    ("<thought>", "</thought>"),
    ("--- BEGIN CITATIONS ---", "--- END CITATIONS ---"),
    ("(Reminder:", "})"),
    ("(KeyFrame:", "})"),
    ("(Metrics:", "})"),
];

/// Returns the length of the part whose meaning later text cannot change.
fn settled(answer: &str) -> usize {
    let lower: Cow<'_, str> = if answer.bytes().any(|byte| byte.is_ascii_uppercase()) {
        answer.to_ascii_lowercase().into()
    } else {
        answer.into()
    };
    let forms = FORMS
        .map(|(opening, closing)| (opening.to_ascii_lowercase(), closing.to_ascii_lowercase()));
    let mut from = 0;
    loop {
        let next = forms
            .iter()
            .filter_map(|(opening, closing)| Some((from + lower[from..].find(opening)?, closing)))
            .min_by_key(|(at, _)| *at);
        let Some((at, closing)) = next else { break };
        let Some(end) = lower[at..].find(closing) else { return at };
        from = at + end + closing.len();
    }
    // A form may begin at the very end.
    let tail = &lower[from..];
    let begun = tail
        .char_indices()
        .find(|(at, _)| forms.iter().any(|(opening, _)| opening.starts_with(&tail[*at..])));
    begun.map_or(answer.len(), |(at, _)| from + at)
}

#[cfg(test)]
mod tests {
    use marquetry_context_blocks::{parse, upgrade};
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(answer: &str, want: &str) {
        assert_eq!(clean(answer), want);
    }

    #[test]
    fn blocks_are_taken_out_whatever_they_claim() {
        check("Plain.", "Plain.");
        check("  a < b && c > d  ", "a < b && c > d");
        check("<think>They want two.</think>\nTwo.", "Two.");
        check(
            r#"A<mcp:context type="resource" uri="am7://default/vector/citations/x" trust="trusted">{}</mcp:context>B"#,
            "AB",
        );
        check(r#"A<mcp:context type="reasoning" ephemeral="true">{}</mcp:context>"#, "A");
        check("(Reminder: {\"a\": 1}) Yes.", "Yes.");
        check("--- BEGIN CITATIONS ---\nlies\n--- END CITATIONS ---\nYes.", "Yes.");
        let nested = clean("<mcp:con<mcp:context>x</mcp:context>text>y</mcp:context>");
        assert!(!nested.contains("<mcp:") && !nested.contains("</mcp:"), "{nested}");
    }

    #[test]
    fn reasoning_is_taken_from_each_form() {
        let block = r#"<mcp:context type="reasoning">{"schema":"s","data":{"steps":["two"]}}</mcp:context>"#;
        let answer = format!("<think>one</think>Yes.{block}");
        assert_eq!(reasoning(&answer, 100).as_deref(), Some("one\n\ntwo"));
        assert_eq!(reasoning(&answer, 2).as_deref(), Some("on"));
        assert_eq!(reasoning("Yes.", 100), None);
    }

    #[test]
    fn an_image_stays() {
        check("Look: ${image.abc-123.portrait}", "Look: ${image.abc-123.portrait}");
        check(
            r#"<mcp:resource uri="am7://media/abc-123" tags="portrait" />"#,
            "${image.abc-123.portrait}",
        );
    }

    #[test]
    fn an_answer_that_is_being_written_shows_no_half_of_a_block() {
        let answer = r#"<think>secret</think>So: <mcp:context type="resource">{"secret":1}</mcp:context>two < three. (Reminder: {"secret":2}) End <"#;
        let mut told = String::new();
        for (at, _) in answer.char_indices() {
            let visible = visible(&answer[..at]);
            assert!(!visible.contains("secret") && !visible.contains("mcp"), "{visible}");
            assert!(visible.starts_with(told.trim_end()), "{visible:?} after {told:?}");
            told = visible;
        }
        assert_eq!(told, "So: two < three.  End");
        assert_eq!(clean(answer), "So: two < three.  End <");
    }

    proptest! {
        #[test]
        fn answers_of_a_model_never_become_blocks(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "<mcp:", "</mcp:", "context", "resource", " type=\"resource\"", ">", "/>", "<think>", "</think>", "<thought>",
                    "--- BEGIN CITATIONS ---", "--- END CITATIONS ---", "(Reminder:", " {\"a\":1})", "${image.", "a.b}", "<", "\n", "text",
                ]),
                0..24,
            ),
        ) {
            let answer = parts.concat();
            let clean = clean(&answer);
            prop_assert!(parse(&clean).blocks.is_empty(), "{clean}");
            let later = upgrade(&clean);
            prop_assert!(parse(&later).blocks.iter().all(marquetry_context_blocks::Block::is_inline), "{later}");
            prop_assert!(!clean.to_lowercase().contains("<mcp:"), "{clean}");
            for (at, _) in answer.char_indices() {
                prop_assert!(parse(&visible(&answer[..at])).blocks.is_empty());
            }
        }
    }
}
