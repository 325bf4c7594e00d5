"use strict";
// Draws the data of the page. Recorded text comes from strangers: it only ever becomes a text node, through `visible`.

const data = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("content");
const state = { entries: [], shown: [], chosen: -1 };

// The same characters that report/escape.py escapes: those that act on the page, hide, or reorder what is read.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Cn}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0d\uffa0\u{e0100}-\u{e01ef}]/gu;

function visible(text) {
  return String(text).replace(UNSEEN, (char) => {
    if (char === "\n" || char === "\t") return char;
    const code = char.codePointAt(0);
    return code < 256 ? "\\x" + code.toString(16).padStart(2, "0") : "\\u" + code.toString(16).padStart(4, "0");
  });
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    // The policy of the page allows no style attribute; it does allow what a script sets.
    if (name === "paint") node.style.setProperty(...value);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : visible(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== "") node.append(child instanceof Node ? child : visible(child));
  }
  return node;
}
const make = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const draw = (tag, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
const sum = (numbers) => numbers.reduce((total, number) => total + (number || 0), 0);
function duration(ms) {
  if (ms === null || ms === undefined) return "no end";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 120000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.floor(ms / 60000)} min ${Math.round((ms % 60000) / 1000)} s`;
}
function size(bytes) {
  return bytes < 1000 ? `${bytes} B` : bytes < 1e6 ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
const tokens = (turn) => [turn.tokens?.input_tokens, turn.tokens?.output_tokens];
function tokensText(counts) {
  return counts.some(Boolean) ? `${(counts[0] || 0).toLocaleString("en")} + ${(counts[1] || 0).toLocaleString("en")} tokens` : "";
}

// Texts ------------------------------------------------------------------------------------------------------------

function block(text, other) {
  // `other` is the text on the other side of a comparison: null where that side has none, undefined without one.
  const lines = text.split("\n").length;
  const pre = make("pre", { class: other === undefined || other === text ? "" : "differs" }, other ? changed(text, other) : text);
  // What differs may stand below a fold.
  if ((lines <= 24 && text.length <= 2400) || (other && other !== text)) return pre;
  pre.classList.add("folded");
  const button = make("button", { class: "more", "aria-expanded": "false" }, `Show all ${plural(lines, "line")}`);
  button.addEventListener("click", () => {
    const folded = pre.classList.toggle("folded");
    button.setAttribute("aria-expanded", String(!folded));
    button.textContent = folded ? `Show all ${plural(lines, "line")}` : "Fold";
  });
  return [pre, button];
}

function part(kind, title, ...children) {
  return make("div", { class: `part ${kind}` }, title ? make("h4", null, title) : null, children);
}

// One turn ---------------------------------------------------------------------------------------------------------

function describe(run, turn) {
  const calls = turn.calls.map((at) => run.calls[at]).filter((call) => call.kind !== "model");
  const asked = (turn.uses || []).map(([name]) => name);
  return turn.answer || (asked.length ? `asks for ${asked.join(", ")}` : turn.problem || calls.map((call) => call.label).join(", "));
}

function drawCall(run, at, other) {
  const call = run.calls[at];
  const beside = (name) => (other === undefined ? undefined : other?.[name] ?? null);
  const inner = run.calls.map((other, index) => [other, index]).filter(([other]) => other.inside === at);
  const facts = [duration(call.end === null ? null : call.end - call.start)];
  if (call.attempt > 1) facts.push(`attempt ${call.attempt}`);
  if (call.lane !== run.lanes[0]) facts.push(`lane ${call.lane}`);
  const title = [call.label, make("span", { class: "tag" }, `  ${facts.join(" · ")}`)];
  return part(
    call.kind === "tool" ? "call" : "other", title,
    call.input ? block(call.input, beside("input")) : null,
    inner.map(([, index]) => drawCall(run, index)),
    call.output ? block(call.output, beside("output")) : null,
    drawBytes(run, at),
  );
}

function drawTurn(run, turn, otherRun, other) {
  const facts = [turn.model, run.lanes.length > 1 ? `lane ${run.lanes[turn.lane]}` : "", duration(turn.end - turn.start), tokensText(tokens(turn)), turn.stops];
  const tools = (side) => side.calls.filter((at) => at !== side.call);
  const others = tools(turn);
  // Parts of one name stand beside each other in their order; of the calls, those at the same place.
  const beside = (name, number) => (other ? other.added?.filter((pair) => pair[0] === name)[number]?.[1] ?? null : undefined);
  const seen = {};
  return [
    make("h2", { tabindex: "-1" }, turn.title),
    make("p", { class: "muted" }, facts.filter(Boolean).join(" · ")),
    turn.added?.length ? [make("h3", null, "Added to the request"), turn.added.map(([name, text]) => part("", name, block(text, beside(name, (seen[name] = (seen[name] ?? -1) + 1)))))] : null,
    turn.call === undefined ? null : [
      make("h3", null, "Answer"),
      turn.answer ? part("answer", "", block(turn.answer, other && (other.answer || null))) : null,
      turn.uses.map(([name, input], number) => part("answer", `asks for ${name}`, block(input, other && (other.uses?.[number]?.[1] ?? null)))),
      turn.problem ? part("answer differs", "", block(turn.problem)) : null,
      drawBytes(run, turn.call),
    ],
    others.length ? [make("h3", null, "Calls"), others.map((at, number) => drawCall(run, at, other && (otherRun.calls[tools(other)[number]] ?? null)))] : null,
  ];
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
  return body.map((piece) => (typeof piece === "string" ? piece : texts.slice(piece[0], piece[1] + 1).join(piece[2]))).join("");
}

function spell(bytes) {
  // Bytes that are no text, a chunk that ends inside a character among them, stand as escapes.
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return Array.from(bytes, (byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : "\\x" + byte.toString(16).padStart(2, "0"))).join("");
  }
}

function drawSide(name, side, texts) {
  const body = restore(side.body, texts);
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const shown = typeof body === "string" ? body : spell(body);
  const rows = [make("h4", null, `${name}, ${size(bytes.length)}`), make("pre", null, side.head ? `${side.head}\n\n${shown}` : shown)];
  if (side.cuts) {
    let at = 0;
    const chunks = side.cuts.map((length, number) => {
      const chunk = spell(bytes.subarray(at, (at += length)));
      const time = side.times[number];
      return make("tr", null, make("td", { class: "number" }, number + 1), make("td", { class: "number" }, time === null ? "" : duration(time)), make("td", null, make("code", null, chunk)));
    });
    const head = make("tr", null, make("th", { class: "number" }, side.unit), make("th", { class: "number" }, "came by"), make("th", null, "bytes"));
    rows.push(make("details", null, make("summary", null, plural(side.cuts.length, side.unit)), make("div", { class: "scroll" }, make("table", null, head, chunks))));
  }
  return rows;
}

function drawBytes(run, at) {
  const details = make("details", { class: "bytes" }, make("summary", null, "Bytes"));
  details.addEventListener("toggle", async () => {
    if (!details.open || details.children.length > 1) return;
    const { texts, calls } = await unpack(run);
    details.append(...drawSide("Sent", calls[at][0], texts), ...drawSide("Came back", calls[at][1], texts));
  });
  return details;
}

// The time line ----------------------------------------------------------------------------------------------------

const ROW = 14;
const MARGIN = 92;

function pack(calls) {
  // Calls of one lane that overlap stand below each other.
  const ends = [];
  return calls.map((call) => {
    let row = ends.findIndex((end) => end <= call.start);
    if (row < 0) row = ends.push(0) - 1;
    ends[row] = call.end ?? call.start;
    return row;
  });
}

function drawTimeLine(run, turnOf, name) {
  const lanes = [...new Set(run.calls.map((call) => call.lane))];
  // What the test did before its first call says nothing about the run.
  const origin = Math.min(...run.calls.map((call) => call.start));
  const end = Math.max(1, ...run.calls.map((call) => (call.end ?? call.start) - origin));
  const holder = make("div", { class: "time", tabindex: "0", role: "group", "aria-label": `Time line${name ? ` of ${name}` : ""}: ${plural(run.calls.length, "call")} in ${plural(lanes.length, "lane")}, ${duration(end)}` });
  let zoom = 1;
  const render = () => {
    const width = Math.max(320, (holder.clientWidth || 900) - 2) * zoom;
    const scale = (width - MARGIN - 12) / end;
    const bars = [];
    let top = 18;
    for (const lane of lanes) {
      const own = run.calls.map((call, at) => ({ ...call, at })).filter((call) => call.lane === lane).sort((a, b) => a.start - b.start);
      const rows = pack(own);
      bars.push(draw("text", { x: 8, y: top + 10 }, lane.length > 12 ? `${lane.slice(0, 11)}…` : lane));
      own.forEach((call, number) => {
        const x = MARGIN + (call.start - origin) * scale;
        const took = call.end === null ? 0 : call.end - call.start;
        const bar = draw("rect", { class: call.kind, x, y: top + rows[number] * ROW, width: Math.max(1.5, took * scale - 0.5), height: ROW - 3, rx: 2, "data-turn": turnOf.get(call.at) ?? -1 }, draw("title", null, `${call.label}, ${duration(call.end === null ? null : took)} from ${duration(call.start - origin)}`));
        bars.push(bar);
      });
      top += (Math.max(0, ...rows) + 1) * ROW + 6;
    }
    const ticks = [];
    const count = Math.max(2, Math.floor(width / 140));
    for (let number = 0; number <= count; number++) {
      const x = MARGIN + (number / count) * end * scale;
      ticks.push(draw("line", { class: "axis", x1: x, x2: x, y1: 14, y2: top }), draw("text", { x, y: 11, "text-anchor": number === count ? "end" : number ? "middle" : "start" }, duration((end * number) / count)));
    }
    const svg = draw("svg", { width, height: top + 4, "aria-hidden": "true" }, ticks, bars);
    svg.addEventListener("click", (event) => {
      const at = Number(event.target.closest("rect")?.dataset.turn ?? -1);
      if (at >= 0) choose(at, true);
    });
    holder.replaceChildren(svg);
    mark();
  };
  holder.zoom = (factor) => {
    zoom = Math.min(64, Math.max(1, zoom * factor));
    render();
  };
  holder.render = render;
  return holder;
}

function mark() {
  for (const bar of document.querySelectorAll(".time rect")) bar.classList.toggle("chosen", Number(bar.dataset.turn) === state.chosen);
  for (const line of document.querySelectorAll(".time")) reveal(line.querySelector("rect.chosen"), line);
}

function reveal(item, holder) {
  // Scrolls the holder alone: the window stays where the reader is.
  if (!item) return;
  const own = item.getBoundingClientRect(), box = holder.getBoundingClientRect();
  if (own.top < box.top || own.bottom > box.bottom) holder.scrollTop += own.top < box.top ? own.top - box.top : own.bottom - box.bottom;
  if (own.left < box.left || own.right > box.right) holder.scrollLeft += own.left - box.left - box.width / 3;
}

// Findings ---------------------------------------------------------------------------------------------------------

function changed(text, other) {
  // What both sides begin and end with is plain, what is between stands out.
  const most = Math.min(text.length, other.length);
  let start = 0;
  while (start < most && text[start] === other[start]) start++;
  if (start && /[\ud800-\udbff]/.test(text[start - 1])) start--; // no half of a character stays on the other side
  let end = 0;
  while (end < most - start && text.at(-1 - end) === other.at(-1 - end)) end++;
  if (end && /[\udc00-\udfff]/.test(text.at(-end))) end--;
  const between = text.slice(start, text.length - end);
  return [text.slice(0, start), between ? make("mark", null, between) : null, text.slice(text.length - end)];
}

function drawFinding(finding, title) {
  // Of what is only for those who want all, what has a label is the report of pytest.
  const rows = finding.lines.filter((line) => line.what !== "detail" || line.label).map((line) => {
    if (line.what === "detail") return [make("dt", { class: "wide" }, line.label), make("dd", { class: "wide" }, block(line.text))];
    if (line.what === "difference") {
      const recorded = changed(line.recorded, line.now), now = changed(line.now, line.recorded);
      return [make("dt", { class: "wide" }, line.text), make("dt", null, "recorded"), make("dd", null, make("code", null, recorded)), make("dt", null, "now"), make("dd", null, make("code", null, now))];
    }
    const name = line.what === "cause" ? "likely cause" : line.label;
    const text = line.what === "next" ? make("code", null, line.text) : line.text;
    return [make("dt", null, name), make("dd", null, text)];
  });
  return make("section", { class: "finding", "aria-label": "Divergence" }, title ? make("p", null, title) : null, make("h2", null, finding.headline), make("dl", null, rows));
}

// Pages of runs ----------------------------------------------------------------------------------------------------

function drawFacts(run) {
  const facts = [
    [plural(run.turns.filter((turn) => turn.call !== undefined).length, "turn")],
    [plural(run.calls.length, "call")],
    [tokensText([sum(run.turns.map((turn) => tokens(turn)[0])), sum(run.turns.map((turn) => tokens(turn)[1]))])],
    [run.calls.length ? duration(Math.max(...run.calls.map((call) => call.end ?? call.start)) - Math.min(...run.calls.map((call) => call.start))) : ""],
    [run.recorded.slice(0, 10), "recorded"],
    [[...new Set(run.turns.map((turn) => turn.model).filter(Boolean))].join(", ")],
  ];
  return make("div", { class: "facts" }, run.outcome ? make("span", { class: `badge ${run.outcome}` }, run.outcome) : null, facts.filter(([value]) => value).map(([value, name]) => make("span", null, name ? `${name} ` : "", make("b", null, value))));
}

function toolbar(extra) {
  const search = make("input", { type: "search", placeholder: "Search the turns", "aria-label": "Search the turns" });
  const count = make("span", { class: "muted", role: "status" });
  search.addEventListener("input", () => filter(search.value, count));
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && state.shown.length) choose(state.shown[0], true);
    if (event.key === "Escape") search.blur();
  });
  const help = make("section", { class: "help", hidden: true, "aria-label": "Keys" }, HELP.map(([key, what]) => make("p", null, make("kbd", null, key), ` ${what}`)));
  const toggle = () => { help.hidden = !help.hidden; };
  state.keys = { "/": () => search.focus(), "?": toggle, t: switchTheme, ...extra };
  const buttons = [
    make("button", { onclick: () => zoom(2), "aria-label": "Zoom into the time line" }, "+"),
    make("button", { onclick: () => zoom(0.5), "aria-label": "Zoom out of the time line" }, "−"),
    make("button", { onclick: switchTheme }, "Light or dark"),
    make("button", { onclick: toggle }, "Keys ?"),
  ];
  return [make("div", { class: "bar" }, search, count, buttons), help];
}

const HELP = [["j", "next turn"], ["k", "previous turn"], ["n", "next difference"], ["p", "previous difference"], ["g", "first turn"], ["G", "last turn"], ["b", "bytes of the turn"], ["/", "search"], ["+ −", "zoom the time line"], ["t", "light or dark"], ["?", "these keys"]];
const LEGEND = [["model", "model calls"], ["tool", "tool calls"], ["other", "other calls"]];

function zoom(factor) {
  for (const line of document.querySelectorAll(".time")) line.zoom(factor);
}

function switchTheme() {
  const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
}

const listTexts = (value) => (value !== null && typeof value === "object" ? Object.values(value).flatMap(listTexts) : typeof value === "string" ? [value] : []);

function filter(text, count) {
  const wanted = text.toLowerCase();
  state.shown = [];
  state.entries.forEach((entry, at) => {
    entry.words ??= listTexts(entry.data()).join("\n").toLowerCase();
    const fits = !wanted || entry.words.includes(wanted);
    entry.item.hidden = !fits;
    if (fits) state.shown.push(at);
  });
  count.textContent = wanted ? `${state.shown.length} of ${plural(state.entries.length, "turn")}` : "";
}

function choose(at, focus) {
  if (!(at in state.entries)) return;
  state.entries[state.chosen]?.button.removeAttribute("aria-current");
  state.chosen = at;
  const entry = state.entries[at];
  entry.button.setAttribute("aria-current", "true");
  reveal(entry.item, entry.item.closest("nav"));
  state.pane.replaceChildren(...[entry.draw()].flat(Infinity).filter(Boolean));
  mark();
  if (location.hash !== entry.link) history.replaceState(null, "", entry.link);
  if (focus) entry.button.focus();
}

function step(by, wanted = () => true) {
  for (let at = state.chosen + by; at in state.entries; at += by) {
    if (!state.entries[at].item.hidden && wanted(state.entries[at])) return choose(at, true);
  }
}

function addEntry(list, entry, summary) {
  const at = state.entries.length;
  entry.button = make("button", { onclick: () => choose(at) }, summary);
  entry.item = make("li", null, entry.button);
  list.append(entry.item);
  state.entries.push(entry);
  state.shown.push(at);
}

function link(run, turn, side) {
  return `#${side}turn-${turn.n}${turn.lane ? `-in-${encodeURIComponent(run.lanes[turn.lane])}` : ""}`;
}

