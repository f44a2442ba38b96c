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
    let organization = &record.organization;
    let mut labels = vec![
        label(organization, Kind::Type, &record.kind),
        label(organization, Kind::Name, &record.name),
    ];
    labels.extend(record.group.iter().map(|group| label(organization, Kind::Group, group)));
    labels.extend(record.tags.iter().map(|tag| label(organization, Kind::Tag, tag)));
    labels.extend(record.owner.iter().map(|owner| label(organization, Kind::Owner, owner)));
    labels.extend(
        record_readers(record).iter().map(|reader| label(organization, Kind::Reader, reader)),
    );
    labels.extend(members(record).map(|member| label(organization, Kind::Member, member)));
    labels.extend(home_of(record).map(|owner| label(organization, Kind::Home, owner)));
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
        let organization = &filter.organization;
        let lists = [
            (Kind::Type, &filter.types),
            (Kind::Owner, &filter.owners),
            (Kind::Member, &filter.members),
        ]
        .map(|(kind, values)| {
            values.iter().map(|value| label(organization, kind, value)).collect::<Vec<_>>()
        });
        let readers = filter
            .readers
            .as_ref()
            .map(|all| all.iter().map(|one| label(organization, Kind::Reader, one)).collect());
        let groups = lists.into_iter().filter(|list| !list.is_empty());
        let groups = groups
            .chain(filter.tags.iter().map(|tag| vec![label(organization, Kind::Tag, tag)]))
            .chain(filter.group.iter().map(|group| vec![label(organization, Kind::Group, group)]))
            .chain(filter.name.iter().map(|name| vec![label(organization, Kind::Name, name)]))
            .chain(readers);
        let homes =
            filter.not_in_home_of.iter().map(|owner| label(organization, Kind::Home, owner));
        let owners = filter.not_owners.iter().map(|owner| label(organization, Kind::Owner, owner));
        Self { groups: groups.collect(), not: homes.chain(owners).collect() }
    }
}
