//! Indexes files and folders of this machine, as records that name their files.

mod error;
mod indexer;
mod location;
mod options;
mod problem;
mod read;
mod report;
mod structure;
mod walk;
mod writer;

pub use self::{
    error::IndexError,
    indexer::Indexer,
    location::{file_record_uri, file_uri},
    options::FileOptions,
    problem::FileProblem,
    report::{FileEvent, FileOutcome, IncompleteFile, IndexReport, Refused},
    structure::{remove_stale_structure, restore_structure},
    writer::FILE_MEDIA_TYPE,
};
