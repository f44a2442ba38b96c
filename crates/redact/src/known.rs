//! The secrets that this process has read, removed from everything that it shows.
//!
//! They are a property of the process, as its log is: a caller that had to be given them, and was
//! not, would show a secret.

use std::{
    borrow::Cow,
    collections::VecDeque,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::Redactor;

/// Maximum number of secrets that are remembered. An old value may still be shown after it was
/// replaced, so the newest ones are remembered, not only those in use.
const MAX_KNOWN: usize = 256;

static KNOWN: RwLock<Known> = RwLock::new(Known { values: VecDeque::new(), redactor: None });
/// Whether there is any, so that processes without secrets take no lock.
static HAS_ANY: AtomicBool = AtomicBool::new(false);

struct Known {
    /// The oldest first.
    values: VecDeque<String>,
    redactor: Option<Arc<Redactor>>,
}

/// Remembers secrets, which [`without_known_secrets`] removes from now on: the newest 256.
/// [`json_without_secrets`](crate::json_without_secrets) and
/// [`url_without_secrets`](crate::url_without_secrets) remove them, too.
pub fn remember_secrets(values: &[String]) {
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    let before = known.values.len();
    for value in values {
        if !known.values.contains(value) {
            known.values.push_back(value.clone());
        }
    }
    if known.values.len() == before {
        return;
    }
    let surplus = known.values.len().saturating_sub(MAX_KNOWN);
    known.values.drain(..surplus);
    let redactor = Redactor::new(known.values.make_contiguous());
    HAS_ANY.store(!redactor.is_empty(), Ordering::Release);
    known.redactor = Some(Arc::new(redactor));
}

/// Returns a text without the secrets of [`remember_secrets`].
#[must_use]
pub fn without_known_secrets<'t>(text: impl Into<Cow<'t, str>>) -> Cow<'t, str> {
    let text = text.into();
    if !HAS_ANY.load(Ordering::Acquire) {
        return text;
    }
    let redactor = KNOWN.read().unwrap_or_else(PoisonError::into_inner).redactor.clone();
    match redactor {
        Some(redactor) => Cow::Owned(redactor.redact(text.into_owned())),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{json_without_secrets, url_without_secrets};

    /// The only test of this file, since all tests of the crate share the secrets.
    #[test]
    fn secrets_of_the_process_are_removed_from_all_it_shows() {
        assert_eq!(without_known_secrets("known-secret-0"), "known-secret-0");
        remember_secrets(&["known-secret-0".to_owned()]);
        assert_eq!(without_known_secrets("a known-secret-0."), "a ….");
        assert_eq!(url_without_secrets("http://h/known-secret-0/mcp"), "http://h/…/mcp");
        let json = r#"{"x": "known-secret-0"}"#;
        assert_eq!(json_without_secrets(json, &[], "(hidden)"), r#"{"x": "…"}"#);
        // A replaced value is still hidden, until there are too many newer ones.
        remember_secrets(&["known-secret-1".to_owned()]);
        assert_eq!(without_known_secrets("known-secret-0 known-secret-1"), "… …");
        let many: Vec<_> = (2..300).map(|number| format!("known-secret-{number}-x")).collect();
        remember_secrets(&many);
        assert_eq!(without_known_secrets("known-secret-0"), "known-secret-0");
        assert_eq!(without_known_secrets("known-secret-299-x"), "…");
    }
}
