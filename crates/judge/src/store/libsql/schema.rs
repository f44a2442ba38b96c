//! The tables.

use marquetry_database::libsql::Schema;

/// The seed's three tables with its columns and checks (seed 004, "Database Schema"), more columns,
/// and our own tables. JSON stands in columns of type TEXT.
pub(super) static SCHEMA: Schema = Schema {
    settings: "test_setting",
    version: 3,
    tables: "
CREATE TABLE test_setting (name TEXT PRIMARY KEY, value);
CREATE TABLE test_configurations (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  description TEXT,
  server_configs TEXT,
  judge_config TEXT,
  created_at DATETIME DEFAULT CURRENT_TIMESTAMP,
  updated_at DATETIME DEFAULT CURRENT_TIMESTAMP,
  origin TEXT NOT NULL DEFAULT 'derived' CHECK (origin IN ('created', 'derived'))
);
CREATE INDEX test_configurations_by_time ON test_configurations (created_at, id);
CREATE TABLE test_runs (
  id TEXT PRIMARY KEY,
  name TEXT,
  configuration_id TEXT REFERENCES test_configurations(id),
  total_tests INTEGER,
  passed_tests INTEGER,
  failed_tests INTEGER,
  error_tests INTEGER,
  started_at DATETIME DEFAULT CURRENT_TIMESTAMP,
  completed_at DATETIME,
  status TEXT CHECK (status IN ('running', 'completed', 'failed')),
  seen_at DATETIME
);
CREATE TABLE test_results (
  id TEXT PRIMARY KEY,
  test_name TEXT NOT NULL,
  prompt TEXT NOT NULL,
  expected_tools TEXT,
  actual_tools TEXT,
  judge_verdict TEXT,
  created_at DATETIME DEFAULT CURRENT_TIMESTAMP,
  duration_ms INTEGER,
  status TEXT CHECK (status IN ('passed', 'failed', 'error')),
  run_id TEXT REFERENCES test_runs(id),
  test_case TEXT NOT NULL,
  error TEXT,
  tool_accuracy REAL NOT NULL,
  passed_trials INTEGER NOT NULL,
  failed_trials INTEGER NOT NULL,
  error_trials INTEGER NOT NULL
);
CREATE INDEX test_results_by_name ON test_results (test_name, id);
CREATE INDEX test_results_by_run ON test_results (run_id, id);
CREATE TABLE test_trials (
  result_id TEXT NOT NULL REFERENCES test_results(id),
  trial INTEGER NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('passed', 'failed', 'error')),
  error TEXT,
  answer TEXT NOT NULL,
  turns TEXT NOT NULL,
  checks TEXT NOT NULL,
  verdict TEXT NOT NULL,
  usage TEXT NOT NULL,
  work_ms INTEGER NOT NULL,
  duration_ms INTEGER NOT NULL,
  PRIMARY KEY (result_id, trial)
) WITHOUT ROWID;
CREATE TABLE test_calls (
  result_id TEXT NOT NULL REFERENCES test_results(id),
  trial INTEGER NOT NULL,
  call INTEGER NOT NULL,
  tool_name TEXT NOT NULL,
  server_id TEXT NOT NULL,
  parameters TEXT NOT NULL,
  response TEXT NOT NULL,
  execution_time_ms INTEGER NOT NULL,
  success INTEGER NOT NULL CHECK (success IN (0, 1)),
  error TEXT,
  created_at DATETIME NOT NULL,
  PRIMARY KEY (result_id, trial, call)
) WITHOUT ROWID;
CREATE INDEX test_calls_by_tool ON test_calls (tool_name);
CREATE TABLE test_votes (
  result_id TEXT NOT NULL REFERENCES test_results(id),
  trial INTEGER NOT NULL,
  vote INTEGER NOT NULL,
  number INTEGER NOT NULL,
  passed INTEGER NOT NULL CHECK (passed IN (0, 1)),
  answers TEXT NOT NULL,
  reasoning TEXT NOT NULL,
  suggestions TEXT,
  model TEXT NOT NULL,
  prompt_hash TEXT NOT NULL,
  usage TEXT NOT NULL,
  duration_ms INTEGER NOT NULL,
  PRIMARY KEY (result_id, trial, vote)
) WITHOUT ROWID;
CREATE TABLE test_overrides (
  result_id TEXT NOT NULL REFERENCES test_results(id),
  trial INTEGER NOT NULL,
  author TEXT NOT NULL,
  passed INTEGER NOT NULL CHECK (passed IN (0, 1)),
  reason TEXT NOT NULL,
  created_at DATETIME NOT NULL,
  PRIMARY KEY (result_id, trial, author)
) WITHOUT ROWID;
",
    migrations: &[
        (1, "ALTER TABLE test_runs ADD COLUMN seen_at DATETIME;"),
        (
            2,
            "ALTER TABLE test_configurations ADD COLUMN origin TEXT NOT NULL DEFAULT 'derived' \
             CHECK (origin IN ('created', 'derived')); \
             CREATE INDEX test_configurations_by_time ON test_configurations (created_at, id);",
        ),
    ],
};
