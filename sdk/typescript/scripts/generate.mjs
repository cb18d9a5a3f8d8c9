// Generate src/schema.ts from the OpenAPI document. SHOAL_OPENAPI may name its file or URL; by default the code of this checkout makes it.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import openapiTS, { astToString } from "openapi-typescript";
import ts from "typescript";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const target = fileURLToPath(new URL("../src/schema.ts", import.meta.url));

async function text() {
  const source = process.env.SHOAL_OPENAPI;
  if (source?.match(/^https?:/)) {
    const response = await fetch(source, { signal: AbortSignal.timeout(30_000) });
    if (!response.ok) throw new Error(`${source}: status ${response.status}`);
    return response.text();
  }
  if (source) return readFileSync(source, "utf8");
  const python = existsSync(`${root}.venv/bin/python`) ? `${root}.venv/bin/python` : "python3";
  return execFileSync(python, ["-m", "scripts.openapi"], { cwd: root, encoding: "utf8", maxBuffer: 1 << 26 });
}

/** Give each operation one error response instead of a dozen equal ones. This halves the time that TypeScript takes. */
function withShortErrors(document) {
  for (const operations of Object.values(document.paths)) {
    for (const operation of Object.values(operations)) {
      const entries = Object.entries(operation.responses);
      const good = entries.filter(([status]) => status < 400).map(([status, { headers, ...response }]) => [status, response]);
      const [, failed] = entries.find(([status]) => status >= 400);
      operation.responses = { ...Object.fromEntries(good), default: failed };
    }
  }
  return document;
}

const document = await text();
const version = createHash("sha256").update(document).update(readFileSync(fileURLToPath(import.meta.url))).digest("hex");
const heading = `// Generated from the OpenAPI document by scripts/generate.mjs: ${version}\n`;
if (!existsSync(target) || !readFileSync(target, "utf8").startsWith(heading)) {
  const blob = ts.factory.createTypeReferenceNode("Blob");
  const types = await openapiTS(withShortErrors(JSON.parse(document)), {
    rootTypes: true,
    rootTypesNoSchemaPrefix: true,
    transform: (schema) => (schema.format === "binary" ? blob : undefined),
  });
  writeFileSync(target, heading + astToString(types));
}
