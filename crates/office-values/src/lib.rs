#![doc = include_str!("../README.md")]

mod number_format;
mod numerals;
mod symbols;

pub use crate::{
    number_format::NumberFormat,
    numerals::Numerals,
    symbols::{is_symbol_font, symbol, with_symbols},
};
