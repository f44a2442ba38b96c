//! The functions of the fuzz targets in `fuzz/`, compiled only for them and for tests.

use serde_json::{Value, json};

use crate::edit::{Section, Syntax};

/// A function that handles one input.
pub type Target = fn(&[u8]);

/// The targets of this crate, by the names of their corpora.
pub const TARGETS: &[(&str, Target)] = &[("client_config", client_config)];

/// The sections that are edited, one for each syntax.
const SECTIONS: [Section; 3] = [
    Section { syntax: Syntax::Json, key: "mcpServers" },
    Section { syntax: Syntax::Toml, key: "mcp_servers" },
    Section { syntax: Syntax::Yaml, key: "extensions" },
];

/// Checks that any text is edited or refused, and that an entry that was added is found, and is
/// gone after it was removed. The edits compare all other values themselves.
pub fn client_config(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    for section in SECTIONS {
        check(text, section);
    }
}

fn check(text: &str, section: Section) {
    let entry = json!({"command": "/opt/m q", "args": ["stdio", "--x", "a\"\\b"], "on": true});
    let Ok(before) = section.server(text, "marquetry") else { return };
    let Ok(edited) = section.with_server(text, "marquetry", &entry) else { return };
    assert_eq!(section.server(&edited, "marquetry"), Ok(Some(entry.clone())));
    let again = section.with_server(&edited, "marquetry", &entry);
    assert_eq!(again.as_ref(), Ok(&edited), "a second edit changed something");
    let removed = section.without_server(&edited, "marquetry");
    if let Ok(removed) = removed {
        assert_eq!(section.server(&removed, "marquetry"), Ok(None::<Value>));
        let had_section = section.exists(text) == Ok(true);
        if before.is_none() && had_section {
            // The edit and its reverse may differ in white space around the section alone.
            assert_eq!(
                removed.split_whitespace().collect::<String>().replace("{}", ""),
                text.split_whitespace().collect::<String>().replace("{}", ""),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_corpus_is_replayed() {
        test_corpus::replay(TARGETS);
    }

    proptest! {
        #[test]
        fn any_text_is_handled(text in "(?s).{0,60}") {
            client_config(text.as_bytes());
        }

        #[test]
        fn texts_close_to_json_are_handled(text in r#"[{}\[\]",:/* \n1a]{0,40}"#) {
            client_config(text.as_bytes());
        }
    }
}
