//! Records: what is known by name, with who may read it.

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
pub(crate) mod model;
mod new;
mod path;
#[cfg(feature = "postgres")]
mod postgres;
mod store;
mod types;
mod view;

#[cfg(feature = "libsql")]
pub use self::libsql::{LibsqlRecords, LibsqlRecordsOptions};
#[cfg(feature = "postgres")]
pub use self::postgres::PostgresRecords;
pub use self::{
    caller::{Caller, administrators, everyone},
    error::RecordError,
    event::{RecordChange, RecordEvent},
    facade::{RecordPage, Records},
    limits::RecordLimits,
    memory::MemoryRecords,
    model::Record,
    new::{NewRecord, RecordPatch},
    store::{AtMost, ContentChange, Expected, Put, RecordFilter, RecordStore, RecordStoreError},
    types::{AttributeKind, AttributeType, ModelType},
    view::ResourceView,
};