function summarize(run, turn, badge) {
  return [
    make("b", null, turn.title, badge ? [" ", badge] : null),
    make("span", { class: "amount" }, duration(turn.end - turn.start)),
    make("span", { class: "what" }, describe(run, turn)),
  ];
}

function listTurns(run) {
  // Which entry shows a call: that of its turn, or of the turn of the call that it is inside of.
  const turnOf = new Map();
  run.turns.forEach((turn, at) => turn.calls.forEach((call) => turnOf.set(call, at)));
  run.calls.forEach((call, at) => { if (!turnOf.has(at) && turnOf.has(call.inside)) turnOf.set(at, turnOf.get(call.inside)); });
  return turnOf;
}

function begin(title, head, ...lines) {
  const list = make("ol");
  state.pane = make("article", { "aria-label": "The chosen turn" });
  fill(main, null, [
    make("header", null, title, head), toolbar(TURN_KEYS), lines,
    make("div", { class: "legend" }, LEGEND.map(([kind, name]) => make("span", { class: kind }, make("i"), name))),
    make("p"), make("div", { class: "panes" }, make("nav", { class: "turns", "aria-label": "Turns" }, list), state.pane),
  ]);
  return list;
}

const TURN_KEYS = {
  j: () => step(1), k: () => step(-1), g: () => choose(state.shown[0], true), G: () => choose(state.shown.at(-1), true),
  n: () => step(1, (entry) => entry.differs), p: () => step(-1, (entry) => entry.differs),
  b: () => { for (const details of state.pane.querySelectorAll("details.bytes")) details.open = !details.open; },
  "+": () => zoom(2), "-": () => zoom(0.5),
};

