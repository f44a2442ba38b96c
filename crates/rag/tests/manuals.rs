//! Sixty manuals that differ only in their subjects: a question for a title, a heading, a file or a
//! folder finds the right one.

use std::{collections::BTreeMap, sync::Arc};

use marquetry_rag::{
    ChunkOptions, Document, EmbeddingModel, Hint, MemoryStore, Pipeline, SearchRequest,
    StaticModel, extract,
};

/// The subject of a manual, its folder, its file, and a heading that no other manual has.
struct Manual {
    title: String,
    folder: &'static str,
    file: String,
    heading: String,
    text: String,
}

const DEVICES: [&str; 12] = [
    "heat pump",
    "water softener",
    "bread slicer",
    "dough mixer",
    "air dryer",
    "belt conveyor",
    "label printer",
    "vacuum sealer",
    "grain cooler",
    "steam boiler",
    "bottle washer",
    "floor scale",
];
const MAKERS: [&str; 5] = ["Aldermoor", "Brackwell", "Corvane", "Dunmere", "Estrella"];
const FOLDERS: [&str; 60] = [
    "acorn", "badger", "cedar", "dolphin", "ember", "falcon", "glacier", "harbor", "iris",
    "jasper", "kestrel", "lagoon", "meadow", "nectar", "orchid", "pebble", "quarry", "raven",
    "saffron", "thistle", "umber", "velvet", "willow", "xenon", "yarrow", "zephyr", "amber",
    "birch", "coral", "dune", "elm", "fern", "granite", "heron", "indigo", "juniper", "krill",
    "lilac", "maple", "nimbus", "opal", "poppy", "quartz", "reed", "sable", "topaz", "urchin",
    "violet", "walnut", "yucca", "zinnia", "aspen", "basalt", "clover", "daisy", "fjord", "ginger",
    "hazel", "ivory", "lotus",
];
const PARTS: [&str; 12] = [
    "compressor",
    "resin tank",
    "blade guard",
    "mixing bowl",
    "filter cartridge",
    "drive roller",
    "print head",
    "sealing bar",
    "cooling coil",
    "pressure valve",
    "spray nozzle",
    "load cell",
];
const TASKS: [&str; 5] = ["Replacing", "Cleaning", "Adjusting", "Testing", "Removing"];

