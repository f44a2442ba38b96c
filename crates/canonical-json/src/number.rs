//! Numbers as ECMAScript writes them (ECMA-262, 6.1.6.1.20, "Number::toString").

use serde_json::Number;

/// Integers up to this one are all doubles: 2^53.
const MAX_SAFE: u64 = 1 << 53;

/// Returns the canonical text of a number.
pub(crate) fn canonical_number(number: &Number) -> String {
    let exact = if let Some(positive) = number.as_u64() {
        (!is_double(positive)).then(|| positive.to_string())
    } else if let Some(negative) = number.as_i64() {
        (!is_double(negative.unsigned_abs())).then(|| negative.to_string())
    } else {
        None
    };
    // `serde_json` has no number without a double, unless its feature `arbitrary_precision` is on.
    exact.unwrap_or_else(|| number.as_f64().map_or_else(|| number.to_string(), of_double))
}

/// Returns whether a double has exactly this value.
fn is_double(integer: u64) -> bool {
    integer <= MAX_SAFE || 64 - integer.leading_zeros() - integer.trailing_zeros() <= 53
}

fn of_double(double: f64) -> String {
    if double == 0.0 {
        return "0".to_owned();
    }
    let Decimal { digits, exponent } = shortest(double.abs());
    let sign = if double < 0.0 { "-" } else { "" };
    // The position of the decimal point behind the first digit: the `n` of the specification.
    let point = exponent + 1;
    let count = digits.len() as i32;
    let text = if count <= point && point <= 21 {
        format!("{digits}{}", zeros(point - count))
    } else if 0 < point && point <= 21 {
        let (whole, fraction) = digits.split_at(point as usize);
        format!("{whole}.{fraction}")
    } else if -6 < point && point <= 0 {
        format!("0.{}{digits}", zeros(-point))
    } else {
        let (first, rest) = digits.split_at(1);
        let dot = if rest.is_empty() { "" } else { "." };
        let plus = if exponent > 0 { "+" } else { "" };
        format!("{first}{dot}{rest}e{plus}{exponent}")
    };
    format!("{sign}{text}")
}

/// A decimal number: its digits with a point behind the first one, and the power of ten.
struct Decimal {
    digits: String,
    exponent: i32,
}

impl Decimal {
    /// Reads what Rust writes: "d.ddde-n".
    fn of_scientific(text: &str) -> Self {
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        let digits = mantissa.replace('.', "");
        Self { digits, exponent: exponent.parse().unwrap_or_default() }
    }
}

/// Returns the fewest digits that give the same double, as ECMAScript does.
fn shortest(double: f64) -> Decimal {
    /// More digits than any double has.
    const ALL_DIGITS: usize = 800;
    let shortest = Decimal::of_scientific(&format!("{double:e}"));
    let count = shortest.digits.len();
    // Of two decimals that are equally near, ECMAScript takes the even one, and Rust does not.
    if shortest.digits.ends_with(['1', '3', '5', '7', '9'])
        && format!("{double:.count$e}").split('e').next().is_some_and(|it| it.ends_with('5'))
    {
        let exact = Decimal::of_scientific(&format!("{double:.ALL_DIGITS$e}"));
        let (lower, rest) = exact.digits.split_at(count);
        let is_tie = rest.starts_with('5') && rest[1..].bytes().all(|digit| digit == b'0');
        if is_tie && exact.exponent == shortest.exponent && lower != shortest.digits {
            return Decimal { digits: lower.to_owned(), exponent: exact.exponent };
        }
    }
    shortest
}

fn zeros(count: i32) -> String {
    "0".repeat(usize::try_from(count).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the text of the double with these bits.
    fn of_bits(bits: u64) -> String {
        of_double(f64::from_bits(bits))
    }

    #[test]
    fn the_samples_of_the_rfc_are_written_as_there() {
        // RFC 8785, appendix B.
        for (bits, want) in [
            (0x0000_0000_0000_0000, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0xc340_0000_0000_0000, "-9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
            (0x41b3_de43_5555_5554, "333333333.33333325"),
            (0x41b3_de43_5555_5555, "333333333.3333333"),
            (0x41b3_de43_5555_5556, "333333333.3333334"),
            (0x41b3_de43_5555_5557, "333333333.33333343"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
            (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
        ] {
            assert_eq!(of_bits(bits), want, "{bits:x}");
        }
    }

    #[test]
    fn integers_have_the_text_of_their_double_or_all_their_digits() {
        for (json, want) in [
            ("0", "0"),
            ("-0", "0"),
            ("-0.0", "0"),
            ("1.0", "1"),
            ("100", "100"),
            ("-7", "-7"),
            ("9007199254740991", "9007199254740991"),
            ("9007199254740993", "9007199254740993"),
            ("9007199254740994", "9007199254740994"),
            ("18446744073709551615", "18446744073709551615"),
            ("9223372036854775808", "9223372036854776000"),
            ("9223372036854775807", "9223372036854775807"),
            ("-9223372036854775808", "-9223372036854776000"),
            ("18446744073709551616", "18446744073709552000"),
        ] {
            let number: Number = serde_json::from_str(json).unwrap();
            assert_eq!(canonical_number(&number), want, "{json}");
        }
    }

    #[test]
    fn of_two_equally_near_decimals_the_even_one_is_written() {
        for whole in (1_u64 << 50)..(1 << 50) + 500 {
            for (quarter, want) in [(0.25, "2"), (0.75, "8")] {
                let text = of_double(whole as f64 + quarter);
                assert_eq!(text, format!("{whole}.{want}"));
            }
        }
    }

    proptest! {
        #[test]
        fn a_double_is_read_back(bits: u64) {
            let double = f64::from_bits(bits);
            prop_assume!(double.is_finite());
            let text = of_double(double);
            let read: f64 = text.parse().unwrap();
            // Zero has one text for both signs.
            prop_assert_eq!(read, double, "{}", text);
        }

        #[test]
        fn two_integers_have_two_texts(one: i64, other: i64) {
            let texts = [one, other].map(|it| canonical_number(&it.into()));
            prop_assert_eq!(texts[0] == texts[1], one == other);
        }

        #[test]
        fn near_integers_have_two_texts(one: u64) {
            let next = one.wrapping_add(1);
            prop_assert_ne!(canonical_number(&one.into()), canonical_number(&next.into()));
        }
    }
}
