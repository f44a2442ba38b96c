//! Methods with typed parameters and results; [`Client::request`] uses JSON.

use marquetry_protocol_wire::types::{
    CallToolParams, CallToolResult, CompleteParams, CompleteResult, Content, GetPromptParams,
    GetPromptResult, LogLevel, ReadResourceResult,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json, value::to_raw_value};

use super::{
    Client,
    error::{ClientError, ProtocolError},
    options::CallOptions,
};

impl Client {
    /// Calls a tool. A failed tool is a result ([`CallToolResult::is_error`]).
    ///
    /// # Errors
    /// Returns an error as [`Self::call_tool_raw`] does, and if the answer is not a tool's result
    /// ([`ClientError::Protocol`]).
    pub async fn call_tool(
        &self,
        call: &CallToolParams,
        options: CallOptions,
    ) -> Result<CallToolResult, ClientError> {
        read("tools/call", self.call_tool_raw(call, options).await?.get())
    }

    /// Calls a tool and parses its answer as `T`: from `structuredContent`, otherwise from its only
    /// text, as JSON or as a string. [`Self::call_tool`] returns the whole answer, and takes
    /// options.
    ///
    /// ```no_run
    /// # async fn run(client: marquetry_protocol_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// #[derive(serde::Deserialize)]
    /// struct Weather { celsius: f64 }
    ///
    /// let weather: Weather = client.call_tool_as("weather", &serde_json::json!({ "city": "Oslo" })).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns an error as [`Self::call_tool`] does, if the tool fails
    /// ([`ClientError::ToolFailed`]), and if the answer is not a `T` ([`ClientError::Protocol`]).
    pub async fn call_tool_as<T: DeserializeOwned>(
        &self,
        name: &str,
        arguments: &(impl Serialize + Sync + ?Sized),
    ) -> Result<T, ClientError> {
        let arguments = Some(to_raw_value(arguments).map_err(ClientError::params)?);
        let params = CallToolParams { name: name.to_owned(), arguments, meta: None };
        let answer = self.call_tool(&params, CallOptions::default()).await?;
        let text = match &answer.content[..] {
            [Content::Text { text, .. }] => Some(text),
            _ => None,
        };
        if answer.is_error() {
            let message = text.map_or_else(|| json!(answer.content).to_string(), Clone::clone);
            return Err(ClientError::ToolFailed { tool: name.to_owned(), message });
        }
        let parsed = match (answer.structured_content, text) {
            (Some(data), _) => T::deserialize(&data)
                .or_else(|error| wrapped(&data).map_or(Err(error), T::deserialize))
                .map_err(|error| error.to_string()),
            (None, Some(text)) => serde_json::from_str(text).or_else(|error| {
                T::deserialize(Value::String(text.clone())).map_err(|_| error.to_string())
            }),
            (None, None) => Err("it has neither data nor a single text".to_owned()),
        };
        parsed
            .map_err(|problem| ProtocolError::ToolAnswer { tool: name.to_owned(), problem }.into())
    }

    /// Reads a resource.
    ///
    /// # Errors
    /// Returns an error as [`Self::request`] does.
    pub async fn read_resource(&self, uri: &str) -> Result<ReadResourceResult, ClientError> {
        self.typed("resources/read", &json!({ "uri": uri })).await
    }

    /// Fills in a prompt.
    ///
    /// # Errors
    /// Returns an error as [`Self::request`] does.
    pub async fn get_prompt(
        &self,
        params: &GetPromptParams,
    ) -> Result<GetPromptResult, ClientError> {
        self.typed("prompts/get", params).await
    }

    /// Completes an argument of a prompt or a resource template.
    ///
    /// # Errors
    /// Returns an error as [`Self::request`] does.
    pub async fn complete(&self, params: &CompleteParams) -> Result<CompleteResult, ClientError> {
        self.typed("completion/complete", params).await
    }

    /// Asks a session's server for log messages from `level` on. Without a session each call sets
    /// its own level ([`CallOptions::log_level`]).
    ///
    /// # Errors
    /// Returns an error as [`Self::request`] does.
    pub async fn set_log_level(&self, level: LogLevel) -> Result<(), ClientError> {
        let _: Value = self.typed("logging/setLevel", &json!({ "level": level })).await?;
        Ok(())
    }

    async fn typed<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &(impl Serialize + Sync),
    ) -> Result<T, ClientError> {
        let params = to_raw_value(params).map_err(ClientError::params)?;
        let result = self.request(method, Some(&params), CallOptions::default()).await?;
        read(method, result.get())
    }
}

/// Returns the value in data that is an object only because the revision requires one (`{"result":
/// value}`).
fn wrapped(data: &Value) -> Option<&Value> {
    let members = data.as_object().filter(|members| members.len() == 1)?;
    members.get("result")
}

fn read<T: DeserializeOwned>(method: &str, result: &str) -> Result<T, ClientError> {
    serde_json::from_str(result).map_err(|error| ClientError::result(method, error))
}
