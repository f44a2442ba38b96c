#![doc = include_str!("../README.md")]

mod address;
mod connect;
mod content;
mod http_client;
mod keys;
mod problem;
mod scan;
mod shared;
mod store;

pub use object_store::ObjectStore;

pub use crate::{
    address::{AddressError, BucketAddress, Service},
    connect::{BucketSettings, ConnectError, connect},
    shared::BucketOptions,
    store::BucketStore,
};
