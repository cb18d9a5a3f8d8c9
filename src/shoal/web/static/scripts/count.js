// Remaining characters, counted as `text_length` does: a link is 23, and @user@domain as long as @user.
const LINK = 23;
const END = "\\s\\u0000-\\u001f\\u007f-\\u009f\\u00ab\\u00bb\\u200b-\\u201f\\u2026\\u202a-\\u202e\\u2060-\\u206f\\u3001-\\u3003\\u3008-\\u3011\\u3014-\\u301b\\ufeff\\uff01\\uff08\\uff09\\uff0c\\uff1a\\uff1b\\uff1f\\uff3b\\uff3d\\uff5b\\uff5d\\uff5f-\\uff64()<>\"`\\\\";
const WEAK = ".,:;!?'*~|^{}\\[\\]";
const NOT_HOST = `${END}\\u0000-,.\\/:-@\\[-^{-\\u007f`;
const LABEL = `[^${NOT_HOST}_\\-][^${NOT_HOST}]*`;
const HOST = `${LABEL}(?:\\.${LABEL})*`;
const INSIDE = `\\((?:[^${END}]+|\\([^${END}]*\\))*\\)`;
const TAIL = `(?:[${WEAK}]*(?:[^${END}${WEAK}]+|${INSIDE}))+`;
// As in the server's pattern, each alternative begins with its rarest character and then looks back.
const SPANS = new RegExp(
  `@(?<![\\p{L}\\p{N}_/=]@)([A-Za-z0-9_]{1,30})(?![A-Za-z0-9_])(?:@(${HOST}))?` +
    `|#(?<![\\p{L}\\p{N}_/&)]#)([0-9A-Za-z_\\u{80}-\\u{10ffff}]+)` +
    `|(?:(?<=(?<![A-Za-z0-9_@#$])[hH][tT][tT][pP])|(?<=(?<![A-Za-z0-9_@#$])[hH][tT][tT][pP][sS])):\\/\\/(${HOST}(?::[0-9]{1,5})?(?:(?=[/?#])${TAIL})?)`,
  "gu",
);
const SEPARATORS = "\\u00b7\\u30fb\\uff65\\u301c\\uff5e\\u200c";
const TAG = new RegExp(
  `^[\\p{L}\\p{Nd}\\p{Pc}](?:[\\p{L}\\p{M}\\p{Nd}\\p{Pc}${SEPARATORS}]|(?<=\\p{M})\\u200d)*(?<![${SEPARATORS}\\u200d])`,
  "u",
);
const CLUSTERS = Intl.Segmenter && new Intl.Segmenter("und", { granularity: "grapheme" });

// Grapheme clusters. Browsers without a segmenter count more, never less.
function characters(text) {
  return [...(CLUSTERS && /[^\0-\x7f]/.test(text) ? CLUSTERS.segment(text) : text)].length;
}

// A tag in a script without spaces may include the "http" of a following link, which is then no link.
function tagAtHeadOf(run) {
  const name = run.match(TAG)?.[0] ?? "";
  return [...name].length <= 100 && /[\p{L}\p{Pc}]/u.test(name) ? name : "";
}

export function length(text) {
  const plain = text.replaceAll("\r\n", "\n").normalize("NFC");
  let sum = characters(plain), end = 0;
  for (const { index, 0: whole, 1: name, 2: domain, 3: run } of plain.matchAll(SPANS)) {
    const scheme = /s/i.test(plain[index - 1]) ? 5 : 4;
    if (run) {
      const tag = tagAtHeadOf(run);
      if (tag) end = index + 1 + tag.length;
    } else if (name) {
      end = index + whole.length;
      if (domain) sum -= characters(whole) - name.length - 1;
    } else if (index - scheme >= end) {
      end = index + whole.length;
      sum += LINK - scheme - characters(whole);
    }
  }
  return sum;
}

export default function count(field) {
  const shown = field.form.querySelector("[data-count]");
  const show = () => {
    const left = Number(field.dataset.limit) - length(field.value);
    shown.textContent = left < 0 ? field.dataset.over.replace("{n}", -left) : left < 500 ? field.dataset.left.replace("{n}", left) : "";
    shown.classList.toggle("over", left < 0);
  };
  field.addEventListener("input", show);
  show();
}
