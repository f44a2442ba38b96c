//! Mail, notebooks, and data that is encoded for transport.

use marquetry_extract::Problem;

use super::file;

#[track_caller]
fn message(headers: &str, body: &str, expected: &str) {
    let text = format!("From: a@example.org\nMIME-Version: 1.0\n{headers}\n\n{body}");
    for text in [text.clone(), text.replace('\n', "\r\n")] {
        for name in ["a.eml", "a.txt", "download"] {
            let read = file(name, &text);
            assert_eq!(read.content, format!("From: a@example.org\n\n{expected}"), "{name}");
        }
    }
}

#[test]
fn messages_are_decoded() {
    message(
        "Content-Transfer-Encoding: quoted-printable\nContent-Type: text/plain; charset=utf-8",
        "Gr=C3=BC=\n=C3=9Fe",
        "Grüße",
    );
    message(
        "Content-Type: text/plain; charset=iso-8859-15\nContent-Transfer-Encoding: BASE64",
        "pA==",
        "€",
    );
    message(
        "Content-Type: text/html",
        "<p>Flour <b>and</b> rye</p><p hidden>secret",
        "Flour and rye",
    );
    message(
        "Content-Type: text/plain; format=flowed",
        "One \nline.\n-- \nAda",
        "One line.\n-- \nAda",
    );
    message("", "No type.", "No type.");
}

#[test]
fn the_richest_alternative_is_read_with_forwarded_messages_and_names_of_attachments() {
    let body = "preamble\n--o\nContent-Type: multipart/alternative; boundary=\"i n\"\n\n--i n\n\nplain\n--i n\nContent-Type: multipart/related; boundary=r\n\n\
        --r\nContent-Type: text/html\n\n<h1>Rich</h1><p>text</p>\n--r\nContent-Type: image/png\nContent-ID: <x>\nContent-Transfer-Encoding: base64\n\niVBO\n--r--\n\
        --i n\nContent-Type: text/calendar\n\nBEGIN:VCALENDAR\n--i n--\n\
        --o\nContent-Type: application/pdf; name*=utf-8''K%C3%BCste.pdf\nContent-Transfer-Encoding: base64\n\nJVBE\n\
        --o\nContent-Type: message/rfc822\n\nSubject: =?utf-8?Q?Gr=C3=BC=C3=9Fe?=\n\nInner.\n--o--\nepilogue";
    let text = format!(
        "Subject: Outer\nMessage-ID: <1>\nContent-Type: multipart/mixed;\n boundary=o\n\n{body}"
    );
    let read = file("a.eml", text);
    assert_eq!(
        read.content,
        "Outer\n\nRich\n\ntext\n\nSubject: Grüße\n\nInner.\n\nAttachment: Küste.pdf"
    );
    let headings: Vec<_> = read.headings.iter().map(|it| (it.level, &*it.title)).collect();
    assert_eq!(headings, [(1, "Outer"), (2, "Rich")]);
    assert_eq!(&read.content[read.headings[1].span.clone()], "Rich");
    assert_eq!(read.title.as_deref(), Some("Outer"));
    let reason = "1 attachments are not read".to_owned();
    assert_eq!(read.problems, [Problem::Other { reason }]);
}

fn part(depth: usize) -> String {
    format!("--b{depth}\nContent-Type: multipart/mixed; boundary=b{}\n\n", depth + 1)
}

#[test]
fn damaged_messages_are_read_as_far_as_they_go() {
    let cut =
        "Message-ID: <1>\nSubject: Cut\nContent-Type: multipart/mixed; boundary=o\n\n--o\n\nWords";
    assert_eq!(file("a.eml", cut).content, "Cut\n\nWords");
    let without = "Message-ID: <1>\nSubject: Odd\nContent-Type: multipart/mixed\n\nWords";
    assert_eq!(file("a.eml", without).content, "Odd\n\nWords");
    assert_eq!(file("a.eml", "Only words, no fields.").content, "Only words, no fields.");
    let deep = format!(
        "Message-ID: <1>\nSubject: Deep\nContent-Type: multipart/mixed; boundary=b0\n\n{}",
        (0..5_000).map(part).collect::<String>()
    );
    let read = file("a.eml", deep);
    assert!(read.problems[0].to_string().contains("nested deeper"), "{:?}", read.problems);
}

