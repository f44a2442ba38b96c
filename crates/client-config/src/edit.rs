//! Edits of a text that change one server and nothing else.

use serde_json::{Map, Value};

use crate::{json, toml, yaml};

pub use crate::error::EditError;

/// The syntax of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Syntax {
    /// JSON with comments and trailing commas.
    Json,
    /// TOML.
    Toml,
    /// YAML in block style.
    Yaml,
}

/// The place of the servers in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// The syntax of the file.
    pub syntax: Syntax,
    /// The key whose members are the servers.
    pub key: &'static str,
}

impl Section {
    /// Returns the entry of a server.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not valid.
    pub fn server(&self, text: &str, name: &str) -> Result<Option<Value>, EditError> {
        match self.syntax {
            Syntax::Json => json::get(text, &[self.key, name]),
            Syntax::Toml => Ok(member(&toml::value_of(text)?, self.key, name)),
            Syntax::Yaml => Ok(member(&yaml::value_of(text)?, self.key, name)),
        }
    }

    /// Returns whether the text has the section, even an empty one.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not valid.
    pub fn exists(&self, text: &str) -> Result<bool, EditError> {
        Ok(self.value_of(text)?.get(self.key).is_some())
    }

    /// Returns the text with this entry for a server; an older entry is replaced in its place.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not valid, or if it is written in a way that this crate
    /// cannot edit without changing something else.
    pub fn with_server(&self, text: &str, name: &str, entry: &Value) -> Result<String, EditError> {
        let before = self.value_of(text)?;
        if let Some(section) = before.get(self.key)
            && !section.is_object()
            && !(self.syntax == Syntax::Yaml && section.is_null())
        {
            return Err(EditError::NotAnObject { path: self.key.to_owned() });
        }
        if self.server(text, name)?.as_ref() == Some(entry) {
            return Ok(text.to_owned());
        }
        let edited = match self.syntax {
            Syntax::Json => json::set(text, &[self.key, name], entry)?,
            Syntax::Toml => toml::set(text, self.key, name, entry)?,
            Syntax::Yaml => yaml::set(text, self.key, name, entry)?,
        };
        let mut wanted = before;
        let section = object_of(&mut wanted, self.key);
        let own = if self.syntax == Syntax::Json {
            json::with_source_scalars(entry)
        } else {
            entry.clone()
        };
        section.insert(name.to_owned(), own);
        self.verified(edited, &wanted)
    }

    /// Returns the text without the entry of a server; a missing one changes nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not valid, or if it is written in a way that this crate
    /// cannot edit without changing something else.
    pub fn without_server(&self, text: &str, name: &str) -> Result<String, EditError> {
        let mut wanted = self.value_of(text)?;
        let members = wanted.get_mut(self.key).and_then(Value::as_object_mut);
        let Some(members) = members else { return Ok(text.to_owned()) };
        if members.shift_remove(name).is_none() {
            return Ok(text.to_owned());
        }
        let edited = match self.syntax {
            Syntax::Json => json::remove(text, &[self.key, name])?,
            Syntax::Toml => toml::remove(text, self.key, name)?,
            Syntax::Yaml => yaml::remove(text, self.key, name)?,
        };
        self.verified(edited, &wanted)
    }

    /// Returns the text without the section if it has no servers.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not valid.
    pub fn without_empty_section(&self, text: &str) -> Result<String, EditError> {
        let mut wanted = self.value_of(text)?;
        let is_empty = match wanted.get(self.key) {
            Some(Value::Object(members)) => members.is_empty(),
            Some(Value::Null) => self.syntax == Syntax::Yaml,
            _ => false,
        };
        if !is_empty {
            return Ok(text.to_owned());
        }
        let edited = match self.syntax {
            Syntax::Json => json::remove(text, &[self.key])?,
            Syntax::Toml => toml::remove_empty_section(text, self.key)?,
            Syntax::Yaml => yaml::remove_empty_section(text, self.key),
        };
        if let Some(root) = wanted.as_object_mut() {
            root.shift_remove(self.key);
        }
        self.verified(edited, &wanted)
    }

    /// Refuses an edit after which the text has another value than the wanted one.
    fn verified(&self, edited: String, wanted: &Value) -> Result<String, EditError> {
        let found = self.value_of(&edited).map_err(|_| EditError::Unsafe)?;
        // TOML has no empty section: a table without members is there or not.
        let is_same = self.without_empty(found) == self.without_empty(wanted.clone());
        if is_same { Ok(edited) } else { Err(EditError::Unsafe) }
    }

