#![doc = include_str!("../README.md")]

mod description;
mod names;
mod overrides;
mod profile;
mod schema;
mod settings;
mod table;

pub use crate::{
    description::shortened_description,
    names::ToolNames,
    overrides::ClientOverrides,
    profile::{ClientProfile, Shows},
    schema::{SimplifiedSchema, simplified_schema},
    settings::ClientSettings,
    table::known_clients,
};
