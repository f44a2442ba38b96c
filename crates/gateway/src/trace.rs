//! Tells upstreams to which trace a request belongs.

use indexmap::IndexMap;
use marquetry_trace_context::TraceContext;
use serde_json::{
    Map, Value,
    value::{RawValue, to_raw_value},
};

/// Writes the span of a call into the `_meta` of its parameters (MCP, "OpenTelemetry trace
/// context"). The agent's own `traceparent` there names a span above it.
pub(super) fn with_traceparent(
    params: &RawValue,
    span: TraceContext,
) -> Result<Box<RawValue>, serde_json::Error> {
    let mut members: IndexMap<String, Box<RawValue>> = serde_json::from_str(params.get())?;
    let mut meta: Map<String, Value> = match members.get("_meta") {
        Some(meta) => serde_json::from_str(meta.get())?,
        None => Map::new(),
    };
    meta.insert("traceparent".to_owned(), span.to_string().into());
    members.insert("_meta".to_owned(), to_raw_value(&meta)?);
    to_raw_value(&members)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_parent_changes() {
        let span = TraceContext::root(true);
        for (params, kept) in [
            (r#"{"name":"t","arguments":{"n":1.50}}"#, json!({})),
            (
                r#"{"name":"t","_meta":{"traceparent":"x","a":1},"arguments":{"n":1.50}}"#,
                json!({"a": 1}),
            ),
        ] {
            let params = RawValue::from_string(params.to_owned()).unwrap();
            let traced = with_traceparent(&params, span).unwrap();
            assert!(traced.get().contains(r#""arguments":{"n":1.50}"#), "{traced}");
            let mut traced: Value = serde_json::from_str(traced.get()).unwrap();
            let meta = traced["_meta"].as_object_mut().unwrap();
            assert_eq!(meta.remove("traceparent"), Some(span.to_string().into()));
            assert_eq!(traced["_meta"], kept);
        }
    }
}
