//! The metadata of a View: origins, permissions and display preferences.

use std::fmt;

use marquetry_protocol::types::JsonObject;
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::SerializeMap};
use serde_json::Value;

use super::UI_META_KEY;

/// The metadata of a View, `_meta.ui` of its resource: origins, permissions, and display
/// preferences.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UiResourceMeta {
    /// The origins that the View may reach. Without them, the restrictive default applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csp: Option<Csp>,
    /// The permissions that the View asks for. The host grants all, some or none of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    /// The separate origin that the View asks for. Each host defines the format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// Whether the View wants a border and a background; without this, the host decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefers_border: Option<bool>,
}

impl UiResourceMeta {
    /// Parses `_meta.ui`, and reports up to 20 members of a wrong type. All such members count as
    /// absent. Unknown members are ignored.
    #[must_use]
    pub fn parse(ui: &Value) -> (Self, Vec<MetaProblem>) {
        let mut reader = MetaReader { problems: Vec::new() };
        let meta = reader.resource_meta(ui);
        (meta, reader.problems)
    }

    /// Returns the metadata of a View from the `_meta` of its content item, or else of its listing.
    /// The two are not merged.
    #[must_use]
    pub fn choose<'a>(
        listing: Option<&'a JsonObject>,
        content: Option<&'a JsonObject>,
    ) -> Option<&'a Value> {
        fn ui(meta: Option<&JsonObject>) -> Option<&Value> {
            meta.and_then(|it| it.get(UI_META_KEY)).filter(|it| !it.is_null())
        }
        ui(content).or_else(|| ui(listing))
    }

    /// Returns the metadata as `_meta`; empty if no member is set.
    #[must_use]
    pub fn to_meta(&self) -> JsonObject {
        let mut meta = JsonObject::new();
        if *self != Self::default() {
            meta.insert(UI_META_KEY.to_owned(), serde_json::json!(self));
        }
        meta
    }

    /// Sets the origins that the View may reach.
    #[must_use]
    pub fn with_csp(mut self, csp: Csp) -> Self {
        self.csp = Some(csp);
        self
    }

    /// Sets the permissions that the View asks for.
    #[must_use]
    pub fn with_permissions(mut self, permissions: Permissions) -> Self {
        self.permissions = Some(permissions);
        self
    }

    /// Asks for a separate origin.
    #[must_use]
    pub fn with_domain(mut self, domain: impl Into<String>) -> Self {
        self.domain = Some(domain.into());
        self
    }

    /// Sets whether the View wants a border.
    #[must_use]
    pub fn with_prefers_border(mut self, prefers_border: bool) -> Self {
        self.prefers_border = Some(prefers_border);
        self
    }
}

/// Parses as [`UiResourceMeta::parse`] does, and drops the problems.
impl<'de> Deserialize<'de> for UiResourceMeta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::parse(&Value::deserialize(deserializer)?).0)
    }
}

/// The origins that a View may reach, as the server wrote them: `host::Sandbox` checks each before
/// it uses it. An empty list adds no origin to those that the policy always allows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Csp {
    /// For `fetch`, `XMLHttpRequest` and WebSockets (`connect-src`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub connect_domains: Vec<String>,
    /// For scripts, styles, pictures, fonts and media; `https://*.example.com` is allowed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_domains: Vec<String>,
    /// For frames within the View (`frame-src`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frame_domains: Vec<String>,
    /// For the base of relative URLs (`base-uri`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub base_uri_domains: Vec<String>,
}

/// Members of a wrong type count as absent.
impl<'de> Deserialize<'de> for Csp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Ok(MetaReader { problems: Vec::new() }.csp(Some(&value)).unwrap_or_default())
    }
}

/// A permission that a View may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Permission {
    /// The camera.
    Camera,
    /// The microphone.
    Microphone,
    /// The location of the device.
    Geolocation,
    /// Writing to the clipboard.
    ClipboardWrite,
}

impl Permission {
    /// All permissions.
    pub const ALL: &[Self] =
        &[Self::Camera, Self::Microphone, Self::Geolocation, Self::ClipboardWrite];

    /// Returns the name of the member of `permissions`.
    #[must_use]
    pub fn member(self) -> &'static str {
        match self {
            Self::Camera => "camera",
            Self::Microphone => "microphone",
            Self::Geolocation => "geolocation",
            Self::ClipboardWrite => "clipboardWrite",
        }
    }

    /// Returns the name of the feature in a browser's permissions policy.
    #[must_use]
    pub fn feature(self) -> &'static str {
        match self {
            Self::ClipboardWrite => "clipboard-write",
            other => other.member(),
        }
    }
}

