// The list of turns: choosing one, walking with keys and with the browser's back button, searching, filtering, printing.
//
// An entry of the list has its `link`, whether it `differs`, what it `draw`s, the `data` that a search looks at, and the
// `tools`, `agents` and `models` of its turns.

// Where the chosen turn may begin, as a share of the window; lower down the reader would not see that it changed.
const LOWEST = 0.6;

function addEntry(entry, list, turn, facts, text, word) {
  // The button holds the name of the turn alone, which a screen reader says; it covers the whole row for a pointer.
  const name = [turn.title, entry.failed ? "error" : "", word].filter(Boolean).join(", ");
  const agent = turn.agent && turn.title.startsWith(turn.agent) ? turn.agent : "";
  entry.button = make("button", { "aria-label": name, "data-at": entry.at }, `turn ${turn.n}`);
  entry.row = make("div", { class: `turn${entry.failed ? " error" : ""}` },
    make("span", null, entry.button, agent ? ` ${agent}` : null, word ? [" ", make("span", { class: "badge differs" }, word)] : null),
    make("span", { class: "amount" }, facts),
    make("span", { class: "what" }, text));
  entry.item = make("li", null, entry.row);
  list.append(entry.item);
}

function chooseRow(event) {
  const at = event.target.closest("button")?.dataset.at;
  if (at !== undefined) choose(Number(at));
}

function addStrand(strand, host) {
  // The turns of a lane below the turn in which it began, with a button that folds them.
  const list = make("ol");
  const count = make("span", { class: "muted" }, ` ${plural(strand.nodes.length, "turn")}`);
  const button = make("button", { class: "fold", "aria-expanded": "true" }, make("span", { dir: "auto" }, strand.name), count);
  const open = (shown) => {
    list.hidden = !shown;
    button.setAttribute("aria-expanded", String(shown));
  };
  button.addEventListener("click", () => open(list.hidden));
  strand.open = () => open(true);
  strand.node = make("div", { class: "strand" }, button, list);
  host.append(strand.node);
  host.classList?.add("host");
  return list;
}

// Choosing ---------------------------------------------------------------------------------------------------------

function choose(at, { focus = false, remember = true, scroll = true } = {}) {
  const entry = state.entries[at];
  if (!entry) return;
  markChosen(state.entries[state.chosen], false);
  state.chosen = at;
  markChosen(entry, true);
  entry.strands.forEach((strand) => strand.open());
  state.pane.replaceChildren(...[entry.draw()].flat(Infinity).filter(Boolean));
  markEntry();
  for (const line of document.querySelectorAll(".time")) markBars(line);
  if (location.hash !== entry.link) setAddress(entry.link, remember);
  if (scroll) showPane();
  reveal(entry.row, state.nav);
  // The rows around it have their true heights only once they are drawn.
  requestAnimationFrame(() => {
    const { row } = state.entries[state.chosen];
    reveal(row, state.nav);
    // The end of the list may lie below the window.
    if (scroll) scrollBy(0, Math.max(0, row.getBoundingClientRect().bottom + 8 - innerHeight));
  });
  if (focus) entry.button.focus({ preventScroll: true });
}

function markChosen(entry, chosen) {
  if (chosen) entry.button.setAttribute("aria-current", "true");
  else entry?.button.removeAttribute("aria-current");
  entry?.row.classList.toggle("chosen", chosen);
}

function setAddress(link, remember) {
  try {
    history[remember ? "pushState" : "replaceState"](null, "", link);
  } catch {
    // Browsers refuse to remember more than some hundred turns within seconds: a key that is held down.
  }
}

function showPane() {
  // The chosen turn begins on the screen, wherever it was chosen: with the list above it in a narrow window.
  const panes = state.nav.parentElement;
  const held = holdDesk();
  const top = state.pane.getBoundingClientRect().top;
  if (top >= held && top <= innerHeight * LOWEST) return;
  scrollTo(0, scrollY + panes.getBoundingClientRect().top - held - 8);
}

function holdDesk() {
  // Returns the height of the search and the time lines where they stay at the top of the window; the list stays below.
  const desk = document.querySelector(".desk");
  const held = getComputedStyle(desk).position === "sticky" ? desk.offsetHeight : 0;
  for (const node of [state.nav, state.pane]) node.style.setProperty("--held", `${held}px`);
  return held;
}

function follow(fallback) {
  const at = state.entries.findIndex((entry) => entry.link === location.hash);
  choose(at < 0 ? fallback : at, { remember: false, scroll: at >= 0 });
}

function step(by, fits = () => true) {
  for (let at = state.chosen + by; at in state.entries; at += by) {
    const entry = state.entries[at];
    if (!entry.row.hidden && fits(entry)) return choose(at, { focus: true });
  }
}

const findShown = () => state.entries.filter((entry) => !entry.row.hidden).map((entry) => entry.at);

// Searching --------------------------------------------------------------------------------------------------------

const search = { text: "", hits: [], at: -1, facets: {} };

