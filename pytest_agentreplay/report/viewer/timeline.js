// The time line: the calls of a run as bars. Calls that do not overlap share a row, and so do lanes.

const ROW = 14;
const GAP = 6;
const HEIGHT_OF_AXIS = 18;
// The width of a letter of a name, of 11 pixels, on the average.
const CHARACTER = 5.6;
// How far from a bar a click still means it, in pixels: the bars of a long run are thinner than a pointer.
const REACH = 8;
// What the labels of the axis count by, in milliseconds, and the room of one, in pixels.
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 30e3, 60e3, 120e3, 300e3, 600e3, 1800e3, 3600e3];
const LABEL = 80;

function packSpans(spans) {
  // Returns the row of each span, in the order of their starts: the first in which it overlaps nothing.
  const ends = [];
  return spans.map(({ start, end }) => {
    let row = ends.findIndex((each) => each <= start);
    if (row < 0) row = ends.push(0) - 1;
    ends[row] = Math.max(end, start);
    return row;
  });
}

function placeStrand(strand, callsOf, closed) {
  // Returns how a strand is laid out: its calls with their rows, and below them, in bands, the strands that began in it.
  // Strands in one band do not overlap.
  const calls = strand.nodes.flatMap((node) => callsOf(node.at)).sort((a, b) => a.start - b.start);
  const rows = packSpans(calls.map((call) => ({ start: call.start, end: call.end ?? call.start })));
  const bars = calls.map((call, at) => ({ call, top: rows[at] * ROW }));
  let height = (Math.max(-1, ...rows) + 1) * ROW;
  let [start, end] = [Math.min(...calls.map((call) => call.start)), Math.max(...calls.map((call) => call.end ?? call.start))];
  const inner = strand.nodes.flatMap((node) => node.strands).map((each) => placeStrand(each, callsOf, closed));
  inner.sort((a, b) => a.start - b.start);
  const bandOf = packSpans(inner);
  const bands = [];
  inner.forEach((each, at) => (bands[bandOf[at]] ??= []).push(each));
  for (const each of inner) [start, end] = [Math.min(start, each.start), Math.max(end, each.end)];
  const placed = { strand, bars, start, end, bands: [], hidden: closed.has(strand.lane) ? inner.length : 0, height };
  for (const band of placed.hidden ? [] : bands) {
    placed.bands.push({ top: placed.height + GAP, strands: band });
    placed.height += GAP + Math.max(...band.map((each) => each.height));
  }
  return placed;
}

function nameBand(strands) {
  const kinds = new Set(strands.map(({ strand }) => strand.kind));
  if (strands.length === 1) return strands[0].strand.name;
  return kinds.size === 1 ? `${[...kinds][0]} ×${strands.length}` : `${strands[0].strand.name} …`;
}

function shortenMiddle(name, most) {
  // What tells two calls of one tool apart stands at the end of their names.
  const half = Math.max(3, Math.floor(most / 2));
  return name.length <= most ? name : `${name.slice(0, half - 1)}…${name.slice(-half)}`;
}

