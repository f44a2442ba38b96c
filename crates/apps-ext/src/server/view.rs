//! A View as one HTML document with its metadata.

use std::{
    borrow::Cow,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use marquetry_protocol::types::{Resource, ResourceContents};

use super::compose::{ComposeError, compose};
use crate::types::{Csp, Permissions, UiResourceMeta, UiUri, VIEW_MIME_TYPE};

/// A View: one HTML document, the origins that it may reach, and its display preferences.
///
/// A host runs the document in a sandbox that cannot load files of its folder. Therefore scripts
/// and styles must be in the document itself; [`View::file`] and [`View::embedded`] put them there.
///
/// ```
/// use marquetry_apps_ext::{server::View, types::{Csp, Permission, Permissions}};
///
/// let map = View::html("<!doctype html><title>Map</title>")
///     .title("Map")
///     .description("Shows a place on a map.")
///     .csp(Csp { connect_domains: vec!["https://tiles.example".into()], ..Csp::default() })
///     .permissions(Permissions::NONE.with(Permission::Geolocation));
///
/// // A document may also come from files that are compiled into the program.
/// let files = [("page.html", "<script src='app.js'></script>"), ("app.js", "document.title = 'Map'")];
/// let same = View::embedded("page.html", files)?;
/// assert_eq!(same.document(), "<!doctype html>\n<script>document.title = 'Map'</script>");
/// # Ok::<(), marquetry_apps_ext::server::ViewError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    html: Arc<str>,
    name: Option<String>,
    title: Option<String>,
    description: Option<String>,
    meta: UiResourceMeta,
    form: Form,
}

/// The form of the document in `resources/read`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Blob,
}

/// The reason why a document cannot be a View.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// A file cannot be read as UTF-8 text.
    #[error("View {path:?} cannot be read: {error}")]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The error of the file system.
        #[source]
        error: io::Error,
    },
    /// A document names a file that does not exist.
    #[error("{document:?} names {file:?}, which is not among the files of the View")]
    Missing {
        /// The document; if the document itself is missing, the View.
        document: String,
        /// Path of the missing file.
        file: String,
    },
    /// A script or a style sheet contains a text that would end its element in a document.
    #[error("{file:?} cannot be embedded in a document: it contains {text:?}")]
    Unsafe {
        /// Path of the file.
        file: String,
        /// The text.
        text: &'static str,
    },
}

const DOCTYPE: &str = "<!doctype html>";

