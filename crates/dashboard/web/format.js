// Numbers, times and counts as people read them.

/// Returns a count with its noun in singular or plural.
export const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

/// Formats a number with the digits that matter: 0.42, 3.1, 28, 1.2k.
export function amount(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 1e6) return `${shortest(value / 1e6)}M`;
  if (value >= 1000) return `${shortest(value / 1000)}k`;
  return shortest(value);
}

const shortest = (value) => String(Number(value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)));

/// Formats a rate: 3.1/s, or 28 tokens/s.
export const perSecond = (value, noun = "") => (value === null || value === undefined ? "–" : `${amount(value)}${noun && ` ${noun}`}/s`);

/// Formats seconds as 4 ms, 1.2 s or 3 min.
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.0009995) return `${shortest(seconds * 1e6)} µs`;
  if (seconds < 0.9995) return `${shortest(seconds * 1000)} ms`;
  return seconds < 120 ? `${shortest(seconds)} s` : `${shortest(seconds / 60)} min`;
}

export const percent = (share) => (share === null || share === undefined ? "–" : `${Math.round(share * 100)} %`);

/// Returns the time since a moment as 12s, 3m, 5h or 2d.
export function age(time) {
  if (!time) return "";
  const seconds = Math.max(0, Math.round((Date.now() - Date.parse(time)) / 1000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

/// Returns the hours of GPUs since their pods started.
export const gpuHours = ({ count, since }) => (count * Math.max(0, Date.now() / 1000 - since)) / 3600;

/// Returns a function that shortens the names of pods to the part in which they differ, as `8jzqk`.
export function shortened(pods) {
  const parts = pods.map((pod) => pod.split("-"));
  const least = Math.min(...parts.map((one) => one.length - 1), 100);
  let same = 0;
  while (same < least && parts.every((one) => one[same] === parts[0][same])) same += 1;
  // A single pod, and pods of one name, keep their last part.
  return (pod) => pod.split("-").slice(pods.length === 1 ? -1 : same).join("-") || pod;
}
