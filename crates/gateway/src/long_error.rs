//! Shortens the JSON-RPC errors of upstreams, as a model reads them whole.

use marquetry_protocol::{RpcError, client::ClientError};

/// Bytes of a message that are passed on: enough for a stack trace.
const MAX_MESSAGE_BYTES: usize = 16 << 10;
/// Bytes of data that are passed on. The lists of web pages in errors of URL elicitation are
/// smaller.
const MAX_DATA_BYTES: usize = 64 << 10;

/// Cuts a message that is too long, and says so in it; leaves out data that is too long.
pub(crate) fn shortened_error(error: ClientError) -> ClientError {
    let ClientError::Rpc(mut error) = error else { return error };
    shorten(&mut error);
    ClientError::Rpc(error)
}

fn shorten(error: &mut RpcError) {
    let bytes = error.message.len();
    if bytes > MAX_MESSAGE_BYTES {
        let start = &error.message[..error.message.floor_char_boundary(MAX_MESSAGE_BYTES)];
        let message = format!("{start}… (the first {} of {bytes} bytes)", start.len());
        error.message = message;
    }
    if let Some(data) = error.data.take_if(|data| data.get().len() > MAX_DATA_BYTES) {
        let note = format!(" ({} bytes of data are left out)", data.get().len());
        error.message.push_str(&note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_error_is_passed_on_unchanged() {
        let error = RpcError::new(-32042, "x".repeat(MAX_MESSAGE_BYTES)).with_data(&["page"]);
        let mut same = error.clone();
        shorten(&mut same);
        assert_eq!(same, error);
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let mut error = RpcError::new(-32000, "ä".repeat(MAX_MESSAGE_BYTES) + "x");
        shorten(&mut error);
        assert!(error.message.starts_with("ää"));
        assert!(
            error.message.ends_with("ä… (the first 16384 of 32769 bytes)"),
            "{}",
            error.message
        );
        assert!(error.message.len() < MAX_MESSAGE_BYTES + 100);
    }

    #[test]
    fn long_data_is_left_out() {
        let mut error = RpcError::new(-32000, "no").with_data(&"x".repeat(MAX_DATA_BYTES));
        shorten(&mut error);
        assert_eq!(error, RpcError::new(-32000, "no (65538 bytes of data are left out)"));
    }
}
