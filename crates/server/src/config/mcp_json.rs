//! `mcp.json` files as other clients write them: Claude Desktop, Claude Code, Cursor, Windsurf (`mcpServers`), VS Code (`servers`).
//!
//! Clients differ in their extra keys, so an unknown one is reported and passed over rather than refused.

use indexmap::IndexMap;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::{
    ConfigError, Transport, UpstreamConfig,
    error::nearest,
    expand::Variables,
    locate::{json_members, offset_in},
    upstream::{TransportFault, TransportParts},
};

/// What such a file holds.
#[derive(Debug)]
pub(crate) struct McpJson {
    pub(crate) servers: IndexMap<String, UpstreamConfig>,
    /// One sentence for everything that was passed over.
    pub(crate) warnings: Vec<String>,
}

const SERVER_KEYS: [&str; 8] =
    ["command", "args", "env", "cwd", "url", "headers", "type", "disabled"];

/// Reads a file's text; `file` is what errors call it, and `disabled` are servers that something else says not to start.
pub(crate) fn parse(
    text: &str,
    file: &str,
    variables: Variables<'_>,
    disabled: &dyn Fn(&str) -> bool,
) -> Result<McpJson, ConfigError> {
    let text = &without_comments(text);
    let reader = Reader { text, file };
    let mut warnings = Vec::new();
    let root: IndexMap<String, &RawValue> = serde_json::from_str(text).map_err(|error| {
        let problem = json_problem(&error, "an object with \"mcpServers\"");
        ConfigError { place: Some(place_of(&error)), ..ConfigError::of_file(file, problem) }
    })?;
    let Some((section, servers)) =
        ["mcpServers", "servers"].into_iter().find_map(|key| root.get_key_value(key))
    else {
        let keys: Vec<&str> = root.keys().map(String::as_str).collect();
        let near = ["mcpServers", "servers"].into_iter().find_map(|key| nearest(key, &keys));
        let hint = near.map(|near| format!(" instead of {near:?}")).unwrap_or_default();
        return Err(ConfigError::of_file(file, format!("expected \"mcpServers\"{hint}")));
    };
    let entries = reader.members(&[section], servers)?;

    let mut servers = IndexMap::new();
    for (name, entry) in entries {
        let server = ServerReader { reader, section, name: &name };
        let upstream = server.read(entry, variables, disabled(&name), &mut warnings)?;
        servers.insert(name, upstream);
    }
    Ok(McpJson { servers, warnings })
}

#[derive(Clone, Copy)]
struct Reader<'t> {
    text: &'t str,
    file: &'t str,
}

impl<'t> Reader<'t> {
    fn error(self, key: &[&str], value: &RawValue, problem: impl Into<String>) -> ConfigError {
        ConfigError::of_key(self.file, self.text, offset_in(self.text, value.get()), key, problem)
    }

    fn members(
        self,
        key: &[&str],
        value: &'t RawValue,
    ) -> Result<IndexMap<String, &'t RawValue>, ConfigError> {
        json_members(value.get())
            .ok_or_else(|| self.error(key, value, "expected an object by server name"))
    }
}

#[derive(Clone, Copy)]
struct ServerReader<'t> {
    reader: Reader<'t>,
    section: &'t str,
    name: &'t str,
}

impl<'t> ServerReader<'t> {
    fn read(
        self,
        entry: &'t RawValue,
        variables: Variables<'_>,
        disabled: bool,
        warnings: &mut Vec<String>,
    ) -> Result<UpstreamConfig, ConfigError> {
        let Reader { file, .. } = self.reader;
        let key = [self.section, self.name];
        let members = json_members(entry.get()).ok_or_else(|| {
            self.reader.error(&key, entry, "expected an object with \"command\" or \"url\"")
        })?;
        for unknown in members.keys().filter(|key| !SERVER_KEYS.contains(&key.as_str())) {
            let hint = nearest(unknown, &SERVER_KEYS)
                .map(|near| format!("; did you mean {near:?}?"))
                .unwrap_or_default();
            warnings
                .push(format!("{file}: server {:?}: key {unknown:?} is not used{hint}", self.name));
        }
        let disabled =
            disabled || self.get(&members, "disabled", "true or false")?.unwrap_or(false);
        let transport = match self.transport(entry, &members) {
            Ok(transport) => transport,
            // What is not started may be at fault.
            Err(_) if disabled => Transport::Elsewhere,
            Err(fault) => return Err(fault),
        };
        if let Transport::Unsupported { problem } = &transport
            && !disabled
        {
            warnings.push(format!("{file}: server {:?} cannot be reached: {problem}", self.name));
        }
        let mut upstream = UpstreamConfig { disabled, ..UpstreamConfig::new(transport) };
        if !disabled && let Err((path, problem)) = upstream.prepare(variables) {
            let value = members.get(path[0].as_str()).copied().unwrap_or(entry);
            let inner = path.get(1).and_then(|name| json_members(value.get())?.get(name).copied());
            let path = [self.section, self.name].into_iter().chain(path.iter().map(String::as_str));
            let path: Vec<&str> = path.collect();
            return Err(self.reader.error(&path, inner.unwrap_or(value), problem));
        }
        Ok(upstream)
    }

