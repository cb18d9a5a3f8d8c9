import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { MutationCache, QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createShoal, ShoalError } from "@shoal/client";
import { retryOptions, ShoalProvider } from "@shoal/client/react";
import { App } from "./App.tsx";
import { completeLogIn, currentToken, forgetToken, serverUrl } from "./session.ts";
import "./styles.css";

function onError(error: unknown): void {
  if (error instanceof ShoalError && error.status === 401 && currentToken()) forgetToken();
}

const cache = new QueryClient({
  queryCache: new QueryCache({ onError }),
  mutationCache: new MutationCache({ onError }),
  defaultOptions: {
    queries: { ...retryOptions, staleTime: 60_000 },
  },
});

const root = createRoot(document.getElementById("root")!);
let problem = "";
try {
  await completeLogIn();
} catch (error) {
  problem = `The log-in failed: ${(error as Error).message}`;
}
root.render(
  <StrictMode>
    <QueryClientProvider client={cache}>
      <ShoalProvider client={createShoal({ url: serverUrl, token: currentToken })} onStreamError={onError}>
        <App isMember={currentToken() !== undefined} problem={problem} />
      </ShoalProvider>
    </QueryClientProvider>
  </StrictMode>,
);