impl View {
    /// Creates a View from an HTML document. A document without a doctype gets one: a View must be
    /// HTML5.
    #[must_use]
    pub fn html<'a>(html: impl Into<Cow<'a, str>>) -> Self {
        let html = html.into();
        let html = if has_doctype(&html) {
            Arc::from(&*html)
        } else {
            format!("{DOCTYPE}\n{html}").into()
        };
        Self {
            html,
            name: None,
            title: None,
            description: None,
            meta: UiResourceMeta::default(),
            form: Form::Text,
        }
    }

    /// Reads a View from a file. Scripts and style sheets with a relative path are read from the
    /// folder of the document, and put into it.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read, is not UTF-8, or contains a text that would end
    /// its element.
    pub fn file(path: impl AsRef<Path>) -> Result<Self, ViewError> {
        let path = path.as_ref();
        let folder = path.parent().unwrap_or(Path::new(""));
        fn read(path: PathBuf) -> Result<String, ViewError> {
            fs::read_to_string(&path).map_err(|error| ViewError::Read { path, error })
        }
        let html = compose(&read(path.to_owned())?, |file| read(folder.join(file)).map(Some))
            .map_err(|error| ViewError::of(error, &path.to_string_lossy()))?;
        Ok(Self::html(html))
    }

    /// Creates a View from files that are compiled into the program, by their paths. `page` is the
    /// path of the document; scripts and style sheets with a relative path are put into it.
    ///
    /// # Errors
    /// Returns an error if the document or a file that it names is not among `files`, or a file
    /// contains a text that would end its element.
    pub fn embedded<'a>(
        page: &str,
        files: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, ViewError> {
        let files: Vec<_> = files.into_iter().collect();
        fn find(files: &[(&str, &str)], name: &str) -> Option<String> {
            files.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned())
        }
        let document = find(&files, page).ok_or_else(|| ViewError::Missing {
            document: page.to_owned(),
            file: page.to_owned(),
        })?;
        let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
        let html = compose(&document, |file| {
            Ok(match folder {
                "" => find(&files, file),
                folder => find(&files, &format!("{folder}/{file}")),
            })
        })
        .map_err(|error| ViewError::of(error, page))?;
        Ok(Self::html(html))
    }

    /// Sets the name for programs. Without it, the last part of the URI is the name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets a sentence on what the View shows.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the origins that the View may reach. Without them it reaches no other host.
    #[must_use]
    pub fn csp(mut self, csp: Csp) -> Self {
        self.meta.csp = Some(csp);
        self
    }

    /// Sets the permissions that the View asks for.
    #[must_use]
    pub fn permissions(mut self, permissions: Permissions) -> Self {
        self.meta.permissions = Some(permissions);
        self
    }

    /// Asks for a separate origin. Each host defines the format of `domain` in its documentation.
    #[must_use]
    pub fn domain(mut self, domain: impl Into<String>) -> Self {
        self.meta.domain = Some(domain.into());
        self
    }

    /// Sets whether the View wants a border and a background.
    #[must_use]
    pub fn prefers_border(mut self, prefers_border: bool) -> Self {
        self.meta.prefers_border = Some(prefers_border);
        self
    }

    /// Makes `resources/read` return the document in base64 instead of as text.
    #[must_use]
    pub fn as_blob(mut self) -> Self {
        self.form = Form::Blob;
        self
    }

    /// Returns the HTML document.
    #[must_use]
    pub fn document(&self) -> &str {
        &self.html
    }

    /// Returns the metadata.
    #[must_use]
    pub fn meta(&self) -> &UiResourceMeta {
        &self.meta
    }

    /// Returns the View as an entry of `resources/list`.
    pub(super) fn resource(&self, uri: &UiUri) -> Resource {
        let last = uri.as_str().rsplit('/').find(|part| !part.is_empty());
        let name = self.name.clone().unwrap_or_else(|| last.unwrap_or_default().to_owned());
        let description = self.description.clone();
        Resource {
            uri: uri.as_str().to_owned(),
            name,
            title: self.title.clone(),
            description: Some(description.unwrap_or_else(|| "A View of tool results.".to_owned())),
            mime_type: Some(VIEW_MIME_TYPE.to_owned()),
            size: u64::try_from(self.html.len()).ok(),
            meta: Some(self.meta.to_meta()).filter(|meta| !meta.is_empty()),
            ..Resource::default()
        }
    }

    /// Returns the View as the content of `resources/read`.
    pub(super) fn contents(&self, uri: &UiUri) -> ResourceContents {
        let (text, blob) = match self.form {
            Form::Text => (Some(self.html.to_string()), None),
            Form::Blob => (None, Some(STANDARD.encode(&*self.html))),
        };
        ResourceContents {
            uri: uri.as_str().to_owned(),
            mime_type: Some(VIEW_MIME_TYPE.to_owned()),
            text,
            blob,
            meta: Some(self.meta.to_meta()).filter(|meta| !meta.is_empty()),
        }
    }
}

impl ViewError {
    fn of(error: ComposeError<Self>, document: &str) -> Self {
        match error {
            ComposeError::Missing(file) => Self::Missing { document: document.to_owned(), file },
            ComposeError::Unsafe(file, text) => Self::Unsafe { file, text },
            ComposeError::Read(error) => error,
        }
    }
}

