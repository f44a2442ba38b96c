//! Annotations of content items and resources.

use serde::{Deserialize, Deserializer, Serialize};

use super::role::Role;

/// The intended audience of an item, and its importance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    /// Roles that the item is intended for. Unknown values are left out.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "known_roles")]
    pub audience: Option<Vec<Role>>,
    /// Importance, from 0 (may be left out) to 1 (required).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<f64>,
    /// Time of the item's last change, ISO 8601.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
}

/// Leaves out unknown roles, so that they do not hide the item.
fn known_roles<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Role>>, D::Error> {
    let values = Option::<Vec<serde_json::Value>>::deserialize(deserializer)?;
    Ok(values
        .map(|values| values.iter().filter_map(|value| Role::deserialize(value).ok()).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_audience_is_left_out() {
        let both = read(r#"{"audience":["user","robot","assistant"]}"#);
        assert_eq!(both.audience, Some(vec![Role::User, Role::Assistant]));
        let text = serde_json::to_string(&both).unwrap();
        assert_eq!(text, r#"{"audience":["user","assistant"]}"#);
        assert_eq!(read("{}").audience, None);
        assert_eq!(read(r#"{"audience":["robot"]}"#).audience, Some(vec![]));
    }

    fn read(json: &str) -> Annotations {
        serde_json::from_str(json).unwrap()
    }
}
