"""Documents of LibreOffice Writer, from flat OpenDocument."""

import pathlib
import subprocess
import tempfile
from xml.sax.saxutils import escape

NAMES = ("office", "style", "text", "table", "fo")
SPACES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in NAMES[:4]
) + ' xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0"'

LANGUAGES = {"de": ("de", "DE"), "en": ("en", "GB")}


def write(document, path):
    notes = [0]
    body = "".join(block(it, notes) for it in document.blocks)
    if document.columns > 1:
        body = f'<text:section text:style-name="Columns" text:name="Columns">{body}</text:section>'
    source = f"""<?xml version="1.0" encoding="UTF-8"?>
<office:document {SPACES} office:version="1.3" office:mimetype="application/vnd.oasis.opendocument.text">
<office:styles>{styles(document)}
<style:style style:name="Heading" style:family="paragraph"><style:text-properties fo:font-size="15pt"/></style:style>
<text:list-style style:name="numbers">{levels("number", 'style:num-format="1" style:num-suffix="."')}</text:list-style>
<text:list-style style:name="bullets">{levels("bullet", 'text:bullet-char="•"')}</text:list-style>
</office:styles>
<office:automatic-styles>
<style:style style:name="Columns" style:family="section"><style:section-properties>
  <style:columns fo:column-count="2" fo:column-gap="8mm"/></style:section-properties></style:style>
<style:style style:name="Cell" style:family="table-cell"><style:table-cell-properties
  fo:border="0.5pt solid #000000" fo:padding="1mm"/></style:style>
{page(document)}</office:automatic-styles>
<office:master-styles><style:master-page style:name="Standard" style:page-layout-name="Page">
{running("header", document.header)}{running("footer", document.footer)}</style:master-page></office:master-styles>
<office:body><office:text>{body}</office:text></office:body></office:document>"""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "document.fodt"
        file.write_text(source)
        command = ["soffice", "--headless", f"-env:UserInstallation=file://{folder}/profile"]
        command += ["--convert-to", "pdf", "--outdir", folder, str(file)]
        subprocess.run(command, check=True, capture_output=True)
        path.write_bytes(file.with_suffix(".pdf").read_bytes())


def styles(document):
    asian = document.lang in ("zh", "ja", "ko")
    language, country = LANGUAGES.get(document.lang, ("none", "none"))
    mode = "rl-tb" if document.rtl else "lr-tb"
    hyphens = "true" if document.hyphens else "false"
    # Nimbus Roman has no Greek letters with accents, and no Cyrillic ones.
    font = "DejaVu Serif" if document.lang == "mul" else "Nimbus Roman"
    return f"""<style:default-style style:family="paragraph">
<style:paragraph-properties fo:margin-bottom="2mm" fo:text-align="{'start' if asian else 'justify'}"
  style:writing-mode="{mode}"/>
<style:text-properties fo:font-family="'{font}'" fo:font-size="10pt"
  style:font-family-asian="'Droid Sans Fallback'" style:font-size-asian="10pt"
  style:font-family-complex="'DejaVu Sans'" style:font-size-complex="10pt"
  fo:language="{language}" fo:country="{country}" fo:hyphenate="{hyphens}"/>
</style:default-style>"""


def levels(kind, attributes):
    return (
        f'<text:list-level-style-{kind} text:level="1" {attributes}><style:list-level-properties '
        'text:list-level-position-and-space-mode="label-alignment"><style:list-level-label-alignment '
        'text:label-followed-by="listtab" fo:text-indent="-6mm" fo:margin-left="6mm"/>'
        f"</style:list-level-properties></text:list-level-style-{kind}>"
    )


def page(document):
    sizes = ("210mm", "148mm") if document.turned == "landscape" else ("148mm", "210mm")
    return f"""<style:page-layout style:name="Page"><style:page-layout-properties
  fo:page-width="{sizes[0]}" fo:page-height="{sizes[1]}" fo:margin="15mm"
  style:writing-mode="{'rl-tb' if document.rtl else 'lr-tb'}"/>
<style:header-style/><style:footer-style/></style:page-layout>"""


def running(kind, text):
    return f"<style:{kind}><text:p>{escape(text)}</text:p></style:{kind}>" if text else ""


def block(it, notes):
    kind, content, *note = it
    if kind == "heading":
        return f'<text:h text:style-name="Heading" text:outline-level="1">{escape(content)}</text:h>'
    if kind == "paragraph":
        sentences = [escape(sentence) for sentence in content]
        for number, text in note:
            notes[0] += 1
            sentences[number] += (
                f'<text:note text:id="n{notes[0]}" text:note-class="footnote"><text:note-citation>'
                f"{notes[0]}</text:note-citation><text:note-body><text:p>{escape(text)}</text:p>"
                "</text:note-body></text:note>"
            )
        return f"<text:p>{' '.join(sentences)}</text:p>"
    if kind == "table":
        rows = (
            "".join(
                '<table:table-cell table:style-name="Cell" office:value-type="string">'
                f"<text:p>{escape(cell)}</text:p></table:table-cell>"
                for cell in row
            )
            for row in content
        )
        rows = "".join(f"<table:table-row>{row}</table:table-row>" for row in rows)
        columns = f'<table:table-column table:number-columns-repeated="{len(content[0])}"/>'
        return f'<table:table table:name="Ponds">{columns}{rows}</table:table>'
    items = "".join(
        f"<text:list-item><text:p>{escape(item)}</text:p></text:list-item>" for item in content
    )
    return f'<text:list text:style-name="{kind}">{items}</text:list>'
