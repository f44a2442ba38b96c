//! Servers in a few lines of shell, and checks of their reports.

use marquetry_doctor_command::{Cause, DoctorOptions, Finding, Outcome, ServerReport, examine};
use marquetry_gateway::{GatewayOptions, Transport, UpstreamOptions};

/// Returns a server that is a program.
pub(crate) fn stdio(command: &str, args: &[&str]) -> UpstreamOptions {
    UpstreamOptions::new("broken", Transport::stdio(command, args.iter().copied()))
}

/// Returns a server that is a script of `sh`.
pub(crate) fn shell(script: &str) -> UpstreamOptions {
    stdio("sh", &["-c", script])
}

pub(crate) fn with_env(options: &mut UpstreamOptions, name: &str, value: &str) {
    let Transport::Stdio { env, .. } = &mut options.transport else { panic!("a program") };
    env.insert(name.to_owned(), value.to_owned());
}

/// Returns the script of a server that works, with these tools.
pub(crate) fn working(revision: &str, tools: &str) -> String {
    const SCRIPT: &str = r#"while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *\"initialize\"*) result='"result":{"protocolVersion":"REVISION","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}';;
    *\"tools/list\"*) result='"result":{"tools":[TOOLS]}';;
    *) result='"error":{"code":-32601,"message":"unknown method"}';;
  esac
  case $line in *\"id\":*) printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$result";; esac
done"#;
    SCRIPT.replace("REVISION", revision).replace("TOOLS", tools)
}

pub(crate) async fn examined(options: UpstreamOptions) -> ServerReport {
    let gateway = GatewayOptions::default().with_upstream(options);
    examine(gateway, &DoctorOptions::default()).await.remove(0)
}

#[track_caller]
pub(crate) fn failure(report: &ServerReport) -> &Finding {
    let Outcome::Failed(finding) = &report.outcome else { panic!("it did not fail: {report:?}") };
    finding
}

/// Checks the cause of a failure, and that problem and advice have these words.
pub(crate) async fn check(
    options: UpstreamOptions,
    cause: Cause,
    problem: &str,
    advice: &str,
) -> Finding {
    let report = examined(options).await;
    let found = failure(&report);
    assert_eq!(found.cause, cause, "{report:?}");
    assert!(found.problem.contains(problem), "{problem:?}: {found:?}");
    assert!(found.advice.contains(advice), "{advice:?}: {found:?}");
    found.clone()
}
