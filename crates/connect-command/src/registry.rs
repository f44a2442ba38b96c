//! A `server.json` of the MCP registry as an entry of an `mcp.json`.
//!
//! The file comes from elsewhere: its texts are literal, so a `${…}` of it refers to nothing.

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::machine::{ConnectCommandError, Machine};

/// A server of the registry.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RegistryServer {
    name: String,
    #[serde(default)]
    packages: Vec<Package>,
    #[serde(default)]
    remotes: Vec<Remote>,
}

/// A program in a registry of packages. Names with `_` are those of the schema until 2025-08.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Package {
    #[serde(alias = "registry_type", alias = "registry_name")]
    registry_type: String,
    #[serde(alias = "name")]
    identifier: String,
    #[serde(default)]
    version: Option<String>,
    #[serde(default, alias = "runtime_hint")]
    runtime_hint: Option<String>,
    #[serde(default)]
    transport: Option<PackageTransport>,
    #[serde(default, alias = "runtime_arguments")]
    runtime_arguments: Vec<Argument>,
    #[serde(default, alias = "package_arguments")]
    package_arguments: Vec<Argument>,
    #[serde(default, alias = "environment_variables")]
    environment_variables: Vec<Named>,
}

#[derive(Clone, Debug, Deserialize)]
struct PackageTransport {
    #[serde(rename = "type")]
    kind: String,
}

/// A server that runs elsewhere.
#[derive(Clone, Debug, Deserialize)]
struct Remote {
    #[serde(rename = "type", alias = "transport_type", default = "streamable")]
    kind: String,
    url: String,
    #[serde(default)]
    headers: Vec<Named>,
    #[serde(default)]
    variables: IndexMap<String, Input>,
}

fn streamable() -> String {
    "streamable-http".to_owned()
}

/// A variable or a header.
#[derive(Clone, Debug, Deserialize)]
struct Named {
    name: String,
    #[serde(flatten)]
    input: Input,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Argument {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default, alias = "value_hint")]
    value_hint: Option<String>,
    #[serde(flatten)]
    input: Input,
}

/// A value that is given, or that the user gives.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Input {
    description: Option<String>,
    value: Option<String>,
    default: Option<String>,
    #[serde(alias = "is_required")]
    is_required: bool,
    #[serde(alias = "is_secret")]
    is_secret: bool,
    choices: Vec<String>,
    variables: IndexMap<String, Self>,
}

impl RegistryServer {
    /// Parses a `server.json`, or an answer of the registry that has one in `server`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| format!("not valid JSON: {error}"))?;
        let inner = value.get("server").cloned().unwrap_or(value);
        let server: Self = serde_json::from_value(inner)
            .map_err(|error| format!("not a server.json of the registry: {error}"))?;
        if server.packages.is_empty() && server.remotes.is_empty() {
            return Err("the server has neither packages nor remotes".to_owned());
        }
        Ok(server)
    }

    /// Returns the name and the entry for an `mcp.json`. Inputs come from `given`
    /// (`NAME=VALUE`), or the user is asked.
    pub(crate) fn entry(
        &self,
        given: &[String],
        machine: &mut Machine<'_>,
    ) -> Result<(String, Map<String, Value>), ConnectCommandError> {
        let mut inputs = Inputs::new(given, machine)?;
        let (entry, label) = self.chosen(&mut inputs)?;
        inputs.refuse_unused()?;
        machine.print(&format!("{}: {label}", self.name));
        Ok((self.short_name(), entry))
    }

    /// Returns the last part of the name: `weather` of `io.github.me/weather`.
    fn short_name(&self) -> String {
        let last = self.name.rsplit('/').next().unwrap_or(&self.name);
        let safe: String = last
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '-' })
            .take(64)
            .collect();
        if safe.is_empty() { "server".to_owned() } else { safe }
    }

    fn chosen(
        &self,
        inputs: &mut Inputs<'_, '_>,
    ) -> Result<(Map<String, Value>, String), ConnectCommandError> {
        let mut problems = Vec::new();
        // The first that can be used: publishers list the usual one first.
        for package in &self.packages {
            match package.runner() {
                Ok(runner) => {
                    let label = format!("{} {}", package.registry_type, package.identifier);
                    return Ok((package.entry(&runner, inputs)?, label));
                }
                Err(problem) => problems.push(problem),
            }
        }
        for remote in &self.remotes {
            match remote.kind.as_str() {
                "streamable-http" | "streamable" | "http" | "sse" => {
                    return Ok((remote.entry(inputs)?, remote.url.clone()));
                }
                other => problems.push(format!("a remote of type {other:?} is not supported")),
            }
        }
        Err(ConnectCommandError::new(format!("{}: {}", self.name, problems.join("; "))))
    }
}

