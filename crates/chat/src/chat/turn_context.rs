//! Contexts and messages of Views (MCP Apps) that go to the model with the user's next message.

use marquetry_context_blocks::{Builder, Context};
use serde_json::json;

/// Stores the contexts and messages of Views until they are sent to the model with a message.
pub trait TurnContext: Send + Sync {
    /// Returns the items that wait for the next message of a principal, oldest first. `None` is the
    /// user of a server without authentication.
    fn waiting(&self, principal: Option<&str>) -> Vec<TurnItem>;

    /// Removes the items with these numbers: a model has answered a message that contained them.
    fn delivered(&self, principal: Option<&str>, numbers: &[u64]);
}

/// A context or message of a View for the model. It is untrusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnItem {
    /// Unique number. A later item of the same View has another number.
    pub number: u64,
    /// The tool whose View it is.
    pub tool: String,
    /// Whether the View sent it as a message of the user, who has agreed; otherwise it is the
    /// View's context.
    pub is_message: bool,
    /// The text for the model.
    pub text: String,
}

/// The items that are sent with one message.
#[derive(Debug, Default)]
pub(super) struct SentItems {
    /// Blocks for the model; empty without items.
    pub(super) blocks: String,
    /// The numbers of all items, also of those that were left out.
    pub(super) numbers: Vec<u64>,
    pub(super) sent: usize,
    pub(super) left_out: usize,
}

impl SentItems {
    /// Writes the newest items that fit in `max` bytes, oldest first. The oldest of them may be
    /// cut.
    pub(super) fn of(mut items: Vec<TurnItem>, max: usize, is_datamarked: bool) -> Self {
        let numbers: Vec<_> = items.iter().map(|item| item.number).collect();
        let mut room = max;
        let mut sent = 0;
        for item in items.iter_mut().rev() {
            if room == 0 {
                break;
            }
            item.text.truncate(item.text.floor_char_boundary(room));
            room -= item.text.len();
            sent += 1;
        }
        let left_out = items.len() - sent;
        let mut builder = Builder::new();
        for TurnItem { tool, is_message, text, .. } in &items[left_out..] {
            let uri = format!("view:{tool}");
            let context = Context::resource(&uri, "urn:am7:view:context").ephemeral().untrusted();
            let context = if is_datamarked { context.datamarked() } else { context };
            let kind = if *is_message { "message" } else { "context" };
            let data = json!({"tool": tool, "kind": kind, "text": text});
            builder.add(context, &data).expect("a JSON value is JSON");
        }
        Self { blocks: builder.build(), numbers, sent, left_out }
    }
}

#[cfg(test)]
mod tests {
    use marquetry_context_blocks::parse;

    use super::*;

    fn item(number: u64, text: &str) -> TurnItem {
        TurnItem { number, tool: "map".to_owned(), is_message: false, text: text.to_owned() }
    }

    #[test]
    fn the_newest_items_fit_and_the_oldest_of_them_is_cut() {
        for (max, want, left_out) in
            [(100, vec!["aaa", "bbb", "ccc"], 0), (4, vec!["b", "ccc"], 1), (0, vec![], 3)]
        {
            let items = vec![item(1, "aaa"), item(2, "bbb"), item(3, "ccc")];
            let taken = SentItems::of(items, max, false);
            let parsed = parse(&taken.blocks);
            let texts: Vec<_> = parsed
                .blocks
                .iter()
                .map(|it| it.payload().data["text"].as_str().unwrap().to_owned())
                .collect();
            assert_eq!(texts, want);
            assert_eq!((taken.numbers, taken.left_out), (vec![1, 2, 3], left_out));
        }
    }
}
