//! The front door: files in, passages and citations out.

use marquetry_rag::{Caller, Filter, Library, SearchRequest};

#[tokio::test(flavor = "multi_thread")]
async fn files_are_indexed_searched_and_cited() {
    let folder = tempfile::tempdir().unwrap();
    // The database lies in the folder that is indexed.
    let database = folder.path().join("kb.db");
    let text = "# Bread\n\nBread is made of flour and water.";
    std::fs::write(folder.path().join("bread.md"), text).unwrap();
    std::fs::write(folder.path().join("wine.md"), "# Wine\n\nWine is made of grapes.").unwrap();

    let library = Library::open(&database).await.unwrap();
    let report = library.index([folder.path()]).await.unwrap();
    assert_eq!((report.indexed, report.failed), (2, 0), "{report:?}");
    let again = library.index([folder.path()]).await.unwrap();
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

    // Another user sees nothing of it; the same one also sees it when the database is only read.
    let bob = Library::builder().caller(Caller::new("default", "bob").unwrap());
    assert_eq!(bob.open(&database).await.unwrap().search("bread").await.unwrap(), []);
    drop(library);
    let read = Library::builder().read_only().open(&database).await.unwrap();
    assert_eq!(read.search("What is in bread?").await.unwrap().len(), hits.len());
}
