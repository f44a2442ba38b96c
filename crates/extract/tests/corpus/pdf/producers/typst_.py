"""Documents of Typst."""

import typst


def write(document, path):
    size = 'paper: "a5", margin: 15mm'
    head = [f"#set page({size}, columns: {document.columns}{running(document)})"]
    hyphens = "true" if document.hyphens else "false"
    fonts = '"DejaVu Serif", "DejaVu Sans", "Droid Sans Fallback"'
    if document.lang == "en":
        fonts = '"Libertinus Serif"'
    language = "en" if document.lang == "mul" else document.lang
    direction = ", dir: rtl" if document.rtl else ""
    head.append(
        f'#set text(9pt, font: ({fonts},), lang: "{language}", hyphenate: {hyphens}{direction})'
    )
    head.append("#set par(justify: true)")
    body = "\n\n".join(block(it) for it in document.blocks)
    if document.turned == "text":
        body = f"#rotate(90deg, reflow: true)[#block(width: 165mm)[\n{body}\n]]"
    typst.compile("\n".join([*head, body]).encode(), output=str(path))


def running(document):
    header = f", header: [{document.header}]" if document.header else ""
    return header + (f", footer: [{document.footer}]" if document.footer else "")


def escape(text):
    for sign in "\\#*_`$<>@[]~=/":
        text = text.replace(sign, f"\\{sign}")
    return text


def block(it):
    kind, content, *note = it
    if kind == "heading":
        return f"= {escape(content)}"
    if kind == "paragraph":
        # Typst breaks words by its own dictionary.
        sentences = [escape(sentence).replace("\u00ad", "") for sentence in content]
        for number, text in note:
            sentences[number] += f"#footnote[{escape(text)}]"
        return " ".join(sentences)
    if kind == "table":
        cells = ", ".join(f"[{escape(cell)}]" for row in content for cell in row)
        return f"#table(columns: {len(content[0])}, {cells})"
    mark = "+" if kind == "numbers" else "-"
    return "\n".join(f"{mark} {escape(item)}" for item in content)