    fn without_empty(&self, mut value: Value) -> Value {
        let section = value.get(self.key);
        let is_empty =
            section.is_some_and(|it| it.is_null() || it.as_object().is_some_and(Map::is_empty));
        if self.syntax != Syntax::Json
            && is_empty
            && let Some(root) = value.as_object_mut()
        {
            root.shift_remove(self.key);
        }
        value
    }

    fn value_of(&self, text: &str) -> Result<Value, EditError> {
        match self.syntax {
            Syntax::Json => json::value_of(text),
            Syntax::Toml => toml::value_of(text),
            Syntax::Yaml => yaml::value_of(text),
        }
    }
}

/// Adds a name to the list of strings at a path of a JSON text, if the list is there and lacks it.
///
/// # Errors
///
/// Returns an error if the text is not valid.
pub fn with_listed(text: &str, path: &[&str], name: &str) -> Result<String, EditError> {
    match json::get(text, path)? {
        Some(Value::Array(items)) if !items.iter().any(|item| item == name) => {
            json::add_item(text, path, name)
        }
        _ => Ok(text.to_owned()),
    }
}

/// Removes a name from the list of strings at a path of a JSON text.
///
/// # Errors
///
/// Returns an error if the text is not valid.
pub fn without_listed(text: &str, path: &[&str], name: &str) -> Result<String, EditError> {
    if json::is_blank(text) {
        return Ok(text.to_owned());
    }
    json::remove_item(text, path, name)
}

fn member(root: &Value, section: &str, name: &str) -> Option<Value> {
    root.get(section)?.get(name).cloned()
}

