//! An empty crate; `Cargo.toml` says why it exists.
