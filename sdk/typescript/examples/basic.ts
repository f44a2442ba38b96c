// npx tsc && OPENAI_API_KEY=… node basic.js, with `marquetry test-server` running.
import { MCPTestSDK } from "@marquetry/test-sdk";

const testSDK = new MCPTestSDK(); // Auto-discovers test server

// Simple file operation test
const fileTest = {
  name: "File Creation Test",
  prompt: 'Create a file called hello.txt with the content "Hello, World!"',
  expectedTools: ["write_file"],
  judgeConfig: {
    provider: "openai" as const,
    model: "gpt-4",
    temperature: 0.1,
    maxTokens: 1000,
    apiKey: process.env.OPENAI_API_KEY,
  },
};

const result = await testSDK.runTest(fileTest);
console.log(`Test ${result.success ? "PASSED" : "FAILED"}`);
console.log(`Verdict: ${result.verdict.reasoning}`);
