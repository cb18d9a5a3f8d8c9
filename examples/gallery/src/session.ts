// The log-in of a member: the browser registers an app at the server, and gets a token with OAuth 2 and PKCE.
import { beginLogin, createShoal, finishLogin, revokeToken, type AppCredentials, type LoginRequest } from "@shoal/client";

export const serverUrl: string = import.meta.env["VITE_SHOAL_URL"] ?? "http://127.0.0.1:8500";

const scope = "read write follow";
const redirectUri = location.origin + location.pathname;
const anonymous = createShoal({ url: serverUrl });

function stored<T>(storage: Storage, name: string): T | undefined {
  const text = storage.getItem(`shoreline:${name}:${serverUrl}`);
  return text === null ? undefined : (JSON.parse(text) as T);
}

function store(storage: Storage, name: string, value: unknown): void {
  const key = `shoreline:${name}:${serverUrl}`;
  if (value === undefined) storage.removeItem(key);
  else storage.setItem(key, JSON.stringify(value));
}

/** The token of the member; undefined for a visitor. */
export function currentToken(): string | undefined {
  return stored<string>(localStorage, "token");
}

async function app(): Promise<AppCredentials> {
  const known = stored<AppCredentials>(localStorage, "app");
  if (known) return known;
  const made = await anonymous.post("/api/v1/apps", {
    body: { client_name: "Shoreline", redirect_uris: redirectUri, scopes: scope },
  });
  const credentials = { clientId: made.client_id, clientSecret: made.client_secret };
  store(localStorage, "app", credentials);
  return credentials;
}

/** Send the browser to the log-in page of the server. */
export async function logIn(): Promise<void> {
  const { clientId } = await app();
  const login = await beginLogin(anonymous, { clientId, redirectUri, scope });
  store(sessionStorage, "login", login);
  location.assign(login.url);
}

/** Get the token, if the browser has returned from the log-in page. */
export async function completeLogIn(): Promise<void> {
  const returned = new URLSearchParams(location.search);
  const login = stored<LoginRequest>(sessionStorage, "login");
  if (!login || !(returned.has("code") || returned.has("error"))) return;
  store(sessionStorage, "login", undefined);
  history.replaceState(null, "", redirectUri);
  if (returned.get("error") === "access_denied") return;
  const token = await finishLogin(anonymous, login, returned, { ...(await app()), redirectUri });
  store(localStorage, "token", token.access_token);
}

/** Revoke the token, and show the page of a visitor. */
export async function logOut(): Promise<void> {
  const token = currentToken();
  store(localStorage, "token", undefined);
  if (token) await revokeToken(anonymous, await app(), token).catch(() => undefined);
  location.reload();
}

/** Forget a token that the server has revoked. */
export function forgetToken(): void {
  store(localStorage, "token", undefined);
  location.reload();
}
