//! How much a record may be.

/// How much [`Records`](super::Records) take. Each is named in the error of what exceeds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordLimits {
    /// Bytes of a name; 512 by default.
    pub max_name_bytes: usize,
    /// Bytes of a group path; 1,024 by default.
    pub max_path_bytes: usize,
    /// How many groups may lie in one another; 32 by default.
    pub max_path_depth: usize,
    /// Tags of a record, and those that a list is filtered by; 256 by default.
    pub max_tags: usize,
    /// Readers of a record, and writers; 256 by default.
    pub max_readers: usize,
    /// Members of a group; 10,000 by default.
    pub max_members: usize,
    /// How many values the attributes hold, nested ones included; 20,000 by default.
    pub max_attributes: usize,
    /// How deep attributes are nested; 32 by default.
    pub max_attribute_depth: usize,
    /// Bytes of all names and texts of the attributes; 1 MiB by default.
    pub max_attribute_bytes: usize,
    /// Bytes of a content; 64 MiB by default.
    pub max_content_bytes: usize,
    /// Records of a page of a list; 500 by default.
    pub max_page: usize,
    /// Groups of one owner; 1,000 by default. Of no owner more of them are looked at to find a caller's rights, so that
    /// nobody hides what others share.
    pub max_groups_per_owner: usize,
    /// In how many groups, and for how many places that others share, a caller's rights are looked up; 10,000 by
    /// default. Whoever is in more sees less, and never more.
    pub max_groups: usize,
    /// How many groups may be members of one another, so that a member of the first is in the last; 32 by default.
    pub max_group_nesting: usize,
    /// How many events wait for a subscriber; 1,024 by default.
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
            max_page: 500,
            max_groups_per_owner: 1_000,
            max_groups: 10_000,
            max_group_nesting: 32,
            max_events: 1_024,
        }
    }
}
