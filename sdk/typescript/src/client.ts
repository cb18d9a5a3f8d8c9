import createFetchClient, { type FetchOptions, type Middleware } from "openapi-fetch";
import type { paths } from "./schema.js";
import { ConnectionError, ShoalError, TimeoutError } from "./errors.js";

export type Method = "get" | "post" | "put" | "patch" | "delete";

/** The paths that have a method. */
export type PathOf<M extends Method> = {
  [P in keyof paths]: paths[P][M] extends { responses: object } ? P : never;
}[keyof paths];

type Operation<M extends Method, P extends keyof paths> = paths[P][M] & object;

type Content<R> = R extends { content: infer C } ? C[keyof C] : never;

/** The response body of an operation. */
export type Data<M extends Method, P extends keyof paths> =
  Operation<M, P> extends { responses: infer R } ? Content<R[Exclude<keyof R, "default">]> : never;

/** Options of each request. */
export interface CallOptions {
  /** Milliseconds until a {@link TimeoutError}; 0 for none. The default is that of the client. */
  timeout?: number;
  /** Aborts the request. The call then throws the reason of the signal. */
  signal?: AbortSignal | undefined;
  headers?: Record<string, string>;
}

/** How to read the body of a response. */
export type ParseAs = "json" | "text" | "blob" | "arrayBuffer" | "stream";

/** The parameters, body and options of an operation. `parseAs` is `json` by default. */
export type Init<M extends Method, P extends keyof paths, A extends ParseAs = "json"> = Pick<
  FetchOptions<Operation<M, P>>,
  "params" | "body"
> &
  CallOptions & { parseAs?: A };

/** The paths whose operation has a required parameter or body. */
export type DemandingPath<M extends Method> = {
  // The check type names `P`, so that TypeScript decides for each path and not once for all.
  [P in PathOf<M>]: FetchOptions<Operation<M, P>> extends infer O ? (Record<never, never> extends O ? never : P) : never;
}[PathOf<M>];

/** A rest parameter that may be omitted if the operation requires neither parameters nor a body. */
export type InitArgument<M extends Method, P extends keyof paths, A extends ParseAs = "json"> = P extends DemandingPath<M>
  ? [init: Init<M, P, A>]
  : [init?: Init<M, P, A>];

interface Parsed<D> {
  json: D;
  text: string;
  blob: Blob;
  arrayBuffer: ArrayBuffer;
  stream: ReadableStream<Uint8Array>;
}

type Call<M extends Method> = <P extends PathOf<M>, A extends ParseAs = "json">(
  path: P,
  ...init: InitArgument<M, P, A>
) => Promise<Parsed<Data<M, P>>[A]>;

/** A response with its decoded body. */
export interface Answer<D> {
  data: D;
  response: Response;
}

/** Returns an access token, or undefined for requests without one. */
export type TokenSource = () => string | undefined | Promise<string | undefined>;

export interface ShoalOptions {
  /** The address of the server, such as `https://social.example`. In a browser, an empty text is the server of the page. */
  url: string;
  /** An access token, a server key, or a function that is called before each request. */
  token?: string | TokenSource | undefined;
  /** The member for whom a server key acts: `id:1`, or `external:ISSUER:ID` with both parts percent-encoded. */
  member?: string;
  /** Milliseconds that a request may take, 30,000 by default; 0 for no limit. */
  timeout?: number;
  /** Replaces `fetch`, for example in tests. */
  fetch?: (request: Request) => Promise<Response>;
}

/**
 * A client of a server. Create it with {@link createShoal}.
 *
 * Each method takes the path of an operation as in the API reference, and returns the body of the response. It throws
 * {@link ShoalError} for an error response, {@link ConnectionError} without a response, and {@link TimeoutError}.
 */
export interface Shoal {
  readonly url: string;
  get: Call<"get">;
  post: Call<"post">;
  put: Call<"put">;
  patch: Call<"patch">;
  delete: Call<"delete">;
  /** Like the other methods, but also return the response with its headers. */
  request<M extends Method, P extends PathOf<M>>(
    method: M,
    path: P,
    ...init: InitArgument<M, P>
  ): Promise<Answer<Data<M, P>>>;
  /** The headers that authorize a request: `Authorization`, and `Shoal-Member` if the client acts for a member. */
  headers(): Promise<Record<string, string>>;
  /** Send a request to a path of the server with these headers. Throws like the other methods. */
  fetch(path: string, init?: RequestInit & { timeout?: number }): Promise<Response>;
}

/** Options of a call that the client does not know the operation of. */
type AnyInit = CallOptions & { params?: object; body?: unknown; parseAs?: ParseAs };

/** The requests of bodies. In Node, an aborted signal does not end a body whose request was garbage-collected. */
const requests = new WeakMap<ReadableStream, Request>();

