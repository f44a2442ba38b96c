//! Settings that replace parts of the known profiles.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{profile::ClientProfile, settings::ClientSettings, table::known_clients};

/// Settings of clients, by the beginning of their names: `[clients.NAME]` of a configuration file.
/// The name `default` stands for clients that are not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct ClientOverrides(pub BTreeMap<String, ClientSettings>);

/// Name of the settings for clients that are not known.
const DEFAULT: &str = "default";

impl ClientOverrides {
    /// Returns the profile of a client by its `clientInfo.name` and `clientInfo.version`, with
    /// these settings.
    #[must_use]
    pub fn profile(&self, client_name: &str, version: &str) -> ClientProfile {
        let name = without_proxy(client_name);
        let known = known_clients()
            .iter()
            .filter(|client| client.name.as_deref().is_some_and(|known| is_prefix(known, name)))
            .filter(|client| {
                client.before.as_deref().is_none_or(|before| is_before(version, before))
            })
            .max_by_key(|client| {
                (client.name.as_ref().map_or(0, String::len), client.before.is_some())
            });
        let named = self
            .0
            .iter()
            .filter(|(prefix, _)| *prefix != DEFAULT && is_prefix(prefix, name))
            .max_by_key(|(prefix, _)| prefix.len());
        let profile = match (known, self.0.get(DEFAULT)) {
            (Some(known), _) => known.clone(),
            (None, Some(default)) => default.applied_to(ClientProfile::default()),
            (None, None) => ClientProfile::default(),
        };
        match named {
            Some((_, settings)) if known.is_some() => settings.applied_to(profile),
            Some((prefix, settings)) => ClientProfile {
                name: Some(prefix.clone()),
                title: prefix.clone(),
                ..settings.applied_to(profile)
            },
            None => profile,
        }
    }
}

impl ClientProfile {
    /// Returns the profile of the newest version of a client by its `clientInfo.name`, or that of
    /// unknown clients.
    ///
    /// The name is a hint about formats. It must never decide about rights.
    ///
    /// ```
    /// use marquetry_client_profiles::{ClientProfile, Shows};
    ///
    /// let profile = ClientProfile::of("claude-code (via mcp-remote 0.1.37)");
    /// assert_eq!(profile.shows, Shows::Structured);
    /// assert_eq!(ClientProfile::of("my-agent").name, None);
    /// ```
    #[must_use]
    pub fn of(client_name: &str) -> Self {
        ClientOverrides::default().profile(client_name, "")
    }
}

/// Returns a name without the part that `mcp-remote` adds.
fn without_proxy(name: &str) -> &str {
    name.split_once(" (via ").map_or(name, |(client, _)| client).trim()
}

/// Returns whether a version is older than `limit`. One that does not begin with a number is not.
fn is_before(version: &str, limit: &str) -> bool {
    let version = numbers(version);
    !version.is_empty() && version < numbers(limit)
}

/// Returns the numbers at the beginning of a version: `1.0.56-beta.2` has 1, 0 and 56.
fn numbers(version: &str) -> Vec<u64> {
    let release = version.trim().trim_start_matches('v').split(['-', '+', ' ']).next();
    release.unwrap_or_default().split('.').map_while(|part| part.parse().ok()).collect()
}

/// Returns whether `prefix` is the beginning of `name`, up to a character that ends a word:
/// `goose` is the beginning of `goose-cli`, and not of `gooseberry`.
fn is_prefix(prefix: &str, name: &str) -> bool {
    let Some(beginning) = name.get(..prefix.len()) else { return false };
    beginning.eq_ignore_ascii_case(prefix)
        && name[prefix.len()..].chars().next().is_none_or(|next| !next.is_alphanumeric())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::profile::Shows;

    #[track_caller]
    fn check(client_name: &str, want: Option<&str>) {
        assert_eq!(ClientProfile::of(client_name).name.as_deref(), want, "{client_name}");
    }

    #[test]
    fn clients_are_recognised_by_the_beginning_of_their_names() {
        check("claude-code", Some("claude-code"));
        check("claude-code (via mcp-remote 0.1.37)", Some("claude-code"));
        check("Visual Studio Code - Insiders", Some("Visual Studio Code"));
        check("goose-cli", Some("goose"));
        check("zed", Some("Zed"));
        check("gooseberry", None);
        check("", None);
        check("mcp", None);
    }

    #[test]
    fn older_versions_have_profiles_of_their_own() {
        for (version, want) in [
            ("1.0.55", Shows::Structured),
            ("0.9", Shows::Structured),
            ("v1.0.9-beta.3", Shows::Structured),
            ("1.0.56", Shows::Both),
            ("1.0.100", Shows::Both),
            ("2", Shows::Both),
            ("", Shows::Both),
            ("unknown", Shows::Both),
        ] {
            let profile = overrides("").profile("github-copilot-developer", version);
            assert_eq!(profile.shows, want, "{version}");
        }
    }

    fn overrides(toml: &str) -> ClientOverrides {
        toml::from_str(toml).unwrap()
    }

    #[test]
    fn settings_replace_parts_of_a_profile() {
        let clients = overrides("[claude-code]\nmax_tokens = 50000\n[my-agent]\nshows = 'content'");
        let claude = clients.profile("claude-code", "1.0");
        assert_eq!((claude.max_tokens, claude.max_chars), (Some(50_000), Some(50_000)));
        let mine = clients.profile("my-agent/2", "1.0");
        assert_eq!((mine.shows, mine.name.as_deref()), (Shows::Content, Some("my-agent")));
        assert_eq!(mine.title, "my-agent");
        assert_eq!(clients.profile("other", "1.0"), ClientProfile::default());
    }

    #[test]
    fn a_client_shows_both_only_if_that_is_known() {
        let clients = overrides("[my-agent]\nmax_chars = 10000\n[other]\nshows = 'both'");
        assert!(!clients.profile("my-agent", "1").shows_both());
        assert!(clients.profile("other", "1").shows_both());
        assert!(!clients.profile("third", "1").shows_both());
        assert!(ClientProfile::of("Cline").shows_both());
    }

    #[test]
    fn default_stands_for_unknown_clients() {
        let clients = overrides("[default]\nshows = 'structured'\nmax_chars = 10000");
        assert!(clients.profile("other", "1.0").replaces_text());
        assert_eq!(clients.profile("other", "1.0").shown_chars(), Some(9_000));
        assert_eq!(clients.profile("Zed", "1.0").shows, Shows::Content);
    }

    #[test]
    fn images_have_types_and_sizes() {
        let profile = ClientProfile::of("@librechat/api-client");
        assert!(profile.shows_image("image/PNG", 10 << 20));
        assert!(!profile.shows_image("image/png", (10 << 20) + 1));
        assert!(!profile.shows_image("image/svg+xml", 1));
        assert!(!ClientProfile::of("continue-client").shows_image("image/png", 1));
    }

    proptest! {
        #[test]
        fn every_name_has_a_profile(name in ".*") {
            let profile = ClientProfile::of(&name);
            prop_assert!(profile.shown_tokens() > 0);
        }
    }
}
