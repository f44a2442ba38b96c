//! Variables of the environment in the servers and models of cases.

use std::{cell::RefCell, path::Path};

use marquetry_client_files::{
    Variables,
    expand::{expand, workspace_of},
};
use marquetry_judge::TestCase;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Replaces `${VAR}` and `${VAR:-default}` in the servers and models of a case of this file, as in
/// an `mcp.json`. Prompts and checklists are left alone: they may be about variables.
///
/// With `may_miss`, a variable without a value stays as it is written: a replay starts no server
/// and calls no model.
///
/// # Errors
///
/// Returns an error if a variable is not set, or written wrongly.
pub(crate) fn expand_case(
    case: &mut TestCase,
    file: &Path,
    variables: Variables<'_>,
    may_miss: bool,
) -> Result<(), String> {
    let in_file = |name: &str| match name {
        "workspaceFolder" => Some(workspace_of(file).display().to_string()),
        name => variables(name),
    };
    let expansion = Expansion { variables: &in_file, may_miss, secrets: RefCell::default() };
    let parts = expansion.expand_parts(case);
    parts.map_err(|error| format!("{}: case {:?}: {error}", file.display(), case.name))?;
    case.hide_values(expansion.secrets.into_inner());
    Ok(())
}

/// The values to put into the members of a case.
struct Expansion<'a> {
    variables: Variables<'a>,
    may_miss: bool,
    /// Values that may be secrets.
    secrets: RefCell<Vec<String>>,
}

impl Expansion<'_> {
    fn expand_parts(&self, case: &mut TestCase) -> Result<(), String> {
        for (index, server) in case.server_configs.iter_mut().flatten().enumerate() {
            *server = self.expanded(server, &format!("serverConfigs[{index}]"))?;
        }
        if let Some(judge) = &mut case.judge_config {
            *judge = self.expanded(judge, "judgeConfig")?;
        }
        if let Some(agent) = &mut case.agent_config {
            *agent = self.expanded(agent, "agentConfig")?;
        }
        Ok(())
    }

    /// Returns a part of a case with the values of its variables. `path` is its place.
    fn expanded<T: Serialize + DeserializeOwned>(&self, part: &T, path: &str) -> Result<T, String> {
        let mut value = serde_json::to_value(part).map_err(|error| format!("{path}: {error}"))?;
        self.replace(&mut value, path)?;
        serde_json::from_value(value).map_err(|error| format!("{path}: {error}"))
    }

    fn replace(&self, value: &mut Value, path: &str) -> Result<(), String> {
        match value {
            Value::String(text) => {
                let may_be_secret =
                    [".env.", ".headers.", ".apiKey"].iter().any(|place| path.contains(place));
                let look_up = |name: &str| {
                    let value = (self.variables)(name)?;
                    if may_be_secret {
                        self.secrets.borrow_mut().push(value.clone());
                    }
                    Some(value)
                };
                match expand(text, &look_up) {
                    Ok(expanded) => *text = expanded.into_owned(),
                    Err(error) if self.may_miss && error.is_missing_value() => {}
                    Err(error) => return Err(format!("{path}: {error}")),
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.replace(item, &format!("{path}[{index}]"))?;
                }
            }
            Value::Object(members) => {
                for (name, member) in members {
                    self.replace(member, &format!("{path}.{name}"))?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use marquetry_judge::case_file::CaseFile;

    use super::*;

    const FILE: &str = r#"
judgeConfig: {provider: custom, model: "${MODEL:-small}", apiKey: "${KEY}", baseUrl: "${URL}/v1"}
serverConfigs:
  - {type: stdio, command: c, args: ["${workspaceFolder}"], env: {TOKEN: "${KEY}", PRICE: "$${5}"}}
cases:
  - {name: a, prompt: "What is ${KEY}?"}
"#;

    fn case_of(variables: &[(&str, &str)], may_miss: bool) -> Result<TestCase, String> {
        let path = Path::new("/cases/all.yaml");
        let mut case = CaseFile::parse(FILE, path).unwrap().into_cases().remove(0);
        let look_up = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        expand_case(&mut case, path, &look_up, may_miss).map(|()| case)
    }

    #[test]
    fn servers_and_models_have_the_values_and_prompts_have_not() {
        let case = case_of(&[("KEY", "k"), ("URL", "http://h")], false).unwrap();
        let judge = case.judge_config.as_ref().unwrap();
        assert_eq!(
            (&*judge.model, judge.api_key.as_deref(), judge.base_url.as_deref()),
            ("small", Some("k"), Some("http://h/v1"))
        );
        assert_eq!(
            serde_json::json!(case.server_configs),
            serde_json::json!([{
                "type": "stdio", "command": "c", "args": ["/cases"],
                "env": {"TOKEN": "k", "PRICE": "${5}"},
            }])
        );
        assert_eq!(case.prompt, "What is ${KEY}?");
    }

    #[test]
    fn a_missing_variable_is_named_with_its_place() {
        let error = case_of(&[("KEY", "k")], false).unwrap_err();
        let want = "/cases/all.yaml: case \"a\": judgeConfig.baseUrl: the environment variable URL \
            is not set; ";
        assert!(error.starts_with(want), "{error}");
        let replayed = case_of(&[("KEY", "k")], true).unwrap();
        assert_eq!(replayed.judge_config.unwrap().base_url.as_deref(), Some("${URL}/v1"));
    }
}
