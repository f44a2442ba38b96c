#![doc = include_str!("../README.md")]

mod arguments;
mod json;
mod known;
mod name;
mod plain;
mod redactor;
mod search;
mod token;
mod url;
mod value;

pub use crate::{
    arguments::{RedactedArguments, without_secret_args},
    json::json_without_secrets,
    known::{remember_secrets, without_known_secrets},
    name::{is_secret_name, is_secret_variable},
    redactor::Redactor,
    url::{likely_secrets_of_url, secrets_of_url, url_without_secrets},
    value::{is_scheme, looks_secret, secrets_of_value, without_secret_values},
};

/// Placeholder for a secret in arguments of programs and in texts.
pub const HIDDEN: &str = "…";

/// Mark at the end of a text that was cut. A [`Redactor`] also removes the beginning of a secret
/// before it.
pub const CUT_MARK: char = '…';