/// The program that starts a package, and its first arguments.
struct Runner {
    program: String,
    args: Vec<String>,
    /// The package, with its version.
    package: String,
}

impl Package {
    fn runner(&self) -> Result<Runner, String> {
        if let Some(transport) = &self.transport
            && transport.kind != "stdio"
        {
            return Err(format!(
                "the package {} must be started by hand, because it serves {}",
                self.identifier, transport.kind
            ));
        }
        let (program, own_args, package): (&str, &[&str], String) = match self
            .registry_type
            .as_str()
        {
            "npm" => ("npx", &["-y"], self.versioned('@')),
            "pypi" => ("uvx", &[], self.versioned('@')),
            "nuget" => ("dnx", &["--yes"], self.versioned('@')),
            "oci" | "docker" => {
                let name = self.identifier.rsplit('/').next().unwrap_or_default();
                let package =
                    if name.contains(':') { self.identifier.clone() } else { self.versioned(':') };
                ("docker", &["run", "-i", "--rm"], package)
            }
            other => return Err(format!("packages of {other:?} are not supported")),
        };
        // A package must not become an option of its runner.
        if package.starts_with('-') {
            return Err(format!("{package:?} is not the name of a package"));
        }
        // Only the runners of packages: a hint must not name another program.
        let known = ["npx", "uvx", "dnx", "docker", "podman", "bunx", "pipx"];
        let hint = self.runtime_hint.as_deref().filter(|hint| known.contains(hint));
        let args = match hint {
            Some("bunx") => Vec::new(),
            Some("pipx") => vec!["run".to_owned()],
            _ => own_args.iter().map(|&arg| arg.to_owned()).collect(),
        };
        Ok(Runner { program: hint.unwrap_or(program).to_owned(), args, package })
    }

    /// Returns the package with its version, unless it names one already.
    fn versioned(&self, separator: char) -> String {
        let version = self.version.as_deref().filter(|it| !it.is_empty() && *it != "latest");
        let is_pinned = self.identifier.contains('@') && separator == ':';
        match version {
            Some(version) if !is_pinned => format!("{}{separator}{version}", self.identifier),
            _ => self.identifier.clone(),
        }
    }

    fn entry(
        &self,
        runner: &Runner,
        inputs: &mut Inputs<'_, '_>,
    ) -> Result<Map<String, Value>, ConnectCommandError> {
        let mut args = runner.args.clone();
        for argument in &self.runtime_arguments {
            for value in argument.values(inputs)? {
                // The runner's own flags are often listed, too.
                if !args.contains(&value) {
                    args.push(value);
                }
            }
        }
        let mut env = Map::new();
        for variable in &self.environment_variables {
            let Some(value) = inputs.value(&variable.name, &variable.input)? else { continue };
            if matches!(self.registry_type.as_str(), "oci" | "docker") {
                args.extend(["-e".to_owned(), literal(&variable.name)]);
            }
            env.insert(variable.name.clone(), value.into());
        }
        args.push(literal(&runner.package));
        for argument in &self.package_arguments {
            args.extend(argument.values(inputs)?);
        }
        let mut entry = Map::new();
        entry.insert("command".to_owned(), runner.program.as_str().into());
        entry.insert("args".to_owned(), json!(args));
        if !env.is_empty() {
            entry.insert("env".to_owned(), Value::Object(env));
        }
        Ok(entry)
    }
}

