#![doc = include_str!("../README.md")]

mod in_flight;
mod owner;
mod turns;

pub use crate::{
    in_flight::{Agent, Entry, InFlight, InFlightCall},
    owner::Owner,
    turns::Target,
};
