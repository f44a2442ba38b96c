//! PlantUML's alphabet: six bits a character, like Base64 with the characters `0-9A-Za-z-_`, padded
//! with zero bits.

const CHARACTERS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

const INVALID: u8 = 0xff;

/// The six bits of each character; [`INVALID`] for other bytes.
const VALUES: [u8; 256] = {
    let mut values = [INVALID; 256];
    let mut value = 0;
    while value < CHARACTERS.len() {
        values[CHARACTERS[value] as usize] = value as u8;
        value += 1;
    }
    values
};

/// Encodes `bytes`. The last group is padded with zero bytes, so that the length is a multiple of
/// 4.
pub fn encode(bytes: &[u8]) -> String {
    let mut code = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let mut bytes = [0; 3];
        bytes[..group.len()].copy_from_slice(group);
        let bits = u32::from(bytes[0]) << 16 | u32::from(bytes[1]) << 8 | u32::from(bytes[2]);
        for shift in [18, 12, 6, 0] {
            code.push(char::from(CHARACTERS[(bits >> shift & 63) as usize]));
        }
    }
    code
}

/// Decodes `code`. Missing characters of the last group count as `0`. The error is the index of the
/// first byte that is not in the alphabet; all bytes before it are ASCII.
pub(crate) fn decode(code: &str) -> Result<Vec<u8>, usize> {
    let mut bytes = Vec::with_capacity(code.len().div_ceil(4) * 3);
    for (group, characters) in code.as_bytes().chunks(4).enumerate() {
        let mut bits = 0;
        for (i, &character) in characters.iter().enumerate() {
            let value = VALUES[usize::from(character)];
            if value == INVALID {
                return Err(group * 4 + i);
            }
            bits |= u32::from(value) << (18 - 6 * i);
        }
        bytes.extend_from_slice(&bits.to_be_bytes()[1..]);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn groups_are_padded_with_zeros() {
        assert_eq!(encode(b""), "");
        assert_eq!(encode(&[0xff]), "_m00");
        assert_eq!(encode(&[0xff, 0xff]), "__y0");
        assert_eq!(encode(&[0xff, 0xff, 0xff]), "____");
        assert_eq!(encode(&[0x00, 0x10, 0x83, 0x10, 0x51, 0x87]), "01234567");
    }

    #[test]
    fn missing_characters_count_as_zero() {
        assert_eq!(decode("_m"), decode("_m00"));
        assert_eq!(decode("_"), decode("_000"));
    }

    #[test]
    fn the_error_is_the_index_of_the_first_other_character() {
        assert_eq!(decode("SrJG+"), Err(4));
        assert_eq!(decode("Sré"), Err(2));
        assert_eq!(decode("="), Err(0));
    }

    proptest! {
        #[test]
        fn decoding_returns_the_encoded_bytes(bytes: Vec<u8>) {
            let code = encode(&bytes);
            prop_assert_eq!(code.len() % 4, 0);
            let mut padded = bytes;
            padded.resize(code.len() / 4 * 3, 0);
            prop_assert_eq!(decode(&code), Ok(padded));
        }
    }
}
