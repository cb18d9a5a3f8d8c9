// Registers the service worker if the browser supports it and the connection is secure.
export default function install(body) {
  navigator.serviceWorker?.register(body.dataset.worker).catch(() => {});
}
