//! Files that are indexed again.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc, time::Duration};

use marquetry_rag::{
    Caller, ChunkOptions, EmbedError, Embedder, EmbeddingModel, FileEvent, FileOptions,
    IndexReport, MemoryRecords, NewRecord, Pipeline, Record, RecordLimits, Records, StaticModel,
    Strategy, record_document,
};

use crate::world::{World, refused};

#[track_caller]
fn check(report: &IndexReport, indexed: u64, changed: u64, unchanged: u64) {
    let found = (report.indexed, report.changed, report.unchanged, report.failed);
    assert_eq!(found, (indexed, changed, unchanged, 0), "{:?}", refused(report));
}

#[tokio::test]
async fn only_changed_files_are_read_into_the_store() {
    let world = World::new(&[("a.md", "One."), ("b.md", "Two."), ("c.md", "Three.")]);
    check(&world.index(FileOptions::default()).await, 3, 0, 0);
    check(&world.index(FileOptions::default()).await, 0, 0, 3);
    // Another content of the same length with the same time.
    let time = fs::metadata(world.path("b.md")).unwrap().modified().unwrap();
    world.write("b.md", "Owt.");
    fs::File::options().write(true).open(world.path("b.md")).unwrap().set_modified(time).unwrap();
    // Another time, and the same content.
    world.write("c.md", "Three.");
    check(&world.index(FileOptions::default()).await, 0, 1, 2);
    assert_eq!(world.kept().await["b.md"], "Owt.");
    assert!(world.search("Two").await.iter().all(|hit| !hit.chunk.content.contains("Two")));
}

#[tokio::test]
async fn another_way_of_cutting_and_further_tags_are_changes() {
    let world = World::new(&[("a.md", "One two. Three four.")]);
    check(&world.index(FileOptions::default()).await, 1, 0, 0);
    let mut words = FileOptions::default();
    words.chunks = ChunkOptions::new(Strategy::Word, 1).unwrap();
    let report = world.index(words.clone()).await;
    check(&report, 0, 1, 0);
    assert_eq!(report.chunks, 4);
    for (tag, changed) in [("x", 1), ("y", 1), ("x", 0)] {
        words.tags = vec![tag.to_owned()];
        check(&world.index(words.clone()).await, 0, changed, 1 - changed);
    }
    // A run without tags removes none.
    words.tags.clear();
    check(&world.index(words).await, 0, 0, 1);
    let record = world.records.get(&world.me, &world.uri("a.md")).await.unwrap();
    assert_eq!(record.tags.len(), 2);
    let document = world.pipeline.store().document(&world.uri("a.md")).await.unwrap().unwrap();
    assert_eq!(document.tags, record.tags);
}

#[tokio::test]
async fn missing_files_are_reported_and_pruned_on_request() {
    let world = World::new(&[("in/a.md", "One."), ("in/b.md", "Two."), ("out/c.md", "Three.")]);
    check(&world.index(FileOptions::default()).await, 3, 0, 0);
    let uri = world.uri("in/b.md");
    fs::remove_file(world.path("in/b.md")).unwrap();
    fs::remove_file(world.path("out/c.md")).unwrap();
    let below = [world.path("in").into()];
    let report = world.index_these(&below, FileOptions::default()).await;
    assert_eq!((report.left, report.removed), (1, 0));
    assert_eq!(report.gone, [world.path("in/b.md")]);
    assert_eq!(world.names().await.len(), 3);

    let mut prune = FileOptions::default();
    prune.prune = true;
    prune.dry_run = true;
    let report = world.index_these(&below, prune.clone()).await;
    assert_eq!((report.left, report.removed), (0, 1));
    assert_eq!(world.names().await.len(), 3);

    prune.dry_run = false;
    let report = world.index_these(&below, prune.clone()).await;
    assert_eq!((report.left, report.removed), (0, 1));
    // Files outside of the named paths are not checked.
    assert_eq!(world.names().await, ["in/a.md", "out/c.md"]);
    assert!(world.records.get(&world.me, &uri).await.is_err());

    // By the name of a folder around it.
    fs::remove_dir_all(world.path("out")).unwrap();
    assert_eq!(world.index(prune).await.removed, 1);
    assert_eq!(world.names().await, ["in/a.md"]);
}

