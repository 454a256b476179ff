"""Faiss as a peer: reads requests as JSON lines and answers each with one. See peer.go."""

import json
import os
import sys
import time

import faiss
import numpy as np

index = None
queries = None


def clock():
    cpu, began = time.process_time(), time.perf_counter()
    return lambda: {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - began}


def version(_):
    return {"version": faiss.__version__ + " (" + faiss.get_compile_options().strip() + ")"}


def build(r):
    global index, queries
    faiss.omp_set_num_threads(1)
    rows = np.fromfile(os.path.join(r["dir"], "rows.f32"), dtype=np.float32).reshape(-1, r["dim"])
    queries = np.fromfile(os.path.join(r["dir"], "queries.f32"), dtype=np.float32).reshape(-1, r["dim"])
    stop = clock()
    if r["metric"] == "COSINE":  # the vectors are normalised
        quantizer, metric = faiss.IndexFlatIP(r["dim"]), faiss.METRIC_INNER_PRODUCT
    else:
        quantizer, metric = faiss.IndexFlatL2(r["dim"]), faiss.METRIC_L2
    index = faiss.IndexIVFFlat(quantizer, r["dim"], r["partitions"], metric)
    index.own_fields = True
    quantizer.this.disown()
    index.train(rows)
    index.add(rows)
    return stop()


def all(r):
    index.nprobe = r["probes"]
    return {"rows": index.search(queries, r["k"])[1].tolist()}


def timing(r):
    index.nprobe = r["probes"]
    stop = clock()
    n = 0
    while n < len(queries) and stop()["wall"] < r["budget"]:
        index.search(queries[n : n + 1], r["k"])
        n += 1
    took = stop()
    return {"n": n, "cpu": took["cpu"] / n, "wall": took["wall"] / n}


for line in sys.stdin:
    request = json.loads(line)
    try:
        answer = {"version": version, "build": build, "all": all, "time": timing}[request["do"]](request)
    except Exception as e:
        answer = {"error": repr(e)}
    print(json.dumps(answer), flush=True)
