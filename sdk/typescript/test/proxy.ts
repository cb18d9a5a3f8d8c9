import { createServer, connect, type AddressInfo, type Socket } from "node:net";
import { once } from "node:events";

/** A TCP proxy in front of the server, which can be silent, refuse connections, and cut existing ones. */
export interface Proxy extends AsyncDisposable {
  url: string;
  mode: "open" | "silent" | "refusing";
  /** Number of accepted connections. */
  accepted: number;
  cut(): void;
}

export async function proxied(target: string): Promise<Proxy> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    proxy.accepted++;
    sockets.add(client);
    client.on("error", () => undefined).on("close", () => sockets.delete(client));
    if (proxy.mode === "refusing") client.destroy();
    if (proxy.mode !== "open") return;
    const upstream = connect(Number(port), hostname);
    upstream.on("error", () => client.destroy());
    client.on("close", () => upstream.destroy());
    upstream.on("close", () => client.destroy());
    client.pipe(upstream);
    upstream.pipe(client);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const proxy: Proxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    mode: "open",
    accepted: 0,
    cut: () => sockets.forEach((socket) => socket.destroy()),
    [Symbol.asyncDispose]: async () => {
      proxy.cut();
      server.close();
    },
  };
  return proxy;
}
