//! Reads the configuration again while the server runs.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, UNIX_EPOCH},
};

use marquetry_config::{Config, ServerSwitches};
use marquetry_console::{Audience, Console};
use marquetry_gateway::{Applied, Gateway};
use marquetry_inbound_tls::{Refresh, Tls};
use marquetry_oauth::server::ReplaceableAuthenticator;
use marquetry_observe::ServerMetrics;
use marquetry_search_tools::ToolSearch;
use serde_json::json;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::{
    faults::{CONFIGURATION, Faults, TLS},
    health::Health,
    knowledge::Knowledge,
};

/// Time between two looks at the files.
const WATCH: Duration = Duration::from_secs(2);

/// Where the configuration of a running server is read again.
///
/// The methods may block: they run on a thread for blocking work.
pub trait ConfigSource: Send + Sync + 'static {
    /// Reads the configuration, with these servers switched on or off. Returns it with its
    /// warnings.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be used; the message names the file and the place.
    fn read(&self, switches: &ServerSwitches) -> Result<(Config, Vec<String>), String>;

    /// Returns whether a file has changed since it was last read.
    fn has_changed(&self) -> bool;

    /// Is called when the server uses a configuration.
    fn applied(&self, config: &Config) {
        let _ = config;
    }
}

/// What a reload has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reloaded {
    /// The upstreams that have changed.
    pub upstreams: Applied,
    /// Warnings about the configuration, one sentence each.
    pub warnings: Vec<String>,
    /// Changed settings that take effect only at the next start, by their names.
    pub for_next_start: Vec<String>,
}

impl fmt::Display for Reloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Applied { added, removed, stopped, restarted, updated, .. } = &self.upstreams;
        f.write_str("the configuration was read again")?;
        for (what, names) in [
            ("starting", added),
            ("restarting", restarted),
            ("updated", updated),
            ("stopped", stopped),
            ("removed", removed),
        ] {
            if !names.is_empty() {
                write!(f, "; {what} {}", names.join(", "))?;
            }
        }
        if !self.for_next_start.is_empty() {
            write!(f, "; at the next start: {}", self.for_next_start.join(", "))?;
        }
        Ok(())
    }
}

/// Puts a new configuration into a running server.
pub(crate) struct Reloader {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) knowledge: Knowledge,
    pub(crate) health: Arc<Health>,
    pub(crate) faults: Arc<Faults>,
    pub(crate) console: Option<Console>,
    /// Whose tokens are those of `[auth]`; none without it.
    pub(crate) access: Option<Arc<ReplaceableAuthenticator>>,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) search: Arc<ToolSearch>,
    pub(crate) source: Option<Arc<dyn ConfigSource>>,
    pub(crate) metrics: Option<Arc<ServerMetrics>>,
    /// Cancelled when the server shuts down.
    pub(crate) stop: CancellationToken,
    pub(crate) state: Mutex<ReloadState>,
}

/// Locked during a reload, so that an older configuration never replaces a newer one.
pub(crate) struct ReloadState {
    /// The configuration at the start, which settings for the next start are compared with.
    pub(crate) started_with: Config,
    pub(crate) watches_files: bool,
    pub(crate) switches: ServerSwitches,
    /// Ends the reports about the states of upstreams to the console.
    pub(crate) watching: CancellationToken,
}

