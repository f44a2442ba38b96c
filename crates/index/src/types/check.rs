//! Checks that every store makes.

use marquetry_embed::EmbeddingModel;

use super::{
    document::{Document, NewChunk},
    error::StoreError,
    request::SearchRequest,
};

/// Checks documents before they are stored.
pub(crate) fn check_documents(
    model: &EmbeddingModel,
    documents: &[(Document, Vec<NewChunk>)],
) -> Result<(), StoreError> {
    for (document, chunks) in documents {
        if document.uri.is_empty() {
            return Err(StoreError::NoUri);
        }
        for chunk in chunks {
            check_vector(model, &chunk.vector)?;
        }
    }
    Ok(())
}

fn check_vector(model: &EmbeddingModel, vector: &[f32]) -> Result<(), StoreError> {
    if vector.len() != model.dimension {
        return Err(StoreError::Dimension { wanted: model.dimension, got: vector.len() });
    }
    if vector.iter().all(|value| value.is_finite()) { Ok(()) } else { Err(StoreError::NotFinite) }
}

/// Checks a search request.
pub(crate) fn check_request(
    request: &SearchRequest,
    model: &EmbeddingModel,
) -> Result<(), StoreError> {
    if request.text.len() > SearchRequest::MAX_TEXT_BYTES {
        return Err(StoreError::QueryTooLong { bytes: request.text.len() });
    }
    if request.limit > SearchRequest::MAX_LIMIT {
        return Err(StoreError::LimitTooLarge { limit: request.limit });
    }
    if let Some(fusion) = request.fusion
        && [fusion.k, fusion.semantic_weight].iter().any(|value| !value.is_finite() || *value < 0.0)
    {
        return Err(StoreError::Fusion);
    }
    request.vector.as_ref().map_or(Ok(()), |vector| check_vector(model, vector))
}
