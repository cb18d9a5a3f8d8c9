"use client";
/**
 * React hooks on TanStack Query: feeds, posts, threads and notifications with live updates, and actions that show their effect before
 * the server has answered.
 *
 * @module
 */
export * from "./actions.js";
export { findPost, keys, patchPost } from "./cache.js";
export * from "./provider.js";
export {
  accountFeed,
  bookmarksFeed,
  forYouFeed,
  homeFeed,
  mediaFeed,
  namedFeed,
  publicFeed,
  tagFeed,
  useAccount,
  useFeed,
  useMe,
  useNotifications,
  usePost,
  useRelationship,
  useThread,
  type Feed,
  type FeedOptions,
  type FeedPath,
  type FeedResult,
  type NotificationsResult,
} from "./queries.js";
