//! The author of a result.

/// The author of a result. It decides how the members are read that 2026-07-28 adds to every result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A handler, which writes none of them: what has their names is something else.
    Handler,
    /// A server of 2026-07-28: it is an answer, and says how long it may be kept.
    Stateless,
    /// This crate: a question or a task. They are not kept.
    Protocol,
}
