// npx tsc && node configuration.js, with `marquetry test-server` running.
import { MCPTestSDK, type TestCase } from "@marquetry/test-sdk";

const testSDK = new MCPTestSDK();
const name = "files";

// The newest configuration of this name, or a new one. A change is a new configuration of the same name.
const { items } = await testSDK.configurations({ name, origin: "created", limit: 1 });
const configuration =
  items[0] ??
  (await testSDK.createConfiguration({
    name,
    serverConfigs: [
      { type: "stdio", name: "files", command: "npx", args: ["-y", "@modelcontextprotocol/server-filesystem", "."] },
    ],
    judgeConfig: { provider: "openai", model: "gpt-4o-mini" },
  }));

const cases: TestCase[] = [
  { name: "File Reading", prompt: "Read package.json and tell me the project name", expectedTools: ["read_text_file"] },
];
const { run } = await testSDK.runConfiguration(configuration.id, cases);
console.log(`${run.passedTests} of ${run.totalTests} tests passed with the configuration ${configuration.name}`);
