#![doc = include_str!("../README.md")]

mod overrides;
mod profile;
mod settings;
mod table;

pub use crate::{
    overrides::ClientOverrides,
    profile::{ClientProfile, Shows},
    settings::ClientSettings,
    table::known_clients,
};
