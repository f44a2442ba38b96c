//! Where each client keeps its configuration. Reads no environment: the caller has a lookup.

use std::path::{Path, PathBuf};

use crate::client::Client;

/// An operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Platform {
    /// Linux, and systems like it.
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
}

impl Platform {
    /// Returns the platform of this program.
    #[must_use]
    pub fn current() -> Self {
        if cfg!(windows) {
            Self::Windows
        } else if cfg!(target_os = "macos") {
            Self::MacOs
        } else {
            Self::Linux
        }
    }
}

/// The folders of a user.
#[derive(Clone, Copy)]
pub struct Home<'a> {
    platform: Platform,
    variable: &'a dyn Fn(&str) -> Option<String>,
}

/// No variable names the user's home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the home folder is not known: set {0}, or name the file with --file")]
pub struct NoHome(&'static str);

impl<'a> Home<'a> {
    /// Creates the folders of a user from the variables of the environment.
    #[must_use]
    pub fn new(platform: Platform, variable: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { platform, variable }
    }

    /// Returns the home folder.
    ///
    /// # Errors
    ///
    /// Returns an error if no variable names it.
    pub fn folder(&self) -> Result<PathBuf, NoHome> {
        let name = if self.platform == Platform::Windows { "USERPROFILE" } else { "HOME" };
        self.absolute(name).ok_or(NoHome(name))
    }

    /// Returns the folder of Marquetry's own settings: `~/.config/marquetry`.
    ///
    /// # Errors
    ///
    /// Returns an error if no variable names the home folder.
    pub fn settings(&self) -> Result<PathBuf, NoHome> {
        Ok(self.xdg_config()?.join("marquetry"))
    }

    /// Returns the folder of records of changes: `~/.local/share/marquetry/connect`.
    ///
    /// # Errors
    ///
    /// Returns an error if no variable names the home folder.
    pub fn journal(&self) -> Result<PathBuf, NoHome> {
        let data = match self.absolute("XDG_DATA_HOME") {
            Some(data) => data,
            None => self.folder()?.join(".local/share"),
        };
        Ok(data.join("marquetry").join("connect"))
    }

    /// Returns the files that a client reads, the usual one first.
    ///
    /// # Errors
    ///
    /// Returns an error if no variable names the home folder.
    pub fn files(&self, client: Client) -> Result<Vec<PathBuf>, NoHome> {
        let one = match client {
            Client::ClaudeDesktop => {
                self.application_data()?.join("Claude").join("claude_desktop_config.json")
            }
            Client::ClaudeCode => match self.absolute("CLAUDE_CONFIG_DIR") {
                Some(folder) => folder.join(".claude.json"),
                None => self.folder()?.join(".claude.json"),
            },
            Client::VsCode => self.vs_code()?.join("mcp.json"),
            Client::Cursor => self.folder()?.join(".cursor").join("mcp.json"),
            Client::Zed => match self.platform {
                Platform::Windows => self.application_data()?.join("Zed").join("settings.json"),
                // Zed keeps to ~/.config on macOS, too.
                Platform::MacOs => self.folder()?.join(".config/zed/settings.json"),
                Platform::Linux => self.xdg_config()?.join("zed").join("settings.json"),
            },
            Client::Windsurf => self.folder()?.join(".codeium/windsurf/mcp_config.json"),
            Client::Gemini => match self.absolute("GEMINI_CLI_HOME") {
                Some(home) => home.join(".gemini").join("settings.json"),
                None => self.folder()?.join(".gemini").join("settings.json"),
            },
            Client::Codex => match self.absolute("CODEX_HOME") {
                Some(folder) => folder.join("config.toml"),
                None => self.folder()?.join(".codex").join("config.toml"),
            },
            Client::OpenCode => {
                if let Some(file) = self.absolute("OPENCODE_CONFIG") {
                    return Ok(vec![file]);
                }
                let folder = self.xdg_config()?.join("opencode");
                return Ok(["opencode.json", "opencode.jsonc"]
                    .map(|name| folder.join(name))
                    .into());
            }
            Client::Goose => match (self.absolute("GOOSE_PATH_ROOT"), self.platform) {
                (Some(root), _) => root.join("config").join("config.yaml"),
                (None, Platform::Windows) => {
                    self.application_data()?.join("Block/goose/config/config.yaml")
                }
                (None, Platform::MacOs) => self.folder()?.join(".config/goose/config.yaml"),
                (None, Platform::Linux) => self.xdg_config()?.join("goose").join("config.yaml"),
            },
            Client::Cline => {
                const SETTINGS: &str = "settings/cline_mcp_settings.json";
                let extension = self.vs_code()?.join("globalStorage/saoudrizwan.claude-dev");
                let command_line = match self.absolute("CLINE_DIR") {
                    Some(folder) => folder,
                    None => self.folder()?.join(".cline"),
                };
                return Ok(vec![
                    extension.join(SETTINGS),
                    command_line.join("data").join(SETTINGS),
                ]);
            }
            // It has no place of its own: its file is in the folder in which it is started.
            Client::LibreChat => match (self.variable)("CONFIG_PATH") {
                Some(file) if !file.is_empty() && !file.contains("://") => PathBuf::from(file),
                _ => PathBuf::from("librechat.yaml"),
            },
        };
        Ok(vec![one])
    }

    /// Returns the file of a client to edit: the first that exists, or the usual one.
    ///
    /// # Errors
    ///
    /// Returns an error if no variable names the home folder.
    pub fn file(&self, client: Client, exists: &dyn Fn(&Path) -> bool) -> Result<PathBuf, NoHome> {
        let files = self.files(client)?;
        let found = files.iter().find(|file| exists(file)).or(files.first());
        Ok(found.cloned().unwrap_or_default())
    }

    /// Returns whether a client seems to be installed: its file or its folder exists.
    ///
    /// # Errors
    ///
    /// Returns an error if no variable names the home folder.
    pub fn has(&self, client: Client, exists: &dyn Fn(&Path) -> bool) -> Result<bool, NoHome> {
        let files = self.files(client)?;
        if files.iter().any(|file| exists(file)) {
            return Ok(true);
        }
        Ok(match client {
            // Its file is in the home itself.
            Client::ClaudeCode => exists(&self.folder()?.join(".claude")),
            Client::LibreChat => false,
            _ => files.iter().any(|file| file.parent().is_some_and(exists)),
        })
    }

    fn xdg_config(&self) -> Result<PathBuf, NoHome> {
        match self.absolute("XDG_CONFIG_HOME") {
            Some(folder) => Ok(folder),
            None => Ok(self.folder()?.join(".config")),
        }
    }

    /// Returns the folder in which desktop programs keep their settings.
    fn application_data(&self) -> Result<PathBuf, NoHome> {
        match self.platform {
            Platform::Linux => self.xdg_config(),
            Platform::MacOs => Ok(self.folder()?.join("Library/Application Support")),
            Platform::Windows => match self.absolute("APPDATA") {
                Some(folder) => Ok(folder),
                None => Ok(self.folder()?.join("AppData").join("Roaming")),
            },
        }
    }

    fn vs_code(&self) -> Result<PathBuf, NoHome> {
        Ok(self.application_data()?.join("Code").join("User"))
    }

    /// Returns the path in a variable. A relative one is ignored, as the rules of XDG ask.
    fn absolute(&self, name: &str) -> Option<PathBuf> {
        let value = (self.variable)(name)?;
        let is_drive = value.as_bytes().get(1) == Some(&b':');
        (value.starts_with('/') || is_drive || value.starts_with("\\\\")).then(|| value.into())
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// Compares the first file of each client, with `/` as separator.
    #[track_caller]
    fn check(platform: Platform, variables: &[(&str, &str)], want: Expect) {
        let table: std::collections::BTreeMap<_, _> = variables.iter().copied().collect();
        let lookup: &dyn Fn(&str) -> Option<String> =
            &|name| table.get(name).map(|&value| value.to_owned());
        check_files(&Home::new(platform, lookup), want);
    }

    #[track_caller]
    fn check_files(home: &Home<'_>, want: Expect) {
        let mut lines = String::new();
        for client in Client::ALL {
            let files = home.files(client).unwrap();
            let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
            lines += &format!("{}: {}\n", client.id(), files.join(" "));
        }
        want.assert_eq(&lines.replace('\\', "/"));
    }

    #[test]
    fn files_on_linux() {
        check(
            Platform::Linux,
            &[("HOME", "/home/me")],
            expect![[r"
                claude-code: /home/me/.claude.json
                claude-desktop: /home/me/.config/Claude/claude_desktop_config.json
                cline: /home/me/.config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json /home/me/.cline/data/settings/cline_mcp_settings.json
                codex: /home/me/.codex/config.toml
                cursor: /home/me/.cursor/mcp.json
                gemini: /home/me/.gemini/settings.json
                goose: /home/me/.config/goose/config.yaml
                librechat: librechat.yaml
                opencode: /home/me/.config/opencode/opencode.json /home/me/.config/opencode/opencode.jsonc
                vscode: /home/me/.config/Code/User/mcp.json
                windsurf: /home/me/.codeium/windsurf/mcp_config.json
                zed: /home/me/.config/zed/settings.json
            "]],
        );
    }

    #[test]
    fn files_on_macos() {
        check(
            Platform::MacOs,
            &[("HOME", "/Users/me")],
            expect![[r"
                claude-code: /Users/me/.claude.json
                claude-desktop: /Users/me/Library/Application Support/Claude/claude_desktop_config.json
                cline: /Users/me/Library/Application Support/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json /Users/me/.cline/data/settings/cline_mcp_settings.json
                codex: /Users/me/.codex/config.toml
                cursor: /Users/me/.cursor/mcp.json
                gemini: /Users/me/.gemini/settings.json
                goose: /Users/me/.config/goose/config.yaml
                librechat: librechat.yaml
                opencode: /Users/me/.config/opencode/opencode.json /Users/me/.config/opencode/opencode.jsonc
                vscode: /Users/me/Library/Application Support/Code/User/mcp.json
                windsurf: /Users/me/.codeium/windsurf/mcp_config.json
                zed: /Users/me/.config/zed/settings.json
            "]],
        );
    }

    #[test]
    fn files_on_windows() {
        check(
            Platform::Windows,
            &[("USERPROFILE", "C:/Users/me"), ("APPDATA", "C:/Users/me/AppData/Roaming")],
            expect![[r"
                claude-code: C:/Users/me/.claude.json
                claude-desktop: C:/Users/me/AppData/Roaming/Claude/claude_desktop_config.json
                cline: C:/Users/me/AppData/Roaming/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json C:/Users/me/.cline/data/settings/cline_mcp_settings.json
                codex: C:/Users/me/.codex/config.toml
                cursor: C:/Users/me/.cursor/mcp.json
                gemini: C:/Users/me/.gemini/settings.json
                goose: C:/Users/me/AppData/Roaming/Block/goose/config/config.yaml
                librechat: librechat.yaml
                opencode: C:/Users/me/.config/opencode/opencode.json C:/Users/me/.config/opencode/opencode.jsonc
                vscode: C:/Users/me/AppData/Roaming/Code/User/mcp.json
                windsurf: C:/Users/me/.codeium/windsurf/mcp_config.json
                zed: C:/Users/me/AppData/Roaming/Zed/settings.json
            "]],
        );
    }

    #[test]
    fn variables_of_the_clients_name_other_files() {
        check(
            Platform::Linux,
            &[
                ("HOME", "/h"),
                ("XDG_CONFIG_HOME", "/x"),
                ("CLAUDE_CONFIG_DIR", "/claude"),
                ("CODEX_HOME", "/codex"),
                ("GEMINI_CLI_HOME", "/gemini"),
                ("GOOSE_PATH_ROOT", "/goose"),
                ("OPENCODE_CONFIG", "/oc.json"),
                ("CLINE_DIR", "relative/is/ignored"),
                ("CONFIG_PATH", "/libre.yaml"),
            ],
            expect![[r"
                claude-code: /claude/.claude.json
                claude-desktop: /x/Claude/claude_desktop_config.json
                cline: /x/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json /h/.cline/data/settings/cline_mcp_settings.json
                codex: /codex/config.toml
                cursor: /h/.cursor/mcp.json
                gemini: /gemini/.gemini/settings.json
                goose: /goose/config/config.yaml
                librechat: /libre.yaml
                opencode: /oc.json
                vscode: /x/Code/User/mcp.json
                windsurf: /h/.codeium/windsurf/mcp_config.json
                zed: /x/zed/settings.json
            "]],
        );
    }

    #[test]
    fn without_a_home_the_error_names_the_variable() {
        let home = Home::new(Platform::Linux, &|_| None);
        let error = home.files(Client::Zed).unwrap_err().to_string();
        assert_eq!(error, "the home folder is not known: set HOME, or name the file with --file");
        assert!(home.files(Client::LibreChat).is_ok());
    }
}
