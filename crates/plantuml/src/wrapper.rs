//! Removes and restores the lines `@startuml` and `@enduml`. Servers restore them in codes without
//! them, which saves 14 % of the URL of a small diagram.

use crate::source::is_blank;

/// Returns the lines between a bare wrapper; `None` if `text` must stay unchanged.
///
/// The wrapper is bare when the first line is exactly `@startuml`, the last is exactly `@enduml`,
/// and no other line starts or ends a diagram. Line ends next to the wrapper are removed, as
/// PlantUML does. A blank body stays wrapped: its code would be empty and start with `0`.
pub(crate) fn strip(text: &str) -> Option<&str> {
    let after_start = text.strip_prefix("@startuml")?;
    let lines = after_start.strip_prefix('\n').or_else(|| after_start.strip_prefix("\r\n"))?;
    let to_end = without_line_end(lines).unwrap_or(lines);
    let body = without_line_end(to_end.strip_suffix("@enduml")?)?;
    (!is_blank(body) && !body.contains("@start") && !body.contains("@end")).then_some(body)
}

/// Wraps `text`, unless one of its lines starts a diagram of any kind.
///
/// PlantUML also removes white space around the text and names after `@startuml`; this function
/// keeps both.
pub(crate) fn restore(text: String) -> String {
    if text.lines().any(|line| line.trim_start().starts_with("@start")) {
        return text;
    }
    let line_end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("@startuml\n{text}{line_end}@enduml")
}

fn without_line_end(text: &str) -> Option<&str> {
    let text = text.strip_suffix('\n')?;
    Some(text.strip_suffix('\r').unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_wrapper_is_removed() {
        #[track_caller]
        fn check(text: &str, body: &str) {
            assert_eq!(strip(text), Some(body), "{text:?}");
        }
        check("@startuml\nA --> B\n@enduml", "A --> B");
        check("@startuml\nA --> B\n@enduml\n", "A --> B");
        check("@startuml\r\nA --> B\r\nB --> C\r\n@enduml\r\n", "A --> B\r\nB --> C");
        check("@startuml\n\n  A\n\n@enduml", "\n  A\n");
        check("@startuml\nuser@work\n@enduml", "user@work");
    }

    #[test]
    fn other_text_stays_unchanged() {
        for text in [
            "A --> B",
            "@startuml",
            "@startuml\n@enduml",
            "@startuml\n\n@enduml",
            "@startuml\n \u{feff}\n@enduml",
            "@startuml name\nA\n@enduml",
            "@startuml \nA\n@enduml",
            "@STARTUML\nA\n@ENDUML",
            " @startuml\nA\n@enduml",
            "\n@startuml\nA\n@enduml",
            "\u{feff}@startuml\nA\n@enduml",
            "@startuml\nA\n@enduml ",
            "@startuml\nA\n @enduml",
            "@startuml\nA\n@enduml\n\n",
            "@startuml\nA@enduml",
            "@startuml\nA\n@endumlx",
            "@startuml\rA\r@enduml",
            "@startuml\nA\n@enduml\n@startuml\nB\n@enduml",
            "@startuml\nnote: @start here\n@enduml",
            "@startuml\nuser@endeavour\n@enduml",
            "@startmindmap\n* a\n@endmindmap",
        ] {
            assert_eq!(strip(text), None, "{text:?}");
        }
    }

    #[test]
    fn text_without_a_start_is_wrapped() {
        #[track_caller]
        fn check(text: &str, want: &str) {
            assert_eq!(restore(text.to_owned()), want);
        }
        check("A --> B", "@startuml\nA --> B\n@enduml");
        check("A --> B\n", "@startuml\nA --> B\n@enduml");
        check("", "@startuml\n@enduml");
        check("note: @start here", "@startuml\nnote: @start here\n@enduml");
        check("@startuml\nA\n@enduml", "@startuml\nA\n@enduml");
        check("\n  @startmindmap\n* a\n@endmindmap", "\n  @startmindmap\n* a\n@endmindmap");
        check("' why\n@startuml\nA\n@enduml", "' why\n@startuml\nA\n@enduml");
    }
}
