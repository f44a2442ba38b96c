//! The sandbox of the process: whatever a diagram makes of itself, PlantUML reads no file and opens
//! no connection.
//!
//! The rules for text (`rules.rs`) see a diagram before PlantUML substitutes variables, so they
//! cannot be complete. Java itself refuses here: a security manager allows the files that PlantUML
//! needs and nothing else. Java 24 and later have none; then PlantUML's own profile `SANDBOX` has
//! to do it, which PlantUML has since 1.2020.11. Each process is asked once to read a file before
//! it gets a diagram, and is not used if it does.

use std::{
    ffi::OsStr,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use super::{EngineOptions, Program, random_hex};

/// Whether Java's security manager is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SecurityManager {
    On,
    /// For Java 24 and later, which do not start with one.
    Off,
}

/// The folder of a process, and its limits.
#[derive(Debug)]
pub(super) struct Sandbox {
    folder: TempDir,
    /// The text of the file that the process must not read.
    marker: String,
}

/// Folders that PlantUML loads classes from. `jlatexmath` reads its fonts there, from the jar of
/// another library.
const LIBRARIES: [&str; 2] = ["/usr/share/java", "/usr/share/plantuml"];

/// Places of Graphviz besides the `PATH`: PlantUML looks at the first two, and Homebrew and
/// MacPorts name the others.
const GRAPHVIZ: [&str; 6] = [
    "/usr/bin/dot",
    "/usr/local/bin/dot",
    "/opt/homebrew/bin/dot",
    "/opt/homebrew/opt/graphviz/bin/dot",
    "/usr/local/opt/graphviz/bin/dot",
    "/opt/local/bin/dot",
];

/// Proxies that nothing listens at, for every connection, also to this machine. They hold where the
/// security manager is off.
const NO_NETWORK: &str = "-DsocksProxyHost=127.0.0.1 -DsocksProxyPort=1 -DsocksNonProxyHosts= \
    -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=1 -Dhttp.nonProxyHosts= \
    -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1 \
    -Dftp.proxyHost=127.0.0.1 -Dftp.proxyPort=1 -Dftp.nonProxyHosts=";

impl Sandbox {
    pub(super) fn new(options: &EngineOptions) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let marker = format!("readable{}", random_hex()?);
        let sandbox = Self { folder, marker };
        fs::create_dir(sandbox.work())?;
        fs::write(sandbox.probe_file(), format!("participant {}\n", sandbox.marker))?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let policy = policy(&options.program, &path, &sandbox.work());
        fs::write(sandbox.policy_file(), policy)?;
        Ok(sandbox)
    }

    /// The empty working directory.
    pub(super) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Options of Java, as the environment variable `JAVA_TOOL_OPTIONS` takes them.
    pub(super) fn java_options(&self, manager: SecurityManager, max_memory_mib: u32) -> String {
        let mut options = format!(
            "-Xmx{max_memory_mib}m -Djava.awt.headless=true \"-Djava.io.tmpdir={}\" {NO_NETWORK}",
            self.work().display()
        );
        if manager == SecurityManager::On {
            // Two equals signs: no other policy counts.
            let policy = self.policy_file();
            options += " -Djava.security.manager";
            options += &format!(" \"-Djava.security.policy=={}\"", policy.display());
        }
        options
    }

    /// A diagram that reads a file.
    pub(super) fn probe(&self) -> String {
        format!("@startuml\n!include {}\n@enduml\n", self.probe_file().display())
    }

    /// Returns whether an answer has the text of the file of [`Sandbox::probe`].
    pub(super) fn has_leaked(&self, answer: &str) -> bool {
        answer.contains(&self.marker)
    }

    fn probe_file(&self) -> PathBuf {
        self.folder.path().join("probe.txt")
    }

    fn policy_file(&self) -> PathBuf {
        self.folder.path().join("policy")
    }
}

