import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { join } from "node:path";

export const here = fileURLToPath(new URL(".", import.meta.url));
export const root = join(here, "../..");

/** Why tests that need packages or the program are skipped; `false` if they run. With CI=true they run and fail. */
export function missing(...paths) {
  const absent = paths.filter((path) => !existsSync(path));
  if (absent.length === 0 || process.env.CI === "true") return false;
  return `${absent.join(", ")} missing: run tests/judge/install and cargo build`;
}

export const inPackages = (path) => join(here, "node_modules", path);

/** A folder that is removed after the test. */
export async function folder(t) {
  const path = await mkdtemp(join(tmpdir(), "marquetry-judge-"));
  t.after(() => rm(path, { recursive: true, force: true }));
  return path;
}
