//! The upstream of `cargo xtask bench gateway`, and the least that a gateway can cost.
//!
//! `peer-gateway upstream` is an MCP server over standard input and output whose tool `payload`
//! answers with a text of a given length. `peer-gateway forward COMMAND…` starts such a server,
//! prints a URL, and forwards each message to the server without checks, sessions or limits.

mod forward;
mod upstream;

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("upstream") => upstream::serve(),
        Some("forward") => {
            forward::serve(arguments.collect::<Vec<_>>()).map(|never| match never {})
        }
        _ => Err("the first argument is `upstream` or `forward`".into()),
    }
}