#[test]
fn mailboxes_have_a_heading_for_each_message() {
    let text = "From ada Sat Nov 28 17:00:00 2026\nSubject: One\n\nWe walk.\nFrom here on.\n>From there.\n\n\
        From ben Sat Nov 28 18:00:00 2026\nSubject: Two\n\nEnd.\n";
    for name in ["a.mbox", "Inbox"] {
        let read = file(name, text);
        assert_eq!(read.content, "One\n\nWe walk.\nFrom here on.\nFrom there.\n\nTwo\n\nEnd.");
        assert_eq!(read.headings.len(), 2);
        assert_eq!(&read.content[read.headings[1].span.clone()], "Two");
        assert_eq!(read.title, None);
    }
    let apple = file("a.emlx", "22\nSubject: Apple\n\nPear.\n<?xml version='1.0'?><plist/>");
    assert_eq!(apple.content, "Apple\n\nPear.");
}

#[test]
fn prose_is_no_message() {
    for text in
        ["From: the baker\nSubject: bread\n\nWords.", "From here on we walk.\n", "Note: x\n\ny"]
    {
        assert_eq!(file("a.txt", text).content, text);
    }
}

#[test]
fn notebooks_are_markdown() {
    let picture = "iVBORw0KGgo".repeat(200);
    let text = format!(
        r##"{{"cells": [{{"cell_type": "markdown", "source": ["# Nests\n", "We count."]}},
        {{"cell_type": "code", "source": "plot()", "outputs": [{{"data": {{"image/png": "{picture}", "text/plain": ["<Figure>"]}}}},
        {{"name": "stdout", "text": ["41\n"]}}, {{"ename": "KeyError", "evalue": "'x'", "traceback": ["\u001b[0;31mlong\u001b[0m"]}}]}}],
        "metadata": {{"language_info": {{"name": "R"}}}}, "nbformat": 4}}"##
    );
    let read = file("a.ipynb", text);
    assert_eq!(
        read.content,
        "# Nests\nWe count.\n\n```r\nplot()\n```\n\n```text\n<Figure>\n```\n\n```text\n41\n```\n\n```text\nKeyError: 'x'\n```"
    );
    assert_eq!(read.headings[0].title, "Nests");
    let old = r#"{"worksheets": [{"cells": [{"cell_type": "heading", "level": 2, "source": "Old"}, {"cell_type": "code", "input": ["x = 1"], "language": "python"}]}]}"#;
    assert_eq!(file("a.ipynb", old).content, "## Old\n\n```python\nx = 1\n```");
    let damaged = file("a.ipynb", "{\"cells\": [");
    assert!(
        matches!(&damaged.problems[..], [Problem::TakenAsText { .. }]),
        "{:?}",
        damaged.problems
    );
}

#[test]
fn encoded_data_is_left_out_of_every_format() {
    let data = "iVBORw0KGgoAAAANSUhEUgAAAoAAAAHgCAYAAAA10dzkAAAABHNCSVQICAgI".repeat(20);
    for (name, text, expected) in [
        (
            "a.md",
            format!("Before ![x](data:image/png;base64,{data}) after."),
            "Before ![x](data:image/png;base64,) after.",
        ),
        (
            "a.json",
            format!("{{\"text\": \"words\", \"image\": \"{data}\"}}"),
            "text: words\nimage: \n",
        ),
        (
            "a.xml",
            format!("<a>words<b/></a><!-- --><c>{data}</c>")
                .replace("<a>", "<r><a>")
                .as_str()
                .to_owned()
                + "</r>",
            "a: words\nc: \n",
        ),
        ("a.py", format!("IMAGE = '{data}'\n"), "IMAGE = ''\n"),
    ] {
        let read = file(name, text);
        assert_eq!(read.content, expected, "{name}");
        assert!(read.problems.iter().any(|it| it.to_string().contains("base64")), "{name}");
    }
}

#[test]
fn logs_with_holes_are_read() {
    let line = "2026-01-01 ERROR disk full\n";
    for name in ["app.log", "app", "app.json.1"] {
        let mut bytes = vec![0; 70_001];
        bytes.extend(line.repeat(40).as_bytes());
        bytes.extend([0; 5_000]);
        bytes.extend(line.as_bytes());
        let read = file(name, bytes);
        assert_eq!(read.content, format!("{}\n{line}", line.repeat(40)), "{name}");
        assert!(read.problems.contains(&Problem::Nul { count: 75_001 }), "{:?}", read.problems);
    }
}

#[test]
fn readings_of_web_pages_do_not_split_words() {
    for page in [
        "<p>新<ruby>東京<rp>(</rp><rt>とうきょう</rt><rp>)</rp></ruby>駅",
        "<p>新<ruby>東<rt>とう<rb>京<rt>きょう</ruby>駅",
        "<p>新<ruby><rb>東京</rb><rtc><rt>とう</rt><rt>きょう</rt></rtc></ruby>駅",
    ] {
        assert_eq!(file("a.html", page).content, "新東京駅", "{page}");
    }
    assert_eq!(file("a.html", "<p>a <img alt='loaf'><img hidden alt='x'>b").content, "a loaf b");
}
