//! Checks of tool results against the schemas in the server's list.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use marquetry_protocol_wire::{schema::Schema, types::Tool};
use serde_json::{Value, value::RawValue};

use super::ClientError;

/// The `outputSchema` of each listed tool.
#[derive(Default)]
pub(super) struct Schemas(Mutex<HashMap<String, Arc<ListedSchema>>>);

/// A schema, compiled at the first call of its tool.
struct ListedSchema {
    schema: Value,
    compiled: OnceLock<Option<Schema>>,
}

impl ListedSchema {
    fn compiled(&self, tool: &str) -> Option<&Schema> {
        let compiled = self.compiled.get_or_init(|| match Schema::untrusted(&self.schema) {
            Ok(schema) => Some(schema),
            Err(why) => {
                tracing::warn!(tool, why, "results cannot be checked: the schema is not usable");
                None
            }
        });
        compiled.as_ref()
    }
}

impl Schemas {
    /// Replaces the schemas by those of a complete list of tools.
    pub(super) fn replace(&self, tools: &[Tool]) {
        let listed = tools.iter().filter_map(|tool| {
            let listed =
                ListedSchema { schema: tool.output_schema.clone()?, compiled: OnceLock::new() };
            Some((tool.name.clone(), Arc::new(listed)))
        });
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = listed.collect();
    }

    /// Checks a result of a tool.
    ///
    /// # Errors
    /// Returns an error if the result violates its tool's schema.
    pub(super) fn check(
        &self,
        tool: &str,
        result: Box<RawValue>,
    ) -> Result<Box<RawValue>, ClientError> {
        let listed =
            self.0.lock().unwrap_or_else(PoisonError::into_inner).get(tool).map(Arc::clone);
        let schema = listed.as_ref().and_then(|listed| listed.compiled(tool));
        match schema.and_then(|schema| schema.faults_of_result(&result)) {
            Some(faults) => {
                Err(ClientError::OutputSchema { tool: tool.to_owned(), faults, result })
            }
            None => Ok(result),
        }
    }
}
