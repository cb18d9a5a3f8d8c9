import { defineConfig } from "vitest/config";

// The tests of all files use one server. One thread takes less processor time than several.
export default defineConfig({
  test: { include: ["test/**/*.test.ts"], pool: "threads", maxWorkers: 1, isolate: false, testTimeout: 60_000, hookTimeout: 60_000 },
});
