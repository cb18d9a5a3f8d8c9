import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, expectTypeOf, test } from "vitest";
import { createShoal, serverEvents, ShoalError, stream, type Shoal, type Status, type StreamEvent } from "../src/index.js";
import { MessageParser } from "../src/stream.js";
import { proxied } from "./proxy.js";
import { join, url } from "./server.js";

async function post(shoal: Shoal, status: string): Promise<string> {
  return (await shoal.post("/api/v1/statuses", { body: { status } })).id;
}

/** Start a stream, and return its connection and a function that returns the next events. */
async function listening(shoal: Shoal, options: Parameters<typeof stream>[2] & { name?: Parameters<typeof stream>[1] } = {}) {
  const control = new AbortController();
  const { name = "user", ...rest } = options;
  let connected: () => void;
  const first = new Promise<void>((resolve) => (connected = resolve));
  const events = stream(shoal, name, { ...rest, signal: control.signal, onConnect: () => connected() });
  let next: Promise<IteratorResult<StreamEvent>> | undefined = events.next();
  await first;
  return {
    async next(): Promise<StreamEvent> {
      const { value } = await (next ?? events.next());
      next = undefined;
      return value as StreamEvent;
    },
    async end() {
      control.abort();
      expect((await (next ?? events.next())).done).toBe(true);
    },
  };
}

describe("streams", () => {
  test("new, changed and deleted statuses arrive with their types", async () => {
    const ann = await join("ann");
    const live = await listening(ann);
    const id = await post(ann, "Low tide");
    const created = await live.next();
    expect(created).toMatchObject({ event: "update", data: { id } });
    if (created.event === "update") expectTypeOf(created.data).toEqualTypeOf<Status>();
    await ann.put("/api/v1/statuses/{id}", { params: { path: { id } }, body: { status: "High tide" } });
    expect(await live.next()).toMatchObject({ event: "status.update", data: { id } });
    await ann.delete("/api/v1/statuses/{id}", { params: { path: { id } } });
    expect(await live.next()).toMatchObject({ event: "delete", data: id });
    await live.end();
  });

  test("a stream of a tag has only statuses with the tag", async () => {
    const ann = await join("ann");
    const live = await listening(ann, { name: { tag: "rockpool" } });
    await post(ann, "Nothing");
    const id = await post(ann, "Limpets #rockpool");
    expect(await live.next()).toMatchObject({ event: "update", data: { id } });
    await live.end();
  });

  test("a stream of a declared feed has its new statuses, or reports that a ranked one has newer statuses", async () => {
    const ann = await join("ann");
    const declaration = { sources: [{ from: "tag", tag: "seaglass" }] };
    const order = { by: "expression", expression: "likes" };
    const feeds = [declaration, { ...declaration, order }].map((declaration) =>
      ann.post("/api/shoal/v1/feeds", { body: { title: "Seaglass", declaration } }),
    );
    const [newest, ranked] = await Promise.all(feeds);
    const live = await listening(ann, { name: { feed: newest!.id } });
    const newer = await listening(ann, { name: { feed: ranked!.id } });
    await post(ann, "Nothing");
    const id = await post(ann, "Green #seaglass");
    expect(await live.next()).toMatchObject({ event: "update", data: { id } });
    expect(await newer.next()).toMatchObject({ event: "newer", data: undefined });
    await live.end();
    await newer.end();
  });

  test("a stream of a declared feed reports that the feed was changed, and throws after it was deleted", async () => {
    const ann = await join("ann");
    const declaration = { sources: [{ from: "tag", tag: "seaglass" }] };
    const { id } = await ann.post("/api/shoal/v1/feeds", { body: { title: "Seaglass", declaration } });
    const live = await listening(ann, { name: { feed: id } });
    const params = { path: { id } };
    await ann.put("/api/shoal/v1/feeds/{id}", { params, body: { declaration: { sources: [{ from: "everybody" }] } } });
    expect(await live.next()).toMatchObject({ event: "feed", data: { id, state: "changed" } });
    await ann.delete("/api/shoal/v1/feeds/{id}", { params });
    expect(await live.next()).toMatchObject({ event: "feed", data: { id, state: "deleted" } });
    await expect(live.next()).rejects.toMatchObject({ status: 404 });
  });

  test("no event is lost when the connection breaks, even before the first event", async () => {
    const ann = await join("ann");
    await using proxy = await proxied(url);
    const live = await listening(createShoal({ url: proxy.url, token: ann.token }));
    const sent: string[] = [];
    for (let round = 0; round < 3; round++) {
      proxy.mode = "refusing";
      proxy.cut();
      sent.push(await post(ann, `away ${round}`), await post(ann, `still away ${round}`));
      proxy.mode = "open";
      sent.push(await post(ann, `back ${round}`));
      for (let count = 0; count < 3; count++) {
        const event = await live.next();
        expect(event).toMatchObject({ event: "update", data: { id: sent[round * 3 + count] } });
      }
    }
    await live.end();
  });

  test("a stream resumes after the id of an earlier stream", async () => {
    const ann = await join("ann");
    const first = await listening(ann);
    await post(ann, "one");
    const { id: lastEventId } = await first.next();
    await first.end();
    const missed = await post(ann, "two");
    const second = await listening(ann, { lastEventId });
    expect(await second.next()).toMatchObject({ event: "update", data: { id: missed } });
    await second.end();
  });

  test("a stream whose position is no longer stored begins with refresh", async () => {
    const live = await listening(await join("ann"), { lastEventId: "made-up-7" });
    expect(await live.next()).toMatchObject({ event: "refresh", data: undefined });
    await live.end();
  });

  test("an aborted stream ends even if its request was garbage-collected", async () => {
    const live = await listening(await join("ann"));
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    for (let round = 0; round < 5; round++) {
      collect();
      await new Promise((resolve) => setImmediate(resolve));
    }
    await live.end();
  });

  test("a server without heartbeats is left, and a connection is made again", async () => {
    const ann = await join("ann");
    await using proxy = await proxied(url);
    const shoal = createShoal({ url: proxy.url, token: ann.token });
    proxy.mode = "silent";
    const control = new AbortController();
    const events = stream(shoal, "user", { patience: 50, signal: control.signal });
    const next = events.next();
    while (proxy.accepted < 2) await new Promise((resolve) => setTimeout(resolve, 20));
    control.abort();
    expect((await next).done).toBe(true);
  });

  test("a server that ends connections at once is called less and less often", async () => {
    const control = new AbortController();
    const times: number[] = [];
    const fetch = async () => {
      times.push(performance.now());
      if (times.length === 4) control.abort();
      return new Response("id: p0\n");
    };
    for await (const _ of stream(createShoal({ url, fetch }), "user", { signal: control.signal })) void _;
    // The first wait is at least a quarter of a second, and each is twice as long as the one before.
    expect(times[3]! - times[2]!).toBeGreaterThan(900);
  });

  test("a refused token ends the stream with an error", async () => {
    const events = stream(createShoal({ url, token: "wrong" }), "user");
    await expect(events.next()).rejects.toMatchObject({ name: "ShoalError", status: 401 });
  });

  test("a revoked token ends the stream with an error", async () => {
    const ann = await join("ann");
    const live = await listening(ann);
    await ann.post("/api/shoal/v1/leave", { body: { password: "low tide at dawn" } });
    await expect(live.next()).rejects.toBeInstanceOf(ShoalError);
  });
});

