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
    const seconds = Number(response.headers.get("Retry-After") ?? Number.NaN);
    this.retryAfter = Number.isFinite(seconds) ? seconds : undefined;
    this.response = response;
  }

  /** Whether an equal request may succeed later: a rate limit, an overload or an outage. */
  get temporary(): boolean {
    return this.status === 429 || this.status >= 500;
  }
}

/** No response, because the server was not reachable or the connection was lost. A change may have been made. */
export class ConnectionError extends Error {
  override readonly name = "ConnectionError";
}

/** No response within the timeout. A change may have been made. */
export class TimeoutError extends Error {
  override readonly name = "TimeoutError";
}
