//! The last known tools of each upstream, in files, so that a list need not wait for a slow start.
//!
//! An entry belongs to one configuration of an upstream: its program or URL, arguments, headers and
//! environment. The name of its file and the checksum in it are derived from these, so an upstream
//! that this server reaches in another way, or as somebody else, has another entry, and a file from
//! elsewhere has none. If an upstream may answer differently although the configuration is the
//! same, its tools are not cached.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use marquetry_protocol::{
    Revision,
    types::{CacheHint, CacheScope, Tool},
};
use serde::Serialize;

use crate::options::{GatewayOptions, Transport, UpstreamOptions};

/// Largest entry in bytes. Longer lists are not cached.
const MAX_BYTES: u64 = 4 << 20;

/// Most entries in a directory. Beyond that, the oldest ones are removed.
const MAX_ENTRIES: usize = 128;

/// The ending of the entries' names.
const EXTENSION: &str = "tools";

/// Separates these hashes from all others. The number is that of the format.
const CONTEXT: &str = "marquetry 2026-11-28 gateway tool cache 1";

/// The entry of one upstream.
#[derive(Clone, Debug)]
pub(crate) struct ToolCache {
    path: PathBuf,
    /// Hash of the upstream's configuration, which is the key of the checksum.
    key: [u8; blake3::KEY_LEN],
    /// Whether all callers of this server are one user.
    serves_one_user: bool,
}

/// Everything that decides which tools an upstream has, as far as this server knows.
#[derive(Serialize)]
struct Identity<'a> {
    revision: Option<&'a str>,
    transport: IdentityTransport<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum IdentityTransport<'a> {
    Stdio {
        command: &'a str,
        args: &'a [String],
        directory: PathBuf,
        environment: &'a BTreeMap<String, String>,
    },
    Http {
        url: &'a str,
        headers: Vec<(&'a str, &'a str)>,
    },
}

/// Variables that differ between two logins of one user, and do not tell users apart.
const VOLATILE: [&str; 3] = ["TERM", "XDG_SESSION_ID", "XDG_VTNR"];

impl ToolCache {
    /// Returns the entry of an upstream; `None` if its tools are not cached. `environment` are the
    /// variables that its program sees.
    pub(crate) fn of(
        upstream: &UpstreamOptions,
        gateway: &GatewayOptions,
        mut environment: BTreeMap<String, String>,
    ) -> Option<Self> {
        let directory = gateway.tool_cache.as_ref()?;
        environment.retain(|name, _| !VOLATILE.contains(&&**name));
        let transport = match &upstream.transport {
            Transport::Stdio { command, args, cwd, .. } => IdentityTransport::Stdio {
                command,
                args,
                directory: match cwd {
                    Some(cwd) => cwd.clone(),
                    None => std::env::current_dir().ok()?,
                },
                environment: &environment,
            },
            Transport::Http { url, headers, access } if access.is_always_the_same_caller() => {
                let mut headers: Vec<_> =
                    headers.iter().map(|(name, value)| (&**name, &**value)).collect();
                headers.sort_unstable();
                IdentityTransport::Http { url, headers }
            }
            Transport::Http { .. } | Transport::Unusable { .. } => return None,
        };
        let revision = upstream.revision.map(Revision::as_str);
        let identity = serde_json::to_vec(&Identity { revision, transport }).ok()?;
        let key = blake3::derive_key(CONTEXT, &identity);
        let name = blake3::hash(&key).to_hex();
        Some(Self {
            path: directory.join(&name[..32]).with_extension(EXTENSION),
            key,
            serves_one_user: gateway.serves_one_user,
        })
    }

    /// Returns the tools of the entry; `None` if no entry is stored, or if its file is damaged or a
    /// link.
    ///
    /// This blocks: call it at the start of a program.
    pub(crate) fn load(&self, max_tools: usize) -> Option<Vec<Tool>> {
        // A link or a pipe is not ours.
        let metadata = fs::symlink_metadata(&self.path).ok()?;
        if !metadata.is_file() || metadata.len() > MAX_BYTES {
            return None;
        }
        let text = fs::read_to_string(&self.path).ok()?;
        let (checksum, json) = text.split_once('\n')?;
        // Hashes are compared in constant time.
        if blake3::Hash::from_hex(checksum).ok()? != blake3::keyed_hash(&self.key, json.as_bytes())
        {
            tracing::debug!(path = ?self.path, "ignored a damaged list of tools");
            return None;
        }
        let mut tools: Vec<Tool> = serde_json::from_str(json).ok()?;
        tools.truncate(max_tools);
        Some(tools)
    }

    /// Replaces the entry by these tools, which the upstream has just listed. No entry is left if
    /// they must not be cached, or there are none.
    ///
    /// This blocks.
    pub(crate) fn store(&self, tools: &[Tool], hint: Option<CacheHint>) {
        let stored = if tools.is_empty() || !self.allows(hint) {
            remove(&self.path)
        } else {
            self.write(tools)
        };
        if let Err(error) = stored {
            tracing::debug!(path = ?self.path, %error, "failed to store the list of tools");
        }
    }

    /// Whether a list with this hint may be shown to all callers. Without a hint, an upstream has
    /// one list for all callers of its connection.
    fn allows(&self, hint: Option<CacheHint>) -> bool {
        self.serves_one_user || hint.is_none_or(|hint| hint.cache_scope == CacheScope::Public)
    }

