import type { CallOptions, Data, DemandingPath, Init, PathOf, Shoal } from "./client.js";

/** Parameters that select another page, such as `max_id`, or the `cursor` of a ranked feed. */
export type Cursor = Readonly<Record<string, string>>;

/** A page of a list. */
export interface Page<D> {
  data: D;
  /** Selects the next page, with older items; undefined at the end. */
  next: Cursor | undefined;
  /** Selects the previous page, with newer items; undefined if the page is empty. */
  previous: Cursor | undefined;
}

/** The paths whose response is a list. */
export type ListPath = { [P in PathOf<"get">]: Data<"get", P> extends readonly unknown[] ? P : never }[PathOf<"get">];

type PageArgument<P extends PathOf<"get">> = P extends DemandingPath<"get"> ? [init: PageInit<P>] : [init?: PageInit<P>];

/** The parameters of a list. `cursor` selects a page; `direction` is `older` by default. */
export type PageInit<P extends PathOf<"get">> = Init<"get", P> & {
  cursor?: Cursor | undefined;
  direction?: "older" | "newer";
};

type AnyInit = CallOptions & {
  cursor?: Cursor | undefined;
  direction?: "older" | "newer";
  params?: { query?: Record<string, unknown> };
};

/** Read a page of a list. */
export async function page<P extends PathOf<"get">>(
  shoal: Shoal,
  path: P,
  ...init: PageArgument<P>
): Promise<Page<Data<"get", P>>> {
  const { cursor, direction: _, ...rest } = (init[0] ?? {}) as AnyInit;
  const query = Object.entries(rest.params?.query ?? {}).filter(([name]) => !cursor || !POSITIONS.includes(name));
  const params = { ...rest.params, query: { ...Object.fromEntries(query), ...cursor } };
  const call = shoal.request as (method: "get", path: P, init: object) => Promise<{ data: Data<"get", P>; response: Response }>;
  const { data, response } = await call("get", path, { ...rest, params });
  const links = linksOf(response.headers.get("Link") ?? "");
  return { data, next: links["next"], previous: links["prev"] };
}

/** Iterate over the pages of a list that have items, until its end. A page of a feed with few posts may be empty. */
export async function* pages<P extends PathOf<"get">>(
  shoal: Shoal,
  path: P,
  ...init: PageArgument<P>
): AsyncGenerator<Data<"get", P>, void, undefined> {
  const first = (init[0] ?? {}) as AnyInit;
  let cursor = first.cursor;
  do {
    const found: Page<Data<"get", P>> = await page(shoal, path, ...([{ ...first, cursor }] as unknown as PageArgument<P>));
    const isEmpty = (found.data as unknown as { length?: number }).length === 0;
    if (!isEmpty) yield found.data;
    cursor = first.direction !== "newer" ? found.next : isEmpty ? undefined : found.previous;
  } while (cursor);
}

/** Iterate over the items of a list. Pages are read when they are needed. */
export async function* items<P extends ListPath>(
  shoal: Shoal,
  path: P,
  ...init: PageArgument<P>
): AsyncGenerator<Data<"get", P> extends readonly (infer I)[] ? I : never, void, undefined> {
  for await (const found of pages(shoal, path, ...init)) yield* found as never[];
}

const POSITIONS = ["max_id", "min_id", "since_id", "offset", "cursor"];

/**
 * Return the cursors of a `Link` header by relation. They keep only the parameters of position, so that a proxy that changes the
 * address of the server has no effect, and tokens are sent to no other host.
 */
export function linksOf(header: string): Partial<Record<string, Cursor>> {
  const found: Record<string, Cursor> = {};
  for (const [, address, relation] of header.matchAll(/<([^>]*)>\s*;\s*rel="?(\w+)"?/g)) {
    const query = new URL(address ?? "", "http://localhost").searchParams;
    const cursor = Object.fromEntries([...query].filter(([name]) => POSITIONS.includes(name)));
    // Without a position, the link would lead to the first page again.
    if (Object.keys(cursor).length > 0) found[relation ?? ""] = cursor;
  }
  return found;
}
