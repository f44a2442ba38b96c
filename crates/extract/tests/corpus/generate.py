"""Writes the documents of this folder, each by another program, from one text.

Needs LibreOffice, pandoc, AbiWord and Gnumeric (Debian packages), and the Python packages
python-docx, python-pptx, openpyxl, XlsxWriter, odfpy, EbookLib and nbformat:

    python3 generate.py
"""

import datetime
import email.message
import mailbox
import os
import subprocess
import tempfile

import docx
import ebooklib.epub
import nbformat.v4
import odf.opendocument
import odf.style
import odf.table
import odf.text
import openpyxl
import openpyxl.chart
import openpyxl.comments
import pptx
import pptx.chart.data
import pptx.enum.chart
import pptx.util
import xlsxwriter

TITLE = "Birds of the coast"
FIRST = "The kestrel nests on cliffs, and Küstenseeschwalben breed on sand."
SECOND = "Чайка и 東京湾 are names that need Unicode."
ITEMS = ["Count the nests", "Ring the chicks"]
ROWS = [("Species", "Pairs"), ("Dunlin", 41), ("Redshank", 17)]
NOTE = "Counted at low tide."
HEADER = "Coastal survey 2026"
FOOTER = "Printed for members"
COMMENT = "Check the ringing dates."


def python_docx(path):
    document = docx.Document()
    section = document.sections[0]
    section.header.paragraphs[0].text = HEADER
    section.footer.paragraphs[0].text = FOOTER
    document.add_heading(TITLE, 1)
    first = document.add_paragraph(FIRST)
    document.add_comment(first.runs, text=COMMENT, author="Ada", initials="A")
    document.add_heading("Methods", 2)
    document.add_paragraph(SECOND)
    for item in ITEMS:
        document.add_paragraph(item, style="List Number")
    table = document.add_table(0, 2)
    for row in ROWS:
        for cell, value in zip(table.add_row().cells, row):
            cell.text = str(value)
    document.save(path)


def converted(program, source, path):
    """Converts a document with LibreOffice, AbiWord or Gnumeric."""
    extension = path.rsplit(".", 1)[1]
    if program == "soffice":
        with tempfile.TemporaryDirectory() as folder:
            command = [program, "--headless", f"-env:UserInstallation=file://{folder}/profile"]
            command += ["--convert-to", extension, "--outdir", folder, source]
            subprocess.run(command, check=True, capture_output=True)
            stem = os.path.basename(source).rsplit(".", 1)[0]
            os.replace(f"{folder}/{stem}.{extension}", path)
    elif program == "abiword":
        subprocess.run([program, f"--to={extension}", f"--to-name={path}", source], check=True)
    else:
        subprocess.run([program, source, path], check=True, capture_output=True)


def pandoc(path):
    items = "".join(f"{number}. {item}\n" for number, item in enumerate(ITEMS, 1))
    rows = "".join(f"| {left} | {right} |\n" for left, right in ROWS[1:])
    table = f"| {ROWS[0][0]} | {ROWS[0][1]} |\n|---|---|\n{rows}"
    text = f"# {TITLE}\n\n{FIRST}^[{NOTE}]\n\n## Methods\n\n{SECOND}\n\n{items}\n{table}"
    command = ["pandoc", "--from=markdown", "--standalone", "--metadata", f"title={TITLE}", "-o", path]
    subprocess.run(command, input=text.encode(), check=True)


def python_pptx(path):
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[5])
    slide.shapes.title.text = TITLE
    box = slide.shapes.add_textbox(0, pptx.util.Inches(1), pptx.util.Inches(5), pptx.util.Inches(1))
    box.text_frame.text = FIRST
    slide.notes_slide.notes_text_frame.text = NOTE
    data = pptx.chart.data.CategoryChartData()
    data.categories = [name for name, _ in ROWS[1:]]
    data.add_series(ROWS[0][1], [value for _, value in ROWS[1:]])
    place = [pptx.util.Inches(inches) for inches in (1, 2, 6, 4)]
    slide.shapes.add_chart(pptx.enum.chart.XL_CHART_TYPE.COLUMN_CLUSTERED, *place, data)
    presentation.save(path)


def with_openpyxl(path):
    workbook = openpyxl.Workbook()
    sheet = workbook.active
    sheet.title = TITLE
    for row in ROWS:
        sheet.append(row)
    sheet["A2"].comment = openpyxl.comments.Comment(COMMENT, "Ada")
    chart = openpyxl.chart.BarChart()
    chart.title = HEADER
    chart.add_data(openpyxl.chart.Reference(sheet, min_col=2, min_row=1, max_row=3), titles_from_data=True)
    sheet.add_chart(chart, "E2")
    workbook.save(path)


