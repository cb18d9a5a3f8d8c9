import { createShoal, type Shoal } from "../src/index.js";

/** The address of the server under test, which pytest starts. */
export const url = process.env["SHOAL_URL"] ?? "";

let number = 0;

/** Register a member, and return a client with their token. */
export async function join(name: string): Promise<Shoal & { token: string }> {
  const app = createShoal({ url, token: process.env["SHOAL_APP_TOKEN"] });
  const username = `${name}_${process.pid}_${++number}`;
  const { access_token: token } = await app.post("/api/v1/accounts", {
    body: { username, email: `${username}@example.org`, password: "low tide at dawn", agreement: true, locale: "en" },
  });
  return { ...createShoal({ url, token }), token };
}
