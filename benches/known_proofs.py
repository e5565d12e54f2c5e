#!/usr/bin/env python3
"""Proofs on a real server of changes of which the truth is known.

    benches/known_proofs.py REHEARSE nothing [PROOFS] [BLOCKS] [GOAL] [HUMPS]
    benches/known_proofs.py REHEARSE mixed   [PROOFS] [BLOCKS] [GOAL] [HUMPS]
    benches/known_proofs.py REHEARSE right   [PROOFS] [BLOCKS] [GOAL] [HUMPS]
    benches/known_proofs.py REHEARSE harmful [PROOFS] [BLOCKS] [GOAL] [HUMPS]

nothing: a setting that nothing in the workload hangs on is changed (deadlock_timeout by a millisecond). A proof errs that
calls this won or lost.
mixed: one statement of thirty gets 35 % more rows to read, all others 11 % fewer, so that they take some 30 % more and 10 %
less: some of each is the same for any number of rows. A proof is right that says won, and names this one as slower, and no
other.
right: all statements get 60 % fewer rows to read. A proof is right that says won.
harmful: by turns, all statements get 2.5 times as many rows to read, or read the same blocks through a view that hashes
each row. A proof is right that says lost.

Each proof is a new one, with an order of chance, of the same workload (600 or 2,400 statements of a millisecond from two
sessions, read and written). Prints a line for each proof and the counts. HUMPS is the number of other processes that are
busy and idle in turns of up to nine seconds (default 0).
"""

import json, multiprocessing, os, random, subprocess, sys, tempfile, time

rehearse, truth = os.path.abspath(sys.argv[1]), sys.argv[2]
TRUTHS = ("nothing", "mixed", "right", "harmful")
if truth not in TRUTHS:
    sys.exit(f"{truth} is none of {', '.join(TRUTHS)}")
proofs = int(sys.argv[3]) if len(sys.argv) > 3 else 20
blocks = sys.argv[4] if len(sys.argv) > 4 else "6"
goal = sys.argv[5] if len(sys.argv) > 5 else "total"
humps = int(sys.argv[6]) if len(sys.argv) > 6 else 0
NAME = f"known-{os.getpid()}"
KINDS, SESSIONS = 30, 2
ROUNDS = 40 if truth == "mixed" else 10


