//! Hashes by which databases filter records.

use crate::{
    Record, RecordFilter,
    store::{home_of, members, record_readers},
};
use marquetry_database::label_hash;

/// A value that records are filtered by: a hash of the organisation, the kind and the value.
pub(crate) type Label = i64;

#[derive(Clone, Copy)]
enum Kind {
    Type = 0,
    Group = 1,
    Name = 2,
    Tag = 3,
    Owner = 4,
    Reader = 5,
    Member = 6,
    Home = 7,
}

fn label(organization: &str, kind: Kind, value: &str) -> Label {
    label_hash(kind as u8, &[organization], value).cast_signed()
}

/// Returns all labels of a record, sorted.
pub(crate) fn labels(record: &Record) -> Vec<Label> {
    let of = |kind, value: &str| label(&record.organization, kind, value);
    let mut labels = vec![of(Kind::Type, &record.kind), of(Kind::Name, &record.name)];
    labels.extend(record.group.iter().map(|group| of(Kind::Group, group)));
    labels.extend(record.tags.iter().map(|tag| of(Kind::Tag, tag)));
    labels.extend(record.owner.iter().map(|owner| of(Kind::Owner, owner)));
    labels.extend(record_readers(record).iter().map(|reader| of(Kind::Reader, reader)));
    labels.extend(members(record).map(|member| of(Kind::Member, member)));
    labels.extend(home_of(record).map(|owner| of(Kind::Home, owner)));
    labels.sort_unstable();
    labels.dedup();
    labels
}

/// A [`RecordFilter`] over [`labels`].
pub(crate) struct Labels {
    /// Records need one label of each list.
    pub(crate) groups: Vec<Vec<Label>>,
    /// Records must not have any of these.
    pub(crate) not: Vec<Label>,
}

impl Labels {
    pub(crate) fn of(filter: &RecordFilter) -> Self {
        let of = |kind, value: &str| label(&filter.organization, kind, value);
        let any = |kind, values: &[String]| -> Vec<Label> {
            values.iter().map(|value| of(kind, value)).collect()
        };
        let one = |kind, value: &Option<String>| value.as_ref().map(|value| vec![of(kind, value)]);
        let lists = [
            any(Kind::Type, &filter.types),
            any(Kind::Owner, &filter.owners),
            any(Kind::Member, &filter.members),
        ];
        let readers = filter.readers.as_ref();
        let readers = readers.map(|all| all.iter().map(|one| of(Kind::Reader, one)).collect());
        let groups = lists.into_iter().filter(|list| !list.is_empty());
        let groups = groups
            .chain(filter.tags.iter().map(|tag| vec![of(Kind::Tag, tag)]))
            .chain(one(Kind::Group, &filter.group))
            .chain(one(Kind::Name, &filter.name))
            .chain(readers);
        let homes = filter.not_in_home_of.iter().map(|owner| of(Kind::Home, owner));
        let owners = filter.not_owners.iter().map(|owner| of(Kind::Owner, owner));
        Self { groups: groups.collect(), not: homes.chain(owners).collect() }
    }
}
