//! `marquetry check`

use super::{Failure, ServeArgs, say};
use crate::{
    config::{
        AuthConfig, ChatConfig, Config, EmbeddingConfig, EmbeddingProvider, KnowledgeConfig,
        KnowledgePlace, Loaded, Transport, UpstreamConfig,
    },
    logging,
};

pub(super) fn check(arguments: &ServeArgs) -> Result<(), Failure> {
    let Loaded { config, file, warnings } = arguments.load()?;
    let chat = config.knowledge.chat.warning().filter(|_| config.knowledge.enabled);
    for warning in warnings.iter().chain(&chat) {
        logging::warn(warning);
    }
    let file =
        file.map_or("the defaults; there is no file".to_owned(), |file| file.display().to_string());
    say(&format!("settings   {file}\n{}", summary(&config)))
}

/// What would be started. Arguments, variables and headers may be secret, so they are counted, not shown.
fn summary(config: &Config) -> String {
    let artifacts = &config.artifacts;
    let place = artifacts.directory.as_ref().map(|path| format!(" in {}", path.display()));
    let mut text = format!(
        "listen     http://{}/mcp\nauth       {}\nartifacts  {}{}; saved above {} bytes, shown up to {} bytes\n{}servers    {}\n",
        config.server.listen,
        auth(&config.auth),
        artifacts.store.as_str(),
        place.unwrap_or_default(),
        artifacts.mcp_tool_response_save_threshold_bytes,
        artifacts.mcp_tool_llm_return_max_bytes,
        knowledge(&config.knowledge),
        config.mcp_servers.len(),
    );
    let width = config.mcp_servers.keys().map(|name| name.chars().count()).max().unwrap_or(0);
    for (name, upstream) in &config.mcp_servers {
        text.push_str(&format!("  {name:width$}  {}\n", line(upstream)));
    }
    text
}

/// Where knowledge is kept, and which models it needs; nothing of it is opened.
fn knowledge(config: &KnowledgeConfig) -> String {
    if !config.enabled {
        return "knowledge  none\n".to_owned();
    }
    let place = match config.place() {
        Ok(KnowledgePlace::File(path)) if path.exists() => path.display().to_string(),
        Ok(KnowledgePlace::File(path)) => format!("{}, not there yet", path.display()),
        Ok(KnowledgePlace::Postgres(url)) => without_secrets(&url),
        Err(problem) => format!("nowhere: {problem}"),
    };
    format!(
        "knowledge  {place}\n  vectors  {}\n  chat     {}\n",
        embedding(&config.embedding),
        chat(&config.chat)
    )
}

fn embedding(config: &EmbeddingConfig) -> String {
    let provider = match config.provider {
        EmbeddingProvider::BuiltIn => return "by the model in this program".to_owned(),
        EmbeddingProvider::Transformer => {
            let folder = config.folder.as_deref().unwrap_or_else(|| "".as_ref());
            return format!("by the sentence transformer in {}", folder.display());
        }
        EmbeddingProvider::OpenAi => "openai",
        EmbeddingProvider::Ollama => "ollama",
    };
    elsewhere(provider, config.model.as_deref(), config.base_url.as_deref())
}

fn chat(config: &ChatConfig) -> String {
    let Some(provider) = config.provider else { return "none".to_owned() };
    let provider = format!("{provider:?}").to_lowercase();
    elsewhere(&provider, config.model.as_deref(), config.base_url.as_deref())
}

fn elsewhere(provider: &str, model: Option<&str>, base_url: Option<&str>) -> String {
    let model = model.unwrap_or_default();
    match base_url {
        Some(url) => format!("{model} of {provider} at {}", without_secrets(url)),
        None => format!("{model} of {provider}"),
    }
}