def out(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def hump():
    """Is busy and idle in turns, without end."""
    while True:
        time.sleep(random.uniform(0.2, 9))
        end = time.monotonic() + random.uniform(0.2, 9)
        while time.monotonic() < end:
            pass


def log(path):
    """What sessions sent, as a server would have logged it: each kind of statement once a round from each session."""
    start, lines = 9 * 3600, []
    for session in range(SESSIONS):
        lines.append((0.0, session, "connection authorized: user=postgres database=postgres"))
        for number in range(ROUNDS * KINDS):
            kind = (number * 7 + session * 11) % KINDS
            at = 0.2 + number * 0.005 + session * 0.0025
            lines.append((at, session, f"statement: SELECT sum(v) FROM rows_{kind} WHERE v >= {number % 5}"))
        for number in range(ROUNDS):
            first = session * 5000 + number * 10
            sql = f"UPDATE rows_kept SET v = v + 1 WHERE id BETWEEN {first} AND {first + 9}"
            lines.append((0.21 + number * 0.14, session, f"statement: {sql}"))
    with open(path, "w") as file:
        for at, session, words in sorted(lines):
            seconds = start + at
            clock = f"{int(seconds // 3600):02}:{int(seconds % 3600 // 60):02}:{seconds % 60:06.3f}"
            file.write(f"2026-03-01 {clock} UTC [{100 + session}] LOG:  {words}\n")


def fix(number):
    """The change of a proof, as SQL."""
    kinds = range(KINDS)
    if truth == "mixed":
        fix = ["INSERT INTO rows_0 SELECT i, i % 1000 FROM generate_series(10001, 13500) i;"]
        fix += [f"DELETE FROM rows_{kind} WHERE id > 8900;\nVACUUM FULL rows_{kind};" for kind in kinds[1:]]
    elif truth == "right":
        fix = [f"DELETE FROM rows_{kind} WHERE id > 4000;\nVACUUM FULL rows_{kind};" for kind in kinds]
    elif number % 2:
        more = "SELECT i, i % 1000 FROM generate_series(10001, 25000) i"
        fix = [f"INSERT INTO rows_{kind} {more};" for kind in kinds]
    else:
        hashed = "md5(md5(md5(v::text))) <> ''"
        fix = [
            f"ALTER TABLE rows_{kind} RENAME TO base_{kind};\n"
            f"CREATE VIEW rows_{kind} AS SELECT id, v FROM base_{kind} WHERE {hashed};"
            for kind in kinds
        ]
    return "\n".join([*fix, "VACUUM ANALYZE;"])


directory = tempfile.mkdtemp(prefix="known-proofs-")
print(f"proofs are kept in {directory}", flush=True)
up = out(rehearse, "sandbox", "up", NAME)
try:
    url = next(line.strip() for line in up.splitlines() if "postgres://" in line)
    made = [
        f"CREATE TABLE rows_{kind} AS SELECT i AS id, i % 1000 AS v FROM generate_series(1, 10000) i;"
        for kind in range(KINDS)
    ]
    made.append("CREATE TABLE rows_kept (id int PRIMARY KEY, v int);")
    made.append("INSERT INTO rows_kept SELECT i, 0 FROM generate_series(1, 10000) i;")
    subprocess.run(["psql", "-q", url], input="\n".join([*made, "VACUUM ANALYZE; CHECKPOINT;"]), check=True, text=True)
    log(f"{directory}/known.log")
    workload = f"{directory}/known.workload"
    out(rehearse, "capture", "log", f"{directory}/known.log", "--prefix", "%m [%p] ", "-o", workload)
    change = ["--set", "deadlock_timeout=1001ms"]
    for _ in range(humps):
        multiprocessing.Process(target=hump, daemon=True).start()
    said = []
    for number in range(1, proofs + 1):
        proof = f"{directory}/{truth}-{number}.proof"
        if truth != "nothing":
            with open(f"{directory}/fix-{number}.sql", "w") as file:
                file.write(fix(number))
            change = ["--change", f"{directory}/fix-{number}.sql"]
        command = [rehearse, "prove", workload, *change, "--sandbox", NAME, "--goal", goal, "--blocks", blocks]
        # Two percent for the mixed one, of which the whole gains some eight.
        command += ["--margin", "2" if truth == "mixed" else "5", "--json", "-o", proof]
        done = subprocess.run(command, capture_output=True, text=True)
        if not done.stdout:
            sys.exit(done.stderr)
        side = json.loads(done.stdout)["sides"][-1]
        effect = side["effect"] or {"ratio": float("nan"), "low": float("nan"), "high": float("nan")}
        slower = [one["sql"] for one in side["slower"]]
        faster = [one["sql"] for one in side["faster"]]
        said.append((side["verdict"], slower, faster))
        print(
            f"{number}: {side['verdict']}, {goal} x {effect['ratio']:.3f} ({effect['low']:.3f} to {effect['high']:.3f}),"
            f" {side['blocks']} blocks, slower: {slower or 'none'}, faster: {len(faster)}",
            flush=True,
        )
    verdicts = [verdict for verdict, *_ in said]
    counts = ", ".join(f"{verdicts.count(one)} {one}" for one in sorted(set(verdicts)))
    print(f"of {proofs}: {counts}")
    if truth == "mixed":
        right = sum(verdict == "won" and len(slower) == 1 and "rows_0 " in slower[0] for verdict, slower, _ in said)
        print(f"both told: {right} of {proofs}")
    else:
        print(f"statements called slower or faster: {sum(len(slower) + len(faster) for _, slower, faster in said)}")
finally:
    out(rehearse, "sandbox", "down", NAME)
