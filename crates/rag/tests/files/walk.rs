//! Which files of a folder are indexed.

use std::{fs, os::unix::fs::symlink, path::PathBuf};

use marquetry_rag::{FileOptions, file_uri};

use crate::world::{World, refused};

#[tokio::test]
async fn folders_are_walked_without_what_is_hidden_or_ignored() {
    let world = World::new(&[
        ("a.md", "One."),
        ("deep/er/b.txt", "Two."),
        (".secret", "Three."),
        (".git/config", "Four."),
        ("build/c.txt", "Five."),
        ("deep/d.log", "Six."),
        (".gitignore", "build/\n*.log\n"),
    ]);
    world.index(FileOptions::default()).await;
    assert_eq!(world.names().await, ["a.md", "deep/er/b.txt"]);
    let mut all = FileOptions::default();
    (all.hidden, all.ignored) = (true, true);
    world.index(all).await;
    let want = [".gitignore", ".secret", "a.md", "build/c.txt", "deep/d.log", "deep/er/b.txt"];
    assert_eq!(world.names().await, want);
}

#[tokio::test]
async fn a_file_named_twice_is_indexed_once() {
    let world = World::new(&[(".hidden/a b.md", "One."), (".hidden/.c.md", "Two.")]);
    let file = world.path(".hidden/a b.md");
    let named = [
        world.path(".hidden").into(),
        file.clone().into(),
        file_uri(&file).into(),
        world.path(".hidden/../.hidden").into(),
        world.path(".hidden/.c.md").into(),
    ];
    let report = world.index_these(&named, FileOptions::default()).await;
    assert_eq!((report.indexed, report.files()), (2, 2), "{report:?}");
    assert_eq!(world.names().await, [".hidden/.c.md", ".hidden/a b.md"]);
}

#[tokio::test]
async fn a_record_says_where_its_text_is_from() {
    let world = World::new(&[("home/notes/Brot.md", "# Brot\n\nMehl und Wasser.")]);
    let mut options = FileOptions::default();
    options.home = Some(world.path("home"));
    options.tags = vec!["food".to_owned()];
    world.index(options).await;
    let record = world.records.get(&world.me, &world.uri("home/notes/Brot.md")).await.unwrap();
    assert_eq!((record.kind.as_str(), record.name.as_str()), ("data.data", "Brot.md"));
    assert_eq!(record.group.as_deref(), Some("~/Files/notes"));
    assert_eq!(record.owner.as_ref(), Some(&world.me.user));
    assert_eq!(record.media_type.as_deref(), Some("text/markdown"));
    assert_eq!(record.attributes["sourceUri"], file_uri(&world.path("home/notes/Brot.md")));
    assert_eq!(record.attributes["size"], 24);
    assert!(record.attributes.get("pageCount").is_none());
    let tag = world.records.tag(&world.me, "food").await.unwrap().uri().unwrap();
    assert!(record.tags.contains(&tag));

    let hit = &world.search("Mehl").await[0];
    assert_eq!(Some(hit.chunk.document.clone()), record.uri());
    let document = world.pipeline.store().document(&hit.chunk.document).await.unwrap().unwrap();
    assert!(document.readers.contains(&world.me.user) && document.tags.contains(&tag));
    assert_eq!(document.metadata["source"], record.attributes["sourceUri"]);
}

#[tokio::test]
async fn links_are_not_followed() {
    let outside = World::new(&[("secret.txt", "The key is under the mat.")]);
    let world = World::new(&[("in/a.md", "One.")]);
    symlink(outside.path("secret.txt"), world.path("in/file.txt")).unwrap();
    symlink(outside.path(""), world.path("in/folder")).unwrap();
    symlink(world.path("in/a.md"), world.path("in/b.md")).unwrap();
    symlink(world.path("in"), world.path("in/loop")).unwrap();
    symlink("nowhere", world.path("in/broken")).unwrap();
    let report = world.index(FileOptions::default()).await;
    assert_eq!(world.names().await, ["in/a.md"]);
    assert_eq!(report.skipped["link"], 5);
    assert_eq!(report.failed, 0);

    // `in/*` in a shell names the links in the folder, too.
    let named = ["in/file.txt", "in/b.md"].map(|path| world.path(path).into());
    let named = world.index_these(&named, FileOptions::default()).await;
    assert_eq!((named.indexed, named.failed, named.skipped["link"]), (0, 0, 2));
    assert_eq!(world.names().await, ["in/a.md"]);

    // A named link to a folder means the folder.
    symlink(world.path("in"), world.path("named")).unwrap();
    let named = world.index_these(&[world.path("named").into()], FileOptions::default()).await;
    assert_eq!((named.indexed, named.unchanged), (0, 1));
}

