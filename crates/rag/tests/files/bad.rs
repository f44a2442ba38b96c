//! Hostile and damaged files: each is refused, and indexing continues.

use std::{
    fs::{self, File},
    io::Write as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use marquetry_rag::FileOptions;

use crate::{
    documents::{docx, pdf},
    world::{World, refused},
};

#[tokio::test]
async fn each_bad_file_has_its_error_and_the_rest_is_indexed() {
    let world = World::new(&[("a.md", "One."), ("z.md", "Two.")]);
    let whole = pdf::pages(&[&["Some text."], &["More text."]]);
    world.write("truncated.pdf", &whole[..40]);
    world.write("encrypted.pdf", encrypted());
    world.write("pages.pdf", pdf::pages(&vec![&["x"][..]; 101]));
    world.write("good.pdf", &whole);
    world.write("bomb.docx", bomb());
    let document = docx::body(&docx::paragraph("Text."));
    world.write("truncated.docx", &document[..document.len() - 30]);
    world.write("picture.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0");
    world.write("data.bin", (0..=255).cycle().take(4_096).collect::<Vec<u8>>());
    let huge = File::create(world.path("huge.pdf")).unwrap();
    huge.set_len(1 << 30).unwrap();
    let mut options = FileOptions::default();
    options.limits.max_pages = 100;
    options.limits.max_unpacked_bytes = 16 << 20;
    options.chunks.size = std::num::NonZeroUsize::MIN;
    let started = Instant::now();
    let report = world.index(options).await;
    assert!(started.elapsed() < Duration::from_mins(1), "{:?}", started.elapsed());
    let want = [
        "bomb.docx limit: the limit max_unpacked_bytes is 16777216, the document has",
        "data.bin unsupported: the format application/octet-stream is not supported",
        "encrypted.pdf encrypted: the document is encrypted, and needs a password",
        "huge.pdf limit: the limit max_bytes is 268435456, the document has 1073741824 or more",
        "pages.pdf limit: the limit max_pages is 100, the document has 101 or more",
        "picture.png unsupported: the format image/png is not supported",
        "truncated.docx malformed: invalid DOCX: ",
        "truncated.pdf malformed: invalid PDF: no page was found; it may be truncated",
    ];
    let refused = refused(&report);
    assert_eq!(refused.len(), want.len(), "{refused:#?}");
    for (found, want) in refused.iter().zip(want) {
        assert!(found.starts_with(want), "{found} is not {want}");
    }
    assert_eq!((report.indexed, report.failed), (3, 6));
    assert_eq!(world.names().await, ["a.md", "good.pdf", "z.md"]);
    let record = world.records.get(&world.me, &world.uri("good.pdf")).await.unwrap();
    assert_eq!(record.attributes["pageCount"], 2);
    assert_eq!(world.search("More text").await[0].chunk.page, Some(2));
}

#[tokio::test]
async fn a_match_is_cited_by_its_page() {
    let world = World::new(&[]);
    let mut writer = pdf::Writer::new();
    writer.text_page(&["Bread is made of flour."]);
    writer.text_page(&["Wine is made of grapes."]);
    world.write("food.pdf", writer.finish(""));
    world.index(FileOptions::default()).await;
    for (question, page) in [("flour", 1), ("grapes", 2)] {
        let hit = &world.search(question).await[0];
        assert_eq!((hit.chunk.page, hit.page), (Some(1), Some(page)), "{question}");
    }
}

fn encrypted() -> Vec<u8> {
    let mut writer = pdf::Writer::new();
    writer.text_page(&["secret"]);
    let key = "00".repeat(32);
    let encrypt = writer.object(format!(
        "<< /Filter /Standard /V 2 /R 3 /Length 128 /P -1 /O <{key}> /U <{key}> >>"
    ));
    writer.finish(&format!("/Encrypt {encrypt} 0 R /ID [<00> <00>]"))
}

/// Some kilobytes that would be 20 MiB.
fn bomb() -> Vec<u8> {
    use zip::{ZipWriter, write::SimpleFileOptions};
    let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.start_file("word/document.xml", SimpleFileOptions::default()).unwrap();
    let block = vec![b' '; 1 << 20];
    for _ in 0..20 {
        zip.write_all(&block).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

#[tokio::test]
async fn text_is_indexed_in_its_likely_encoding() {
    let world = World::new(&[]);
    world.write("latin.txt", b"Das M\xfcsli schmeckt sehr gut, und der K\xe4se auch.");
    world.write(
        "utf16.txt",
        [0xff, 0xfe]
            .into_iter()
            .chain("Größe".encode_utf16().flat_map(u16::to_le_bytes))
            .collect::<Vec<u8>>(),
    );
    world.write(
        "broken.txt",
        b"Good text, then \xc3\x28 and \xf0\x9f\x92 what is none, then good text again.",
    );
    let report = world.index(FileOptions::default()).await;
    assert_eq!((report.indexed, report.failed), (3, 0), "{:?}", report.failures);
    let kept = world.kept().await;
    assert!(kept["latin.txt"].contains("Müsli"), "{kept:?}");
    assert_eq!(kept["utf16.txt"], "Größe");
}

/// Named as a text does not make it one.
#[tokio::test]
async fn junk_is_refused_under_any_name() {
    let world = World::new(&[]);
    // Fibonacci hashing: bytes of any value in no order.
    let junk: Vec<u8> =
        (1..200_000_u64).map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 29) as u8).collect();
    for name in ["a.txt", "b.md", "c.csv", "d.html"] {
        world.write(name, &junk);
    }
    let report = world.index(FileOptions::default()).await;
    assert_eq!((report.indexed, report.failed), (0, 0), "{:?}", refused(&report));
    assert_eq!(report.skipped["binary"], 4);
}

/// Returns a document whose pages are a picture, after pages with these words.
fn scan(words: &[&str]) -> Vec<u8> {
    let mut writer = pdf::Writer::new();
    for word in words {
        writer.text_page(&[word]);
    }
    let picture = b"q 90 0 0 90 9 9 cm BI /W 1 /H 1 /BPC 8 /CS /G ID \x80 EI Q";
    let picture = writer.stream("", picture);
    writer.page(picture);
    writer.finish("")
}

#[tokio::test]
async fn content_without_text_is_a_failure_and_an_empty_file_is_none() {
    let world = World::new(&[("empty.txt", ""), ("empty.pdf", ""), ("empty.docx", "")]);
    world.write("scan.pdf", scan(&[]));
    world.write("text.pdf", scan(&["One."]));
    let report = world.index(FileOptions::default()).await;
    let want = [
        "empty.docx no_text: there is no text in it",
        "empty.pdf no_text: there is no text in it",
        "empty.txt no_text: there is no text in it",
        "scan.pdf unread: no text was found in it: page 1 has pictures and no text; text in \
         pictures is not recognised",
    ];
    assert_eq!(refused(&report), want);
    assert_eq!((report.indexed, report.failed, report.incomplete), (1, 1, 1));
    // A part of a document: it is indexed, and its record says what is missing.
    let loss = "page 2 has pictures and no text; text in pictures is not recognised";
    assert_eq!(report.incomplete_files[0].path, world.path("text.pdf"));
    assert_eq!(report.incomplete_files[0].losses, [loss]);
    let uri = world.uri("text.pdf");
    let record = world.records.get(&world.me, &uri).await.unwrap();
    assert_eq!(record.attributes["notRead"], serde_json::json!([loss]));
    // A scan replaces a text: the text stays. A whole text has nothing that is not read.
    world.write("text.pdf", scan(&[]));
    let report = world.index(FileOptions::default()).await;
    assert!(refused(&report)[4].ends_with("its earlier index entries are kept"));
    assert_eq!((report.failed, report.incomplete), (2, 0));
    world.write("text.pdf", pdf::pages(&[&["Two."]]));
    world.index(FileOptions::default()).await;
    let record = world.records.get(&world.me, &uri).await.unwrap();
    assert_eq!(record.attributes.get("notRead"), None);
}

#[tokio::test]
async fn a_file_that_changes_while_it_is_read_is_refused() {
    let world = World::new(&[("steady.md", "One.")]);
    // Reading it takes some time, but its format is known to be unsupported at once.
    world.write("moving.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0");
    let path = world.path("moving.png");
    File::options().write(true).open(&path).unwrap().set_len(32 << 20).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            let mut file = File::options().append(true).open(path).unwrap();
            while !stop.load(Ordering::Relaxed) {
                file.write_all(b"word ").unwrap();
                std::thread::sleep(Duration::from_micros(100));
            }
        })
    };
    let mut seen = Vec::new();
    // The writer may rest for once, on a busy machine.
    for _ in 0..20 {
        seen = refused(&world.index(FileOptions::default()).await);
        if seen.iter().any(|line| line.contains("changing")) {
            break;
        }
    }
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    assert_eq!(seen, ["moving.png changing: it changed while it was read; index it again"]);
    assert_eq!(world.names().await, ["steady.md"]);
}

