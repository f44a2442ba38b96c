#![doc = include_str!("../README.md")]

/// Longest name that is compared, in bytes. A longer one is not a typing error, and the comparison
/// takes time quadratic in its length.
const MAX_BYTES: usize = 100;

/// Returns the known name that `name` most likely means: at most a third of it mistyped, or a part
/// of it missing.
#[must_use]
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    if name.len() > MAX_BYTES {
        return None;
    }
    let name = name.to_lowercase().replace('-', "_");
    known
        .iter()
        .map(|&candidate| {
            (strsim::damerau_levenshtein(&name, &candidate.to_lowercase()), candidate)
        })
        .filter(|(distance, candidate)| *distance <= candidate.len().max(name.len()).div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
        .or_else(|| {
            let parts =
                known.iter().filter(|k| name.len() >= 4 && k.to_lowercase().contains(&name));
            let mut parts = parts.copied();
            // With two matches, the hint would be a guess.
            parts.next().filter(|_| parts.next().is_none())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_names_are_near() {
        let known = ["listen", "allowed_hosts", "allowed_origins"];
        assert_eq!(nearest("lisen", &known), Some("listen"));
        assert_eq!(nearest("allowed-hosts", &known), Some("allowed_hosts"));
        assert_eq!(nearest("hosts", &known), Some("allowed_hosts"));
        assert_eq!(nearest("allowed", &known), None);
        assert_eq!(nearest("colour", &known), None);
        assert_eq!(nearest(&"listen".repeat(20), &known), None);
    }
}