impl Remote {
    fn entry(
        &self,
        inputs: &mut Inputs<'_, '_>,
    ) -> Result<Map<String, Value>, ConnectCommandError> {
        let kind = if self.kind == "sse" { "sse" } else { "http" };
        let url = inputs.filled(&self.url, &self.variables)?;
        let mut headers = Map::new();
        for header in &self.headers {
            if let Some(value) = inputs.value(&header.name, &header.input)? {
                headers.insert(header.name.clone(), value.into());
            }
        }
        let mut entry = Map::new();
        entry.insert("type".to_owned(), kind.into());
        entry.insert("url".to_owned(), url.into());
        if !headers.is_empty() {
            entry.insert("headers".to_owned(), Value::Object(headers));
        }
        Ok(entry)
    }
}

impl Argument {
    fn values(&self, inputs: &mut Inputs<'_, '_>) -> Result<Vec<String>, ConnectCommandError> {
        let name = self.name.as_deref().filter(|name| !name.is_empty());
        let is_named = self.kind == "named" || (self.kind.is_empty() && name.is_some());
        let hint = self.value_hint.as_deref();
        let has_value = self.input.value.is_some()
            || self.input.default.is_some()
            || hint.is_some()
            || self.input.is_required;
        if let (true, Some(flag), false) = (is_named, name, has_value) {
            return Ok(vec![literal(flag)]);
        }
        let asked = name.or(hint).unwrap_or("argument").trim_start_matches('-');
        let Some(value) = inputs.value(asked, &self.input)? else { return Ok(Vec::new()) };
        Ok(match (is_named, name) {
            (true, Some(flag)) => vec![literal(flag), value],
            _ => vec![value],
        })
    }
}

/// Returns a text of the file with `${` escaped.
fn literal(text: &str) -> String {
    text.replace("${", "$${")
}

/// The values of inputs: those of `--input`, and those that the user types.
struct Inputs<'m, 'a> {
    given: IndexMap<String, String>,
    used: Vec<String>,
    machine: &'m mut Machine<'a>,
}

impl<'m, 'a> Inputs<'m, 'a> {
    fn new(given: &[String], machine: &'m mut Machine<'a>) -> Result<Self, ConnectCommandError> {
        let mut values = IndexMap::new();
        for input in given {
            let Some((name, value)) = input.split_once('=') else {
                let message = format!("--input {input:?}: expected NAME=VALUE");
                return Err(ConnectCommandError::usage(message));
            };
            values.insert(name.to_owned(), value.to_owned());
        }
        Ok(Self { given: values, used: Vec::new(), machine })
    }

    fn refuse_unused(&self) -> Result<(), ConnectCommandError> {
        match self.given.keys().find(|name| !self.used.contains(name)) {
            Some(name) => Err(ConnectCommandError::usage(format!(
                "--input {name}: the server has no input of this name"
            ))),
            None => Ok(()),
        }
    }

    /// Returns the value of an input; [`None`] for one that may be left out.
    fn value(&mut self, name: &str, input: &Input) -> Result<Option<String>, ConnectCommandError> {
        if let Some(value) = &input.value {
            return self.filled(value, &input.variables).map(Some);
        }
        if let Some(value) = self.given.get(name).cloned() {
            self.used.push(name.to_owned());
            check_choice(name, &value, input)?;
            return Ok(Some(value));
        }
        if !input.is_required {
            return Ok(input.default.as_deref().map(literal));
        }
        self.asked(name, input).map(Some)
    }

