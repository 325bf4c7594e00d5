"use strict";
// The index: what failed in a session, then what a project has recorded. It uses the functions of dom.js and texts.js.

const RANK = ["diverged", "failed", "cannot be read", "", "passed", "skipped", "not run"];
const stateNow = (row) => (row.problem && !["diverged", "failed"].includes(row.now) ? "cannot be read" : row.now);
// Its name, its class, the value of a row, the text of that value, and what it is sorted by if not by the value.
const COLUMNS = [
  ["test or case", "name", (row) => row.name],
  ["now", "word", stateNow, String, (row) => RANK.indexOf(stateNow(row))],
  ["recorded", "word", (row) => row.state || row.outcome],
  ["kind", "word", (row) => row.kind],
  ["calls", "number", (row) => row.calls],
  ["size", "number", (row) => row.bytes, size],
  ["age", "number", (row) => row.age, (value) => (value === null ? "" : plural(value, "day"))],
  ["models", "models", (row) => row.models.join(", ")],
];
const TONES = { diverged: "failed", failed: "failed", "cannot be read": "failed", passed: "passed" };
const tone = (status) => TONES[status] || "muted";

function plot(title, series, format, band) {
  const width = 440, height = 190, left = 56, bottom = 24, top = 10;
  const points = series.flatMap(([, rows]) => rows);
  const dates = [...new Set(points.map((point) => point.date))].sort();
  // The line in the middle stands at a round number.
  const middle = Math.max(1e-9, ...points.map((point) => point.value)) / 2;
  const unit = 10 ** Math.floor(Math.log10(middle)) / 2;
  const most = band ? 1 : 2 * unit * Math.ceil(middle / unit);
  const x = (date) => left + (dates.length > 1 ? dates.indexOf(date) / (dates.length - 1) : 0.5) * (width - left - 12);
  const y = (value) => top + (1 - value / most) * (height - top - bottom);
  const colours = ["var(--model)", "var(--tool)", "var(--other)", "var(--differs)"];
  const grid = [0, 0.5, 1].map((share) => [draw("line", { class: "grid", x1: left, x2: width - 8, y1: y(share * most), y2: y(share * most) }), draw("text", { x: left - 6, y: y(share * most) + 4, "text-anchor": "end" }, format(share * most))]);
  const marks = series.map(([name, rows], at) => {
    const colour = colours[at % colours.length];
    const path = (pairs) => pairs.map(([date, value], number) => `${number ? "L" : "M"}${x(date).toFixed(1)} ${y(value).toFixed(1)}`).join("");
    const edges = band ? path([...rows.map((row) => [row.date, row.high]), ...rows.toReversed().map((row) => [row.date, row.low])]) : "";
    return [
      edges ? draw("path", { class: "band", d: `${edges}Z`, paint: ["fill", colour] }) : null,
      draw("path", { d: path(rows.map((row) => [row.date, row.value])), paint: ["stroke", colour] }),
      rows.map((row) => draw("circle", { cx: x(row.date), cy: y(row.value), r: 3.5, paint: ["fill", colour] }, draw("title", null, `${name} ${row.date}: ${format(row.value)}${row.note ? `, ${row.note}` : ""}`))),
    ];
  });
  const ends = dates.length ? [draw("text", { x: left, y: height - 6 }, dates[0]), dates.length > 1 ? draw("text", { x: width - 8, y: height - 6, "text-anchor": "end" }, dates.at(-1)) : null] : null;
  const label = `${title}: ${series.map(([name, rows]) => `${name} ${format(rows.at(-1).value)} on ${rows.at(-1).date}`).join("; ")}`;
  const names = series.map(([name], at) => make("span", null, make("i", { paint: ["background", colours[at % colours.length]] }), name));
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, grid, marks, ends);
  return make("figure", { class: "plot" }, make("figcaption", null, make("b", null, title)), svg, make("div", { class: "legend" }, names));
}

