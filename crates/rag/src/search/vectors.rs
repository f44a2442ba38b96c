//! Vectors in two bytes a number: one to scan all of them by, one more to order the best exactly.

use std::ops::Range;

use pulp::{Simd, WithSimd};

/// A vector in two bytes a number, of length 1 before it was rounded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Packed {
    /// What the numbers are multiplied by. 0 if the vector was all zeros, and has no direction.
    pub(crate) scale: f32,
    /// Signed bytes, as a file keeps them.
    pub(crate) coarse: Vec<u8>,
    pub(crate) fine: Vec<u8>,
}

/// The largest number: 127 in the coarse byte, 0 in the fine one.
const LARGEST: f32 = 127.0 * 256.0;

impl Packed {
    pub(crate) fn new(vector: &[f32]) -> Self {
        // The length of a vector of huge numbers is infinite, so the largest becomes 1 first.
        let largest = vector.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
        if largest == 0.0 {
            let zeros = vec![0; vector.len()];
            return Self { scale: 0.0, coarse: zeros.clone(), fine: zeros };
        }
        let length = vector.iter().map(|value| (value / largest).powi(2)).sum::<f32>().sqrt();
        let rounded = vector.iter().map(|value| (value / largest * LARGEST).round() as i16);
        let coarse = |number: i16| ((i32::from(number) + 128) >> 8) as i8;
        Self {
            scale: 1.0 / (length * LARGEST),
            coarse: rounded.clone().map(|number| coarse(number).cast_unsigned()).collect(),
            fine: rounded
                .map(|number| (i32::from(number) - 256 * i32::from(coarse(number))) as u8)
                .collect(),
        }
    }
}

/// The numbers of a vector again, from its bytes. Packed anew, each is what it was.
pub(crate) fn unpacked(scale: f32, bytes: impl Iterator<Item = (i8, i8)>) -> Vec<f32> {
    let number = |(coarse, fine)| 256 * i32::from(coarse) + i32::from(fine);
    bytes.map(|bytes| number(bytes) as f32 * scale).collect()
}

/// The vector of length 1 in the same direction; None if it has no direction.
pub(crate) fn unit(vector: &[f32]) -> Option<Vec<f32>> {
    // The length of a vector of huge numbers is infinite, so the largest becomes 1 first.
    let largest = vector.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    if largest == 0.0 {
        return None;
    }
    let length = vector.iter().map(|value| (value / largest).powi(2)).sum::<f32>().sqrt();
    Some(vector.iter().map(|value| value / largest / length).collect())
}

/// The vectors of all rows.
#[derive(Debug)]
pub(crate) struct Matrix {
    dimension: usize,
    scales: Vec<f32>,
    coarse: Vec<i8>,
    fine: Vec<i8>,
}

/// A question's vector, as both scans need it.
pub(crate) struct Probe {
    exact: Vec<f32>,
    rounded: Vec<i16>,
}

impl Probe {
    /// Rounded to this, no sum of products with up to 8,000 rounded numbers leaves 32 bits.
    const LARGEST: f32 = 2_047.0;

    /// None if the vector has no direction.
    pub(crate) fn new(vector: &[f32]) -> Option<Self> {
        let exact = unit(vector)?;
        let largest = vector.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
        let rounded = vector.iter().map(|value| (value / largest * Self::LARGEST).round() as i16);
        Some(Self { rounded: rounded.collect(), exact })
    }
}

impl Matrix {
    pub(crate) fn new(dimension: usize) -> Self {
        Self { dimension, scales: Vec::new(), coarse: Vec::new(), fine: Vec::new() }
    }

    #[cfg(feature = "libsql")]
    pub(crate) fn dimension(&self) -> usize {
        self.dimension
    }

    #[cfg(feature = "libsql")]
    pub(crate) fn reserve(&mut self, rows: usize) {
        self.scales.reserve_exact(rows);
        self.coarse.reserve_exact(rows * self.dimension);
        self.fine.reserve_exact(rows * self.dimension);
    }

    pub(crate) fn push(&mut self, scale: f32, coarse: &[u8], fine: &[u8]) {
        debug_assert_eq!((coarse.len(), fine.len()), (self.dimension, self.dimension));
        self.scales.push(scale);
        self.coarse.extend(coarse.iter().map(|byte| byte.cast_signed()));
        self.fine.extend(fine.iter().map(|byte| byte.cast_signed()));
    }

