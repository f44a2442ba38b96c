//! The functions of the fuzz targets in `fuzz/`, one for each. Compiled only for them and for the
//! test that replays their corpora.

use serde_json::value::RawValue;

#[cfg(feature = "line")]
use crate::line::{Line, read_line};
use crate::{
    Batch, DEFAULT_MAX_NESTING, Incoming, Message, nested_deeper_than, write_error,
    write_notification, write_request, write_result,
};

/// A function that handles one input.
pub type Target = fn(&[u8]);

/// The targets of this crate, by the names of their corpora.
pub const TARGETS: &[(&str, Target)] = &[
    ("envelope", envelope),
    #[cfg(feature = "line")]
    ("line", line),
];

/// Checks that any bytes parse as a message, a batch or an error, and that a parsed message is
/// unchanged after writing and parsing it again.
pub fn envelope(data: &[u8]) {
    for max in [2, DEFAULT_MAX_NESTING] {
        assert_eq!(nested_deeper_than(data, max), naively_deeper_than(data, max));
    }
    match Incoming::parse(data, DEFAULT_MAX_NESTING) {
        Ok(Incoming::Message(message)) => check_round_trip(&message),
        Ok(Incoming::Batch(batch)) => in_batch(batch),
        Err(error) => assert!(error.id.is_none() || error.answers.is_none()),
    }
}

fn in_batch(batch: Batch<'_>) {
    let Ok(messages) = batch.messages(8) else { return };
    assert!((1..=8).contains(&messages.len()));
    messages.iter().flatten().for_each(check_round_trip);
}

fn check_round_trip(message: &Message<'_>) {
    let bytes = match message {
        Message::Request(it) => write_request(&it.id, &it.method, it.params),
        Message::Notification(it) => write_notification(&it.method, it.params),
        Message::Response(it) => match (&it.id, &it.outcome) {
            (Some(id), Ok(result)) => write_result(id, result),
            (id, Err(error)) => write_error(id.as_ref(), error),
            (None, Ok(_)) => panic!("a result to no request"),
        },
    };
    assert!(!bytes.contains(&b'\n') && !bytes.contains(&b'\r'));
    let again = Message::parse(&bytes, DEFAULT_MAX_NESTING + 1).expect("what we write can be read");
    match (message, &again) {
        (Message::Request(a), Message::Request(b)) => {
            assert_eq!((&a.id, &a.method), (&b.id, &b.method));
            assert_eq!(a.params.map(on_one_line), b.params.map(on_one_line));
        }
        (Message::Notification(a), Message::Notification(b)) => {
            assert_eq!(a.method, b.method);
            assert_eq!(a.params.map(on_one_line), b.params.map(on_one_line));
        }
        (Message::Response(a), Message::Response(b)) => {
            assert_eq!(a.id, b.id);
            match (&a.outcome, &b.outcome) {
                (Ok(a), Ok(b)) => assert_eq!(on_one_line(a), on_one_line(b)),
                (Err(a), Err(b)) => assert_eq!((a.code, &a.message), (b.code, &b.message)),
                _ => panic!("a result became an error, or the reverse"),
            }
        }
        _ => panic!("{message:?} became {again:?}"),
    }
}

fn on_one_line(json: &RawValue) -> String {
    json.get().replace(['\n', '\r'], " ")
}

/// As [`nested_deeper_than`], byte by byte.
fn naively_deeper_than(json: &[u8], max: usize) -> bool {
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => _ = bytes.next(),
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > max {
            return true;
        }
    }
    false
}

/// Checks that lines are split at line feeds, independent of the buffer size. The first two bytes
/// are the buffer size and the limit.
#[cfg(feature = "line")]
pub fn line(data: &[u8]) {
    let [capacity, max, input @ ..] = data else { return };
    let max = usize::from(*max);
    let mut want: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    // Text after the last line feed is a line, unless it is empty.
    want.pop_if(|last| last.is_empty());
    let mut reader = tokio::io::BufReader::with_capacity(usize::from(*capacity).max(1), input);
    let mut buffer = Vec::new();
    let reading = async {
        for want in want {
            let line = read_line(&mut reader, &mut buffer, max).await.expect("memory");
            match line {
                Line::Whole => assert_eq!(buffer, want),
                Line::Blank => assert!(want.trim_ascii().is_empty()),
                Line::TooLong => assert!(want.len() > max && buffer.len() <= 1_024),
                Line::End => panic!("a line is missing"),
            }
            assert_eq!(line == Line::TooLong, want.len() > max);
        }
        let last = read_line(&mut reader, &mut buffer, max).await.expect("memory");
        assert_eq!(last, Line::End);
    };
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(std::pin::pin!(reading).poll(&mut context).is_ready(), "reading from memory waits");
}

#[cfg(test)]
mod tests {
    /// Replays inputs that once failed, with any compiler.
    #[test]
    fn the_corpus_is_replayed() {
        test_corpus::replay(super::TARGETS);
    }
}