function drawTimeLine(run, roots, callsOf, name) {
  // `callsOf` gives the calls of an entry of the list, each with `entry`, the entry that a click on it chooses.
  const all = listStrands(roots).flatMap((strand) => strand.nodes.flatMap((node) => callsOf(node.at)));
  // What the test did before its first call says nothing about the run.
  const origin = Math.min(...all.map((call) => call.start));
  const end = Math.max(1, measureRun(all));
  const lanes = listStrands(roots).length;
  const about = `Time line${name ? ` of ${name}` : ""}: ${plural(all.length, "call")} in ${plural(lanes, "lane")}, ${duration(end)}`;
  const holder = make("div", { class: "time", tabindex: "0", role: "group", "aria-label": about });
  const closed = new Set();
  let zoom = 1;

  const render = () => {
    const margin = lanes > 1 || name ? Math.min(150, Math.max(92, holder.clientWidth * 0.14)) : 12;
    const width = Math.max(220, (holder.clientWidth || 900) - margin - 2) * zoom;
    const scale = (width - 12) / end;
    const x = (time) => (time - origin) * scale;
    const bars = [], names = [], boxes = [];
    const drawPlaced = (placed, top) => {
      for (const { call, top: row } of placed.bars) bars.push(drawBar(call, x, top + row, scale));
      for (const band of placed.bands) {
        names.push(drawName(band.strands, top + band.top));
        for (const each of band.strands) {
          const box = { class: "strand", x: x(each.start) - 1, y: top + band.top - 2, width: (each.end - each.start) * scale + 2, height: each.height + 2, rx: 3 };
          boxes.push(draw("rect", box, draw("title", null, each.strand.name)));
          drawPlaced(each, top + band.top);
        }
      }
    };
    const drawName = (strands, top) => {
      const inner = sum(strands.map((each) => each.bands.length + each.hidden));
      const paint = ["top", `${top - 2}px`];
      const label = nameBand(strands);
      const { depth } = strands[0].strand;
      const indent = "\u00a0".repeat(2 * depth);
      const short = shortenMiddle(label, Math.floor(margin / CHARACTER) - 3 - 2 * depth);
      if (!inner) return make("span", { class: "name", paint, title: label }, indent + short);
      const open = !strands.some((each) => each.hidden);
      const toggle = () => {
        for (const { strand } of strands) open ? closed.add(strand.lane) : closed.delete(strand.lane);
        render();
        holder.dispatchEvent(new CustomEvent("resized"));
      };
      const attributes = { class: "name", paint, title: label, onclick: toggle, "aria-expanded": String(open) };
      return make("button", attributes, `${indent}${open ? "▾" : "▸"} ${short}`);
    };

    if (name) names.push(make("b", { class: "name" }, name));
    let top = HEIGHT_OF_AXIS;
    const placed = roots.map((strand) => placeStrand(strand, callsOf, closed)).sort((a, b) => a.start - b.start);
    const rows = packSpans(placed);
    for (let row = 0; row <= Math.max(...rows); row++) {
      const band = placed.filter((_, at) => rows[at] === row);
      if (lanes > 1) names.push(drawName(band, top));
      for (const each of band) drawPlaced(each, top);
      top += Math.max(...band.map((each) => each.height)) + GAP;
    }
    const svg = draw("svg", { width, height: top, "aria-hidden": "true" }, drawAxis(width, end, scale, top), boxes, bars);
    svg.addEventListener("click", (event) => {
      const at = findBar(bars, event);
      if (at >= 0) choose(at);
    });
    svg.addEventListener("mouseover", addTitle);
    holder.bars = new Map();
    for (const bar of bars) {
      const at = Number(bar.dataset.turn);
      holder.bars.set(at, [...(holder.bars.get(at) || []), bar]);
    }
    const column = make("div", { class: "names" }, names);
    column.style.setProperty("width", `${margin}px`);
    column.style.setProperty("height", `${top}px`);
    holder.replaceChildren(make("div", { class: "lines" }, column, svg));
    markBars(holder);
  };

  holder.zoom = (factor) => {
    zoom = Math.min(64, Math.max(1, zoom * factor));
    render();
  };
  holder.render = render;
  return holder;
}

function drawBar(call, x, top, scale) {
  const took = call.end === null ? 0 : call.end - call.start;
  const place = { x: x(call.start), y: top, width: Math.max(1.5, took * scale - 0.5), height: ROW - 3, rx: 2 };
  const bar = draw("rect", { class: call.error ? "error" : call.kind, ...place, "data-turn": call.entry });
  bar.call = call;
  return bar;
}

function addTitle(event) {
  // A long run has thousands of bars, so each gets its title when the pointer first meets it.
  const { target } = event;
  if (!target.call || target.firstChild) return;
  const { label, start, end, error } = target.call;
  const facts = [label, duration(end === null ? null : end - start), error].filter(Boolean);
  target.append(draw("title", null, facts.join(", ")));
}

function drawAxis(width, end, scale, height) {
  const step = STEPS.find((each) => each * scale >= LABEL) || end;
  const digits = Math.max(0, Math.ceil(-Math.log10(step / 1000)));
  return Array.from({ length: Math.floor(end / step) + 1 }, (_, number) => {
    const time = number * step, x = time * scale;
    const anchor = x > width - LABEL / 2 ? "end" : number ? "middle" : "start";
    return [
      draw("line", { class: "axis", x1: x, x2: x, y1: 14, y2: height }),
      draw("text", { x, y: 11, "text-anchor": anchor }, duration(time, digits)),
    ];
  });
}

function findBar(bars, event) {
  // The bar below the pointer, or the nearest of its row.
  let nearest = null, least = REACH;
  for (const bar of bars) {
    const box = bar.getBoundingClientRect();
    if (event.clientY < box.top - 2 || event.clientY > box.bottom + 2) continue;
    const distance = Math.max(box.left - event.clientX, event.clientX - box.right, 0);
    if (distance < least) [nearest, least] = [bar, distance];
  }
  return nearest ? Number(nearest.dataset.turn) : -1;
}

function markBars(line) {
  for (const bar of line.marked || []) bar.classList.remove("chosen");
  line.marked = line.bars?.get(state.chosen) || [];
  for (const bar of line.marked) bar.classList.add("chosen");
  reveal(line.marked[0], line);
}

function reveal(item, holder) {
  // Scrolls the holder alone: the window stays where the reader is.
  if (!item) return;
  const own = item.getBoundingClientRect(), box = holder.getBoundingClientRect();
  // A holder may reach below the window.
  const top = Math.max(box.top, 0), bottom = Math.min(box.bottom, innerHeight);
  if (own.top < top) holder.scrollTop += own.top - top;
  else if (own.bottom > bottom) holder.scrollTop += own.bottom - bottom;
  if (own.left < box.left || own.right > box.right) holder.scrollLeft += own.left - box.left - box.width / 3;
}

function zoomTimeLines(factor) {
  for (const line of document.querySelectorAll(".time")) line.zoom(factor);
}
