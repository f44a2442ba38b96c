//! Numbers as documents write them before items and headings.

/// The numerals of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numerals {
    /// 1, 2, 3.
    #[default]
    Decimal,
    /// Decimal with two digits or more.
    DecimalZero,
    /// A to Z, then AA.
    UpperLetter,
    /// a to z, then aa.
    LowerLetter,
    /// I, II, III.
    UpperRoman,
    /// i, ii, iii.
    LowerRoman,
    /// Chinese and Japanese numerals.
    Ideographs,
}

impl Numerals {
    /// Writes a number.
    #[must_use]
    pub fn write(self, number: u32) -> String {
        match self {
            Self::Decimal => number.to_string(),
            Self::DecimalZero => format!("{number:02}"),
            Self::UpperLetter => letters(number),
            Self::LowerLetter => letters(number).to_lowercase(),
            Self::UpperRoman => roman(number),
            Self::LowerRoman => roman(number).to_lowercase(),
            Self::Ideographs => ideographs(number),
        }
    }
}

/// Writes A to Z, then AA to ZZ, as Word and LibreOffice do.
fn letters(number: u32) -> String {
    /// The longest number that is written in letters; after it, digits are shorter.
    const MAX: u32 = 26 * 8;
    if !(1..=MAX).contains(&number) {
        return number.to_string();
    }
    let letter = char::from(b'A' + ((number - 1) % 26) as u8);
    std::iter::repeat_n(letter, ((number - 1) / 26 + 1) as usize).collect()
}

fn roman(number: u32) -> String {
    const DIGITS: [(u32, &str); 13] = [
        (1_000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    if !(1..4_000).contains(&number) {
        return number.to_string();
    }
    let mut rest = number;
    let mut text = String::new();
    for (value, digits) in DIGITS {
        while rest >= value {
            text.push_str(digits);
            rest -= value;
        }
    }
    text
}

fn ideographs(number: u32) -> String {
    const DIGITS: [&str; 10] = ["", "一", "二", "三", "四", "五", "六", "七", "八", "九"];
    let ones = DIGITS[number as usize % 10];
    let tens = DIGITS[number as usize / 10 % 10];
    match number {
        1..10 => ones.to_owned(),
        10..20 => format!("十{ones}"),
        20..100 => format!("{tens}十{ones}"),
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::Numerals;

    #[test]
    fn numbers_have_many_forms() {
        for (numerals, number, expected) in [
            (Numerals::Decimal, 12, "12"),
            (Numerals::DecimalZero, 7, "07"),
            (Numerals::UpperLetter, 26, "Z"),
            (Numerals::LowerLetter, 28, "bb"),
            (Numerals::LowerLetter, 0, "0"),
            (Numerals::UpperLetter, u32::MAX, "4294967295"),
            (Numerals::UpperRoman, 1994, "MCMXCIV"),
            (Numerals::LowerRoman, 4, "iv"),
            (Numerals::UpperRoman, 4000, "4000"),
            (Numerals::Ideographs, 10, "十"),
            (Numerals::Ideographs, 21, "二十一"),
            (Numerals::Ideographs, 100, "100"),
        ] {
            assert_eq!(numerals.write(number), expected);
        }
    }
}
