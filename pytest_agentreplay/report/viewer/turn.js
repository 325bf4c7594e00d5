// One turn: what its request added, what the model answered, the calls that followed; and each call to the byte, as a
// command, and with its pictures.

function describeTurn(run, turn) {
  const calls = turn.calls.map((at) => run.calls[at]).filter((call) => call.kind !== "model");
  const asked = (turn.uses || []).map(([name]) => name);
  const text = turn.answer || (asked.length ? `asks for ${asked.join(", ")}` : turn.problem || calls.map((call) => call.label).join(", "));
  return cut(text.trimStart(), 160);
}

function findProblem(run, turn) {
  // Whether something went wrong in a turn: an error instead of an answer, or of one of its calls.
  return Boolean(turn.problem) || turn.calls.some((at) => run.calls[at].error);
}

function listTurnFacts(run, turn, strand) {
  const cost = costOf(run, turn);
  return [
    turn.model, strand, duration(turn.end - turn.start),
    turn.first === undefined ? "" : `first token after ${duration(turn.first)}`,
    tokensText(tokens(turn)), cost ? dollars(cost) : "", turn.stops ? `stops: ${turn.stops}` : "",
    `began at ${duration(turn.start - Math.min(...run.calls.map((call) => call.start)))}`,
  ].filter(Boolean);
}

function drawTurn(run, turn, { strand, side, changes } = {}) {
  // `changes` has the parts that differ from the same turn of the other run, by the keys that report/page_data.py gives.
  const options = (key, call) => ({ run, call, side, change: changes && key in changes ? (changes[key] ? [changes[key]] : []) : undefined });
  const counts = {};
  const added = (turn.added || []).map(([name, text]) => {
    counts[name] = (counts[name] ?? -1) + 1;
    return drawText(text, "", name, options(`added ${name} ${counts[name]}`, turn.call));
  });
  const uses = (turn.uses || []).map(([name, input], number) =>
    drawText(input, "answer", `asks for ${name}`, options(`use ${number}`, turn.call)));
  const others = turn.calls.filter((at) => at !== turn.call);
  const facts = listTurnFacts(run, turn, strand);
  return [
    make("h2", { tabindex: "-1" }, turn.title),
    make("p", { class: "muted" }, facts.join(" · ")),
    added.length ? [make("h3", null, "Added to the request"), added] : null,
    turn.call === undefined ? null : [
      make("h3", null, "Answer"),
      turn.answer ? drawText(turn.answer, "answer", "text", { ...options("answer", turn.call), name: "the answer" }) : null,
      uses,
      turn.problem ? drawText(turn.problem, "failed", "error", { ...options("problem"), name: "the error" }) : null,
      drawBytes(run, turn.call),
    ],
    others.length ? [make("h3", null, "Calls"), others.map((at, number) => drawCall(run, at, (what) => options(`${what} ${number}`, at)))] : null,
  ];
}

function drawCall(run, at, options = () => ({ run, call: at })) {
  const call = run.calls[at];
  const inner = run.calls.flatMap((each, index) => (each.inside === at ? [index] : []));
  const facts = [duration(call.end === null ? null : call.end - call.start)];
  if (call.attempt > 1) facts.push(`attempt ${call.attempt}`);
  if (call.cost) facts.push(dollars(call.cost));
  const title = [call.label, make("span", { class: "tag" }, ` ${facts.join(" · ")}`)];
  const text = (what, name) => (call[what] ? drawText(call[what], name === "error" ? "failed" : "", name, { ...options(what), name: `${name} of ${cut(call.label, 40)}` }) : null);
  return drawPart(
    call.error ? "call failed" : call.kind === "tool" ? "call" : "other", title, [],
    text("input", "input"), inner.map((index) => drawCall(run, index)), text("output", call.error ? "error" : "result"), drawBytes(run, at),
  );
}

// Bytes ------------------------------------------------------------------------------------------------------------

async function unpack(run) {
  if (!run.unpacked) {
    const packed = Uint8Array.from(atob(run.raw), (char) => char.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    run.unpacked = JSON.parse(await new Response(stream).text());
  }
  return run.unpacked;
}

function restore(body, texts) {
  if (body.base64 !== undefined) return Uint8Array.from(atob(body.base64), (char) => char.charCodeAt(0));
  const spell = (piece) => (typeof piece === "string" ? piece : texts.slice(piece[0], piece[1] + 1).join(piece[2]));
  return body.map(spell).join("");
}

function spell(bytes) {
  // Bytes that are no text, a chunk that ends inside a character among them, stand as escapes.
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    const escape = (byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : "\\x" + byte.toString(16).padStart(2, "0"));
    return Array.from(bytes, escape).join("");
  }
}

function drawSide(name, side, texts, start) {
  const body = restore(side.body, texts);
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const shown = typeof body === "string" ? body : spell(body);
  const whole = side.head ? `${side.head}\n\n${shown}` : shown;
  const head = make("div", { class: "head" }, make("h4", null, `${name}, ${size(bytes.length)}`), copyButton("Copy", `the bytes of ${name.toLowerCase()}`, () => visible(whole)));
  return [head, make("pre", null, whole), side.cuts ? drawChunks(side, bytes, start) : null];
}

