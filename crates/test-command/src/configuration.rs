//! The stored configuration that cases run with.

use marquetry_judge::{
    ResultStore, ServerConfig,
    store::{
        Configuration, ConfigurationError, ConfigurationFilter, ConfigurationOrigin,
        ResolvedConfiguration,
    },
};
use tokio::runtime::Runtime;

use crate::{Environment, Failed, arguments::TestArgs, database, summary::one_line};

/// Names of configurations that an error lists.
const LISTED: u32 = 20;

/// Beginning of the names of variables that every configuration may read.
const TEST_VARIABLES: &str = "MARQUETRY_TEST_";

/// The configuration that `--configuration` names, with the values of its variables.
pub(crate) struct SelectedConfiguration {
    pub(crate) configuration: Configuration,
    pub(crate) resolved: ResolvedConfiguration,
}

impl SelectedConfiguration {
    /// Returns the configuration's id, servers, judge and variables, one a line, for the person who
    /// runs it. It has no values of variables.
    pub(crate) fn description(&self) -> String {
        let Configuration { id, name, server_configs, judge_config, .. } = &self.configuration;
        let mut lines = vec![format!("configuration: {name} ({id})")];
        for server in server_configs {
            lines.push(match server {
                ServerConfig::Stdio { command, args, .. } => {
                    let words: Vec<&str> =
                        std::iter::once(command).chain(args).map(String::as_str).collect();
                    format!("server: {}", words.join(" "))
                }
                ServerConfig::Sse { url, .. } | ServerConfig::Http { url, .. } => {
                    format!("server: {url}")
                }
                other => format!("server: {other:?}"),
            });
        }
        if let Some(judge) = judge_config {
            let model = format!("judge: {}/{}", judge.provider, judge.model);
            lines.push(match &judge.base_url {
                Some(url) => format!("{model} at {url}"),
                None => model,
            });
        }
        let variables: Vec<String> = self.configuration.variables().into_iter().collect();
        if !variables.is_empty() {
            lines.push(format!("variables: {}", variables.join(", ")));
        }
        lines.iter().map(|line| one_line(line) + "\n").collect()
    }
}

/// Reads the configuration that the arguments name, with values of the environment.
pub(crate) fn select(
    arguments: &TestArgs,
    environment: Environment<'_>,
) -> Result<Option<SelectedConfiguration>, Failed> {
    let Some(name) = &arguments.configuration else { return Ok(None) };
    let runtime = Runtime::new().map_err(Failed::error)?;
    let configuration = runtime.block_on(async {
        let store =
            database::open(&arguments.database, environment, database::Missing::Refuse).await?;
        find(&*store, name).await
    })?;
    let resolved = resolve(&configuration, &arguments.variable, environment.variable)?;
    Ok(Some(SelectedConfiguration { configuration, resolved }))
}

