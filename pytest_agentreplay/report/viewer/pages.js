// The page of a run, and of two runs beside each other.

const LEGEND = [["model", "model calls"], ["tool", "tool calls"], ["other", "other calls"], ["error", "errors"]];

// Heads ------------------------------------------------------------------------------------------------------------

function drawBadge() {
  // What happened now; a page of a recording alone says what was recorded.
  const [run] = data.runs;
  if (data.kind === "pair") {
    const count = data.findings.length;
    return make("span", { class: `badge ${count ? "differs" : "same"}` }, count ? plural(count, "difference") : "the same run");
  }
  if (data.now) return make("span", { class: `badge ${data.now}` }, `${data.now} now`);
  return run.outcome ? make("span", { class: `badge ${run.outcome}` }, `recorded: ${run.outcome}`) : null;
}

function drawFacts(run) {
  const total = sumTurns(run, run.turns);
  const facts = [
    ["test", data.kind === "pair" ? run.outcome : ""],
    ["", plural(total.turns, "turn")],
    ["", plural(run.calls.length, "call")],
    ["", tokensText(total.tokens)],
    ["", sumCosts(run)],
    ["", run.calls.length ? duration(measureRun(run.calls)) : ""],
    ["", [...new Set(run.turns.map((turn) => turn.model).filter(Boolean))].join(", ")],
    ["recorded", [(run.recorded || "").slice(0, 16).replace("T", " "), data.now && run.outcome].filter(Boolean).join(", ")],
  ];
  return make("div", { class: "facts" }, facts.filter(([, value]) => value).map(([name, value]) => make("span", null, name ? `${name} ` : "", make("b", null, value))));
}

function sumCosts(run) {
  const costs = run.calls.map((call) => call.cost).filter((cost) => cost !== undefined);
  return costs.length ? dollars(sum(costs)) : "";
}

function drawMore(run) {
  const file = data.files?.[data.runs.indexOf(run)] || "About this run";
  const facts = run.facts.map(([name, text]) => make("span", null, `${name} `, make("b", null, text)));
  return make("details", null, make("summary", null, breakable(file)), make("div", { class: "facts" }, facts));
}

