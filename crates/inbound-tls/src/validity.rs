//! Reads the validity of a certificate.
//!
//! rustls checks the certificates of peers, and not its own. A parser of whole certificates would
//! be many times longer than these two fields.

/// The period of a certificate, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) not_before: i64,
    pub(crate) not_after: i64,
}

const SEQUENCE: u8 = 0x30;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The version of the certificate: `[0] EXPLICIT`.
const VERSION: u8 = 0xa0;

impl Validity {
    /// Reads the validity of a certificate in DER (RFC 5280, section 4.1). `None` if it is not one.
    pub(crate) fn of(certificate: &[u8]) -> Option<Self> {
        let (certificate, _) = element_of(SEQUENCE, certificate)?;
        let (mut fields, _) = element_of(SEQUENCE, certificate)?;
        if fields.first() == Some(&VERSION) {
            fields = element(fields)?.2;
        }
        // The serial number, the signature's algorithm and the issuer come before it.
        for _ in 0..3 {
            fields = element(fields)?.2;
        }
        let (validity, _) = element_of(SEQUENCE, fields)?;
        let (kind, not_before, rest) = element(validity)?;
        let not_before = seconds(kind, not_before)?;
        let (kind, not_after, _) = element(rest)?;
        Some(Self { not_before, not_after: seconds(kind, not_after)? })
    }
}

/// Returns the tag and the content of the first element, and the bytes after it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        // More than four bytes are no length of a certificate; none are no length in DER.
        let count = usize::from(first & 0x7f);
        if !(1..=4).contains(&count) || rest.len() < count {
            return None;
        }
        let (length, rest) = rest.split_at(count);
        (length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
    };
    (rest.len() >= length).then(|| (tag, &rest[..length], &rest[length..]))
}

/// Returns the content of the first element, if it has this tag, and the bytes after it.
fn element_of(tag: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = element(bytes)?;
    (found == tag).then_some((content, rest))
}

/// Parses `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ` (RFC 5280, section 4.1.2.5).
fn seconds(kind: u8, text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match (kind, text.len()) {
        (UTC_TIME, 12) => {
            let year: i64 = text[..2].parse().ok()?;
            (if year < 50 { 2_000 + year } else { 1_900 + year }, &text[2..])
        }
        (GENERALIZED_TIME, 14) => (text[..4].parse().ok()?, &text[4..]),
        _ => return None,
    };
    let days = days_from_1970(year, two_digits(rest, 0)?, two_digits(rest, 2)?);
    let hours = days * 24 + two_digits(rest, 4)?;
    let minutes = hours * 60 + two_digits(rest, 6)?;
    Some(minutes * 60 + two_digits(rest, 8)?)
}

fn two_digits(text: &str, at: usize) -> Option<i64> {
    text[at..at + 2].parse().ok()
}

/// Returns the number of days from 1970-01-01 to a date of the Gregorian calendar.
fn days_from_1970(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March here, so that the leap day is the last one.
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year
        - 719_468
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_parsed() {
        for (kind, text, want) in [
            (UTC_TIME, "700101000000Z", Some(0)),
            (UTC_TIME, "491231235959Z", Some(2_524_607_999)),
            (UTC_TIME, "500101000000Z", Some(-631_152_000)),
            (GENERALIZED_TIME, "20000229120000Z", Some(951_825_600)),
            (GENERALIZED_TIME, "20261128232324Z", Some(1_795_908_204)),
            (GENERALIZED_TIME, "99991231235959Z", Some(253_402_300_799)),
            (UTC_TIME, "20000229120000Z", None),
            (GENERALIZED_TIME, "20000229120000", None),
            (GENERALIZED_TIME, "2000022912000é", None),
            (GENERALIZED_TIME, "+0000229120000Z", None),
            (0x04, "700101000000Z", None),
        ] {
            assert_eq!(seconds(kind, text.as_bytes()), want, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            _ = Validity::of(&bytes);
            _ = seconds(GENERALIZED_TIME, &bytes);
        }

        #[test]
        fn nested_bytes_do_not_panic(
            fields in prop::collection::vec((prop::sample::select(vec![SEQUENCE, 2, VERSION, UTC_TIME]), "[0-9Z]{0,16}"), 0..8)
        ) {
            let fields: Vec<u8> = fields
                .iter()
                .flat_map(|(tag, text)| [&[*tag, text.len() as u8], text.as_bytes()].concat())
                .collect();
            let inner = [&[SEQUENCE, fields.len() as u8], &fields[..]].concat();
            let outer = [&[SEQUENCE, inner.len() as u8], &inner[..]].concat();
            _ = Validity::of(&outer);
        }
    }
}
