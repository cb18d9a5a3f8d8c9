import { useSyncExternalStore } from "react";

/** What the page shows, from the part of the address after `#`. */
export interface Route {
  list: "explore" | "following" | { account: string };
  /** The photo that is open above the list. */
  photo?: string;
}

function parsed(hash: string): Route {
  const [list = "", photo] = hash.replace(/^#\/?/, "").split("/photo/");
  const account = /^account\/(\d+)$/.exec(list)?.[1];
  const found: Route = { list: account ? { account } : list === "following" ? "following" : "explore" };
  return photo ? { ...found, photo } : found;
}

export function addressOf({ list, photo }: Route): string {
  const above = typeof list === "object" ? `account/${list.account}` : list;
  return `#/${above}${photo ? `/photo/${photo}` : ""}`;
}

function subscribe(changed: () => void): () => void {
  addEventListener("hashchange", changed);
  return () => removeEventListener("hashchange", changed);
}

export function useRoute(): Route {
  return parsed(useSyncExternalStore(subscribe, () => location.hash));
}