/// Replaces the variables of a configuration by values of the environment. It reads only variables
/// that the person who runs the configuration has named, because anyone with access to the database
/// can store a configuration that sends any variable to a server of theirs.
fn resolve(
    configuration: &Configuration,
    named: &[String],
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<ResolvedConfiguration, Failed> {
    let mut refused = configuration.variables();
    refused.retain(|name| !name.starts_with(TEST_VARIABLES) && !named.contains(name));
    if !refused.is_empty() {
        let references: Vec<String> = refused.iter().map(|name| format!("${{{name}}}")).collect();
        let options: Vec<String> =
            refused.iter().map(|name| format!("--variable {name}")).collect();
        return Err(Failed::usage(format!(
            "--configuration: the configuration {:?} ({}) reads {} from the environment: if its servers and its judge may have them, add {}",
            configuration.name,
            configuration.id,
            references.join(", "),
            options.join(" ")
        )));
    }
    configuration.resolve(variable).map_err(|error| {
        let is_missing = matches!(error, ConfigurationError::MissingVariables { .. });
        let advice = if is_missing { ": set them in the environment" } else { "" };
        Failed::usage(format!("--configuration: {error}{advice}"))
    })
}

/// Finds a configuration: by its id, or the newest that a user created under the name.
async fn find(store: &dyn ResultStore, name: &str) -> Result<Configuration, Failed> {
    if let Some(configuration) = store.configuration(name).await.map_err(Failed::error)? {
        return Ok(configuration);
    }
    let mut filter = ConfigurationFilter::default();
    filter.origin = Some(ConfigurationOrigin::Created);
    filter.page.limit = Some(1);
    filter.name = Some(name.to_owned());
    let found = store.configurations(&filter).await.map_err(Failed::error)?;
    if let Some(configuration) = found.items.into_iter().next() {
        return Ok(configuration);
    }
    filter.name = None;
    filter.page.limit = Some(LISTED);
    let others = store.configurations(&filter).await.map_err(Failed::error)?.items;
    let mut names: Vec<String> = others.into_iter().map(|it| format!("{:?}", it.name)).collect();
    names.sort_unstable();
    names.dedup();
    let known = if names.is_empty() {
        "none is stored; POST /api/test/configurations of a test server stores one".to_owned()
    } else {
        format!("the newest are {}", names.join(", "))
    };
    Err(Failed::usage(format!("--configuration: no configuration is called {name:?}: {known}")))
}

#[cfg(test)]
mod tests {
    use marquetry_judge::{MemoryStore, ModelSettings, TestCase, store::NewConfiguration};

    use super::*;

    /// A configuration whose judge has this key.
    fn with_key(key: &str) -> Configuration {
        let mut judge = ModelSettings::new("custom", "m");
        judge.base_url = Some("http://models.example/v1".to_owned());
        judge.api_key = Some(key.to_owned());
        let new = NewConfiguration {
            name: "nightly".to_owned(),
            server_configs: vec![
                ServerConfig::stdio("npx", ["-y", "a\nb"]),
                ServerConfig::http("http://h/mcp"),
            ],
            judge_config: Some(judge),
            ..NewConfiguration::default()
        };
        Configuration::new(new).unwrap()
    }

    /// Returns the judge's key if these variables are named, or the error.
    fn key_of(key: &str, named: &[&str]) -> Result<String, String> {
        let named: Vec<String> = named.iter().map(|name| (*name).to_owned()).collect();
        let resolved = resolve(&with_key(key), &named, &|name: &str| {
            (name != "UNSET").then(|| format!("value of {name}"))
        });
        let mut case = TestCase::new("a", "b");
        resolved.map_err(|failed| failed.message)?.apply(&mut case);
        Ok(case.judge_config.unwrap().api_key.unwrap())
    }

    #[test]
    fn a_configuration_reads_only_the_variables_that_are_named() {
        assert_eq!(key_of("${KEY}", &["OTHER", "KEY"]).unwrap(), "value of KEY");
        let unnamed = key_of("${MARQUETRY_TEST_KEY}", &[]).unwrap();
        assert_eq!(unnamed, "value of MARQUETRY_TEST_KEY");
        for (key, named) in [("${CI_TOKEN}", &[][..]), ("${CI_TOKEN}", &["CI", "ci_token"])] {
            let error = key_of(key, named).unwrap_err();
            let start = "--configuration: the configuration \"nightly\" (";
            let end = ") reads ${CI_TOKEN} from the environment: if its servers and its judge may have them, add --variable CI_TOKEN";
            assert!(error.starts_with(start) && error.ends_with(end), "{error}");
        }
        key_of("${MARQUETRY_TESTS}", &[]).unwrap_err();
        let unset = key_of("${UNSET}", &["UNSET"]).unwrap_err();
        assert_eq!(
            unset,
            "--configuration: the configuration \"nightly\" needs values for ${UNSET}: set them in the environment"
        );
    }

    #[test]
    fn a_description_has_one_line_for_each_server_and_no_values() {
        let configuration = with_key("${KEY}");
        let resolved = configuration.resolve(|_| Some("sk-secret".to_owned())).unwrap();
        let selected = SelectedConfiguration { configuration, resolved };
        let id = &selected.configuration.id;
        let want = format!(
            "configuration: nightly ({id})\nserver: npx -y a b\nserver: http://h/mcp\njudge: custom/m at http://models.example/v1\nvariables: KEY\n"
        );
        assert_eq!(selected.description(), want);
    }

    async fn put(store: &MemoryStore, name: &str, model: &str) -> Configuration {
        let new = NewConfiguration {
            name: name.to_owned(),
            judge_config: Some(ModelSettings::new("openai", model)),
            ..NewConfiguration::default()
        };
        let configuration = Configuration::new(new).unwrap();
        store.put_configuration(&configuration).await.unwrap();
        configuration
    }

    #[tokio::test]
    async fn a_name_is_the_newest_that_a_user_created() {
        let store = MemoryStore::new();
        let missing = find(&store, "nightly").await.unwrap_err();
        assert_eq!(missing.code, Failed::USAGE);
        assert!(missing.message.contains("none is stored; POST"), "{}", missing.message);
        let old = put(&store, "nightly", "a").await;
        let new = put(&store, "nightly", "b").await;
        // It has the name of a configuration that is stored with a run.
        let mut case = TestCase::new("a", "b");
        case.judge_config = Some(ModelSettings::new("openai", "c"));
        let derived = Configuration::shared_by([&case]).unwrap();
        store.put_configuration(&derived).await.unwrap();
        let named_like_it = put(&store, &derived.name, "d").await;
        store.put_configuration(&derived).await.unwrap();

        for (name, want) in [
            ("nightly", &new),
            (&*old.id, &old),
            (&*derived.name, &named_like_it),
            (&*derived.id, &derived),
        ] {
            assert_eq!(find(&store, name).await.unwrap().id, want.id, "{name}");
        }
        let missing = find(&store, "daily").await.unwrap_err().message;
        let listed =
            "no configuration is called \"daily\": the newest are \"judge c\", \"nightly\"";
        assert!(missing.ends_with(listed), "{missing}");
    }
}
