//! A server with one tool, tested by a scenario: as a function in this process, over HTTP, and as a
//! command.

use marquetry_protocol::server::{
    Server, Toolbox,
    http::{HttpEndpoint, HttpOptions, serve},
    serve_pipe,
};
use marquetry_scenarios::{CommandServer, PipeServer, Revision, UrlServer, assert_all_pass};
use tokio_util::sync::CancellationToken;

const SCENARIOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/adder");

/// If set, this program runs as the server.
const SERVES: &str = "SCENARIOS_TEST_SERVES";

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

fn adder() -> Server {
    let add = async |add: Add, _| {
        add.a.checked_add(add.b).map(|sum| sum.to_string()).ok_or("the sum is too large")
    };
    Server::new(Toolbox::new("adder", "1.0.0").tool("add", "Adds two numbers.", add))
}

#[test]
fn inside_of_this_process() {
    let server = PipeServer::new(|stream| {
        tokio::spawn(async move {
            let (reader, writer) = tokio::io::split(stream);
            _ = serve_pipe(&adder(), reader, writer, CancellationToken::new()).await;
        })
    });
    assert_all_pass(
        SCENARIOS,
        server.with_revisions(vec![Revision::V2025_06_18, Revision::V2026_07_28]),
    );
}

#[test]
fn at_a_url() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let endpoint = HttpEndpoint::new(adder(), HttpOptions::default());
    runtime.spawn(serve(listener, endpoint).into_future());
    assert_all_pass(SCENARIOS, UrlServer::new(url));
}

#[test]
fn as_a_command() {
    if std::env::var_os(SERVES).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        // The test harness writes lines to standard output that are not JSON-RPC.
        let output = std::fs::OpenOptions::new().write(true).open("/dev/fd/3").unwrap();
        let input = tokio::io::stdin();
        let output = tokio::fs::File::from_std(output);
        _ = runtime.block_on(serve_pipe(&adder(), input, output, CancellationToken::new()));
        std::process::exit(0);
    }
    let program = std::env::current_exe().unwrap();
    let program = program.display();
    let script = format!("{SERVES}=1 exec '{program}' --exact as_a_command 3>&1 1>&2");
    assert_all_pass(SCENARIOS, CommandServer::new("sh", ["-c", &script]));
}

#[test]
#[should_panic(expected = "content/0/text")]
fn a_wrong_answer_fails() {
    let server = PipeServer::new(|stream| {
        tokio::spawn(async move {
            let off_by_one = async |add: Add, _| Ok::<_, String>((add.a + add.b + 1).to_string());
            let tools = Toolbox::new("adder", "1.0.0").tool("add", "Adds wrongly.", off_by_one);
            let (reader, writer) = tokio::io::split(stream);
            _ = serve_pipe(&Server::new(tools), reader, writer, CancellationToken::new()).await;
        })
    });
    assert_all_pass(format!("{SCENARIOS}/adds.yaml"), server);
}
