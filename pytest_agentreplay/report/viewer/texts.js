// Texts of a run: folded when they are long, JSON as a tree, differences as lines, and the hits of a search.

// Longer texts are folded: about what a screen shows beside the rest of a turn.
const MOST_LINES = 24;
const MOST_CHARACTERS = 2400;
const MOST_ROWS = 20;
// A short JSON value is read faster in its line than as a tree.
const SHORT_JSON = 100;

function drawPart(kind, title, tools, ...children) {
  const head = title || tools.length ? make("div", { class: "head" }, make("h4", { dir: "auto" }, title), tools) : null;
  return make("div", { class: `part ${kind}` }, head, children);
}

function drawText(text, kind, title, options = {}) {
  // A part with a text. `options`: `name` is what copy buttons call it; `run` and `call` say whose pictures it can
  // show; `change` is [rows] where the other run has another text, and [] where it has none; `side` is "-" or "+".
  const { change, side, run, call } = options;
  const name = options.name || title || "the text";
  const body = make("div", { class: "body" });
  const tools = [copyButton("Copy", `${name} as text`, () => visible(text))];
  // The result of a call over HTTP has its status above the JSON.
  const [, status, json] = /^(status [^\n]*\n)?([^]*)$/.exec(text);
  const value = readJson(json);
  const drawPlain = () => [foldText(text), run ? drawPictures(text, run, call) : null];
  const views = [];
  if (change?.length) views.push(["Changes", () => drawRows(change[0], side)]);
  if (value !== undefined) {
    views.push(["Tree", () => [status ? make("pre", null, status.trim()) : null, drawTree(value)]], ["Text", drawPlain]);
    if (!change?.length && json.length <= SHORT_JSON) views.reverse();
    tools.push(copyButton("JSON", `Copy ${name} as JSON`, () => formatJson(value)));
  } else views.push([change?.length ? "Whole text" : "Text", drawPlain]);
  if (views.length > 1) tools.unshift(drawSwitch(views, name, body));
  body.replaceChildren(...[views[0][1]()].flat(Infinity).filter(Boolean));
  if (change && !change.length) body.classList.add("differs");
  return drawPart(kind, title, tools, body);
}

function drawSwitch(views, name, body) {
  // One button that shows the next view, under the name of that one.
  let at = 0;
  const button = make("button", { class: "small" });
  const say = () => {
    const next = views[(at + 1) % views.length][0];
    button.textContent = next;
    button.setAttribute("aria-label", `${next} of ${name}`);
  };
  button.addEventListener("click", () => {
    at = (at + 1) % views.length;
    body.replaceChildren(...[views[at][1]()].flat(Infinity).filter(Boolean));
    say();
  });
  say();
  return button;
}

function foldText(text) {
  const pre = make("pre", { dir: "auto" }, text);
  const lines = text.split("\n").length;
  return lines <= MOST_LINES && text.length <= MOST_CHARACTERS ? pre : fold(pre, `Show all ${plural(lines, "line")}`);
}

function fold(node, name) {
  // Shows the beginning of a tall element, and a button for the rest.
  node.classList.add("folded");
  const button = make("button", { class: "more", "aria-expanded": "false" }, name);
  node.unfold = (folded = false) => {
    node.classList.toggle("folded", folded);
    button.setAttribute("aria-expanded", String(!folded));
    button.textContent = folded ? name : "Fold";
  };
  button.addEventListener("click", () => node.unfold(!node.classList.contains("folded")));
  return [node, button];
}

// JSON -------------------------------------------------------------------------------------------------------------

function formatJson(value) {
  // Characters that nobody sees stand as JSON writes them: the same value, and safe to paste.
  return JSON.stringify(value, null, 2).replace(UNSEEN, (char) => (char === "\n" ? char : escapeUnits(char)));
}

function escapeUnits(char) {
  return Array.from({ length: char.length }, (_, at) => "\\u" + char.charCodeAt(at).toString(16).padStart(4, "0")).join("");
}

