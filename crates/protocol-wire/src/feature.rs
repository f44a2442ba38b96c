//! Features of the protocol, and the revisions that have them.

use crate::Revision;

/// A feature that only some revisions of the protocol have.
///
/// | feature | 2024-10-07 | 2024-11-05 | 2025-03-26 | 2025-06-18 | 2025-11-25 | 2026-07-28 |
/// |---|---|---|---|---|---|---|
/// | `Sessions` | yes | yes | yes | yes | yes | no |
/// | `Batches` | no | no | yes | no | no | no |
/// | `Pagination` | no | yes | yes | yes | yes | yes |
/// | `EmbeddedResources` | no | yes | yes | yes | yes | yes |
/// | `Roots` | no | yes | yes | yes | yes | yes |
/// | `EightLogLevels` | no | yes | yes | yes | yes | yes |
/// | `ContentList` | no | yes | yes | yes | yes | yes |
/// | `ToolAnnotations` | no | no | yes | yes | yes | yes |
/// | `Audio` | no | no | yes | yes | yes | yes |
/// | `ProgressMessages` | no | no | yes | yes | yes | yes |
/// | `CompletionsCapability` | no | no | yes | yes | yes | yes |
/// | `StructuredContent` | no | no | no | yes | yes | yes |
/// | `ResourceLinks` | no | no | no | yes | yes | yes |
/// | `Titles` | no | no | no | yes | yes | yes |
/// | `Elicitation` | no | no | no | yes | yes | yes |
/// | `Icons` | no | no | no | no | yes | yes |
/// | `UrlElicitation` | no | no | no | no | yes | yes |
/// | `SamplingTools` | no | no | no | no | yes | yes |
/// | `StreamPolling` | no | no | no | no | yes | no |
/// | `Listen` | no | no | no | no | no | yes |
/// | `InputRequired` | no | no | no | no | no | yes |
/// | `CacheHints` | no | no | no | no | no | yes |
/// | `Tasks` | no | no | no | no | no | yes |
///
/// Features that a revision lacks are removed from messages to its clients, and replaced by the
/// nearest equivalent text if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Feature {
    /// `initialize` and sessions.
    Sessions,
    /// Several messages in one array.
    Batches,
    /// Cursors in lists.
    Pagination,
    /// Resources as items of tool answers and prompts.
    EmbeddedResources,
    /// `roots/list`
    Roots,
    /// Eight levels of log messages; four before.
    EightLogLevels,
    /// A tool's answer is a list of items; a `toolResult` before.
    ContentList,
    /// Hints about what a tool does.
    ToolAnnotations,
    /// Sound as an item.
    Audio,
    /// Messages in progress notifications.
    ProgressMessages,
    /// The capability `completions`; the method is older.
    CompletionsCapability,
    /// A tool's answer as data, and its schema.
    StructuredContent,
    /// Links to resources as items.
    ResourceLinks,
    /// Names for people beside those for programs, and `_meta` on most objects.
    Titles,
    /// Forms for the user.
    Elicitation,
    /// Pictures of tools, prompts, resources and servers.
    Icons,
    /// Pages for the user.
    UrlElicitation,
    /// Tools for the client's model.
    SamplingTools,
    /// An event stream that the server closes before the answer; the client reconnects for the
    /// rest.
    StreamPolling,
    /// `subscriptions/listen`
    Listen,
    /// Questions as results.
    InputRequired,
    /// Cache hints: how long and for whom a result may be cached.
    CacheHints,
    /// Calls that continue after they were answered (extension, SEP-2663). The experimental tasks
    /// of 2025-11-25 are a different feature, which this crate does not support.
    Tasks,
}

impl Feature {
    /// All features, in the order of the table.
    pub const ALL: [Self; 23] = [
        Self::Sessions,
        Self::Batches,
        Self::Pagination,
        Self::EmbeddedResources,
        Self::Roots,
        Self::EightLogLevels,
        Self::ContentList,
        Self::ToolAnnotations,
        Self::Audio,
        Self::ProgressMessages,
        Self::CompletionsCapability,
        Self::StructuredContent,
        Self::ResourceLinks,
        Self::Titles,
        Self::Elicitation,
        Self::Icons,
        Self::UrlElicitation,
        Self::SamplingTools,
        Self::StreamPolling,
        Self::Listen,
        Self::InputRequired,
        Self::CacheHints,
        Self::Tasks,
    ];
}

impl Revision {
    /// Returns whether the revision has the feature.
    #[must_use]
    pub fn has(self, feature: Feature) -> bool {
        match feature {
            Feature::Sessions => self < Self::V2026_07_28,
            Feature::Batches => self == Self::V2025_03_26,
            Feature::Pagination
            | Feature::EmbeddedResources
            | Feature::Roots
            | Feature::EightLogLevels
            | Feature::ContentList => self >= Self::V2024_11_05,
            Feature::ToolAnnotations
            | Feature::Audio
            | Feature::ProgressMessages
            | Feature::CompletionsCapability => self >= Self::V2025_03_26,
            Feature::StructuredContent
            | Feature::ResourceLinks
            | Feature::Titles
            | Feature::Elicitation => self >= Self::V2025_06_18,
            Feature::Icons | Feature::UrlElicitation | Feature::SamplingTools => {
                self >= Self::V2025_11_25
            }
            Feature::StreamPolling => self == Self::V2025_11_25,
            Feature::Listen | Feature::InputRequired | Feature::CacheHints | Feature::Tasks => {
                self >= Self::V2026_07_28
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_true() {
        let rows: Vec<&str> = include_str!("feature.rs")
            .lines()
            .filter_map(|line| line.strip_prefix("/// | `"))
            .collect();
        assert_eq!(rows.len(), Feature::ALL.len());
        for (row, feature) in rows.iter().zip(Feature::ALL) {
            let cells: Vec<&str> = row.trim_end_matches(" |").split(" | ").collect();
            assert_eq!(cells[0].trim_end_matches('`'), format!("{feature:?}"));
            for (cell, revision) in cells[1..].iter().zip(Revision::ALL) {
                assert_eq!(*cell == "yes", revision.has(feature), "{feature:?} in {revision}");
            }
            assert_eq!(cells.len(), 1 + Revision::ALL.len());
        }
    }
}
