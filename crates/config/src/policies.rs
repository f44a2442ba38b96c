//! Policies of `[artifacts]` that can never apply.

use marquetry_artifacts::{glob::Glob, settings::CapturePolicy};
use marquetry_nearest::nearest;

use crate::Config;

impl Config {
    /// Returns a warning for each policy in `artifacts.policies` that can never apply: no server
    /// has such a name, or earlier policies match all its tools.
    pub fn unused_policies(&self) -> Vec<String> {
        let policies = self.artifacts.policies.iter().enumerate();
        policies
            .filter_map(|(index, policy)| {
                let problem = self.why_unused(policy, &self.artifacts.policies[..index])?;
                Some(self.fault(&format!("artifacts.policies[{index}]"), problem).to_string())
            })
            .collect()
    }

    fn why_unused(&self, policy: &CapturePolicy, earlier: &[CapturePolicy]) -> Option<String> {
        let CapturePolicy { server, tool, .. } = policy;
        if tool.as_str().is_empty() {
            return Some(
                "\"tool\" is empty; expected a name or a pattern such as \"read_*\"".into(),
            );
        }
        let names: Vec<&str> = self.mcp_servers.keys().map(String::as_str).collect();
        let matching: Vec<&str> =
            names.iter().copied().filter(|name| server.matches(name)).collect();
        let is_any = server.covers(&Glob::default());
        if matching.is_empty() && !is_any {
            let hint = nearest(server.as_str(), &names)
                .map(|name| format!("; did you mean {name:?}?"))
                .unwrap_or_default();
            return Some(format!("no server is named {:?}{hint}", server.as_str()));
        }
        let first = earlier.iter().position(|it| it.server.covers(server) && it.tool.covers(tool));
        if let Some(index) = first {
            return Some(format!(
                "never applies, because artifacts.policies[{index}] matches the same tools first"
            ));
        }
        let is_shadowed = !matching.is_empty()
            && matching.iter().all(|name| {
                earlier.iter().any(|it| it.server.matches(name) && it.tool.covers(tool))
            });
        is_shadowed.then(|| {
            format!(
                "never applies to {}, because earlier policies match the same tools first",
                matching.join(", ")
            )
        })
    }
}
