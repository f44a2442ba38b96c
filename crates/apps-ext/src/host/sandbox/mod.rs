//! The sandbox of a View: attributes of its frame, and its content security policy.

mod origin;
mod policy;

use serde::Serialize;

pub use self::origin::OriginError;
use self::{
    origin::{CONNECTION_SCHEMES, Origin, RESOURCE_SCHEMES},
    policy::{PolicyInput, policy},
};
use crate::types::{Csp, Permission, Permissions, SandboxCapability, UiResourceMeta};

/// The `sandbox` attribute of a View's frame if the View has no separate origin. Scripts run, and
/// the browser gives the document an opaque origin, so that it cannot reach the proxy around it,
/// storage or other Views. Forms fire `submit` events, but the policy forbids sending them.
///
/// The reference design adds `allow-same-origin`. Measurements showed that such a View can script
/// the proxy, forge its messages, and load itself again under a looser policy.
pub const DEFAULT_SANDBOX_ATTRIBUTE: &str = "allow-scripts allow-forms";

/// The rules that a browser enforces for a View, derived from its metadata: a policy header, and
/// the attributes of its frame.
///
/// ```
/// use marquetry_apps_ext::{host::{Sandbox, SandboxOptions}, types::UiResourceMeta};
///
/// let ui = serde_json::json!({ "csp": { "connectDomains": ["https://api.example", "*; script-src *"] } });
/// let (meta, _) = UiResourceMeta::parse(&ui);
/// let (sandbox, problems) = Sandbox::new(&meta, &SandboxOptions::default());
/// assert!(sandbox.policy().contains("connect-src https://api.example;"));
/// assert_eq!(problems.iter().filter(|it| !it.is_notice()).count(), 1);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Sandbox {
    policy: String,
    attribute: &'static str,
    granted: SandboxCapability,
}

/// A host's rules for all Views.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SandboxOptions {
    /// The permissions that the host grants to Views that ask for them.
    pub permissions: Permissions,
    /// The origins of the pages that may embed the sandbox proxy in a frame, for example
    /// `http://127.0.0.1:8080`. If empty, no page may embed it.
    pub frame_ancestors: Vec<String>,
    /// The only origins that Views may name; `None` allows all.
    pub allowed_origins: Option<Vec<String>>,
    /// Whether the proxy's origin belongs to this View alone, so that the View may use the same
    /// origin.
    pub has_own_origin: bool,
}

/// A part of a View's metadata that was not used, or that a person should see.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxProblem {
    /// An origin is not valid or not allowed.
    #[error("{member} has {origin:?}, which is left out: {error}")]
    Origin {
        /// The member of `csp`, or `frame_ancestors` of the host's options.
        member: &'static str,
        /// The start of the origin, as the server wrote it.
        origin: String,
        /// The reason.
        error: OriginError,
    },
    /// A list has too many origins.
    #[error("{member} of the View has {count} origins; those after the first {max} are left out")]
    TooMany {
        /// The member of `csp`.
        member: &'static str,
        /// Number of origins in the list.
        count: usize,
        /// Largest allowed number.
        max: usize,
    },
    /// The View may connect to another host.
    #[error("the View may reach {origin} ({member})")]
    External {
        /// The member of `csp`.
        member: &'static str,
        /// The origin of that host.
        origin: String,
    },
    /// The host does not grant a permission.
    #[error("the View asks for {permission}, which the host does not grant")]
    Permission {
        /// Name of the permission.
        permission: &'static str,
    },
}

impl SandboxProblem {
    /// Returns whether this is only information on what the View may do, and not a fault of the
    /// metadata.
    #[must_use]
    pub fn is_notice(&self) -> bool {
        matches!(self, Self::External { .. })
    }
}

/// A View for a sandbox proxy: the parameters of `ui/notifications/sandbox-resource-ready`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SandboxResource {
    /// The HTML document.
    pub html: String,
    /// The `sandbox` attribute of the View's frame.
    pub sandbox: String,
    /// The origins that the View may reach. The header of the proxy enforces them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csp: Option<Csp>,
    /// The permissions that the View gets.
    pub permissions: Permissions,
}

/// Maximum number of origins in one list, so that the header stays short.
const MAX_ORIGINS: usize = 50;

/// Sources that name bytes of the View itself.
const LOCAL_SOURCES: [&str; 2] = ["data:", "blob:"];