#[tokio::test]
async fn a_file_that_vanishes_is_no_failure() {
    let world = World::new(&[]);
    for number in 0..200 {
        world.write(&format!("{number:03}.txt"), format!("Number {number}."));
    }
    let mut indexer = world.indexer(FileOptions::default());
    let named = [world.path("").into()];
    let mut removed = false;
    let report = indexer.run(&named, |event| {
        // The listing is ahead of the reading by then.
        if matches!(event, marquetry_rag::FileEvent::Found)
            && !std::mem::replace(&mut removed, true)
        {
            for number in 0..200 {
                fs::remove_file(world.path(&format!("{number:03}.txt"))).unwrap();
            }
        }
    });
    let report = report.await.unwrap();
    assert_eq!(report.failed, 0, "{:?}", report.failures);
    assert!(report.skipped["vanished"] > 0);
}

#[tokio::test]
async fn a_file_that_takes_too_long_is_given_up() {
    let world = World::new(&[("a.md", "One.")]);
    world.write("slow.txt", "word ".repeat(4 << 20));
    let mut options = FileOptions::default();
    options.limits.max_time = Duration::from_millis(50);
    let report = world.index(options).await;
    assert_eq!(refused(&report), ["slow.txt time: reading takes longer than 0.05 seconds"]);
    assert_eq!(world.names().await, ["a.md"]);
}

#[tokio::test]
async fn files_larger_than_all_room_are_worked_on_one_by_one() {
    let world = World::new(&[]);
    for number in 0..8 {
        world.write(&format!("{number}.txt"), "word ".repeat(2_000));
    }
    let mut options = FileOptions::default();
    options.max_bytes_at_once = 1;
    let report = world.index(options).await;
    assert_eq!((report.indexed, report.failed), (8, 0));
}