/// Returns whether a document begins with a doctype, after white space, a byte order mark and
/// comments.
fn has_doctype(html: &str) -> bool {
    let mut rest = html.trim_start_matches('\u{feff}').trim_ascii_start();
    while let Some(comment) = rest.strip_prefix("<!--") {
        let Some((_, after)) = comment.split_once("-->") else { return false };
        rest = after.trim_ascii_start();
    }
    const START: &str = "<!doctype";
    rest.get(..START.len()).is_some_and(|start| start.eq_ignore_ascii_case(START))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::types::Permission;

    fn uri() -> UiUri {
        UiUri::new("ui://clock/page.html").unwrap()
    }

    fn json(value: &impl serde::Serialize) -> Value {
        serde_json::to_value(value).unwrap()
    }

    #[test]
    fn a_document_without_a_doctype_gets_one() {
        for (html, is_kept) in [
            ("<!doctype html>x", true),
            ("\u{feff} \n<!DocType HTML><p>", true),
            ("<!-- a --> <!-- b --><!doctype html>", true),
            ("<html></html>", false),
            ("<!-- <!doctype html>", false),
            ("", false),
            ("<!doctyp", false),
            ("é<!doctype html>", false),
        ] {
            let view = View::html(html);
            let want = if is_kept { html.to_owned() } else { format!("{DOCTYPE}\n{html}") };
            assert_eq!(view.document(), want);
        }
    }

    #[test]
    fn a_view_is_listed_and_read_with_its_metadata() {
        let permissions = Permissions::NONE.with(Permission::Camera);
        let csp = Csp { connect_domains: vec!["https://a.example".into()], ..Csp::default() };
        let view = View::html("<!doctype html>é")
            .title("Clock")
            .csp(csp)
            .permissions(permissions)
            .domain("a.host.example")
            .prefers_border(false);
        let ui = json!({
            "csp": { "connectDomains": ["https://a.example"] }, "permissions": { "camera": {} },
            "domain": "a.host.example", "prefersBorder": false,
        });
        let listed = json!({
            "uri": "ui://clock/page.html", "name": "page.html", "title": "Clock",
            "description": "A View of tool results.", "mimeType": VIEW_MIME_TYPE, "size": 17, "_meta": { "ui": ui },
        });
        assert_eq!(json(&view.resource(&uri())), listed);
        let read = json!({
            "uri": "ui://clock/page.html", "mimeType": VIEW_MIME_TYPE, "text": "<!doctype html>é", "_meta": { "ui": ui },
        });
        assert_eq!(json(&view.contents(&uri())), read);
        let read = json!({
            "uri": "ui://clock/page.html", "mimeType": VIEW_MIME_TYPE, "blob": "PCFkb2N0eXBlIGh0bWw+w6k=", "_meta": { "ui": ui },
        });
        assert_eq!(json(&view.as_blob().contents(&uri())), read);
        let bare = View::html("").name("n").description("d");
        assert_eq!(json(&bare.contents(&uri())).get("_meta"), None);
        let listed = bare.resource(&UiUri::new("ui://a/b/").unwrap());
        assert_eq!((&*listed.name, listed.description.as_deref()), ("n", Some("d")));
        assert_eq!(View::html("").resource(&UiUri::new("ui://a/b/").unwrap()).name, "b");
    }

    #[test]
    fn files_are_read_and_named_when_they_cannot_be() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.html");
        fs::write(&page, "<!doctype html><link rel=stylesheet href=style.css>").unwrap();
        let error = View::file(&page).unwrap_err().to_string();
        assert!(error.contains("style.css") && error.contains("cannot be read"), "{error}");
        fs::write(folder.path().join("style.css"), "p { color: red }").unwrap();
        let view = View::file(&page).unwrap();
        assert_eq!(view.document(), "<!doctype html><style>p { color: red }</style>");
        fs::write(&page, b"\xff").unwrap();
        assert!(View::file(&page).unwrap_err().to_string().contains("page.html"));
    }

    #[test]
    fn embedded_files_are_found_beside_the_document() {
        let files = [("a/p.html", "<script src='x.js'></script>"), ("a/x.js", "1"), ("x.js", "2")];
        let view = View::embedded("a/p.html", files).unwrap();
        assert_eq!(view.document(), "<!doctype html>\n<script>1</script>");
        fn error(page: &str, files: &[(&str, &str)]) -> String {
            View::embedded(page, files.iter().copied()).unwrap_err().to_string()
        }
        assert_eq!(
            error("p.html", &[]),
            r#""p.html" names "p.html", which is not among the files of the View"#
        );
        assert_eq!(
            error("p", &[("p", "<script src=./x.js></script>")]),
            r#""p" names "x.js", which is not among the files of the View"#
        );
        assert_eq!(
            error("p", &[("p", "<link rel=stylesheet href=s.css>"), ("s.css", "</Style>")]),
            r#""s.css" cannot be embedded in a document: it contains "</style""#
        );
    }
}
