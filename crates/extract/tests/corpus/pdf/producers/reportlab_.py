"""Documents of reportlab."""

import bidi.algorithm
from reportlab.lib.enums import TA_JUSTIFY, TA_RIGHT
from reportlab.lib.pagesizes import A5
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.platypus import (
    BaseDocTemplate,
    Flowable,
    Frame,
    ListFlowable,
    ListItem,
    PageTemplate,
    Paragraph,
    Table,
)

DEJAVU = "/usr/share/fonts/truetype/dejavu/DejaVuS"
ASIAN = {"ja"}
pdfmetrics.registerFont(TTFont("Serif", f"{DEJAVU}erif.ttf"))
pdfmetrics.registerFont(TTFont("Sans", f"{DEJAVU}ans.ttf"))
pdfmetrics.registerFont(UnicodeCIDFont("HeiseiMin-W3"))


def write(document, path):
    # Without this, every run would write other bytes.
    rotation = 90 if document.turned == "page" else 0
    template = BaseDocTemplate(str(path), pagesize=A5, invariant=1, rotation=rotation)
    width, height = A5
    count = document.columns
    step = (width - 30 * mm + 6 * mm) / count
    frames = [
        Frame(15 * mm + number * step, 18 * mm, step - 6 * mm, height - 36 * mm, 0, 0, 0, 0)
        for number in range(count)
    ]

    def page(canvas, _):
        canvas.setFont("Times-Roman", 8)
        canvas.drawCentredString(width / 2, height - 12 * mm, document.header or "")
        canvas.drawCentredString(width / 2, 10 * mm, document.footer or "")

    template.addPageTemplates(PageTemplate(frames=frames, onPage=page))
    flow = [part for it in document.blocks for part in block(it, document)]
    if document.turned == "text":
        flow = [Turned(flow)]
    template.build(flow)


class Turned(Flowable):
    """Parts that are drawn from the bottom to the top."""

    def __init__(self, parts):
        super().__init__()
        self.parts = parts

    def wrap(self, width, height):
        return width, height

    def draw(self):
        self.canv.rotate(90)
        y = 0
        for part in self.parts:
            _, height = part.wrapOn(self.canv, 160 * mm, 100 * mm)
            y -= height + 4 * mm
            part.drawOn(self.canv, 0, y)


class Field(Flowable):
    """A field of a form, behind its name."""

    def __init__(self, name, value):
        super().__init__()
        self.name, self.value = name, value

    def wrap(self, width, _):
        return width, 24

    def draw(self):
        self.canv.setFont("Times-Roman", 9)
        self.canv.drawString(0, 8, self.name)
        self.canv.acroForm.textfield(
            name=self.name, value=self.value, x=100, y=2, width=180, height=18, relative=True,
            fontSize=9,
        )


def style(document, size=9):
    # Of a standard font the document has nothing but the name.
    font = "Times-Roman"
    if document.lang in ASIAN:
        font = "HeiseiMin-W3"
    elif document.lang == "mul":
        font = "Serif"
    elif document.rtl:
        font = "Sans"
    wrap = "CJK" if document.lang in ASIAN else "LTR"
    align = TA_RIGHT if document.rtl else TA_JUSTIFY
    return ParagraphStyle("body", fontName=font, fontSize=size, leading=1.35 * size, spaceAfter=6,
                          alignment=align, wordWrap=wrap)


def block(it, document):
    kind, content, *_ = it
    body = style(document)
    if kind == "heading":
        return [Paragraph(content, style(document, 14))]
    if kind == "paragraph":
        if document.rtl:
            # reportlab knows no right-to-left scripts: programs give it the visual order, by lines.
            return [Paragraph(bidi.algorithm.get_display(text, base_dir="R"), body) for text in content]
        return [Paragraph(("" if document.lang in ASIAN else " ").join(content), body)]
    if kind == "table":
        cells = [[Paragraph(cell, body) for cell in row] for row in content]
        return [Table(cells, style=[("GRID", (0, 0), (-1, -1), 0.5, "black")], spaceAfter=6)]
    if kind == "fields":
        return [Field(name, value) for name, value in content]
    items = [ListItem(Paragraph(item, body)) for item in content]
    return [ListFlowable(items, bulletType="1" if kind == "numbers" else "bullet")]
