//! Indexes files and folders of this machine, as records that name their files.

mod error;
mod identity;
mod indexer;
mod location;
mod options;
mod problem;
mod prune;
mod read;
mod report;
mod structure;
mod walk;
mod writer;

pub use self::{
    error::IndexError,
    identity::file_record_uri,
    indexer::Indexer,
    location::file_uri,
    options::FileOptions,
    problem::FileProblem,
    report::{FileEvent, FileOutcome, IndexReport, Refused},
    structure::{remove_stale_structure, restore_structure},
    writer::FILE_MEDIA_TYPE,
};
