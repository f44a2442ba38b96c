//! Rows as bytes, as databases keep them.

use crate::{
    search::{Row, RowRef, Term},
    store::StoreError,
};

/// Appends a row: scale, length, number of terms, terms, and the two bytes of each number of the vector.
///
/// Terms are written as the distance to the one before, in groups of seven bits, with a byte for the count.
pub(crate) fn encode(row: &Row, bytes: &mut Vec<u8>) {
    bytes.extend(row.vector.scale.to_le_bytes());
    bytes.extend(row.length.to_le_bytes());
    bytes.extend((row.terms.len() as u32).to_le_bytes());
    let mut last = 0;
    for &(term, count) in &row.terms {
        let mut distance = term - last;
        last = term;
        while distance >= 0x80 {
            bytes.push(distance as u8 | 0x80);
            distance >>= 7;
        }
        bytes.extend([distance as u8, count]);
    }
    bytes.extend_from_slice(&row.vector.coarse);
    bytes.extend_from_slice(&row.vector.fine);
}

/// Shows each row to `see`.
pub(crate) fn decode(
    mut bytes: &[u8],
    dimension: usize,
    terms: &mut Vec<(Term, u8)>,
    mut see: impl FnMut(RowRef<'_>),
) -> Result<(), StoreError> {
    while !bytes.is_empty() {
        let row = row(&mut bytes, dimension, terms)
            .ok_or_else(|| StoreError::Damaged("the rows of a document do not read".to_owned()))?;
        see(RowRef { terms, ..row });
    }
    Ok(())
}

fn row<'a>(
    bytes: &mut &'a [u8],
    dimension: usize,
    terms: &mut Vec<(Term, u8)>,
) -> Option<RowRef<'a>> {
    let scale = f32::from_le_bytes(take(bytes)?);
    let length = u32::from_le_bytes(take(bytes)?);
    let count = u32::from_le_bytes(take(bytes)?);
    terms.clear();
    let mut last: Term = 0;
    for _ in 0..count {
        let (mut distance, mut shift) = (0_u32, 0);
        loop {
            let [byte] = take(bytes)?;
            distance |= u32::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte < 0x80 {
                break;
            }
        }
        last = last.checked_add(distance)?;
        let [count] = take(bytes)?;
        terms.push((last, count));
    }
    let coarse = bytes.split_off(..dimension)?;
    let fine = bytes.split_off(..dimension)?;
    scale.is_finite().then_some(RowRef { scale, coarse, fine, terms: &[], length })
}

fn take<const COUNT: usize>(bytes: &mut &[u8]) -> Option<[u8; COUNT]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::search::Packed;

    fn row() -> impl Strategy<Value = Row> {
        let terms = prop::collection::btree_map(0_u32..1 << 24, 1_u8.., 0..40);
        (prop::collection::vec(-1.0_f32..1.0, 8), terms, any::<u32>()).prop_map(
            |(vector, terms, length)| Row {
                vector: Packed::new(&vector),
                terms: terms.into_iter().collect(),
                length,
            },
        )
    }

    proptest! {
        #[test]
        fn rows_come_back(rows in prop::collection::vec(row(), 0..5)) {
            let mut bytes = Vec::new();
            rows.iter().for_each(|row| encode(row, &mut bytes));
            let mut got = Vec::new();
            decode(&bytes, 8, &mut Vec::new(), |row| got.push(Row {
                vector: Packed { scale: row.scale, coarse: row.coarse.to_vec(), fine: row.fine.to_vec() },
                terms: row.terms.to_vec(),
                length: row.length,
            })).unwrap();
            prop_assert_eq!(got, rows);
        }

        #[test]
        fn any_bytes_are_rows_or_an_error(bytes: Vec<u8>) {
            let _ = decode(&bytes, 4, &mut Vec::new(), |row| assert_eq!(row.coarse.len(), 4));
        }
    }
}