function filterEntries() {
  const wanted = search.text.toLowerCase();
  for (const entry of state.entries) {
    if (wanted) entry.words ??= listTexts(entry.data()).join("\n").toLowerCase();
    const facets = Object.entries(search.facets).every(([name, value]) => !value || entry[name].has(value));
    entry.row.hidden = !(facets && (!wanted || entry.words.includes(wanted)) && (!search.failed || entry.failed));
  }
  // A strand is shown as far as one of its turns is.
  for (const strand of state.strands.toReversed()) {
    if (strand.node) strand.node.hidden = !strand.node.querySelector(".turn:not([hidden])");
  }
  const shown = findShown().length;
  const active = wanted || search.failed || Object.values(search.facets).some(Boolean);
  state.count.textContent = active ? `${shown} of ${plural(state.entries.length, "turn")}` : "";
  markEntry();
}

function markEntry() {
  for (const mark of state.pane.querySelectorAll(".hit")) {
    const parent = mark.parentNode;
    mark.replaceWith(...mark.childNodes);
    parent.normalize();
  }
  search.hits = search.text ? markHits(state.pane, search.text) : [];
  search.at = -1;
}

function goToHit(by) {
  // Goes to the next hit: of the chosen turn, then of the next turn that has one, and round again.
  if (!search.text) return;
  const shown = findShown();
  if (!shown.length) return;
  const isShown = shown.includes(state.chosen);
  const next = search.at + by;
  if (isShown && next >= 0 && next < search.hits.length && (search.at >= 0 || by > 0)) search.at = next;
  else {
    const place = isShown ? shown.indexOf(state.chosen) : by > 0 ? -1 : 0;
    choose(shown.at((place + by) % shown.length));
    search.at = by > 0 ? 0 : search.hits.length - 1;
  }
  if (search.hits[search.at]) showHit(search.hits[search.at]);
}

const FACETS = [["tools", "tool"], ["agents", "agent"], ["models", "model"]];

function drawFilters() {
  // A choice only where turns differ in it.
  const selects = FACETS.map(([name, label]) => {
    const values = [...new Set(state.entries.flatMap((entry) => [...entry[name]]))].sort();
    if (values.length < 2) return null;
    const options = values.map((value) => make("option", { value }, cut(value, 40)));
    const select = make("select", { "aria-label": `Turns of one ${label}` }, make("option", { value: "" }, `every ${label}`), options);
    options.forEach((option, at) => { option.value = values[at]; }); // not as it is shown: as it is
    select.addEventListener("change", () => {
      search.facets[name] = select.value;
      filterEntries();
    });
    return select;
  });
  if (!state.entries.some((entry) => entry.failed)) return selects;
  const box = make("input", { type: "checkbox" });
  box.addEventListener("change", () => {
    search.failed = box.checked;
    filterEntries();
  });
  return [...selects, make("label", null, box, " errors only")];
}

function drawSearch() {
  const input = make("input", { type: "search", placeholder: "Search the turns", "aria-label": "Search the turns" });
  state.count = make("span", { class: "muted", role: "status" });
  input.addEventListener("input", () => {
    search.text = input.value;
    filterEntries();
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") goToHit(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") input.blur();
  });
  state.keys["/"] = () => input.focus();
  return [
    input,
    make("button", { onclick: () => goToHit(-1), "aria-label": "Previous hit" }, "↑"),
    make("button", { onclick: () => goToHit(1), "aria-label": "Next hit" }, "↓"),
    state.count,
  ];
}

// Keys -------------------------------------------------------------------------------------------------------------

const KEYS = {
  j: ["next turn", () => step(1)],
  k: ["previous turn", () => step(-1)],
  n: ["next difference or error", () => step(1, isMarked)],
  p: ["previous difference or error", () => step(-1, isMarked)],
  g: ["first turn", () => choose(findShown()[0], { focus: true })],
  G: ["last turn", () => choose(findShown().at(-1), { focus: true })],
  b: ["bytes of the turn", toggleBytes],
  "/": ["search; Enter goes to the next hit, Shift+Enter back", null],
  "+": ["zoom into the time line", () => zoomTimeLines(2)],
  "-": ["zoom out of the time line", () => zoomTimeLines(0.5)],
  t: ["light or dark", switchTheme],
  "?": ["these keys", null],
};

const isMarked = (entry) => entry.differs || entry.failed;

function toggleBytes() {
  for (const details of state.pane.querySelectorAll("details.bytes")) details.open = !details.open;
}

function drawToolbar() {
  const rows = Object.entries(KEYS).map(([key, [what]]) => make("p", null, make("kbd", null, key), ` ${what}`));
  const help = make("section", { class: "help", hidden: true, "aria-label": "Keys" }, rows);
  for (const [key, [, act]] of Object.entries(KEYS)) if (act) state.keys[key] = act;
  state.keys["?"] = () => { help.hidden = !help.hidden; };
  const buttons = [
    make("button", { onclick: switchTheme }, "Light or dark"),
    make("button", { onclick: state.keys["?"] }, "Keys ?"),
  ];
  return [help, make("div", { class: "bar" }, drawSearch(), drawFilters(), buttons)];
}

// Printing ---------------------------------------------------------------------------------------------------------

addEventListener("beforeprint", () => {
  if (!state.pane) return;
  const turns = state.entries.map((entry) => make("article", { class: "printed" }, entry.draw()));
  for (const node of turns.flatMap((turn) => [...turn.querySelectorAll(".folded")])) node.classList.remove("folded");
  main.append(...turns);
});

addEventListener("afterprint", () => {
  for (const turn of document.querySelectorAll(".printed")) turn.remove();
});
