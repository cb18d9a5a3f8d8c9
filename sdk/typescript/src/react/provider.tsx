import { createContext, useContext, useEffect, useMemo, useRef, type ReactNode } from "react";
import { useQueryClient, type QueryClient } from "@tanstack/react-query";
import type { Shoal } from "../client.js";
import { isTemporary, ShoalError } from "../errors.js";
import { stream, type StreamEvent, type StreamName } from "../stream.js";
import type { Status } from "../schema.js";
import { applyChange, keys, patchPost, updated } from "./cache.js";

interface Listener {
  onEvent: (event: StreamEvent) => void;
  onStart: () => void;
}

/** The open streams. Components that listen to the same stream share a connection. */
class LiveStreams {
  readonly #open = new Map<string, { listeners: Set<Listener>; control: AbortController }>();

  constructor(
    private readonly shoal: Shoal,
    private readonly cache: QueryClient,
    private readonly onError: (error: unknown) => void,
  ) {}

  listen(name: StreamName, listener: Listener): () => void {
    const key = JSON.stringify(name);
    let found = this.#open.get(key);
    if (!found) {
      found = { listeners: new Set(), control: new AbortController() };
      this.#open.set(key, found);
      void this.#run(key, name, found.listeners, found.control.signal);
    }
    const { listeners, control } = found;
    listeners.add(listener);
    return () => {
      listeners.delete(listener);
      // A component that mounts again at once, as in React's strict mode, keeps the connection.
      setTimeout(() => {
        if (listeners.size > 0 || this.#open.get(key)?.control !== control) return;
        this.#open.delete(key);
        control.abort();
      });
    };
  }

  async #run(key: string, name: StreamName, listeners: Set<Listener>, signal: AbortSignal): Promise<void> {
    let started = false;
    const onConnect = () => {
      // A later connection resumes the stream, so its listeners missed nothing.
      if (!started) for (const listener of listeners) this.#call(listener.onStart);
      started = true;
    };
    try {
      // Edited posts replace those of the lists, some of which have data.
      for await (const event of stream(this.shoal, name, { signal, withData: true, onConnect })) {
        if (event.event === "status.update") this.#patch(event.data.id, (found) => updated(found, event.data));
        else if (event.event === "delete") this.#patch(event.data, () => undefined);
        else if (event.event === "refresh") void this.cache.invalidateQueries({ queryKey: keys.all });
        for (const listener of listeners) this.#call(() => listener.onEvent(event));
      }
    } catch (error) {
      this.onError(error);
      // A component that listens later opens the stream again, for example after a new log-in.
      if (this.#open.get(key)?.listeners === listeners) this.#open.delete(key);
    }
  }

  #patch(id: string, patch: (post: Status) => Status | undefined): void {
    applyChange(this.cache, keys.all, () => patchPost(this.cache, id, patch));
  }

  /** An error of one component does not end the stream of the others. */
  #call(call: () => void): void {
    try {
      call();
    } catch (error) {
      console.error(error);
    }
  }
}

/**
 * Options for the queries of a `QueryClient`: temporary failures are repeated up to three times, after the time that the server asks
 * for. Without them, TanStack Query also repeats requests that are refused, and shows the reason seconds later.
 */
export const retryOptions = {
  retry: (failures: number, error: Error): boolean => failures < 3 && isTemporary(error) && waitOf(error) <= 30,
  retryDelay: (failures: number, error: Error): number => Math.max(waitOf(error), Math.min(2 ** failures, 30)) * 1_000,
};

function waitOf(error: Error): number {
  return error instanceof ShoalError ? (error.retryAfter ?? 0) : 0;
}

interface Value {
  shoal: Shoal;
  live: LiveStreams;
}

const ShoalContext = createContext<Value | null>(null);

/** Gives a client to the hooks. Put it inside a `QueryClientProvider`. */
export function ShoalProvider(props: {
  client: Shoal;
  /** Called if the server refuses a stream permanently, for example because the token was revoked. By default, it is logged. */
  onStreamError?: (error: unknown) => void;
  children: ReactNode;
}): ReactNode {
  const cache = useQueryClient();
  const onError = useRef<(error: unknown) => void>(console.error);
  useEffect(() => {
    onError.current = props.onStreamError ?? console.error;
  });
  const value = useMemo(
    () => ({ shoal: props.client, live: new LiveStreams(props.client, cache, (error) => onError.current(error)) }),
    [props.client, cache],
  );
  return <ShoalContext.Provider value={value}>{props.children}</ShoalContext.Provider>;
}

function useValue(): Value {
  const value = useContext(ShoalContext);
  if (!value) throw new Error("ShoalProvider is missing above this component");
  return value;
}

/** Return the client. */
export function useShoal(): Shoal {
  return useValue().shoal;
}

/**
 * Call a function for each event of a stream; with null, for none. Edited and deleted posts change in all hooks by themselves.
 * `onStart` is called when the stream has started: reload data that was read earlier, because it may lack changes. It is not called
 * if another component has started the stream before.
 */
export function useStream(name: StreamName | null, onEvent: (event: StreamEvent) => void, onStart?: () => void): void {
  const { live } = useValue();
  const latest = useRef({ onEvent, onStart });
  useEffect(() => {
    latest.current = { onEvent, onStart };
  });
  const key = JSON.stringify(name);
  useEffect(() => {
    const wanted = JSON.parse(key) as StreamName | null;
    if (wanted === null) return undefined;
    return live.listen(wanted, {
      onEvent: (event) => latest.current.onEvent(event),
      onStart: () => latest.current.onStart?.(),
    });
  }, [live, key]);
}
