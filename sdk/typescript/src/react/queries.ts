import { useCallback, useState } from "react";
import {
  useInfiniteQuery,
  useQuery,
  useQueryClient,
  type InfiniteData,
  type UseInfiniteQueryResult,
  type UseQueryResult,
} from "@tanstack/react-query";
import type { Data, PathOf } from "../client.js";
import { page, type Cursor, type Page } from "../pages.js";
import type { Account, CredentialAccount, Notification, Relationship, Status, StatusContext } from "../schema.js";
import type { StreamEvent, StreamName } from "../stream.js";
import { applyChange, findAccount, findPost, keys, refetch } from "./cache.js";
import { useShoal, useStream } from "./provider.js";

/** The paths whose response is a list of posts. */
export type FeedPath = {
  [P in PathOf<"get">]: Data<"get", P> extends readonly Status[] ? P : never;
}[PathOf<"get">];

/** A list of posts, and the stream that has its new posts. */
export interface Feed {
  path: FeedPath;
  params?: { path?: Record<string, string>; query?: Record<string, unknown> };
  stream?: StreamName;
}

/** The posts and shares of the accounts and tags that the member follows. */
export const homeFeed: Feed = { path: "/api/v1/timelines/home", stream: "user" };
/** All public posts. */
export const publicFeed: Feed = { path: "/api/v1/timelines/public", stream: "public" };
/** All public posts with photos, videos or sounds. */
export const mediaFeed: Feed = {
  path: "/api/v1/timelines/public",
  params: { query: { only_media: true } },
  stream: "public:media",
};
/** The posts that are most likely to interest the member, best first. */
export const forYouFeed: Feed = { path: "/api/shoal/v1/timelines/for_you" };
/** The saved posts. */
export const bookmarksFeed: Feed = { path: "/api/v1/bookmarks" };
/** A declared feed by its name or id, with values of its parameters. */
export const namedFeed = (id: string, parameters: Record<string, string> = {}): Feed => ({
  path: "/api/shoal/v1/feeds/{id}",
  params: { path: { id }, query: { parameters } },
  stream: { feed: id },
});
/** The public posts with a tag. */
export const tagFeed = (tag: string): Feed => ({
  path: "/api/v1/timelines/tag/{tag}",
  params: { path: { tag } },
  stream: { tag },
});
/** The posts of an account. */
export const accountFeed = (id: string, query: { only_media?: boolean; exclude_replies?: boolean } = {}): Feed => ({
  path: "/api/v1/accounts/{id}/statuses",
  params: { path: { id }, query },
});

type Pages<T> = InfiniteData<Page<T[]>>;

export type FeedResult = UseInfiniteQueryResult<Pages<Status>> & {
  /** The posts of all pages that are read. */
  posts: Status[];
  /** Number of posts that arrived since the feed was read, and are not shown. */
  newPosts: number;
  /** Whether a ranked feed has newer posts, or a named feed was changed. The number of new posts is not known. */
  outdated: boolean;
  /** Show the new posts. A ranked feed is read again. */
  showNew: () => void;
};

export interface FeedOptions {
  /** Receive new posts over the stream of the feed. It needs a token. */
  live?: boolean;
  /** Posts of a page, at most 40. */
  limit?: number;
  /** Show only these posts. A page may then be short. */
  filter?: (post: Status) => boolean;
  /** Include `shoal.data` of the posts, up to 4 KB each. */
  withData?: boolean;
  /** While a feed with other parameters is read, show the posts of the former one; `isPlaceholderData` is then true. */
  keepPrevious?: boolean;
  enabled?: boolean;
}

const everyPost = (): boolean => true;

/** New posts of a feed, which are not shown yet. */
interface Waiting {
  of: string;
  posts: Status[];
  outdated: boolean;
}
const NONE: Waiting = { of: "", posts: [], outdated: false };

const firstOf = (data: Pages<Status> | undefined): Pages<Status> | undefined =>
  data && { pages: data.pages.slice(0, 1), pageParams: data.pageParams.slice(0, 1) };

/** Read a feed, page by page (`fetchNextPage`), with live updates. */
export function useFeed(feed: Feed, options: FeedOptions = {}): FeedResult {
  const { live = false, limit = 20, filter = everyPost, enabled = true, withData = false, keepPrevious = false } = options;
  const shoal = useShoal();
  const cache = useQueryClient();
  const [waiting, setWaiting] = useState<Waiting>(NONE);
  const params = { ...feed.params, query: { ...feed.params?.query, limit, ...(withData && { with_data: true }) } };
  const queryKey = keys.feed(feed.path, params);
  const key = JSON.stringify(queryKey);
  const read = page as unknown as (client: typeof shoal, path: string, init: object) => Promise<Page<Status[]>>;
  const query = useInfiniteQuery({
    queryKey,
    queryFn: ({ pageParam, signal }) => read(shoal, feed.path, { params, cursor: pageParam, signal }),
    initialPageParam: undefined as Cursor | undefined,
    getNextPageParam: (last) => (last.data.length > 0 ? last.next : undefined),
    placeholderData: (previous: Pages<Status> | undefined) => (keepPrevious ? previous : undefined),
    enabled,
  });
  // A post can be on two pages if others arrived in between.
  const posts = unique(query.data?.pages.flatMap((found) => found.data) ?? []).filter(filter);
  const shown = new Set(posts.map((post) => post.id));
  const current = waiting.of === key ? waiting : { ...NONE, of: key };
  const fresh = current.posts.filter((post) => !shown.has(post.id) && filter(post));

  const onEvent = (event: StreamEvent): void => {
    if (event.event === "update") {
      const { data } = event;
      setWaiting((now) => {
        const before = now.of === key ? now : NONE;
        return { ...before, of: key, posts: unique([data, ...before.posts]).slice(0, 100) };
      });
    } else if (event.event === "delete") {
      setWaiting((now) => ({ ...now, posts: now.posts.filter((post) => post.id !== event.data) }));
    } else if (event.event === "newer" || event.event === "feed") {
      setWaiting({ of: key, posts: [], outdated: true });
    }
  };
  useStream(live && enabled ? (feed.stream ?? null) : null, onEvent, () => refetch(cache, queryKey));

  const showNew = useCallback(() => {
    if (waiting.of !== key) return;
    const queryKey = JSON.parse(key);
    if (waiting.outdated) {
      // Later pages continue the former ranking.
      cache.setQueryData<Pages<Status>>(queryKey, firstOf);
      void cache.invalidateQueries({ queryKey });
    } else {
      cache.setQueryData<Pages<Status>>(queryKey, (data) => prepended(data, waiting.posts));
    }
    setWaiting((now) => ({ ...now, outdated: false, posts: now.posts.filter((post) => !waiting.posts.includes(post)) }));
  }, [cache, key, waiting]);
  return { ...query, posts, newPosts: fresh.length, outdated: current.outdated, showNew };
}

