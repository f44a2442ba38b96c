//! What a result says about itself.

use serde::Deserialize;
use serde_json::value::RawValue;

/// What a result says about itself: whether the tool failed, or the server asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResultKind {
    /// An answer.
    Complete,
    /// The tool failed (`isError`).
    Failed,
    /// The server asks the client; the client calls again with the answer.
    InputRequired,
}

impl ResultKind {
    /// Returns the kind of a result. Only results that may be special are parsed, because ordinary
    /// ones can be large.
    #[must_use]
    pub fn of(result: &RawValue) -> Self {
        #[derive(Deserialize)]
        struct ResultHead {
            #[serde(default, rename = "isError")]
            is_error: bool,
            #[serde(default, rename = "resultType")]
            result_type: Option<String>,
        }
        let text = result.get();
        if !text.contains("isError") && !text.contains("input_required") {
            return Self::Complete;
        }
        match serde_json::from_str::<ResultHead>(text) {
            Ok(ResultHead { is_error: true, .. }) => Self::Failed,
            Ok(ResultHead { result_type: Some(kind), .. }) if kind == "input_required" => {
                Self::InputRequired
            }
            _ => Self::Complete,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_say_what_they_are() {
        for (text, kind) in [
            (r#"{"content":[]}"#, ResultKind::Complete),
            (r#"{"isError":false}"#, ResultKind::Complete),
            (r#"{"isError":true}"#, ResultKind::Failed),
            (r#"{"resultType":"input_required"}"#, ResultKind::InputRequired),
            (r#"{"text":"isError input_required"}"#, ResultKind::Complete),
            (r#"{"isError":1}"#, ResultKind::Complete),
        ] {
            let result = RawValue::from_string(text.to_owned()).unwrap();
            assert_eq!(ResultKind::of(&result), kind, "{text}");
        }
    }
}
