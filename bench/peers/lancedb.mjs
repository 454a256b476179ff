// LanceDB as a peer: reads requests as JSON lines and answers each with one. See peer.go.
import { readFileSync, rmSync } from "node:fs";
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import path from "node:path";

const require = createRequire(path.join(process.env.PEERS_NODE, "package.json"));
const lancedb = require("@lancedb/lancedb");
const arrow = require("apache-arrow");

let table, queries, metric;

const floats = (file) => {
  const b = readFileSync(file);
  return new Float32Array(b.buffer, b.byteOffset, b.byteLength / 4);
};

// IVF_RQ takes dimensions that 8 divides: zeros behind a vector change no distance.
function padded(flat, dim, to) {
  if (dim === to) return flat;
  const n = flat.length / dim, out = new Float32Array(n * to);
  for (let i = 0; i < n; i++) out.set(flat.subarray(i * dim, (i + 1) * dim), i * to);
  return out;
}

function batchOf(flat, dim, from, to) {
  const type = new arrow.FixedSizeList(dim, new arrow.Field("item", new arrow.Float32(), true));
  const schema = new arrow.Schema([new arrow.Field("id", new arrow.Int32(), false), new arrow.Field("vector", type, true)]);
  const n = to - from;
  const values = arrow.makeData({ type: new arrow.Float32(), length: n * dim, nullCount: 0, data: flat.subarray(from * dim, to * dim) });
  const ids = arrow.makeData({ type: new arrow.Int32(), length: n, nullCount: 0, data: Int32Array.from({ length: n }, (_, i) => from + i) });
  const list = arrow.makeData({ type, length: n, nullCount: 0, child: values });
  const rows = arrow.makeData({ type: new arrow.Struct(schema.fields), length: n, nullCount: 0, children: [ids, list] });
  return new arrow.Table([new arrow.RecordBatch(schema, rows)]);
}

function clock() {
  const cpu = process.cpuUsage(), began = process.hrtime.bigint();
  return () => {
    const c = process.cpuUsage(cpu);
    return { cpu: (c.user + c.system) / 1e6, wall: Number(process.hrtime.bigint() - began) / 1e9 };
  };
}

async function ask(query, r) {
  let q = table.vectorSearch(query).distanceType(metric).nprobes(r.probes).limit(r.k).select(["id", "_distance"]);
  if (r.refine > 0) q = q.refineFactor(r.refine);
  return await q.toArrow();
}

const does = {
  async version() {
    const about = path.join(process.env.PEERS_NODE, "node_modules/@lancedb/lancedb/package.json");
    return { version: JSON.parse(readFileSync(about, "utf8")).version };
  },
  async build(r) {
    const dim = Math.ceil(r.dim / 8) * 8;
    const rows = padded(floats(path.join(r.dir, "rows.f32")), r.dim, dim);
    const all = padded(floats(path.join(r.dir, "queries.f32")), r.dim, dim);
    queries = Array.from({ length: all.length / dim }, (_, i) => all.slice(i * dim, (i + 1) * dim));
    metric = r.metric === "COSINE" ? "cosine" : "l2";
    const home = path.join(r.dir, "lancedb");
    rmSync(home, { recursive: true, force: true });
    const db = await lancedb.connect(home);
    const n = rows.length / dim, step = 50000;
    table = await db.createTable("t", batchOf(rows, dim, 0, Math.min(n, step)));
    for (let from = step; from < n; from += step) await table.add(batchOf(rows, dim, from, Math.min(n, from + step)));
    const stop = clock();
    await table.createIndex("vector", {
      config: lancedb.Index.ivfRq({ numPartitions: r.partitions, numBits: r.bits, distanceType: metric }),
      waitTimeoutSeconds: 3600,
    });
    const took = stop();
    const stats = await table.indexStats("vector_idx");
    if (stats.numIndexedRows !== n || stats.numUnindexedRows !== 0) throw new Error(`indexed ${stats.numIndexedRows} of ${n} rows`);
    return took;
  },
  async all(r) {
    const rows = [];
    for (const q of queries) rows.push(Array.from((await ask(q, r)).getChild("id").toArray()));
    return { rows };
  },
  async time(r) {
    const stop = clock();
    let n = 0, took;
    do {
      await ask(queries[n++], r);
      took = stop();
    } while (n < queries.length && took.wall < r.budget);
    return { n, cpu: took.cpu / n, wall: took.wall / n };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const r = JSON.parse(line);
  let answer;
  try {
    answer = await does[r.do](r);
  } catch (e) {
    answer = { error: String(e) };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
