// The API of the program behind the page. Every request carries the token that the page was opened with.

const token = new URLSearchParams(location.search).get("token") ?? "";

/** An error that the program reported: its code, its text, and the field of the request at fault. */
export class ApiError extends Error {
  constructor({ code = "", message = "", field = "" } = {}) {
    super(field ? `${message} (${field})` : message);
    this.code = code;
  }
}

async function ask(path, { method = "GET", body, signal } = {}) {
  const headers = { Authorization: `Bearer ${token}` };
  if (body !== undefined && typeof body !== "string") {
    headers["Content-Type"] = "application/json";
    body = JSON.stringify(body);
  }
  const response = await fetch(path, { method, headers, body, signal, cache: "no-store" });
  if (!response.ok) {
    const problem = await response.json().catch(() => ({}));
    throw new ApiError(problem.error ?? { code: String(response.status), message: response.statusText });
  }
  return response;
}

/** The response as a JSON value; undefined when it is empty. */
export async function askJson(path, options) {
  const text = await (await ask(path, options)).text();
  return text ? JSON.parse(text) : undefined;
}

export async function askText(path, options) {
  return (await ask(path, options)).text();
}

/** The objects of an NDJSON response, each as it arrives. Ends early when `options.signal` is aborted. */
export async function* askLines(path, options) {
  const response = await ask(path, options);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    const pieces = (rest + (value ?? "")).split("\n");
    rest = done ? "" : pieces.pop();
    for (const piece of pieces) if (piece.trim()) yield JSON.parse(piece);
    if (done) return;
  }
}

/** A path with a query; members without a value are left out. */
export function withQuery(path, query) {
  const known = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  return known.length ? `${path}?${new URLSearchParams(known)}` : path;
}