/** Create a client of a server. */
export function createShoal(options: ShoalOptions): Shoal {
  const url = options.url.replace(/\/+$/, "");
  if (!/^(https?:\/\/[^/]+.*)?$/.test(url)) throw new Error(`url: begins with https:// or http:// (got ${options.url})`);
  const fetched = options.fetch ?? ((request: Request) => globalThis.fetch(request));
  const send = async (request: Request): Promise<Response> => {
    const response = await fetched(request);
    if (response.body) requests.set(response.body, request);
    return response;
  };
  const usual = options.timeout ?? 30_000;

  async function headers(): Promise<Record<string, string>> {
    const token = typeof options.token === "function" ? await options.token() : options.token;
    const member = options.member === undefined ? undefined : { "Shoal-Member": options.member };
    return token ? { Authorization: `Bearer ${token}`, ...member } : {};
  }

  const client = createFetchClient<Record<string, never>>({ baseUrl: url, fetch: send, bodySerializer: encoded });
  const authorize: Middleware = {
    async onRequest({ request }) {
      for (const [name, value] of Object.entries(await headers())) request.headers.set(name, value);
    },
  };
  client.use(authorize);
  const call = client.request as unknown as (
    method: Method,
    path: string,
    init: object,
  ) => Promise<{ data?: unknown; error?: unknown; response: Response }>;

  async function request(method: Method, path: string, init: AnyInit = {}): Promise<Answer<unknown>> {
    const { timeout = usual, signal, ...rest } = init;
    const form = path.startsWith("/oauth/") ? { "Content-Type": "application/x-www-form-urlencoded" } : undefined;
    return await limited(timeout, signal, async (either) => {
      const sent = { ...rest, headers: { ...(rest.body === undefined ? {} : form), ...rest.headers }, signal: either };
      const { data, error, response } = await call(method, path, sent);
      if (!response.ok) throw new ShoalError(response, error);
      return { data, response };
    });
  }

  const by = (method: Method) => async (path: string, init?: AnyInit) => (await request(method, path, init)).data;
  return {
    url,
    get: by("get"),
    post: by("post"),
    put: by("put"),
    patch: by("patch"),
    delete: by("delete"),
    request,
    headers,
    fetch: (path, init = {}) =>
      limited(init.timeout ?? usual, init.signal, async (signal) => {
        // A path without a slash could change the host, to which the token is sent.
        if (!path.startsWith("/")) throw new Error(`A path begins with a slash: ${path}`);
        const all = new Headers(init.headers);
        for (const [name, value] of Object.entries(await headers())) all.set(name, value);
        const response = await send(new Request(url + path, { ...init, headers: all, signal: signal ?? null }));
        if (!response.ok) throw new ShoalError(response, await response.json().catch(() => undefined));
        return response;
      }),
  } as Shoal;
}

/** Run a request with a time limit, and convert its failures. */
async function limited<T>(
  timeout: number,
  signal: AbortSignal | null | undefined,
  run: (signal: AbortSignal | undefined) => Promise<T>,
): Promise<T> {
  const limit = new AbortController();
  const timer = timeout > 0 ? setTimeout(() => limit.abort(), timeout) : undefined;
  const either = signal ? AbortSignal.any([signal, limit.signal]) : limit.signal;
  try {
    either.throwIfAborted();
    return await run(either);
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    if (limit.signal.aborted) throw new TimeoutError(`No response within ${timeout} ms`, { cause: error });
    if (error instanceof TypeError) throw new ConnectionError("The server is not reachable", { cause: error });
    if (error instanceof SyntaxError) throw new ConnectionError("The response is not JSON: another server answered", { cause: error });
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

/** Encode a body as a form if it has files or its content type says so, and as JSON otherwise. */
function encoded(body: unknown, headers?: unknown): BodyInit {
  if (body instanceof FormData) return body;
  const pairs = Object.entries((body ?? {}) as Record<string, unknown>);
  if (headers instanceof Headers && headers.get("Content-Type")?.startsWith("application/x-www-form")) {
    return new URLSearchParams(pairs.flatMap(([name, value]) => (value == null ? [] : [[name, String(value)]])));
  }
  if (pairs.some(([, value]) => value instanceof Blob)) return formOf(body as Record<string, unknown>);
  return JSON.stringify(body);
}

/** Encode a body with files: `name[key]` for the fields of an object, and `name[]` for the items of a list. */
export function formOf(body: Record<string, unknown>): FormData {
  const form = new FormData();
  const add = (name: string, value: unknown): void => {
    if (value === undefined || value === null) return;
    if (value instanceof Blob) form.append(name, value);
    else if (Array.isArray(value)) value.forEach((item) => add(`${name}[]`, item));
    else if (typeof value === "object") Object.entries(value).forEach(([key, inner]) => add(`${name}[${key}]`, inner));
    else form.append(name, String(value));
  };
  Object.entries(body).forEach(([name, value]) => add(name, value));
  return form;
}
