//! `marquetry call`, `marquetry tools` and `marquetry doctor`

use std::time::Duration;

use marquetry_call_command::{self as command, CallArgs, Called, RemoteArgs, Session, ToolsArgs};
use marquetry_config::{Config, Loaded};
use marquetry_doctor_command::{self as doctor_command, DoctorArgs};
use marquetry_program_log as program_log;

use super::{
    ConfigArgs, Configured, Failure, serve,
    source::{ServerSource, SourceArgs},
};
use crate::{app::App, tools::BuiltIns};

pub(super) fn call(arguments: &Configured<CallArgs>) -> Result<(), Failure> {
    let mut config = load(&arguments.config)?.config;
    let call = &arguments.command;
    config.keep_for_call(call.tool(), &BuiltIns::names(&config), call.is_raw());
    on_session(config, call.remote(), async |session| command::call(call, session).await)
}

pub(super) fn tools(arguments: &Configured<ToolsArgs>) -> Result<(), Failure> {
    let mut config = load(&arguments.config)?.config;
    let tools = &arguments.command;
    config.keep_only_server(tools.server())?;
    if tools.remote().url().is_none()
        && let Some(warning) = config.leave_out_audit_log_in_use()
    {
        program_log::warn(&warning);
    }
    on_session(config, tools.remote(), async |session| command::tools(tools, session).await)
}

pub(super) fn doctor(arguments: &Configured<DoctorArgs>) -> Result<(), Failure> {
    let Loaded { config, warnings, .. } = load(&arguments.config)?;
    let options = config.gateway_options(&BuiltIns::names(&config));
    let run = doctor_command::run(&arguments.command, options, warnings);
    until_signal(async { Ok(run.await?) })
}

/// Loads the configuration as `marquetry stdio` does. Only `--log` switches the log on.
fn load(arguments: &ConfigArgs) -> Result<Loaded, Failure> {
    let (_, loaded) = ServerSource::load(SourceArgs::Stdio(arguments.clone()), serve::guard())?;
    if arguments.log.is_some() {
        serve::start_logging(&loaded.config, None, &[])?;
    }
    Ok(loaded)
}

/// Runs `work` with a server of this configuration at the other end of a pipe, or with another one.
fn on_session(
    config: Config,
    remote: &RemoteArgs,
    work: impl AsyncFnOnce(&Session) -> Called,
) -> Result<(), Failure> {
    until_signal(async {
        if let Some(session) = Session::to_url(remote).await? {
            return Ok(work(&session).await?);
        }
        let app = App::builder(config).start().await?;
        let server = app.clone();
        let mut session = Session::of(async move |r, w| server.serve_stdio(r, w).await).await?;
        app.ready().await;
        session.set_health(&app.health());
        session.set_hidden_tools(app.hidden_tools());
        let outcome = work(&session).await;
        app.shutdown().await;
        Ok(outcome?)
    })
}

/// Runs until the work is done or a signal arrives; then the work is dropped.
fn until_signal(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    serve::on_runtime(async {
        let mut signals = serve::EndSignals::new()?;
        let signal = tokio::select! {
            outcome = work => return outcome,
            signal = signals.next() => signal,
        };
        // The dropped call is cancelled in the background.
        tokio::time::sleep(Duration::from_millis(250)).await;
        Err(signal.failure(""))
    })
}