/// Upstreams that a reload concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReloadScope<'a> {
    /// Everything.
    All,
    /// One upstream alone.
    Only(&'a str),
    /// One upstream alone, which is switched on or off.
    Switch(&'a str, bool),
}

impl Reloader {
    /// Reads the configuration again, and applies it. If it cannot be used, everything stays as it
    /// was.
    ///
    /// # Errors
    /// Returns an error that names the file and the place.
    pub(crate) async fn reload(
        self: Arc<Self>,
        scope: ReloadScope<'_>,
    ) -> Result<Reloaded, String> {
        let (name, switch) = match scope {
            ReloadScope::All => (None, None),
            ReloadScope::Only(name) => (Some(name.to_owned()), None),
            ReloadScope::Switch(name, is_on) => (Some(name.to_owned()), Some(is_on)),
        };
        let reloading =
            tokio::task::spawn_blocking(move || self.reload_now(name.as_deref(), switch));
        reloading.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    fn reload_now(&self, only: Option<&str>, switch: Option<bool>) -> Result<Reloaded, String> {
        let reloaded = self.read_and_apply(only, switch);
        if let Some(metrics) = &self.metrics {
            metrics.reloaded(reloaded.is_ok());
        }
        reloaded
    }

    fn read_and_apply(&self, only: Option<&str>, switch: Option<bool>) -> Result<Reloaded, String> {
        let source = self.source.as_ref().ok_or("this server was started without files to read")?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut switches = state.switches.clone();
        if let (Some(name), Some(is_on)) = (only, switch) {
            switches = switches.with(name, is_on);
        }
        let read = source.read(&switches).and_then(|(config, warnings)| {
            let access = config.resource_server().map_err(|error| error.to_string())?;
            Ok((config, warnings, access))
        });
        let (config, warnings, access) = match read {
            Ok(read) => read,
            Err(problem) => {
                self.faults.raise(CONFIGURATION, problem.clone());
                return Err(problem);
            }
        };
        let mut options = config.gateway_options(&[]);
        self.knowledge.add_sampler(&config, &mut options);
        let mut reloaded = Reloaded { warnings, ..Reloaded::default() };
        if let Some(name) = only {
            let mut found = options.upstreams.into_iter();
            let found = found.find(|upstream| upstream.name == name);
            let found = found.ok_or_else(|| format!("no server is called {name:?}"))?;
            reloaded.upstreams = self.gateway.apply_one(found);
            state.switches = switches;
        } else {
            if let (Some(access), Some(new)) = (&self.access, access) {
                access.replace(Arc::new(new));
            }
            self.gateway.set_policy(options.policy);
            if let Some(approvals) = self.gateway.approvals() {
                config.apply_ask_rules(approvals);
            }
            reloaded.upstreams = self.gateway.apply(options.upstreams);
            reloaded.for_next_start = state.started_with.settings_for_next_start(&config);
            state.watches_files = config.server.reload_on_change;
            // The names of the two tools are reserved at the start, so the mode stays.
            let mut search = config.tools.search.options();
            search.mode = state.started_with.tools.search.options().mode;
            self.search.set_options(search);
            self.refresh_tls();
            source.applied(&config);
        }
        self.health.set_transports(&config);
        if let Some(console) = &self.console {
            state.watching.cancel();
            state.watching = self.stop.child_token();
            watch_upstreams(console, &self.gateway, &state.watching);
        }
        self.faults.clear(CONFIGURATION);
        for warning in &reloaded.warnings {
            tracing::warn!("{warning}");
        }
        for setting in &reloaded.for_next_start {
            tracing::warn!(setting, "the setting has changed and takes effect at the next start");
        }
        tracing::info!("{reloaded}");
        Ok(reloaded)
    }

    /// Reads the files of TLS again.
    fn refresh_tls(&self) {
        let Some(tls) = &self.tls else { return };
        match tls.refresh() {
            Refresh::Unchanged => {}
            Refresh::Replaced => {
                self.faults.clear(TLS);
                self.report_certificate();
                tracing::info!("new connections use the new certificate");
            }
            Refresh::Failed(error) => {
                self.faults.raise(TLS, format!("{error}; the old certificate stays in use"));
            }
        }
    }

    /// Writes the end of the certificate to the metrics.
    fn report_certificate(&self) {
        if let (Some(metrics), Some(tls)) = (&self.metrics, &self.tls)
            && let Ok(since_epoch) = tls.not_after().duration_since(UNIX_EPOCH)
        {
            metrics.set_tls_not_after(since_epoch);
        }
    }

    /// Begins to look at the files, if there are any.
    pub(crate) fn start_watching(self: &Arc<Self>) {
        self.report_certificate();
        if self.source.is_some() || self.tls.is_some() {
            tokio::spawn(self.clone().watch_files());
        }
    }

    /// Looks at the files again and again until the server shuts down.
    async fn watch_files(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(WATCH);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick comes at once.
        ticks.tick().await;
        while self.stop.run_until_cancelled(ticks.tick()).await.is_some() {
            let reloader = self.clone();
            let looked = tokio::task::spawn_blocking(move || {
                reloader.refresh_tls();
                let state = reloader.state.lock().unwrap_or_else(PoisonError::into_inner);
                let watches_files = state.watches_files;
                drop(state);
                let source = reloader.source.as_ref().filter(|_| watches_files);
                if source.is_some_and(|source| source.has_changed()) {
                    // A failure is logged and shown by `/healthz`.
                    _ = reloader.reload_now(None, None);
                }
            });
            _ = looked.await;
        }
    }
}

/// Tells the console's pages when the state of an upstream changes, until the server stops.
pub(crate) fn watch_upstreams(console: &Console, gateway: &Arc<Gateway>, stop: &CancellationToken) {
    for upstream in gateway.upstreams().iter() {
        let console = console.clone();
        // A replaced upstream must not live on here.
        let name = upstream.name().to_owned();
        let stop = stop.clone();
        let mut states = upstream.states();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    changed = states.changed() => if changed.is_err() { return },
                    () = stop.cancelled() => return,
                }
                let mut state = states.borrow_and_update().report();
                state["name"] = json!(name);
                console.events().push("server.state", || Audience::Administrators, || state);
            }
        });
    }
}