/// Files on a disk that is not mounted are not removed.
#[tokio::test]
async fn pruning_skips_named_paths_that_do_not_exist() {
    let world = World::new(&[("in/a.md", "One."), ("in/b.md", "Two."), ("out/c.md", "Three.")]);
    check(&world.index(FileOptions::default()).await, 3, 0, 0);
    fs::rename(world.path("out"), world.path("elsewhere")).unwrap();
    fs::remove_file(world.path("in/b.md")).unwrap();
    let named = [world.path("out").into(), world.path("in").into(), world.path("never").into()];
    let mut prune = FileOptions::default();
    prune.prune = true;
    let report = world.index_these(&named, prune).await;
    let missing = "missing: there is no such file or directory";
    assert_eq!(refused(&report), [format!("never {missing}"), format!("out {missing}")]);
    assert_eq!((report.failed, report.unchanged, report.removed), (2, 1, 1));
    assert_eq!(report.gone, [world.path("in/b.md")]);
    assert_eq!(world.names().await, ["in/a.md", "out/c.md"]);
}

/// A model that never finishes texts with the word "slow".
struct Slow(&'static StaticModel);

#[async_trait::async_trait]
impl Embedder for Slow {
    fn model(&self) -> &EmbeddingModel {
        Embedder::model(&self.0)
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        if texts.iter().any(|text| text.contains("slow")) {
            std::future::pending::<()>().await;
        }
        Embedder::embed(&self.0, texts).await
    }

    fn count_tokens(&self, text: &str) -> usize {
        Embedder::count_tokens(&self.0, text)
    }
}

/// Ten files that are done with at once, and one that never is.
fn slow() -> World {
    let mut world = World::new(&[("slow.md", "This is slow.")]);
    for number in 0..10 {
        world.write(&format!("{number}.md"), format!("This is number {number}."));
    }
    let store = Arc::clone(world.pipeline.store());
    world.pipeline = Pipeline::new(store, Arc::new(Slow(StaticModel::built_in()))).unwrap();
    world
}

#[tokio::test]
async fn finished_files_are_stored_when_a_run_is_stopped() {
    let world = slow();
    let mut options = FileOptions::default();
    options.workers = 2.try_into().unwrap();
    let mut done = 0;
    let stop = tokio::sync::Notify::new();
    let mut indexer = world.indexer(options);
    let named = [world.path("").into()];
    let watch = |event: &FileEvent<'_>| {
        done += u64::from(matches!(event, FileEvent::Done { .. }));
        if done == 10 {
            stop.notify_one();
        }
    };
    let report = indexer.run_until(&named, watch, stop.notified()).await.unwrap();
    assert!(report.stopped);
    check(&report, 10, 0, 0);
    assert_eq!(world.kept().await.len(), 10);
}

#[tokio::test]
async fn finished_files_are_stored_within_two_seconds() {
    let world = slow();
    let mut options = FileOptions::default();
    options.workers = 2.try_into().unwrap();
    let mut indexer = world.indexer(options);
    let named = [world.path("").into()];
    let all_kept = async {
        while world.kept().await.len() < 10 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        report = indexer.run(&named, |_| ()) => panic!("it is slow: {report:?}"),
        () = all_kept => {}
        () = tokio::time::sleep(Duration::from_secs(30)) => panic!("nothing is kept"),
    }
}

