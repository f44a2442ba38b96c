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
pub(super) struct Schemas(Mutex<HashMap<String, Arc<Listed>>>);

/// A schema, compiled at the first call of its tool.
struct Listed {
    schema: Value,
    compiled: OnceLock<Option<Schema>>,
}

impl Schemas {
    /// Replaces the schemas.
    pub(super) fn learn(&self, tools: &[Tool]) {
        let listed = tools.iter().filter_map(|tool| {
            let listed = Listed { schema: tool.output_schema.clone()?, compiled: OnceLock::new() };
            Some((tool.name.clone(), Arc::new(listed)))
        });
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = listed.collect();
    }

    /// # Errors
    /// If the result violates its tool's schema.
    pub(super) fn check(
        &self,
        tool: &str,
        result: Box<RawValue>,
    ) -> Result<Box<RawValue>, ClientError> {
        let listed =
            self.0.lock().unwrap_or_else(PoisonError::into_inner).get(tool).map(Arc::clone);
        let schema = listed.as_ref().and_then(|listed| {
            let compile = || {
                Schema::untrusted(&listed.schema)
                    .inspect_err(|why| {
                        tracing::warn!(tool, why, "results cannot be checked: no usable schema");
                    })
                    .ok()
            };
            listed.compiled.get_or_init(compile).as_ref()
        });
        match schema.and_then(|schema| schema.faults_of_result(&result)) {
            Some(faults) => {
                Err(ClientError::OutputSchema { tool: tool.to_owned(), faults, result })
            }
            None => Ok(result),
        }
    }
}
