//! `marquetry pins`

use marquetry_config::Config;
use marquetry_pins_command::{PinsArgs, PinsCommandError, run};
use serde_json::json;

use super::{Failure, serve::on_runtime};

pub(super) fn pins(arguments: &PinsArgs) -> Result<(), Failure> {
    let mut config = Config::default();
    let outcome = run(arguments, |file| {
        let loaded = marquetry_config::load(file);
        let loaded =
            loaded.map_err(|error| PinsCommandError { code: 2, message: error.to_string() })?;
        config = loaded.config.with_user_folders();
        let problem = "there is no file of pins: neither HOME nor gateway.pins_file is set";
        config
            .gateway
            .pins_file
            .clone()
            .ok_or_else(|| PinsCommandError { code: 2, message: problem.to_owned() })
    });
    let accepted =
        outcome.map_err(|PinsCommandError { code, message }| Failure { code, message })?;
    // A running server holds the log, and writes the same events when it reads the file again.
    if let Some(Ok(Some(log))) = (!accepted.is_empty()).then(|| config.open_audit_log()) {
        on_runtime(async {
            for pin in &accepted {
                let event = json!({"event": "pin", "change": "accepted", "upstream": pin.server, "kind": pin.kind, "name": pin.name});
                _ = log.write(&event).await;
            }
            log.close().await;
            Ok(())
        })?;
    }
    Ok(())
}
