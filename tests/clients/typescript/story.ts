// A client generated from the API description uses a served Shoal. Prints "done" if every answer has the type and value expected.
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { paths } from "./schema";

const url = process.env.SHOAL_URL ?? "";
const headers = { Authorization: `Bearer ${process.env.SHOAL_TOKEN}` };
const client = createClient<paths>({ baseUrl: url, headers });

function given<T>(result: { data?: T; error?: unknown }): T {
  assert.ok(result.data, JSON.stringify(result.error));
  return result.data;
}

for (const redirect_uris of ["urn:ietf:wg:oauth:2.0:oob", ["urn:ietf:wg:oauth:2.0:oob", "https://example.org/cb"]]) {
  const app = given(await client.POST("/api/v1/apps", { body: { client_name: "typescript", redirect_uris } }));
  const token = given(
    await client.POST("/oauth/token", {
      body: { grant_type: "client_credentials", client_id: app.client_id, client_secret: app.client_secret },
      headers: { "Content-Type": "application/x-www-form-urlencoded" },
    }),
  );
  assert.equal(token.token_type, "Bearer");
}

const file = new Blob([Buffer.from(process.env.SHOAL_PICTURE ?? "", "base64")], { type: "image/png" });
const media = given(
  await client.POST("/api/v2/media", {
    body: { file: "", description: "Sand" },
    bodySerializer: (body) => {
      const form = new FormData();
      form.set("file", file, "sand.png");
      form.set("description", String(body.description));
      return form;
    },
  }),
);
const posted = given(
  await client.POST("/api/v1/statuses", { body: { status: "Low tide at #dawn", media_ids: [media.id] } }),
);
assert.equal(posted.media_attachments[0]?.description, "Sand");
const edited = given(
  await client.PUT("/api/v1/statuses/{id}", {
    params: { path: { id: posted.id } },
    body: { status: "High tide at #noon", media_ids: [media.id] },
  }),
);
assert.match(edited.content, /High tide/);
const profile = given(
  await client.PATCH("/api/v1/accounts/update_credentials", {
    body: { display_name: "Ann", fields_attributes: [{ name: "Home", value: "https://example.org" }] },
  }),
);
assert.equal(profile.display_name, "Ann");
const page = given(await client.GET("/api/v1/accounts/{id}/statuses", { params: { path: { id: profile.id }, query: { limit: 1 } } }));
assert.deepEqual(page.map((status) => status.id), [posted.id]);
const missing = await client.GET("/api/v1/statuses/{id}", { params: { path: { id: "1" } } });
assert.equal(missing.error?.error, "Record not found");
console.log("done");
