/**
 * A typed client of Shoal servers. {@link createShoal} creates it; {@link page}, {@link pages} and {@link items} read lists,
 * {@link upload} sends files, {@link stream} receives live updates, and {@link exchangedTokens} exchanges tokens of a product.
 *
 * @module
 */
export * from "./client.js";
export * from "./errors.js";
export * from "./events.js";
export * from "./oauth.js";
export * from "./pages.js";
export { stream, type StreamEvent, type StreamName, type StreamOptions } from "./stream.js";
export { processed, upload, type UploadOptions, type UploadProgress } from "./upload.js";
export type * from "./schema.js";