function showRun() {
  const [run] = data.runs;
  const turnOf = listTurns(run);
  const finding = data.findings?.[0];
  const line = drawTimeLine(run, turnOf);
  const notes = (data.notes || []).map((note) => make("p", { class: "muted" }, note));
  const list = begin(make("h1", null, run.test), [drawFacts(run), drawMore(run), notes, finding ? drawFinding(finding) : null], line);
  run.turns.forEach((turn, at) => {
    const differs = finding?.turn === at;
    addEntry(list, { differs, data: () => [turn, turn.calls.map((call) => run.calls[call])], draw: () => drawTurn(run, turn), link: link(run, turn, "") }, summarize(run, turn, differs ? make("span", { class: "badge differs" }, finding.code) : null));
  });
  line.render();
  addEventListener("resize", line.render);
  if (!run.turns.length) state.pane.append(make("p", null, "The test made no call."));
  return finding ? finding.turn : 0;
}

function drawMore(run) {
  return make("details", null, make("summary", null, data.files?.[data.runs.indexOf(run)] || "About this run"), make("dl", { class: "facts" }, run.facts.map(([name, text]) => make("span", null, `${name} `, make("b", null, text)))));
}

function content(run, turn) {
  const calls = turn.calls.map((at) => run.calls[at]).map(({ label, input, output }) => [label, input, output]);
  return JSON.stringify([turn.model, turn.added, turn.answer, turn.uses, turn.problem, calls]);
}

