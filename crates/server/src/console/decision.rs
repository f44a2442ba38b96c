//! The settings that decided which part of an answer the model sees.

use marquetry_artifacts::{
    Captured, Settings,
    report::{Report, StructuredShown},
    settings::{Oversize, TextResources},
};
use marquetry_client_profiles::{ClientProfile, Shows};
use serde_json::{Value, json};

/// Lists the profile of the client and the settings that decided about an answer, each with its
/// value and a sentence about its effect.
pub(crate) fn decisions(
    captured: &Captured,
    settings: &Settings,
    profile: &ClientProfile,
) -> Vec<Value> {
    let mut decided = vec![profile_decision(profile)];
    decided.extend(setting_decisions(captured, settings));
    decided
}

/// Describes the profile of the client.
fn profile_decision(profile: &ClientProfile) -> Value {
    let shown = match profile.shows {
        Shows::Content => "text",
        Shows::Structured => "structured content in place of text",
        Shows::Both => "text and structured content",
        _ => "text, structured content or both",
    };
    let tokens = profile.shown_tokens();
    let chars = profile.shown_chars().map(|chars| format!(" and {chars} characters"));
    let limit = chars.unwrap_or_default();
    let effect = format!("the client shows its model {shown}, of which {tokens} tokens{limit} fit");
    let name = profile.name.as_deref().unwrap_or("default");
    decision(&format!("clients.{name}"), json!(profile.title), &effect)
}

/// Lists the settings that decided. Empty if no setting had an effect: an answer without text, for
/// example, is always saved.
fn setting_decisions(captured: &Captured, settings: &Settings) -> Vec<Value> {
    let Some(report) = captured.report() else {
        return vec![threshold(
            settings,
            "the answer is not larger, so it stays unchanged, and nothing is saved",
        )];
    };
    let mut found = Vec::new();
    if report.truncated.is_some() {
        let limit = settings.mcp_tool_llm_return_max_bytes;
        // Otherwise the limit is one in tokens or one of the client.
        if report.size_bytes > limit {
            found.push(decision(
                "mcp_tool_llm_return_max_bytes",
                json!(limit),
                "the answer is larger, so the model does not get all of it",
            ));
        }
        let structured = report.structured.as_ref().map(|structured| structured.shown);
        let effect = match (settings.oversize, structured) {
            (Oversize::Withhold, _) => "the model gets only the names of the artifacts",
            (_, Some(StructuredShown::Shortened)) => {
                "the model gets the beginning and the end of the text, up to the limit, and beside it the structured content, shortened"
            }
            (_, Some(StructuredShown::Replaced | StructuredShown::Dropped)) => {
                "the model gets the beginning and the end of the text, up to the limit, without the structured content"
            }
            _ => "the model gets the beginning and the end of the text, up to the limit",
        };
        found.push(decision("oversize", json!(settings.oversize), effect));
        if let Some(tokens) = settings.mcp_tool_llm_return_max_tokens {
            found.push(decision(
                "mcp_tool_llm_return_max_tokens",
                json!(tokens),
                "the model gets at most so many tokens of the text",
            ));
        }
    }
    if !settings.save {
        found.push(decision("save", json!(false), "nothing of the answer is saved"));
        return found;
    }
    if report.size_bytes > settings.mcp_tool_response_save_threshold_bytes
        && (is_saved(report, "text") || is_saved(report, "resource") || report.structured.is_some())
    {
        found.push(threshold(settings, "the answer is larger, so its text is saved"));
    } else if settings.text_resources == TextResources::Always && is_saved(report, "resource") {
        let value = json!(settings.text_resources);
        found.push(decision(
            "text_resources",
            value,
            "texts of resources are saved whatever their size",
        ));
    }
    if is_saved(report, "image") {
        let largest = settings.inline_image_max_bytes;
        found.push(decision(
            "inline_image_max_bytes",
            json!(largest),
            "pictures up to this size stay in the answer; a link replaces larger ones",
        ));
    }
    let processing = &settings.mcp_intelligent_processing;
    if !processing.enable_intelligent_processing {
        found.push(decision(
            "mcp_intelligent_processing.enable_intelligent_processing",
            json!(false),
            "the answer is saved as one artifact",
        ));
    } else if report.items.len() + report.items_not_listed > processing.max_content_items {
        found.push(decision(
            "mcp_intelligent_processing.max_content_items",
            json!(processing.max_content_items),
            "further items are saved together",
        ));
    }
    found
}

/// Returns whether an item of a kind was saved as an artifact.
fn is_saved(report: &Report, kind: &str) -> bool {
    report.items.iter().any(|item| item.kind == kind && item.artifact.is_some())
}