/** Add objects at the top of the first page, unless they are listed already. */
export function prepended<T extends { id: string }>(data: Pages<T> | undefined, added: readonly T[]): Pages<T> | undefined {
  const [first, ...rest] = data?.pages ?? [];
  if (!data || !first) return data;
  const listed = new Set(data.pages.flatMap((found) => found.data.map((one) => one.id)));
  const fresh = added.filter((one) => !listed.has(one.id));
  return { ...data, pages: [{ ...first, data: [...fresh, ...first.data] }, ...rest] };
}

function unique<T extends { id: string }>(found: readonly T[]): T[] {
  return [...new Map(found.toReversed().map((one) => [one.id, one])).values()].toReversed();
}

/** Read a post. A post that a list has already is shown at once. */
export function usePost(id: string): UseQueryResult<Status> {
  const shoal = useShoal();
  const cache = useQueryClient();
  return useQuery<Status>({
    queryKey: keys.post(id),
    queryFn: ({ signal }) => shoal.get("/api/v1/statuses/{id}", { params: { path: { id } }, signal }),
    placeholderData: () => findPost(cache, id),
  });
}

/** Read the posts above and below a post. */
export function useThread(id: string): UseQueryResult<StatusContext> {
  const shoal = useShoal();
  return useQuery({
    queryKey: keys.thread(id),
    queryFn: ({ signal }) => shoal.get("/api/v1/statuses/{id}/context", { params: { path: { id } }, signal }),
  });
}

export type NotificationsResult = UseInfiniteQueryResult<Pages<Notification>> & { notifications: Notification[] };

/** Read the notifications of the member, newest first, with live updates. */
export function useNotifications(options: { types?: Notification["type"][]; live?: boolean } = {}): NotificationsResult {
  const { types, live = true } = options;
  const shoal = useShoal();
  const cache = useQueryClient();
  const filter = types ? { "types[]": types } : {};
  const queryKey = keys.notifications(filter);
  const query = useInfiniteQuery({
    queryKey,
    queryFn: ({ pageParam, signal }) =>
      page(shoal, "/api/v1/notifications", { params: { query: filter as object }, cursor: pageParam, signal }),
    initialPageParam: undefined as Cursor | undefined,
    getNextPageParam: (last) => (last.data.length > 0 ? last.next : undefined),
  });
  const onEvent = (event: StreamEvent): void => {
    if (event.event !== "notification" || (types && !types.includes(event.data.type))) return;
    const add = (data: Pages<Notification> | undefined) => prepended(data, [event.data]);
    applyChange(cache, queryKey, () => cache.setQueryData<Pages<Notification>>(queryKey, add));
  };
  useStream(live ? "user" : null, onEvent, () => refetch(cache, queryKey));
  return { ...query, notifications: unique(query.data?.pages.flatMap((found) => found.data) ?? []) };
}

/** Read the account of the member, with its private fields. */
export function useMe(options: { enabled?: boolean } = {}): UseQueryResult<CredentialAccount> {
  const shoal = useShoal();
  return useQuery({
    queryKey: keys.me,
    queryFn: ({ signal }) => shoal.get("/api/v1/accounts/verify_credentials", { signal }),
    enabled: options.enabled ?? true,
  });
}

/** Read an account. */
export function useAccount(id: string): UseQueryResult<Account> {
  const shoal = useShoal();
  const cache = useQueryClient();
  return useQuery<Account>({
    queryKey: keys.account(id),
    queryFn: ({ signal }) => shoal.get("/api/v1/accounts/{id}", { params: { path: { id } }, signal }),
    placeholderData: () => findAccount(cache, id),
  });
}

/** Read the relationship of the member to an account, such as whether they follow it. */
export function useRelationship(id: string, options: { enabled?: boolean } = {}): UseQueryResult<Relationship> {
  const shoal = useShoal();
  return useQuery({
    queryKey: keys.relationship(id),
    queryFn: async ({ signal }) => {
      const found = await shoal.get("/api/v1/accounts/relationships", { params: { query: { "id[]": [id] } }, signal });
      const [relationship] = found;
      if (!relationship) throw new Error(`There is no account ${id}`);
      return relationship;
    },
    enabled: options.enabled ?? true,
  });
}
