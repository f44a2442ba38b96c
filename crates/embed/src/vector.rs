//! Checks of vectors that other programs or models made.

use crate::{EmbedError, EmbeddingModel};

/// Checks the dimension and the values of a vector, and normalises it to length 1. A vector of
/// zeros stays.
pub(crate) fn normalized(
    model: &EmbeddingModel,
    mut vector: Vec<f32>,
) -> Result<Vec<f32>, EmbedError> {
    let identity = || model.identity.clone();
    if vector.len() != model.dimension {
        let (wanted, got) = (model.dimension, vector.len());
        return Err(EmbedError::Dimension { model: identity(), wanted, got });
    }
    if vector.iter().any(|value| !value.is_finite()) {
        return Err(EmbedError::NotFinite { model: identity() });
    }
    // Computed in f64, in which the square of an f32 cannot overflow.
    let length = vector.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
    if length > 0.0 {
        for value in &mut vector {
            *value = (f64::from(*value) / length) as f32;
        }
    }
    Ok(vector)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_have_length_one_and_are_held_to_their_model() {
        let model = EmbeddingModel::new("m", 2);
        let check = |vector: [f32; 2]| normalized(&model, vector.to_vec());
        assert_eq!(check([3.0, -4.0]).unwrap(), [0.6, -0.8]);
        assert_eq!(check([f32::MAX, 0.0]).unwrap(), [1.0, 0.0]);
        assert_eq!(check([1e-40, 0.0]).unwrap(), [1.0, 0.0]);
        assert_eq!(check([0.0, 0.0]).unwrap(), [0.0, 0.0]);
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert!(matches!(check([1.0, bad]), Err(EmbedError::NotFinite { .. })));
        }
        let error = normalized(&model, vec![1.0]).unwrap_err();
        assert!(matches!(error, EmbedError::Dimension { wanted: 2, got: 1, .. }), "{error}");
    }
}