fn manuals() -> Vec<Manual> {
    let mut manuals = Vec::new();
    for (number, folder) in FOLDERS.into_iter().enumerate() {
        let device = DEVICES[number % 12];
        let maker = MAKERS[number / 12];
        let title = format!("{maker} {device} handbook");
        // Neighbours have the same words in other orders.
        let heading = format!("{} the {}", TASKS[(number / 12 + number) % 5], PARTS[number % 12]);
        let camel: String =
            device.split(' ').map(|word| word[..1].to_uppercase() + &word[1..]).collect();
        let is_page = number % 3 == 0;
        let file = match number % 3 {
            0 => format!("{}-{}.html", maker.to_lowercase(), device.replace(' ', "-")),
            1 => format!("{maker}{camel}.md"),
            _ => format!(
                "{}_{}_v{}.md",
                device.replace(' ', "_"),
                maker.to_lowercase(),
                number / 12 + 1
            ),
        };
        let common = "Switch the machine off and pull the plug. Wait until all parts stand still. Wear gloves. \
            Read the plate on the back of the housing and note the number.";
        let sections = [
            ("Safety", common),
            (
                "Installation",
                "Put it on level ground. Leave a hand's width of room on each side. Connect it to the mains.",
            ),
            (
                &*heading,
                "Loosen the four screws. Take out the old one. Put in the new one and tighten the screws by hand.",
            ),
            (
                "Cleaning and care",
                "Wipe the housing with a damp cloth. Use no solvents. Let it dry before you use it again.",
            ),
            (
                "Troubleshooting",
                "If it does not start, look at the fuse. If it makes noise, call the service.",
            ),
            (
                "Warranty",
                "The warranty is two years. Keep the bill. Parts that wear are not covered.",
            ),
        ];
        let mut text = if is_page {
            format!("<html><head><title>{title}</title></head><body>")
        } else {
            format!("# {title}\n\n")
        };
        for (heading, said) in sections {
            text += &if is_page {
                format!("<h2>{heading}</h2><p>{said}</p>")
            } else {
                format!("## {heading}\n\n{said}\n\n")
            };
        }
        manuals.push(Manual { title, folder, file, heading, text });
    }
    manuals
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_for_a_title_heading_file_or_folder_finds_the_manual() {
    let manuals = manuals();
    let store = Arc::new(MemoryStore::new(EmbeddingModel::default()));
    let pipeline = Pipeline::new(store, Arc::new(StaticModel::built_in())).unwrap();
    for (number, manual) in manuals.iter().enumerate() {
        let extracted = extract(manual.text.as_bytes(), &Hint::file(&manual.file)).unwrap();
        let mut document = Document::new(format!("{number}"));
        document.title = extracted.title.clone();
        let source = format!("file:///home/someone/manuals/{}/{}", manual.folder, manual.file);
        document.metadata.insert("source".to_owned(), source.into());
        pipeline.index(document, &extracted, &ChunkOptions::default()).await.unwrap();
    }
    let mut found = BTreeMap::<&str, usize>::new();
    let mut missed = Vec::new();
    for (number, manual) in manuals.iter().enumerate() {
        let stem = manual.file.rsplit_once('.').unwrap().0;
        let maker = MAKERS[number / 12];
        let questions = [
            ("title", format!("Where is the {}?", manual.title)),
            (
                "heading",
                format!("{} of {maker}: {}", DEVICES[number % 12], manual.heading.to_lowercase()),
            ),
            ("file", format!("open the file {stem}")),
            ("folder", format!("what is in the folder {}", manual.folder)),
        ];
        for (kind, question) in questions {
            let hits = pipeline.search(SearchRequest::new(&*question, None)).await.unwrap();
            let first = hits.first().map(|hit| hit.chunk.document.as_str());
            if first == Some(&*number.to_string()) {
                *found.entry(kind).or_default() += 1;
            } else {
                missed.push((
                    question,
                    first.map(|first| manuals[first.parse::<usize>().unwrap()].file.clone()),
                ));
            }
        }
    }
    let all: usize = found.values().sum();
    println!("{found:?}: {all} of 240; missed {missed:#?}");
    assert!(all >= 216, "{found:?}: {all} of 240; missed {missed:#?}");
}

/// The text of a hit is exactly the passage at its position in the document.
#[tokio::test(flavor = "multi_thread")]
async fn a_passage_found_by_its_title_is_cited_exactly() {
    let page = "<title>Tending the kiln</title><h1>Firing</h1><p>Heat it slowly.<h2>Cooling</h2><p>Wait a day.";
    let extracted = extract(page.as_bytes(), &Hint::file("k.html")).unwrap();
    let store = Arc::new(MemoryStore::new(EmbeddingModel::default()));
    let pipeline = Pipeline::new(store, Arc::new(StaticModel::built_in())).unwrap();
    let mut document = Document::new("k");
    document.title = extracted.title.clone();
    pipeline.index(document.clone(), &extracted, &ChunkOptions::default()).await.unwrap();
    let hits = pipeline.search(SearchRequest::new("kiln cooling", None)).await.unwrap();
    assert_eq!(hits[0].chunk.content, "Cooling\n\nWait a day.");
    assert_eq!(hits[0].chunk.headings, ["Firing", "Cooling"]);
    assert_eq!(&extracted.content[hits[0].chunk.span.clone()], hits[0].chunk.content);
    // No passage ends with the heading of the next.
    assert_eq!(hits[1].chunk.content, "Firing\n\nHeat it slowly.");
    let before = pipeline.store().embedded("k").await.unwrap();
    document.title = Some("Baking bread".to_owned());
    pipeline.relabel(document).await.unwrap();
    let after = pipeline.store().embedded("k").await.unwrap();
    assert_ne!(before[0].vector, after[0].vector, "the title is part of what is embedded");
    assert_eq!(before[0].content, after[0].content);
}
