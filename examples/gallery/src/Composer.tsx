import { useEffect, useState, type FormEvent } from "react";
import { usePublish, useShoal, useUpload } from "@shoal/client/react";
import { Dialog } from "./Photo.tsx";
import { Icon, Problem } from "./parts.tsx";

/** Uploads a photo while its description and caption are written, and publishes it. */
export function Composer({ onClose }: { onClose: () => void }) {
  const shoal = useShoal();
  const { start, progress, media, error } = useUpload();
  const publish = usePublish();
  const [preview, setPreview] = useState("");
  const [description, setDescription] = useState("");
  const [caption, setCaption] = useState("");
  const [problem, setProblem] = useState("");
  useEffect(() => () => URL.revokeObjectURL(preview), [preview]);

  const choose = (file: File | undefined) => {
    if (!file) return;
    setPreview(URL.createObjectURL(file));
    // The error is shown below the form.
    start(file).catch(() => undefined);
  };
  const share = async (event: FormEvent) => {
    event.preventDefault();
    if (!media) return;
    setProblem("");
    try {
      if (description) await shoal.put("/api/v1/media/{id}", { params: { path: { id: media.id } }, body: { description } });
      await publish.mutateAsync({ status: caption, media_ids: [media.id] });
      onClose();
    } catch (reason) {
      setProblem((reason as Error).message);
    }
  };
  return (
    <Dialog label="Share a photo" className="composer" onClose={onClose}>
      <form onSubmit={(event) => void share(event)}>
        <h2>Share a photo</h2>
        <label
          className={preview ? "drop chosen" : "drop"}
          onDragOver={(event) => event.preventDefault()}
          onDrop={(event) => {
            event.preventDefault();
            choose(event.dataTransfer.files[0]);
          }}
        >
          {preview ? <img src={preview} alt="" /> : <Icon name="plus" />}
          <span>{preview ? "Choose another photo" : "Choose a photo, or drop it here"}</span>
          <input className="hidden" type="file" accept="image/*" aria-label="Photo" onChange={(event) => choose(event.target.files?.[0])} />
        </label>
        {progress && (
          <progress aria-label="Upload" max={progress.total} value={progress.state === "sending" ? progress.sent : undefined} />
        )}
        <label>
          Description for people who cannot see it
          <input value={description} maxLength={1500} onChange={(event) => setDescription(event.target.value)} />
        </label>
        <label>
          Caption
          <textarea rows={3} value={caption} maxLength={500} onChange={(event) => setCaption(event.target.value)} />
        </label>
        <Problem text={problem || error?.message} />
        <button className="primary" disabled={!media || publish.isPending}>
          Share
        </button>
      </form>
    </Dialog>
  );
}