impl Sandbox {
    /// Creates the sandbox for a View's metadata. The problems name each origin and permission that
    /// is not used, and each origin outside of this machine.
    #[must_use]
    pub fn new(meta: &UiResourceMeta, options: &SandboxOptions) -> (Self, Vec<SandboxProblem>) {
        let mut problems = Vec::new();
        let csp = meta.csp.as_ref().map(|csp| {
            let mut check = OriginCheck { options, problems: &mut problems };
            Csp {
                connect_domains: check.connections("connectDomains", &csp.connect_domains),
                resource_domains: check.resources("resourceDomains", &csp.resource_domains),
                frame_domains: check.documents("frameDomains", &csp.frame_domains),
                base_uri_domains: check.documents("baseUriDomains", &csp.base_uri_domains),
            }
        });
        let asked = meta.permissions.unwrap_or_default();
        let permissions = asked.intersection(options.permissions);
        let denied = asked.iter().filter(|it| !permissions.has(*it));
        problems.extend(denied.map(|it| SandboxProblem::Permission { permission: it.member() }));
        let mut ancestors = Vec::new();
        for origin in &options.frame_ancestors {
            match Origin::parse(origin, RESOURCE_SCHEMES) {
                Ok(origin) => ancestors.push(origin.to_string()),
                Err(error) => problems.push(SandboxProblem::Origin {
                    member: "frame_ancestors",
                    origin: marquetry_protocol::shortened(origin).to_owned(),
                    error,
                }),
            }
        }
        let sandbox = Self {
            policy: policy(&PolicyInput { csp: csp.as_ref(), frame_ancestors: &ancestors }),
            attribute: if options.has_own_origin {
                "allow-scripts allow-forms allow-same-origin"
            } else {
                DEFAULT_SANDBOX_ATTRIBUTE
            },
            granted: SandboxCapability { permissions, csp },
        };
        (sandbox, problems)
    }

    /// Returns the value of the header `Content-Security-Policy` of the sandbox proxy. The View's
    /// document inherits it. A `<meta>` element within the View is not sufficient, because the View
    /// could navigate to a page without it.
    #[must_use]
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// Returns the `allow` attribute. Set it on the frame of the proxy and on the frame of the
    /// View.
    #[must_use]
    pub fn allow_attribute(&self) -> String {
        let features: Vec<_> = self.granted.permissions.iter().map(Permission::feature).collect();
        features.join("; ")
    }

    /// Returns the `sandbox` attribute of the View's frame.
    #[must_use]
    pub fn sandbox_attribute(&self) -> &'static str {
        self.attribute
    }

    /// Returns the granted origins and permissions, for `hostCapabilities.sandbox`.
    #[must_use]
    pub fn granted(&self) -> &SandboxCapability {
        &self.granted
    }

    /// Returns the parameters for the sandbox proxy, with this HTML document.
    #[must_use]
    pub fn resource(&self, html: impl Into<String>) -> SandboxResource {
        SandboxResource {
            html: html.into(),
            sandbox: self.attribute.to_owned(),
            csp: self.granted.csp.clone(),
            permissions: self.granted.permissions,
        }
    }
}

/// Checks the origins that a View asks for.
struct OriginCheck<'a> {
    options: &'a SandboxOptions,
    problems: &'a mut Vec<SandboxProblem>,
}

