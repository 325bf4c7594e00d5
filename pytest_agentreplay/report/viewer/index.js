"use strict";
// The index: what a project has recorded, and what a session found. Uses the functions of dom.js and texts.js.

const COLUMNS = [
  ["name", "name", (row) => row.name], ["kind", "", (row) => row.kind], ["state", "", (row) => row.problem ? "cannot be read" : row.state || row.outcome],
  ["turns", "number", (row) => row.turns], ["calls", "number", (row) => row.calls], ["tokens", "number", (row) => row.tokens], ["cost", "number", (row) => row.cost, (value) => (value === null ? "" : `$${value.toFixed(4)}`)],
  ["size", "number", (row) => row.bytes, size], ["age", "number", (row) => row.age, (value) => (value === null ? "" : plural(value, "day"))], ["grade", "", (row) => row.grade], ["models", "", (row) => row.models.join(", ")],
];

function plot(title, series, format, band) {
  const width = 440, height = 190, left = 56, bottom = 24, top = 10;
  const points = series.flatMap(([, rows]) => rows);
  const dates = [...new Set(points.map((point) => point.date))].sort();
  const most = band ? 1 : Math.max(1e-9, ...points.map((point) => point.value)) * 1.1;
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

function showIndex() {
  const rows = data.entries;
  const tiles = [["snapshots", rows.filter((row) => row.kind === "snapshot").length], ["pending", rows.filter((row) => row.kind === "pending").length], ["cases", rows.filter((row) => row.kind === "case").length], ["turns", sum(rows.map((row) => row.turns))], ["tokens", sum(rows.map((row) => row.tokens))], ["bytes", sum(rows.map((row) => row.bytes)), size]];
  const body = make("tbody");
  const search = make("input", { type: "search", placeholder: "Filter", "aria-label": "Filter the table" });
  const count = make("span", { class: "muted", role: "status" });
  let order = 0, ascending = true;
  const fillTable = () => {
    const value = COLUMNS[order][2], wanted = search.value.toLowerCase();
    const fitting = rows.filter((row) => !wanted || listTexts(row).join("\n").toLowerCase().includes(wanted));
    fitting.sort((a, b) => { const [x, y] = [value(a) ?? -1, value(b) ?? -1]; return (x < y ? -1 : x > y ? 1 : 0) * (ascending ? 1 : -1); });
    body.replaceChildren(...fitting.map((row) => make("tr", null, COLUMNS.map(([name, kind, value, format]) => {
      const shown = (format || ((cell) => (typeof cell === "number" ? cell.toLocaleString("en") : cell)))(value(row));
      if (name === "name") return make("td", { class: "name" }, row.page ? make("a", { href: row.page }, shown) : shown, [row.problem, row.unfrozen.length ? `not frozen: ${row.unfrozen.join(", ")}` : ""].filter(Boolean).map((text) => make("p", { class: "differs" }, text)));
      return make("td", { class: kind + (name === "state" ? ` ${row.problem ? "failed" : row.state ? "" : row.outcome}` : "") }, shown);
    }))));
    count.textContent = wanted ? `${fitting.length} of ${rows.length}` : "";
    heads.forEach((head, at) => head.setAttribute("aria-sort", at === order ? (ascending ? "ascending" : "descending") : "none"));
  };
  const heads = COLUMNS.map(([name, kind], at) => make("th", { class: kind, scope: "col" }, make("button", { onclick: () => { ascending = at === order ? !ascending : true; order = at; fillTable(); } }, name)));
  search.addEventListener("input", fillTable);
  search.addEventListener("keydown", (event) => { if (event.key === "Escape") search.blur(); });
  state.keys = { "/": () => search.focus(), t: switchTheme };
  const live = data.live.length ? [make("h3", null, "Live runs"), make("div", { class: "plots" }, data.live.map((each) => plot(each.title, each.series, FORMATS[each.format], each.format === "rate")))] : null;
  const cold = data.cold.length ? [make("h3", null, "What cold cases lack"), make("table", null, data.cold.map(([name, number]) => make("tr", null, make("td", null, name), make("td", { class: "number" }, plural(number, "case")))))] : null;
  const failed = data.findings.map((finding) => drawFinding(finding, finding.page ? make("a", { href: finding.page }, finding.test) : finding.test));
  fill(main, null, [
    make("header", null, make("h1", null, data.title), make("p", { class: "muted" }, data.about), data.notes.map((note) => make("p", { class: "differs" }, note))), failed.length ? [make("h3", null, "Diverged"), failed] : null,
    make("div", { class: "tiles" }, tiles.map(([name, value, format]) => make("div", null, make("b", null, format ? format(value) : value.toLocaleString("en")), name))), live, cold,
    make("h3", null, "Snapshots and cases"), make("div", { class: "bar" }, search, count, make("button", { onclick: switchTheme }, "Light or dark")),
    make("div", { class: "scroll" }, make("table", null, make("thead", null, make("tr", null, heads)), body)),
  ]);
  fillTable();
}

const FORMATS = { rate: (value) => value.toFixed(2), cost: (value) => `$${value.toFixed(4)}`, tokens: (value) => Math.round(value).toLocaleString("en"), seconds: (value) => `${value.toFixed(1)} s` };
