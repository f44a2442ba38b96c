//! Restarts an upstream on request.

use super::{Gateway, UpstreamState, instance_table::Instances, supervise::supervise};

/// Why an upstream is not started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestartRefused {
    /// No upstream has the name.
    #[error("no upstream has this name")]
    Unknown,
    /// The state of the upstream does not allow a restart; the text continues "it …".
    #[error("it {0}")]
    Impossible(&'static str),
}

impl Gateway {
    /// Ends the connection of the upstream `name` and starts it again at once, also if it was given
    /// up. Returns when the restart is ordered; [`Upstream::states`](super::Upstream::states) shows
    /// its progress. Calls in flight behave as after a lost connection. Its instances start again,
    /// too.
    ///
    /// # Errors
    /// Returns an error if there is no such upstream, it is disabled or cannot be used, it is
    /// already starting, or the gateway stops.
    pub fn restart(&self, name: &str) -> Result<(), RestartRefused> {
        let upstreams = self.upstreams();
        let upstream = upstreams
            .iter()
            .find(|upstream| upstream.name() == name)
            .ok_or(RestartRefused::Unknown)?;
        match upstream.state() {
            UpstreamState::Disabled => {
                Err(RestartRefused::Impossible("is disabled in the configuration"))
            }
            UpstreamState::Starting => Err(RestartRefused::Impossible("is already starting")),
            UpstreamState::Stopped => {
                Err(RestartRefused::Impossible("stops with the whole server"))
            }
            UpstreamState::Failed { .. } if !upstream.is_started() => {
                Err(RestartRefused::Impossible("cannot be used as it is configured"))
            }
            UpstreamState::Failed { .. } => {
                let gateway = self.me.upgrade().ok_or(RestartRefused::Unknown)?;
                if !upstream.leave_failed() {
                    return Err(RestartRefused::Impossible("is already starting"));
                }
                self.tasks.spawn(supervise(gateway, upstream.clone()));
                Ok(())
            }
            UpstreamState::Ready(_) | UpstreamState::BackingOff { .. } => {
                for instance in upstream.instances.iter().flat_map(Instances::all) {
                    instance.restart.notify_waiters();
                }
                // Wakes the supervisor if it waits. Unlike `notify_one`, this stores no permit,
                // which would cause another restart later.
                upstream.restart.notify_waiters();
                Ok(())
            }
        }
    }
}