/// Who may come in.
fn auth(auth: &AuthConfig) -> String {
    let mut who = Vec::new();
    if let Some(issuer) = &auth.issuer {
        who.push(format!("tokens of {}", without_secrets(issuer)));
    }
    match auth.token_count() {
        0 => {}
        1 => who.push("1 fixed token".to_owned()),
        many => who.push(format!("{many} fixed tokens")),
    }
    if who.is_empty() {
        return "none; whoever reaches it comes in".to_owned();
    }
    match auth.required_scopes.as_slice() {
        [] => who.join(", "),
        scopes => format!("{}; every request needs {}", who.join(", "), scopes.join(" ")),
    }
}

fn line(upstream: &UpstreamConfig) -> String {
    let what = match &upstream.transport {
        Transport::Stdio { command, args, env, .. } => {
            format!("stdio  {command}, {} arguments, {} variables", args.len(), env.len())
        }
        Transport::Http { url, headers } => {
            format!("http   {}, {} headers", without_secrets(url), headers.len())
        }
        Transport::Unsupported { problem } => format!("not reached: {problem}"),
        Transport::Elsewhere => "not reached".to_owned(),
    };
    if upstream.disabled { format!("{what} (disabled)") } else { what }
}

/// A URL's scheme, host, port and path; users, passwords and queries hold secrets.
fn without_secrets(url: &str) -> String {
    let Ok(uri) = url.parse::<http::Uri>() else { return "a URL that is not valid".to_owned() };
    let authority = uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    let place = authority.rsplit('@').next().unwrap_or_default();
    format!("{}://{place}{}", uri.scheme_str().unwrap_or_default(), uri.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_counted_and_not_shown() {
        let text = "[mcp_servers.fs]\ncommand = 'npx'\nargs = ['--token=hush']\nenv = { K = 'hush' }\n\
                    [mcp_servers.remote]\nurl = 'http://me:hush@h:1/mcp?key=hush#hush'\ndisabled = true\n";
        let mut config = Config::from_toml(text, "t").unwrap();
        assert!(summary(&config).contains("\nauth       none; whoever reaches it comes in\n"));
        let auth = "issuer = 'https://login.example'\nrequired_scopes = ['tools']\ntokens = { hush = { env = 'T' } }";
        config.auth = toml::from_str(auth).unwrap();
        let knowledge = "database = 'postgres://me:hush@h:2/k?password=hush'\n[embedding]\nprovider = 'ollama'\nmodel = 'm'\n\
            base_url = 'http://me:hush@h:3'\n[chat]\nprovider = 'openai'\nmodel = 'c'";
        config.knowledge = toml::from_str(knowledge).unwrap();
        let summary = summary(&config);
        assert!(!summary.contains("hush"), "{summary}");
        let auth = "auth       tokens of https://login.example/, 1 fixed token; every request needs tools\n";
        assert!(summary.contains(auth), "{summary}");
        let knowledge = "\nknowledge  postgres://h:2/k\n  vectors  m of ollama at http://h:3/\n  chat     c of openai\n";
        assert!(summary.contains(knowledge), "{summary}");
        assert!(summary.contains("  fs      stdio  npx, 1 arguments, 1 variables\n"), "{summary}");
        assert!(
            summary.contains("  remote  http   http://h:1/mcp, 0 headers (disabled)\n"),
            "{summary}"
        );
    }

    #[test]
    fn nothing_is_opened_or_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/k.db");
        let mut config = Config::default();
        config.knowledge.database = Some(path.display().to_string());
        let place = format!("knowledge  {}", path.display());
        let said = summary(&config);
        assert!(said.contains(&format!("{place}, not there yet\n")), "{said}");
        assert!(
            said.contains("\n  vectors  by the model in this program\n  chat     none\n"),
            "{said}"
        );
        assert!(!path.parent().unwrap().exists());
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "").unwrap();
        assert!(summary(&config).contains(&format!("{place}\n")));
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        config.knowledge.enabled = false;
        assert!(summary(&config).contains("\nknowledge  none\n"));
    }
}
