// Compiles TypeScript against the SDK.
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { inPackages, root } from "./support.mjs";

const run = promisify(execFile);
export const TSC = inPackages("typescript/bin/tsc");
export const SDK = join(root, "sdk/typescript");

/** Compiles TypeScript files strictly into `to`; returns the compiler's messages. */
export async function compile(to, files) {
  const config = {
    compilerOptions: {
      strict: true,
      exactOptionalPropertyTypes: true,
      module: "nodenext",
      target: "es2022",
      outDir: to,
      rootDir: "/",
      types: ["node"],
      typeRoots: [inPackages("@types")],
      paths: {
        "@marquetry/test-sdk": [join(SDK, "index.d.ts")],
        "@marquetry/test-sdk/context-blocks": [join(SDK, "context-blocks/index.d.ts")],
      },
    },
    files,
  };
  const path = join(to, "tsconfig.json");
  await writeFile(path, JSON.stringify(config));
  return run(process.execPath, [TSC, "-p", path]).then(
    () => "",
    (error) => error.stdout,
  );
}