/// A set of permissions. In JSON, each permission is a member with an empty object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Permissions(u8);

impl Permissions {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Returns whether the permission is in the set.
    #[must_use]
    pub fn has(self, permission: Permission) -> bool {
        self.0 & (1 << permission as u8) != 0
    }

    /// Returns the set with this permission added.
    #[must_use]
    pub fn with(self, permission: Permission) -> Self {
        Self(self.0 | (1 << permission as u8))
    }

    /// Returns the permissions that are in both sets.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// Iterates over the permissions in the set.
    pub fn iter(self) -> impl Iterator<Item = Permission> {
        Permission::ALL.iter().copied().filter(move |it| self.has(*it))
    }
}

impl FromIterator<Permission> for Permissions {
    fn from_iter<I: IntoIterator<Item = Permission>>(permissions: I) -> Self {
        permissions.into_iter().fold(Self::NONE, Self::with)
    }
}

impl Serialize for Permissions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for permission in self.iter() {
            map.serialize_entry(permission.member(), &JsonObject::new())?;
        }
        map.end()
    }
}

/// Members of a wrong type count as absent.
impl<'de> Deserialize<'de> for Permissions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Ok(MetaReader { problems: Vec::new() }.permissions(Some(&value)).unwrap_or_default())
    }
}

/// A member of a View's metadata that has a wrong type and counts as absent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetaProblem {
    /// Path of the member, for example `csp.connectDomains[1]`; empty for `_meta.ui` itself.
    pub member: String,
    /// The expected type.
    pub expected: &'static str,
}

impl fmt::Display for MetaProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.member.is_empty() { "" } else { "." };
        write!(formatter, "_meta.ui{dot}{} is not {}", self.member, self.expected)
    }
}

/// Maximum number of problems that are reported for one View. A server can send an array of any
/// length.
const MAX_PROBLEMS: usize = 20;

/// Reads metadata, and collects the problems.
struct MetaReader {
    problems: Vec<MetaProblem>,
}

impl MetaReader {
    fn resource_meta(&mut self, ui: &Value) -> UiResourceMeta {
        let Some(ui) = ui.as_object() else {
            self.report("", "an object");
            return UiResourceMeta::default();
        };
        let domain = ui.get("domain").filter(|it| !it.is_null());
        let prefers_border = ui.get("prefersBorder").filter(|it| !it.is_null());
        UiResourceMeta {
            csp: self.csp(ui.get("csp")),
            permissions: self.permissions(ui.get("permissions")),
            domain: self.typed("domain", "a string", domain, Value::as_str).map(ToOwned::to_owned),
            prefers_border: self.typed(
                "prefersBorder",
                "true or false",
                prefers_border,
                Value::as_bool,
            ),
        }
    }

    fn csp(&mut self, value: Option<&Value>) -> Option<Csp> {
        let value = value.filter(|it| !it.is_null());
        let csp = self.typed("csp", "an object", value, Value::as_object)?;
        Some(Csp {
            connect_domains: self.origins(csp, "connectDomains"),
            resource_domains: self.origins(csp, "resourceDomains"),
            frame_domains: self.origins(csp, "frameDomains"),
            base_uri_domains: self.origins(csp, "baseUriDomains"),
        })
    }

    fn origins(&mut self, csp: &JsonObject, member: &str) -> Vec<String> {
        let name = format!("csp.{member}");
        let value = csp.get(member).filter(|it| !it.is_null());
        let items = self.typed(&name, "an array", value, Value::as_array);
        let mut origins = Vec::new();
        for (index, item) in items.into_iter().flatten().enumerate() {
            match item.as_str() {
                Some(origin) => origins.push(origin.to_owned()),
                None => self.report(&format!("{name}[{index}]"), "a string"),
            }
        }
        origins
    }

    fn permissions(&mut self, value: Option<&Value>) -> Option<Permissions> {
        let value = value.filter(|it| !it.is_null());
        let members = self.typed("permissions", "an object", value, Value::as_object)?;
        let mut permissions = Permissions::NONE;
        for &permission in Permission::ALL {
            match members.get(permission.member()) {
                None | Some(Value::Null) => {}
                Some(Value::Object(_)) => permissions = permissions.with(permission),
                Some(_) => {
                    self.report(&format!("permissions.{}", permission.member()), "an object");
                }
            }
        }
        Some(permissions)
    }

