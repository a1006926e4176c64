// Lays out one graph at a time, off the page's main thread.

import { Graph, layout } from "./dagre.js";

const MANY = 400; // edges above which the best rank of each node is not sought

/**
 * nodes: [width, height] of each; edges: [from, to], numbers of nodes.
 * Gives the middles of the nodes and the points that edges pass, both from 0 on.
 */
function arrange({ nodes, edges, gapX, gapY }) {
  const graph = new Graph({ multigraph: true });
  const ranker = edges.length > MANY ? "longest-path" : "network-simplex";
  graph.setGraph({ rankdir: "TB", nodesep: gapX, edgesep: 12, ranksep: gapY, ranker });
  graph.setDefaultEdgeLabel(() => ({}));
  nodes.forEach(([width, height], i) => graph.setNode(String(i), { width, height }));
  edges.forEach(([from, to], i) => graph.setEdge(String(from), String(to), {}, String(i)));
  layout(graph);
  return {
    nodes: nodes.map((_, i) => [graph.node(String(i)).x, graph.node(String(i)).y]),
    edges: edges.map(([from, to], i) => graph.edge(String(from), String(to), String(i)).points.map((point) => [point.x, point.y])),
  };
}

onmessage = ({ data }) => {
  try {
    postMessage({ turn: data.turn, done: arrange(data) });
  } catch (error) {
    postMessage({ turn: data.turn, error: String(error.message) });
  }
};
