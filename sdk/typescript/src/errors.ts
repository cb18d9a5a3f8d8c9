import type { Detail, Error as ErrorBody } from "./schema.js";

/** A response with an error status. */
export class ShoalError extends Error {
  override readonly name = "ShoalError";
  /** The HTTP status, such as 422. */
  readonly status: number;
  /** The reason as a sentence; on `/oauth/`, the explanation of `code`. */
  readonly description: string;
  /** The OAuth error code, such as `invalid_grant`; undefined outside `/oauth/`. */
  readonly code: string | undefined;
  /** The errors of each field. */
  readonly details: Readonly<Record<string, Detail[]>>;
  /** The id of stored content that is waiting for approval by a moderator. */
  readonly heldId: string | undefined;
  /** Seconds to wait before a retry, if the server gave them. */
  readonly retryAfter: number | undefined;
  readonly response: Response;

  constructor(response: Response, body: unknown) {
    const known: Partial<ErrorBody> = typeof body === "object" && body !== null ? body : {};
    const description = known.error_description ?? known.error ?? `Status ${response.status}`;
    super(description);
    this.status = response.status;
    this.description = description;
    this.code = known.error_description === undefined ? undefined : known.error;
    this.details = known.details ?? {};
    this.heldId = known.held_id;
    this.retryAfter = secondsOf(response.headers.get("Retry-After"));
    this.response = response;
  }

  /** Whether an equal request may succeed later: a rate limit, an overload or an outage. */
  get temporary(): boolean {
    return this.status === 429 || this.status >= 500;
  }
}

/** Return the seconds of a `Retry-After` header: a number or, from some proxies, a date. */
function secondsOf(value: string | null): number | undefined {
  if (!value) return undefined;
  const seconds = /^\d+$/.test(value) ? Number(value) : (Date.parse(value) - Date.now()) / 1_000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : undefined;
}

/** Whether a request may succeed if it is repeated: the connection failed, it took too long, or the server is overloaded. */
export function isTemporary(error: unknown): boolean {
  return error instanceof ShoalError ? error.temporary : error instanceof ConnectionError || error instanceof TimeoutError;
}

/** No response of the server, because it was not reachable or the connection was lost. A change may have been made. */
export class ConnectionError extends Error {
  override readonly name = "ConnectionError";
}

/** No response within the timeout. A change may have been made. */
export class TimeoutError extends Error {
  override readonly name = "TimeoutError";
}