#[tokio::test]
async fn an_unreadable_file_keeps_its_indexed_text() {
    let world = World::new(&[("a.md", "One."), ("b.md", "Two.")]);
    check(&world.index(FileOptions::default()).await, 2, 0, 0);
    world.write("a.md", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0");
    let mut prune = FileOptions::default();
    prune.prune = true;
    let report = world.index(prune).await;
    assert_eq!((report.unchanged, report.removed), (1, 0));
    let want = "a.md unsupported: the format image/png is not supported; its earlier index entries are kept";
    assert_eq!((refused(&report), report.failed), (vec![want.to_owned()], 1));
    assert_eq!(world.kept().await["a.md"], "One.");
}

#[tokio::test]
async fn a_file_that_lost_its_text_is_no_longer_found() {
    let world = World::new(&[("a.md", "One."), ("empty.md", "")]);
    let report = world.index(FileOptions::default()).await;
    assert_eq!(refused(&report), ["empty.md no_text: there is no text in it"]);
    world.write("a.md", "\n");
    check(&world.index(FileOptions::default()).await, 0, 1, 0);
    assert!(world.search("One").await.is_empty());
    world.write("a.md", "Two.");
    check(&world.index(FileOptions::default()).await, 0, 1, 0);
    assert_eq!(world.search("Two").await.len(), 1);
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let world = World::new(&[("a.md", "One."), ("b.md", "Two.")]);
    let mut dry = FileOptions::default();
    dry.dry_run = true;
    dry.tags = vec!["new".to_owned()];
    let report = world.index(dry).await;
    check(&report, 2, 0, 0);
    assert_eq!(report.chunks, 2);
    assert!(world.names().await.is_empty());
    assert!(world.records.tag(&world.me, "new").await.is_err());
}

#[tokio::test]
async fn watching_sees_changes_whatever_the_times_of_files() {
    let files = [("a.md", "One."), ("b.md", "Two."), ("bad.pdf", "%PDF-1.7 and no more")];
    let world = World::new(&files);
    world.write("data.bin", b"\x00\x01\x02\xff".repeat(100));
    let mut options = FileOptions::default();
    options.watch = true;
    let mut indexer = world.indexer(options);
    let named = [world.path("").into()];
    let report = indexer.run(&named, |_| ()).await.unwrap();
    assert_eq!((report.indexed, report.failed), (2, 1));
    let time = fs::metadata(world.path("a.md")).unwrap().modified().unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    world.write("a.md", "Eno.");
    fs::File::options().write(true).open(world.path("a.md")).unwrap().set_modified(time).unwrap();
    world.write("new.md", "Three.");
    fs::rename(world.path("b.md"), world.path("c.md")).unwrap();
    let report = indexer.run(&named, |_| ()).await.unwrap();
    let count = |report: &IndexReport| (report.indexed, report.changed, report.unchanged);
    // A file that was not indexed is not tried again until it changes, but stays in the report.
    let reasons = refused(&report);
    assert_eq!((count(&report), report.failed, reasons.len()), ((2, 1, 0), 1, 2), "{reasons:?}");
    assert_eq!(report.skipped.values().sum::<u64>(), 1, "{reasons:?}");
    assert_eq!(report.gone, [world.path("b.md")]);
    let report = indexer.run(&named, |_| ()).await.unwrap();
    assert_eq!((count(&report), report.failed), ((0, 0, 3), 1));
    assert_eq!(refused(&report), reasons);
    world.write("bad.pdf", "A text by now.");
    fs::rename(world.path("bad.pdf"), world.path("bad.txt")).unwrap();
    let report = indexer.run(&named, |_| ()).await.unwrap();
    assert_eq!((count(&report), report.failed), ((1, 0, 3), 0));
}

#[tokio::test]
async fn many_files_are_all_kept() {
    let world = World::new(&[]);
    for number in 0..300 {
        world.write(&format!("{}/{number}.txt", number % 7), format!("This is number {number}."));
    }
    let mut found = 0;
    let mut done = 0;
    let mut indexer = world.indexer(FileOptions::default());
    let named = [world.path("").into()];
    let report = indexer.run(&named, |event| match event {
        marquetry_rag::FileEvent::Found => found += 1,
        marquetry_rag::FileEvent::Done { path, .. } => {
            assert!(Path::new(path).is_absolute());
            done += 1;
        }
        _ => {}
    });
    check(&report.await.unwrap(), 300, 0, 0);
    assert_eq!((found, done), (300, 300));
    assert_eq!(world.kept().await.len(), 300);
    check(&world.index(FileOptions::default()).await, 0, 0, 300);
}

/// A user with the most groups can still index: files of deeper folders go to the nearest folder
/// with a group.
#[tokio::test]
async fn many_folders_are_no_reason_to_leave_files_out() {
    let mut world = World::new(&[]);
    let mut limits = RecordLimits::default();
    limits.max_groups_per_owner = 8;
    world.records = Arc::new(Records::with_limits(Arc::new(MemoryRecords::default()), limits));
    for number in 0..20 {
        world.write(&format!("{number}/deep/{number}.txt"), format!("This is number {number}."));
    }
    check(&world.index(FileOptions::default()).await, 20, 0, 0);
    assert_eq!(world.kept().await.len(), 20);
}

/// Groups of folders that are gone would count for ever.
#[tokio::test]
async fn groups_of_removed_folders_are_removed_unless_in_use() {
    let world = World::new(&[]);
    for name in ["a/b/c/1.txt", "a/b/2.txt", "shared/3.txt", "used/4.txt", "stays/5.txt"] {
        world.write(name, format!("This is {name}."));
    }
    let mut options = FileOptions::default();
    options.prune = true;
    world.index(options.clone()).await;
    let mut filter = marquetry_rag::RecordFilter::default();
    filter.types = vec!["auth.group".to_owned()];
    let groups = async || {
        let page = world.records.list(&world.me, &filter).await.unwrap();
        page.records
            .into_iter()
            .map(|group| (group.name.clone(), group))
            .collect::<BTreeMap<_, _>>()
    };
    let before = groups().await;
    let mut share = marquetry_rag::RecordPatch::new();
    share.readers = Some([marquetry_rag::everyone("default")].into());
    let shared = before["shared"].uri().unwrap();
    world.records.update(&world.me, &shared, share).await.unwrap();
    let used = &before["used"];
    let path = format!("{}/used", used.group.as_ref().unwrap());
    let note = marquetry_rag::NewRecord::new("data.note", "N").group(path);
    world.records.create(&world.me, note).await.unwrap();

    for folder in ["a", "shared", "used"] {
        fs::remove_dir_all(world.path(folder)).unwrap();
    }
    assert_eq!(world.index(options).await.removed, 4);
    let after = groups().await;
    let gone: Vec<_> = before.keys().filter(|name| !after.contains_key(*name)).collect();
    assert_eq!(gone, ["a", "b", "c"]);
}

#[tokio::test]
async fn files_are_counted_before_the_first_is_read_where_that_is_asked_for() {
    let world = World::new(&[("a.md", "One."), ("in/b.md", "Two."), (".hidden.md", "Three.")]);
    std::os::unix::fs::symlink(world.path("a.md"), world.path("link.md")).unwrap();
    let mut options = FileOptions::default();
    options.count = true;
    // A path that is named twice counts once.
    let named = [world.path("").into(), world.path("in").into()];
    let mut counted = None;
    let mut found = 0;
    let mut done = 0;
    let watch = |event: &FileEvent<'_>| match event {
        FileEvent::Counted(files) => {
            assert_eq!((counted, found, done), (None, 0, 0), "before anything else");
            counted = Some(*files);
        }
        FileEvent::Found => found += 1,
        FileEvent::Done { .. } => done += 1,
        _ => {}
    };
    let report = world.indexer(options).run(&named, watch).await.unwrap();
    assert_eq!((counted, found, done), (Some(3), 3, 3));
    assert_eq!(report.files(), 3);
}

