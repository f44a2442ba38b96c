//! One test, as in seed 004.
//!
//! ```sh
//! marquetry test-server --mcp-config mcp.json
//! OPENAI_API_KEY=… cargo run -p marquetry-test-server --example file_test
//! ```

use marquetry_judge::ExpectedTool;
use marquetry_test_server::{ModelSettings, TestCase, TestClient};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let test_sdk = TestClient::discover(); // Auto-discovers test server

    // Simple file operation test
    let mut judge = ModelSettings::new("openai", "gpt-4");
    judge.temperature = Some(0.1);
    judge.max_tokens = Some(1000);
    judge.api_key = std::env::var("OPENAI_API_KEY").ok();
    let mut file_test = TestCase::new(
        "File Creation Test",
        r#"Create a file called hello.txt with the content "Hello, World!""#,
    );
    file_test.expected_tools = Some(vec![ExpectedTool::new("write_file")]);
    file_test.judge_config = Some(judge);

    let result = test_sdk.run_test(&file_test).await?;
    println!("Test {}", if result.success { "PASSED" } else { "FAILED" });
    println!("Verdict: {}", result.verdict.reasoning);
    Ok(())
}
