//! Policies of `[artifacts]`: which apply, and which never can.

use expect_test::{Expect, expect};
use marquetry_artifacts::Settings;
use marquetry_config::Config;
use marquetry_gateway::GatewayOptions;

const SERVERS: &str = "[mcp_servers.github]\ncommand = 'x'\n[mcp_servers.gitlab]\ncommand = 'x'\n\
                       [mcp_servers.files]\ncommand = 'x'\ntools.raw.capture.save = true\n";

fn config(text: &str) -> Config {
    Config::from_toml(&format!("{SERVERS}{text}"), "m.toml").unwrap()
}

#[track_caller]
fn check(text: &str, want: Expect) {
    let warnings = config(text).unused_policies();
    want.assert_eq(&warnings.iter().map(|it| format!("{it}\n")).collect::<String>());
}

#[test]
fn policies_that_apply_are_fine() {
    check("", expect![""]);
    check("[[artifacts.policies]]\ncapture = false\n", expect![""]);
    check(
        "[[artifacts.policies]]\nserver = 'git*'\ntool = 'read_*'\ncapture = false\n\
         [[artifacts.policies]]\nserver = 'git*'\ncapture = { save = false }\n\
         [[artifacts.policies]]\ntool = 'read_file'\ncapture = true\n",
        expect![""],
    );
}

#[test]
fn policies_that_never_apply_are_named_with_the_reason() {
    check(
        "[[artifacts.policies]]\nserver = 'githup'\ncapture = false\n\
         [[artifacts.policies]]\nserver = 'db-*'\ncapture = false\n\
         [[artifacts.policies]]\nserver = 'git*'\ntool = 'read_*'\ncapture = false\n\
         [[artifacts.policies]]\nserver = 'github'\ntool = 'read_file'\ncapture = true\n\
         [[artifacts.policies]]\nserver = 'files'\ncapture = false\n\
         [[artifacts.policies]]\ntool = 'read_file'\ncapture = true\n\
         [[artifacts.policies]]\ntool = ''\ncapture = true\n",
        expect![[r#"
            m.toml:8:1: artifacts.policies[0]: no server is named "githup"; did you mean "github"?
            m.toml:11:1: artifacts.policies[1]: no server is named "db-*"
            m.toml:18:1: artifacts.policies[3]: never applies, because artifacts.policies[2] matches the same tools first
            m.toml:25:1: artifacts.policies[5]: never applies to github, gitlab, files, because earlier policies match the same tools first
            m.toml:28:1: artifacts.policies[6]: "tool" is empty; expected a name or a pattern such as "read_*"
        "#]],
    );
}

/// Returns the capture settings of a tool.
fn of(options: &GatewayOptions, server: &str, tool: &str) -> Option<Settings> {
    let upstream = options.upstreams.iter().find(|it| it.name == server).unwrap();
    upstream.capture.of(tool).cloned()
}

#[test]
fn the_first_policy_applies_below_the_settings_of_a_server() {
    let config = config(
        "[mcp_servers.off]\ncommand = 'x'\ncapture = false\ntools.on.capture.schema_max_keys = 3\n\
         [artifacts]\nmcp_tool_llm_return_max_bytes = 9000\n\
         [[artifacts.policies]]\nserver = 'git*'\ntool = 'read_*'\ncapture = { mcp_tool_llm_return_max_tokens = 70 }\n\
         [[artifacts.policies]]\nserver = 'git*'\ntool = '*_file'\ncapture = false\n\
         [[artifacts.policies]]\nserver = 'files'\ntool = 'r?w'\ncapture = { save = false, redact_values = true }\n\
         [[artifacts.policies]]\nserver = 'off'\ncapture = { save = false }\n",
    );
    assert_eq!(config.unused_policies(), [""; 0]);
    let options = config.gateway_options(&[]);
    let read = of(&options, "github", "read_file").unwrap();
    assert_eq!(read.mcp_tool_llm_return_max_tokens, Some(70));
    assert_eq!(read.mcp_tool_llm_return_max_bytes, 9000, "the other keys are those above");
    assert_eq!(of(&options, "gitlab", "write_file"), None);
    assert_eq!(of(&options, "gitlab", "list"), Some(config.artifacts.settings()));
    let raw = of(&options, "files", "raw").unwrap();
    assert!(raw.save && raw.redact_values, "a tool's own settings come last");
    assert!(!of(&options, "files", "row").unwrap().save);
    assert_eq!(of(&options, "off", "any"), None, "capture of the server overrides policies");
    let on = of(&options, "off", "on").unwrap();
    assert_eq!((on.schema_max_keys, on.save), (3, false));
}

#[test]
fn unknown_keys_of_policies_are_refused() {
    for (text, want) in [
        (
            "[[artifacts.policies]]\nservers = 'a'\ncapture = false\n",
            "m.toml:2:1: artifacts.policies.servers: unknown key; did you mean \"server\"?",
        ),
        (
            "[[artifacts.policies]]\ncapture = { saves = true }\n",
            "m.toml:2:13: artifacts.policies.capture.saves: unknown key; did you mean \"save\"?",
        ),
        ("[[artifacts.policies]]\nserver = 'a'\n", "missing"),
    ] {
        let error = Config::from_toml(text, "m.toml").unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
    }
}
