//! Records: what is known by name, with who may read it.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use std::sync::Arc;
//!
//! use marquetry_rag::{Caller, MemoryRecords, NewRecord, Records};
//!
//! let records = Records::new(Arc::new(MemoryRecords::new()));
//! let alice = Caller::new("default", "alice")?;
//! let note = NewRecord::new("data.note", "Flour").group("~/Notes").attribute("text", "Type 550.");
//! let uri = records.create(&alice, note).await?.uri().unwrap();
//!
//! assert_eq!(records.get(&alice, &uri).await?.text(), Some("Type 550."));
//! assert!(records.get(&Caller::new("default", "bob")?, &uri).await.is_err());
//! # Ok::<(), marquetry_rag::RecordError>(())
//! # }).unwrap();
//! ```

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
#[cfg(feature = "libsql")]
mod labels;
#[cfg(feature = "libsql")]
mod libsql;
mod limits;
mod memory;
mod model;
mod new;
mod path;
mod store;
mod types;
mod view;

#[cfg(feature = "libsql")]
pub use self::libsql::{LibsqlRecords, LibsqlRecordsOptions};
pub use self::{
    caller::{Caller, administrators, everyone},
    error::RecordError,
    event::{RecordChange, RecordEvent},
    facade::{RecordPage, Records},
    limits::RecordLimits,
    memory::MemoryRecords,
    model::Record,
    new::{NewRecord, RecordPatch},
    store::{ContentChange, Expected, Put, RecordFilter, RecordStore, RecordStoreError},
    types::{AttributeKind, AttributeType, ModelType},
    view::ResourceView,
};