/// The policy of Java's security manager. It has no permission for sockets. Files can be written on
/// Windows alone, in a folder of the working directory, where PlantUML unpacks the Graphviz that it
/// contains.
fn policy(program: &Program, path: &OsStr, work: &Path) -> String {
    let mut policy = "grant {\n".to_owned();
    // The working directory, where PlantUML looks for `plantuml.skin`, by a relative path.
    permit(&mut policy, Path::new("-"), "read");
    for folder in LIBRARIES.map(Path::new) {
        permit(&mut policy, folder, "read");
        permit(&mut policy, &folder.join("-"), "read");
    }
    if let Program::Jar(jar) = program {
        for jar in &jars_beside(jar) {
            permit(&mut policy, jar, "read");
        }
        // In some minutes of an hour the picture of an error asks for donations, unless a licence
        // lies beside the jar. Without these two permissions PlantUML ends then.
        if let Some(folder) = jar.parent() {
            permit(&mut policy, folder, "read");
            permit(&mut policy, &folder.join("license.txt"), "read");
        }
    }
    let on_path = std::env::split_paths(path).flat_map(|it| [it.join("dot"), it.join("dot.exe")]);
    for dot in GRAPHVIZ.iter().map(PathBuf::from).chain(on_path) {
        permit(&mut policy, &dot, "read,execute");
    }
    // The package of Nix names Graphviz by its place in the store.
    permit(&mut policy, Path::new("/nix/store/-"), "read,execute");
    if cfg!(windows) {
        let unpacked = work.join("_graphviz");
        permit(&mut policy, &unpacked, "read,write");
        permit(&mut policy, &unpacked.join("-"), "read,write,execute");
    }
    policy += "  permission java.util.PropertyPermission \"*\", \"read,write\";\n  \
        permission java.lang.RuntimePermission \"*\";\n  \
        permission java.lang.reflect.ReflectPermission \"*\";\n  \
        permission java.awt.AWTPermission \"*\";\n  \
        permission java.util.logging.LoggingPermission \"control\";\n};\n";
    policy
}

/// Adds the permission for a file. A path that the syntax of policies cannot have is left out: less
/// is allowed then.
fn permit(policy: &mut String, path: &Path, actions: &str) {
    let Some(path) = path.to_str().filter(|it| !it.contains(['"', '$', '\n'])) else { return };
    let path = path.replace('\\', "\\\\");
    _ = writeln!(policy, "  permission java.io.FilePermission \"{path}\", \"{actions}\";");
}

/// The libraries of a jar that is not from a package lie in its folder.
fn jars_beside(jar: &Path) -> Vec<PathBuf> {
    let folder = jar.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    files.filter(|path| path.extension().is_some_and(|it| it == "jar")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_allows_graphviz_and_libraries_alone() {
        let folder = tempfile::tempdir().unwrap();
        let jar = folder.path().join("plantuml.jar");
        fs::write(&jar, "").unwrap();
        fs::write(folder.path().join("secret.png"), "").unwrap();
        let path = std::env::join_paths(["/a b", "/c\"d", "/${user.home}"]).unwrap();
        let policy = policy(&Program::Jar(jar.clone()), &path, folder.path());
        assert!(policy.contains("FilePermission \"/a b/dot\", \"read,execute\";\n"), "{policy}");
        let license = folder.path().join("license.txt");
        for path in [jar.as_path(), folder.path(), &license, Path::new("/usr/share/plantuml")] {
            let line = format!("FilePermission \"{}\", \"read\";\n", path.display());
            assert!(policy.contains(&line), "{path:?}: {policy}");
        }
        for absent in ["secret.png", "/c", "user.home", "Socket", "write\"", "ALL FILES"] {
            let mut lines = policy.lines().filter(|line| !line.contains("PropertyPermission"));
            assert!(!lines.any(|line| line.contains(absent)), "{absent}: {policy}");
        }
    }
}
