//! Vectors of half precision for pgvector.

use std::error::Error;

use tokio_postgres::types::{IsNull, ToSql, Type, private::BytesMut, to_sql_checked};

/// A parameter of the type `halfvec`.
#[derive(Debug)]
pub(super) struct HalfVector(Vec<u16>);

impl HalfVector {
    /// Largest dimension of the types of pgvector.
    pub(super) const MAX_DIMENSION: usize = 16_000;
    /// Largest dimension of the indexes of pgvector.
    pub(super) const MAX_INDEXED: usize = 4_000;

    /// Converts a vector of numbers from -1 to 1.
    pub(super) fn new(unit: &[f32]) -> Self {
        Self(unit.iter().map(|&value| half(value)).collect())
    }
}

impl ToSql for HalfVector {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&u16::try_from(self.0.len())?.to_be_bytes());
        out.extend_from_slice(&[0; 2]);
        self.0.iter().for_each(|half| out.extend_from_slice(&half.to_be_bytes()));
        Ok(IsNull::No)
    }

    fn accepts(of: &Type) -> bool {
        of.name() == "halfvec"
    }

    to_sql_checked!();
}

/// Returns the nearest number of half precision (IEEE 754), for numbers of at most 1.
fn half(value: f32) -> u16 {
    let sign = (value.to_bits() >> 16) as u16 & 0x8000;
    let bits = value.abs().to_bits();
    // Below the smallest normal number all steps have the same size.
    const SMALLEST_NORMAL: u32 = 0x3880_0000;
    if bits < SMALLEST_NORMAL {
        return sign | (value.abs() * 16_777_216.0).round_ties_even() as u16;
    }
    let rounded = bits + 0xfff + (bits >> 13 & 1);
    sign | ((rounded - 0x3800_0000) >> 13) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_to_the_nearest() {
        for (value, want) in [
            (0.0, 0x0000),
            (-0.0, 0x8000),
            (1.0, 0x3c00),
            (-1.0, 0xbc00),
            (0.5, 0x3800),
            (1.0 / 3.0, 0x3555),
            (6.103_515_6e-5, 0x0400),
            (6.097_555e-5, 0x03ff),
            (5.960_464_5e-8, 0x0001),
            (1e-9, 0x0000),
            (0.999_9, 0x3c00),
            (0.999_5, 0x3bff),
        ] {
            assert_eq!(half(value), want, "{value}");
        }
    }
}