function drawTotals(run, strands) {
  // What each agent took; a run of one has its sums in the head.
  const rows = sumByAgent(run, strands);
  if (rows.length < 2) return null;
  const priced = rows.some(([, total]) => total.cost !== null);
  const most = Math.max(1, ...rows.map(([, total]) => sum(total.tokens)));
  const cell = (text) => make("td", { class: "number" }, text);
  const body = rows.map(([name, total]) => make("tr", null,
    make("td", { class: "name", dir: "auto" }, name), cell(total.turns), cell(total.calls),
    cell(NUMBERS.format(total.tokens[0])), cell(NUMBERS.format(total.tokens[1])),
    make("td", { class: "share" }, make("i", { paint: ["width", `${(100 * sum(total.tokens)) / most}%`] })),
    priced ? cell(total.cost === null ? "" : dollars(total.cost)) : null, cell(duration(total.took))));
  const names = ["agent", "turns", "calls", "tokens in", "tokens out", "share", ...(priced ? ["cost"] : []), "time"];
  const head = names.map((name) => make("th", { class: name === "agent" || name === "share" ? "" : "number", scope: "col" }, name));
  return make("details", { class: "totals" }, make("summary", null, "Tokens, cost and time of each agent"), make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Sums by agent" }, make("table", null, make("thead", null, make("tr", null, head)), make("tbody", null, body))));
}

// Lists ------------------------------------------------------------------------------------------------------------

function mapCalls(run) {
  // Which turn a call belongs to: that which lists it, or the one of the call that it is inside of.
  const turnOf = new Map();
  run.turns.forEach((turn, at) => turn.calls.forEach((call) => turnOf.set(call, at)));
  run.calls.forEach((call, at) => {
    if (!turnOf.has(at) && turnOf.has(call.inside)) turnOf.set(at, turnOf.get(call.inside));
  });
  return turnOf;
}

function collectCalls(run, entryOf) {
  // The calls of each turn, with those inside of others, each with the entry that shows it.
  const calls = run.turns.map(() => []);
  for (const [at, turn] of mapCalls(run)) calls[turn].push({ ...run.calls[at], entry: entryOf(turn) });
  return calls;
}

const link = (run, turn, side) => `#${side}turn-${turn.n}${turn.lane ? `-in-${encodeURIComponent(run.lanes[turn.lane])}` : ""}`;

function readFacets(run, turn, strand) {
  const calls = turn ? turn.calls.map((at) => run.calls[at]) : [];
  return {
    tools: [...calls.filter((call) => call.kind === "tool").map((call) => call.label), ...(turn?.uses || []).map(([name]) => name)],
    agents: turn ? [turn.agent || strand.kind] : [],
    models: turn?.model ? [turn.model] : [],
    failed: turn ? findProblem(run, turn) : false,
  };
}

function searchedTexts(run, turn) {
  return turn ? [turn, turn.calls.map((call) => run.calls[call])] : [];
}

function drawBack() {
  // Only the pages of a folder have an index beside them.
  const { content } = document.querySelector("meta[name=agentreplay-origin]");
  return content.startsWith("folder") ? make("p", { class: "back" }, make("a", { href: "index.html" }, "Back to the index")) : null;
}

function begin(head, times) {
  // Draws all of a page but the entries of its list; returns the list.
  const list = make("div");
  state.pane = make("article", { "aria-label": "The chosen turn" });
  state.nav = make("nav", { class: "turns", "aria-label": "Turns", tabindex: "-1", onclick: chooseRow }, list);
  const [help, bar] = drawToolbar();
  const zooms = [["Zoom in", "+"], ["Zoom out", "-"]].map(([name, key]) => make("button", { class: "small", onclick: state.keys[key] }, name));
  const legend = make("div", { class: "legend" }, LEGEND.map(([kind, name]) => make("span", { class: kind }, make("i"), name)), zooms);
  fill(main, null, [
    drawBack(),
    make("header", null, make("div", { class: "title" }, make("h1", null, breakable(data.runs[0].test)), drawBadge()), head),
    help, make("div", { class: times.length > 1 ? "desk two" : "desk" }, bar, times, legend),
    make("div", { class: "panes" }, state.nav, state.pane),
  ]);
  return list;
}

function listEntries(roots, list, drawEntry) {
  // Adds the entries in the order of the tree, and gives them their places in it.
  const walk = (strand, host, above) => {
    const inner = strand.host === null && roots.length === 1 ? above : [...above, strand];
    const own = inner === above ? host.appendChild(make("ol")) : addStrand(strand, host);
    for (const node of strand.nodes) {
      const entry = state.entries[node.entry];
      entry.strands = inner;
      drawEntry(entry, node.at, own);
      for (const each of node.strands) walk(each, entry.item, inner);
    }
  };
  for (const strand of roots) walk(strand, list, []);
}

function numberNodes(roots) {
  // Gives each node the place of its entry, and returns the indexes of the turns in that order.
  const order = [];
  const walk = (strand) => {
    for (const node of strand.nodes) {
      node.entry = order.push(node.at) - 1;
      node.strands.forEach(walk);
    }
  };
  roots.forEach(walk);
  return order;
}

function finish(times, fallback) {
  for (const line of times) {
    line.render();
    line.addEventListener("resized", holdDesk);
  }
  holdDesk();
  addEventListener("resize", () => {
    for (const line of times) line.render();
    holdDesk();
  });
  if (state.entries.length) follow(fallback);
  else state.pane.append(make("p", null, "The test made no call."));
  addEventListener("hashchange", () => follow(state.chosen));
}

// A run ------------------------------------------------------------------------------------------------------------

function showRun() {
  const [run] = data.runs;
  const finding = data.findings?.[0];
  const roots = nestTurns(run.turns.map((turn) => ({ lane: run.lanes[turn.lane], order: turn.calls[0] })));
  nameStrands(roots, (at) => run.turns[at], (at) => run.turns[at].calls.map((call) => run.calls[call]));
  state.strands = listStrands(roots);
  const order = numberNodes(roots);
  const strandOf = new Map(state.strands.flatMap((strand) => strand.nodes.map((node) => [node.at, strand])));
  const several = state.strands.length > 1;
  state.entries = order.map((index, at) => {
    const turn = run.turns[index], strand = strandOf.get(index);
    const { tools, agents, models, failed } = readFacets(run, turn, strand);
    return {
      at, failed, differs: finding?.turn === index, link: link(run, turn, ""),
      tools: new Set(tools), agents: new Set(agents), models: new Set(models),
      data: () => searchedTexts(run, turn),
      draw: () => drawTurn(run, turn, { strand: several ? strand.name : "" }),
    };
  });
  const entryOf = new Map(order.map((index, at) => [index, at]));
  const calls = collectCalls(run, (turn) => entryOf.get(turn));
  const times = run.calls.length ? [drawTimeLine(run, roots, (at) => calls[at])] : [];
  const notes = (data.notes || []).map((note) => make("p", { class: "muted" }, note));
  const head = [drawFacts(run), drawMore(run), drawTotals(run, state.strands), notes, finding ? drawFinding(finding) : null];
  const list = begin(head, times);
  listEntries(roots, list, (entry, index, own) => addTurnEntry(entry, own, run, run.turns[index], entry.differs ? finding.code : ""));
  finish(times, entryOf.get(finding?.turn) ?? 0);
}

function addTurnEntry(entry, list, run, turn, word) {
  const count = sum(tokens(turn));
  const facts = [duration(turn.end - turn.start), count ? `${NUMBERS.format(count)} tokens` : ""].filter(Boolean).join(" · ");
  addEntry(entry, list, turn, facts, describeTurn(run, turn), word);
}

// Two runs ---------------------------------------------------------------------------------------------------------

function showPair() {
  const [recorded, now] = data.runs;
  const first = data.findings[0];
  const pairs = data.pairs.map(([x, y]) => ({ left: recorded.turns[x], right: now.turns[y], sides: [x, y] }));
  // A turn that only one side has stands in that side's lane; where the other one began is told by the turn before it.
  let order = 0;
  const items = pairs.map(({ left, right }) => {
    order = left ? left.calls[0] : order + 0.001;
    return { lane: left ? recorded.lanes[left.lane] : now.lanes[right.lane], order };
  });
  const roots = nestTurns(items);
  const runOf = ({ left }) => (left ? recorded : now);
  nameStrands(roots, (at) => pairs[at].left || pairs[at].right, (at) => (pairs[at].left || pairs[at].right).calls.map((call) => runOf(pairs[at]).calls[call]));
  state.strands = listStrands(roots);
  const strandOf = new Map(state.strands.flatMap((strand) => strand.nodes.map((node) => [node.at, strand])));
  const several = state.strands.length > 1;
  const indexes = numberNodes(roots);
  state.entries = indexes.map((index, at) => {
    const { left, right } = pairs[index];
    const findings = data.findings.filter((finding) => finding.pair === index);
    const changes = data.changes[index];
    const facets = [readFacets(recorded, left, strandOf.get(index)), readFacets(now, right, strandOf.get(index))];
    const join = (name) => new Set(facets.flatMap((side) => side[name]));
    return {
      at, failed: facets.some((side) => side.failed), tools: join("tools"), agents: join("agents"), models: join("models"),
      differs: !left || !right || findings.length > 0 || Object.keys(changes).length > 0,
      link: left ? link(recorded, left, "") : link(now, right, "now-"),
      data: () => [searchedTexts(recorded, left), searchedTexts(now, right)],
      draw: () => drawPair(pairs[index], findings.filter((finding) => finding !== first), changes, several ? strandOf.get(index).name : ""),
    };
  });
  const places = [0, 1].map((side) => new Map(indexes.map((index, at) => [pairs[index].sides[side], at])));
  const times = data.runs.map((run, side) => drawSideLine(run, side, places[side], roots, pairs));
  const head = [
    first ? drawFinding(first) : make("p", { class: "same" }, "Both files hold the same run."),
    data.notes.map((note) => make("p", { class: "muted" }, note)),
    make("div", { class: "sides" }, data.runs.map((run, side) => make("section", null, make("b", null, ["recorded", "now"][side]), drawFacts(run), drawMore(run)))),
  ];
  const list = begin(head, times.filter(Boolean));
  listEntries(roots, list, (entry, index, own) => {
    const { left, right } = pairs[index];
    const code = data.findings.find((finding) => finding.pair === index)?.code;
    const word = code || (!left ? "only now" : !right ? "only recorded" : entry.differs ? "differs" : "");
    addTurnEntry(entry, own, runOf(pairs[index]), left || right, word);
  });
  const place = indexes.indexOf(first?.pair);
  finish(times.filter(Boolean), Math.max(0, place));
}

function drawSideLine(run, side, places, roots, pairs) {
  // The time line of one side: the same strands, as far as this side has turns in them.
  if (!run.calls.length) return null;
  const calls = collectCalls(run, (turn) => places.get(turn));
  const own = (strand) => ({
    ...strand,
    nodes: strand.nodes.map((node) => ({ ...node, strands: node.strands.map(own).filter(hasCalls) })),
  });
  const callsOf = (at) => calls[pairs[at].sides[side]] || [];
  const hasCalls = (strand) => strand.nodes.some((node) => callsOf(node.at).length || node.strands.length);
  return drawTimeLine(run, roots.map(own).filter(hasCalls), callsOf, ["recorded", "now"][side]);
}

function drawPair({ left, right }, findings, changes, strand) {
  const [recorded, now] = data.runs;
  const sides = [[recorded, left, "recorded", "-"], [now, right, "now", "+"]];
  return [
    findings.map((finding) => make("details", { class: "finding" }, make("summary", null, finding.headline), drawFindingLines(finding))),
    make("div", { class: "sides" }, sides.map(([run, turn, name, side]) =>
      make("section", { "aria-label": name },
        make("b", { class: "muted" }, name),
        turn
          ? drawTurn(run, turn, { strand, side, changes: left && right ? changes : undefined })
          : make("p", null, `There is no such turn ${name === "now" ? "now" : "in the recording"}.`)))),
  ];
}

// ------------------------------------------------------------------------------------------------------------------

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  const act = state.keys[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

if (data.kind === "index") showIndex();
else if (data.kind === "failure") showFailure();
else if (data.kind === "pair") showPair();
else showRun();