// An id may break behind its separators, on screens that are too narrow for it.
const breakable = (text) => text.split(/(?<=[/_:\[-])(?=[^:])/).flatMap((piece, at) => (at ? [make("wbr"), piece] : [piece]));

function drawGroup({ code, headline, tests }) {
  // The first test shows the change; the others have the same one.
  const [, page] = tests[0];
  const text = headline.replace(`[${code}] `, "");
  const entry = ([test, page]) => make("li", null, page ? make("a", { href: page }, breakable(test)) : breakable(test));
  return make("li", null,
    make("p", null, make("span", { class: "badge failed" }, code), " ", page ? make("a", { href: page }, text) : text),
    tests.length > 1 ? make("details", null, make("summary", null, breakable(`${plural(tests.length, "test")}, ${tests[0][0]} first`)), make("ul", null, tests.map(entry))) : make("p", { class: "muted" }, breakable(tests[0][0])),
  );
}

function drawRow(row, columns) {
  return make("tr", null, columns.map(([name, kind, value, format]) => {
    const cell = value(row);
    const shown = format ? format(cell) : typeof cell === "number" ? cell.toLocaleString("en") : cell;
    if (kind === "name") {
      const notes = [row.problem, row.unfrozen.length ? `not frozen: ${row.unfrozen.join(", ")}` : ""].filter(Boolean);
      return make("td", { class: kind }, row.page ? make("a", { href: row.page }, breakable(shown)) : breakable(shown), notes.map((text) => make("p", { class: "differs" }, text)));
    }
    // Where a session says how a test ended, how it ended when it was recorded is no news.
    return make("td", { class: name === "now" || (name === "recorded" && !columns.some(([other]) => other === "now")) ? `${kind} ${tone(cell)}` : kind }, shown);
  }));
}

function drawTable(rows) {
  const columns = COLUMNS.filter(([name]) => name !== "now" || rows.some(stateNow));
  const body = make("tbody");
  const search = make("input", { type: "search", placeholder: "Filter", "aria-label": "Filter the table" });
  const count = make("span", { class: "muted", role: "status" });
  let order = columns.findIndex(([name]) => name === "now"), ascending = true;
  if (order < 0) order = 0;
  const fillTable = () => {
    const [, , value, , rank] = columns[order], wanted = search.value.toLowerCase(), key = rank || value;
    const fitting = rows.filter((row) => !wanted || listTexts(row).join("\n").toLowerCase().includes(wanted));
    fitting.sort((a, b) => { const [x, y] = [key(a) ?? -1, key(b) ?? -1]; return (x < y ? -1 : x > y ? 1 : 0) * (ascending ? 1 : -1); });
    body.replaceChildren(...fitting.map((row) => drawRow(row, columns)));
    count.textContent = wanted ? `${fitting.length} of ${rows.length}` : "";
    heads.forEach((head, at) => head.setAttribute("aria-sort", at === order ? (ascending ? "ascending" : "descending") : "none"));
  };
  const heads = columns.map(([name, kind], at) => make("th", { class: kind, scope: "col" }, make("button", { onclick: () => { ascending = at === order ? !ascending : true; order = at; fillTable(); } }, name)));
  search.addEventListener("input", fillTable);
  search.addEventListener("keydown", (event) => { if (event.key === "Escape") search.blur(); });
  state.keys = { "/": () => search.focus(), t: switchTheme };
  fillTable();
  return [
    make("div", { class: "bar" }, search, count, make("button", { onclick: switchTheme }, "Light or dark")),
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Snapshots and cases" }, make("table", { class: "recorded" }, make("thead", null, make("tr", null, heads)), body)),
  ];
}

function showIndex() {
  const rows = data.entries;
  const kinds = ["snapshot", "pending", "run", "case"].map((kind) => [kind, rows.filter((row) => row.kind === kind).length]).filter(([, count]) => count);
  const facts = [...kinds.map(([kind, count]) => (kind === "pending" ? `${count} pending` : plural(count, kind))), plural(sum(rows.map((row) => row.calls)), "call"), size(sum(rows.map((row) => row.bytes)))];
  const ended = RANK.filter((status) => data.statuses[status]).map((status) => make("span", { class: `badge ${tone(status)}` }, `${data.statuses[status]} ${status}`));
  fill(main, null, [
    make("header", null, make("h1", null, data.title), ended.length ? make("p", { class: "ended" }, ended) : null, make("p", { class: "muted" }, data.about), data.notes.map((note) => make("p", { class: "differs" }, note))),
    data.failures.length ? [make("h2", null, "What failed"), make("ol", { class: "failures" }, data.failures.map(drawGroup))] : null,
    make("h2", null, "Snapshots and cases"), make("p", { class: "muted" }, facts.join(" · "), data.live.length ? [" · ", make("a", { href: "#live" }, "live runs")] : null),
    drawTable(rows),
    data.live.length ? [make("h2", { id: "live" }, "Live runs"), make("div", { class: "plots" }, data.live.map((each) => plot(each.title, each.series, FORMATS[each.format], each.format === "rate")))] : null,
    data.cold.length ? [make("h2", null, "What cold cases lack"), make("table", null, data.cold.map(([name, number]) => make("tr", null, make("td", null, name), make("td", { class: "number" }, plural(number, "case")))))] : null,
  ]);
}

function showFailure() {
  // A test that failed without a run to show: it has no snapshot, or one that cannot be read.
  const [finding] = data.findings;
  state.keys = { t: switchTheme };
  fill(main, null, [
    drawBack(),
    make("header", null, make("h1", null, breakable(finding.test)), make("p", { class: "muted" }, "There is no recorded run to show.")),
    drawFinding(finding),
  ]);
}

const FORMATS = { rate: (value) => value.toFixed(2), cost: (value) => `$${value.toFixed(4)}`, tokens: (value) => Math.round(value).toLocaleString("en"), seconds: (value) => `${value.toFixed(1)} s` };
