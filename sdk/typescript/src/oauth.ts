import type { Data, Shoal } from "./client.js";
import type { Token } from "./schema.js";

/** The credentials of an app, as `POST /api/v1/apps` returns them. */
export interface AppCredentials {
  clientId: string;
  clientSecret: string;
}

/** A log-in that has begun. Keep it, for example in `sessionStorage`, until the browser returns. */
export interface LoginRequest {
  /** Send the browser to this address. */
  url: string;
  /** Random text, which the server returns. */
  state: string;
  /** The secret of PKCE (RFC 7636). */
  verifier: string;
}

/** Begin a log-in with an authorization code and PKCE. The page needs HTTPS or localhost. */
export async function beginLogin(
  shoal: Shoal,
  options: { clientId: string; redirectUri: string; scope: string },
): Promise<LoginRequest> {
  const state = randomText();
  const verifier = randomText();
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  const query = new URLSearchParams({
    response_type: "code",
    client_id: options.clientId,
    redirect_uri: options.redirectUri,
    scope: options.scope,
    state,
    code_challenge: base64url(new Uint8Array(digest)),
    code_challenge_method: "S256",
  });
  return { url: `${shoal.url}/oauth/authorize?${query}`, state, verifier };
}

/** Exchange the authorization code of a log-in for a token. `returned` is the query of the address to which the browser returned. */
export async function finishLogin(
  shoal: Shoal,
  login: Pick<LoginRequest, "state" | "verifier">,
  returned: URLSearchParams,
  app: AppCredentials & { redirectUri: string },
): Promise<Token> {
  if (returned.get("state") !== login.state) throw new Error("The log-in was not started here: `state` differs");
  const code = returned.get("code");
  if (!code) throw new Error(returned.get("error_description") ?? returned.get("error") ?? "The log-in has no code");
  return shoal.post("/oauth/token", {
    body: {
      grant_type: "authorization_code",
      client_id: app.clientId,
      client_secret: app.clientSecret,
      redirect_uri: app.redirectUri,
      code,
      code_verifier: login.verifier,
    },
  });
}

/** Exchange a JWT of a configured issuer for a token (RFC 8693). */
export async function exchangeToken(
  shoal: Shoal,
  options: AppCredentials & { subjectToken: string; scope?: string; signal?: AbortSignal },
): Promise<Token> {
  const { scope, signal } = options;
  return shoal.post("/oauth/token", {
    body: {
      grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
      client_id: options.clientId,
      client_secret: options.clientSecret,
      subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
      subject_token: options.subjectToken,
      ...(scope === undefined ? {} : { scope }),
    },
    signal,
  });
}

/**
 * Return a source of tokens for {@link createShoal}. It exchanges a JWT when the first request needs a token, and another one a
 * minute before the token expires. Concurrent requests share an exchange.
 *
 * @param anonymous A client of the server without a token.
 * @param options `subjectToken` returns a new JWT from the product.
 */
export function exchangedTokens(
  anonymous: Shoal,
  options: AppCredentials & { subjectToken: () => Promise<string>; scope?: string },
): () => Promise<string> {
  let current: Promise<Token> | undefined;
  let until = 0;
  return async () => {
    if (!current || Date.now() >= until) {
      until = Number.POSITIVE_INFINITY;
      // The exchange starts in a function, so that an error that `subjectToken` throws before its promise is handled too.
      const started = (async () => exchangeToken(anonymous, { ...options, subjectToken: await options.subjectToken() }))();
      current = started;
      try {
        const { expires_in } = await started;
        const seconds = expires_in ?? Number.POSITIVE_INFINITY;
        until = Date.now() + Math.max(seconds - 60, seconds / 2) * 1_000;
      } catch (error) {
        current = undefined;
        throw error;
      }
    }
    return (await current).access_token;
  };
}

/** Revoke a token, so that it is no longer valid. */
export async function revokeToken(
  shoal: Shoal,
  app: AppCredentials,
  token: string,
): Promise<Data<"post", "/oauth/revoke">> {
  return shoal.post("/oauth/revoke", { body: { client_id: app.clientId, client_secret: app.clientSecret, token } });
}

/** Return 256 random bits. Unlike `crypto.randomUUID`, this also works on pages without HTTPS. */
export function randomText(): string {
  return base64url(crypto.getRandomValues(new Uint8Array(32)));
}

function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}
