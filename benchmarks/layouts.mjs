// Reads a JSON array of graphs from stdin and lays them out with dagre and elkjs. A graph is an object:
// {sizes: [[width, height], ...], edges: [[from, to], ...]}. Writes, as JSON, an object with the keys dagre and elkjs.
// Each value is {seconds, lines}: the processor time for all graphs, without a first run that compiles the code; and for
// each graph the line of each edge as points [x, y].

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const require = createRequire(`${process.cwd()}/`); // finds packages in the working folder
const dagre = require("@dagrejs/dagre");
const ELK = require("elkjs/lib/elk.bundled.js");
const elk = new ELK();

function layOutByDagre({ sizes, edges }) {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  // In pixels, as _COLUMN_GAP, ROW_GAP and _BEND_WIDTH of onnxwire/viewer/graph_layout.py.
  graph.setGraph({ nodesep: 22, ranksep: 44, edgesep: 14 });
  graph.setDefaultEdgeLabel(() => ({}));
  sizes.forEach(([width, height], i) => graph.setNode(String(i), { width, height }));
  edges.forEach(([from, to], i) => graph.setEdge(String(from), String(to), {}, String(i)));
  dagre.layout(graph);
  return edges.map(([from, to], i) => graph.edge(String(from), String(to), String(i)).points.map(({ x, y }) => [x, y]));
}

async function layOutByElk({ sizes, edges }) {
  const layout = await elk.layout({
    id: "root",
    layoutOptions: { "elk.algorithm": "layered", "elk.direction": "DOWN", "elk.edgeRouting": "POLYLINE" },
    children: sizes.map(([width, height], i) => ({ id: String(i), width, height })),
    edges: edges.map(([from, to], i) => ({ id: `e${i}`, sources: [String(from)], targets: [String(to)] })),
  });
  return layout.edges.map(({ sections: [section] }) =>
    [section.startPoint, ...(section.bendPoints ?? []), section.endPoint].map(({ x, y }) => [x, y]));
}

const graphs = JSON.parse(readFileSync(0, "utf8"));
const results = {};
for (const [name, layOut] of [["dagre", layOutByDagre], ["elkjs", layOutByElk]]) {
  for (const graph of graphs) await layOut(graph); // warm-up: the engine compiles the code
  const startUsage = process.cpuUsage();
  const lines = [];
  for (const graph of graphs) lines.push(await layOut(graph));
  const { user, system } = process.cpuUsage(startUsage);
  results[name] = { seconds: (user + system) / 1e6, lines };
}
console.log(JSON.stringify(results));
