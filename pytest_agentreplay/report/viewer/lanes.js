// Which lanes a run has: where each began, what it is called, what its turns took. Only data, nothing is drawn here.

function nestTurns(items) {
  // Returns the turns as a tree: strands of nodes, each node with the strands that began during its turn. `items` have
  // their `lane` and the `order` of their first call. A lane "main.2" belongs below "main".
  const nodes = items.map((item, at) => ({ at, strands: [] }));
  const lanes = new Map();
  items.forEach(({ lane }, at) => {
    if (!lanes.has(lane)) lanes.set(lane, []);
    lanes.get(lane).push(nodes[at]);
  });
  const roots = [];
  for (const [lane, own] of lanes) {
    const order = items[own[0].at].order;
    const host = (lanes.get(findParent(lane, lanes)) || []).filter((node) => items[node.at].order < order).at(-1);
    const strand = { lane, nodes: own, host: host?.at ?? null, depth: 0 };
    (host ? host.strands : roots).push(strand);
  }
  const deepen = (strand, depth) => {
    strand.depth = depth;
    for (const node of strand.nodes) for (const inner of node.strands) deepen(inner, depth + 1);
  };
  for (const strand of roots) deepen(strand, 0);
  return roots;
}

function findParent(lane, lanes) {
  let parent = lane;
  while (parent.includes(".")) {
    parent = parent.slice(0, parent.lastIndexOf("."));
    if (lanes.has(parent)) return parent;
  }
  return null;
}

function listStrands(roots) {
  // All strands in the order in which a list shows them.
  return roots.flatMap((strand) => [strand, ...strand.nodes.flatMap((node) => listStrands(node.strands))]);
}

// Names ------------------------------------------------------------------------------------------------------------

function nameStrands(roots, turnOf, callsOf) {
  // Sets the name of each strand: the call of a tool that the model asked for when the strand began, else its agent, else
  // its lane. `turnOf` gives a node's turn, `callsOf` the calls of that.
  for (const strand of listStrands(roots)) {
    strand.name ??= turnOf(strand.nodes[0].at).agent || (strand.lane === "main" ? "main" : `lane ${strand.lane}`);
    strand.kind ??= strand.name;
    for (const node of strand.nodes) {
      const asked = listUnrecorded(turnOf(node.at), callsOf(node.at));
      const kinds = new Set(asked.map(([name]) => name));
      node.strands.forEach((inner, number) => {
        const use = asked.length === node.strands.length ? asked[number] : null;
        if (use) inner.name = `${use[0]}(${shortenArguments(use[1])})`;
        if (use || kinds.size === 1) inner.kind = [...kinds].length === 1 ? [...kinds][0] : use[0];
        inner.name ??= turnOf(inner.nodes[0].at).agent || (kinds.size === 1 ? inner.kind : undefined);
      });
    }
  }
}

function listUnrecorded(turn, calls) {
  // The tools that a turn asked for and that were not recorded as calls: what they did is in lanes of its own.
  const recorded = calls.filter((call) => call.kind === "tool").map((call) => call.label);
  return (turn.uses || []).filter(([name]) => {
    const at = recorded.indexOf(name);
    if (at >= 0) recorded.splice(at, 1);
    return at < 0;
  });
}

function shortenArguments(text) {
  const values = Object.values(readJson(text) || {}).filter((value) => value !== null && typeof value !== "object");
  return cut(values.join(", "), 24);
}

// Sums -------------------------------------------------------------------------------------------------------------

const costOf = (run, turn) => {
  const costs = turn.calls.map((at) => run.calls[at].cost).filter((cost) => cost !== undefined);
  return costs.length ? sum(costs) : null;
};

function sumTurns(run, turns) {
  const costs = turns.map((turn) => costOf(run, turn)).filter((cost) => cost !== null);
  return {
    turns: turns.filter((turn) => turn.call !== undefined).length,
    calls: sum(turns.map((turn) => turn.calls.length)),
    tokens: [0, 1].map((side) => sum(turns.map((turn) => tokens(turn)[side]))),
    cost: costs.length ? sum(costs) : null,
    took: sum(turns.map((turn) => turn.end - turn.start)),
  };
}

function measureRun(calls) {
  if (!calls.length) return 0;
  return Math.max(...calls.map((call) => call.end ?? call.start)) - Math.min(...calls.map((call) => call.start));
}

function sumByAgent(run, strands) {
  // Pairs of a name and its sums: an agent's turns are added up wherever it ran, other turns by what their lane is.
  const groups = new Map();
  for (const strand of strands) {
    for (const { at } of strand.nodes) {
      const name = run.turns[at].agent || strand.kind;
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(run.turns[at]);
    }
  }
  return [...groups].map(([name, turns]) => [name, sumTurns(run, turns)]);
}