function drawChunks(side, bytes, start) {
  // Times count from the call's own start. Only the first and the last chunk, and those during which something else
  // happened, have one.
  let at = 0;
  const rows = side.cuts.map((length, number) => {
    const chunk = spell(bytes.subarray(at, (at += length)));
    const time = side.times[number];
    return make("tr", null,
      make("td", { class: "number" }, number + 1),
      make("td", { class: "number" }, time === null ? "" : duration(time - start)),
      make("td", null, make("code", null, chunk)));
  });
  const head = make("tr", null, make("th", { class: "number" }, side.unit), make("th", { class: "number" }, "after"), make("th", null, "bytes"));
  return make("details", null, make("summary", null, plural(side.cuts.length, side.unit)), make("div", { class: "scroll" }, make("table", null, head, rows)));
}

function drawBytes(run, at) {
  const call = run.calls[at];
  const details = make("details", { class: "bytes" }, make("summary", null, `Bytes of ${cut(call.label, 40)}`));
  details.addEventListener("toggle", async () => {
    if (!details.open || details.children.length > 1) return;
    const { texts, calls } = await unpack(run);
    const [sent, came] = calls[at];
    if (details.children.length > 1) return; // it was closed and opened meanwhile
    const parts = [...drawSide("Sent", sent, texts, call.start), ...drawSide("Came back", came, texts, call.start)];
    const curl = formatCurl(sent, texts);
    if (curl) details.append(copyButton("Copy as curl", `the request to ${cut(call.label, 40)}`, () => curl));
    details.append(...parts.filter(Boolean));
  });
  return details;
}

// The request as a command -----------------------------------------------------------------------------------------

const CREDENTIALS = /auth|cookie|token|secret|key|signature|credential|session|password/i;
// The header that each provider takes a key in; all others take a bearer token.
const KEY_HEADERS = [
  [/\/v1\/messages/, "x-api-key"],
  [/generativelanguage|googleapis/, "x-goog-api-key"],
  [/\.openai\.azure\.com|cognitiveservices/, "api-key"],
];
const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function formatCurl(sent, texts) {
  // Returns "" for what is no HTTP request with a text. A key is never recorded, so its header is a placeholder.
  const [line, ...headers] = sent.head.split("\n");
  const [, method, url] = /^([A-Z]+) (https?:\/\/\S+)/.exec(line) || [];
  const body = restore(sent.body, texts);
  if (!url || typeof body !== "string") return "";
  const name = KEY_HEADERS.find(([pattern]) => pattern.test(url))?.[1] || "Authorization";
  const kept = headers.filter((header) => !CREDENTIALS.test(header.split(":")[0]) && !/^content-length:/i.test(header));
  const value = readJson(body);
  const parts = [
    `curl -X ${method} ${quote(visible(url))}`,
    ...kept.map((header) => `-H ${quote(visible(header))}`),
    `-H '${name}: ${name === "Authorization" ? "Bearer " : ""}YOUR_KEY'`,
  ];
  if (body) parts.push(`--data-raw ${quote(value === undefined ? visible(body) : formatJson(value))}`);
  return parts.join(" \\\n  ");
}

// Pictures ---------------------------------------------------------------------------------------------------------

// As model/media.py writes them: <image/png 12.3 kB sha256:ab12cd34>. Only forms that hold pixels and no script.
const PICTURE = /<(image\/(?:png|jpeg|jpg|gif|webp)) [0-9.]+ [kM]?B sha256:([0-9a-f]{8})>/g;
const BASE64 = /^(?:data:image\/\w+;base64,)?([A-Za-z0-9+/_-]{40,}={0,2})\s*$/;

function drawPictures(text, run, at) {
  // A place for the pictures that a text names; they come as soon as the bodies are unpacked.
  const marks = [...text.matchAll(PICTURE)];
  if (!marks.length || at === undefined || !crypto.subtle) return null;
  const holder = make("div", { class: "pictures" });
  findPictures(run, at).then((pictures) => {
    for (const [name, kind, digest] of marks) {
      if (!pictures.has(digest)) continue;
      const image = make("img", { alt: name.slice(1, -1) });
      image.src = `data:${kind};base64,${pictures.get(digest)}`;
      holder.append(image);
    }
  });
  return holder;
}

async function findPictures(run, at) {
  // Returns the base64 of all that could be a picture in the bodies of a call, by the digest that texts name it by.
  const { texts, calls } = await unpack(run);
  const found = new Map();
  for (const side of calls[at]) {
    const body = restore(side.body, texts);
    for (const text of typeof body === "string" ? listTexts(readJson(body)) : []) {
      const base64 = BASE64.exec(text)?.[1].replaceAll("-", "+").replaceAll("_", "/");
      if (!base64) continue;
      try {
        const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
        found.set(await digest(bytes), base64);
      } catch {
        // A long word that only looks like base64.
      }
    }
  }
  return found;
}

async function digest(bytes) {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(hash.subarray(0, 4), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
