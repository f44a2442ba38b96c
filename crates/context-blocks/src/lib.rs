//! `mcp:context` blocks in chat text: context that a program puts before a model, and that a person is not shown.
//!
//! ```
//! use marquetry_context_blocks::{Builder, Context, Filter, neutralize, parse};
//! use serde_json::json;
//!
//! // What was found is put before the question. The user's own text cannot contain a block.
//! let found = json!({"query": "parser", "results": [{"content": "We chose the parser from 2019.", "score": 0.89}]});
//! let mut builder = Builder::new();
//! builder.add(
//!     Context::resource("am7://vector/citations/chat-123", "urn:am7:vector:search-result").ephemeral().untrusted(),
//!     &found,
//! )?;
//! let message = builder.build() + &neutralize("What did we choose?");
//!
//! // A person sees the question, and that it came with a citation.
//! let shown = Filter::default().apply(&message);
//! assert_eq!(shown.content, "What did we choose?");
//! assert_eq!(shown.contexts.citations[0].payload().data["query"], "parser");
//! assert!(parse(&message).blocks[0].is_untrusted());
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! # What a block is
//!
//! ```text
//! <mcp:context type="resource" uri="am7://reminder/u1" ephemeral="true">{"schema": …, "data": …}</mcp:context>
//! <mcp:resource uri="am7://media/img-1" tags="portrait,photo" />
//! ```
//!
//! Element names are read in any ASCII case, attributes with either quotes. The content of a block is opaque: an outer
//! block ends at the first end tag. What is not complete stays text, and [`parse`] reports it.
//!
//! # Safety against injection
//!
//! - Whatever a [`Builder`] is given, what it writes parses as exactly the blocks that were added.
//! - [`neutralize`] makes text harmless that must hold no block; a [`Filter`] lets nothing become a block where it
//!   took another out.
//! - Retrieved text is marked as untrusted, and [`Context::datamarked`] marks all white space of it besides.
//!
//! # Limits
//!
//! Parsing costs one pass, also over hostile text, and allocates nothing where there is no block. Positions are bytes;
//! [`Parsed::to_json`] converts them for JavaScript. The crate is pure: it does no I/O and reads no clock.

mod block;
mod build;
mod datamark;
mod edge;
mod filter;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod legacy;
mod markup;
mod neutralize;
mod parse;
mod uri;

pub use crate::{
    block::{Block, Element, Payload},
    build::{Builder, Context, InlineResource},
    filter::{Contexts, Filter, Filtered},
    legacy::{downgrade, upgrade},
    neutralize::neutralize,
    parse::{Blocks, Parsed, Problem, ProblemKind, blocks, parse},
    uri::{Am7Uri, Am7UriBuilder, Am7UriError},
};
