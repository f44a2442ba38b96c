//! Plain text and source code: the unchanged text.

use crate::{ExtractError, Extracted, Extractor, Page, Source, decode::decode};

/// Reads plain text, which has pages if it has form feeds.
pub(crate) struct PlainText;

impl Extractor for PlainText {
    fn media_types(&self) -> &[&str] {
        &["text/plain", "text/*"]
    }

    fn extensions(&self) -> &[(&str, &str)] {
        &[("txt", "text/plain"), ("text", "text/plain"), ("log", "text/plain")]
    }

    fn extract(&self, source: &Source<'_>) -> Result<Extracted, ExtractError> {
        let mut extracted = decode(source.bytes, source.charset).document()?;
        let content = &extracted.content;
        // A form feed ends a page (RFCs, `pdftotext`). A form feed at the end begins no further
        // page.
        if content.trim_end().contains('\u{C}') {
            let mut start = 0;
            for page in content.trim_end().split_inclusive('\u{C}') {
                let span = start..start + page.len();
                start = span.end;
                source.limits.check_pages(extracted.pages.len() + 1)?;
                let number = extracted.pages.len() as u32 + 1;
                extracted.pages.push(Page { number, span });
            }
            extracted.page_count = Some(extracted.pages.len() as u32);
        }
        Ok(extracted)
    }
}

/// Reads source code and configuration, in which each line is a unit.
pub(crate) struct SourceCode;

impl Extractor for SourceCode {
    fn media_types(&self) -> &[&str] {
        &[
            "application/ecmascript",
            "application/javascript",
            "application/sql",
            "application/toml",
            "application/typescript",
            "application/x-httpd-php",
            "application/x-javascript",
            "application/x-perl",
            "application/x-python",
            "application/x-ruby",
            "application/x-sh",
            "application/x-shellscript",
            "application/x-yaml",
            "application/yaml",
            "text/css",
            "text/ecmascript",
            "text/javascript",
            "text/x-*",
            "text/yaml",
        ]
    }

    fn extensions(&self) -> &[(&str, &str)] {
        &[
            ("bash", "text/x-shellscript"),
            ("bat", "text/x-batch"),
            ("c", "text/x-c"),
            ("cc", "text/x-c++"),
            ("cfg", "text/x-ini"),
            ("clj", "text/x-clojure"),
            ("cpp", "text/x-c++"),
            ("cs", "text/x-csharp"),
            ("css", "text/css"),
            ("cxx", "text/x-c++"),
            ("dart", "text/x-dart"),
            ("elm", "text/x-elm"),
            ("erl", "text/x-erlang"),
            ("ex", "text/x-elixir"),
            ("exs", "text/x-elixir"),
            ("f90", "text/x-fortran"),
            ("go", "text/x-go"),
            ("gradle", "text/x-groovy"),
            ("groovy", "text/x-groovy"),
            ("h", "text/x-c"),
            ("hpp", "text/x-c++"),
            ("hs", "text/x-haskell"),
            ("ini", "text/x-ini"),
            ("java", "text/x-java"),
            ("jl", "text/x-julia"),
            ("js", "text/javascript"),
            ("jsx", "text/javascript"),
            ("kt", "text/x-kotlin"),
            ("kts", "text/x-kotlin"),
            ("less", "text/x-less"),
            ("lisp", "text/x-lisp"),
            ("lua", "text/x-lua"),
            ("m", "text/x-objective-c"),
            ("mjs", "text/javascript"),
            ("ml", "text/x-ocaml"),
            ("nim", "text/x-nim"),
            ("nix", "text/x-nix"),
            ("php", "application/x-httpd-php"),
            ("pl", "application/x-perl"),
            ("properties", "text/x-java-properties"),
            ("proto", "text/x-protobuf"),
            ("ps1", "text/x-powershell"),
            ("puml", "text/x-plantuml"),
            ("py", "text/x-python"),
            ("r", "text/x-r"),
            ("rb", "text/x-ruby"),
            ("rs", "text/x-rust"),
            ("scala", "text/x-scala"),
            ("scss", "text/x-scss"),
            ("sh", "text/x-shellscript"),
            ("sql", "application/sql"),
            ("swift", "text/x-swift"),
            ("tf", "text/x-terraform"),
            ("toml", "application/toml"),
            ("ts", "text/x-typescript"),
            ("tsx", "text/x-typescript"),
            ("vue", "text/x-vue"),
            ("yaml", "application/yaml"),
            ("yml", "application/yaml"),
            ("zig", "text/x-zig"),
            ("zsh", "text/x-shellscript"),
        ]
    }

    fn extract(&self, source: &Source<'_>) -> Result<Extracted, ExtractError> {
        let extracted = decode(source.bytes, source.charset).document()?;
        Ok(Extracted { wrapped: false, ..extracted })
    }
}

/// Returns whether documents of a media type are source code, or configuration files.
pub fn is_source_code(media_type: &str) -> bool {
    // Media types of prose whose names look like those of source code.
    const PROSE: [&str; 5] =
        ["text/x-log", "text/x-markdown", "text/x-rst", "text/x-tex", "text/x-web-markdown"];
    if PROSE.contains(&media_type) {
        return false;
    }
    SourceCode.media_types().iter().any(|known| match known.strip_suffix('*') {
        Some(start) => media_type.starts_with(start),
        None => *known == media_type,
    })
}
