//! Documents, records and chat. A program without the feature `knowledge` has the same functions, which do nothing.

#[cfg(not(feature = "knowledge"))]
mod absent;
#[cfg(feature = "knowledge")]
mod present;

#[cfg(not(feature = "knowledge"))]
pub(crate) use self::absent::{Knowledge, code_of_failure};
#[cfg(feature = "knowledge")]
pub(crate) use self::present::{Knowledge, code_of_failure};

/// Member of `_meta` of a failed tool call that holds the code of the failure.
pub(crate) const ERROR: &str = "marquetry/error";
