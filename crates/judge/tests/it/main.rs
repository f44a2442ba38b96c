//! Cases from the prompt to the store, with real servers and scripted models.

mod bad_input;
mod hrana;
mod notes;
mod path;
mod stores;
mod support;
