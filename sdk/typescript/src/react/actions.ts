import { useState, useCallback, useRef, useEffect } from "react";
import { useMutation, useQueryClient, type InfiniteData, type UseMutationResult } from "@tanstack/react-query";
import type { Init } from "../client.js";
import { randomText } from "../oauth.js";
import type { Page } from "../pages.js";
import type { MediaAttachment, Relationship, Status } from "../schema.js";
import { upload, type UploadOptions, type UploadProgress } from "../upload.js";
import { keys, patchPost, patchRelationship, updated } from "./cache.js";
import { homeFeed, prepended, publicFeed } from "./queries.js";
import { useShoal } from "./provider.js";

/** A mutation whose variable is the new state: `like.mutate(true)`. */
export type Toggle<Result> = UseMutationResult<Result, Error, boolean, { undo: () => void }>;

type Mark = "favourited" | "reblogged" | "bookmarked";
const COUNTS = { favourited: "favourites_count", reblogged: "reblogs_count", bookmarked: undefined } as const;
const VERBS = {
  favourited: ["favourite", "unfavourite"],
  reblogged: ["reblog", "unreblog"],
  bookmarked: ["bookmark", "unbookmark"],
} as const;

function useMark(post: Status, mark: Mark): Toggle<Status> {
  const shoal = useShoal();
  const cache = useQueryClient();
  const { id } = post.reblog ?? post;
  const mutationKey = ["shoal", mark, id];
  return useMutation({
    mutationKey,
    // Changes of the same post run one after the other, so that the last one is final.
    scope: { id: `shoal-${mark}-${id}` },
    mutationFn: (on: boolean) =>
      shoal.post(`/api/v1/statuses/{id}/${VERBS[mark][on ? 0 : 1]}` as "/api/v1/statuses/{id}/favourite", {
        params: { path: { id } },
      }),
    onMutate: (on) => {
      let before: boolean | undefined;
      patchPost(cache, id, (found) => {
        before ??= found[mark] ?? false;
        return marked(found, mark, on);
      });
      return { undo: () => before !== undefined && patchPost(cache, id, (found) => marked(found, mark, before ?? false)) };
    },
    onError: (_error, _on, context) => context?.undo(),
    onSuccess: (response) => {
      // The list shows the state that a later change will have.
      if (cache.isMutating({ mutationKey }) > 1) return;
      // The response to a share is the share.
      const after = response.reblog ?? response;
      patchPost(cache, id, (found) => updated(found, after));
    },
  });
}

function marked(post: Status, mark: Mark, on: boolean): Status {
  if ((post[mark] ?? false) === on) return post;
  const count = COUNTS[mark];
  return { ...post, [mark]: on, ...(count && { [count]: Math.max(0, post[count] + (on ? 1 : -1)) }) };
}

/** Like a post, or take the like back. Every list shows it at once, and the former state again if the request fails. */
export const useLike = (post: Status): Toggle<Status> => useMark(post, "favourited");
/** Share a post, or take the share back. */
export const useShare = (post: Status): Toggle<Status> => useMark(post, "reblogged");
/** Save a post, or remove it from the saved posts. */
export const useBookmark = (post: Status): Toggle<Status> => useMark(post, "bookmarked");

/** Follow an account, or unfollow it. For a locked account, the follow is requested. */
export function useFollow(account: { id: string; locked?: boolean }): Toggle<Relationship> {
  const shoal = useShoal();
  const cache = useQueryClient();
  const { id } = account;
  const mutationKey = ["shoal", "follow", id];
  return useMutation({
    mutationKey,
    scope: { id: `shoal-follow-${id}` },
    mutationFn: (on: boolean) => {
      const params = { path: { id } };
      return on ? shoal.post("/api/v1/accounts/{id}/follow", { params, body: {} }) : shoal.post("/api/v1/accounts/{id}/unfollow", { params });
    },
    onMutate: (on) => {
      const before = cache.getQueryData<Relationship>(keys.relationship(id));
      const state = { following: on && !account.locked, requested: on && (account.locked ?? false) };
      patchRelationship(cache, id, (found) => ({ ...found, ...state }));
      return { undo: () => before && cache.setQueryData(keys.relationship(id), before) };
    },
    onError: (_error, _on, context) => context?.undo(),
    onSuccess: (relationship) => {
      if (cache.isMutating({ mutationKey }) === 1) cache.setQueryData(keys.relationship(id), relationship);
      void cache.invalidateQueries({ queryKey: keys.feed(homeFeed.path, {}).slice(0, 3) });
    },
  });
}

export type NewPost = NonNullable<Init<"post", "/api/v1/statuses">["body"]>;

/** Publish a post or comment. It appears in the home feed, the public feed and its thread. A repeated request creates no second post. */
export function usePublish(): UseMutationResult<Status, Error, NewPost> {
  const shoal = useShoal();
  const cache = useQueryClient();
  const attempt = useRef<{ post: NewPost; key: string } | null>(null);
  return useMutation({
    mutationFn: (post: NewPost) => {
      if (attempt.current?.post !== post) attempt.current = { post, key: randomText() };
      return shoal.post("/api/v1/statuses", { body: post, headers: { "Idempotency-Key": attempt.current.key } });
    },
    onSuccess: (made, { in_reply_to_id: above }) => {
      if (above) {
        patchPost(cache, above, (found) => ({ ...found, replies_count: found.replies_count + 1 }));
        return cache.invalidateQueries({ queryKey: ["shoal", "thread"] });
      }
      const filter = { queryKey: keys.feeds, predicate: ({ queryKey }: { queryKey: readonly unknown[] }) => lists(queryKey, made) };
      cache.setQueriesData<InfiniteData<Page<Status[]>>>(filter, (data) => prepended(data, [made]));
      return undefined;
    },
  });
}

/** Whether a feed has a new post of the member. */
function lists([, , path, params]: readonly unknown[], post: Status): boolean {
  const { path: names, query } = params as { path?: { id?: string }; query?: { only_media?: boolean } };
  if (query?.only_media && post.media_attachments.length === 0) return false;
  if (path === publicFeed.path) return post.visibility === "public";
  return path === homeFeed.path || (path === "/api/v1/accounts/{id}/statuses" && names?.id === post.account.id);
}

export interface UploadState {
  /** Upload a file, and return it when it can be attached to a post. */
  start: (file: Blob, options?: Omit<UploadOptions, "signal" | "onProgress">) => Promise<MediaAttachment>;
  cancel: () => void;
  progress: UploadProgress | undefined;
  media: MediaAttachment | undefined;
  error: Error | undefined;
}

/** Upload a file with progress. The upload is cancelled when the component is removed. */
export function useUpload(): UploadState {
  const shoal = useShoal();
  const control = useRef<AbortController | null>(null);
  const [state, setState] = useState<Pick<UploadState, "progress" | "media" | "error">>(NONE);
  const cancel = useCallback(() => control.current?.abort(new Error("The upload was cancelled")), []);
  useEffect(() => cancel, [cancel]);
  const start: UploadState["start"] = async (file, options) => {
    cancel();
    const own = (control.current = new AbortController());
    const told = (now: Partial<UploadState>) => control.current === own && setState({ ...NONE, ...now });
    told({ progress: { sent: 0, total: file.size, state: "sending" } });
    try {
      const media = await upload(shoal, file, { ...options, signal: own.signal, onProgress: (progress) => told({ progress }) });
      told({ media });
      return media;
    } catch (error) {
      told(own.signal.aborted ? {} : { error: error as Error });
      throw error;
    }
  };
  return { ...state, start, cancel };
}

const NONE = { progress: undefined, media: undefined, error: undefined };
