import { readFileSync } from "node:fs";
import { describe, expect, expectTypeOf, test } from "vitest";
import {
  ConnectionError,
  createShoal,
  isTemporary,
  items,
  page,
  pages,
  ShoalError,
  TimeoutError,
  upload,
  type Account,
  type Shoal,
  type Status,
  type UploadProgress,
} from "../src/index.js";
import { formOf } from "../src/client.js";
import { linksOf } from "../src/pages.js";
import { proxied } from "./proxy.js";
import { join, url } from "./server.js";

const picture = new File([readFileSync(process.env["SHOAL_PICTURE"] ?? "")], "sand.png", { type: "image/png" });

async function published(shoal: Shoal, texts: string[]): Promise<string[]> {
  const ids: string[] = [];
  for (const status of texts) ids.push((await shoal.post("/api/v1/statuses", { body: { status } })).id);
  return ids;
}

describe("calls", () => {
  test("parameters, body and response have the types of the API", async () => {
    const ann = await join("ann");
    const made = await ann.post("/api/v1/statuses", {
      body: { status: "Low tide at #dawn", visibility: "unlisted" },
      headers: { "Idempotency-Key": "once" },
    });
    expectTypeOf(made).toEqualTypeOf<Status>();
    const again = await ann.post("/api/v1/statuses", {
      body: { status: "Low tide at #dawn", visibility: "unlisted" },
      headers: { "Idempotency-Key": "once" },
    });
    expect(again.id).toBe(made.id);
    const edited = await ann.put("/api/v1/statuses/{id}", {
      params: { path: { id: made.id } },
      body: { status: "High tide at #noon" },
    });
    expect(edited.content).toContain("High tide");
    const profile = await ann.patch("/api/v1/accounts/update_credentials", {
      body: { display_name: "Ann", fields_attributes: [{ name: "Home", value: "https://example.org" }] },
    });
    expect(profile.fields[0]?.name).toBe("Home");
    const relationships = await ann.get("/api/v1/accounts/relationships", { params: { query: { "id[]": [profile.id] } } });
    expect(relationships).toHaveLength(1);
    await ann.delete("/api/v1/statuses/{id}", { params: { path: { id: made.id } } });
    // @ts-expect-error: the path is unknown
    await expect(ann.get("/api/v1/nothing")).rejects.toThrow("Record not found");
    // @ts-expect-error: the id is missing
    await expect(ann.get("/api/v1/statuses/{id}")).rejects.toBeInstanceOf(ShoalError);
  });

  test("a file in a body is sent as a form", async () => {
    const ann = await join("ann");
    const profile = await ann.patch("/api/v1/accounts/update_credentials", {
      body: { avatar: picture, display_name: "Ann", shoal: { aggregate_reblogs: false } },
    });
    expect(profile.display_name).toBe("Ann");
    const avatar = await fetch(profile.avatar);
    expect(avatar.headers.get("Content-Type")).toMatch(/^image\//);
  });

  test("form of nested values has the names that the server reads", () => {
    const form = formOf({ a: 1, b: undefined, c: { d: true, e: [1, 2] }, f: ["x"] });
    expect([...form]).toEqual([["a", "1"], ["c[d]", "true"], ["c[e][]", "1"], ["c[e][]", "2"], ["f[]", "x"]]);
  });

  test("a document can be read as text", async () => {
    const health = await createShoal({ url: `${url}/` }).get("/api/v1/streaming/health", { parseAs: "text" });
    expectTypeOf(health).toEqualTypeOf<string>();
    expect(health).toBe("OK");
  });

  test("a field with several types accepts each of them", async () => {
    const shoal = createShoal({ url });
    for (const redirect_uris of ["urn:ietf:wg:oauth:2.0:oob", ["urn:ietf:wg:oauth:2.0:oob", "https://example.org/cb"]]) {
      const app = await shoal.post("/api/v1/apps", { body: { client_name: "typescript", redirect_uris } });
      const token = await shoal.post("/oauth/token", {
        body: { grant_type: "client_credentials", client_id: app.client_id, client_secret: app.client_secret },
      });
      expect(token.token_type).toBe("Bearer");
    }
  });

  test("a token source is called before each request", async () => {
    const tokens = ["wrong", (await join("ann")).token];
    const shoal = createShoal({ url, token: () => tokens.shift() });
    await expect(shoal.get("/api/v1/accounts/verify_credentials")).rejects.toMatchObject({ status: 401 });
    const me = await shoal.get("/api/v1/accounts/verify_credentials");
    expect(me.username).toMatch(/^ann/);
  });
});

/** A client whose responses have this `Link` header; it counts the requests. */
function linked(link: string): { shoal: Shoal; requests: Request[] } {
  const requests: Request[] = [];
  const fetch = async (request: Request) => {
    requests.push(request);
    const last = new URL(request.url).searchParams.get("cursor") === "b";
    return Response.json([{ id: String(requests.length) }], { headers: last ? {} : { Link: link } });
  };
  return { shoal: createShoal({ url, token: "secret", fetch }), requests };
}

describe("positions", () => {
  test("a ranked list is read page by page with the cursor of its Link header", async () => {
    const { shoal, requests } = linked(`<${url}/api/shoal/v1/timelines/for_you?limit=1&cursor=b>; rel="next"`);
    const found = [];
    for await (const { id } of items(shoal, "/api/shoal/v1/timelines/for_you", { params: { query: { limit: 1 } } })) {
      found.push(id);
      if (found.length > 5) break;
    }
    expect(found).toEqual(["1", "2"]);
    expect(requests[1]?.url).toContain("limit=1&cursor=b");
  });

  test("a link without a position ends the list", async () => {
    const { shoal, requests } = linked(`<${url}/api/v1/timelines/public?page=2>; rel="next"`);
    for await (const _ of pages(shoal, "/api/v1/timelines/public")) if (requests.length > 5) break;
    expect(requests).toHaveLength(1);
  });
});

describe("tokens", () => {
  test("a token is sent to the host of the client only", async () => {
    const { shoal, requests } = linked("");
    await expect(shoal.fetch("@evil.example/")).rejects.toThrow("begins with a slash");
    await expect(shoal.fetch(".evil.example/")).rejects.toThrow("begins with a slash");
    expect(requests).toHaveLength(0);
    await shoal.fetch("/x", { headers: { authorization: "Bearer other" } });
    expect(requests[0]?.headers.get("Authorization")).toBe("Bearer secret");
  });
});

describe("errors", () => {
  test("an error response has its status, message, details and rate limit", async () => {
    const ann = await join("ann");
    const error: ShoalError = await ann.get("/api/v1/statuses/{id}", { params: { path: { id: "1" } } }).catch((e) => e);
    expect(error).toBeInstanceOf(ShoalError);
    expect(error).toMatchObject({ status: 404, message: "Record not found", temporary: false, code: undefined });
    const refused: ShoalError = await createShoal({ url, token: process.env["SHOAL_APP_TOKEN"] })
      .post("/api/v1/accounts", {
        body: { username: "a b", email: "x", password: "short", agreement: true, locale: "en" },
      })
      .catch((e) => e);
    expect(refused.status).toBe(422);
    expect(refused.details["username"]?.[0]?.error).toBe("ERR_INVALID");
  });

  test("an OAuth error has its code", async () => {
    const shoal = createShoal({ url });
    const error: ShoalError = await shoal
      .post("/oauth/token", { body: { grant_type: "client_credentials", client_id: "1", client_secret: "x" } })
      .catch((e) => e);
    expect(error).toMatchObject({ status: 401, code: "invalid_client" });
  });

  test("a server that is not reachable is a ConnectionError", async () => {
    await expect(createShoal({ url: "http://127.0.0.1:9" }).get("/api/v2/instance")).rejects.toBeInstanceOf(ConnectionError);
  });

  test("a server that does not answer is a TimeoutError", async () => {
    await using proxy = await proxied(url);
    proxy.mode = "silent";
    await expect(createShoal({ url: proxy.url, timeout: 50 }).get("/api/v2/instance")).rejects.toBeInstanceOf(TimeoutError);
    await expect(createShoal({ url: proxy.url }).get("/api/v2/instance", { timeout: 50 })).rejects.toBeInstanceOf(TimeoutError);
  });

  test("an address without a scheme is refused", () => {
    for (const url of ["social.example", "ftp://social.example", "https://"]) expect(() => createShoal({ url })).toThrow("url: begins with");
    expect(createShoal({ url: "" }).url).toBe("");
  });

  test("a response that is not JSON is a ConnectionError", async () => {
    const shoal = createShoal({ url, fetch: async () => new Response("<h1>Log in to this network</h1>") });
    await expect(shoal.get("/api/v2/instance")).rejects.toBeInstanceOf(ConnectionError);
  });

  test.each([
    ["7", 7],
    ["0", 0],
    ["", undefined],
    ["soon", undefined],
    ["Wed, 21 Oct 2015 07:28:00 GMT", 0],
  ])("Retry-After %j is read as seconds", async (value, seconds) => {
    const fetch = async () => Response.json({ error: "Too many requests" }, { status: 429, headers: { "Retry-After": value } });
    const error = await createShoal({ url, fetch }).get("/api/v2/instance").catch((e) => e);
    expect(error).toMatchObject({ status: 429, temporary: true, retryAfter: seconds });
    expect(isTemporary(error)).toBe(true);
  });

  test("an aborted call throws the reason of the signal", async () => {
    await using proxy = await proxied(url);
    proxy.mode = "silent";
    const control = new AbortController();
    const call = createShoal({ url: proxy.url }).get("/api/v2/instance", { signal: control.signal });
    control.abort(new Error("left the page"));
    await expect(call).rejects.toThrow("left the page");
    await expect(createShoal({ url }).get("/api/v2/instance", { signal: control.signal })).rejects.toThrow("left the page");
  });
});

describe("pages", () => {
  test("items of all pages are in order, without gaps and repetitions", async () => {
    const ann = await join("ann");
    const ids = await published(ann, ["1", "2", "3", "4", "5"]);
    const me = await ann.get("/api/v1/accounts/verify_credentials");
    const init = { params: { path: { id: me.id }, query: { limit: 2, exclude_replies: true } } };
    const found: string[] = [];
    for await (const status of items(ann, "/api/v1/accounts/{id}/statuses", init)) {
      expectTypeOf(status).toEqualTypeOf<Status>();
      found.push(status.id);
    }
    expect(found).toEqual(ids.toReversed());

    const sizes: number[] = [];
    for await (const statuses of pages(ann, "/api/v1/accounts/{id}/statuses", init)) sizes.push(statuses.length);
    expect(sizes).toEqual([2, 2, 1]);

    const newer: string[] = [];
    const after = { params: { path: init.params.path, query: { limit: 2, min_id: ids[0] ?? "" } }, direction: "newer" as const };
    for await (const statuses of pages(ann, "/api/v1/accounts/{id}/statuses", after)) {
      newer.push(...statuses.map((status) => status.id).toReversed());
    }
    expect(newer).toEqual(ids.slice(1));

    const first = await page(ann, "/api/v1/accounts/{id}/statuses", init);
    const second = await page(ann, "/api/v1/accounts/{id}/statuses", { ...init, cursor: first.next });
    expect(second.data.map((status) => status.id)).toEqual([ids[2], ids[1]]);
  });

  test("an iteration can stop early, and continue by offset in a search", async () => {
    const ann = await join("ann");
    const names: string[] = [];
    for await (const account of items(ann, "/api/v1/directory", { params: { query: { limit: 1 } } })) {
      expectTypeOf(account).toEqualTypeOf<Account>();
      names.push(account.id);
      if (names.length === 2) break;
    }
    expect(new Set(names).size).toBe(2);
  });

  test("pages of a ranked feed neither repeat nor skip posts", async () => {
    const ann = await join("ann");
    const ids = await published(ann, ["1 #ranked", "2 #ranked", "3 #ranked", "4 #ranked", "5 #ranked"]);
    const { id } = await ann.post("/api/shoal/v1/feeds", {
      body: {
        title: "Ranked",
        declaration: {
          sources: [{ from: "tag", tag: "ranked" }],
          parameters: { weight: { type: "number", default: 1, minimum: 0, maximum: 9 } },
          order: { by: "expression", expression: "$weight * likes - age_hours" },
        },
      },
    });
    const sizes: number[] = [];
    const found: string[] = [];
    const init = { params: { path: { id }, query: { limit: 2, parameters: { weight: "2" } } } };
    for await (const statuses of pages(ann, "/api/shoal/v1/feeds/{id}", init)) {
      sizes.push(statuses.length);
      found.push(...statuses.map((status) => status.id));
    }
    expect(sizes).toEqual([2, 2, 1]);
    expect(found.toSorted()).toEqual(ids.toSorted());
  });

  test("cursors keep only positions of the Link header", () => {
    const header = '<https://evil.example/x?limit=2&access_token=t&max_id=5>; rel="next", <http://h/x?min_id=9>; rel="prev"';
    expect(linksOf(header)).toEqual({ next: { max_id: "5" }, prev: { min_id: "9" } });
    expect(linksOf("")).toEqual({});
  });
});

describe("uploads", () => {
  test("a photo is uploaded with progress, and attached", async () => {
    const ann = await join("ann");
    const told: UploadProgress[] = [];
    const media = await upload(ann, picture, {
      description: "Sand",
      focus: [0.5, -0.5],
      onProgress: (progress) => told.push(progress),
    });
    expect(media).toMatchObject({ type: "image", description: "Sand", meta: { focus: { x: 0.5, y: -0.5 } } });
    const last = told.at(-1);
    expect(last?.sent).toBe(last?.total);
    expect(last?.total).toBeGreaterThan(picture.size);
    const made = await ann.post("/api/v1/statuses", { body: { status: "Beach", media_ids: [media.id] } });
    expect(made.media_attachments[0]?.id).toBe(media.id);
  });

  test("a file that is refused is a ShoalError", async () => {
    const ann = await join("ann");
    await expect(upload(ann, new Blob(["no picture"]))).rejects.toMatchObject({ name: "ShoalError", status: 422 });
  });

  test("an upload can be aborted, and times out", async () => {
    const ann = await join("ann");
    await using proxy = await proxied(url);
    proxy.mode = "silent";
    const shoal = createShoal({ url: proxy.url, token: ann.token });
    const control = new AbortController();
    const call = upload(shoal, picture, { signal: control.signal });
    setTimeout(() => control.abort(new Error("cancelled")), 20);
    await expect(call).rejects.toThrow("cancelled");
    await expect(upload(shoal, picture, { timeout: 50 })).rejects.toBeInstanceOf(TimeoutError);
  });
});