fn threshold(settings: &Settings, effect: &str) -> Value {
    let bytes = settings.mcp_tool_response_save_threshold_bytes;
    decision("mcp_tool_response_save_threshold_bytes", json!(bytes), effect)
}

fn decision(setting: &str, value: Value, effect: &str) -> Value {
    json!({"setting": setting, "value": value, "effect": effect})
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use marquetry_artifacts::{Capturer, MemoryStore, Scope, ToolCall};
    use serde_json::value::to_raw_value;

    use super::*;

    async fn decided(settings: &Settings, content: Value) -> Vec<(String, Value)> {
        let capturer = Capturer::new(Arc::new(MemoryStore::default()));
        let answer = to_raw_value(&json!({"content": content})).unwrap();
        let scope = Scope::local();
        let captured = capturer.capture(ToolCall::new(&scope, "tool"), settings, answer).await;
        setting_decisions(&captured, settings)
            .into_iter()
            .map(|it| (it["setting"].as_str().unwrap().to_owned(), it["value"].clone()))
            .collect()
    }

    fn text(bytes: usize) -> Value {
        json!({"type": "text", "text": "x".repeat(bytes)})
    }

    fn image() -> Value {
        let data = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
        json!({"type": "image", "data": data, "mimeType": "image/png"})
    }

    #[tokio::test]
    async fn the_settings_that_decided_are_named() {
        let standard = Settings::default();
        let threshold = ("mcp_tool_response_save_threshold_bytes".to_owned(), json!(32_768));
        let limit = json!(standard.mcp_tool_llm_return_max_bytes);
        let limit = ("mcp_tool_llm_return_max_bytes".to_owned(), limit);
        let too_large = usize::try_from(standard.mcp_tool_llm_return_max_bytes).unwrap() + 1;
        for bytes in [10, 40_000] {
            assert_eq!(
                decided(&standard, json!([text(bytes)])).await,
                std::slice::from_ref(&threshold)
            );
        }
        assert_eq!(
            decided(&standard, json!([text(too_large)])).await,
            [limit.clone(), ("oversize".to_owned(), json!("truncate")), threshold.clone()]
        );
        assert_eq!(decided(&standard, json!([image()])).await, [threshold]);
        let mut links = standard.clone();
        links.inline_image_max_bytes = 0;
        let images = ("inline_image_max_bytes".to_owned(), json!(0));
        assert_eq!(decided(&links, json!([image()])).await, [images]);
        let mut unsaved = standard.clone();
        unsaved.save = false;
        unsaved.mcp_tool_llm_return_max_tokens = Some(50);
        let decided_without_saving = decided(&unsaved, json!([text(too_large)])).await;
        let names: Vec<_> = decided_without_saving.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            ["mcp_tool_llm_return_max_bytes", "oversize", "mcp_tool_llm_return_max_tokens", "save"]
        );
        // A setting that the answer does not exceed has not decided.
        let tokens = decided(&unsaved, json!([text(1_000)])).await;
        let names: Vec<_> = tokens.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["oversize", "mcp_tool_llm_return_max_tokens", "save"]);
        let audio = json!([{"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}]);
        assert_eq!(decided(&standard, audio).await, []);
        let mut whole = standard;
        whole.oversize = Oversize::Withhold;
        whole.mcp_intelligent_processing.enable_intelligent_processing = false;
        assert_eq!(
            decided(&whole, json!([text(too_large)])).await,
            [
                limit,
                ("oversize".to_owned(), json!("withhold")),
                (
                    "mcp_intelligent_processing.enable_intelligent_processing".to_owned(),
                    json!(false)
                )
            ]
        );
    }

    #[test]
    fn the_profile_of_the_client_is_named() {
        let known = profile_decision(&ClientProfile::of("claude-code"));
        assert_eq!(
            (&known["setting"], &known["value"]),
            (&json!("clients.claude-code"), &json!("Claude Code"))
        );
        assert_eq!(
            known["effect"],
            "the client shows its model structured content in place of text, of which 8000 tokens and 45000 characters fit"
        );
        let unknown = profile_decision(&ClientProfile::of("agent"));
        assert_eq!(unknown["setting"], "clients.default");
    }

    #[tokio::test]
    async fn many_items_are_saved_together() {
        let settings = Settings::small_context();
        let items: Vec<_> = (0..60).map(|_| text(100)).collect();
        let max = "mcp_intelligent_processing.max_content_items".to_owned();
        let found = decided(&settings, json!(items)).await;
        assert_eq!(found.last(), Some(&(max, json!(50))));
    }
}
