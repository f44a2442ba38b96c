//! Journal of the requests of an upstream, so that a restarted one continues where it was.

use std::{
    collections::HashMap,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use serde_json::{Value, json};

/// The calls of one upstream, each as a JSON object on one line: `{"tool": …, "arguments": …}`,
/// `{"cancelled": …}`, or `{"asked": …, "answer": …}`.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    counts: Mutex<HashMap<String, usize>>,
}

impl Journal {
    /// Opens the journal at `path`, or creates it.
    ///
    /// # Errors
    ///
    /// Returns an error if the journal cannot be read.
    pub fn open(path: PathBuf) -> io::Result<Self> {
        let journal = Self { path, counts: Mutex::default() };
        let mut counts = HashMap::new();
        for call in journal.calls()? {
            if let Some(tool) = call["tool"].as_str() {
                *counts.entry(tool.to_owned()).or_default() += 1;
            }
        }
        *journal.counts.lock().unwrap_or_else(PoisonError::into_inner) = counts;
        Ok(journal)
    }

    /// Records a call, and returns how many earlier calls the tool had.
    pub(crate) fn record(&self, tool: &str, arguments: &Value) -> io::Result<usize> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        let line = format!("{}\n", json!({ "tool": tool, "arguments": arguments }));
        file.write_all(line.as_bytes())?;
        let count = counts.entry(tool.to_owned()).or_default();
        *count += 1;
        Ok(*count - 1)
    }

    /// Records the agent's answer to a question.
    pub(crate) fn record_answer(&self, asked: &str, answer: &Value) -> io::Result<()> {
        let _turn = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        let line = format!("{}\n", json!({ "asked": asked, "answer": answer }));
        file.write_all(line.as_bytes())
    }

    /// Records that the agent cancelled a call.
    pub(crate) fn record_cancelled(&self, tool: &str) -> io::Result<()> {
        let _turn = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        file.write_all(format!("{}\n", json!({ "cancelled": tool })).as_bytes())
    }

    /// Returns all calls so far.
    ///
    /// # Errors
    ///
    /// Returns an error if the journal cannot be read.
    pub fn calls(&self) -> io::Result<Vec<Value>> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        text.lines().map(|line| serde_json::from_str(line).map_err(io::Error::other)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_continues_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls");
        let journal = Journal::open(path.clone()).unwrap();
        assert_eq!(journal.record("a", &json!({"x": 1})).unwrap(), 0);
        assert_eq!(journal.record("b", &json!({})).unwrap(), 0);
        let journal = Journal::open(path).unwrap();
        assert_eq!(journal.record("a", &json!({})).unwrap(), 1);
        assert_eq!(
            journal.calls().unwrap(),
            [
                json!({"tool": "a", "arguments": {"x": 1}}),
                json!({"tool": "b", "arguments": {}}),
                json!({"tool": "a", "arguments": {}}),
            ]
        );
    }
}
