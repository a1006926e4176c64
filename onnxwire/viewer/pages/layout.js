// Layouts, asked of the worker.

const worker = new Worker("layout_worker.js", { type: "module" });
const waiting = new Map();
let turn = 0;

worker.onmessage = ({ data }) => {
  const { resolve, reject } = waiting.get(data.turn);
  waiting.delete(data.turn);
  if (data.error) reject(new Error(`This graph could not be laid out: ${data.error}`));
  else resolve(data.done);
};
worker.onerror = () => {
  for (const { reject } of waiting.values()) reject(new Error("This browser can't start the worker that lays graphs out."));
  waiting.clear();
};

/** Middles of nodes of such [width, height], and points of edges [from, to] between their numbers. */
export function layOut(nodes, edges, gapX = 22, gapY = 44) {
  turn += 1;
  const mine = turn;
  return new Promise((resolve, reject) => {
    waiting.set(mine, { resolve, reject });
    worker.postMessage({ turn: mine, nodes, edges, gapX, gapY });
  });
}
