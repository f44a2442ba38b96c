//! The author of a result.

/// The author of a result. It decides how to treat the members that 2026-07-28 adds to every
/// result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A handler. It does not write these members: members with their names have another meaning.
    Handler,
    /// A server of 2026-07-28. The result is complete and has its own cache hint.
    Stateless,
    /// This crate: a question or a task, which is not cached.
    Protocol,
}
