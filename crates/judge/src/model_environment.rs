//! Keys and URLs of models, from the environment of the server.

use marquetry_llm::ApiKey;

use crate::{ModelAccess, RemoteModels};

/// A function that reads a variable of the environment.
type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Keys and base URLs that the server has for each provider.
///
/// A key of the server goes only to a URL that the server chose: the provider's own, or the one in
/// the environment. A request that names another `baseUrl` must bring its own key; otherwise the
/// sender could redirect the server's key to themselves.
#[derive(Clone, Debug, Default)]
pub struct ModelEnvironment {
    openai: Endpoint,
    anthropic: Endpoint,
    ollama: Endpoint,
    custom: Endpoint,
}

/// The server's key and URL for one provider.
#[derive(Clone, Debug, Default)]
struct Endpoint {
    key: Option<ApiKey>,
    url: Option<String>,
}

impl ModelEnvironment {
    /// Variables that are read: key and base URL of each provider.
    pub const VARIABLES: [(&'static str, &'static str, &'static str); 4] = [
        ("openai", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
        ("anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        ("ollama", "OLLAMA_API_KEY", "OLLAMA_BASE_URL"),
        ("custom", "CUSTOM_API_KEY", "CUSTOM_BASE_URL"),
    ];

    /// Reads the variables of [`Self::VARIABLES`]. Empty ones count as absent.
    #[must_use]
    pub fn read(lookup: Lookup<'_>) -> Self {
        let [openai, anthropic, ollama, custom] = Self::VARIABLES.map(|(_, key, url)| Endpoint {
            key: read_value(lookup, key).map(ApiKey::new),
            url: read_value(lookup, url),
        });
        Self { openai, anthropic, ollama, custom }
    }

    /// Returns the models of tests, with these keys and URLs.
    #[must_use]
    pub fn models(self) -> RemoteModels {
        RemoteModels::with_access(move |_, settings| {
            let key = settings.api_key.clone().filter(|key| !key.is_empty()).map(ApiKey::new);
            Ok(self.access(&settings.provider, key, settings.base_url.clone()))
        })
    }

    /// Returns key and URL for a model of `provider`, given those of the request.
    #[must_use]
    pub fn access(
        &self,
        provider: &str,
        requested_key: Option<ApiKey>,
        requested_url: Option<String>,
    ) -> ModelAccess {
        let own = match provider {
            "openai" => &self.openai,
            "anthropic" => &self.anthropic,
            "ollama" => &self.ollama,
            _ => &self.custom,
        };
        let is_foreign = requested_url.as_deref().is_some_and(|url| {
            own.url
                .as_deref()
                .is_none_or(|own| own.trim_end_matches('/') != url.trim_end_matches('/'))
        });
        if is_foreign {
            return ModelAccess { api_key: requested_key, base_url: requested_url };
        }
        ModelAccess { api_key: own.key.clone().or(requested_key), base_url: own.url.clone() }
    }
}

/// Returns the value of a variable, unless it is blank.
fn read_value(lookup: Lookup<'_>, name: &str) -> Option<String> {
    lookup(name).filter(|value| !value.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(lines: &[(&str, &str)]) -> ModelEnvironment {
        ModelEnvironment::read(&|name| {
            lines.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[track_caller]
    fn check(environment: &ModelEnvironment, asked: [Option<&str>; 2], want: [Option<&str>; 2]) {
        let [key, url] = asked;
        let access = environment.access("openai", key.map(ApiKey::new), url.map(str::to_owned));
        let got = [access.api_key.as_ref().map(ApiKey::expose), access.base_url.as_deref()];
        assert_eq!(got, want);
    }

    #[test]
    fn the_servers_key_goes_before_the_requests() {
        let server = environment(&[("OPENAI_API_KEY", "server")]);
        check(&server, [Some("request"), None], [Some("server"), None]);
        check(&server, [None, None], [Some("server"), None]);
        check(&environment(&[]), [Some("request"), None], [Some("request"), None]);
        check(&environment(&[("OPENAI_API_KEY", " ")]), [None, None], [None, None]);
    }

    #[test]
    fn the_servers_key_never_goes_to_a_url_of_the_request() {
        let server = environment(&[
            ("OPENAI_API_KEY", "server"),
            ("OPENAI_BASE_URL", "http://127.0.0.1:9/v1"),
        ]);
        check(
            &server,
            [None, Some("https://evil.example/v1")],
            [None, Some("https://evil.example/v1")],
        );
        check(
            &server,
            [Some("request"), Some("http://127.0.0.1:8")],
            [Some("request"), Some("http://127.0.0.1:8")],
        );
        check(
            &server,
            [None, Some("http://127.0.0.1:9/v1/")],
            [Some("server"), Some("http://127.0.0.1:9/v1")],
        );
        let without_url = environment(&[("OPENAI_API_KEY", "server")]);
        check(
            &without_url,
            [None, Some("https://api.openai.com/v1")],
            [None, Some("https://api.openai.com/v1")],
        );
    }
}