    /// The cosine of a row and a question, as exactly as it was kept. None if the row has no direction.
    pub(crate) fn cosine(&self, row: u32, probe: &Probe) -> Option<f32> {
        let row = row as usize;
        let scale = self.scales[row];
        let numbers = row * self.dimension..(row + 1) * self.dimension;
        let numbers = self.coarse[numbers.clone()].iter().zip(&self.fine[numbers]);
        let numbers = numbers.map(|(&coarse, &fine)| 256 * i32::from(coarse) + i32::from(fine));
        let sum: f32 = numbers.zip(&probe.exact).map(|(number, exact)| number as f32 * exact).sum();
        (scale > 0.0).then_some(sum * scale)
    }

    /// The vector of a row, as exactly as it was kept.
    pub(crate) fn vector(&self, row: u32) -> Vec<f32> {
        let row = row as usize;
        let numbers = row * self.dimension..(row + 1) * self.dimension;
        let bytes = self.coarse[numbers.clone()].iter().copied();
        unpacked(self.scales[row], bytes.zip(self.fine[numbers].iter().copied()))
    }

    /// Shows every row of the ranges that has a direction to `see`, with roughly its cosine, times a constant.
    pub(crate) fn scan(&self, probe: &Probe, runs: &[Range<u32>], see: impl FnMut(u32, f32)) {
        pulp::Arch::new().dispatch(Scan { matrix: self, probe: &probe.rounded, runs, see });
    }

    /// Keeps the rows for which this is true, in their order.
    pub(crate) fn retain(&mut self, keep: impl Fn(usize) -> bool) {
        let mut to = 0;
        for from in 0..self.scales.len() {
            if keep(from) {
                self.scales[to] = self.scales[from];
                let numbers = from * self.dimension..(from + 1) * self.dimension;
                self.coarse.copy_within(numbers.clone(), to * self.dimension);
                self.fine.copy_within(numbers, to * self.dimension);
                to += 1;
            }
        }
        self.scales.truncate(to);
        self.coarse.truncate(to * self.dimension);
        self.fine.truncate(to * self.dimension);
    }
}

/// [`Matrix::scan`], compiled once for each kind of processor.
///
/// Loops are written out: what is not inlined into `with_simd` is compiled for the oldest processor, and iterators are
/// not always inlined.
struct Scan<'a, F> {
    matrix: &'a Matrix,
    probe: &'a [i16],
    runs: &'a [Range<u32>],
    see: F,
}

impl<F: FnMut(u32, f32)> WithSimd for Scan<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { matrix: Matrix { dimension, scales, coarse, .. }, probe, runs, mut see } = self;
        for run in runs {
            let mut row = run.start;
            while row < run.end {
                let at = row as usize * dimension;
                let rows = (run.end - row).min(TOGETHER as u32);
                let sums = if rows == TOGETHER as u32 {
                    four(&coarse[at..at + TOGETHER * dimension], probe, *dimension)
                } else {
                    let mut sums = [0; TOGETHER];
                    let mut at = at;
                    for sum in sums.iter_mut().take(rows as usize) {
                        *sum = dot(&coarse[at..at + dimension], probe);
                        at += dimension;
                    }
                    sums
                };
                let end = row + rows;
                let mut place = 0;
                while row < end {
                    let scale = scales[row as usize];
                    if scale > 0.0 {
                        see(row, sums[place] as f32 * scale);
                    }
                    (row, place) = (row + 1, place + 1);
                }
            }
        }
    }
}

/// How many rows are compared at once: the numbers of the question are loaded once for all of them.
const TOGETHER: usize = 4;

#[inline(always)]
fn four(coarse: &[i8], probe: &[i16], dimension: usize) -> [i32; TOGETHER] {
    let (first, rest) = coarse.split_at(dimension);
    let (second, rest) = rest.split_at(dimension);
    let (third, fourth) = rest.split_at(dimension);
    // The slices are as long as the loop says, or the compiler would check each step.
    let (fourth, probe) = (&fourth[..dimension], &probe[..dimension]);
    let [mut a, mut b, mut c, mut d] = [0; TOGETHER];
    let mut at = 0;
    while at < dimension {
        let number = i32::from(probe[at]);
        a += i32::from(first[at]) * number;
        b += i32::from(second[at]) * number;
        c += i32::from(third[at]) * number;
        d += i32::from(fourth[at]) * number;
        at += 1;
    }
    [a, b, c, d]
}

