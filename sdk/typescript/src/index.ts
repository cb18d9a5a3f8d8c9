/**
 * A typed client of Shoal servers. {@link createShoal} creates it; {@link page}, {@link pages} and {@link items} read lists,
 * {@link upload} sends files, {@link stream} receives live updates, and {@link exchangedTokens} exchanges tokens of a product.
 *
 * @module
 */
export {
  createShoal,
  type Answer,
  type CallOptions,
  type Data,
  type DemandingPath,
  type Init,
  type InitArgument,
  type Method,
  type ParseAs,
  type PathOf,
  type Shoal,
  type ShoalOptions,
  type TokenSource,
} from "./client.js";
export * from "./errors.js";
export * from "./events.js";
export {
  beginLogin,
  exchangedTokens,
  exchangeToken,
  finishLogin,
  revokeToken,
  type AppCredentials,
  type LoginRequest,
} from "./oauth.js";
export { items, page, pages, type Cursor, type ListPath, type Page, type PageInit } from "./pages.js";
export { stream, type StreamEvent, type StreamName, type StreamOptions } from "./stream.js";
export { processed, upload, type UploadOptions, type UploadProgress } from "./upload.js";
export type * from "./schema.js";
