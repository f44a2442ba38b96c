//! Compresses text for codes.

use std::cell::RefCell;

use flate2::{Compress, Compression, FlushCompress, Status};

thread_local! {
    /// Each thread keeps a compressor (260 KB): allocating and clearing one takes longer than
    /// compressing a one-page diagram.
    static COMPRESSOR: RefCell<Compress> = RefCell::new(Compress::new(Compression::best(), false));
}

/// Compresses `bytes` as raw DEFLATE whose first six bits, the first character of the code, are not
/// all zero.
///
/// PlantUML 1.2020.2 would read a code that begins with zero bits as Brotli. Old documents say that
/// such codes do not occur, but zlib begins with a stored block, and so with zero bits, for short
/// labels outside of ASCII. For empty input there is no data without zero bits.
pub(crate) fn deflate(bytes: &[u8]) -> Vec<u8> {
    // Room for the worst case of either form, since `compress_vec` does not allocate.
    let mut packed = Vec::with_capacity(bytes.len() + bytes.len() / 8 + 16);
    let status = COMPRESSOR.with_borrow_mut(|compressor| {
        compressor.reset();
        compressor.compress_vec(bytes, &mut packed, FlushCompress::Finish)
    });
    match status {
        Ok(Status::StreamEnd) if packed[0] >> 2 != 0 => packed,
        // This form cannot fail.
        _ => fixed_block(bytes),
    }
}

/// Writes `bytes` as one final block of literals in the fixed Huffman codes of RFC 1951, section
/// 3.2.6. It is at most an eighth and two bytes larger than `bytes`. Where zlib would store the
/// bytes, it found no repetition, so literals cost next to nothing.
pub fn fixed_block(bytes: &[u8]) -> Vec<u8> {
    const END_OF_BLOCK: u32 = 0;
    // The block's header: BFINAL is 1 and BTYPE is 01, both from the lowest bit on.
    let mut writer = BitWriter {
        packed: Vec::with_capacity(bytes.len() + bytes.len() / 8 + 3),
        pending: 0b011,
        count: 3,
    };
    for &byte in bytes {
        match u32::from(byte) {
            low @ ..144 => writer.put(0b0011_0000 + low, 8),
            high => writer.put(0b1_1001_0000 + (high - 144), 9),
        }
    }
    writer.put(END_OF_BLOCK, 7);
    // Seven more zeros complete the last byte and begin no other.
    writer.put(0, 7);
    writer.packed
}

/// Packs codes into bytes.
struct BitWriter {
    packed: Vec<u8>,
    /// The bits of the byte that is not complete.
    pending: u32,
    count: u32,
}

impl BitWriter {
    fn put(&mut self, code: u32, length: u32) {
        // Huffman codes are written from their highest bit on, unlike everything else.
        self.pending |= code.reverse_bits() >> (32 - length) << self.count;
        self.count += length;
        while self.count >= 8 {
            self.packed.push(self.pending as u8);
            self.pending >>= 8;
            self.count -= 8;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::inflate::inflate;

    /// Labels that zlib stores at level 9.
    const STORED: &[&str] = &[
        "日本語のラベル、漢字とかな",
        "数据库服务器和客户端之间的连接",
        "데이터베이스연결확인처리",
        "🧑\u{200d}💻→☁\u{fe0f}",
        "日🙂本🚀語🎉字🔥",
        "A -> B : ①②③④⑤⑥⑦⑧",
        "Объект→съёмщик",
        "٠١٢٣٤٥٦٧٨٩",
        "नमस्ते",
        "ÀÉÎÕÜßçñøþæœ",
    ];

    #[test]
    fn zlib_stores_these_labels_and_we_do_not() {
        for label in STORED {
            assert_eq!(plain(label.as_bytes())[0] >> 2, 0, "no longer stored: {label}");
            let ours = deflate(label.as_bytes());
            assert_ne!(ours[0] >> 2, 0, "{label}");
            assert_eq!(ours, fixed_block(label.as_bytes()));
            assert_eq!(
                inflate(crate::Compression::Deflate, &ours, 1_000).as_deref(),
                Ok(label.as_bytes())
            );
        }
    }

    #[test]
    fn other_text_keeps_the_smaller_form() {
        for text in ["A --> B", "Bob -> Alice : hello", &"Bob -> Alice : hello\n".repeat(2_000)] {
            assert_eq!(deflate(text.as_bytes()), plain(text.as_bytes()));
        }
    }

    #[test]
    fn the_fixed_block_is_the_one_of_the_rfc() {
        // 011, the literal `A` (0x41 + 0x30 = 01110001), seven zeros: worked out by hand.
        assert_eq!(fixed_block(b"A"), [0b0111_0011, 0b0000_0100, 0]);
        // An empty block is the one whose first six bits are zero.
        assert_eq!(fixed_block(b""), [3, 0]);
    }

    proptest! {
        // Unoptimized, zlib takes milliseconds for each.
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_fixed_block_unpacks_and_keeps_its_bound(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
            let packed = fixed_block(&bytes);
            prop_assert!(packed.len() <= bytes.len() + bytes.len().div_ceil(8) + 2);
            prop_assert!(bytes.is_empty() || packed[0] >> 2 != 0);
            prop_assert_eq!(inflate(crate::Compression::Deflate, &packed, bytes.len()), Ok(bytes));
        }

        /// Incompressible bytes need the most space, and no text consists of them. The buffer must
        /// be large enough for them, too.
        #[test]
        fn any_bytes_come_back(bytes in prop::collection::vec(any::<u8>(), 1..60_000)) {
            let packed = deflate(&bytes);
            prop_assert_ne!(packed[0] >> 2, 0);
            // The compressor keeps nothing of the previous text.
            let plain = plain(&bytes);
            prop_assert!(packed == plain || plain[0] >> 2 == 0);
            prop_assert_eq!(inflate(crate::Compression::Deflate, &packed, bytes.len()), Ok(bytes));
        }
    }

    /// Returns the output of zlib without our changes.
    fn plain(bytes: &[u8]) -> Vec<u8> {
        let mut packed = Vec::with_capacity(bytes.len() + 1_000);
        let status = Compress::new(Compression::best(), false).compress_vec(
            bytes,
            &mut packed,
            FlushCompress::Finish,
        );
        assert_eq!(status.unwrap(), Status::StreamEnd);
        packed
    }
}
