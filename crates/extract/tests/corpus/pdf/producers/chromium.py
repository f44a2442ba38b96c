"""Documents printed by Chromium, from HTML."""

import html
import pathlib
import subprocess
import tempfile

STYLE = """
@page { size: A5; margin: 18mm %(margin)s; %(page)s
  @top-center { content: "%(header)s" } @bottom-center { content: "%(footer)s" } }
body { font: 10pt/1.4 %(font)s "DejaVu Serif", "DejaVu Sans", "NanumGothic", "Droid Sans Fallback";
  columns: %(columns)s; column-gap: 8mm; text-align: justify; margin: 0; writing-mode: %(mode)s; hyphens: manual }
h1 { font: 14pt "DejaVu Serif" } table { border-collapse: collapse; text-align: left }
td { border: 1px solid; padding: 2px 5px } aside { font-size: 8pt; border-top: 1px solid }
"""


def write(document, path):
    notes = []
    body = "".join(block(it, notes) for it in document.blocks)
    if notes:
        marked = (f"<p><sup>{number}</sup>{html.escape(it)}" for number, it in enumerate(notes, 1))
        body += f"<aside>{''.join(marked)}</aside>"
    style = STYLE % {
        "margin": "12mm" if document.columns == 2 else "18mm",
        "page": "page-orientation: rotate-right;" if document.turned == "page" else "",
        "header": document.header or "",
        "footer": document.footer or "",
        # Chromium draws an OpenType font with outlines of PostScript as a Type 3 font.
        "font": '"Nimbus Roman",' if document.variant else "",
        "columns": document.columns,
        "mode": "vertical-rl" if document.turned == "vertical" else "horizontal-tb",
    }
    direction = "rtl" if document.rtl else "ltr"
    head = f"<!doctype html><html lang={document.lang} dir={direction}><meta charset=utf-8>"
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "page.html"
        page.write_text(f"{head}<style>{style}</style>{body}")
        command = ["chromium-headless-shell", "--no-sandbox", "--disable-gpu"]
        command += ["--no-pdf-header-footer", f"--print-to-pdf={path}", page.as_uri()]
        subprocess.run(command, check=True, capture_output=True)


def block(it, notes):
    kind, content, *note = it
    if kind == "heading":
        return f"<h1>{html.escape(content)}</h1>"
    if kind == "paragraph":
        sentences = [html.escape(sentence) for sentence in content]
        for number, text in note:
            notes.append(text)
            sentences[number] += f"<sup>{len(notes)}</sup>"
        return f"<p>{' '.join(sentences)}</p>"
    if kind == "table":
        rows = ("".join(f"<td>{html.escape(cell)}" for cell in row) for row in content)
        return f"<table><tr>{'<tr>'.join(rows)}</table>"
    if kind == "fields":
        fields = (f'<p>{name} <input size=30 value="{value}">' for name, value in content)
        return "".join(fields)
    tag = "ol" if kind == "numbers" else "ul"
    return f"<{tag}><li>{'<li>'.join(map(html.escape, content))}</{tag}>"
