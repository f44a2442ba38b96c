//! `marquetry check`

mod controls;
mod knowledge;

use std::path::Path;

use serde_json::{Value, json};

use super::{
    Failure, ServeArgs, print, print_json,
    problems::{self, chat_warning, missing_programs},
    serve::base_url,
};
use marquetry_config::{
    Config, Loaded, Transport,
    sections::{AuthConfig, StoreKind, UpstreamConfig},
};
use marquetry_printable::{printable, printable_line};
use marquetry_redact::url_without_secrets;

use marquetry_program_log as program_log;

pub(super) fn check(arguments: &ServeArgs) -> Result<(), Failure> {
    let Loaded { mut config, file, mut warnings } = arguments.load()?;
    let own = problems::leave_out_itself(&mut config, &arguments.config, file.as_deref(), true);
    warnings.extend(own);
    warnings.extend(chat_warning(&config));
    warnings.extend(knowledge::sharing_warning(&config));
    warnings.extend(config.shared_stores());
    warnings.extend(config.pin_warnings());
    let mut problems = missing_programs(&config);
    problems.extend(problems::port_problem(&config));
    problems.extend(problems::problems(&config));
    problems.extend(problems::store_problems(&config));
    problems.extend(config.override_problems());
    warnings.iter().chain(&problems).for_each(|warning| program_log::warn(warning));
    if program_log::is_json() {
        print_json(&as_json(&config, file.as_deref(), &warnings, &problems))?;
    } else {
        let file = file
            .map_or("defaults; no file was found".to_owned(), |file| file.display().to_string());
        print(&format!("settings   {}\n{}", printable_line(&file), summary(&config)))?;
    }
    let unusable = config.mcp_servers.values().filter(|upstream| {
        !upstream.disabled && matches!(upstream.transport, Transport::Unusable { .. })
    });
    match problems.len() + unusable.count() {
        0 => Ok(()),
        1 => Err(Failure::new("found 1 problem; everything else would work")),
        many => Err(Failure::new(format!("found {many} problems; everything else would work"))),
    }
}

/// Returns the checked configuration as JSON, without secrets as in [`summary`].
fn as_json(
    config: &Config,
    settings: Option<&Path>,
    warnings: &[String],
    problems: &[String],
) -> Value {
    let artifacts = config.artifacts.settings();
    let servers = config.mcp_servers.iter().map(|(name, upstream)| {
        let mut server = match &upstream.transport {
            Transport::Stdio { command, args, env, .. } => json!({
                "command": command, "arguments": args.len(), "environmentVariables": env.len(),
            }),
            Transport::Http { url, headers, .. } => {
                json!({"url": without_secrets(url), "headers": headers.len()})
            }
            Transport::Unusable { problem, .. } => json!({"problem": problem}),
            Transport::NotGiven => json!({}),
        };
        server["name"] = json!(name);
        server["transport"] = json!(upstream.transport.kind());
        server["disabled"] = json!(upstream.disabled);
        server
    });
    json!({
        "settings": settings.map(|path| path.display().to_string()),
        "listen": format!("{}/mcp", base_url(config.server.scheme(), config.server.listen)),
        "auth": {
            "issuer": config.auth.issuer.as_deref().map(without_secrets),
            "tokens": config.auth.token_count(),
            "requiredScopes": config.auth.required_scopes,
        },
        "artifacts": {
            "store": config.artifacts.store.as_str(),
            "directory": config.artifacts.directory,
            "bucket": bucket_address(config),
            "saveThresholdBytes": artifacts.mcp_tool_response_save_threshold_bytes,
            "maxShownBytes": artifacts.mcp_tool_llm_return_max_bytes,
        },
        "knowledge": knowledge::as_json(config),
        "servers": servers.collect::<Vec<_>>(),
        "warnings": warnings,
        "problems": problems,
    })
}

