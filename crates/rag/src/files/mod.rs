//! Files and folders of this machine: what is in them becomes text that is found, and records that say where it is from.

mod identity;
mod indexer;
mod keep;
mod options;
mod place;
mod problem;
mod prune;
mod read;
mod report;
mod walk;

pub use self::{
    identity::file_record_uri,
    indexer::Indexer,
    keep::FILE_MEDIA_TYPE,
    options::FileOptions,
    place::file_uri,
    problem::FileProblem,
    report::{FileEvent, FileOutcome, IndexReport, Refused},
};
