//! The host half from outside: each requirement of the specification.

mod ids;
mod requirements;
mod sandbox;
mod view;