/// Describes the server that would be started. Arguments, variables and headers may be secret, so
/// they are counted, not shown.
fn summary(config: &Config) -> String {
    let artifacts = &config.artifacts;
    let settings = artifacts.settings();
    let place = match artifacts.store {
        StoreKind::Bucket => bucket_address(config),
        _ => artifacts.directory.as_ref().map(|path| path.display().to_string()),
    };
    let place = place.map(|place| printable_line(&format!(" in {place}")));
    let mut text = format!(
        "listen     {}/mcp{}\nauth       {}\nartifacts  {}{}; saved above {} bytes, shown up to {} bytes\n{}{}servers    {}\n",
        base_url(config.server.scheme(), config.server.listen),
        if config.server.listen.ip().is_unspecified() {
            ", and every other address of this machine"
        } else {
            ""
        },
        printable_line(&auth(&config.auth)),
        artifacts.store.as_str(),
        place.unwrap_or_default(),
        settings.mcp_tool_response_save_threshold_bytes,
        settings.mcp_tool_llm_return_max_bytes,
        printable(&knowledge::summary(config)),
        controls::summary(config),
        config.mcp_servers.len(),
    );
    let servers: Vec<(String, String)> = config
        .mcp_servers
        .iter()
        .map(|(name, upstream)| (printable_line(name), line(upstream)))
        .collect();
    let longest = servers.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    // A longer name moves only its own line. `format!` panics at a width above 65,535.
    let width = longest.min(60);
    for (name, line) in servers {
        text.push_str(&format!("  {name:width$}  {}\n", printable_line(&line)));
    }
    text
}

/// Returns the address of the bucket of artifacts; none if the store is no bucket.
fn bucket_address(config: &Config) -> Option<String> {
    Some(config.artifact_bucket().ok()??.address.to_string())
}

/// Describes the callers that are allowed.
fn auth(auth: &AuthConfig) -> String {
    let mut accepted = Vec::new();
    if let Some(issuer) = &auth.issuer {
        accepted.push(format!("tokens of {}", without_secrets(issuer)));
    }
    match auth.token_count() {
        0 => {}
        1 => accepted.push("1 fixed token".to_owned()),
        many => accepted.push(format!("{many} fixed tokens")),
    }
    if accepted.is_empty() {
        return "none; every caller that can connect is accepted".to_owned();
    }
    match auth.required_scopes.as_slice() {
        [] => accepted.join(", "),
        scopes => format!("{}; every request needs {}", accepted.join(", "), scopes.join(" ")),
    }
}

/// Returns a number and the noun that it counts.
fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

fn line(upstream: &UpstreamConfig) -> String {
    let what = match &upstream.transport {
        Transport::Stdio { command, args, env, .. } => {
            format!(
                "stdio  {command}, {}, {}",
                count(args.len(), "argument"),
                count(env.len(), "environment variable")
            )
        }
        Transport::Http { url, headers, .. } => {
            let kind = upstream.transport.kind();
            format!("{kind:5}  {}, {}", without_secrets(url), count(headers.len(), "header"))
        }
        Transport::Unusable { kind, problem } => format!("{kind:5}  not started: {problem}"),
        Transport::NotGiven => "no transport is configured".to_owned(),
    };
    if upstream.disabled { format!("{what} (disabled)") } else { what }
}

