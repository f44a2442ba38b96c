//! A suite of tests, as in seed 004.
//!
//! ```sh
//! marquetry test-server --mcp-config mcp.json --model openai/gpt-4
//! cargo run -p marquetry-test-server --example test_suite
//! ```

use marquetry_judge::ExpectedTool;
use marquetry_test_server::{TestCase, TestClient};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let test_sdk = TestClient::discover();
    let test_suite = [
        (
            "File Operations",
            r##"Create a file called test.md and write "# Test" in it"##,
            vec!["write_file"],
        ),
        (
            "File Reading",
            "Read the contents of package.json and tell me the project name",
            vec!["read_text_file"],
        ),
        (
            "Directory Operations",
            "List all TypeScript files in the src directory",
            vec!["list_directory", "search_files"],
        ),
    ];

    let mut passed = 0;
    let count = test_suite.len();
    for (name, prompt, tools) in test_suite {
        let mut test = TestCase::new(name, prompt);
        test.expected_tools = Some(tools.into_iter().map(ExpectedTool::new).collect());
        let result = test_sdk.run_test(&test).await?;
        println!("{name}: {}", if result.success { "PASS" } else { "FAIL" });
        passed += usize::from(result.success);
    }
    println!("\nSuite Results: {passed}/{count} tests passed");
    Ok(())
}