test("messages are parsed in chunks of any size", () => {
  const text = ":)\nid: p0\nevent: update\ndata: {\"a\":\ndata: 1}\nid: p1\n\n:thump\r\nevent: delete\r\ndata: 5\r\nid: p2\r\n\r\nid: p3\n\n";
  for (const size of [1, 2, 7, text.length]) {
    const parser = new MessageParser();
    const found = [];
    for (let at = 0; at < text.length; at += size) found.push(...parser.parse(text.slice(at, at + size)));
    expect(found).toEqual([
      { event: "", data: "", id: "p0" },
      { event: "update", data: '{"a":\n1}', id: "p1" },
      { event: "delete", data: "5", id: "p2" },
      { event: "", data: "", id: "p3" },
    ]);
  }
});

test("server events continue after the cursor of a page, and wait for new events", async () => {
  const key = createShoal({ url, token: process.env["SHOAL_KEY"] });
  const ann = await join("ann");
  const control = new AbortController();
  const { cursor: after } = await key.get("/api/shoal/v1/events");
  const live = serverEvents(key, { after, types: ["post.created"], signal: control.signal });
  const next = live.next();
  const id = await post(ann, "Low tide");
  const { value } = await next;
  expect(value?.events.map((event) => event.data["id"])).toContain(id);
  control.abort();
  expect((await live.next()).done).toBe(true);
  const again = serverEvents(key, { after, types: ["post.created"], limit: 1 });
  const found: unknown[] = [];
  for await (const page of again) {
    found.push(...page.events.map((event) => event.data["id"]));
    if (found.includes(id)) break;
  }
});
