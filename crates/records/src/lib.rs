#![doc = include_str!("../README.md")]

mod caller;
mod check;
#[cfg(any(test, feature = "conformance"))]
#[cfg_attr(
    not(feature = "conformance"),
    expect(unreachable_pub, reason = "public with the feature")
)]
pub mod conformance;
mod error;
mod event;
mod facade;
#[cfg(any(feature = "libsql", feature = "postgres"))]
mod labels;
#[cfg(feature = "libsql")]
mod libsql;
mod limits;
mod memory;
mod model;
mod new;
mod path;
#[cfg(feature = "postgres")]
mod postgres;
mod store;
mod store_error;
mod types;
mod view;

pub use marquetry_database::DatabaseError;

pub use crate::check::name_from;

#[cfg(feature = "libsql")]
pub use crate::libsql::{LibsqlRecords, LibsqlRecordsOptions};
#[cfg(feature = "postgres")]
pub use crate::postgres::{PostgresRecords, PostgresRecordsOptions};
pub use crate::{
    caller::{Caller, administrators, everyone},
    error::RecordError,
    event::{RecordChange, RecordEvent},
    facade::{RecordPage, Records},
    limits::RecordLimits,
    memory::MemoryRecords,
    model::Record,
    new::{NewRecord, RecordPatch},
    store::{ContentChange, CountLimit, Expected, Put, RecordFilter, RecordStore},
    store_error::RecordStoreError,
    types::{AttributeKind, AttributeType, ModelType},
    view::ResourceView,
};
