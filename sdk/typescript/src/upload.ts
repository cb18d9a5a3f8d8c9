import { formOf, type CallOptions, type Data, type Shoal } from "./client.js";
import { ConnectionError, ShoalError, TimeoutError } from "./errors.js";
import type { MediaAttachment } from "./schema.js";
import { pause } from "./stream.js";

/** The progress of an upload: `sent` of `total` bytes, and afterwards whether the server is processing the file. */
export interface UploadProgress {
  sent: number;
  total: number;
  state: "sending" | "processing";
}

export interface UploadOptions extends Pick<CallOptions, "signal"> {
  /** A description for people who cannot see or hear the file. */
  description?: string;
  /** The focal point of crops, from -1 (left, bottom) to 1 (right, top). */
  focus?: readonly [x: number, y: number];
  /** A preview image of a video or sound. */
  thumbnail?: Blob;
  /** Show what the camera stored in the photo. */
  showsDetails?: boolean;
  onProgress?: (progress: UploadProgress) => void;
  /** Milliseconds without any progress of the transfer until a {@link TimeoutError}: 60,000 by default. */
  timeout?: number;
  /** Milliseconds to wait until the server has processed the file: 15 minutes by default. */
  processingTimeout?: number;
}

const PATH = "/api/v2/media";

/**
 * Upload a file and wait until it can be attached to a status. Throws {@link ShoalError} if the file is refused or cannot be
 * processed.
 */
export async function upload(shoal: Shoal, file: Blob, options: UploadOptions = {}): Promise<MediaAttachment> {
  const { signal, onProgress, timeout = 60_000, processingTimeout = 900_000 } = options;
  signal?.throwIfAborted();
  const { description, thumbnail, showsDetails } = options;
  const shoalParams = showsDetails === undefined ? undefined : { shows_details: showsDetails };
  const form = formOf({ file, description, thumbnail, focus: options.focus?.join(","), shoal: shoalParams });
  const told = (sent: number, total: number) => onProgress?.({ sent: Math.min(sent, total), total, state: "sending" });
  const transfer = typeof XMLHttpRequest === "undefined" ? byFetch : byXmlHttpRequest;
  const { status, media } = await transfer(shoal, form, file.size, told, timeout, signal);
  if (status === 200) return media;
  onProgress?.({ sent: file.size, total: file.size, state: "processing" });
  return processed(shoal, media.id, processingTimeout, signal);
}

/** Wait until an uploaded file is processed. Throws {@link ShoalError} if the processing fails, and {@link TimeoutError}. */
export async function processed(
  shoal: Shoal,
  id: string,
  timeout = 900_000,
  signal?: AbortSignal,
): Promise<Data<"get", "/api/v1/media/{id}">> {
  const until = Date.now() + timeout;
  for (let wait = 200; ; wait = Math.min(wait * 1.5, 5_000)) {
    const { data, response } = await shoal.request("get", "/api/v1/media/{id}", { params: { path: { id } }, signal });
    if (response.status === 200) return data;
    if (Date.now() + wait > until) throw new TimeoutError(`The file ${id} was not processed within ${timeout} ms`);
    await pause(wait, signal);
    signal?.throwIfAborted();
  }
}

type Transfer = (
  shoal: Shoal,
  form: FormData,
  size: number,
  told: (sent: number, total: number) => void,
  timeout: number,
  signal: AbortSignal | undefined,
) => Promise<{ status: number; media: MediaAttachment }>;

/** Browsers report the progress of uploads only for this interface. */
const byXmlHttpRequest: Transfer = async (shoal, form, size, told, timeout, signal) => {
  const headers = await shoal.headers();
  signal?.throwIfAborted();
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const abort = () => request.abort();
    let late = false;
    let timer = setTimeout(expire, timeout);
    function expire() {
      late = true;
      request.abort();
    }
    request.upload.onprogress = (event) => {
      clearTimeout(timer);
      timer = setTimeout(expire, timeout);
      told(event.loaded, Math.max(event.total, size));
    };
    request.onload = () => {
      const found = request.getResponseHeader("Retry-After");
      const response = new Response(null, { status: request.status, headers: found ? { "Retry-After": found } : {} });
      if (response.ok) resolve({ status: request.status, media: request.response as MediaAttachment });
      else reject(new ShoalError(response, request.response));
    };
    request.onerror = () => reject(new ConnectionError("The upload was interrupted"));
    request.onabort = () => reject(late ? new TimeoutError(`No progress within ${timeout} ms`) : signal?.reason);
    request.onloadend = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    };
    signal?.addEventListener("abort", abort);
    request.open("POST", shoal.url + PATH);
    request.responseType = "json";
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.send(form);
  });
};

/** In Node, count the bytes of the encoded form while `fetch` reads them. */
const byFetch: Transfer = async (shoal, form, _size, told, timeout, signal) => {
  const encoded = new Response(form);
  const bytes = await encoded.clone().arrayBuffer();
  const late = new AbortController();
  let timer = setTimeout(() => late.abort(), timeout);
  let sent = 0;
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const part = new Uint8Array(bytes.slice(sent, sent + 65_536));
      sent += part.length;
      clearTimeout(timer);
      timer = setTimeout(() => late.abort(), timeout);
      if (part.length > 0) controller.enqueue(part);
      if (sent >= bytes.byteLength) controller.close();
      told(sent, bytes.byteLength);
    },
  });
  try {
    const either = signal ? AbortSignal.any([signal, late.signal]) : late.signal;
    const headers = { "Content-Type": encoded.headers.get("Content-Type") ?? "" };
    const init = { method: "POST", body, headers, signal: either, timeout: 0, duplex: "half" };
    const response = await shoal.fetch(PATH, init as RequestInit);
    return { status: response.status, media: (await response.json()) as MediaAttachment };
  } catch (error) {
    if (late.signal.aborted) throw new TimeoutError(`No progress within ${timeout} ms`, { cause: error });
    throw error;
  } finally {
    clearTimeout(timer);
  }
};
