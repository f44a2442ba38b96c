//! Records: their URIs, their types, and their permissions.

mod access;
#[cfg(feature = "libsql")]
#[path = "../../../index/tests/common/child.rs"]
mod child;
#[cfg(feature = "libsql")]
mod file;
mod groups;
mod hostile;
mod intercepted;
mod many_groups;
mod owner;
mod quota;
mod rule;
mod seed;

use std::sync::Arc;

use marquetry_records::{Caller, MemoryRecords, Records};

fn records() -> Records {
    Records::new(Arc::new(MemoryRecords::new()))
}

fn user(id: &str) -> Caller {
    Caller::new("default", id).unwrap()
}
