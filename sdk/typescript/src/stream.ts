import type { Shoal } from "./client.js";
import type { Conversation, Notification, Status } from "./schema.js";
import { ConnectionError, isTemporary, ShoalError } from "./errors.js";

/** A stream of live updates. */
export type StreamName =
  | "user"
  | "user:notification"
  | "public"
  | "public:media"
  | "direct"
  | { readonly tag: string }
  | { readonly list: string }
  /** The name or id of a declared feed. A stream has no parameters, because they only change the order. */
  | { readonly feed: string };

/** An event of a stream. `id` is its position: a stream resumes after it. */
export type StreamEvent = { readonly id: string } & (
  | { readonly event: "update" | "status.update"; readonly data: Status }
  /** `data` is the id of a status. */
  | { readonly event: "delete"; readonly data: string }
  | { readonly event: "notification"; readonly data: Notification }
  | { readonly event: "conversation"; readonly data: Conversation }
  /** `refresh`: other events may have been lost, because the client was away for too long. Read the lists again. */
  | { readonly event: "refresh" | "filters_changed"; readonly data: undefined }
  /** A ranked feed has newer posts. Read it again to see them. */
  | { readonly event: "newer"; readonly data: undefined }
  /** The named feed was changed: read it again. After `deleted`, it is not readable any more, and the server ends the stream. */
  | { readonly event: "feed"; readonly data: { readonly id: string; readonly state: "changed" | "deleted" } }
);

export interface StreamOptions {
  /** The `id` of the last processed event. By default, the stream starts now. */
  lastEventId?: string | undefined;
  /** Include `shoal.data` of the statuses, up to 4 KB each. */
  withData?: boolean;
  /** Ends the iteration without an error. */
  signal?: AbortSignal;
  /** Milliseconds without a sign of the server, which sends one every 15 seconds, until the client reconnects: 45,000 by default. */
  patience?: number;
  /** Called when the stream is connected, and again after each reconnection. Later events are not lost. */
  onConnect?: () => void;
}

const FIRST_WAIT = 500;
const LONGEST_WAIT = 30_000;
const WITHOUT_DATA: ReadonlySet<string> = new Set(["refresh", "filters_changed", "newer"]);

/**
 * Iterate over the events of a stream. The iteration reconnects after failures, with increasing waits, and resumes after the last
 * event, so no event is lost; if the server no longer stores the missed events, the next event is `refresh` (`newer` in a ranked
 * feed). An event may be repeated, so ignore an `update` for a status that is already shown. It throws
 * {@link ShoalError} if the server refuses the stream permanently, for example because the token was revoked.
 */
export async function* stream(
  shoal: Shoal,
  name: StreamName,
  options: StreamOptions = {},
): AsyncGenerator<StreamEvent, void, undefined> {
  const { path, query } = addressOf(name);
  if (options.withData) query.set("with_data", "true");
  let id = options.lastEventId ?? "";
  for (let failures = 0; !options.signal?.aborted; failures++) {
    const started = Date.now();
    let wait = 0;
    let connected = false;
    try {
      if (id) query.set("last_event_id", id);
      for await (const message of messages(shoal, `${path}?${query}`, options)) {
        // Only an event is a success: a server that accepts connections and ends them at once gets fewer and fewer.
        if (message.event) failures = -1;
        id = message.id || id;
        // The first message is the position of the stream.
        if (!connected) options.onConnect?.();
        connected = true;
        if (message.event) yield eventOf(message.event, message.data, id);
      }
    } catch (error) {
      if (options.signal?.aborted) return;
      if (!isTemporary(error)) throw error;
      if (error instanceof ShoalError) wait = (error.retryAfter ?? 0) * 1_000;
    }
    // A connection that lasted for a while was healthy.
    if (Date.now() - started > 5_000) failures = -1;
    const backoff = Math.min(FIRST_WAIT * 2 ** Math.max(failures, 0), LONGEST_WAIT) * (0.5 + Math.random() / 2);
    await pause(Math.max(wait, backoff), options.signal);
  }
}

function addressOf(name: StreamName): { path: string; query: URLSearchParams } {
  if (typeof name === "object") {
    const kind = "tag" in name ? "hashtag" : "feed" in name ? "shoal/feed" : "list";
    return { path: `/api/v1/streaming/${kind}`, query: new URLSearchParams({ ...name }) };
  }
  if (name === "public:media") return { path: "/api/v1/streaming/public", query: new URLSearchParams({ only_media: "true" }) };
  return { path: `/api/v1/streaming/${name.replace(":", "/")}`, query: new URLSearchParams() };
}

function eventOf(event: string, data: string, id: string): StreamEvent {
  const parsed = event === "delete" ? data : WITHOUT_DATA.has(event) ? undefined : JSON.parse(data);
  return { event, data: parsed, id } as StreamEvent;
}

/** Wait; return earlier if the signal is aborted. */
export function pause(milliseconds: number, signal?: AbortSignal | null): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    if (signal?.aborted) done();
    else signal?.addEventListener("abort", done);
  });
}

/** A message of an event stream. Without `event`, it only reports the position. */
interface Message {
  event: string;
  data: string;
  id: string;
}

async function* messages(shoal: Shoal, path: string, options: StreamOptions): AsyncGenerator<Message, void, undefined> {
  const { patience = 45_000 } = options;
  const control = new AbortController();
  const end = () => control.abort();
  options.signal?.addEventListener("abort", end);
  let timer = setTimeout(end, patience);
  try {
    const headers = { Accept: "text/event-stream" };
    const response = await shoal.fetch(path, { headers, signal: control.signal, timeout: patience, cache: "no-store" });
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new MessageParser();
    for (;;) {
      const chunk = await reader?.read();
      if (!chunk || chunk.done) return;
      clearTimeout(timer);
      timer = setTimeout(end, patience);
      yield* parser.parse(chunk.value);
    }
  } catch (error) {
    // The connection was lost, or the server gave no sign.
    if (error instanceof TypeError || control.signal.aborted) throw new ConnectionError("The stream was lost", { cause: error });
    throw error;
  } finally {
    clearTimeout(timer);
    options.signal?.removeEventListener("abort", end);
    control.abort();
  }
}

/** A parser of server-sent events, which arrive in chunks of any length. */
export class MessageParser {
  #rest = "";
  #event = "";
  #data: string[] = [];
  #id = "";

  *parse(chunk: string): Generator<Message, void, undefined> {
    const lines = (this.#rest + chunk).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      const [, field, value = ""] = /^(\w*)(?:: ?(.*?))?\r?$/.exec(line) ?? [];
      if (field === "event") this.#event = value;
      else if (field === "data") this.#data.push(value);
      else if (field === "id") {
        // An id before the first field of an event is the position at which the stream starts.
        if (!this.#event && this.#data.length === 0) yield { event: "", data: "", id: value };
        this.#id = value;
      } else if (/^\r?$/.test(line)) {
        if (this.#data.length > 0) yield { event: this.#event || "message", data: this.#data.join("\n"), id: this.#id };
        this.#event = this.#id = "";
        this.#data = [];
      }
    }
  }
}