#[inline(always)]
fn dot(coarse: &[i8], probe: &[i16]) -> i32 {
    let (mut sum, mut at) = (0, 0);
    while at < coarse.len() && at < probe.len() {
        sum += i32::from(coarse[at]) * i32::from(probe[at]);
        at += 1;
    }
    sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::search::top::Top;

    fn cosine(left: &[f32], right: &[f32]) -> f32 {
        let dot = |left: &[f32], right: &[f32]| {
            left.iter().zip(right).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>()
        };
        (dot(left, right) / (dot(left, left) * dot(right, right)).sqrt()) as f32
    }

    proptest! {
        #[test]
        fn cosines_are_exact_to_four_places(
            left in prop::collection::vec(-1e3_f32..1e3, 1..64), seed: u64
        ) {
            let right: Vec<f32> =
                left.iter().enumerate().map(|(at, v)| v + (seed >> (at % 60) & 15) as f32).collect();
            let packed = Packed::new(&left);
            let mut matrix = Matrix::new(left.len());
            matrix.push(packed.scale, &packed.coarse, &packed.fine);
            if let (Some(probe), Some(_)) = (Probe::new(&right), Probe::new(&left)) {
                let got = matrix.cosine(0, &probe).unwrap();
                prop_assert!((got - cosine(&left, &right)).abs() < 1e-4);
                let mut rough = Top::new(1);
                matrix.scan(&probe, &[0..0, 0..1], |row, score| rough.push(score, row));
                prop_assert_eq!(rough.into_sorted().len(), 1);
            }
        }
    }

    #[test]
    fn rows_are_compared_alike_however_many_at_once() {
        let mut matrix = Matrix::new(5);
        let vector = |seed: usize| (0..5).map(move |at| ((seed * 7 + at * 3) % 11) as f32 - 5.0);
        for seed in 0..23 {
            let packed = Packed::new(&vector(seed).collect::<Vec<_>>());
            matrix.push(packed.scale, &packed.coarse, &packed.fine);
        }
        let probe = Probe::new(&vector(2).collect::<Vec<_>>()).unwrap();
        let scan = |runs: &[Range<u32>]| {
            let mut seen = Vec::new();
            matrix.scan(&probe, runs, |row, score| seen.push((row, score)));
            seen
        };
        let one_by_one: Vec<_> = (0..23).map(|row| row..row + 1).collect();
        assert_eq!(scan(&one_by_one).len(), 23);
        assert_eq!(scan(&[0..2, 2..9, 9..23]), scan(&one_by_one));
    }

    #[test]
    fn extremes_keep_their_direction() {
        for vector in [[f32::MAX, f32::MAX], [f32::MIN_POSITIVE, -f32::MIN_POSITIVE], [-1.0, 0.0]] {
            let packed = Packed::new(&vector);
            let mut matrix = Matrix::new(2);
            matrix.push(packed.scale, &packed.coarse, &packed.fine);
            let cosine = matrix.cosine(0, &Probe::new(&vector).unwrap()).unwrap();
            assert!((cosine - 1.0).abs() < 1e-4, "{vector:?} {cosine}");
        }
    }

    #[test]
    fn what_is_packed_again_is_what_it_was() {
        let bytes = |packed: &Packed| {
            let signed =
                |bytes: &[u8]| bytes.iter().map(|byte| byte.cast_signed()).collect::<Vec<_>>();
            signed(&packed.coarse).into_iter().zip(signed(&packed.fine)).collect::<Vec<_>>()
        };
        for vector in [vec![0.3, -0.1, 0.001, 0.0], vec![1e-20, 3e-20], vec![0.0; 3]] {
            let packed = Packed::new(&vector);
            let again = Packed::new(&unpacked(packed.scale, bytes(&packed).into_iter()));
            assert_eq!(bytes(&packed), bytes(&again), "{vector:?}");
            assert!((packed.scale - again.scale).abs() <= packed.scale * 1e-3, "{vector:?}");
        }
    }

    #[test]
    fn zeros_have_no_direction() {
        assert!(Probe::new(&[0.0; 4]).is_none());
        let packed = Packed::new(&[0.0; 4]);
        let mut matrix = Matrix::new(4);
        matrix.push(packed.scale, &packed.coarse, &packed.fine);
        assert_eq!(matrix.cosine(0, &Probe::new(&[1.0; 4]).unwrap()), None);
    }
}
