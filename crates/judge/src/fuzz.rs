//! The functions of the fuzz targets in `fuzz/`, compiled only for them and for the test that
//! replays their corpora.

use serde_json::json;

use crate::judge::parse_vote;

/// A function that handles one input.
pub type Target = fn(&[u8]);

/// The targets of this crate, by the names of their corpora.
pub const TARGETS: &[(&str, Target)] = &[("vote", vote)];

/// Checks that every answer of a judge parses as an error or as a vote on all items, and that a
/// vote gives the same result with thoughts before it and inside a Markdown fence.
pub fn vote(data: &[u8]) {
    let ids = ["item1", "item2"].map(str::to_owned);
    let Ok(vote) = parse_vote(&String::from_utf8_lossy(data), &ids) else { return };
    assert_eq!(vote.answers.len(), ids.len());
    let items: Vec<_> = ids
        .iter()
        .zip(&vote.answers)
        .map(|(id, (answer, evidence))| json!({"id": id, "answer": answer, "evidence": evidence}))
        .collect();
    let suggestions = &vote.suggestions;
    let json = json!({"items": items, "reasoning": vote.reasoning, "suggestions": suggestions});
    let again = parse_vote(&format!("<think>{{</think>\n```json\n{json}\n```"), &ids);
    // A text may hold `</think>`, after which the answer is searched.
    if !json.to_string().contains("</think>") {
        assert_eq!(again.as_ref(), Ok(&vote));
    }
}

#[cfg(test)]
mod tests {
    /// Replays inputs that once failed, with any compiler.
    #[test]
    fn the_corpus_is_replayed() {
        test_corpus::replay(super::TARGETS);
    }
}