function drawTree(value, name = "", depth = 0) {
  const key = name === "" ? null : make("span", { class: "key" }, `${name}: `);
  if (value === null || typeof value !== "object") {
    const kind = value === null ? "null" : typeof value;
    return make("div", { class: "leaf", dir: "auto" }, key, make("span", { class: kind }, kind === "string" ? value : JSON.stringify(value)));
  }
  const members = Object.entries(value);
  const [begin, end] = Array.isArray(value) ? "[]" : "{}";
  if (!members.length) return make("div", { class: "leaf" }, key, begin + end);
  const node = make("details", { class: "tree" }, make("summary", null, key, `${begin}${members.length}${end}`));
  node.grow = () => {
    if (node.children.length === 1) node.append(...members.map(([name, member]) => drawTree(member, name, depth + 1)));
  };
  node.addEventListener("toggle", node.grow);
  if (depth < 2) {
    node.open = true;
    node.grow();
  }
  return node;
}

// Differences ------------------------------------------------------------------------------------------------------

const SIGNS = { "-": "minus", "+": "plus", " ": "context", "@": "place" };

function drawRows(rows, side) {
  // Rows as `report/changes.py` makes them: [sign, [[text, changed], ...]]. With a side, the lines of that run alone.
  const shown = side ? rows.filter(([sign]) => sign === side || sign === " " || sign === "@") : rows;
  const lines = shown.map(([sign, pieces]) =>
    make("span", { class: `row ${SIGNS[sign]}`, dir: "auto" },
      sign === "@" ? null : make("span", { class: "sign" }, sign),
      pieces.map(([text, changed]) => (changed && text ? make("mark", null, text) : text)), "\n"),
  );
  const pre = make("pre", { class: "rows" }, lines);
  return lines.length > MOST_ROWS + 2 ? fold(pre, `Show all ${plural(lines.length, "line")}`) : pre;
}

function drawFinding(finding, title) {
  return make("section", { class: "finding" }, title ? make("p", null, title) : null, make("h2", null, finding.headline), drawFindingLines(finding));
}

function drawFindingLines(finding) {
  // Of what is only for those who want all, what has a label is the report of pytest.
  const rows = finding.lines.filter((line) => line.what !== "detail" || line.label).map((line) => {
    if (line.what === "detail") {
      return [make("dt", { class: "wide" }, line.label), make("dd", { class: "wide" }, foldText(line.text))];
    }
    if (line.what === "difference") {
      const note = line.label && !line.rows?.length ? make("dd", { class: "wide" }, line.label) : null;
      return [make("dt", { class: "wide" }, line.text), note, make("dd", { class: "wide" }, drawRows(line.rows || []))];
    }
    const name = line.what === "cause" ? "likely cause" : line.label;
    const text = line.what === "next" ? make("code", null, line.text) : line.text;
    return [make("dt", null, name), make("dd", null, text)];
  });
  return make("dl", null, rows);
}

// Hits of a search -------------------------------------------------------------------------------------------------

function markHits(root, wanted) {
  // Marks each place of a text in what is drawn, and returns the marks. Those in folded texts are shown when they are
  // gone to, and so are those in closed trees.
  const trees = root.getElementsByClassName("tree"); // a live list: what a tree shows when it grows is in it
  for (let at = 0; at < trees.length; at++) trees[at].grow();
  const pattern = new RegExp(wanted.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&"), "giu");
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT, (node) =>
    node.parentElement.closest("button") ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT);
  const nodes = [];
  while (walker.nextNode()) nodes.push(walker.currentNode);
  return nodes.flatMap((node) => {
    const places = [...node.data.matchAll(pattern)].reverse();
    return places.map((place) => {
      const hit = node.splitText(place.index);
      hit.splitText(place[0].length);
      const mark = document.createElement("mark");
      mark.className = "hit";
      hit.replaceWith(mark);
      mark.append(hit);
      return mark;
    }).reverse();
  });
}

function showHit(mark) {
  for (let node = mark.parentElement; node; node = node.parentElement) {
    if (node.tagName === "DETAILS") node.open = true;
    if (node.classList.contains("folded")) node.unfold();
  }
  for (const other of document.querySelectorAll(".hit.current")) other.classList.remove("current");
  mark.classList.add("current");
  const box = mark.getBoundingClientRect();
  // What is seen already stays where it is.
  if (box.top < holdDesk() || box.bottom > innerHeight) mark.scrollIntoView({ block: "center" });
}