    fn write(&self, tools: &[Tool]) -> io::Result<()> {
        let json = serde_json::to_string(tools)?;
        let checksum = blake3::keyed_hash(&self.key, json.as_bytes());
        let text = format!("{checksum}\n{json}");
        if text.len() as u64 > MAX_BYTES {
            return remove(&self.path);
        }
        if fs::read(&self.path).is_ok_and(|old| old == text.as_bytes()) {
            return Ok(());
        }
        let Some(directory) = self.path.parent() else { return Ok(()) };
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(directory)?;
        replace(&self.path, text.as_bytes())?;
        remove_oldest(directory)
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Replaces a file at once: another process reads the old bytes or the new ones.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::{
        hash::{BuildHasher as _, RandomState},
        io::Write as _,
    };
    let unique = RandomState::new().hash_one(path);
    let beside = path.with_extension(format!("{unique:016x}.new"));
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // Not synchronised: bytes that a crash has lost do not match the checksum.
    let written = options.open(&beside).and_then(|mut file| file.write_all(bytes));
    let moved = written.and_then(|()| fs::rename(&beside, path));
    if moved.is_err() {
        _ = fs::remove_file(&beside);
    }
    moved
}

/// Removes the entries that were written first, and what is left of writes that were interrupted,
/// until few enough are left.
fn remove_oldest(directory: &Path) -> io::Result<()> {
    let mut files: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let is_ours = path.extension().is_some_and(|it| it == EXTENSION || it == "new");
        // Another process may have removed it meanwhile.
        if is_ours && let Ok(modified) = fs::symlink_metadata(&path).and_then(|it| it.modified()) {
            files.push((modified, path));
        }
    }
    files.sort_unstable();
    let surplus = files.len().saturating_sub(MAX_ENTRIES);
    files[..surplus].iter().try_for_each(|(_, path)| remove(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::HttpAccess;

    fn tools(name: &str) -> Vec<Tool> {
        vec![Tool { name: name.to_owned(), ..Tool::default() }]
    }

    fn gateway(directory: &Path) -> GatewayOptions {
        GatewayOptions { tool_cache: Some(directory.to_owned()), ..GatewayOptions::default() }
    }

    fn of(transport: Transport, gateway: &GatewayOptions) -> Option<ToolCache> {
        ToolCache::of(&UpstreamOptions::new("a", transport), gateway, BTreeMap::new())
    }

    /// Whether what one upstream has stored is loaded for another one.
    #[track_caller]
    fn check_shared(one: Transport, other: Transport, is_shared: bool) {
        let directory = tempfile::tempdir().unwrap();
        let gateway = gateway(directory.path());
        of(one, &gateway).unwrap().store(&tools("t"), None);
        let found = of(other, &gateway).unwrap().load(10);
        assert_eq!(found, is_shared.then(|| tools("t")));
    }

    #[test]
    fn an_entry_belongs_to_one_configuration() {
        check_shared(Transport::stdio("x", ["a"]), Transport::stdio("x", ["a"]), true);
        check_shared(Transport::stdio("x", ["a"]), Transport::stdio("y", ["a"]), false);
        check_shared(Transport::stdio("x", ["a", "b"]), Transport::stdio("x", ["ab"]), false);
        check_shared(Transport::http("http://a"), Transport::http("http://a"), true);
        check_shared(Transport::http("http://a"), Transport::http("http://b"), false);
        let mut with_token = Transport::http("http://a");
        let Transport::Http { headers, .. } = &mut with_token else { unreachable!("it is HTTP") };
        headers.insert("Authorization".to_owned(), "Bearer x".to_owned());
        check_shared(Transport::http("http://a"), with_token, false);
    }

    #[test]
    fn an_upstream_with_a_login_has_no_entry() {
        struct Login;
        impl HttpAccess for Login {}
        let directory = tempfile::tempdir().unwrap();
        let transport = Transport::Http {
            url: "http://a".to_owned(),
            headers: indexmap::IndexMap::new(),
            access: std::sync::Arc::new(Login),
        };
        assert!(of(transport, &gateway(directory.path())).is_none());
        assert!(of(Transport::http("http://a"), &GatewayOptions::default()).is_none());
    }

    #[test]
    fn private_tools_are_stored_for_one_user_alone() {
        let directory = tempfile::tempdir().unwrap();
        let mut gateway = gateway(directory.path());
        fn hint(cache_scope: CacheScope) -> Option<CacheHint> {
            Some(CacheHint { cache_scope, ..CacheHint::default() })
        }
        let cache = of(Transport::http("http://a"), &gateway).unwrap();
        cache.store(&tools("t"), hint(CacheScope::Public));
        assert!(cache.load(10).is_some());
        cache.store(&tools("t"), hint(CacheScope::Private));
        assert!(cache.load(10).is_none());
        gateway.serves_one_user = true;
        let cache = of(Transport::http("http://a"), &gateway).unwrap();
        cache.store(&tools("t"), hint(CacheScope::Private));
        assert!(cache.load(10).is_some());
        cache.store(&[], None);
        assert!(cache.load(10).is_none());
    }

    #[test]
    fn the_directory_has_few_private_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tools");
        let gateway = gateway(&path);
        for number in 0..MAX_ENTRIES + 10 {
            let cache = of(Transport::http(format!("http://a/{number}")), &gateway).unwrap();
            cache.store(&tools("t"), None);
        }
        let files: Vec<_> = fs::read_dir(&path).unwrap().map(Result::unwrap).collect();
        assert_eq!(files.len(), MAX_ENTRIES);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            for (path, mode) in [(path, 0o700), (files[0].path(), 0o600)] {
                let permissions = fs::metadata(path).unwrap().permissions();
                assert_eq!(permissions.mode() & 0o777, mode);
            }
        }
        let cache = of(Transport::http("http://large"), &gateway).unwrap();
        cache.store(&tools(&"t".repeat(5 << 20)), None);
        assert!(cache.load(10).is_none());
    }
}
