//! Models of the configured provider.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use marquetry_knowledge::{ErrorCode, Failure};
use marquetry_llm::{ChatError, ChatModel, EndpointFailure, ModelConfig, RemoteModel};

/// Models of the configured provider, by name.
pub(super) struct Models {
    config: Option<ModelConfig>,
    /// Models in use; each keeps connections open.
    ready: Mutex<BTreeMap<String, Arc<dyn ChatModel>>>,
}

/// Maximum number of models with open connections. Records may name any model.
const MAX_READY: usize = 16;

impl Models {
    pub(super) fn new(config: Option<ModelConfig>) -> Self {
        Self { config, ready: Mutex::default() }
    }

    /// Returns the configured model, or another one of the same provider.
    pub(super) fn get(&self, name: Option<&str>) -> Result<Arc<dyn ChatModel>, Failure> {
        let Some(config) = &self.config else {
            return Err(Failure::new(
                ErrorCode::Unavailable,
                "chat is off: no model is configured. Set provider and model in [knowledge.chat], for example \
                 provider = \"ollama\", model = \"qwen3:4b\"",
            ));
        };
        let name = name.map(str::trim).filter(|name| !name.is_empty()).unwrap_or(&config.model);
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = ready.get(name) {
            return Ok(model.clone());
        }
        let mut config = config.clone();
        name.clone_into(&mut config.model);
        let model: Arc<dyn ChatModel> = Arc::new(RemoteModel::new(config).map_err(failure)?);
        if ready.len() == MAX_READY {
            ready.clear();
        }
        ready.insert(name.to_owned(), model.clone());
        Ok(model)
    }
}

/// Converts an error of a model.
pub(super) fn failure(error: ChatError) -> Failure {
    let code = match &error {
        ChatError::Config(_)
        | ChatError::Provider(
            EndpointFailure::Refused { .. }
            | EndpointFailure::Redirected { .. }
            | EndpointFailure::Unauthorized { .. },
        ) => ErrorCode::Internal,
        _ => ErrorCode::Unavailable,
    };
    let advice = match &error {
        ChatError::Provider(EndpointFailure::Timeout(_)) => {
            "; or raise timeout_ms and answer_timeout_ms in [knowledge.chat]"
        }
        _ => "",
    };
    Failure::new(code, format!("the model gave no answer: {error}{advice}"))
}
