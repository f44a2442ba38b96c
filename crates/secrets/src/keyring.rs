//! Reads passwords of the user's keyring by the platform's own client program.

use crate::problem::SecretProblem;

/// Returns a password.
#[cfg(not(feature = "keyring"))]
pub(crate) fn read(_service: &str, _name: &str) -> Result<Vec<u8>, SecretProblem> {
    let why = "this program was built without keyrings (feature keyring)";
    Err(SecretProblem::NoKeyring(why.to_owned()))
}

/// Returns a password.
#[cfg(all(feature = "keyring", target_os = "macos"))]
pub(crate) fn read(service: &str, name: &str) -> Result<Vec<u8>, SecretProblem> {
    let lookup = ["find-generic-password", "-w", "-s", service, "-a", name];
    let store = format!("security add-generic-password -s {service} -a {name} -w");
    platform::read("security", &lookup, store)
}

/// Returns a password.
#[cfg(all(feature = "keyring", not(target_os = "macos")))]
pub(crate) fn read(service: &str, name: &str) -> Result<Vec<u8>, SecretProblem> {
    let lookup = ["lookup", "service", service, "username", name];
    let store = format!("secret-tool store --label={service} service {service} username {name}");
    platform::read("secret-tool", &lookup, store)
}

#[cfg(feature = "keyring")]
mod platform {
    use std::{io::ErrorKind, time::Duration};

    use crate::{
        problem::{MAX_BYTES, SecretProblem},
        process::{self, ProcessError},
    };

    /// Time for an answer of the keyring. A person may have to unlock it.
    const TIME: Duration = Duration::from_secs(30);

    /// Returns what the client program prints. It names `store` as the command that stores the
    /// password.
    pub(super) fn read(
        program: &str,
        lookup: &[&str],
        store: String,
    ) -> Result<Vec<u8>, SecretProblem> {
        let arguments: Vec<String> = lookup.iter().map(|&it| it.to_owned()).collect();
        match process::output(program, &arguments, MAX_BYTES, TIME) {
            Ok(bytes) if bytes.is_empty() => Err(SecretProblem::NotInKeyring(store)),
            Ok(bytes) => Ok(bytes),
            Err(ProcessError::NotStarted(error)) if error.kind() == ErrorKind::NotFound => {
                Err(SecretProblem::NoKeyring(missing(program)))
            }
            Err(ProcessError::NotStarted(error)) => {
                Err(SecretProblem::NoKeyring(format!("{program}: {error}")))
            }
            // Both programs report an unknown password and a missing keyring alike.
            Err(ProcessError::Failed(status)) => Err(SecretProblem::NoKeyring(format!(
                "{program} failed with {status}: either no keyring service runs for this user, or it has no such password; store it with `{store}`"
            ))),
            Err(ProcessError::TooSlow) => Err(SecretProblem::TooSlow(TIME)),
            Err(ProcessError::TooLong) => Err(SecretProblem::TooLong),
        }
    }

    fn missing(program: &str) -> String {
        if program == "secret-tool" {
            return "the program secret-tool is not installed; install libsecret-tools (Debian, Ubuntu) or libsecret (Fedora, Arch)".to_owned();
        }
        format!("the program {program} is not installed")
    }

    #[cfg(all(test, unix))]
    mod tests {
        use super::*;

        fn shown(program: &str, lookup: &[&str]) -> String {
            match read(program, lookup, "STORE".to_owned()) {
                Ok(bytes) => String::from_utf8(bytes).unwrap(),
                Err(problem) => problem.to_string(),
            }
        }

        #[test]
        fn a_missing_keyring_is_a_clear_error() {
            assert_eq!(
                shown("no-such-program-1", &[]),
                "cannot be read: the program no-such-program-1 is not installed"
            );
            assert_eq!(shown("true", &[]), "is not in the keyring; store it with `STORE`");
            assert_eq!(
                shown("false", &[]),
                "cannot be read: false failed with exit status: 1: either no keyring service runs for this user, or it has no such password; store it with `STORE`"
            );
            assert_eq!(shown("echo", &["hush"]), "hush\n");
        }
    }
}
