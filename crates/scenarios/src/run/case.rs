//! A case: one scenario in one cell of its matrix.

use std::{fmt, sync::Arc};

use crate::language::{LoadedScenario, MatrixCell, Scenario};

/// A test: a scenario in one cell of its matrix.
#[derive(Clone, Debug)]
pub struct Case {
    pub(crate) loaded: Arc<LoadedScenario>,
    pub(crate) cell: MatrixCell,
}

/// The cases to run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filter<'a> {
    /// Parts of a case's name (id/transport/revision/store) or file, or seeds (`000/2.1` is its
    /// whole section). A case runs if one of them matches. Without words every case runs.
    pub words: &'a [String],
    /// The words are whole names or seeds.
    pub exact: bool,
    /// A part of the cell's name (transport/revision/store).
    pub cell: Option<&'a str>,
}

impl Case {
    pub(crate) fn scenario(&self) -> &Scenario {
        &self.loaded.scenario
    }
}

/// `id/transport/revision/store`
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.scenario().id, self.cell)
    }
}

impl Filter<'_> {
    pub(crate) fn picks(&self, case: &Case) -> bool {
        let name = case.to_string();
        let seed = case.scenario().seed.as_deref();
        if self.cell.is_some_and(|cell| !case.cell.to_string().contains(cell)) {
            return false;
        }
        self.words.is_empty()
            || self.words.iter().any(|word| {
                if self.exact {
                    return name == *word || case.scenario().id == *word || seed == Some(word);
                }
                name.contains(word.as_str())
                    || case.loaded.file.contains(word.as_str())
                    || seed.is_some_and(|seed| is_below(seed, word))
            })
    }
}

/// Returns whether `seed` is the named test of a seed, or belongs to the named section.
fn is_below(seed: &str, section: &str) -> bool {
    seed.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '/']))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::language::Limits;

    pub(crate) fn cases(id: &str, seed: &str) -> Vec<Case> {
        let yaml = format!(
            "id: {id}\nseed: {seed}\ntitle: t\nsteps: [{{call: x}}]\nexpect: {{artifacts: none}}\n"
        );
        let loaded = Arc::new(LoadedScenario {
            scenario: serde_yaml::from_str(&yaml).unwrap(),
            file: format!("tests/scenarios/{id}.yaml"),
            folder: "tests/scenarios".into(),
        });
        let cells: Vec<_> = loaded.scenario.matrix.cells(&Limits::default()).collect();
        cells.into_iter().map(|cell| Case { loaded: loaded.clone(), cell }).collect()
    }

    #[track_caller]
    fn check(words: &[&str], exact: bool, want: usize) {
        check_in_cell(words, exact, None, want);
    }

    #[track_caller]
    fn check_in_cell(words: &[&str], exact: bool, cell: Option<&str>, want: usize) {
        let words: Vec<_> = words.iter().map(ToString::to_string).collect();
        let filter = Filter { words: &words, exact, cell };
        let all = [cases("one", "000/2.1"), cases("one_more", "000/2.10")].concat();
        assert_eq!(all.iter().filter(|case| filter.picks(case)).count(), want, "{words:?}");
    }

    #[test]
    fn words_pick_by_name_or_seed() {
        check(&[], false, 16);
        check(&["one"], false, 16);
        check(&["scenarios/one."], false, 8);
        check(&["one_more"], false, 8);
        check(&["one/stdio"], false, 4);
        check(&["000"], false, 16);
        check(&["000/2"], false, 16);
        check(&["000/2.1"], false, 8);
        check(&["000/2.1", "memory"], false, 12);
        check(&["nothing"], false, 0);
    }

    #[test]
    fn a_cell_narrows_the_cases_that_words_select() {
        check_in_cell(&["000/2.1"], false, Some("http/2025-11-25"), 2);
        check_in_cell(&["one", "000"], false, Some("memory"), 8);
        check_in_cell(&[], false, Some("sse"), 0);
    }

    #[test]
    fn exact_words_are_whole_names() {
        check(&["one"], true, 8);
        check(&["one/stdio/2025-11-25/memory"], true, 1);
        check(&["one/stdio"], true, 0);
        check(&["000/2.1"], true, 8);
        check(&["000"], true, 0);
    }
}
