//! Vectors of tools and words.

use std::sync::Arc;

use crate::text::Embed;

/// The vectors of an index.
pub(crate) struct Vectors {
    pub(crate) model: Arc<dyn Embed>,
    /// The vector of each tool.
    pub(crate) of_tools: Vec<Vector>,
    /// The vectors of words of the tools, by their stems.
    pub(crate) of_words: Vec<(String, Vector)>,
}

/// A vector of length 1, with a byte for each number.
#[derive(Clone, Debug)]
pub(crate) struct Vector(Box<[i8]>);

/// The value of 1.
const UNIT: f32 = 127.0;

impl Vector {
    /// Returns the vector of a text. Numbers that are not finite become 0 or the nearest byte.
    pub(crate) fn of(model: &dyn Embed, text: &str) -> Self {
        Self(model.embed(text).into_iter().map(|number| (number * UNIT).round() as i8).collect())
    }

    /// Returns the cosine of two vectors.
    pub(crate) fn cosine(&self, other: &Self) -> f32 {
        let products = self.0.iter().zip(&other.0);
        let sum: i32 = products.map(|(left, right)| i32::from(*left) * i32::from(*right)).sum();
        sum as f32 / (UNIT * UNIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(Vec<f32>);

    impl Embed for Fixed {
        fn embed(&self, _: &str) -> Vec<f32> {
            self.0.clone()
        }
    }

    #[test]
    fn cosines_are_nearly_exact() {
        let left = Vector::of(&Fixed(vec![0.6, 0.8]), "");
        let right = Vector::of(&Fixed(vec![0.8, -0.6]), "");
        assert!((left.cosine(&left) - 1.0).abs() < 0.01);
        assert!(left.cosine(&right).abs() < 0.01);
        let broken = Vector::of(&Fixed(vec![f32::NAN, f32::INFINITY]), "");
        assert!(left.cosine(&broken).is_finite());
        assert_eq!(left.cosine(&Vector::of(&Fixed(Vec::new()), "")), 0.0);
    }
}
