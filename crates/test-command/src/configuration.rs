//! The stored configuration that cases run with.

use marquetry_judge::{
    ResultStore, StoreError,
    store::{Configuration, ConfigurationFilter, ConfigurationOrigin, ResolvedConfiguration},
};
use tokio::runtime::Runtime;

use crate::{Environment, Failed, arguments::TestArgs, database};

/// Names of configurations that an error lists.
const LISTED: u32 = 20;

/// A configuration with the values of its variables.
pub(crate) struct Chosen {
    pub(crate) configuration: Configuration,
    pub(crate) resolved: ResolvedConfiguration,
}

/// Reads the configuration that the arguments name, with values of the environment.
pub(crate) fn chosen(
    arguments: &TestArgs,
    environment: Environment<'_>,
) -> Result<Option<Chosen>, Failed> {
    let Some(name) = &arguments.configuration else { return Ok(None) };
    let runtime = Runtime::new().map_err(Failed::error)?;
    let configuration = runtime.block_on(async {
        let store = database::open_existing(&arguments.database, environment).await?;
        find(&*store, name).await
    })?;
    let resolved = configuration.resolve(environment.variable);
    let resolved = resolved
        .map_err(|error| Failed::usage(format!("--configuration: {error} (environment)")))?;
    Ok(Some(Chosen { configuration, resolved }))
}

/// Finds a configuration: by its id, or the newest that a user created under the name.
async fn find(store: &dyn ResultStore, name: &str) -> Result<Configuration, Failed> {
    let failed = |error: StoreError| Failed::error(error);
    if let Some(configuration) = store.configuration(name).await.map_err(failed)? {
        return Ok(configuration);
    }
    let mut filter = ConfigurationFilter::default();
    filter.origin = Some(ConfigurationOrigin::Created);
    filter.page.limit = Some(1);
    filter.name = Some(name.to_owned());
    let found = store.configurations(&filter).await.map_err(failed)?;
    if let Some(configuration) = found.items.into_iter().next() {
        return Ok(configuration);
    }
    (filter.name, filter.page.limit) = (None, Some(LISTED));
    let others = store.configurations(&filter).await.map_err(failed)?.items;
    let mut names: Vec<String> = others.into_iter().map(|it| format!("{:?}", it.name)).collect();
    names.sort_unstable();
    names.dedup();
    let known = match names.is_empty() {
        true => {
            "none is stored; POST /api/test/configurations of a test server stores one".to_owned()
        }
        false => format!("the newest are {}", names.join(", ")),
    };
    Err(Failed::usage(format!("--configuration: no configuration is called {name:?}: {known}")))
}

#[cfg(test)]
mod tests {
    use marquetry_judge::{MemoryStore, ModelSettings, TestCase, store::NewConfiguration};

    use super::*;

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
