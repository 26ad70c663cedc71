// Offsets to places. The server says where some offsets are; in between, and beyond, it is a straight line.

/** On an axis of knots `[offset, place]`. */
function place(axis, offset) {
  if (!axis.length) return 0;
  let after = 1;
  while (after < axis.length - 1 && axis[after][0] < offset) after += 1;
  const [from, x] = axis[after - 1];
  const [to, y] = axis[Math.min(after, axis.length - 1)];
  return to === from ? x : x + ((offset - from) * (y - x)) / (to - from);
}

/** On the way from one axis to the next: a strip that slides does not jump ten times a second. */
export const between = (before, now, part, offset) => {
  const here = place(now, offset);
  if (part >= 1 || !before) return here;
  // What was not there yet comes from the edge. Further out it would lie over the words beside the strip.
  const there = Math.min(place(before, offset), before.at(-1)[1]);
  return there + (here - there) * part;
};

const SCALES = 1.5; // times; from there on, a slide would look like a leap of everything

/** Whether two axes have about the same scale and show about the same. */
export function slides(before, now, width) {
  if (!before?.length || !now.length) return false;
  const [span, spanNow] = [before, now].map((axis) => axis.at(-1)[0] - axis[0][0] || 1);
  const moved = Math.abs(place(before, now.at(-1)[0]) - width);
  return span < spanNow * SCALES && spanNow < span * SCALES && moved < width;
}
