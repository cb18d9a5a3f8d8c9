// A worker that finds a number whose hash has the required zero bits. The hash is that of core/signup.py.
const ROUNDS = 5000;

onmessage = async ({ data: { bits, since, domain, name } }) => {
  const text = new TextEncoder();
  const salt = text.encode(`shoal:${domain}:${name}:${since}`);
  const how = { name: "PBKDF2", hash: "SHA-256", salt, iterations: ROUNDS };
  for (let number = 0; ; number++) {
    const key = await crypto.subtle.importKey("raw", text.encode(String(number)), "PBKDF2", false, ["deriveBits"]);
    const hashed = new DataView(await crypto.subtle.deriveBits(how, key, 32));
    if (hashed.getUint32(0) >>> (32 - bits) === 0) return postMessage(`${since}:${number}`);
  }
};
