//! The binary form of rows in databases.

use crate::{
    ranking::{Row, RowRef, Term},
    types::StoreError,
};

/// Appends a row: a header with scale, length and size of the encoded terms; two bytes for each
/// number of the vector; the terms.
///
/// Terms are in ascending order. Each is written as its distance to the one before, as a LEB128
/// number, and its count, as a byte.
pub(crate) fn encode(row: &Row, bytes: &mut Vec<u8>) {
    let mut terms = Vec::with_capacity(4 * row.terms.len());
    let mut last = 0;
    for &(term, count) in &row.terms {
        let mut distance = term - last;
        last = term;
        while distance >= 0x80 {
            terms.push(distance as u8 | 0x80);
            distance >>= 7;
        }
        terms.extend([distance as u8, count]);
    }
    write_header(row.vector.scale, row.length, &terms, bytes);
    bytes.extend_from_slice(&row.vector.coarse);
    bytes.extend_from_slice(&row.vector.fine);
    bytes.extend(terms);
}

fn write_header(scale: f32, length: u32, terms: &[u8], bytes: &mut Vec<u8>) {
    bytes.extend(scale.to_le_bytes());
    bytes.extend(length.to_le_bytes());
    bytes.extend((terms.len() as u32).to_le_bytes());
}

/// Decodes rows, and passes each to `visit`. `terms` is a buffer.
#[cfg(feature = "postgres")]
pub(crate) fn decode(
    bytes: &[u8],
    dimension: usize,
    terms: &mut Vec<(Term, u8)>,
    mut visit: impl FnMut(RowRef<'_>),
) -> Result<(), StoreError> {
    for row in rows(bytes, dimension) {
        let row = row?;
        row.terms(terms)?;
        visit(row.with_terms(terms));
    }
    Ok(())
}

/// A row whose terms are not decoded.
pub(crate) struct EncodedRow<'a> {
    pub(crate) scale: f32,
    pub(crate) coarse: &'a [u8],
    pub(crate) fine: &'a [u8],
    /// Number of terms, including repetitions.
    pub(crate) length: u32,
    terms: &'a [u8],
}

/// Iterates over the rows of a document.
pub(crate) fn rows(
    mut bytes: &[u8],
    dimension: usize,
) -> impl Iterator<Item = Result<EncodedRow<'_>, StoreError>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let row = read_row(&mut bytes, dimension).ok_or_else(damaged);
        if row.is_err() {
            bytes = &[];
        }
        Some(row)
    })
}

fn read_row<'a>(bytes: &mut &'a [u8], dimension: usize) -> Option<EncodedRow<'a>> {
    let scale = f32::from_le_bytes(read_array(bytes)?);
    let length = u32::from_le_bytes(read_array(bytes)?);
    let size = u32::from_le_bytes(read_array(bytes)?);
    let coarse = bytes.split_off(..dimension)?;
    let fine = bytes.split_off(..dimension)?;
    let terms = bytes.split_off(..usize::try_from(size).ok()?)?;
    scale.is_finite().then_some(EncodedRow { scale, coarse, fine, length, terms })
}

impl<'a> EncodedRow<'a> {
    /// Returns the vector.
    pub(crate) fn vector(&self) -> Vec<f32> {
        crate::ranking::unpacked(self.scale, self.coarse, self.fine)
    }

    /// Decodes the terms into `terms`, whose memory is reused.
    pub(crate) fn terms<'b>(
        &self,
        terms: &'b mut Vec<(Term, u8)>,
    ) -> Result<&'b [(Term, u8)], StoreError> {
        terms.clear();
        let mut bytes = self.terms;
        let mut last = 0;
        while !bytes.is_empty() {
            let term = read_term(&mut bytes, last).ok_or_else(damaged)?;
            last = term.0;
            terms.push(term);
        }
        Ok(terms)
    }

    /// Appends the row without its vector. [`rows`] reads it with the dimension 0.
    #[cfg(any(feature = "libsql", test))]
    pub(crate) fn encode_terms(&self, bytes: &mut Vec<u8>) {
        write_header(0.0, self.length, self.terms, bytes);
        bytes.extend(self.terms);
    }

    pub(crate) fn with_terms(self, terms: &'a [(Term, u8)]) -> RowRef<'a> {
        let Self { scale, coarse, fine, length, .. } = self;
        RowRef { scale, coarse, fine, terms, length }
    }
}

fn read_term(bytes: &mut &[u8], last: Term) -> Option<(Term, u8)> {
    let mut distance = 0_u32;
    let mut shift = 0;
    // Nearly all distances take one or two bytes, so these cases need no loop.
    let count = match **bytes {
        [first, count, ref rest @ ..] if first < 0x80 => {
            distance = first.into();
            *bytes = rest;
            count
        }
        [first, second, count, ref rest @ ..] if second < 0x80 => {
            distance = u32::from(first & 0x7f) | u32::from(second) << 7;
            *bytes = rest;
            count
        }
        _ => loop {
            let [byte] = read_array(bytes)?;
            distance |= u32::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte < 0x80 {
                let [count] = read_array(bytes)?;
                break count;
            }
        },
    };
    Some((last.checked_add(distance)?, count))
}

fn damaged() -> StoreError {
    StoreError::damaged("failed to decode the rows of a document")
}

fn read_array<const COUNT: usize>(bytes: &mut &[u8]) -> Option<[u8; COUNT]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ranking::PackedVector;

    fn row() -> impl Strategy<Value = Row> {
        let terms = prop::collection::btree_map(0_u32..1 << 24, 1_u8.., 0..40);
        (prop::collection::vec(-1.0_f32..1.0, 8), terms, any::<u32>()).prop_map(
            |(vector, terms, length)| Row {
                vector: PackedVector::new(&vector),
                terms: terms.into_iter().collect(),
                length,
            },
        )
    }

    proptest! {
        #[test]
        fn rows_round_trip(rows in prop::collection::vec(row(), 0..5)) {
            let mut bytes = Vec::new();
            for row in &rows { encode(row, &mut bytes); }
            let mut got = Vec::new();
            let mut terms = Vec::new();
            for row in super::rows(&bytes, 8) {
                let row = row.unwrap();
                row.terms(&mut terms).unwrap();
                let mut alone = Vec::new();
                row.encode_terms(&mut alone);
                let alone = super::rows(&alone, 0).next().unwrap().unwrap();
                let mut again = Vec::new();
                prop_assert_eq!(alone.terms(&mut again).unwrap(), &terms);
                prop_assert_eq!(alone.length, row.length);
                let row = row.with_terms(&terms);
                got.push(Row {
                    vector: PackedVector { scale: row.scale, coarse: row.coarse.to_vec(), fine: row.fine.to_vec() },
                    terms: row.terms.to_vec(),
                    length: row.length,
                });
            }
            prop_assert_eq!(got, rows);
        }

        #[test]
        fn any_bytes_are_rows_or_an_error(bytes: Vec<u8>) {
            for row in super::rows(&bytes, 4).flatten() {
                assert_eq!(row.coarse.len(), 4);
                let _ = row.terms(&mut Vec::new());
            }
        }
    }
}
