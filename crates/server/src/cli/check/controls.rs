//! Rules, profiles, questions, audit, metrics and search in the report of `marquetry check`.

use marquetry_config::{
    Config,
    sections::{Glob, ToolSearchMode},
};
use marquetry_printable::printable_line;

use super::count;

/// Describes these settings, one on a line. Settings that are off have no line.
pub(super) fn summary(config: &Config) -> String {
    let mut lines = Vec::new();
    let rules = config.policy.rules.len();
    if rules > 0 {
        lines.push(("policy", count(rules, "rule")));
    }
    if !config.profiles.is_empty() {
        let names: Vec<&str> = config.profiles.keys().map(String::as_str).collect();
        lines.push(("profiles", names.join(", ")));
    }
    let asking: Vec<String> = config.ask.rules().settings().collect();
    if !asking.is_empty() {
        lines.push(("ask", asking.join(", ")));
    }
    if let Some(path) = &config.audit.path {
        lines.push(("audit", path.display().to_string()));
    }
    if let Some(listen) = config.metrics.listen {
        lines.push(("metrics", format!("http://{listen}/metrics")));
    }
    let search = &config.tools.search;
    let mode = match search.mode {
        ToolSearchMode::Off => None,
        ToolSearchMode::Auto => {
            Some(format!("auto, for a list above {} tokens", search.threshold_tokens))
        }
        ToolSearchMode::On => Some("on".to_owned()),
    };
    if let Some(mode) = mode {
        let always: Vec<&str> = search.always.iter().map(Glob::as_str).collect();
        let always = match always.as_slice() {
            [] => String::new(),
            always => format!("; always listed: {}", always.join(", ")),
        };
        lines.push(("search", format!("{mode}{always}")));
    }
    let lines = lines.iter();
    lines.map(|(name, text)| format!("{name:9}  {}\n", printable_line(text))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_are_on_have_a_line() {
        assert_eq!(summary(&Config::default()), "");
        let toml = "ask.when = 'destructive'\naudit.path = \"/v/a\\u001b.jsonl\"\n\
                    metrics.listen = '127.0.0.1:9464'\n\
                    tools.search = { mode = 'auto', always = ['read_*'] }\n\
                    profiles.reading = {}\n[[policy.rules]]\nask = 'always'\n";
        let config = Config::from_toml(toml, "t").unwrap();
        expect_test::expect![[r#"
            policy     1 rule
            profiles   reading
            ask        ask.when = "destructive"
            audit      /v/a\u{1b}.jsonl
            metrics    http://127.0.0.1:9464/metrics
            search     auto, for a list above 10000 tokens; always listed: read_*
        "#]]
        .assert_eq(&summary(&config));
    }
}
