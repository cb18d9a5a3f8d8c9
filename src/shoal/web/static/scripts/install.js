// Registers the service worker, where the browser has one and the connection is safe.
export default function install(body) {
  navigator.serviceWorker?.register(body.dataset.worker).catch(() => {});
}