function showPair() {
  const [recorded, now] = data.runs;
  const maps = [new Map(), new Map()];
  const lines = data.runs.map((run, side) => drawTimeLine(run, maps[side], ["recorded", "now"][side]));
  const first = data.findings[0];
  const verdict = first ? drawFinding(first) : make("p", { class: "same" }, "Both files hold the same run.");
  const sides = make("div", { class: "sides" }, data.runs.map((run, side) => make("section", null, make("b", null, ["recorded", "now"][side]), drawFacts(run), drawMore(run))));
  const notes = data.notes.map((note) => make("p", { class: "muted" }, note));
  const list = begin(make("h1", null, recorded.test), [verdict, notes, sides], lines);
  const where = data.runs.map(listTurns);
  data.pairs.forEach(([x, y]) => {
    const at = state.entries.length;
    const left = recorded.turns[x], right = now.turns[y];
    const findings = data.findings.filter((finding) => finding.pair === at);
    const differs = !left || !right || findings.length > 0 || content(recorded, left) !== content(now, right);
    where.forEach((turnOf, side) => turnOf.forEach((turn, call) => { if (turn === [x, y][side]) maps[side].set(call, at); }));
    const word = findings[0]?.code || (!left ? "only now" : !right ? "only recorded" : differs ? "differs" : "");
    addEntry(list, {
      differs, link: left ? link(recorded, left, "") : link(now, right, "now-"),
      data: () => [left, right, ...[[recorded, left], [now, right]].map(([run, turn]) => turn?.calls.map((call) => run.calls[call]))],
      draw: () => [
        findings.filter((finding) => finding !== first).map((finding) => drawFinding(finding)),
        make("div", { class: "sides" }, [[recorded, left, "recorded"], [now, right, "now"]].map(([run, turn, name]) => make("section", { "aria-label": name }, make("b", { class: "muted" }, name), turn ? drawTurn(run, turn, ...(run === recorded ? [now, right] : [recorded, left])) : make("p", null, `There is no such turn ${name === "now" ? "now" : "in the recording"}.`)))),
      ],
    }, summarize(left ? recorded : now, left || right, word ? make("span", { class: `badge ${differs ? "differs" : "same"}` }, word) : null));
  });
  for (const line of lines) { line.render(); addEventListener("resize", line.render); }
  return first?.pair ?? 0;
}

// ------------------------------------------------------------------------------------------------------------------

function follow(fallback) {
  const at = state.entries.findIndex((entry) => entry.link === location.hash);
  choose(at < 0 ? fallback : at);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  const act = state.keys?.[event.key];
  if (act) { event.preventDefault(); act(); }
});

if (data.kind === "index") showIndex();
else if (data.kind === "failure") showFailure();
else {
  const fallback = data.kind === "pair" ? showPair() : showRun();
  follow(fallback ?? 0);
  addEventListener("hashchange", () => follow(state.chosen));
}
