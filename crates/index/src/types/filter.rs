//! Filters of documents.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::document::Document;
use marquetry_database::label_hash;

/// A filter of documents. An empty list sets no condition, except for `readers`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Filter {
    /// Only the document with this URI.
    pub scope: Option<String>,
    /// Documents of one of these types.
    pub types: Vec<String>,
    /// Documents of one of these vector models.
    pub vector_models: Vec<String>,
    /// Documents of one of these owners.
    pub owners: Vec<String>,
    /// Documents that one of these users and groups may read. An empty list lets no document pass;
    /// `None` sets no condition.
    pub readers: Option<Vec<String>>,
    /// Documents with all of these tags.
    pub tags: Vec<String>,
    /// Documents whose metadata has each of these keys with exactly this value.
    pub metadata: Map<String, Value>,
}

impl Filter {
    /// Returns a filter that only the document with this URI passes.
    pub fn scope(uri: impl Into<String>) -> Self {
        Self { scope: Some(uri.into()), ..Self::default() }
    }

    /// Sets the users and groups, one of which must be a reader of the document.
    #[must_use]
    pub fn readers(self, readers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { readers: Some(readers.into_iter().map(Into::into).collect()), ..self }
    }

    /// Adds a tag that the document must have.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// Adds a type; the document must have one of them.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.types.push(kind.into());
        self
    }

    /// Adds a value that the metadata of the document must have under a key.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Returns whether a document passes.
    pub fn matches(&self, document: &Document) -> bool {
        self.scope.as_ref().is_none_or(|scope| *scope == document.uri)
            && self.compile().matches(&labels(document))
    }

    /// Returns the label of the URI in `scope`.
    pub(crate) fn scope_label(&self) -> Option<Label> {
        self.scope.as_ref().map(|uri| label(Kind::Uri, &[uri]))
    }

    /// Returns the filter as hashes, without its scope.
    pub(crate) fn compile(&self) -> LabelFilter {
        let any_of = [
            labels_of_kind(Kind::Type, &self.types),
            labels_of_kind(Kind::VectorModel, &self.vector_models),
            labels_of_kind(Kind::Owner, &self.owners),
        ];
        let readers = self.readers.iter().map(|readers| labels_of_kind(Kind::Reader, readers));
        let all_of = self.tags.iter().map(|tag| label(Kind::Tag, &[tag])).chain(
            self.metadata.iter().map(|(key, value)| label(Kind::Metadata, &[key, &text(value)])),
        );
        LabelFilter {
            all_of: all_of.collect(),
            // An empty list sets no condition, except for readers: it lets no document pass.
            any_of: any_of.into_iter().filter(|labels| !labels.is_empty()).chain(readers).collect(),
        }
    }
}

impl Filter {
    /// Returns the readers as hashes.
    pub(crate) fn compile_readers(&self) -> LabelFilter {
        Self { readers: self.readers.clone(), ..Self::default() }.compile()
    }
}

/// A [`Filter`] over [`labels`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LabelFilter {
    pub(crate) all_of: Vec<Label>,
    pub(crate) any_of: Vec<Vec<Label>>,
}

impl LabelFilter {
    pub(crate) fn is_empty(&self) -> bool {
        self.all_of.is_empty() && self.any_of.is_empty()
    }

    pub(crate) fn matches(&self, labels: &[Label]) -> bool {
        self.all_of.iter().all(|label| contains(labels, *label))
            && self.any_of.iter().all(|any| any.iter().any(|label| contains(labels, *label)))
    }
}

fn contains(sorted: &[Label], label: Label) -> bool {
    sorted.binary_search(&label).is_ok()
}

/// A filterable value of a document: a hash of the value and its kind.
pub(crate) type Label = u64;

/// The kind of a value, which is hashed with it. Stores keep the hashes, so the numbers never
/// change.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Uri = 0,
    Type = 1,
    VectorModel = 2,
    Owner = 3,
    Tag = 4,
    Metadata = 5,
    Reader = 6,
}

pub(crate) fn label(kind: Kind, values: &[&str]) -> Label {
    label_hash(kind as u8, values, "")
}

fn labels_of_kind<'a>(kind: Kind, values: impl IntoIterator<Item = &'a String>) -> Vec<Label> {
    values.into_iter().map(|value| label(kind, &[value])).collect()
}

/// Returns all labels of a document except the one for its URI, sorted.
pub(crate) fn labels(document: &Document) -> Vec<Label> {
    let Document { kind, vector_model, owner, readers, tags, metadata, .. } = document;
    let mut labels = vec![label(Kind::VectorModel, &[vector_model])];
    labels.extend(kind.iter().map(|kind| label(Kind::Type, &[kind])));
    labels.extend(owner.iter().map(|owner| label(Kind::Owner, &[owner])));
    labels.extend(readers.iter().map(|reader| label(Kind::Reader, &[reader])));
    labels.extend(tags.iter().map(|tag| label(Kind::Tag, &[tag])));
    labels.extend(metadata.iter().map(|(key, value)| label(Kind::Metadata, &[key, &text(value)])));
    labels.sort_unstable();
    labels.dedup();
    labels
}

/// Returns the labels of the readers of a document, sorted.
#[cfg(feature = "postgres")]
pub(crate) fn reader_labels(document: &Document) -> Vec<Label> {
    let mut labels = labels_of_kind(Kind::Reader, &document.readers);
    labels.sort_unstable();
    labels
}

/// Returns the same text for equal values, whatever the order of their keys is.
fn text(value: &Value) -> String {
    let mut value = value.clone();
    value.sort_all_objects();
    value.to_string()
}
