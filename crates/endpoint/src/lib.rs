#![doc = include_str!("../README.md")]

#[cfg(feature = "http")]
mod address;
#[cfg(feature = "http")]
mod client;
#[cfg(feature = "http")]
mod endpoint;
mod failure;
mod key;
mod message;
#[cfg(feature = "http")]
mod retry;
#[cfg(feature = "http")]
mod status;

#[cfg(feature = "http")]
pub use crate::{
    address::{BaseUrlError, PlainHttp, base_url, is_loopback},
    client::{ClientError, http_client},
    endpoint::{Endpoint, JsonAnswer},
    retry::{RetryPolicy, retry_after},
    status::error_message,
};
pub use crate::{failure::EndpointFailure, key::ApiKey, message::displayable};
