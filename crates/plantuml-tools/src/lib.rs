#![doc = include_str!("../README.md")]

mod tools;

pub use tools::{
    CHECK, CheckedDiagram, DECODE, DecodeArguments, DecodedDiagram, DiagramError, DiagramFault,
    DiagramFormat, Diagrams, DrawArguments, DrawnDiagram, ENCODE, EncodeArguments, EncodedDiagram,
    RENDER, has_no_text,
};
