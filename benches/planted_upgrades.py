#!/usr/bin/env python3
"""Rehearsals of upgrades in which one fault was planted on the upgraded server.

    benches/planted_upgrades.py REHEARSE DIRECTORY APPLICATION FAULT OLD NEW [WITHIN] [SPEED]

DIRECTORY has APPLICATION.workload of benches/upgrade_applications.py. OLD and NEW are private servers apps-OLD and apps-NEW, or
URLs of servers on which databases may be created. One command rehearses the upgrade; the decision, its reasons and remedies are
printed, and the time. Both servers are filled with the generated data, as by a dump and restore.

Faults: none (with statistics of all rows, since samples differ); analyze (the new server has no statistics); setting (random_page_cost = 1.1 and work_mem = 32MB of the old server
are not on the new one); statistics (extended statistics are missing); jit (NEW must have the library of JIT and low thresholds);
collation (the new database has the order of ICU's en-US instead of C, from 15 on); extension (the new database lacks citext, which
no statement uses; with statistics of all rows).

WITHIN is the limit of measurements (default 3m), SPEED that of replays (default max).
"""

import json, os, shutil, subprocess, sys, time, urllib.parse

from upgrade_applications import HERE, Client, out, server

rehearse, directory, name, fault, old, new = os.path.abspath(sys.argv[1]), *sys.argv[2:7]
within = sys.argv[7] if len(sys.argv) > 7 else "3m"
speed = sys.argv[8] if len(sys.argv) > 8 else "max"
FAULTS = ("none", "analyze", "setting", "statistics", "jit", "collation", "extension")
LOST = {"random_page_cost": "1.1", "work_mem": "32MB"}
if fault not in FAULTS:
    sys.exit(f"{fault} is none of {', '.join(FAULTS)}")
urls = [version if "://" in version else server(rehearse, version) for version in (old, new)]
urls = [url.rpartition("/")[0] for url in urls]
admins = [Client(f"{url}/postgres") for url in urls]
TEMPLATE = f"{name}_template"


def create(url, admin, is_new):
    """Creates the template of a side, with the fault if it is the new one."""
    admin.query(f"DROP DATABASE IF EXISTS {name}")
    admin.query(f"DROP DATABASE IF EXISTS {TEMPLATE}")
    planted = fault if is_new else "none"
    locale = "LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C'" if planted == "collation" else ""
    admin.query(f"CREATE DATABASE {TEMPLATE} TEMPLATE template0 {locale}")
    out("psql", "-qX", "-v", "ON_ERROR_STOP=1", f"{url}/{TEMPLATE}", "-f", f"{HERE}/{name}.sql")
    client = Client(f"{url}/{TEMPLATE}")
    if planted == "statistics":
        for (extended,) in client.query("SELECT stxname FROM pg_statistic_ext"):
            client.query(f"DROP STATISTICS {extended}")
    if fault == "extension" and not is_new:
        client.query("CREATE EXTENSION citext")
    if fault in ("none", "extension"):
        client.query("SET default_statistics_target = 10000")
    client.query("VACUUM" if planted == "analyze" else "VACUUM ANALYZE")
    client.query("CHECKPOINT")
    client.close()


def settings(admin, values):
    for setting, value in values.items():
        admin.query(f"ALTER SYSTEM SET {setting} = '{value}'" if value else f"ALTER SYSTEM RESET {setting}")
    admin.query("SELECT pg_reload_conf()")


output = f"{directory}/{name}-{fault}-{old.split('://')[0]}-{new.split('://')[0]}.upgrade"
shutil.rmtree(output, ignore_errors=True)
for url, admin, is_new in zip(urls, admins, (False, True)):
    create(url, admin, is_new)
if fault == "setting":
    settings(admins[0], LOST)
# The workload may have been captured on the old server, whose database is a copy now.
hosts = [urllib.parse.unquote(url.rpartition("@")[2]).rpartition(":") for url in urls]
addresses = [f"{host}/.s.PGSQL.{port}" if host.startswith("/") else f"{host}:{port}" for host, _, port in hosts]
begun = time.monotonic()
try:
    command = [rehearse, "upgrade", f"{directory}/{name}.workload", "--from", f"{urls[0]}/{name}", "--target", f"{urls[1]}/{name}"]
    command += ["--template", TEMPLATE, "--method", "dump", "--within", within, "--speed", speed, "-o", output, "--json"]
    # The sessions of this script are open on the new server.
    command += ["--allow-captured-server", addresses[0], "--overwrite", addresses[1]]
    done = subprocess.run(command, capture_output=True, text=True)
finally:
    if fault == "setting":
        settings(admins[0], dict.fromkeys(LOST))
taken = time.monotonic() - begun
if not done.stdout:
    sys.exit(f"exit code {done.returncode}: {done.stderr}")
result = json.loads(done.stdout)
load = os.getloadavg()[0]
print(f"{name} {fault}, {result['from_version']} to {result['to_version']}: {result['decision']}, exit code {done.returncode}, "
    f"{taken:.0f} s, {result['blocks']} blocks, load {load:.0f}")
print(f"    work {json.dumps(result['work'])} effect {json.dumps(result['effect'])} verdict {result['verdict']}")
for reason in result["reasons"]:
    print(f"    reason: {reason}")
for remedy in result["remedies"]:
    print(f"    remedy: {remedy['check']}: {remedy['problem']} {remedy['remedy']} {remedy['statements'][:4]}")
for kind in ("slower", "suspected"):
    for one in result[kind][:6]:
        print(f"    {kind}: {one if isinstance(one, str) else json.dumps(one)[:300]}")
print(f"    {result['other_rows']} statements with other rows, {len(result['errors'])} errors changed, {len(result['slower'])} slower, "
    f"{len(result['suspected'])} suspected, {result['faster']} faster", flush=True)
for admin in admins:
    admin.query(f"DROP DATABASE IF EXISTS {name}")
    admin.query(f"DROP DATABASE {TEMPLATE}")