#[tokio::test]
async fn a_file_is_never_written_into_a_record_of_another_owner() {
    let world = World::new(&[("a.md", "A secret.")]);
    let uri = world.uri("a.md");
    let id = uri.rsplit('/').next().unwrap();
    let other = Caller::new("default", "other").unwrap();
    // The id of a file is reserved for the file: neither its owner nor an administrator can use it
    // for another record.
    let new = NewRecord::new("data.data", "a.md").object_id(id).writer(&world.me.user);
    for caller in [&other, &world.me, &other.clone().admin()] {
        let refused = world.records.create(caller, new.clone()).await.unwrap_err();
        assert!(refused.to_string().contains("reserved for indexed files"), "{refused}");
    }
    // A record that was there before ids were reserved.
    let mut record = Record::new("data.data", "a.md").with_object_id(id);
    record = record.with_organization("default");
    record.owner = Some(other.user.clone());
    record.readers = [world.me.user.clone()].into();
    record.writers = [world.me.user.clone()].into();
    world.records.store().put(marquetry_rag::Put::new(record)).await.unwrap();
    let report = world.index(FileOptions::default()).await;
    assert_eq!((report.indexed, report.failed), (0, 1));
    let problem = report.failures[0].problem.to_string();
    assert!(problem.contains("you may not index a file into am7://"), "{problem}");
    let content = world.records.content(&other, &uri).await.unwrap_or_default();
    assert!(content.is_none_or(|content| content.is_empty()), "the other reads nothing of it");
    assert_eq!(world.search("secret").await.len(), 0);
    // Nor if the record of another user is indexed already.
    let document = record_document(&world.records.get(&other, &uri).await.unwrap());
    world.pipeline.store().replace(document, Vec::new()).await.unwrap();
    assert_eq!(world.index(FileOptions::default()).await.failed, 1);
}