    /// Replaces `{NAME}` in a text of the file by the values of its variables.
    fn filled(
        &mut self,
        text: &str,
        variables: &IndexMap<String, Input>,
    ) -> Result<String, ConnectCommandError> {
        let mut filled = literal(text);
        for (name, input) in variables {
            let placeholder = format!("{{{name}}}");
            if filled.contains(&placeholder) {
                let value = self.value(name, input)?.unwrap_or_default();
                filled = filled.replace(&placeholder, &value);
            }
        }
        Ok(filled)
    }

    fn asked(&mut self, name: &str, input: &Input) -> Result<String, ConnectCommandError> {
        let Some(dialog) = &mut self.machine.dialog else {
            return match &input.default {
                Some(default) => Ok(literal(default)),
                None => Err(ConnectCommandError::usage(format!(
                    "the server needs {name:?}{}; give it with --input {name}=VALUE",
                    input.description.as_ref().map(|it| format!(" ({it})")).unwrap_or_default()
                ))),
            };
        };
        let description = input.description.as_deref().unwrap_or_default();
        let choices = if input.choices.is_empty() {
            String::new()
        } else {
            format!(", one of {}", input.choices.join(", "))
        };
        let default =
            input.default.as_ref().map(|default| format!(" [{default}]")).unwrap_or_default();
        let hint = if input.is_secret { "; ${VAR} names an environment variable" } else { "" };
        let question = format!("{name}: {description}{choices}{hint}{default}:");
        for _ in 0..3 {
            let answer =
                if input.is_secret { dialog.ask_hidden(&question) } else { dialog.ask(&question) };
            let Some(answer) = answer else { break };
            let value = match (answer.is_empty(), &input.default) {
                (true, Some(default)) => return Ok(literal(default)),
                (true, None) => continue,
                (false, _) => answer,
            };
            if check_choice(name, &value, input).is_ok() {
                return Ok(value);
            }
        }
        Err(ConnectCommandError::new(format!("the server needs {name:?}; nothing was written")))
    }
}

