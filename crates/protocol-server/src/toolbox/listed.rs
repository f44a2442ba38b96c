//! Resources and prompts written as functions.

use std::{future::Future, pin::Pin};

use marquetry_protocol_wire::{
    RpcError,
    types::{GetPromptResult, JsonObject, Prompt, Resource, ResourceContents},
};

use crate::context::RequestContext;

type Answer<T> = Pin<Box<dyn Future<Output = Result<T, RpcError>> + Send>>;

/// A resource and the function that reads it.
pub(super) struct ListedResource {
    pub(super) resource: Resource,
    read: Box<dyn Fn(RequestContext) -> Answer<ResourceContents> + Send + Sync>,
}

impl ListedResource {
    pub(super) fn new<F, Fut, C>(resource: Resource, read: F) -> Self
    where
        F: Fn(RequestContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<C, RpcError>> + Send + 'static,
        C: Into<ResourceContents>,
    {
        let read = Box::new(move |cx| -> Answer<ResourceContents> {
            let contents = read(cx);
            Box::pin(async move { contents.await.map(Into::into) })
        });
        Self { resource, read }
    }

    /// Returns the contents; members that the function leaves out are taken from the list's entry.
    pub(super) async fn read(&self, cx: RequestContext) -> Result<ResourceContents, RpcError> {
        let mut contents = (self.read)(cx).await?;
        if contents.uri.is_empty() {
            contents.uri.clone_from(&self.resource.uri);
        }
        if contents.mime_type.is_none() {
            contents.mime_type.clone_from(&self.resource.mime_type);
        }
        Ok(contents)
    }
}

/// A prompt and the function that fills it in.
pub(super) struct ListedPrompt {
    pub(super) prompt: Prompt,
    get: Box<dyn Fn(JsonObject, RequestContext) -> Answer<GetPromptResult> + Send + Sync>,
}

impl ListedPrompt {
    pub(super) fn new<F, Fut, P>(prompt: Prompt, get: F) -> Self
    where
        F: Fn(JsonObject, RequestContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<P, RpcError>> + Send + 'static,
        P: Into<GetPromptResult>,
    {
        let get = Box::new(move |arguments, cx| -> Answer<GetPromptResult> {
            let result = get(arguments, cx);
            Box::pin(async move { result.await.map(Into::into) })
        });
        Self { prompt, get }
    }

    /// Returns the filled-in prompt.
    ///
    /// # Errors
    /// Returns an error if a required argument is missing, or the function fails.
    pub(super) async fn get(
        &self,
        arguments: JsonObject,
        cx: RequestContext,
    ) -> Result<GetPromptResult, RpcError> {
        for argument in self.prompt.arguments.iter().filter(|it| it.required) {
            if !arguments.contains_key(&argument.name) {
                return Err(RpcError::invalid_params(format!(
                    "argument '{}' of prompt '{}' is missing",
                    argument.name, self.prompt.name
                )));
            }
        }
        (self.get)(arguments, cx).await
    }
}
