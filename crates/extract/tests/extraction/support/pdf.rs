//! A writer of small PDF files.

use std::{fmt::Write as _, io::Write as _};

use flate2::{Compression, write::ZlibEncoder};

/// A document; objects 1 to 3 are its catalog, its page tree and a font.
pub(crate) struct Writer {
    objects: Vec<Vec<u8>>,
    pages: Vec<usize>,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Self { objects: vec![Vec::new(); 3], pages: Vec::new() }
    }

    /// Adds an object and gives its number.
    pub(crate) fn object(&mut self, content: impl Into<Vec<u8>>) -> usize {
        self.objects.push(content.into());
        self.objects.len()
    }

    /// Adds a stream with these further entries in its dictionary.
    pub(crate) fn stream(&mut self, entries: &str, data: &[u8]) -> usize {
        let mut object = format!("<< {entries} /Length {} >>\nstream\n", data.len()).into_bytes();
        object.extend_from_slice(data);
        object.extend_from_slice(b"\nendstream");
        self.object(object)
    }

    /// Adds a page whose content is this stream.
    pub(crate) fn page(&mut self, content: usize) {
        let page = format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {content} 0 R \
             /Resources << /Font << /F 3 0 R >> >> >>"
        );
        let page = self.object(page);
        self.pages.push(page);
    }

    /// The document with these objects as its pages.
    pub(crate) fn finish_with(mut self, pages: &[usize]) -> Vec<u8> {
        self.pages = pages.to_vec();
        self.finish("")
    }

    /// Adds a page with these lines of text.
    pub(crate) fn text_page(&mut self, lines: &[&str]) {
        let mut content = "BT /F 12 Tf 14 TL 72 770 Td\n".to_owned();
        for line in lines {
            let line = line.replace('\\', "\\\\").replace('(', "\\(").replace(')', "\\)");
            let _ = writeln!(content, "({line}) Tj T*");
        }
        content.push_str("ET");
        let content = self.stream("/Filter /FlateDecode", &deflate(content.as_bytes()));
        self.page(content);
    }

    pub(crate) fn finish(mut self, trailer: &str) -> Vec<u8> {
        let kids: String = self.pages.iter().map(|page| format!("{page} 0 R ")).collect();
        self.objects[0] = b"<< /Type /Catalog /Pages 2 0 R >>".to_vec();
        self.objects[1] =
            format!("<< /Type /Pages /Count {} /Kids [{kids}] >>", self.pages.len()).into_bytes();
        self.objects[2] =
            b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
                .to_vec();
        let mut file = b"%PDF-1.7\n".to_vec();
        let mut places = Vec::new();
        for (number, object) in (1..).zip(&self.objects) {
            places.push(file.len());
            file.extend_from_slice(format!("{number} 0 obj\n").as_bytes());
            file.extend_from_slice(object);
            file.extend_from_slice(b"\nendobj\n");
        }
        let start = file.len();
        let size = self.objects.len() + 1;
        let mut table = format!("xref\n0 {size}\n0000000000 65535 f \n");
        for place in places {
            let _ = writeln!(table, "{place:010} 00000 n ");
        }
        let _ = write!(
            table,
            "trailer\n<< /Size {size} /Root 1 0 R {trailer} >>\nstartxref\n{start}\n%%EOF\n"
        );
        file.extend_from_slice(table.as_bytes());
        file
    }
}

/// A document with these pages of lines.
pub(crate) fn pages(pages: &[&[&str]]) -> Vec<u8> {
    let mut writer = Writer::new();
    for lines in pages {
        writer.text_page(lines);
    }
    writer.finish("")
}

pub(crate) fn deflate(data: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}
