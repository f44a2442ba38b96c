"""Writes the PDFs of this folder, each by one of five producers, and their texts beside them.

Needs LibreOffice, Chromium and LaTeX (Debian: libreoffice-writer-nogui, chromium-headless-shell,
texlive-luatex, texlive-latex-recommended, texlive-lang-german, lmodern), some fonts
(fonts-dejavu, fonts-urw-base35, fonts-droid-fallback, fonts-nanum), and the Python packages typst,
reportlab, python-bidi and pypdf:

    python3 generate.py [NAME...]

A text has one sentence, heading, item or row of a table a line, in the order in which a reader
reads them. After a line "---" come the lines that have no place in that order: headers and footers.
"""

import dataclasses
import pathlib
import sys

import pypdf

import texts
from producers import chromium, latex, libreoffice, reportlab_, typst_


@dataclasses.dataclass
class Document:
    """A text with a layout."""

    blocks: list
    lang: str = "en"
    columns: int = 1
    header: str | None = None
    footer: str | None = None
    # One of "", "page" (an entry Rotate), "text" (turned text on the page), "landscape", "vertical".
    turned: str = ""
    # What a producer does in its own way, such as the encoding of a font.
    variant: str = ""
    # Whether a producer may break words.
    hyphens: bool = False

    @property
    def rtl(self):
        return self.lang in ("he", "ar")

    def lines(self):
        """Returns the texts in the order in which they are read."""
        notes = []
        for kind, content, *note in self.blocks:
            if kind == "heading":
                yield content
            elif kind in ("paragraph", "numbers", "bullets"):
                yield from content
            elif kind == "table":
                yield from (" ".join(row) for row in content)
            elif kind == "fields":
                for name, value in content:
                    yield name
                    yield value
            notes += [text for _, text in note]
        yield from notes


def heading(text):
    return ("heading", text)


def paragraph(sentences, *note):
    """A paragraph. A note is the number of the sentence after which its mark stands, and its text."""
    return ("paragraph", sentences, *note)


ARTICLE = [heading(texts.TITLE), *map(paragraph, texts.ENGLISH)]
NOTED = [
    heading(texts.TITLE),
    paragraph(texts.ENGLISH[0], (0, texts.NOTES[0])),
    paragraph(texts.ENGLISH[1], (2, texts.NOTES[1])),
    paragraph(texts.ENGLISH[2]),
]
TABLE = [
    heading(texts.TITLE),
    paragraph(texts.ENGLISH[1]),
    ("table", texts.TABLE),
    paragraph(texts.ENGLISH[4]),
]
LISTS = [
    heading(texts.TITLE),
    paragraph(texts.ENGLISH[2]),
    ("numbers", texts.ITEMS),
    paragraph(texts.ENGLISH[3]),
    ("bullets", [" ".join(pair) for pair in zip(texts.ENGLISH[5][::2], texts.ENGLISH[5][1::2])]),
]
LANGUAGES = [paragraph(it) for it in (texts.FRENCH, texts.POLISH, texts.RUSSIAN, texts.GREEK)]
FORM = [
    heading(texts.TITLE),
    paragraph(texts.ENGLISH[1]),
    ("fields", [("Name of the keeper", "Wilhelmina Brandt"), ("Remarks", "Dam needs repair")]),
    paragraph(texts.ENGLISH[4]),
]
GERMAN = [paragraph(it) for it in texts.GERMAN]
ARTICLE_RUNNING = {"header": texts.HEADER, "footer": texts.FOOTER}


def documents():
    """Returns the documents by the names of their files, which begin with their producers."""
    plain = {
        "article": Document(ARTICLE, **ARTICLE_RUNNING),
        "columns": Document(ARTICLE, columns=2),
        "table": Document(TABLE),
        "lists": Document(LISTS, header=texts.HEADER),
        "notes": Document(NOTED),
        "hyphens": Document(GERMAN, lang="de", columns=2, hyphens=True),
        "ligatures": Document([paragraph(texts.LIGATURES)]),
        "languages": Document(LANGUAGES, lang="mul"),
        "hebrew": Document([paragraph(texts.HEBREW)], lang="he"),
        "arabic": Document([paragraph(texts.ARABIC)], lang="ar"),
        "chinese": Document([paragraph(texts.CHINESE)], lang="zh"),
        "japanese": Document([paragraph(texts.JAPANESE)], lang="ja"),
        "korean": Document([paragraph(texts.KOREAN)], lang="ko"),
    }
    makers = {
        chromium: {
            **without(plain, "languages", "japanese"),
            "ligatures": Document([paragraph(texts.LIGATURES)], variant="Type 3"),
            "vertical": Document([paragraph(texts.JAPANESE)], lang="ja", turned="vertical"),
            "turned-page": Document(TABLE, turned="page"),
            "form": Document(FORM),
        },
        libreoffice: {
            **without(plain, "ligatures", "chinese", "korean"),
            "landscape": Document(TABLE, turned="landscape"),
        },
        latex: {
            **without(plain, "languages", "korean", "japanese"),
            # Accents and letters are glyphs of their own.
            "accents": Document([paragraph(texts.FRENCH)]),
            "turned-text": Document(NOTED[:2], turned="text"),
            "actual-text": Document([paragraph(texts.ENGLISH[3])], variant="ActualText"),
        },
        reportlab_: {
            # Broken words, notes and Arabic letters are unknown to it.
            **without(plain, "hyphens", "notes", "ligatures", "languages", "arabic", "chinese", "korean"),
            "accents": Document([paragraph(texts.FRENCH)]),
            "japanese": Document([paragraph(texts.JAPANESE)], lang="ja", variant="not embedded"),
            "turned-page": Document(TABLE, turned="page"),
            "turned-text": Document(ARTICLE[:2], turned="text"),
            "form": Document(FORM),
        },
        typst_: {
            **without(plain, "chinese", "korean"),
            "turned-text": Document(TABLE, turned="text"),
        },
    }
    for maker, made in makers.items():
        producer = maker.__name__.rsplit(".", 1)[1].rstrip("_")
        for name, document in made.items():
            yield f"{producer}-{name}", maker, document


def without(documents, *names):
    return {name: it for name, it in documents.items() if name not in names}


def main():
    folder = pathlib.Path(__file__).parent
    chosen = sys.argv[1:]
    for name, maker, document in documents():
        if chosen and not any(name.startswith(it) for it in chosen):
            continue
        path = folder / f"{name}.pdf"
        maker.write(document, path)
        pages = len(pypdf.PdfReader(path).pages)
        running = [text for text in (document.header, document.footer) if text] * pages
        lines = [line.replace("\u00ad", "") for line in document.lines()]
        path.with_suffix(".txt").write_text("\n".join([*lines, "---", *running]) + "\n")
        print(f"{name}: {pages} pages, {path.stat().st_size} bytes")


main()
