//! Documents that many programs have written from one text (`tests/corpus`).

use std::path::Path;

use super::file;

const FIRST: &str = "The kestrel nests on cliffs, and Küstenseeschwalben breed on sand.";
const SECOND: &str = "Чайка и 東京湾 are names that need Unicode.";
const COMMENT: &str = "Check the ringing dates.";
const HEADER: &str = "Coastal survey 2026";
const NOTE: &str = "Counted at low tide.";
const TITLE: &str = "Birds of the coast";

/// Checks that a document has these texts in this order, and these headings.
#[track_caller]
fn check(name: &str, texts: &[&str], headings: &[(u8, &str)]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name);
    let read = file(name, std::fs::read(path).unwrap());
    let mut rest = read.content.as_str();
    for text in texts {
        let found = rest.split_once(text);
        let Some((_, after)) = found else { panic!("{name}: {text:?} is not in {rest:?}") };
        rest = after;
    }
    let found: Vec<_> = read.headings.iter().map(|it| (it.level, it.title.as_str())).collect();
    assert_eq!(found, headings, "{name}");
    for heading in &read.headings {
        // In Markdown, the marks of a heading are part of it.
        assert!(read.content[heading.span.clone()].ends_with(&heading.title), "{name}");
    }
    // A reading that stands within the word would hide it.
    assert!(!read.content.contains("とうきょう"), "{name}");
}

#[cfg(feature = "docx")]
#[test]
fn texts_of_word_processors_are_read() {
    let headings = [(1, TITLE), (2, "Methods")];
    let items = ["1. Count the nests", "2. Ring the chicks"];
    let table = ["| Species | Pairs", "| Dunlin | 41", "| Redshank | 17"];
    let whole = |extra: &[&'static str]| {
        let head = [HEADER, TITLE, FIRST, "Methods", SECOND];
        [&head[..], &items, &table, extra, &["Printed for members"]].concat()
    };
    check("python-docx.docx", &whole(&["Comment (Ada): ", COMMENT]), &headings);
    check("libreoffice.docx", &whole(&["Comment (Ada): ", COMMENT]), &headings);
    check("libreoffice.odt", &whole(&[]), &headings);
    check("libreoffice.odt", &[FIRST, "Comment: ", COMMENT, "Methods"], &headings);
    // AbiWord numbers the items when it shows them.
    let plain = ["Count the nests", "Ring the chicks"];
    let head = [HEADER, TITLE, FIRST, "Methods", SECOND];
    check("abiword.odt", &[&head[..], &plain, &table].concat(), &headings);

    let with_title = [(1, TITLE), (1, TITLE), (2, "Methods")];
    let head = [TITLE, FIRST, "Methods", SECOND];
    let noted = [&head[..], &items, &table, &[NOTE]].concat();
    check("pandoc.docx", &noted, &with_title);
    check("pandoc.odt", &[TITLE, FIRST, NOTE, "Methods", SECOND, items[1], table[2]], &headings);
    check("odfpy.odt", &[TITLE, FIRST, SECOND, table[0], table[2]], &[(1, TITLE)]);
}

#[test]
fn rich_texts_are_read() {
    let headings = [(1, TITLE), (2, "Methods")];
    let rows = ["Species | Pairs |", "Dunlin | 41 |", "Redshank | 17 |"];
    let head = [HEADER, TITLE, FIRST, "Methods", SECOND];
    let items = ["1.", "Count the nests", "2.", "Ring the chicks"];
    let end = ["Comment (Ada): ", COMMENT, "Printed for members"];
    check("libreoffice.rtf", &[&head[..], &items, &rows, &end].concat(), &headings);
    let items = ["Count the nests", "Ring the chicks"];
    check("abiword.rtf", &[&head[..], &items, &rows].concat(), &headings);
    let head = [TITLE, FIRST, "Methods", SECOND];
    let rows = ["Species | Pairs", "Dunlin | 41", "Redshank | 17", NOTE];
    check("pandoc.rtf", &[&head[..], &items, &rows].concat(), &headings);
}

#[cfg(feature = "docx")]
#[test]
fn presentations_and_books_are_read() {
    let chart = ["Pairs: Dunlin 41; Redshank 17", NOTE];
    check("python-pptx.pptx", &[&[TITLE, FIRST][..], &chart].concat(), &[(1, TITLE)]);
    check("libreoffice.pptx", &[&[TITLE, FIRST][..], &chart].concat(), &[(1, TITLE)]);
    check("libreoffice.odp", &[TITLE, FIRST, "Dunlin 41", "Redshank 17", NOTE], &[(1, TITLE)]);
    let slides = [TITLE, FIRST, "Methods", SECOND, "1. Count", "2. Ring", "| Dunlin | 41", NOTE];
    check("pandoc.pptx", &slides, &[(1, TITLE), (1, TITLE), (1, "Notes")]);
    check("ebooklib.epub", &[TITLE, FIRST, SECOND], &[(1, TITLE)]);
    let book = [(1, TITLE), (1, TITLE), (2, "Methods")];
    check(
        "pandoc.epub",
        &[TITLE, FIRST, "Methods", SECOND, "- Ring", "| Dunlin | 41", NOTE],
        &book,
    );
}

#[cfg(feature = "spreadsheet")]
#[test]
fn spreadsheets_are_read() {
    let rows = [TITLE, "Species: Dunlin; Pairs: 41", "Species: Redshank; Pairs: 17"];
    let sheet = |rest: &[&'static str]| [&rows[..], rest].concat();
    let comment = ["Comment (A2): ", COMMENT];
    check("openpyxl.xlsx", &sheet(&[HEADER, comment[0], comment[1]]), &[(1, TITLE)]);
    check("xlsxwriter.xlsx", &sheet(&[HEADER, NOTE, comment[0], comment[1]]), &[(1, TITLE)]);
    check("libreoffice.xlsx", &sheet(&[HEADER, "Pairs: 41; 17", comment[1]]), &[(1, TITLE)]);
    check("libreoffice.ods", &sheet(&["Comment: ", COMMENT]), &[(1, TITLE)]);
    check("libreoffice.ods", &sheet(&[HEADER, "Pairs"]), &[(1, TITLE)]);
    check("gnumeric.xlsx", &sheet(&comment), &[(1, TITLE)]);
    check("gnumeric.ods", &sheet(&["Comment: ", COMMENT]), &[(1, TITLE)]);
}

#[test]
fn mail_and_notebooks_are_read() {
    let subject = "Birds of the coast: Küste";
    let message = [subject, "From: Ada Müller", "To: Ben", FIRST, SECOND, "Attachment: Karte.pdf"];
    check("python.eml", &message, &[(1, subject)]);
    let reply = ["Re: Küste", "From: Ben", "From here on we walk.", NOTE];
    let subjects = [(1, subject), (1, "Re: Küste")];
    check("python.mbox", &[&message[..], &reply].concat(), &subjects);
    let cells = [TITLE, FIRST, "nests.plot()", "len(nests)", "41 nests", SECOND];
    check("nbformat.ipynb", &cells, &[(1, TITLE)]);
    let cells = [TITLE, FIRST, "Methods", SECOND, "| Dunlin", NOTE];
    check("pandoc.ipynb", &cells, &[(1, TITLE), (2, "Methods")]);
}
