//! Limits of records.

/// Limits of [`Records`](super::Records). An operation over a limit fails with an error that names
/// the limit, unless its description says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordLimits {
    /// Longest name, in bytes of UTF-8; 512 by default.
    pub max_name_bytes: usize,
    /// Longest path of a group, in bytes of UTF-8; 1,024 by default.
    pub max_path_bytes: usize,
    /// Maximum groups in a path; 32 by default.
    pub max_path_depth: usize,
    /// Maximum tags of a record, and most tags in a filter; 256 by default.
    pub max_tags: usize,
    /// Maximum readers of a record, and most writers; 256 by default.
    pub max_readers: usize,
    /// Maximum members of a group; 10,000 by default.
    pub max_members: usize,
    /// Maximum values in the attributes of a record, nested ones included; 20,000 by default.
    pub max_attributes: usize,
    /// Deepest nesting of attributes; 32 by default.
    pub max_attribute_depth: usize,
    /// Longest names and texts of the attributes of a record together, in bytes of UTF-8; 1 MiB by
    /// default.
    pub max_attribute_bytes: usize,
    /// Largest content, in bytes; 64 MiB by default.
    pub max_content_bytes: usize,
    /// Bytes of the records of one owner, their contents included, that callers who are no
    /// administrators may reach; 512 MiB by default.
    pub max_owner_bytes: u64,
    /// Maximum records in a page of a list; 500 by default.
    pub max_page: usize,
    /// Maximum groups of one owner; 1,000 by default. A lookup of a caller's permissions reads at
    /// most this many groups of each owner, so that one owner cannot hide the groups of others.
    pub max_groups_per_owner: usize,
    /// Maximum groups that a lookup of a caller's permissions reads, and most shared groups; 10,000
    /// by default. A caller with more groups sees fewer records, never more; this is not an error.
    pub max_groups: usize,
    /// Longest chain of groups that are members of one another; 32 by default. Memberships beyond
    /// it do not count.
    pub max_group_nesting: usize,
    /// Maximum events that wait for a subscriber; 1,024 by default. A slow subscriber loses the
    /// oldest.
    pub max_events: usize,
}

impl Default for RecordLimits {
    fn default() -> Self {
        Self {
            max_name_bytes: 512,
            max_path_bytes: 1_024,
            max_path_depth: 32,
            max_tags: 256,
            max_readers: 256,
            max_members: 10_000,
            max_attributes: 20_000,
            max_attribute_depth: 32,
            max_attribute_bytes: 1 << 20,
            max_content_bytes: 64 << 20,
            max_owner_bytes: 512 << 20,
            max_page: 500,
            max_groups_per_owner: 1_000,
            max_groups: 10_000,
            max_group_nesting: 32,
            max_events: 1_024,
        }
    }
}