    fn transport(
        self,
        entry: &'t RawValue,
        members: &IndexMap<String, &'t RawValue>,
    ) -> Result<Transport, ConfigError> {
        let parts = TransportParts {
            kind: self.get(members, "type", "a string")?,
            command: self.get(members, "command", "a string")?,
            args: self.get(members, "args", "an array of strings")?,
            env: self.get(members, "env", "an object of strings")?,
            cwd: self.get(members, "cwd", "a string")?,
            url: self.get(members, "url", "a string")?,
            headers: self.get(members, "headers", "an object of strings")?,
        };
        match parts.build() {
            Ok(transport) => Ok(transport),
            // The file belongs to other clients, which may know more ways.
            Err(fault @ TransportFault::Unknown(_)) => {
                Ok(Transport::Unsupported { problem: fault.to_string() })
            }
            Err(fault) => {
                Err(self.reader.error(&[self.section, self.name], entry, fault.to_string()))
            }
        }
    }

    /// A member's value; `null` counts as absent.
    fn get<T: DeserializeOwned>(
        self,
        members: &IndexMap<String, &'t RawValue>,
        key: &str,
        expected: &str,
    ) -> Result<Option<T>, ConfigError> {
        let Some(value) = members.get(key) else { return Ok(None) };
        serde_json::from_str(value.get()).map_err(|_| {
            let path = [self.section, self.name, key];
            self.reader.error(&path, value, format!("expected {expected}"))
        })
    }
}

fn place_of(error: &serde_json::Error) -> super::Place {
    super::Place { line: error.line(), column: error.column().max(1) }
}

/// serde_json's message without its place, which the error has for itself.
fn json_problem(error: &serde_json::Error, expected: &str) -> String {
    if error.is_data() {
        return format!("expected {expected}");
    }
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or(&message);
    format!("not valid JSON: {message}")
}

