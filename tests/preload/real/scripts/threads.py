"""Threads, with queues between them, and what most programs use: json, re, sqlite3, zlib, dicts."""
import ctypes
import gc
import hashlib
import json
import queue
import re
import sqlite3
import threading
import zlib

THREADS = 8


def work(n):
    rows = [{"id": i, "name": f"name {i * 7919 % 1009}", "list": list(range(i % 20))}
            for i in range(2000)]
    text = json.dumps(rows, indent=n % 3)
    assert json.loads(text) == rows
    names = re.findall(r'"name":\s*"name (\d+)"', text)
    text = re.sub(r"name (\d+)", lambda match: match[1][::-1] * (n + 1), text)
    packed = zlib.compress(text.encode())
    assert zlib.decompress(packed).decode() == text
    return len(names), hashlib.sha256(text.encode()).hexdigest()[:16]


def query(n):
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, key INTEGER, text TEXT)")
    database.executemany("INSERT INTO item VALUES (?, ?, ?)",
                         ((i, i * 31 % 101, "x" * (i % 500)) for i in range(5000)))
    database.create_function("twice", 1, lambda text: text * 2)
    rows = database.execute("SELECT key, count(*), sum(length(twice(text))) FROM item"
                            " GROUP BY key ORDER BY 3 DESC, 1 LIMIT 3").fetchall()
    database.close()
    return rows


def main():
    jobs, results = queue.Queue(), queue.Queue()

    def worker():
        while (job := jobs.get()) is not None:
            results.put((job, work(job), query(job)))

    threads = [threading.Thread(target=worker) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for job in range(3 * THREADS):
        jobs.put(job)
    for _ in threads:
        jobs.put(None)
    for thread in threads:
        thread.join()
    for _ in range(3 * THREADS):
        threading.Thread(target=lambda: results.put((99, ("short", 0), []))).start()
    for result in sorted(results.get() for _ in range(6 * THREADS)):
        print(*result)

    # Rings, which only the collector frees, and large blocks, which are resized.
    for i in range(50_000):
        ring = {"data": bytearray(i % 300)}
        ring["self"] = ring
    print(gc.collect() >= 0, ctypes.string_at(ctypes.create_string_buffer(b"buffer")))
    data = bytearray()
    for i in range(3000):
        data += bytes([i % 256]) * 1000
    print(hashlib.sha256(data).hexdigest())


main()
