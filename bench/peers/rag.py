"""Other programs that search, on the data that crates/rag is measured on; `cargo xtask bench rag` runs it.

    python rag.py lancedb index FOLDER DATABASE
    python rag.py lancedb search FOLDER DATABASE QUERIES LIMIT
    python rag.py grounded both FOLDER - QUERIES LIMIT

FOLDER has `chunks.jsonl` and `queries.jsonl` (`id`, `text`), and `chunks.f32` and `queries.f32` with their vectors. It prints
JSON: what was measured, and after a search the ids that each question has found.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path


def main():
    peer, job, folder, database, *rest = sys.argv[1:]
    folder = Path(folder)
    queries, limit = (int(rest[0]), int(rest[1])) if rest else (0, 0)
    if peer == "lancedb":
        answer = lance_index(folder, database) if job == "index" else lance_search(folder, database, queries, limit)
    else:
        answer = grounded(folder, queries, limit)
    print(json.dumps(answer))


def texts(folder, name):
    with open(folder / f"{name}.jsonl", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def vectors(folder, name, count):
    import numpy

    return numpy.fromfile(folder / f"{name}.f32", dtype="<f4").reshape(count, -1)


def lance_index(folder, database):
    import lancedb
    import pyarrow

    chunks = texts(folder, "chunks")
    values = vectors(folder, "chunks", len(chunks))
    start, cpu = time.perf_counter(), time.process_time()
    column = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(values.reshape(-1)), values.shape[1])
    data = pyarrow.table(
        {
            "id": [chunk["id"] for chunk in chunks],
            "text": [chunk["text"] for chunk in chunks],
            "vector": column,
        }
    )
    table = lancedb.connect(database).create_table("chunks", data=data)
    table.create_fts_index("text")
    wait = getattr(table, "wait_for_index", None)
    if wait:
        wait(["text_idx"])
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    size = sum(file.stat().st_size for file in Path(database).rglob("*") if file.is_file())
    return {"chunks": len(chunks), "seconds": seconds, "cpu_seconds": cpu, "bytes": size}


def lance_search(folder, database, queries, limit):
    asked = texts(folder, "queries")[:queries]
    values = vectors(folder, "queries", len(texts(folder, "queries")))
    import lancedb
    from lancedb.rerankers import RRFReranker

    before = resident("self")
    start = time.perf_counter()
    table = lancedb.connect(database).open_table("chunks")
    opened = time.perf_counter() - start
    reranker = RRFReranker()

    def search(place):
        found = (
            table.search(query_type="hybrid", vector_column_name="vector")
            .vector(values[place])
            .text(asked[place]["text"])
            .distance_type("cosine")
            .rerank(reranker)
            .limit(limit)
            .to_arrow()
        )
        return found.column("id").to_pylist()

    search(0)
    ready = time.perf_counter() - start
    answer = measure(asked, search, time.process_time)
    return answer | {
        "open_ms": opened * 1e3,
        "ready_ms": ready * 1e3,
        "memory_bytes": resident("self") - before,
    }


def grounded(folder, queries, limit):
    asked = texts(folder, "queries")[:queries]
    chunks = texts(folder, "chunks")
    program = Path(sys.executable).with_name("grounded-rag-mcp")
    server = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    cpu = lambda: cpu_of(server.pid)
    number = 0

    def send(message):
        server.stdin.write(json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n")
        server.stdin.flush()

    def request(method, params):
        nonlocal number
        number += 1
        send({"id": number, "method": method, "params": params})
        while True:
            answer = json.loads(server.stdout.readline())
            if answer.get("id") == number:
                return answer["result"]

    def call(tool, arguments):
        result = request("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise RuntimeError(result)
        return result["structuredContent"]

    def search(place):
        arguments = {"query": asked[place]["text"], "top_k": limit, "mode": "hybrid"}
        hits = call("search", arguments)["result"]
        sources = dict.fromkeys(hit["source"] for hit in hits)
        return [chunks[int(source.removeprefix("text:"))]["id"] for source in sources]

    try:
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "0"}}
        request("initialize", params)
        send({"method": "notifications/initialized"})
        before = resident(server.pid)
        start, used = time.perf_counter(), cpu()
        # All in one call: its keyword index is built anew with each.
        call("ingest_documents", {"texts": [chunk["text"] for chunk in chunks]})
        seconds, used = time.perf_counter() - start, cpu() - used
        answer = measure(asked, search, cpu)
        memory = resident(server.pid) - before
    finally:
        server.kill()
        server.wait()
    return answer | {
        "chunks": len(chunks),
        "seconds": seconds,
        "cpu_seconds": used,
        "memory_bytes": memory,
        # It keeps nothing: whoever starts it reads all documents anew.
        "open_ms": seconds * 1e3,
        "ready_ms": seconds * 1e3,
    }


def measure(asked, search, cpu):
    times, rankings = [], {}
    search(0)
    before = cpu()
    for place, question in enumerate(asked):
        start = time.perf_counter()
        rankings[question["id"]] = search(place)
        times.append((time.perf_counter() - start) * 1e3)
    used = (cpu() - before) * 1e3 / len(times)
    times.sort()
    hybrid = {
        "name": "hybrid",
        "p50_ms": times[len(times) // 2],
        "p99_ms": times[len(times) * 99 // 100],
        "fastest_ms": times[0],
        "cpu_ms": used,
    }
    return {"searches": [hybrid], "rankings": rankings}


def resident(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def cpu_of(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


main()