def with_xlsxwriter(path):
    workbook = xlsxwriter.Workbook(path)
    sheet = workbook.add_worksheet(TITLE)
    for number, row in enumerate(ROWS):
        sheet.write_row(number, 0, row)
    sheet.write_comment("A2", COMMENT)
    sheet.insert_textbox("E2", NOTE)
    sheet.set_header("&C" + HEADER)
    workbook.close()


def odfpy(path):
    document = odf.opendocument.OpenDocumentText()
    document.text.addElement(odf.text.H(outlinelevel=1, text=TITLE))
    document.text.addElement(odf.text.P(text=FIRST))
    document.text.addElement(odf.text.P(text=SECOND))
    table = odf.table.Table(name="Table")
    for row in ROWS:
        line = odf.table.TableRow()
        for value in row:
            cell = odf.table.TableCell()
            cell.addElement(odf.text.P(text=str(value)))
            line.addElement(cell)
        table.addElement(line)
    document.text.addElement(table)
    document.save(path)


def ebook(path):
    book = ebooklib.epub.EpubBook()
    book.set_identifier("coast")
    book.set_title(TITLE)
    chapter = ebooklib.epub.EpubHtml(title=TITLE, file_name="one.xhtml", lang="en")
    ruby = "<ruby>東京<rt>とうきょう</rt></ruby>湾"
    chapter.content = f"<h1>{TITLE}</h1><p>{FIRST}</p><p>{SECOND.replace('東京湾', ruby)}</p>"
    book.add_item(chapter)
    book.spine = [chapter]
    book.add_item(ebooklib.epub.EpubNcx())
    ebooklib.epub.write_epub(path, book)


def message():
    message = email.message.EmailMessage()
    message["From"] = "Ada Müller <ada@example.org>"
    message["To"] = "Ben <ben@example.org>"
    message["Subject"] = f"{TITLE}: Küste"
    message["Date"] = datetime.datetime(2026, 11, 28, 17, tzinfo=datetime.timezone.utc)
    message["Message-ID"] = "<1@example.org>"
    message.set_content(f"{FIRST}\n\n{SECOND}\n", cte="base64")
    message.add_alternative(f"<p>{FIRST}</p><p>{SECOND}</p>", subtype="html", cte="quoted-printable")
    message.add_attachment(b"\0" * 300, maintype="application", subtype="pdf", filename="Karte.pdf")
    return message


def mail(path):
    with open(path, "wb") as file:
        file.write(bytes(message()))


def python_mailbox(path):
    if os.path.exists(path):
        os.remove(path)
    box = mailbox.mbox(path)
    box.add(message())
    reply = email.message.EmailMessage()
    reply["From"] = "Ben <ben@example.org>"
    reply["Subject"] = "Re: Küste"
    reply.set_content(f"From here on we walk.\n\n{NOTE}\n")
    box.add(reply)
    box.close()


def notebook(path):
    new = nbformat.v4
    picture = {"image/png": "iVBORw0KGgo" + "A" * 400, "text/plain": "<Figure>"}
    cells = [
        new.new_markdown_cell(f"# {TITLE}\n\n{FIRST}"),
        new.new_code_cell("nests.plot()", outputs=[new.new_output("display_data", picture)]),
        new.new_code_cell("len(nests)", outputs=[new.new_output("stream", text="41 nests\n")]),
        new.new_markdown_cell(SECOND),
    ]
    with open(path, "w") as file:
        nbformat.write(new.new_notebook(cells=cells), file)


os.chdir(os.path.dirname(os.path.abspath(__file__)))
python_docx("python-docx.docx")
for extension in ["odt", "rtf", "docx"]:
    converted("soffice", "python-docx.docx", f"libreoffice.{extension}")
for extension in ["odt", "rtf"]:
    converted("abiword", "python-docx.docx", f"abiword.{extension}")
for extension in ["docx", "odt", "rtf", "epub", "pptx", "ipynb"]:
    pandoc(f"pandoc.{extension}")
python_pptx("python-pptx.pptx")
for extension in ["odp", "pptx"]:
    converted("soffice", "python-pptx.pptx", f"libreoffice.{extension}")
with_openpyxl("openpyxl.xlsx")
with_xlsxwriter("xlsxwriter.xlsx")
for extension in ["ods", "xlsx"]:
    converted("soffice", "openpyxl.xlsx", f"libreoffice.{extension}")
    converted("ssconvert", "openpyxl.xlsx", f"gnumeric.{extension}")
odfpy("odfpy.odt")
ebook("ebooklib.epub")
mail("python.eml")
python_mailbox("python.mbox")
notebook("nbformat.ipynb")
