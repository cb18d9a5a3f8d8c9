import type { QueryClient, QueryKey } from "@tanstack/react-query";
import type { Account, Relationship, Status } from "../schema.js";

/** The keys of the queries. All begin with `shoal`. */
export const keys = {
  all: ["shoal"] as const,
  me: ["shoal", "me"] as const,
  feeds: ["shoal", "feed"] as const,
  feed: (path: string, params: object) => ["shoal", "feed", path, params] as const,
  post: (id: string) => ["shoal", "post", id] as const,
  thread: (id: string) => ["shoal", "thread", id] as const,
  notifications: (query: object) => ["shoal", "notifications", query] as const,
  account: (id: string) => ["shoal", "account", id] as const,
  relationship: (id: string) => ["shoal", "relationship", id] as const,
};

/**
 * Replace objects in cached data. `change` returns another object, the same one, or undefined to remove it from its list. Unchanged
 * parts keep their identity, so that only components that show a changed object render again.
 */
export function replaced<T>(data: T, isMatch: (value: object) => boolean, change: (value: object) => object | undefined): T {
  function walk(value: unknown): unknown {
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) {
      const found = value.map(walk).filter((item, index) => item !== undefined || value[index] === undefined);
      return found.length === value.length && found.every((item, index) => item === value[index]) ? value : found;
    }
    if (isMatch(value)) return change(value);
    let copy: Record<string, unknown> | undefined;
    for (const [name, inner] of Object.entries(value)) {
      const after = walk(inner);
      if (after !== inner) (copy ??= { ...value })[name] = after;
    }
    // A share without its status is removed too.
    return copy && "reblog" in copy && copy["reblog"] === undefined ? undefined : (copy ?? value);
  }
  return walk(data) as T;
}

const isStatus = (id: string) => (value: object) => "visibility" in value && "content" in value && (value as Status).id === id;

const isFetching = (client: QueryClient, queryKey: QueryKey) => client.isFetching({ queryKey }) > 0;

function afterFetches(client: QueryClient, queryKey: QueryKey, call: () => void): void {
  const stop = client.getQueryCache().subscribe(() => {
    if (isFetching(client, queryKey)) return;
    stop();
    call();
  });
}

/** Change cached data now, and again after running fetches, because their responses may be older than the change. */
export function applyChange(client: QueryClient, queryKey: QueryKey, change: () => void): void {
  change();
  if (isFetching(client, queryKey)) afterFetches(client, queryKey, change);
}

/** Fetch a query again, after a running fetch. */
export function refetch(client: QueryClient, queryKey: QueryKey): void {
  const invalidate = () => void client.invalidateQueries({ queryKey, exact: true });
  if (isFetching(client, queryKey)) afterFetches(client, queryKey, invalidate);
  else invalidate();
}

/** Change a post in all cached feeds, threads and notifications. If `change` returns undefined, remove the post from its lists. */
export function patchPost(client: QueryClient, id: string, change: (post: Status) => Status | undefined): void {
  const onStatus = change as (value: object) => object | undefined;
  for (const [key, data] of client.getQueriesData({ queryKey: keys.all })) {
    const after = replaced(data, isStatus(id), onStatus);
    if (after === undefined && data !== undefined) client.removeQueries({ queryKey: key, exact: true });
    else if (after !== data) client.setQueryData(key, after);
  }
}

/** Return a post in its latest state. The properties of its list, such as the explanation of its position, stay. */
export function updated(post: Status, latest: Status): Status {
  const { shared_by, ranking, explanation } = post.shoal ?? {};
  const kept = Object.entries({ shared_by, ranking, explanation }).filter(([, value]) => value !== undefined);
  return kept.length === 0 ? latest : { ...latest, shoal: { ...Object.fromEntries(kept), ...latest.shoal } };
}

/** Return a post from any cached list, so that its page shows it at once. */
export function findPost(client: QueryClient, id: string): Status | undefined {
  let found: Status | undefined;
  for (const [, data] of client.getQueriesData({ queryKey: keys.all })) {
    replaced(data, isStatus(id), (value) => (found = value as Status));
    if (found) return found;
  }
  return undefined;
}

export function patchRelationship(
  client: QueryClient,
  id: string,
  change: (relationship: Relationship) => Relationship,
): void {
  client.setQueryData<Relationship>(keys.relationship(id), (current) => current && change(current));
}

/** Return an account from any cached post. */
export function findAccount(client: QueryClient, id: string): Account | undefined {
  let found: Account | undefined;
  const isAccount = (value: object) => "acct" in value && "followers_count" in value && (value as Account).id === id;
  for (const [, data] of client.getQueriesData({ queryKey: keys.all })) {
    replaced(data, isAccount, (value) => (found = value as Account));
    if (found) return found;
  }
  return undefined;
}
