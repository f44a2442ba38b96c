//! What a service takes of OpenAI's interface, learned from its refusals.
//!
//! Many services offer the interface in part: without JSON schemas, under an older name of a
//! member, without the path `/v1`. None of them says so beforehand.

use marquetry_endpoint::EndpointFailure;
use reqwest::Url;

use crate::{ChatRequest, Format};

/// The form in which a service takes requests. The default is that of the provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Dialect {
    /// The path is that of the base URL with `/v1`, or without it, unlike the configured one.
    pub(super) other_path: bool,
    /// `max_tokens` and `max_completion_tokens` are swapped.
    pub(super) other_max_tokens: bool,
    /// Members that are left out.
    pub(super) no_temperature: bool,
    pub(super) no_seed: bool,
    pub(super) no_stream_options: bool,
    pub(super) json: JsonFormat,
}

/// The way to ask for JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum JsonFormat {
    /// `response_format` of the type `json_schema`.
    #[default]
    Schema,
    /// `response_format` of the type `json_object`, and the schema in the instructions.
    Object,
    /// The schema in the instructions alone.
    Instructions,
}

impl Dialect {
    /// Returns the dialect to try after a failure of OpenAI's interface; `None` if there is nothing
    /// else to try. A dialect only moves away from the default, so that trying ends.
    pub(super) fn after(self, failure: &EndpointFailure, request: &ChatRequest) -> Option<Self> {
        let (EndpointFailure::Refused { status, message }
        | EndpointFailure::Failed { status, message, .. }) = failure
        else {
            return self.after_path(failure);
        };
        let message = message.to_ascii_lowercase();
        let names = |word: &str| message.contains(word);
        if (names("max_tokens") || names("max_completion_tokens"))
            && request.max_tokens.is_some()
            && !self.other_max_tokens
        {
            return Some(Self { other_max_tokens: true, ..self });
        }
        if names("temperature") && request.temperature.is_some() && !self.no_temperature {
            return Some(Self { no_temperature: true, ..self });
        }
        if names("seed") && request.seed.is_some() && !self.no_seed {
            return Some(Self { no_seed: true, ..self });
        }
        if names("stream_options") && !self.no_stream_options {
            return Some(Self { no_stream_options: true, ..self });
        }
        let has_schema = matches!(request.format, Format::Schema { .. });
        // Not every refusal says what it is about.
        let may_be_format = matches!(status, 400 | 422 | 501)
            || ["response_format", "json", "schema", "grammar"].iter().any(|word| names(word));
        if has_schema && may_be_format {
            return self.with_simpler_json();
        }
        self.after_path(failure)
    }

    /// Returns the dialect with the other path, if the failure may be due to the path.
    pub(super) fn after_path(self, failure: &EndpointFailure) -> Option<Self> {
        let may_be_path = match failure {
            // An unknown model has the same status; the other path then has it, too.
            EndpointFailure::Refused { status, .. } => matches!(status, 404 | 405),
            // A page for people, as web interfaces of models have at all their other paths.
            EndpointFailure::Malformed(problem) => problem.contains("text/html"),
            _ => false,
        };
        (may_be_path && !self.other_path).then_some(Self { other_path: true, ..self })
    }

    fn with_simpler_json(self) -> Option<Self> {
        let json = match self.json {
            JsonFormat::Schema => JsonFormat::Object,
            JsonFormat::Object => JsonFormat::Instructions,
            JsonFormat::Instructions => return None,
        };
        Some(Self { json, ..self })
    }
}

/// The URL of an endpoint, and the one to try if it does not exist.
pub(super) struct EndpointUrls {
    pub(super) given: Url,
    pub(super) other: Url,
}

impl EndpointUrls {
    /// Returns the URLs of an endpoint below a base URL: the other one has `/v1` if the base does
    /// not end with it, and none if it does.
    pub(super) fn new(base: &Url, endpoint: &str) -> Self {
        let path = base.path().trim_end_matches('/');
        // People paste the whole address.
        let path = path.strip_suffix(endpoint).map_or(path, |path| path.trim_end_matches('/'));
        let other = match path.strip_suffix("/v1") {
            Some(without) => without.to_owned(),
            None => format!("{path}/v1"),
        };
        Self { given: below(base, path, endpoint), other: below(base, &other, endpoint) }
    }
}

fn below(base: &Url, path: &str, endpoint: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{path}/{endpoint}"));
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_url_has_or_lacks_the_version() {
        for (base, given, other) in [
            ("http://a/v1/", "http://a/v1/chat/completions", "http://a/chat/completions"),
            ("http://a/", "http://a/chat/completions", "http://a/v1/chat/completions"),
            ("http://a/x/v1/", "http://a/x/v1/chat/completions", "http://a/x/chat/completions"),
            (
                "http://a/v1/chat/completions/",
                "http://a/v1/chat/completions",
                "http://a/chat/completions",
            ),
        ] {
            let urls = EndpointUrls::new(&Url::parse(base).unwrap(), "chat/completions");
            assert_eq!((urls.given.as_str(), urls.other.as_str()), (given, other), "{base}");
        }
    }
}
