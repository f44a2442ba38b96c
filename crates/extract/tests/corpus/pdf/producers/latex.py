"""Documents of pdfLaTeX, and of LuaLaTeX for scripts that pdfLaTeX does not know."""

import pathlib
import re
import shutil
import subprocess
import tempfile

FONTS = {
    "he": ("DejaVu Sans", "Script=Hebrew"),
    "ar": ("DejaVu Sans", "Script=Arabic"),
    "zh": ("Droid Sans Fallback", ""),
    "ja": ("Droid Sans Fallback", ""),
}


def write(document, path):
    is_unicode = document.lang in FONTS
    options = "twocolumn," if document.columns == 2 else ""
    head = [f"\\documentclass[{options}10pt]{{article}}"]
    head.append("\\usepackage[a5paper,margin=15mm,includehead,includefoot]{geometry}")
    if is_unicode:
        font, features = FONTS[document.lang]
        head.append("\\usepackage{fontspec}")
        head.append(f"\\setmainfont{{{font}}}[Renderer=HarfBuzz,{features}]")
        if document.lang in ("zh", "ja"):
            head.append("\\directlua{" + BREAKS + "}")
    elif document.lang == "de":
        head.append("\\usepackage[T1]{fontenc}\\usepackage[ngerman]{babel}")
    head.append("\\usepackage{graphicx,accsupp,fancyhdr}\\pagestyle{fancy}\\fancyhf{}")
    # Each size of a font is a font of its own, of 15 KB.
    head.append("\\let\\footnotesize\\normalsize\\setlength\\tabcolsep{1mm}")
    head.append("\\renewcommand\\headrulewidth{0pt}")
    head.append(f"\\chead{{{document.header or ''}}}\\cfoot{{{document.footer or ''}}}")
    head.append("\\setlength\\parindent{0pt}\\raggedbottom\\sloppy\\begin{document}")
    if document.turned == "page":
        head.append("\\pdfpageattr{/Rotate 90}")
    if document.rtl:
        head.append("\\pagedir TRT\\bodydir TRT\\pardir TRT\\textdir TRT")
    body = "\n\n".join(block(it, document) for it in document.blocks)
    if document.turned == "text":
        body = f"\\rotatebox{{90}}{{\\begin{{minipage}}{{150mm}}\n{body}\n\\end{{minipage}}}}"
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "document.tex"
        source.write_text("\n".join([*head, body, "\\end{document}"]))
        program = "lualatex" if is_unicode else "pdflatex"
        command = [program, "-interaction=nonstopmode", source.name]
        for _ in range(2):
            done = subprocess.run(command, cwd=folder, capture_output=True)
        if done.returncode:
            raise SystemExit(done.stdout.decode(errors="replace")[-3000:])
        shutil.copy(source.with_suffix(".pdf"), path)


# LuaTeX breaks no line between Chinese characters by itself.
BREAKS = """
luatexbase.add_to_callback("pre_linebreak_filter", function(head)
  for glyph in node.traverse_id(node.id("glyph"), head) do
    local glue = node.new("glue")
    glue.stretch = 65536
    if glyph.next then node.insert_after(head, glyph, glue) end
  end
  return head
end, "breaks")
""".replace("\n", " ")


def escape(text):
    for sign in "&%$#_{}":
        text = text.replace(sign, f"\\{sign}")
    return text


def turn_left_to_right(found):
    return f"{{\\textdir TLT {found.group()}}}"


def block(it, document):
    kind, content, *note = it
    if kind == "heading":
        return f"{escape(content)}\\bigskip"
    if kind == "paragraph":
        # TeX breaks words by its own patterns.
        sentences = [escape(sentence).replace("\u00ad", "") for sentence in content]
        if document.rtl:
            # LuaTeX draws numbers and Latin words from right to left unless it is told.
            sentences = [re.sub("[0-9A-Za-z]+( [A-Za-z]+)*", turn_left_to_right, it) for it in sentences]
        for number, text in note:
            sentences[number] += f"\\footnote{{{escape(text)}}}"
        if document.variant == "ActualText":
            # Signs that mean nothing stand for the words.
            spoken = sentences[1].encode("utf-16-be").hex()
            sentences[1] = (
                f"\\BeginAccSupp{{method=hex,unicode,ActualText={spoken}}}"
                "$\\spadesuit\\heartsuit\\clubsuit$\\EndAccSupp{}"
            )
        return ("" if document.lang in ("zh", "ja") else " ").join(sentences)
    if kind == "table":
        rows = "\\\\\\hline\n".join(" & ".join(map(escape, row)) for row in content)
        columns = "|".join("l" * len(content[0]))
        return f"\\begin{{tabular}}{{|{columns}|}}\\hline {rows}\\\\\\hline\\end{{tabular}}"
    name = "enumerate" if kind == "numbers" else "itemize"
    items = "\n".join(f"\\item {escape(item)}" for item in content)
    return f"\\begin{{{name}}}\n{items}\n\\end{{{name}}}"
