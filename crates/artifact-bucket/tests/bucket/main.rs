//! The store against a server of S3 that others wrote.

mod conformance;
mod faults;
mod killed;
mod problems;
mod proxy;
mod server;
