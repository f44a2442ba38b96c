//! The files and arguments of a running server, which are read again when they change.

use std::{
    collections::{BTreeMap, hash_map::DefaultHasher},
    fs,
    hash::{Hash as _, Hasher as _},
    net::IpAddr,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use marquetry_config::{Config, Input, Loaded, ServerSwitches};
use marquetry_program_log as program_log;

use super::{ConfigArgs, Failure, ServeArgs, problems, prompt};
use crate::ConfigSource;

/// The arguments of `marquetry serve` or `marquetry stdio`.
pub(super) struct ServerSource {
    arguments: SourceArgs,
    /// The program that supervises upstreams.
    guard: Option<PathBuf>,
    /// The file that was found at the start, unless one is named.
    found: Option<PathBuf>,
    /// Values that were typed at the start. A running server does not ask again.
    answers: Mutex<BTreeMap<String, String>>,
    /// The hash of the files when they were last read.
    seen: Mutex<u64>,
}

/// The arguments of a server.
#[derive(Clone)]
pub(super) enum SourceArgs {
    Serve(ServeArgs),
    Stdio(ConfigArgs),
}

impl SourceArgs {
    fn config(&self) -> &ConfigArgs {
        match self {
            Self::Serve(arguments) => &arguments.config,
            Self::Stdio(arguments) => arguments,
        }
    }
}

impl ServerSource {
    /// Reads the configuration for the first time. Values may be asked for on the terminal.
    pub(super) fn load(
        arguments: SourceArgs,
        guard: Option<PathBuf>,
    ) -> Result<(Self, Loaded), Failure> {
        let mut source = Self {
            arguments,
            guard,
            found: None,
            answers: Mutex::default(),
            seen: Mutex::default(),
        };
        // Before the files are read, so that a change meanwhile is noticed.
        source.seen = Mutex::new(source.hash());
        let ask = |input: &Input| {
            let answer = prompt::ask(input)?;
            let mut answers = source.answers.lock().unwrap_or_else(PoisonError::into_inner);
            answers.insert(input.id.clone(), answer.clone());
            Some(answer)
        };
        let loaded = match &source.arguments {
            SourceArgs::Serve(arguments) => {
                arguments.load_asking(&ask, &ServerSwitches::default())?
            }
            SourceArgs::Stdio(arguments) => arguments.load()?,
        };
        if source.arguments.config().config.is_none() {
            source.found.clone_from(&loaded.file);
            source.seen = Mutex::new(source.hash());
        }
        let loaded = source.prepare(loaded);
        Ok((source, loaded))
    }

    /// Completes a configuration that was read from files for a server of this program.
    fn prepare(&self, loaded: Loaded) -> Loaded {
        let Loaded { mut config, file, mut warnings } = loaded;
        let listens = matches!(self.arguments, SourceArgs::Serve(_));
        let arguments = self.arguments.config();
        let own = problems::leave_out_itself(&mut config, arguments, file.as_deref(), listens);
        warnings.extend(own);
        warnings.extend(problems::warnings(&config));
        let address = config.server.listen;
        if listens && !address.ip().is_unspecified() {
            // The guard against DNS rebinding checks names; a page cannot rebind an address.
            config.server.allowed_hosts.push(bracketed(address.ip()));
        }
        config.gateway.guard.clone_from(&self.guard);
        Loaded { config, file, warnings }
    }

    /// Returns a hash of the files as they are now.
    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let config = self.arguments.config();
        let user_servers = config.user_servers();
        let named = config.config.iter().chain(&self.found).chain(&config.mcp_config);
        for path in named.chain(&user_servers) {
            // A file that cannot be read differs from every text.
            match fs::metadata(path) {
                // Reading a pipe would take its text away from the next start.
                Ok(metadata) if !metadata.is_file() => {}
                _ => fs::read(path).map_err(|error| error.kind()).hash(&mut hasher),
            }
        }
        hasher.finish()
    }

    /// Returns what tells this server from others of the user: the files that it reads.
    pub(super) fn description(&self) -> String {
        let config = self.arguments.config();
        let kind = match &self.arguments {
            SourceArgs::Serve(_) => "serve",
            SourceArgs::Stdio(_) => "stdio",
        };
        let user_servers = config.user_servers();
        let files = config.config.iter().chain(&self.found).chain(&config.mcp_config);
        let files: Vec<_> =
            files.chain(&user_servers).map(|path| path.display().to_string()).collect();
        format!("{kind} {}", files.join(" ")).trim_end().to_owned()
    }
}

impl ConfigSource for ServerSource {
    fn read(&self, switches: &ServerSwitches) -> Result<(Config, Vec<String>), String> {
        // Before the files are read: a later change is noticed.
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = self.hash();
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let ask = |input: &Input| answers.get(&input.id).cloned();
        let loaded = match &self.arguments {
            SourceArgs::Serve(arguments) => arguments.read_asking(&ask, switches),
            SourceArgs::Stdio(arguments) => arguments.read(&ask, switches).map_err(Failure::from),
        };
        let loaded = loaded.map_err(|failure| failure.message)?;
        let faults: Vec<_> = loaded.config.faults().iter().map(ToString::to_string).collect();
        if !faults.is_empty() {
            return Err(faults.join("; "));
        }
        let Loaded { config, warnings, .. } = self.prepare(loaded);
        Ok((config, warnings))
    }

    fn has_changed(&self) -> bool {
        self.hash() != *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn applied(&self, config: &Config) {
        if let Err(problem) = program_log::set_level(&config.log.level) {
            tracing::warn!("log.level: {problem}");
        }
    }
}

/// Returns an address in the form of a `Host` header.
pub(super) fn bracketed(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}