    /// Reads a value by `read`, and reports it if it has another type. An absent value is none.
    fn typed<'a, T>(
        &mut self,
        member: &str,
        expected: &'static str,
        value: Option<&'a Value>,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Option<T> {
        let found = read(value?);
        if found.is_none() {
            self.report(member, expected);
        }
        found
    }

    fn report(&mut self, member: &str, expected: &'static str) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(MetaProblem { member: member.to_owned(), expected });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_is_read_and_written() {
        let ui = json!({
            "csp": {
                "connectDomains": ["https://a.example", "wss://b.example"],
                "resourceDomains": ["https://*.c.example"],
                "frameDomains": ["https://d.example"],
                "baseUriDomains": ["https://e.example"],
            },
            "permissions": { "camera": {}, "microphone": {}, "geolocation": {}, "clipboardWrite": {} },
            "domain": "a.b.example",
            "prefersBorder": false,
        });
        let (meta, problems) = UiResourceMeta::parse(&ui);
        assert_eq!(problems, []);
        assert_eq!(serde_json::to_value(&meta).unwrap(), ui);
        assert_eq!(meta.to_meta()["ui"], ui);
        assert!(UiResourceMeta::default().to_meta().is_empty());
    }

    #[test]
    fn absent_members_stay_absent() {
        let ui = json!({ "csp": {}, "permissions": { "camera": {}, "midi": {} }, "domain": null });
        let (meta, problems) = UiResourceMeta::parse(&ui);
        assert_eq!(problems, []);
        let again = serde_json::to_value(&meta).unwrap();
        assert_eq!(again, json!({ "csp": {}, "permissions": { "camera": {} } }));
    }

    #[test]
    fn members_of_a_wrong_type_are_reported_and_allow_nothing() {
        let ui = json!({
            "csp": { "connectDomains": "*", "resourceDomains": ["https://a", null, ["b"]] },
            "permissions": { "camera": true, "geolocation": {} },
            "domain": 7,
            "prefersBorder": 1,
        });
        let (meta, problems) = UiResourceMeta::parse(&ui);
        let csp = meta.csp.unwrap();
        assert_eq!(
            (csp.connect_domains.len(), &*csp.resource_domains),
            (0, &["https://a".into()][..])
        );
        assert_eq!(meta.permissions, Some(Permissions::NONE.with(Permission::Geolocation)));
        assert_eq!((meta.domain, meta.prefers_border), (None, None));
        let shown: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "_meta.ui.csp.connectDomains is not an array",
                "_meta.ui.csp.resourceDomains[1] is not a string",
                "_meta.ui.csp.resourceDomains[2] is not a string",
                "_meta.ui.permissions.camera is not an object",
                "_meta.ui.domain is not a string",
                "_meta.ui.prefersBorder is not true or false",
            ]
        );
        assert_eq!(UiResourceMeta::parse(&json!([])).1.len(), 1);
        let many = json!({ "csp": { "connectDomains": vec![0; 1_000] } });
        assert_eq!(UiResourceMeta::parse(&many).1.len(), MAX_PROBLEMS);
    }

    #[test]
    fn the_content_item_wins_as_a_whole() {
        fn object(value: Value) -> JsonObject {
            value.as_object().unwrap().clone()
        }
        let listing = object(json!({ "ui": { "prefersBorder": true, "domain": "a" } }));
        let content = object(json!({ "ui": { "domain": "b" } }));
        let bare = object(json!({ "other": 1 }));
        let choose = UiResourceMeta::choose;
        assert_eq!(choose(Some(&listing), Some(&content)), Some(&json!({ "domain": "b" })));
        assert_eq!(choose(Some(&listing), Some(&bare)), listing.get("ui"));
        assert_eq!(choose(Some(&listing), None), listing.get("ui"));
        assert_eq!(choose(None, Some(&bare)), None);
    }

    #[test]
    fn permissions_are_a_set() {
        let asked: Permissions =
            [Permission::Camera, Permission::ClipboardWrite].into_iter().collect();
        let granted =
            Permissions::NONE.with(Permission::ClipboardWrite).with(Permission::Microphone);
        let both = asked.intersection(granted);
        assert_eq!(both.iter().collect::<Vec<_>>(), [Permission::ClipboardWrite]);
        assert_eq!(serde_json::to_value(both).unwrap(), json!({ "clipboardWrite": {} }));
        assert!(Permissions::NONE.is_empty() && !both.is_empty());
    }
}
