// The part of the client that differs in browsers; tests/sdk/test_client.py bundles it and calls it in a page.
import { createShoal, items, stream, upload, type UploadProgress } from "../src/index.js";

export async function play(url: string, token: string, picture: string): Promise<object> {
  const shoal = createShoal({ url, token });
  const me = await shoal.get("/api/v1/accounts/verify_credentials");
  const control = new AbortController();
  const connected = Promise.withResolvers<void>();
  const events = stream(shoal, "user", { signal: control.signal, onConnect: connected.resolve });
  const first = events.next();
  await connected.promise;

  const file = new File([await (await fetch(picture)).blob()], "sand.png", { type: "image/png" });
  const told: UploadProgress[] = [];
  const media = await upload(shoal, file, { description: "Sand", onProgress: (progress) => told.push(progress) });
  const refused = await upload(shoal, new Blob(["no picture"])).catch((error: unknown) => error);
  const cancel = AbortSignal.abort(new Error("cancelled"));
  const aborted = await upload(shoal, file, { signal: cancel }).catch((error: unknown) => error);
  const made = await shoal.post("/api/v1/statuses", { body: { status: "Beach", media_ids: [media.id] } });
  const { value: event } = await first;
  control.abort();

  const ids: string[] = [];
  for await (const status of items(shoal, "/api/v1/accounts/{id}/statuses", {
    params: { path: { id: me.id }, query: { limit: 1 } },
  })) {
    ids.push(status.id);
  }
  return {
    streamed: event?.event === "update" && event.data.id === made.id,
    listed: ids.includes(made.id),
    sent: told.at(-1),
    size: file.size,
    refused: String(refused),
    aborted: String(aborted),
  };
}
