//! The header `traceparent`.

use std::fmt;

/// A span of a trace, as `traceparent` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace_id: [u8; 16],
    span_id: [u8; 8],
    flags: u8,
}

/// The flag of a trace that is recorded (Trace Context, 3.2.2.5).
const SAMPLED: u8 = 1;
/// The flag of an id whose last bytes are random (Trace Context Level 2, 3.2.2.5.2).
const RANDOM: u8 = 2;

impl TraceContext {
    /// Starts a trace with its first span.
    #[must_use]
    pub fn root(is_sampled: bool) -> Self {
        let flags = RANDOM | if is_sampled { SAMPLED } else { 0 };
        Self { trace_id: random(), span_id: random(), flags }
    }

    /// Returns a span below this one.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { span_id: random(), ..*self }
    }

    /// Returns the same span, recorded or not.
    #[must_use]
    pub fn with_sampled(mut self, is_sampled: bool) -> Self {
        self.flags = self.flags & !SAMPLED | if is_sampled { SAMPLED } else { 0 };
        self
    }

    /// Parses a `traceparent`; returns `None` if it breaks the rules of Trace Context, 3.2.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim_matches([' ', '\t']).split('-');
        let [version] = bytes(parts.next()?)?;
        let trace_id: [u8; 16] = bytes(parts.next()?)?;
        let span_id: [u8; 8] = bytes(parts.next()?)?;
        let [flags] = bytes(parts.next()?)?;
        let is_known = match version {
            0 => parts.next().is_none(),
            0xff => false,
            // Later versions may add parts.
            _ => true,
        };
        let has_ids = trace_id != [0; 16] && span_id != [0; 8];
        (is_known && has_ids).then_some(Self {
            trace_id,
            span_id,
            flags: flags & (SAMPLED | RANDOM),
        })
    }

    /// Returns the id of the trace.
    #[must_use]
    pub fn trace_id(&self) -> [u8; 16] {
        self.trace_id
    }

    /// Returns the id of the span.
    #[must_use]
    pub fn span_id(&self) -> [u8; 8] {
        self.span_id
    }

    /// Returns whether the trace is recorded.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Returns the id of the trace in hexadecimal.
    #[must_use]
    pub fn trace_id_text(&self) -> String {
        self.trace_id.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Writes the `traceparent`, in version 00.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("00-")?;
        for byte in self.trace_id {
            write!(f, "{byte:02x}")?;
        }
        f.write_str("-")?;
        for byte in self.span_id {
            write!(f, "{byte:02x}")?;
        }
        write!(f, "-{:02x}", self.flags)
    }
}

/// Reads lower-case hexadecimal digits; upper-case ones are invalid (Trace Context, 3.2.2).
fn bytes<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let digits = digits.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}

/// Returns random bytes; without a source of randomness, the same bytes again, so that spans are
/// lost and requests are not.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [1; N];
    // An id of zeros is invalid.
    if getrandom::fill(&mut bytes).is_err() || bytes == [0; N] {
        bytes = [1; N];
    }
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    #[test]
    fn the_rules_of_the_specification() {
        for (text, want) in [
            (format!("00-{TRACE}-{SPAN}-01"), Some(true)),
            (format!(" 00-{TRACE}-{SPAN}-00\t"), Some(false)),
            (format!("00-{TRACE}-{SPAN}-ff"), Some(true)),
            (format!("00-{TRACE}-{SPAN}-01-more"), None),
            (format!("cc-{TRACE}-{SPAN}-01-more"), Some(true)),
            (format!("cc-{TRACE}-{SPAN}-01"), Some(true)),
            (format!("ff-{TRACE}-{SPAN}-01"), None),
            (format!("00-{}-{SPAN}-01", TRACE.to_uppercase()), None),
            (format!("00-{}-{SPAN}-01", "0".repeat(32)), None),
            (format!("00-{TRACE}-{}-01", "0".repeat(16)), None),
            (format!("00-{TRACE}-{SPAN}"), None),
            (format!("00-{TRACE}-{SPAN}-1"), None),
            (format!("0-{TRACE}-{SPAN}-01"), None),
            (String::new(), None),
        ] {
            let parsed = TraceContext::parse(&text);
            assert_eq!(parsed.map(|it| it.is_sampled()), want, "{text}");
        }
    }

    #[test]
    fn children_stay_in_their_trace() {
        let root = TraceContext::root(true);
        let child = root.child().with_sampled(false);
        assert_eq!(child.trace_id_text(), root.trace_id_text());
        assert_ne!(child.span_id(), root.span_id());
        assert!(root.is_sampled() && !child.is_sampled());
        assert_ne!(TraceContext::root(true).trace_id(), root.trace_id());
    }

    proptest! {
        #[test]
        fn written_contexts_are_read_again(is_sampled: bool) {
            let context = TraceContext::root(is_sampled).child();
            prop_assert_eq!(TraceContext::parse(&context.to_string()), Some(context));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,80}|[0-9a-f-]{50,60}") {
            if let Some(context) = TraceContext::parse(&text) {
                prop_assert_eq!(TraceContext::parse(&context.to_string()), Some(context));
            }
        }
    }
}
