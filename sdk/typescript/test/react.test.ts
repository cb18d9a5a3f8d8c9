// The hooks without a browser: on a server that renders pages, and their options.
import { createElement } from "react";
import { renderToString } from "react-dom/server";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { expect, test } from "vitest";
import { createShoal, ShoalError, TimeoutError, type Status } from "../src/index.js";
import { updated } from "../src/react/cache.js";
import { publicFeed, retryOptions, ShoalProvider, useFeed, useNotifications, usePublish, useUpload } from "../src/react/index.js";

test("a component with hooks is rendered on a server without requests", () => {
  const requests: Request[] = [];
  const fetch = async (request: Request) => {
    requests.push(request);
    return Response.json([]);
  };
  const Page = () => {
    const feed = useFeed(publicFeed, { live: true });
    return createElement("p", null, feed.status, useNotifications().status, usePublish().status, String(useUpload().media));
  };
  const client = createShoal({ url: "https://social.example", fetch });
  const provider = createElement(ShoalProvider, { client, children: createElement(Page) });
  const html = renderToString(createElement(QueryClientProvider, { client: new QueryClient() }, provider));
  expect(html).toContain("pending");
  expect(requests).toHaveLength(0);
});

test("queries repeat temporary failures after the time that the server asks for", () => {
  const refused = (status: number, wait = "0") => new ShoalError(new Response(null, { status, headers: { "Retry-After": wait } }), {});
  const { retry, retryDelay } = retryOptions;
  expect([retry(0, refused(404)), retry(0, refused(503)), retry(2, new TimeoutError()), retry(3, refused(503))]).toEqual([false, true, true, false]);
  expect(retry(0, refused(429, "300"))).toBe(false);
  expect([retryDelay(0, refused(429, "9")), retryDelay(2, refused(503))]).toEqual([9_000, 4_000]);
});

test("a changed post keeps the properties of its list, and takes all others of the response", () => {
  const post = { id: "1", shoal: { explanation: { score: 1 }, data: { a: 1 } } } as unknown as Status;
  const latest = { id: "1", favourited: true, shoal: { data: { a: 2 } } } as unknown as Status;
  expect(updated(post, latest)).toEqual({ id: "1", favourited: true, shoal: { explanation: { score: 1 }, data: { a: 2 } } });
  expect(updated({ id: "1" } as Status, latest)).toBe(latest);
});