impl OriginCheck<'_> {
    fn connections(&mut self, member: &'static str, origins: &[String]) -> Vec<String> {
        self.with_local(member, origins, CONNECTION_SCHEMES)
    }

    fn resources(&mut self, member: &'static str, origins: &[String]) -> Vec<String> {
        self.with_local(member, origins, RESOURCE_SCHEMES)
    }

    fn documents(&mut self, member: &'static str, origins: &[String]) -> Vec<String> {
        self.check(member, origins, RESOURCE_SCHEMES)
    }

    /// Checks origins, among which may be `data:` and `blob:`: bytes of the View itself, which
    /// reach no host.
    fn with_local(
        &mut self,
        member: &'static str,
        origins: &[String],
        schemes: &[&'static str],
    ) -> Vec<String> {
        let (local, hosts): (Vec<String>, Vec<String>) =
            origins.iter().cloned().partition(|it| LOCAL_SOURCES.contains(&it.as_str()));
        let mut checked = self.check(member, &hosts, schemes);
        checked
            .extend(LOCAL_SOURCES.map(str::to_owned).into_iter().filter(|it| local.contains(it)));
        checked
    }

    fn check(
        &mut self,
        member: &'static str,
        origins: &[String],
        schemes: &[&'static str],
    ) -> Vec<String> {
        let Self { options, problems } = self;
        if origins.len() > MAX_ORIGINS {
            let count = origins.len();
            problems.push(SandboxProblem::TooMany { member, count, max: MAX_ORIGINS });
        }
        let mut checked = Vec::new();
        for text in origins.iter().take(MAX_ORIGINS) {
            let parsed = Origin::parse(text, schemes).and_then(|origin| {
                let is_allowed = options.allowed_origins.as_ref().is_none_or(|allowed| {
                    allowed.iter().any(|it| {
                        Origin::parse(it, CONNECTION_SCHEMES).is_ok_and(|it| it == origin)
                    })
                });
                if is_allowed { Ok(origin) } else { Err(OriginError::NotAllowed) }
            });
            match parsed {
                Ok(origin) => {
                    if !origin.is_loopback() {
                        let origin = origin.to_string();
                        problems.push(SandboxProblem::External { member, origin });
                    }
                    checked.push(origin.to_string());
                }
                Err(error) => {
                    let origin = marquetry_protocol::shortened(text).to_owned();
                    problems.push(SandboxProblem::Origin { member, origin, error });
                }
            }
        }
        checked
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sandbox(ui: serde_json::Value, options: &SandboxOptions) -> (Sandbox, Vec<String>) {
        let (sandbox, problems) = Sandbox::new(&UiResourceMeta::parse(&ui).0, options);
        (sandbox, problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn permissions_need_both_sides() {
        use crate::types::Permission::{Camera, ClipboardWrite, Microphone};
        let ui = json!({ "permissions": { "camera": {}, "clipboardWrite": {} } });
        let permissions = [Camera, ClipboardWrite, Microphone].into_iter().collect();
        let options = SandboxOptions { permissions, ..SandboxOptions::default() };
        let (both, problems) = sandbox(ui.clone(), &options);
        assert_eq!(
            (both.allow_attribute().as_str(), problems.len()),
            ("camera; clipboard-write", 0)
        );
        let (none, problems) = sandbox(ui, &SandboxOptions::default());
        assert_eq!((none.allow_attribute().as_str(), problems.len()), ("", 2));
        assert_eq!(problems[0], "the View asks for camera, which the host does not grant");
    }

    #[test]
    fn lists_are_bounded_and_allowed_origins_apply() {
        let ui = json!({ "csp": { "connectDomains": vec!["https://a.example"; 60] } });
        let (_, problems) = sandbox(ui, &SandboxOptions::default());
        assert_eq!(problems.len(), 1 + 50);
        let ui = json!({ "csp": { "connectDomains": ["https://a.example", "https://b.example"] } });
        let options = SandboxOptions {
            allowed_origins: Some(vec!["https://b.example".into()]),
            ..SandboxOptions::default()
        };
        let (sandbox, problems) = sandbox(ui, &options);
        assert!(
            sandbox.policy().contains("connect-src https://b.example;"),
            "{}",
            sandbox.policy()
        );
        assert!(
            problems[0].contains("the host does not allow this origin for Views"),
            "{problems:?}"
        );
    }

    #[test]
    fn bytes_of_the_view_itself_may_be_declared() {
        let ui = json!({ "csp": {
            "resourceDomains": ["blob:", "https://r.example", "data:", "blob:", "filesystem:"],
            "connectDomains": ["data:"],
            "frameDomains": ["data:"],
        }});
        let (sandbox, problems) = sandbox(ui, &SandboxOptions::default());
        let policy = sandbox.policy();
        for directive in [
            "style-src 'self' 'unsafe-inline' https://r.example data: blob:;",
            "script-src 'self' 'unsafe-inline' data: blob: https://r.example;",
            "connect-src data:;",
            "frame-src 'none';",
        ] {
            assert!(policy.contains(directive), "{directive} in {policy}");
        }
        let left_out = problems.iter().filter(|it| it.contains("left out"));
        assert_eq!(left_out.count(), 2, "filesystem: and a frame: {problems:?}");
    }

    #[test]
    fn a_view_is_opaque_unless_the_origin_is_its_own() {
        let own = SandboxOptions { has_own_origin: true, ..SandboxOptions::default() };
        let (opaque, _) = sandbox(json!({}), &SandboxOptions::default());
        assert_eq!(opaque.sandbox_attribute(), "allow-scripts allow-forms");
        let (with_origin, _) = sandbox(json!({}), &own);
        assert!(with_origin.sandbox_attribute().contains("allow-same-origin"));
    }
}