fn check_choice(name: &str, value: &str, input: &Input) -> Result<(), ConnectCommandError> {
    if input.choices.is_empty() || input.choices.iter().any(|choice| choice == value) {
        return Ok(());
    }
    let choices = input.choices.join(", ");
    Err(ConnectCommandError::usage(format!("{name:?} must be one of {choices}")))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// Compares the entry of a server, or the error.
    #[track_caller]
    fn check(text: &str, given: &[&str], want: Expect) {
        let mut output = Vec::new();
        let mut machine = Machine::new("marquetry", &|_| None, &mut output);
        let given: Vec<String> = given.iter().map(|&it| it.to_owned()).collect();
        let made = RegistryServer::parse(text)
            .map_err(ConnectCommandError::new)
            .and_then(|server| server.entry(&given, &mut machine));
        let shown = match made {
            Ok((name, entry)) => format!("{name}: {}", Value::Object(entry)),
            Err(error) => format!("error {}: {}", error.code, error.message),
        };
        want.assert_eq(&shown);
    }

    const WEATHER: &str = r#"{"server": {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-10-17/server.schema.json",
        "name": "io.github.me/weather", "description": "Weather", "version": "1.2.3",
        "packages": [{
            "registryType": "npm", "identifier": "@me/weather", "version": "1.2.3",
            "transport": {"type": "stdio"},
            "packageArguments": [
                {"type": "named", "name": "--units", "choices": ["metric", "imperial"], "isRequired": true},
                {"type": "positional", "value": "${command:evil}"},
                {"type": "named", "name": "--verbose"}
            ],
            "environmentVariables": [
                {"name": "WEATHER_KEY", "description": "A key", "isRequired": true, "isSecret": true},
                {"name": "OPTIONAL"}, {"name": "LEVEL", "default": "info"}
            ]
        }]}, "_meta": {}}"#;

    #[test]
    fn a_package_of_npm() {
        check(
            WEATHER,
            &["WEATHER_KEY=${KEY}", "units=metric"],
            expect![[
                r#"weather: {"command":"npx","args":["-y","@me/weather@1.2.3","--units","metric","$${command:evil}","--verbose"],"env":{"WEATHER_KEY":"${KEY}","LEVEL":"info"}}"#
            ]],
        );
    }

    #[test]
    fn packages_of_other_registries() {
        check(
            r#"{"name": "a/py", "packages": [{"registry_type": "pypi", "identifier": "py", "version": "2"}]}"#,
            &[],
            expect![[r#"py: {"command":"uvx","args":["py@2"]}"#]],
        );
        check(
            r#"{"name": "a/box", "packages": [{"registryType": "oci", "identifier": "ghcr.io/a/box", "version": "3",
                "environmentVariables": [{"name": "K", "value": "v-{x}", "variables": {"x": {"default": "1"}}}],
                "runtimeArguments": [{"type": "named", "name": "--mount", "value": "src={src}", "variables": {"src": {"isRequired": true}}}]}]}"#,
            &["src=/data"],
            expect![[
                r#"box: {"command":"docker","args":["run","-i","--rm","--mount","src=/data","-e","K","ghcr.io/a/box:3"],"env":{"K":"v-1"}}"#
            ]],
        );
    }

    #[test]
    fn a_remote() {
        check(
            r#"{"name": "a/web", "remotes": [{"type": "streamable-http", "url": "https://{tenant}.example/mcp",
                "variables": {"tenant": {"isRequired": true}},
                "headers": [{"name": "Authorization", "value": "Bearer {t}", "variables": {"t": {"isRequired": true, "isSecret": true}}}]}]}"#,
            &["tenant=me", "t=abc"],
            expect![[
                r#"web: {"type":"http","url":"https://me.example/mcp","headers":{"Authorization":"Bearer abc"}}"#
            ]],
        );
    }

    #[test]
    fn errors_say_what_to_do() {
        for (text, given, want) in [
            (
                "{",
                &[][..],
                expect!["error 1: not valid JSON: EOF while parsing an object at line 1 column 1"],
            ),
            (
                "[]",
                &[],
                expect![
                    "error 1: not a server.json of the registry: invalid length 0, expected struct RegistryServer with 3 elements"
                ],
            ),
            (
                r#"{"name": "a"}"#,
                &[],
                expect!["error 1: the server has neither packages nor remotes"],
            ),
            (
                WEATHER,
                &["units=metric"],
                expect![[
                    r#"error 2: the server needs "WEATHER_KEY" (A key); give it with --input WEATHER_KEY=VALUE"#
                ]],
            ),
            (
                WEATHER,
                &["WEATHER_KEY=k", "units=x"],
                expect![[r#"error 2: "units" must be one of metric, imperial"#]],
            ),
            (
                WEATHER,
                &["WEATHER_KEY=k", "units=metric", "other=1"],
                expect!["error 2: --input other: the server has no input of this name"],
            ),
            (WEATHER, &["x"], expect![[r#"error 2: --input "x": expected NAME=VALUE"#]]),
            (
                r#"{"name": "a", "packages": [{"registryType": "mcpb", "identifier": "x"}]}"#,
                &[],
                expect![[r#"error 1: a: packages of "mcpb" are not supported"#]],
            ),
            (
                r#"{"name": "a", "packages": [{"registryType": "npm", "identifier": "--evil"}]}"#,
                &[],
                expect![[r#"error 1: a: "--evil" is not the name of a package"#]],
            ),
            (
                r#"{"name": "a", "packages": [{"registryType": "npm", "identifier": "x", "transport": {"type": "sse"}}]}"#,
                &[],
                expect!["error 1: a: the package x must be started by hand, because it serves sse"],
            ),
        ] {
            check(text, given, want);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_parsed_without_panic(text in "(?s).{0,80}") {
            _ = RegistryServer::parse(&text);
        }
    }
}
