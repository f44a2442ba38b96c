//! Parses the answer of a judge, which is untrusted text.

use serde_json::{Map, Value};

/// Longest answer that is read, in bytes.
pub const MAX_ANSWER_BYTES: usize = 256 << 10;

/// Longest text in a vote, in bytes; the rest is cut off.
const MAX_TEXT_BYTES: usize = 4096;

/// The checked answer of a judge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedVote {
    /// Yes or no with its evidence, in the order of the given ids.
    pub answers: Vec<(bool, String)>,
    /// The summary.
    pub reasoning: String,
    /// Suggestions, unless they are blank.
    pub suggestions: Option<String>,
}

/// Why an answer is not a vote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VoteError {
    /// It is longer than [`MAX_ANSWER_BYTES`].
    #[error("it is longer than {MAX_ANSWER_BYTES} bytes")]
    TooLong,
    /// It was cut at its maximum length.
    #[error("it was cut at the maximum length")]
    Cut,
    /// It does not hold a JSON object.
    #[error("it is not a JSON object: {0}")]
    NotJson(String),
    /// A member is missing or has another type.
    #[error("{path} is not {needs}")]
    Type {
        /// The path of the member.
        path: String,
        /// What it must be.
        needs: &'static str,
    },
    /// An item that was not asked for.
    #[error("there is no item {0:?}")]
    UnknownItem(String),
    /// An item is answered twice.
    #[error("item {0:?} is answered twice")]
    Repeated(String),
    /// An item is not answered.
    #[error("item {0:?} is not answered")]
    Missing(String),
}

/// Reads an answer to the items of these ids. Thoughts (`<think>`), text around the object and
/// fences of Markdown are left out; every member is checked.
///
/// # Errors
///
/// Returns an error if the answer is not a vote on all items; see [`VoteError`].
pub fn parse_vote(text: &str, ids: &[String]) -> Result<ParsedVote, VoteError> {
    if text.len() > MAX_ANSWER_BYTES {
        return Err(VoteError::TooLong);
    }
    let vote = object_in(text)?;
    // Members of the seed's verdict, which a model may add unasked. Code derives their values, but
    // an invalid value shows that the model did not understand its task.
    for name in ["confidence", "toolAccuracy"] {
        if let Some(value) = vote.get(name)
            && !value.as_f64().is_some_and(|number| (0.0..=1.0).contains(&number))
        {
            return Err(type_error(name, "a number from 0 to 1"));
        }
    }
    if vote.get("passed").is_some_and(|value| !value.is_boolean()) {
        return Err(type_error("passed", "true or false"));
    }
    let items =
        vote.get("items").and_then(Value::as_array).ok_or_else(|| type_error("items", "a list"))?;
    let mut answers = vec![None; ids.len()];
    for (number, item) in items.iter().enumerate() {
        let item =
            item.as_object().ok_or_else(|| type_error(format!("items[{number}]"), "an object"))?;
        let id = item
            .get("id")
            .and_then(Value::as_str)
            .ok_or_else(|| type_error(format!("items[{number}].id"), "a text"))?;
        let place = ids
            .iter()
            .position(|known| known == id)
            .ok_or_else(|| VoteError::UnknownItem(cut(id, 40)))?;
        let evidence = item
            .get("evidence")
            .and_then(Value::as_str)
            .map(str::trim)
            .filter(|evidence| !evidence.is_empty())
            .ok_or_else(|| {
                type_error(format!("items[{number}].evidence"), "a text that is not blank")
            })?;
        let yes = yes(item.get("answer"))
            .ok_or_else(|| type_error(format!("items[{number}].answer"), "\"yes\" or \"no\""))?;
        if answers[place].replace((yes, cut(evidence, MAX_TEXT_BYTES))).is_some() {
            return Err(VoteError::Repeated(id.to_owned()));
        }
    }
    let mut all = Vec::with_capacity(ids.len());
    for (answer, id) in answers.into_iter().zip(ids) {
        all.push(answer.ok_or_else(|| VoteError::Missing(id.clone()))?);
    }
    let reasoning = optional_text(&vote, "reasoning")?;
    let suggestions = optional_text(&vote, "suggestions")?;
    Ok(ParsedVote {
        answers: all,
        reasoning: cut(reasoning, MAX_TEXT_BYTES),
        suggestions: (!suggestions.is_empty()).then(|| cut(suggestions, MAX_TEXT_BYTES)),
    })
}

