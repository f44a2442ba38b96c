//! Pages of lists.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A page of a list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PageRequest {
    /// Number of items at most, 1 to 200; 50 if absent. A page of results ends before it has about
    /// 16 MiB.
    pub limit: Option<u32>,
    /// `nextCursor` of the page before.
    pub cursor: Option<String>,
}

impl PageRequest {
    /// Maximum number of items in a page.
    pub const MAX_LIMIT: u32 = 200;

    /// Returns the number of items.
    pub(crate) fn size(&self) -> usize {
        self.limit.unwrap_or(50).clamp(1, Self::MAX_LIMIT) as usize
    }
}

/// Approximate maximum size of a page of results, in bytes, since results contain all answers of
/// their tools.
pub(crate) const MAX_PAGE_BYTES: usize = 16 << 20;

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// The cursor of the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl<T> Page<T> {
    /// Returns a page of at most `size` items, and of about [`MAX_PAGE_BYTES`], but of at least
    /// one. `items` has each item with its size in bytes, and one item more than the page if there
    /// is a next page.
    pub(crate) fn bounded(
        items: impl IntoIterator<Item = (T, usize)>,
        size: usize,
        id: impl Fn(&T) -> &String,
    ) -> Self {
        let mut page = Self { items: Vec::new(), next_cursor: None };
        let mut total = 0usize;
        for (item, bytes) in items {
            total = total.saturating_add(bytes);
            if let Some(last) = page.items.last()
                && (page.items.len() >= size || total > MAX_PAGE_BYTES)
            {
                page.next_cursor = Some(id(last).clone());
                break;
            }
            page.items.push(item);
        }
        page
    }

    /// Returns a page of a list that has one extra item if there is a next page.
    pub(crate) fn cut(mut items: Vec<T>, size: usize, id: impl Fn(&T) -> &String) -> Self {
        let has_more = items.len() > size;
        items.truncate(size);
        let next_cursor = items.last().filter(|_| has_more).map(|item| id(item).clone());
        Self { items, next_cursor }
    }
}
