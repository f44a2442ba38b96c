//! Checks of vectors that other programs or models made.

use crate::{EmbedError, EmbeddingModel};

/// Checks the dimension and the values of a vector, and normalises it to length 1. A vector of
/// zeros stays.
pub(crate) fn normalized(
    model: &EmbeddingModel,
    mut vector: Vec<f32>,
) -> Result<Vec<f32>, EmbedError> {
    if vector.len() != model.dimension {
        return Err(EmbedError::Dimension {
            model: model.identity.clone(),
            wanted: model.dimension,
            got: vector.len(),
        });
    }
    if vector.iter().any(|value| !value.is_finite()) {
        return Err(EmbedError::NotFinite { model: model.identity.clone() });
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
    fn vectors_are_normalized_and_checked() {
        let model = EmbeddingModel::new("m", 2);
        for (vector, want) in [
            ([3.0, -4.0], [0.6, -0.8]),
            ([f32::MAX, 0.0], [1.0, 0.0]),
            ([1e-40, 0.0], [1.0, 0.0]),
            ([0.0, 0.0], [0.0, 0.0]),
        ] {
            assert_eq!(normalized(&model, vector.to_vec()).unwrap(), want);
        }
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let refused = normalized(&model, vec![1.0, bad]);
            assert!(matches!(refused, Err(EmbedError::NotFinite { .. })));
        }
        let error = normalized(&model, vec![1.0]).unwrap_err();
        assert!(matches!(error, EmbedError::Dimension { wanted: 2, got: 1, .. }), "{error}");
    }
}
