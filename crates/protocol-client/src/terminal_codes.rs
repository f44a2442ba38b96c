//! Codes for a terminal around a message.

/// Returns a line without codes for a terminal at both ends. Programs that take standard output for
/// a terminal clear the line, hide the cursor or set a title there.
pub(super) fn without_terminal_codes(line: &str) -> &str {
    // JSON has no escape character: in strings it is written as `\u001b`.
    if !line.contains(ESCAPE) {
        return line;
    }
    let message = after_codes(line);
    let (message, codes) = message.split_at(message.find(ESCAPE).unwrap_or(message.len()));
    if after_codes(codes).is_empty() { message } else { line }
}

const ESCAPE: char = '\u{1b}';

fn after_codes(text: &str) -> &str {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c != ESCAPE && (c.is_control() || c == ' '));
        match rest.strip_prefix(ESCAPE).and_then(after_code) {
            Some(after) => rest = after,
            None => return rest,
        }
    }
}

/// Returns the text after a code whose escape character was removed (ECMA-48); [`None`] if the code
/// has no end.
fn after_code(code: &str) -> Option<&str> {
    let first = code.chars().next()?;
    let rest = &code[first.len_utf8()..];
    match first {
        // Colours, movements of the cursor.
        '[' => {
            let end = rest.find(|c| !matches!(c, ' '..='?'))?;
            matches!(rest[end..].chars().next(), Some('@'..='~')).then(|| &rest[end + 1..])
        }
        // Titles and links end with a bell, too.
        ']' | 'P' | 'X' | '^' | '_' => {
            let end = rest.find(['\u{7}', ESCAPE])?;
            let after = &rest[end..];
            after.strip_prefix('\u{7}').or_else(|| after.strip_prefix("\u{1b}\\"))
        }
        ' '..='~' => {
            let end = code.find(|c| !matches!(c, ' '..='/'))?;
            let last = code[end..].chars().next()?;
            Some(&code[end + last.len_utf8()..])
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn codes_at_both_ends_are_left_out() {
        for (line, want) in [
            ("{\"a\":1}", "{\"a\":1}"),
            ("\u{1b}[2K\u{1b}[1G{\"a\":[1]}", "{\"a\":[1]}"),
            ("\u{1b}[?25l \u{1b}]0;a title\u{7}{}\u{1b}[0m\r", "{}"),
            ("\u{7}\u{1b}]8;;http://a\u{1b}\\{}", "{}"),
            ("\u{1b}(B\u{1b}7{}", "{}"),
            ("{}\u{1b}]2;[}\u{7}", "{}"),
            // A text between codes and message is no code, and stays.
            ("\u{1b}[32mINFO\u{1b}[0m {}", "\u{1b}[32mINFO\u{1b}[0m {}"),
            ("\u{1b}[", "\u{1b}["),
            ("\u{1b}]0;{}", "\u{1b}]0;{}"),
        ] {
            assert_eq!(without_terminal_codes(line), want, "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn a_message_between_codes_is_found(
            before in "(\u{1b}\\[[0-9;?]{0,5}[A-Za-z]|\u{1b}\\][a-z;]{0,9}\u{7}){0,4}",
            after in "(\u{1b}\\[[0-9;?]{0,5}[A-Za-z]|\u{1b}\\][a-z;]{0,9}\u{7}){0,4}",
        ) {
            let line = format!("{before}{{\"a\":\"b\"}}{after}");
            prop_assert_eq!(without_terminal_codes(&line), "{\"a\":\"b\"}");
        }

        #[test]
        fn any_text_is_taken(line in "[\u{1b}\\[\\]P()0-9mä{}\u{7}\\\\ ]{0,40}") {
            prop_assert!(line.contains(without_terminal_codes(&line)));
        }
    }
}
