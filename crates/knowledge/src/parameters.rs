//! Parameters of `am7://` URIs.

use std::collections::BTreeMap;

use marquetry_context_blocks::Am7Uri;

use crate::failure::Failure;

/// Returns the parameters of a URI by name. A parameter without a value counts as absent, because a
/// template of which a variable is not set has such parameters.
///
/// # Errors
///
/// Returns an error if a parameter is not one of these, or is given twice.
pub(crate) fn parameters(
    uri: &Am7Uri,
    known: &[&str],
) -> Result<BTreeMap<String, String>, Failure> {
    let mut parameters = BTreeMap::new();
    for (name, value) in uri.query_params() {
        if !known.contains(&&*name) {
            let name = &name[..name.floor_char_boundary(100)];
            let form = match known {
                [] => "the URI of an object has none".to_owned(),
                known => format!("this URI may have {}", known.join(", ")),
            };
            return Err(Failure::invalid(format!("unknown parameter {name:?}; {form}")));
        }
        let name = name.into_owned();
        if parameters.contains_key(&name) {
            return Err(Failure::invalid(format!("duplicate parameter {name}")));
        }
        parameters.insert(name, value.into_owned());
    }
    parameters.retain(|_, value| !value.is_empty());
    Ok(parameters)
}
