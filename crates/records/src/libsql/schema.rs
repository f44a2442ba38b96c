//! The tables of records.

use marquetry_database::libsql::Schema;

/// The version is raised when the tables change, or the rules by which labels are made of records.
pub(super) const SCHEMA: Schema =
    Schema { settings: "record_setting", version: 1, tables: TABLES, migrations: &[] };

const TABLES: &str = "
CREATE TABLE record_setting (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
-- What may hold a NUL is a blob, since such a text does not come back whole.
-- `lies_in` is the place where a record lies, `place` the one that a group is.
CREATE TABLE record_item (
    number INTEGER PRIMARY KEY,
    uri BLOB NOT NULL UNIQUE,
    organization BLOB NOT NULL,
    revision INTEGER NOT NULL,
    place BLOB UNIQUE,
    lies_in BLOB,
    fields TEXT NOT NULL
);
CREATE INDEX record_item_lies_in ON record_item (lies_in) WHERE lies_in IS NOT NULL;
CREATE TABLE record_label (
    label INTEGER NOT NULL,
    item INTEGER NOT NULL,
    PRIMARY KEY (label, item)
) WITHOUT ROWID;
CREATE INDEX record_label_item ON record_label (item, label);
CREATE TABLE record_content (item INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
";
