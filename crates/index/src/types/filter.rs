//! Filters of documents.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::document::Document;
use marquetry_database::label_hash;

/// A condition on documents. An empty list does not restrict, except that of readers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Filter {
    /// The one document with this URI.
    pub scope: Option<String>,
    /// One of these types.
    pub types: Vec<String>,
    /// One of these vector models.
    pub vector_models: Vec<String>,
    /// One of these owners.
    pub owners: Vec<String>,
    /// One of these users and groups may read it. An empty list lets nothing pass; without a list, everything passes.
    pub readers: Option<Vec<String>>,
    /// All of these tags.
    pub tags: Vec<String>,
    /// Each of these keys with just this value.
    pub metadata: Map<String, Value>,
}

impl Filter {
    /// The one document with this URI.
    pub fn scope(uri: impl Into<String>) -> Self {
        Self { scope: Some(uri.into()), ..Self::default() }
    }

    /// The same filter for documents that one of these users or groups may read.
    #[must_use]
    pub fn readers(self, readers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { readers: Some(readers.into_iter().map(Into::into).collect()), ..self }
    }

    /// The same filter for documents that have this tag, too.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// The same filter for documents of this type, or of the others that were named.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.types.push(kind.into());
        self
    }

    /// The same filter for documents whose metadata has this value under this key, too.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Whether a document passes.
    pub fn matches(&self, document: &Document) -> bool {
        self.scope.as_ref().is_none_or(|scope| *scope == document.uri)
            && self.compile().matches(&labels(document))
    }

    /// The label of the one document's URI.
    pub(crate) fn scope_label(&self) -> Option<Label> {
        self.scope.as_ref().map(|uri| label(Kind::Uri, &[uri]))
    }

    /// The filter as hashes, without its scope.
    pub(crate) fn compile(&self) -> LabelFilter {
        let any = |kind, values: &[String]| {
            values.iter().map(|value| label(kind, &[value])).collect::<Vec<_>>()
        };
        let any_of = [
            any(Kind::Type, &self.types),
            any(Kind::VectorModel, &self.vector_models),
            any(Kind::Owner, &self.owners),
        ];
        let readers = self.readers.iter().map(|readers| any(Kind::Reader, readers));
        let all_of = self.tags.iter().map(|tag| label(Kind::Tag, &[tag])).chain(
            self.metadata.iter().map(|(key, value)| label(Kind::Metadata, &[key, &text(value)])),
        );
        LabelFilter {
            all_of: all_of.collect(),
            any_of: any_of.into_iter().filter(|labels| !labels.is_empty()).chain(readers).collect(),
        }
    }
}

impl Filter {
    /// The part that says who asks, as hashes.
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
        let has = |label: &Label| labels.binary_search(label).is_ok();
        self.all_of.iter().all(has) && self.any_of.iter().all(|any| any.iter().any(has))
    }
}

/// What a document can be found by: a hash of the kind and the value.
pub(crate) type Label = u64;

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

/// All labels of a document but that of its URI, sorted.
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

/// The labels of those who may read a document, sorted.
#[cfg(feature = "postgres")]
pub(crate) fn reader_labels(document: &Document) -> Vec<Label> {
    let mut labels: Vec<_> =
        document.readers.iter().map(|reader| label(Kind::Reader, &[reader])).collect();
    labels.sort_unstable();
    labels
}

/// One spelling for each value, whatever the order of its keys.
fn text(value: &Value) -> String {
    let mut value = value.clone();
    value.sort_all_objects();
    value.to_string()
}
