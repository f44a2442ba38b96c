//! Rich text.

use marquetry_extract::{Hint, Problem};
use proptest::{prelude::*, sample::select};

use super::{file, refusal};

#[test]
fn rich_text_is_read_without_its_metadata() {
    let text = r"{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0 Times;}{\f1\fcharset204 Arial;}}{\colortbl;\red0\green0\blue0;}
{\stylesheet{\s1 heading 1;}}{\info{\title Bread {\b and} wine}{\author Ada Baker}{\creatim\yr2026}}{\*\generator Word;}
\pard\outlinelevel0\b Flour\b0\par\pard Rye \'e9 caf\u233?s, \{braces\} \ldblquote quoted\rdblquote\line next.\par
{\field{\*\fldinst HYPERLINK x}{\fldrslt a link}} {\v ignore this}\par
\trowd\intbl When\cell What\cell\row{\pict\bin5 }}{\\more}\page
{\*\bkmkstart x}{\header Top}\uc2\u-10179 ??\u-8704 ??!\par}";
    for name in ["a.rtf", "a", "a.doc"] {
        let read = file(name, text);
        assert_eq!(
            read.content,
            "Top\n\nFlour\n\nRye é cafés, {braces} \u{201C}quoted\u{201D}\nnext.\n\na link \n\nWhen | What | \n\n\u{1F600}!",
            "{name}"
        );
        assert_eq!(read.mime_type, "application/rtf");
        assert_eq!(read.title.as_deref(), Some("Bread and wine"));
        assert_eq!(read.metadata["author"], "Ada Baker");
        let headings: Vec<_> = read.headings.iter().map(|it| (it.level, &*it.title)).collect();
        assert_eq!(headings, [(1, "Flour")]);
        assert_eq!(read.pages.len(), 2);
        assert_eq!(read.problems, [Problem::Hidden { count: 1 }]);
    }
}

#[test]
fn other_encodings_are_decoded() {
    let russian = file("a.rtf", r"{\rtf1\ansi\ansicpg1251 \'cf\'f0\'e8\'e2\'e5\'f2}");
    assert_eq!(russian.content, "Привет");
    let japanese = file("a.rtf", r"{\rtf1\ansi\ansicpg932 \'93\'fa\'96\'7b}");
    assert_eq!(japanese.content, "日本");
}

#[test]
fn damaged_and_deep_rich_text_ends_well() {
    let error = refusal("{\\html1 no}", &Hint { file_name: Some("a.rtf"), ..Hint::default() });
    assert!(error.to_string().starts_with("invalid RTF: "), "{error}");
    let deep = format!("{{\\rtf1 {}core{}", "{\\b ".repeat(200_000), "}".repeat(200_000));
    assert_eq!(file("a.rtf", deep).content, "core");
    assert_eq!(file("a.rtf", r"{\rtf1 open {\b bold").content, "open bold");
    assert_eq!(file("a.rtf", r"{\rtf1 a\bin999999999999 b").content, "a");
    assert_eq!(file("a.rtf", r"{\rtf1 a\'").content, "a");
}

const PIECES: [&str; 24] = [
    "{",
    "}",
    "\\par ",
    "\\b ",
    "\\u233 ?",
    "\\u-10179 ?",
    "\\u-8704 ?",
    "\\'e9",
    "\\'",
    "\\uc0 ",
    "\\uc2 ",
    "text",
    "é",
    "\\cell ",
    "\\row ",
    "\\page ",
    "\\outlinelevel1 ",
    "\\pard ",
    "\\v ",
    "\\v0 ",
    "{\\info{\\title x}}",
    "\\bin3 ",
    "\\*",
    "\\ansicpg932 ",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_rich_text_becomes_text(pieces in proptest::collection::vec(select(PIECES.to_vec()), 0..60)) {
        let text = format!("{{\\rtf1 {}", pieces.concat());
        let read = file("a.rtf", text);
        let mut last = 0;
        for span in read.headings.iter().map(|heading| &heading.span) {
            prop_assert!(last <= span.start && read.content.get(span.clone()).is_some(), "{:?}", read);
            last = span.end;
        }
        let mut last = 0;
        for span in read.pages.iter().map(|page| &page.span) {
            prop_assert!(last <= span.start && read.content.get(span.clone()).is_some(), "{:?}", read);
            last = span.end;
        }
    }
}

#[test]
fn a_cell_ends_in_its_own_paragraph() {
    // The paragraph before the cell is one space, and the cell is hidden.
    assert_eq!(file("a.rtf", r"{\rtf1 \bin3 \v0 \v \row \cell }").content, "");
    assert_eq!(file("a.rtf", r"{\rtf1  \par a\page  \cell b}").content.trim(), "a\n\n | b");
}

#[test]
fn fonts_have_their_own_characters() {
    let text = r"{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0\fcharset0 Times;}{\f1\fcharset204 Arial{\*\falt Helv};}{\f2\fcharset128 MS Mincho;}
{\f3\fcharset2 Symbol;}{\f4\fnil\fcharset2 Wingdings;}{\f5\fcharset238 Cyr;}}\f0 caf\'e9 {\f1 \'cf\'f0\'e8\'e2\'e5\'f2} {\f2 \'93\'fa\'96\'7b} {\f3 \'61\u-3933 ?} {\f4 \'fc} {\f5 \'b9}\plain \'e9}";
    assert_eq!(file("a.rtf", text).content, "café Привет 日本 α≤ ✓ ąé");
    // "ANSI" is the document's own encoding, unless another font has it.
    let own = r"{\rtf1\ansicpg1251{\fonttbl{\f0\fcharset0 A;}}\f0 \'cf}";
    assert_eq!(file("a.rtf", own).content, "П");
    let western =
        r"{\rtf1\ansicpg1251{\fonttbl{\f0\fcharset0 A;}{\f1\fcharset204 B;}}\f0 \'e9 \f1 \'cf}";
    assert_eq!(file("a.rtf", western).content, "é П");
}

#[test]
fn what_stands_around_the_text_is_read() {
    let text = r"{\rtf1{\stylesheet{\s1\outlinelevel0 heading 1;}{\s2\sbasedon1 Corp;}}{\header\pard Letterhead\par}{\headerf Letterhead\par}{\footer\pard 7\par}{\footerl Register\par}
\pard\s2{\listtext\pard\plain 1.\tab}Bread\par\pard One{\footnote\pard From the sea.\par}{\*\atnauthor Ada}\chatn{\*\annotation\pard Too salty.\par}
{\shp{\*\shpinst{\sp{\sn shapeType}{\sv 202}}{\shptxt\pard In a box.\par}}{\shprslt{\*\do\dptxbx{\dptxbxtext In a box.\par}}}}{\pict{\*\picprop{\sp{\sn wzDescription}{\sv A loaf}}}00}
 sentence{\object{\*\objdata 00}{\result  with an object}}{\upr{ ?}{\*\ud{ \u233 ?}}}.\par
\trowd\pard\intbl a\par b\cell c\cell\row\pard End.}";
    let read = file("a.rtf", text);
    assert_eq!(
        read.content,
        "Letterhead\n\n1.\tBread\n\nOne sentence with an object é.\n\nIn a box.\nA loaf\n\na b | c | \n\nEnd.\n\n\
         From the sea.\n\nComment (Ada): Too salty.\n\nRegister"
    );
    let headings: Vec<_> = read.headings.iter().map(|it| (it.level, &*it.title)).collect();
    assert_eq!(headings, [(1, "1. Bread")]);
    assert_eq!(&read.content[read.headings[0].span.clone()], "1.\tBread");
}
