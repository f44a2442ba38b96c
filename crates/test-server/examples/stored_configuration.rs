//! Cases that run with a stored configuration.
//!
//! ```sh
//! OPENAI_API_KEY=… marquetry test-server
//! cargo run -p marquetry-test-server --example stored_configuration
//! ```

use marquetry_judge::{
    ExpectedTool,
    store::{ConfigurationFilter, NewConfiguration},
};
use marquetry_test_server::{
    ModelSettings, ServerConfig, TestCase, TestClient, client::ConfigurationRun,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let test_sdk = TestClient::discover();

    // The newest configuration of this name, or a new one. A change is a new configuration of the
    // same name.
    let mut filter = ConfigurationFilter::default();
    filter.name = Some("files".to_owned());
    filter.page.limit = Some(1);
    let newest = test_sdk.configurations(&filter).await?.items.into_iter().next();
    let configuration = if let Some(configuration) = newest {
        configuration
    } else {
        let args = ["-y", "@modelcontextprotocol/server-filesystem", "."];
        let new = NewConfiguration {
            name: "files".to_owned(),
            server_configs: vec![ServerConfig::stdio("npx", args).named("files")],
            judge_config: Some(ModelSettings::new("openai", "gpt-4o-mini")),
            ..NewConfiguration::default()
        };
        test_sdk.create_configuration(&new).await?
    };

    let mut case = TestCase::new("File Reading", "Read package.json and tell me the project name");
    case.expected_tools = Some(vec![ExpectedTool::new("read_text_file")]);
    let run = ConfigurationRun { cases: &[case], ..ConfigurationRun::default() };
    let (run, _) = test_sdk.run_configuration(&configuration.id, run, |_| {}).await?;
    let passed = run.passed_tests;
    let total = run.total_tests;
    let name = configuration.name;
    println!("{passed} of {total} tests passed with the configuration {name}");
    Ok(())
}