/// Returns a URL's scheme, host, port and path; users, passwords and queries may be secret.
fn without_secrets(url: &str) -> String {
    // Without a scheme, it is not clear which part is a password.
    match url.parse::<http::Uri>() {
        Ok(uri) if uri.scheme().is_some() => url_without_secrets(url),
        _ => "an invalid URL".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_commands_cannot_control_a_terminal() {
        let text = "[mcp_servers.\"a\\u001b[31m\\u202e\\nb\"]\ncommand = \"x\\u001b]0;y\\u0007\"\n";
        let report = summary(&Config::from_toml(text, "t").unwrap());
        let want = "\n  a\\u{1b}[31m\\u{202e}\\nb  stdio  x\\u{1b}]0;y\\u{7}, 0 arguments";
        assert!(report.contains(want), "{report}");
    }

    #[test]
    fn a_very_long_name_is_shown() {
        let name = "n".repeat(100_000);
        let text = format!("[mcp_servers.{name}]\ncommand = 'x'\n[mcp_servers.b]\ncommand = 'y'\n");
        let report = summary(&Config::from_toml(&text, "t").unwrap());
        assert!(report.contains(&format!("  {name}  stdio  x,")), "{} bytes", report.len());
        assert!(report.contains(&format!("  {:60}  stdio  y,", "b")), "{} bytes", report.len());
    }

    #[test]
    fn secrets_are_counted_and_not_shown() {
        let text = "[mcp_servers.fs]\ncommand = 'npx'\nargs = ['--token=hush']\nenv = { K = 'hush' }\n\
                    [mcp_servers.remote]\nurl = 'http://me:hush@h:1/mcp?key=hush#hush'\ndisabled = true\n";
        let mut config = Config::from_toml(text, "t").unwrap();
        assert!(
            summary(&config)
                .contains("\nauth       none; every caller that can connect is accepted\n")
        );
        let auth = "issuer = 'https://login.example'\nrequired_scopes = ['tools']\ntokens = { hush = { env = 'T' } }";
        config.auth = toml::from_str(auth).unwrap();
        let knowledge = "database = 'postgres://me:hush@h:2/k?password=hush'\n[embedding]\nprovider = 'ollama'\nmodel = 'm'\n\
            base_url = 'http://me:hush@h:3'\n[chat]\nprovider = 'openai'\nmodel = 'c'";
        config.knowledge = toml::from_str(knowledge).unwrap();
        let summary = summary(&config);
        assert!(!summary.contains("hush"), "{summary}");
        let auth = "auth       tokens of https://login.example, 1 fixed token; every request needs tools\n";
        assert!(summary.contains(auth), "{summary}");
        let knowledge = "\nknowledge  postgres://h:2/k\n  vectors  m of ollama at http://h:3\n  chat     c of openai\n";
        assert!(summary.contains(knowledge), "{summary}");
        assert!(
            summary.contains("  fs      stdio  npx, 1 argument, 1 environment variable\n"),
            "{summary}"
        );
        assert!(
            summary.contains("  remote  http   http://h:1/mcp, 0 headers (disabled)\n"),
            "{summary}"
        );
    }

    #[test]
    fn json_has_members_and_no_secrets() {
        let text = "[mcp_servers.fs]\ncommand = 'npx'\nargs = ['--token=hush']\n[knowledge]\ndatabase = 'k.db'\n";
        let config = Config::from_toml(text, "t").unwrap();
        let json = as_json(&config, Some("m.toml".as_ref()), &[], &["p".to_owned()]);
        assert_eq!(json["settings"], "m.toml");
        assert_eq!(json["servers"][0]["arguments"], 1);
        assert_eq!(json["knowledge"]["database"], "k.db");
        assert_eq!(json["problems"], json!(["p"]));
        assert!(!json.to_string().contains("hush"), "{json}");
    }

    #[test]
    fn servers_are_shown_with_their_transport() {
        let toml = "[mcp_servers.old]\nurl = 'http://h/sse'\ntype = 'sse'\n[mcp_servers.new]\nurl = 'http://h/mcp'\n\
                    [mcp_servers.unset]\ncommand = '${MARQUETRY_NOT_SET}'\n";
        let summary = summary(&Config::from_toml(toml, "t").unwrap());
        let servers = summary.split_once("servers ").unwrap().1.trim_start();
        expect_test::expect![[r"
            3
              old    sse    http://h/sse, 0 headers
              new    http   http://h/mcp, 0 headers
              unset  stdio  not started: t:7:11: mcp_servers.unset.command: the environment variable MARQUETRY_NOT_SET is not set; set it, or give a default with ${MARQUETRY_NOT_SET:-…}
        "]]
        .assert_eq(servers);
    }

    #[test]
    fn the_summary_opens_and_creates_no_database() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/k.db");
        let mut config = Config::default();
        config.knowledge.database = Some(path.display().to_string());
        let line = format!("knowledge  {}", path.display());
        let report = summary(&config);
        assert!(report.contains(&format!("{line}, does not exist yet\n")), "{report}");
        assert!(report.contains("\n  vectors  built-in model\n  chat     none\n"), "{report}");
        assert!(!path.parent().unwrap().exists());
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "").unwrap();
        assert!(summary(&config).contains(&format!("{line}\n")));
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        config.knowledge.enabled = false;
        assert!(summary(&config).contains("\nknowledge  none\n"));
    }
}
