// An OpenID provider for tests, on https. It prints its issuer, and logs in the users in the file USERS, each with their claims.
import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import Provider from "oidc-provider";

const { CERTIFICATE, KEY, USERS } = process.env;
const server = createServer({ cert: readFileSync(CERTIFICATE), key: readFileSync(KEY) });
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const issuer = `https://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  clients: [{ client_id: "shoal", client_secret: "s3cret/&+%:", redirect_uris: ["https://shoal.test/any"] }],
  claims: { openid: ["sub"], profile: ["name", "preferred_username"], email: ["email", "email_verified"] },
  features: { devInteractions: { enabled: false } },
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  pkce: { required: () => true },
  findAccount: (_, id) => {
    const claims = JSON.parse(readFileSync(USERS, "utf-8"))[id];
    return claims && { accountId: id, claims: () => ({ sub: id, ...claims }) };
  },
  // Users consent to everything, so the only page is the login.
  loadExistingGrant: async ({ oidc }) => {
    const grant = new oidc.provider.Grant({ clientId: oidc.client.clientId, accountId: oidc.session.accountId });
    grant.addOIDCScope("openid profile email");
    await grant.save();
    return grant;
  },
});
// The port of the tested server is not known yet.
provider.Client.prototype.redirectUriAllowed = () => true;
provider.Client.prototype.postLogoutRedirectUriAllowed = () => true;

const handle = provider.callback();
const FORM = "<form method=post><label>User <input name=login></label><button>Log in</button><button name=cancel>Cancel</button></form>";
server.on("request", async (request, response) => {
  if (!request.url.startsWith("/interaction/")) return handle(request, response);
  if (request.method === "GET") {
    response.setHeader("Content-Type", "text/html");
    return response.end(`<!doctype html><html lang=en><title>Provider</title>${FORM}`);
  }
  let body = "";
  for await (const chunk of request) body += chunk;
  const login = new URLSearchParams(body).get("login");
  const result = login ? { login: { accountId: login } } : { error: "access_denied" };
  return provider.interactionFinished(request, response, result);
});
// The program ends with its parent, whose child it is not: Node of the virtual environment is started by a wrapper.
process.stdin.on("end", () => process.exit()).resume();
console.log(issuer);
