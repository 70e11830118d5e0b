"""Pools of processes, forked and spawned, with shared memory and queues, and other programs."""
import multiprocessing
import subprocess
import sys
import threading
from multiprocessing import shared_memory


def work(n):
    words = {}
    for i in range(3000):
        words.setdefault(i * n % 211, []).append("x" * (i % 50))
    return n, sum(len(text) for texts in words.values() for text in texts)


def fill(name, n):
    memory = shared_memory.SharedMemory(name)
    memory.buf[n * 1000:(n + 1) * 1000] = bytes([n]) * 1000
    memory.close()


def answer(questions, answers):
    for question in iter(questions.get, None):
        answers.put(question * question)


def main():
    # Forks while other threads allocate.
    over = threading.Event()

    def keep_busy():
        while not over.is_set():
            [bytearray(n) for n in range(0, 3000, 7)]

    threads = [threading.Thread(target=keep_busy) for _ in range(3)]
    for thread in threads:
        thread.start()
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        with context.Pool(4) as pool:
            print(method, pool.map(work, range(40), chunksize=1))
    over.set()
    for thread in threads:
        thread.join()

    context = multiprocessing.get_context("fork")
    memory = shared_memory.SharedMemory(create=True, size=10_000)
    children = [context.Process(target=fill, args=(memory.name, n)) for n in range(10)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    print([child.exitcode for child in children], sum(memory.buf))
    memory.close()
    memory.unlink()

    questions, answers = context.Queue(), context.Queue()
    children = [context.Process(target=answer, args=(questions, answers)) for _ in range(4)]
    for child in children:
        child.start()
    for n in range(500):
        questions.put(n)
    for _ in children:
        questions.put(None)
    print(sum(answers.get() for _ in range(500)))
    for child in children:
        child.join()

    program = "print(sum(len(str(n)) for n in range(10000)))"
    for _ in range(5):
        print(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                             check=True).stdout.strip())


if __name__ == "__main__":
    main()
