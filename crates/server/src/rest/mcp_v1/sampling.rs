//! `POST /mcp/v1/sampling/createMessage` as server-sent events: the text as the model writes it,
//! then the result.

use std::convert::Infallible;

use axum::{
    body::Body,
    http::{HeaderMap, Response},
};
use bytes::Bytes;
use futures_util::stream;
use marquetry_chat::{CREATE_MESSAGE, SamplingPart, SamplingStream};
use marquetry_protocol::{
    RpcError,
    server::{DirectCall, Principal, http::ConnectionInfo},
};
use serde_json::{Map, Value, json};

use super::{
    McpV1, Problem,
    events::{self, Heartbeat},
};
use crate::rest::accepts;

/// Removes the parameter `stream`, and returns whether the answer is to be a stream. Without the
/// parameter, `Accept` decides.
pub(super) fn takes_stream(
    params: &mut Map<String, Value>,
    accepts_events: bool,
) -> Result<bool, Problem> {
    match params.remove("stream") {
        Some(Value::Bool(is_wanted)) => Ok(is_wanted),
        None | Some(Value::Null) => Ok(accepts_events),
        Some(_) => Err(Problem::invalid_params("stream must be true or false".to_owned())),
    }
}

/// Returns whether `Accept` asks for events: it has `text/event-stream` and not `application/json`,
/// because clients of MCP accept both.
pub(super) fn accepts_events(headers: &HeaderMap) -> bool {
    accepts(headers, events::MEDIA_TYPE) && !accepts(headers, "application/json")
}

/// Starts the answer. What is wrong with the parameters is an error of its own status; later
/// failures are events.
pub(super) fn start(
    api: &McpV1,
    params: Map<String, Value>,
    principal: Option<&Principal>,
    call: DirectCall,
    connection: Option<ConnectionInfo>,
) -> Result<Response<Body>, Problem> {
    let params = serde_json::from_value(Value::Object(params))
        .map_err(|error| RpcError::invalid_params(error.to_string()))?;
    let answer = api.knowledge.stream_message(params, principal).map_err(RpcError::from)?;
    let events = Events { call, answer, heartbeat: Heartbeat::new(connection) };
    let stream = stream::unfold(Some(events), async |events| {
        let mut events = events?;
        let (event, is_last) = events.next().await?;
        Some((Ok::<_, Infallible>(event), (!is_last).then_some(events)))
    });
    Ok(events::response(Body::from_stream(stream)))
}

/// An answer as events. The model works only while the client reads. Dropping this ends its work,
/// and the request is no longer in flight.
struct Events {
    call: DirectCall,
    answer: SamplingStream,
    heartbeat: Heartbeat,
}

impl Events {
    /// Waits for the next event, and returns whether it is the last; [`None`] after the last one.
    async fn next(&mut self) -> Option<(Bytes, bool)> {
        let Self { call, answer, heartbeat } = self;
        // A panic and the end of the server are errors.
        let part = call.run(CREATE_MESSAGE, |_| async move {
            let part = answer.next().await.transpose();
            part.map_err(|failure| Problem::from(RpcError::from(failure)))
        });
        let part = tokio::select! {
            part = part => part,
            () = heartbeat.due() => return Some((events::KEEP_ALIVE_COMMENT, false)),
        };
        Some(match part {
            Ok(Some(SamplingPart::Text(text))) => {
                (events::event("delta", &json!({ "text": text })), false)
            }
            Ok(Some(SamplingPart::Result(result))) => (events::event("result", &result), true),
            Ok(None) => return None,
            Err(problem) => (events::event("error", &problem.body()), true),
        })
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header;

    use super::*;

    #[track_caller]
    fn check(params: Value, accept: &str, want: Result<bool, ()>) {
        let Value::Object(mut params) = params else { panic!("an object") };
        let mut headers = HeaderMap::new();
        if !accept.is_empty() {
            headers.insert(header::ACCEPT, accept.parse().unwrap());
        }
        assert_eq!(
            takes_stream(&mut params, accepts_events(&headers)).map_err(|_| ()),
            want,
            "{accept}"
        );
        assert!(params.is_empty());
    }

    #[test]
    fn the_parameter_decides_before_the_header() {
        check(json!({}), "", Ok(false));
        check(json!({}), "text/event-stream", Ok(true));
        check(json!({}), "Text/Event-Stream; q=0.9, */*", Ok(true));
        check(json!({}), "application/json, text/event-stream", Ok(false));
        check(json!({}), "*/*", Ok(false));
        check(json!({"stream": true}), "application/json", Ok(true));
        check(json!({"stream": false}), "text/event-stream", Ok(false));
        check(json!({"stream": null}), "text/event-stream", Ok(true));
        check(json!({"stream": "yes"}), "", Err(()));
    }
}
