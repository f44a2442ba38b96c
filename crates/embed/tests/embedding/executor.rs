//! Embedding many texts does not block other tasks of the same thread.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use marquetry_embed::Embedder;

/// Returns how often another task ran while these texts were embedded.
async fn turns_of_others(model: &impl Embedder, texts: &[String]) -> u32 {
    let count = Arc::new(AtomicU32::new(0));
    let other = tokio::spawn({
        let count = Arc::clone(&count);
        async move {
            loop {
                tokio::time::sleep(Duration::from_millis(1)).await;
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    tokio::time::sleep(Duration::from_millis(3)).await;
    let before = count.load(Ordering::Relaxed);
    let vectors = model.embed(texts).await.unwrap();
    let turns = count.load(Ordering::Relaxed) - before;
    other.abort();
    assert_eq!(vectors.len(), texts.len());
    turns
}

#[cfg(feature = "builtin-model")]
#[tokio::test(flavor = "current_thread")]
async fn the_built_in_model_does_not_block_the_runtime() {
    let model = marquetry_embed::builtin::StaticModel::built_in();
    let texts = vec!["Bread is made of flour and water. ".repeat(100); 400];
    let turns = turns_of_others(&model, &texts).await;
    assert!(turns >= 5, "others had {turns} turns");
}

#[cfg(feature = "transformer")]
#[tokio::test(flavor = "current_thread")]
async fn a_transformer_does_not_block_the_runtime() {
    let folder = tempfile::TempDir::new().unwrap();
    super::folder::write(folder.path(), 1);
    let options = marquetry_embed::transformer::TransformerOptions::new(folder.path());
    let model = marquetry_embed::transformer::Transformer::open(options).await.unwrap();
    let texts = vec!["Bread is made of flour and water. ".repeat(10); 2_000];
    let turns = turns_of_others(&model, &texts).await;
    assert!(turns >= 5, "others had {turns} turns");
}