fn type_error(path: impl Into<String>, needs: &'static str) -> VoteError {
    VoteError::Type { path: path.into(), needs }
}

/// Returns a member of a vote without outer spaces; empty if it is absent.
fn optional_text<'a>(vote: &'a Map<String, Value>, name: &str) -> Result<&'a str, VoteError> {
    match vote.get(name) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.trim()),
        Some(_) => Err(type_error(name, "a text")),
    }
}

fn yes(answer: Option<&Value>) -> Option<bool> {
    match answer? {
        Value::Bool(yes) => Some(*yes),
        Value::String(text) if text.trim().eq_ignore_ascii_case("yes") => Some(true),
        Value::String(text) if text.trim().eq_ignore_ascii_case("no") => Some(false),
        _ => None,
    }
}

/// Returns the JSON object in a text, which may have other text around it.
fn object_in(text: &str) -> Result<Map<String, Value>, VoteError> {
    let text = text.rsplit_once("</think>").map_or(text, |(_, after)| after);
    let (Some(start), Some(end)) = (text.find('{'), text.rfind('}')) else {
        return Err(VoteError::NotJson(format!("{:?}", cut(text.trim(), 80))));
    };
    let found = text.get(start..=end).unwrap_or_default();
    serde_json::from_str(found).map_err(|error| VoteError::NotJson(error.to_string()))
}

fn cut(text: &str, max_bytes: usize) -> String {
    crate::redact::cut(text, max_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn ids() -> Vec<String> {
        vec!["item1".to_owned(), "item2".to_owned()]
    }

    fn item(id: &str, answer: &str) -> Value {
        json!({"id": id, "evidence": "It says so.", "answer": answer})
    }

    #[test]
    fn votes_are_read_however_they_are_wrapped() {
        let vote = json!({"items": [item("item2", "no"), item("item1", "Yes")], "reasoning": "r", "suggestions": " "});
        for text in [
            vote.to_string(),
            format!("<think>{{\"items\": 1}}</think>\n```json\n{vote}\n```"),
            format!("Here it is: {vote} Bye."),
        ] {
            let parsed = parse_vote(&text, &ids()).unwrap();
            assert_eq!(
                parsed.answers,
                [(true, "It says so.".to_owned()), (false, "It says so.".to_owned())]
            );
            assert_eq!((&*parsed.reasoning, parsed.suggestions), ("r", None));
        }
    }

    #[test]
    fn every_field_is_checked() {
        let both = json!([item("item1", "yes"), item("item2", "yes")]);
        for (vote, want) in [
            (json!("yes"), "it is not a JSON object"),
            (json!({}), "items is not a list"),
            (json!({"items": {}}), "items is not a list"),
            (json!({"items": ["yes"]}), "items[0] is not an object"),
            (json!({"items": [{"id": 1}]}), "items[0].id is not a text"),
            (json!({"items": [item("item9", "yes")]}), "there is no item \"item9\""),
            (json!({"items": [item("item1", "yes")]}), "item \"item2\" is not answered"),
            (
                json!({"items": [item("item1", "yes"), item("item1", "yes")]}),
                "item \"item1\" is answered twice",
            ),
            (
                json!({"items": [item("item1", "maybe")]}),
                "items[0].answer is not \"yes\" or \"no\"",
            ),
            (
                json!({"items": [{"id": "item1", "answer": "yes", "evidence": " "}]}),
                "items[0].evidence is not",
            ),
            (json!({"items": both, "confidence": 1e15}), "confidence is not a number from 0 to 1"),
            (json!({"items": both, "toolAccuracy": -0.1}), "toolAccuracy is not"),
            (json!({"items": both, "passed": "true"}), "passed is not true or false"),
            (json!({"items": both, "reasoning": 7}), "reasoning is not a text"),
        ] {
            let error = parse_vote(&vote.to_string(), &ids()).unwrap_err().to_string();
            assert!(error.starts_with(want), "{vote}: {error}");
        }
        assert_eq!(parse_vote(&"{".repeat(MAX_ANSWER_BYTES + 1), &ids()), Err(VoteError::TooLong));
        assert!(matches!(
            parse_vote(&"{\"a\":".repeat(10_000), &ids()),
            Err(VoteError::NotJson(_))
        ));
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "[{}\\[\\]\",:a-z</>ä ]{0,200}") {
            let _ = parse_vote(&text, &ids());
        }
    }
}
