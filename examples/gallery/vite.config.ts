import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  plugins: [react()],
  // The linked package has its own copies, for its tests.
  resolve: { dedupe: ["react", "react-dom", "@tanstack/react-query"] },
});
