//! Reminders, keyframes and metrics: blocks that go to the model with a message, beside citations.
//!
//! | kind | from | trust |
//! |---|---|---|
//! | reminder | the call; records `narrative.reminder` of the user, for all chats or for one | `caller`; `server` |
//! | keyframe | the call; records `narrative.keyframe` of the user; those that the model wrote | `caller`; `server`; `untrusted` |
//! | metrics | the call | `caller` |

mod item;
mod plan;
mod records;
mod time;

pub use self::{
    item::{ContextItem, ContextKind},
    plan::OmittedContext,
};
pub(crate) use self::{
    item::{Entry, Owner, check_items},
    plan::{Plan, plan, plan_whole},
    records::{keyframe_number, own_records, stored_context},
    time::{format_time, now},
};

/// Schema of a reminder.
pub(crate) const REMINDER_SCHEMA: &str = "urn:am7:narrative:reminder";
/// Schema of a keyframe.
pub(crate) const KEYFRAME_SCHEMA: &str = "urn:am7:narrative:keyframe";

#[cfg(test)]
mod tests;