/// The text with comments and trailing commas blanked out, as editors allow them in these files; every other byte keeps its place.
fn without_comments(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    if text.starts_with('\u{feff}') {
        bytes[..3].fill(b' ');
    }
    let mut comma = None;
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'"', _) => {
                comma = None;
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            (b'/', Some(b'/')) => {
                let end = bytes[at..].iter().position(|&b| b == b'\n');
                let end = end.map_or(bytes.len(), |length| at + length);
                bytes[at..end].fill(b' ');
                at = end;
            }
            (b'/', Some(b'*')) => {
                let end = bytes[at + 2..].windows(2).position(|pair| pair == b"*/");
                let end = end.map_or(bytes.len(), |length| at + 2 + length + 2);
                // Line ends stay, so that places after the comment stay true.
                bytes[at..end].iter_mut().filter(|b| **b != b'\n').for_each(|b| *b = b' ');
                at = end;
            }
            (b',', _) => {
                comma = Some(at);
                at += 1;
            }
            (b'}' | b']', _) => {
                if let Some(comma) = comma.take() {
                    bytes[comma] = b' ';
                }
                at += 1;
            }
            (byte, _) => {
                if !byte.is_ascii_whitespace() {
                    comma = None;
                }
                at += 1;
            }
        }
    }
    String::from_utf8(bytes).expect("only whole comments and ASCII bytes became spaces")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn parsed(text: &str) -> Result<McpJson, ConfigError> {
        parse(text, "mcp.json", &|name| (name == "HOME").then(|| "/home/me".to_owned()), &|name| {
            name == "known-off"
        })
    }

    /// One line an error, in the order of `texts`.
    #[track_caller]
    fn check(texts: &[&str], want: Expect) {
        let error = |text: &&str| parsed(text).unwrap_err();
        want.assert_eq(&texts.iter().map(|text| format!("{}\n", error(text))).collect::<String>());
    }

    #[test]
    fn servers_of_every_kind() {
        let text = r#"{
            // As an editor writes it.
            "mcpServers": {
                "fs": {"command": "npx", "args": ["-y", "${HOME}/x"], "env": {"A": "${B:-b}"}, "cwd": null},
                "web": {"type": "streamable-http", "url": "http://127.0.0.1:1/mcp", "headers": {"X": "y"}},
                "off": {"command": "${NOT_SET}", "disabled": true}, /* the last one, */
            }
        }"#;
        let servers = parsed(text).unwrap().servers;
        assert_eq!(servers.keys().collect::<Vec<_>>(), ["fs", "web", "off"]);
        let Transport::Stdio { args, env, cwd, .. } = &servers["fs"].transport else { panic!() };
        assert_eq!((args[1].as_str(), env["A"].as_str(), cwd), ("/home/me/x", "b", &None));
        assert_eq!(servers["web"].transport.kind(), "http");
        assert!(servers["off"].disabled);
    }

    #[test]
    fn the_form_of_vs_code() {
        let text = r#"{"inputs": [], "servers": {"a": {"type": "stdio", "command": "x"}}}"#;
        assert_eq!(parsed(text).unwrap().servers.len(), 1);
    }

    #[test]
    fn keys_of_other_clients_are_warnings() {
        let text = r#"{"mcpServers": {"a": {"command": "x", "autoApprove": [], "comand": "y"}}}"#;
        let warnings = parsed(text).unwrap().warnings.join("\n");
        expect![[r#"
            mcp.json: server "a": key "autoApprove" is not used
            mcp.json: server "a": key "comand" is not used; did you mean "command"?"#]]
        .assert_eq(&warnings);
    }

    #[test]
    fn what_is_not_started_may_be_at_fault() {
        let text = r#"{"mcpServers": {
            "a": {"command": "x", "url": "http://x", "disabled": true},
            "b": {"args": "-y", "disabled": true},
            "c": {"type": "ws", "disabled": true},
            "known-off": {"command": "${NOT_SET}", "url": "http://x"}
        }}"#;
        let McpJson { servers, warnings } = parsed(text).unwrap();
        assert!(servers.len() == 4 && servers.values().all(|server| server.disabled));
        assert_eq!(warnings, Vec::<String>::new());
    }

    #[test]
    fn a_type_that_only_others_know_is_a_warning() {
        let text =
            r#"{"mcpServers": {"a": {"type": "ws", "url": "ws://x"}, "b": {"command": "x"}}}"#;
        let McpJson { servers, warnings } = parsed(text).unwrap();
        let kinds: Vec<_> = servers.values().map(|server| server.transport.kind()).collect();
        assert_eq!(kinds, ["unsupported", "stdio"]);
        expect![[r#"mcp.json: server "a" cannot be reached: unknown type "ws"; expected "stdio", "http", "streamable-http" or "sse""#]]
            .assert_eq(&warnings.join("\n"));
    }

    #[test]
    fn errors_name_file_place_server_and_key() {
        check(
            &[
                "{\n \"mcpServers\": {\"a\"}}",
                "[]",
                r#"{"mcpServer": {}}"#,
                r#"{"mcpServers": []}"#,
                "{\"mcpServers\": {\n  \"a\": \"x\"}}",
                r#"{"mcpServers": {"a": {"args": []}}}"#,
                r#"{"mcpServers": {"a": {"command": "x", "args": "-y"}}}"#,
                "{\"mcpServers\": {\n  \"a\": {\"command\": \"x\",\n    \"env\": {\"K\": \"${NOT_SET}\"}}}}",
                r#"{"mcpServers": {"a": {"command": "x", "url": "http://x"}}}"#,
                r#"{"mcpServers": {"a": {"url": "127.0.0.1:80/mcp"}}}"#,
                r#"{"mcpServers": {"a": {"url": "http://x", "headers": {"a b": "c"}}}}"#,
            ],
            expect![[r#"
                mcp.json:2:20: not valid JSON: expected `:`
                mcp.json:1:1: expected an object with "mcpServers"
                mcp.json: expected "mcpServers" instead of "mcpServer"
                mcp.json:1:16: mcpServers: expected an object by server name
                mcp.json:2:8: mcpServers.a: expected an object with "command" or "url"
                mcp.json:1:22: mcpServers.a: expected "command" (a program) or "url" (a server)
                mcp.json:1:47: mcpServers.a.args: expected an array of strings
                mcp.json:3:18: mcpServers.a.env.K: the environment variable NOT_SET is not set; set it, or give a default with ${NOT_SET:-…}
                mcp.json:1:22: mcpServers.a: both "command" and "url" are given; expected one of them
                mcp.json:1:30: mcpServers.a.url: expected a URL that begins with http:// or https://
                mcp.json:1:61: mcpServers.a.headers."a b": not a header's name
            "#]],
        );
    }

    #[test]
    fn comments_leave_every_other_byte_in_place() {
        for (text, want) in [
            (r#"{"a//b": "/* c */"}"#, r#"{"a//b": "/* c */"}"#),
            ("{} // x\n1", "{}     \n1"),
            ("[1, /* ü\n */ ]", "[1       \n    ]"),
            ("[1,2,]", "[1,2 ]"),
            (r#"["\",]"]"#, r#"["\",]"]"#),
            ("/*", "  "),
            ("\"", "\""),
            ("\"\\", "\"\\"),
        ] {
            assert_eq!(without_comments(text), want, "{text}");
        }
    }
}
