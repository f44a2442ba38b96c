// npx tsc && node suite.js, with `marquetry test-server` running.
import { MCPTestSDK, type TestCase, type TestResult } from "@marquetry/test-sdk";

const testSDK = new MCPTestSDK();

const testSuite: TestCase[] = [
  {
    name: "File Operations",
    prompt: 'Create a file called test.md and write "# Test" in it',
    expectedTools: ["write_file"],
  },
  {
    name: "File Reading",
    prompt: "Read the contents of package.json and tell me the project name",
    expectedTools: ["read_text_file"],
  },
  {
    name: "Directory Operations",
    prompt: "List all TypeScript files in the src directory",
    expectedTools: ["list_directory", "search_files"],
  },
];

async function runTestSuite() {
  const results: TestResult[] = [];
  for (const test of testSuite) {
    const result = await testSDK.runTest(test);
    results.push(result);
    console.log(`${test.name}: ${result.success ? "PASS" : "FAIL"}`);
  }

  const passed = results.filter((r) => r.success).length;
  console.log(`\nSuite Results: ${passed}/${results.length} tests passed`);
  return results;
}

await runTestSuite();
