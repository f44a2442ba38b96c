//! A full database.

use std::{path::Path, sync::Arc};

use marquetry_rag::{
    Caller, EmbeddingModel, FileOptions, Filter, Indexer, LibsqlOptions, LibsqlRecords,
    LibsqlStore, Pipeline, Records, StaticModel,
};

async fn indexer(database: &Path, max_bytes: Option<u64>) -> (Indexer, Pipeline) {
    let mut options = LibsqlOptions::default();
    options.max_bytes = max_bytes;
    let store = LibsqlStore::open_with(database, EmbeddingModel::default(), options).await.unwrap();
    let pipeline = Pipeline::new(Arc::new(store), Arc::new(StaticModel::built_in())).unwrap();
    let records = Records::new(Arc::new(LibsqlRecords::open(database).await.unwrap()));
    let me = Caller::new("default", "me").unwrap();
    (Indexer::new(pipeline.clone(), Arc::new(records), me, FileOptions::default()), pipeline)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_database_ends_the_run_and_the_next_one_ends_the_work() {
    const FILES: usize = 200;
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("in");
    let database = folder.path().join("k.db");
    std::fs::create_dir(&files).unwrap();
    for number in 0..FILES {
        let text =
            (0..20).map(|line| format!("Sentence {line} of file {number}. ")).collect::<String>();
        std::fs::write(files.join(format!("{number}.txt")), text).unwrap();
    }
    let (mut indexer_of_little, _) = indexer(&database, Some(400 << 10)).await;
    let error = indexer_of_little.run(&[files.clone().into()], |_| ()).await.unwrap_err();
    let is_full = error.is_of_database() && error.to_string().contains("is full");
    assert!(is_full, "{error}");
    assert_eq!(error.to_string(), "the database or the disk is full; nothing was changed");
    drop(indexer_of_little);

    let (mut indexer, pipeline) = indexer(&database, None).await;
    let all = Filter::default();
    let before = pipeline.store().documents(&all, None, 1_000).await.unwrap();
    assert!(before.len() < FILES);
    for document in &before {
        assert_eq!(pipeline.store().chunks(&document.uri).await.unwrap().len(), 4);
    }
    let report = indexer.run(&[files.into()], |_| ()).await.unwrap();
    assert_eq!((report.unchanged as usize, report.failed), (before.len(), 0));
    assert_eq!(pipeline.store().count(&all).await.unwrap(), 4 * FILES as u64);
}
