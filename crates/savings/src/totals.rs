//! Sums by day, caller and tool.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{Day, MAX_DAYS, Saving};

/// Rows in memory and in the file.
pub(crate) const MAX_ROWS: usize = 20_000;

/// The tool of figures that have no row of their own.
const OTHER_TOOLS: &str = "(other tools)";

/// Longest name of a tool or a caller that is stored, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// The figures of one tool on one day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SavingsRow {
    /// The day, in UTC.
    pub day: Day,
    /// The tool, by the name that agents use.
    pub tool: String,
    /// Number of answers of which a part was kept from the model.
    pub answers: u64,
    /// Bytes that were kept from the model.
    pub bytes: u64,
    /// Estimated tokens that were kept from the model.
    pub tokens: u64,
}

impl SavingsRow {
    fn add(&mut self, sums: Sums) {
        self.answers += sums.answers;
        self.bytes += sums.bytes;
        self.tokens += sums.tokens;
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) day: Day,
    /// Empty for the caller without authentication.
    pub(crate) owner: String,
    pub(crate) tool: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) answers: u64,
    pub(crate) bytes: u64,
    pub(crate) tokens: u64,
}

impl Sums {
    fn add(&mut self, other: Self) {
        self.answers = self.answers.saturating_add(other.answers);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.tokens = self.tokens.saturating_add(other.tokens);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Totals {
    all: BTreeMap<Key, Sums>,
    unwritten: BTreeMap<Key, Sums>,
    of_this_run: Sums,
}

impl Totals {
    /// Adds the rows of a file.
    pub(crate) fn load(&mut self, rows: Vec<(Key, Sums)>) {
        for (key, sums) in rows {
            self.all.entry(key).or_default().add(sums);
        }
    }

    pub(crate) fn add(&mut self, saving: Saving, day: Day) {
        let oldest = day.before(MAX_DAYS);
        while self.all.first_key_value().is_some_and(|(key, _)| key.day < oldest) {
            self.all.pop_first();
        }
        let Saving { owner, tool, bytes, tokens } = saving;
        let owner = shortened(owner.unwrap_or_default());
        let mut key = Key { day, owner, tool: shortened(tool) };
        if self.all.len() >= MAX_ROWS && !self.all.contains_key(&key) {
            key = Key { day, owner: String::new(), tool: OTHER_TOOLS.to_owned() };
        }
        let sums = Sums { answers: 1, bytes, tokens };
        self.of_this_run.add(sums);
        self.all.entry(key.clone()).or_default().add(sums);
        self.unwritten.entry(key).or_default().add(sums);
    }

    /// Returns the rows from a day on, newest first, of one caller or of all together.
    pub(crate) fn rows(&self, owner: Option<&str>, from: Day) -> Vec<SavingsRow> {
        let mut rows: BTreeMap<(Day, &str), SavingsRow> = BTreeMap::new();
        let owner = owner.map(|owner| shortened(owner.to_owned()));
        for (key, sums) in &self.all {
            if key.day < from || owner.as_ref().is_some_and(|owner| *owner != key.owner) {
                continue;
            }
            let row = rows.entry((key.day, &key.tool)).or_insert_with(|| SavingsRow {
                day: key.day,
                tool: key.tool.clone(),
                ..SavingsRow::default()
            });
            row.add(*sums);
        }
        let mut rows: Vec<_> = rows.into_values().collect();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.day), std::cmp::Reverse(row.tokens)));
        rows
    }

    pub(crate) fn of_this_run(&self) -> SavingsRow {
        let mut row = SavingsRow { day: Day::today(), ..SavingsRow::default() };
        row.add(self.of_this_run);
        row
    }

    pub(crate) fn take_unwritten(&mut self) -> Vec<(Key, Sums)> {
        std::mem::take(&mut self.unwritten).into_iter().collect()
    }

    /// Returns figures that could not be written, for the next write.
    pub(crate) fn put_back(&mut self, rows: Vec<(Key, Sums)>) {
        for (key, sums) in rows {
            self.unwritten.entry(key).or_default().add(sums);
        }
    }
}

fn shortened(mut name: String) -> String {
    name.truncate(name.floor_char_boundary(MAX_NAME_BYTES));
    name
}
