//! The public API: files in, passages and citations out, with each kind of database.

use std::path::Path;

use marquetry_rag::{Caller, Filter, Library, LibraryError, SearchRequest};

/// Indexes a folder in which the database may lie, searches and cites.
async fn check(database: &str, folder: &Path) -> Library {
    let text = "# Bread\n\nBread is made of flour and water.";
    std::fs::write(folder.join("bread.md"), text).unwrap();
    std::fs::write(folder.join("wine.md"), "# Wine\n\nWine is made of grapes.").unwrap();

    let library = Library::open(database).await.unwrap();
    let report = library.index([folder]).await.unwrap();
    assert_eq!((report.indexed, report.failed), (2, 0), "{report:?}");
    let again = library.index([folder]).await.unwrap();
    assert_eq!((again.indexed, again.unchanged), (0, 2), "{again:?}");

    let hits = library.search("What is in bread?").await.unwrap();
    assert_eq!(hits[0].title.as_deref(), Some("Bread"));
    let wine = Filter::default().metadata("organization", "default").kind("data.data");
    let request = SearchRequest::from("What is in wine?").limit(1).filter(wine);
    assert_eq!(library.search(request).await.unwrap().len(), 1);

    let cited = library.cite("What is in bread?", [hits[0].chunk.document.as_str()]).await.unwrap();
    assert!(cited.text().contains("flour and water"), "{}", cited.text());
    assert!(cited.problems.is_empty(), "{:?}", cited.problems);
    library.checkpoint().await.unwrap();

    let bob = Library::builder().caller(Caller::new("default", "bob").unwrap());
    let bob = bob.open(database).await.unwrap();
    assert_eq!(bob.search("bread").await.unwrap(), [], "another user sees none of the files");
    library
}

#[cfg(feature = "libsql")]
#[tokio::test(flavor = "multi_thread")]
async fn a_library_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("kb.db");
    let hits = {
        let library = check(database.to_str().unwrap(), folder.path()).await;
        library.search("What is in bread?").await.unwrap().len()
    };
    let read = Library::builder().read_only().open(&database).await.unwrap();
    assert_eq!(read.search("What is in bread?").await.unwrap().len(), hits);
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
async fn a_library_in_a_postgresql() {
    let Some(url) = test_postgres::database().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let library = check(&url, folder.path()).await;
    assert!(!format!("{library:?}").contains("postgres"), "the URL may hold a password");

    let url = url.replacen("postgres://", "postgresql://", 1);
    let same = Library::open(&url).await.unwrap();
    assert_eq!(same.search("What is in wine?").await.unwrap()[0].title.as_deref(), Some("Wine"));
    let refused = Library::builder().read_only().open(&url).await;
    assert!(matches!(refused, Err(LibraryError::ReadOnlyServer)));
}

#[cfg(not(feature = "postgres"))]
#[tokio::test]
async fn a_url_needs_the_feature_postgres() {
    let error = Library::open("postgresql://localhost/kb").await.unwrap_err();
    assert!(matches!(error, LibraryError::MissingFeature { feature: "postgres", .. }), "{error}");
}
