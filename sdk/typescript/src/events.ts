import type { Shoal } from "./client.js";
import type { EventsEntity } from "./schema.js";
import { isTemporary, ShoalError } from "./errors.js";
import { pause } from "./stream.js";

export interface EventsOptions {
  /** The `cursor` of the last processed page; `start` for the oldest stored event. By default, the events begin now. */
  after?: string;
  /** Types of events, such as `post.created` or `member`. */
  types?: readonly string[];
  /** Maximum events of a page, 100 by default. */
  limit?: number;
  /** Ends the iteration without an error. */
  signal?: AbortSignal;
}

/**
 * Iterate over pages of the event log with a server key, and wait for new events. Store the `cursor` of a page when its events are
 * processed, and continue with it as `after`: then no event is lost. The iteration repeats temporary failures. It throws
 * {@link ShoalError} with status 410 if events after the cursor were deleted.
 */
export async function* serverEvents(
  shoal: Shoal,
  options: EventsOptions = {},
): AsyncGenerator<EventsEntity, void, undefined> {
  const { after, types = [], limit = 100, signal } = options;
  const filter = { types: types.join(","), limit };
  let cursor = after;
  for (let failures = 0; !signal?.aborted; ) {
    try {
      // The response to a request without a cursor is the current end.
      const query = cursor === undefined ? filter : { ...filter, after: cursor, wait: 30 };
      const page = await shoal.get("/api/shoal/v1/events", { params: { query }, signal, timeout: 60_000 });
      failures = 0;
      cursor = page.cursor;
      if (page.events.length > 0) yield page;
    } catch (error) {
      if (signal?.aborted) return;
      if (!isTemporary(error)) throw error;
      const wait = error instanceof ShoalError ? (error.retryAfter ?? 0) * 1_000 : 0;
      await pause(Math.max(wait, Math.min(500 * 2 ** failures++, 30_000)), signal);
    }
  }
}