fn object_of<'v>(root: &'v mut Value, key: &str) -> &'v mut Map<String, Value> {
    if !root.is_object() {
        *root = Value::Object(Map::new());
    }
    let root = root.as_object_mut().expect("it was made an object above");
    let section = root.entry(key).or_insert(Value::Null);
    if !section.is_object() {
        *section = Value::Object(Map::new());
    }
    section.as_object_mut().expect("it was made an object above")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const JSON: Section = Section { syntax: Syntax::Json, key: "mcpServers" };
    const TOML: Section = Section { syntax: Syntax::Toml, key: "mcp_servers" };
    const YAML: Section = Section { syntax: Syntax::Yaml, key: "extensions" };

    fn entry() -> Value {
        json!({"command": "/bin/m", "args": ["stdio"]})
    }

    /// Checks the text after an entry `m` was added, and that its removal gives the text before.
    #[track_caller]
    fn check(section: Section, before: &str, after: &str) {
        let edited = section.with_server(before, "m", &entry()).unwrap();
        assert_eq!(edited, after);
        assert_eq!(section.with_server(&edited, "m", &entry()).as_ref(), Ok(&edited));
        assert_eq!(section.without_server(&edited, "m").as_deref(), Ok(before));
    }

    /// As [`check`], for a text whose section is new.
    #[track_caller]
    fn check_new(section: Section, before: &str, after: &str) {
        let edited = section.with_server(before, "m", &entry()).unwrap();
        assert_eq!(edited, after);
        let removed = section.without_server(&edited, "m").unwrap();
        assert_eq!(section.without_empty_section(&removed).as_deref(), Ok(before));
    }

    #[test]
    fn json_keeps_comments_commas_indentation_and_line_ends() {
        check(
            JSON,
            "{\n    // one\n    \"mcpServers\": {\n        \"a\": {} // two\n    }\n}\n",
            "{\n    // one\n    \"mcpServers\": {\n        \"a\": {}, // two\n        \"m\": {\n            \
             \"command\": \"/bin/m\",\n            \"args\": [\"stdio\"]\n        }\n    }\n}\n",
        );
        check(
            JSON,
            "\u{feff}{\r\n\t\"mcpServers\": {\r\n\t\t\"a\": 1,\r\n\t},\r\n}",
            "\u{feff}{\r\n\t\"mcpServers\": {\r\n\t\t\"a\": 1,\r\n\t\t\"m\": {\r\n\t\t\t\
             \"command\": \"/bin/m\",\r\n\t\t\t\"args\": [\"stdio\"]\r\n\t\t},\r\n\t},\r\n}",
        );
        check(
            JSON,
            "{\"mcpServers\": {\"a\": 1}, \"b\": 1e999}",
            "{\"mcpServers\": {\"a\": 1, \"m\": {\"command\": \"/bin/m\", \"args\": [\"stdio\"]}}, \
             \"b\": 1e999}",
        );
        check(
            JSON,
            "{\n  \"mcpServers\": {}\n}",
            "{\n  \"mcpServers\": {\n    \"m\": {\n      \"command\": \"/bin/m\",\n      \
             \"args\": [\"stdio\"]\n    }\n  }\n}",
        );
    }

    #[test]
    fn an_address_is_not_taken_for_a_comment() {
        check(
            JSON,
            r#"{"mcpServers": {"a": "https://a.example"}}"#,
            r#"{"mcpServers": {"a": "https://a.example", "m": {"command": "/bin/m", "args": ["stdio"]}}}"#,
        );
        check(
            JSON,
            r#"{"mcpServers": {}}"#,
            r#"{"mcpServers": {"m": {"command": "/bin/m", "args": ["stdio"]}}}"#,
        );
        let text = "{\"mcpServers\": {\"a\": 1, // one\n\"m\": 2}}";
        let want = "{\"mcpServers\": {\"a\": 1 // one\n}}";
        assert_eq!(JSON.without_server(text, "m").as_deref(), Ok(want));
    }

    #[test]
    fn json_gets_a_section() {
        check_new(
            JSON,
            "{\n  \"a\": \"\\ud800\" /* half a pair */\n}\n",
            "{\n  \"a\": \"\\ud800\", /* half a pair */\n  \"mcpServers\": {\n    \"m\": {\n      \
             \"command\": \"/bin/m\",\n      \"args\": [\"stdio\"]\n    }\n  }\n}\n",
        );
        for blank in ["", "\n", "\u{feff}"] {
            let edited = JSON.with_server(blank, "m", &entry()).unwrap();
            assert_eq!(JSON.server(&edited, "m"), Ok(Some(entry())), "{edited}");
        }
    }

    #[test]
    fn toml_keeps_everything_around_a_table() {
        check(
            TOML,
            "model = \"x\" # c\r\n\r\n[mcp_servers.a]\r\ncommand = \"y\"\r\n",
            "model = \"x\" # c\r\n\r\n[mcp_servers.a]\r\ncommand = \"y\"\r\n\r\n[mcp_servers.m]\r\n\
             command = \"/bin/m\"\r\nargs = [\"stdio\"]\r\n",
        );
        check_new(
            TOML,
            "a = 1\n",
            "a = 1\n\n[mcp_servers.m]\ncommand = \"/bin/m\"\nargs = [\"stdio\"]\n",
        );
        let scattered = "[mcp_servers.m]\ncommand = \"old\" # c\n\n[b]\nx = 1\n\n\
                         [mcp_servers.m.env]\nA = [\n  \"1\",\n]\n\n[c]\n";
        let edited = TOML.with_server(scattered, "m", &entry()).unwrap();
        assert_eq!(
            edited,
            "[mcp_servers.m]\ncommand = \"/bin/m\"\nargs = [\"stdio\"]\n\n[b]\nx = 1\n\n\n[c]\n"
        );
        let removed = TOML.without_server(scattered, "m").unwrap();
        assert_eq!(removed, "\n[b]\nx = 1\n\n[c]\n");
    }

    #[test]
    fn yaml_keeps_everything_around_an_entry() {
        check(
            YAML,
            "# top\nextensions:\n    a: # one\n        cmd: x\n\n    # last\nother: 1\n",
            "# top\nextensions:\n    a: # one\n        cmd: x\n    m:\n      command: /bin/m\n      \
             args: [stdio]\n\n    # last\nother: 1\n",
        );
        check(
            YAML,
            "extensions: {} # none\nb: 2\n",
            "extensions: # none\n  m:\n    command: /bin/m\n    args: [stdio]\nb: 2\n",
        );
        check_new(
            YAML,
            "a: 1\n",
            "a: 1\nextensions:\n  m:\n    command: /bin/m\n    args: [stdio]\n",
        );
        let replaced = "extensions:\n  m:\n    cmd: old\n    text: |\n      # text\n  z: {}\n";
        assert_eq!(
            YAML.with_server(replaced, "m", &entry()).unwrap(),
            "extensions:\n  m:\n    command: /bin/m\n    args: [stdio]\n  z: {}\n"
        );
    }

    #[test]
    fn texts_that_cannot_be_edited_are_refused() {
        for (section, text, want) in [
            (JSON, "{\"mcpServers\": []}", "\"mcpServers\" is not an object by name"),
            (JSON, "[]", "\"\" is not an object by name"),
            (
                JSON,
                "{'a': 1}",
                "line 1, column 2: expected a key in double quotes, or \"}\"; correct it, and run this again",
            ),
            (
                JSON,
                "{\"a\": 1 \"b\": 2}",
                "line 1, column 9: expected \",\" or the end of the list; correct it, and run this again",
            ),
            (
                JSON,
                "{\"mcpServers\": {}, \"mcpServers\": {}}",
                "the key \"mcpServers\" is given twice; remove one of them",
            ),
            (
                TOML,
                "mcp_servers = { a = { command = \"x\" } }",
                "\"mcp_servers\" is written as an inline table, which is not edited; change it by hand",
            ),
            (TOML, "mcp_servers = 1", "\"mcp_servers\" is not an object by name"),
            (
                YAML,
                "extensions: {a: {}}",
                "\"extensions\" is written in flow style, which is not edited; change it by hand",
            ),
            (
                YAML,
                "{extensions: {}}",
                "\"extensions\" is written in flow style, which is not edited; change it by hand",
            ),
            (
                YAML,
                "extensions: &x\n  a: {}\n",
                "\"extensions\" is written with an anchor or a tag, which is not edited; change it by hand",
            ),
            (
                YAML,
                "extensions:\n  a: &x {}\nb: *x\n",
                "\"extensions\" is written with an anchor, which is not edited; change it by hand",
            ),
        ] {
            let error = section.with_server(text, "m", &entry()).unwrap_err().to_string();
            assert_eq!(error, want, "{text}");
        }
        let deep = "[".repeat(1000);
        assert!(matches!(JSON.exists(&deep), Err(EditError::Syntax { .. })));
        assert!(matches!(YAML.exists("a: [\n"), Err(EditError::Syntax { .. })));
        assert!(matches!(TOML.exists("a = \n"), Err(EditError::Syntax { .. })));
    }

    #[test]
    fn names_are_added_to_lists() {
        for (before, after) in [
            (r#"{"mcp": {"allowed": ["a"]}}"#, r#"{"mcp": {"allowed": ["a", "m"]}}"#),
            (
                "{\"mcp\": {\"allowed\": [\n  \"a\", // x\n]}}",
                "{\"mcp\": {\"allowed\": [\n  \"a\", // x\n  \"m\",\n]}}",
            ),
        ] {
            let path = ["mcp", "allowed"];
            assert_eq!(with_listed(before, &path, "m").as_deref(), Ok(after));
            assert_eq!(with_listed(after, &path, "m").as_deref(), Ok(after));
            assert_eq!(without_listed(after, &path, "m").as_deref(), Ok(before));
        }
        assert_eq!(with_listed("{}", &["mcp", "allowed"], "m").as_deref(), Ok("{}"));
    }

    #[derive(Clone, Debug)]
    struct Layout {
        newline: &'static str,
        indent: &'static str,
        has_bom: bool,
        has_comma: bool,
        comments: Vec<u8>,
    }

    fn layouts() -> impl Strategy<Value = Layout> {
        (
            prop::sample::select(vec!["\n", "\r\n"]),
            prop::sample::select(vec!["  ", "    ", "\t"]),
            any::<bool>(),
            any::<bool>(),
            prop::collection::vec(0..4_u8, 4),
        )
            .prop_map(|(newline, indent, has_bom, has_comma, comments)| Layout {
                newline,
                indent,
                has_bom,
                has_comma,
                comments,
            })
    }

    fn names() -> impl Strategy<Value = Vec<String>> {
        prop::collection::btree_set("[a-l]{1,4}", 1..4).prop_map(|set| set.into_iter().collect())
    }

    fn json_text(names: &[String], layout: &Layout) -> String {
        let Layout { newline, indent, has_bom, has_comma, comments } = layout;
        let mut text = if *has_bom { "\u{feff}{".to_owned() } else { "{".to_owned() };
        text +=
            &format!("{newline}{indent}\"before\": [1, 2.50],{newline}{indent}\"mcpServers\": {{");
        for (at, name) in names.iter().enumerate() {
            let kind = comments[at % comments.len()];
            if kind == 1 {
                text += &format!("{newline}{indent}{indent}// about {name}");
            }
            text += &format!("{newline}{indent}{indent}\"{name}\": {{\"command\": \"x\"}}");
            if kind == 2 {
                text += " /* in between */";
            }
            if at + 1 < names.len() || *has_comma {
                text += ",";
            }
            if kind == 3 {
                text += " // at the end";
            }
        }
        text + &format!("{newline}{indent}}},{newline}{indent}\"after\": null{newline}}}{newline}")
    }

    fn toml_text(names: &[String], layout: &Layout) -> String {
        let Layout { newline, has_bom, comments, .. } = layout;
        let mut text = if *has_bom { "\u{feff}".to_owned() } else { String::new() };
        text += &format!("# top{newline}model = \"x\"{newline}");
        for (at, name) in names.iter().enumerate() {
            let kind = comments[at % comments.len()];
            text +=
                &format!("{newline}[mcp_servers.{name}] # {kind}{newline}command = \"x\"{newline}");
            if kind == 1 {
                text += &format!(
                    "[mcp_servers.{name}.env]{newline}A = '''{newline}[b]{newline}'''{newline}"
                );
            }
            if kind == 2 {
                text += &format!(
                    "{newline}# about the next{newline}[other_{name}]{newline}x = 1{newline}"
                );
            }
        }
        text
    }

    fn yaml_text(names: &[String], layout: &Layout) -> String {
        let Layout { newline, indent, comments, .. } = layout;
        let indent = if *indent == "\t" { " " } else { indent };
        let mut text = format!("before: 1 # c{newline}extensions: # d{newline}");
        for (at, name) in names.iter().enumerate() {
            let kind = comments[at % comments.len()];
            if kind == 1 {
                text += &format!("{newline}{indent}# about {name}{newline}");
            }
            text += &format!("{indent}{name}:{newline}{indent}{indent}cmd: x # e{newline}");
            if kind == 2 {
                text += &format!(
                    "{indent}{indent}note: |{newline}{indent}{indent}{indent}# m:{newline}"
                );
            }
        }
        text + &format!("after: [1]{newline}")
    }

    /// Returns the lines that belong to no server.
    fn kept_lines(text: &str) -> Vec<&str> {
        let marks = ["before", "after", "about"];
        text.lines().filter(|line| marks.iter().any(|mark| line.contains(mark))).collect()
    }

    /// Returns whether independent parsers find the same values beside the entry `m`. JSON with
    /// comments has none here.
    fn has_same_rest(section: Section, before: &str, after: &str) -> bool {
        match section.syntax {
            Syntax::Json => true,
            Syntax::Toml => {
                let old: ::toml::Table = ::toml::from_str(before).unwrap();
                let mut new: ::toml::Table = ::toml::from_str(after).unwrap();
                let servers = new.get_mut(section.key).and_then(::toml::Value::as_table_mut);
                servers.unwrap().remove("m");
                old == new
            }
            Syntax::Yaml => {
                let old: Value = serde_yaml::from_str(before).unwrap();
                let mut new: Value = serde_yaml::from_str(after).unwrap();
                new[section.key].as_object_mut().unwrap().shift_remove("m");
                old == new
            }
        }
    }

    proptest! {
        #[test]
        fn adding_and_removing_restores_every_byte(names in names(), layout in layouts()) {
            for (section, text) in [
                (JSON, json_text(&names, &layout)),
                (TOML, toml_text(&names, &layout)),
                (YAML, yaml_text(&names, &layout)),
            ] {
                let edited = section.with_server(&text, "m", &entry()).unwrap();
                prop_assert!(section.server(&edited, "m").unwrap() == Some(entry()));
                prop_assert!(has_same_rest(section, &text, &edited));
                prop_assert_eq!(section.without_server(&edited, "m").unwrap(), text);
            }
        }

        #[test]
        fn removing_others_keeps_the_rest(names in names(), layout in layouts(), at: prop::sample::Index) {
            let name = &names[at.index(names.len())];
            for (section, text) in [
                (JSON, json_text(&names, &layout)),
                (TOML, toml_text(&names, &layout)),
                (YAML, yaml_text(&names, &layout)),
            ] {
                let removed = section.without_server(&text, name).unwrap();
                prop_assert_eq!(section.server(&removed, name).unwrap(), None);
                for other in names.iter().filter(|other| *other != name) {
                    prop_assert!(section.server(&removed, other).unwrap().is_some());
                }
                // Lines that do not name the server stay in their order.
                prop_assert_eq!(kept_lines(&removed), kept_lines(&text));
            }
        }
    }
}