#[tokio::test]
async fn paths_outside_of_the_allowed_folders_are_refused() {
    let outside = World::new(&[("secret.txt", "The key is under the mat.")]);
    let world = World::new(&[("in/a.md", "One."), ("inner/b.md", "Two.")]);
    symlink(outside.path(""), world.path("in/folder")).unwrap();
    let mut options = FileOptions::default();
    options.within = vec![world.path("in")];
    let named: [PathBuf; 6] = [
        world.path("in/a.md"),
        world.path("in/../inner/b.md"),
        world.path("inner"),
        world.path(""),
        world.path("in/folder/secret.txt"),
        PathBuf::from(file_uri(&outside.path("secret.txt"))),
    ];
    let report = world.index_these(&named.map(Into::into), options).await;
    assert_eq!(world.names().await, ["in/a.md"]);
    assert_eq!(report.failed, 5);
    assert!(report.failures.iter().all(|refused| refused.problem.code() == "outside"));
    let message = report.failures[0].problem.to_string();
    assert!(message.starts_with("outside of the folders that may be indexed (/"), "{message}");
}

#[tokio::test]
async fn special_files_are_not_read() {
    let world = World::new(&[("a.md", "One.")]);
    let _socket = std::os::unix::net::UnixListener::bind(world.path("socket")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        world.path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let report = world.index(FileOptions::default()).await;
    assert_eq!(
        refused(&report),
        ["pipe special: a named pipe, not a file", "socket special: a socket, not a file"]
    );
    assert_eq!((report.indexed, report.failed), (1, 0));
    let named = ["/dev/zero".into(), world.path("pipe").into()];
    let report = world.index_these(&named, FileOptions::default()).await;
    assert_eq!(
        refused(&report),
        ["pipe special: a named pipe, not a file", "zero special: a device, not a file"]
    );
}

#[tokio::test]
async fn file_names_need_not_be_utf8() {
    use std::os::unix::ffi::OsStringExt as _;
    let world = World::new(&[]);
    let odd = [
        &b"caf\xe9.md"[..],
        b"two\nlines.md",
        b"\x1b[31m.md",
        b"\xff\xfe",
        "\u{202e}dm.a".as_bytes(),
    ];
    for name in odd {
        let name = std::ffi::OsString::from_vec(name.to_vec());
        fs::write(world.path("").join(&name), format!("Is called {name:?}.")).unwrap();
    }
    let report = world.index(FileOptions::default()).await;
    assert_eq!((report.indexed, report.failed), (5, 0), "{:?}", report.failures);
    let again = world.index(FileOptions::default()).await;
    assert_eq!((again.indexed, again.unchanged), (0, 5));
    let hits = world.search("called").await;
    assert_eq!(hits.len(), 5);
    let mut sources = Vec::new();
    for hit in hits {
        let record = world.records.get(&world.me, &hit.chunk.document).await.unwrap();
        sources.push(record.attributes["sourceUri"].as_str().unwrap().to_owned());
    }
    assert!(sources.iter().any(|source| source.ends_with("/caf%E9.md")), "{sources:?}");
}

#[tokio::test]
async fn the_database_itself_is_left_out() {
    let world = World::new(&[("a.md", "One."), ("knowledge.db", "Two.")]);
    let mut options = FileOptions::default();
    options.except = vec![world.path("knowledge.db")];
    let report = world.index(options).await;
    assert_eq!(refused(&report), ["knowledge.db database: a part of the database itself"]);
    assert_eq!(world.names().await, ["a.md"]);
}

#[tokio::test]
async fn long_and_deep_paths_have_a_group() {
    let deep = "d/".repeat(60) + "a.md";
    let long = format!("{0}/{0}/{0}/{0}/{0}/{0}/a.md", "x".repeat(200));
    let world = World::new(&[(&deep, "One."), (&long, "Two.")]);
    let report = world.index(FileOptions::default()).await;
    assert_eq!((report.indexed, report.failed), (2, 0), "{:?}", report.failures);
}
