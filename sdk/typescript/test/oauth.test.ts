import { describe, expect, test } from "vitest";
import { beginLogin, createShoal, exchangedTokens, exchangeToken, finishLogin, revokeToken } from "../src/index.js";
import { url } from "./server.js";

const anonymous = createShoal({ url });
const app = { clientId: process.env["SHOAL_CLIENT_ID"] ?? "", clientSecret: process.env["SHOAL_CLIENT_SECRET"] ?? "" };

/** The JWT of a user of the product. A product would ask its backend for a new one. */
const subjectToken = async (): Promise<string> => process.env["SHOAL_JWT"] ?? "";

describe("token exchange", () => {
  test("a JWT of the product is exchanged for a token of its user", async () => {
    const token = await exchangeToken(anonymous, { ...app, subjectToken: await subjectToken(), scope: "read write" });
    const me = await createShoal({ url, token: token.access_token }).get("/api/v1/accounts/verify_credentials");
    expect(me.username).toMatch(/^shopper/);
    await revokeToken(anonymous, app, token.access_token);
    await expect(
      createShoal({ url, token: token.access_token }).get("/api/v1/accounts/verify_credentials"),
    ).rejects.toMatchObject({ status: 401 });
  });

  test("concurrent requests share an exchange, and a failed exchange is repeated", async () => {
    let calls = 0;
    const source = exchangedTokens(anonymous, {
      ...app,
      subjectToken: async () => (++calls === 1 ? "not a JWT" : subjectToken()),
    });
    const shoal = createShoal({ url, token: source });
    await expect(shoal.get("/api/v1/preferences")).rejects.toMatchObject({ code: "invalid_request" });
    await Promise.all([shoal.get("/api/v1/preferences"), shoal.get("/api/v1/preferences")]);
    await shoal.get("/api/v1/preferences");
    expect(calls).toBe(2);
  });

  test("an error that the product throws at once is repeated too, also when an earlier token has expired", async () => {
    let calls = 0;
    const source = exchangedTokens(
      createShoal({ url, fetch: async () => Response.json({ access_token: `token ${calls}`, expires_in: 0 }) }),
      {
        ...app,
        subjectToken: () => {
          if (++calls === 2) throw new Error("offline");
          return Promise.resolve("JWT");
        },
      },
    );
    expect(await source()).toBe("token 1");
    await expect(source()).rejects.toThrow("offline");
    expect(await source()).toBe("token 3");
  });
});

describe("log-in", () => {
  test("an authorization request has a challenge, and another state is refused", async () => {
    const redirectUri = "https://app.example/";
    const login = await beginLogin(anonymous, { clientId: app.clientId, redirectUri, scope: "read" });
    const query = new URL(login.url).searchParams;
    expect(query.get("code_challenge")).toMatch(/^[\w-]{43}$/);
    expect(query.get("state")).toBe(login.state);
    const finish = (returned: Record<string, string>) =>
      finishLogin(anonymous, login, new URLSearchParams(returned), { ...app, redirectUri });
    await expect(finish({ code: "x", state: "other" })).rejects.toThrow("state");
    await expect(finish({ error: "access_denied", state: login.state })).rejects.toThrow("access_denied");
    await expect(finish({ code: "x", state: login.state })).rejects.toMatchObject({ code: "invalid_grant" });
  });
});
