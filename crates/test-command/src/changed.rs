//! The cases that are not the same in two runs, so that their rates say little about the program.

use std::collections::BTreeMap;

use marquetry_judge::{
    ResultStore, StoreError, TestCase,
    store::{PageRequest, ResultFilter},
};
use serde_json::{Map, Value};

/// Returns the cases of two runs whose definitions differ, by name, with the members that differ.
pub(crate) async fn changed_cases(
    store: &dyn ResultStore,
    before: &str,
    after: &str,
) -> Result<BTreeMap<String, Vec<String>>, StoreError> {
    let before = cases(store, before).await?;
    let after = cases(store, after).await?;
    let both = before.iter().filter_map(|(name, case)| Some((name, case, after.get(name)?)));
    let changed = both.map(|(name, before, after)| (name.clone(), changed_members(before, after)));
    Ok(changed.filter(|(_, members)| !members.is_empty()).collect())
}

/// Returns the cases of a run, by name.
async fn cases(
    store: &dyn ResultStore,
    run: &str,
) -> Result<BTreeMap<String, TestCase>, StoreError> {
    let mut cases = BTreeMap::new();
    let mut filter = ResultFilter::default();
    filter.run = Some(run.to_owned());
    loop {
        let page = store.results(&filter).await?;
        let of_page = page.items.into_iter().map(|result| result.test_case);
        cases.extend(of_page.map(|case| (case.name.clone(), case)));
        let Some(next) = page.next_cursor else { return Ok(cases) };
        filter.page = PageRequest { cursor: Some(next), ..filter.page };
    }
}

/// Returns the names of members of two cases that differ. The number of trials changes no rate.
fn changed_members(before: &TestCase, after: &TestCase) -> Vec<String> {
    let before = members(before);
    let after = members(after);
    let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
    names.filter(|name| before.get(*name) != after.get(*name)).cloned().collect()
}

fn members(case: &TestCase) -> Map<String, Value> {
    let Ok(Value::Object(mut members)) = serde_json::to_value(case) else { return Map::new() };
    members.remove("repetitions");
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(json: Value) -> TestCase {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn members_that_differ_are_named() {
        let before = serde_json::json!({"name": "a", "prompt": "Bake.", "repetitions": 3});
        let check = |change: (&str, Value), want: &[&str]| {
            let mut after = before.clone();
            after[change.0] = change.1;
            assert_eq!(changed_members(&case(before.clone()), &case(after)), want);
        };
        check(("repetitions", 5.into()), &[]);
        check(("prompt", "Cook.".into()), &["prompt"]);
        check(("expectedTools", serde_json::json!([{"name": "oven"}])), &["expectedTools"]);
    }
}
