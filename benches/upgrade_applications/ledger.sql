-- Ledger and event store: partial indexes, ranges of times, window functions, columns that depend on each other.
CREATE FUNCTION draw(bigint, bigint) RETURNS float8 IMMUTABLE LANGUAGE sql
    AS 'SELECT (hashint8extended($1, $2) & 1073741823) / 1073741824.0';
CREATE TABLE branches (id int PRIMARY KEY, region int NOT NULL, city int NOT NULL, name text NOT NULL);
INSERT INTO branches SELECT i, i / 25, i / 5, 'Branch ' || i FROM generate_series(1, 1000) i;
CREATE TABLE accounts (id int PRIMARY KEY, branch int NOT NULL REFERENCES branches, region int NOT NULL, city int NOT NULL,
    currency char(3) NOT NULL, kind int NOT NULL, product int NOT NULL, opened date NOT NULL, closed date, balance numeric(14, 2) NOT NULL);
INSERT INTO accounts SELECT i, b, b / 25, b / 5, (ARRAY['EUR', 'USD', 'GBP', 'CHF'])[1 + b / 25 % 4], k, k * 100 + k % 7,
    '2015-01-01'::date + i / 30, CASE WHEN draw(i, 1) < 0.1 THEN '2025-01-01'::date + i % 365 END, round((draw(i, 2) ^ 4 * 100000)::numeric, 2)
    FROM (SELECT i, (1 + floor(draw(i, 3) ^ 2 * 1000))::int AS b, floor(draw(i, 4) ^ 2 * 20)::int AS k FROM generate_series(1, 100000) i) s;
CREATE INDEX accounts_branch ON accounts (branch);
CREATE INDEX accounts_city ON accounts (region, city);
CREATE INDEX accounts_open ON accounts (kind, opened) WHERE closed IS NULL;
CREATE TABLE transfers (id bigint PRIMARY KEY, account int NOT NULL REFERENCES accounts, counter int NOT NULL, booked timestamptz NOT NULL,
    amount numeric(12, 2) NOT NULL, state text NOT NULL, kind int NOT NULL, subkind int NOT NULL, reason int NOT NULL);
INSERT INTO transfers SELECT i, 1 + floor(draw(i, 5) ^ 2 * 100000), 1 + floor(draw(i, 6) * 100000),
    '2025-01-01 00:00+00'::timestamptz + i * interval '52 seconds', round((draw(i, 7) ^ 3 * 5000)::numeric, 2),
    CASE WHEN i > 594000 THEN 'pending' WHEN draw(i, 8) < 0.01 THEN 'failed' ELSE 'booked' END, k, k * 10 + k % 3, k * 100 + k % 9
    FROM (SELECT i, floor(draw(i, 9) ^ 1.2 * 50)::int AS k FROM generate_series(1, 600000) i) s;
CREATE INDEX transfers_account ON transfers (account, booked);
CREATE INDEX transfers_booked ON transfers (booked);
CREATE INDEX transfers_pending ON transfers (booked) WHERE state = 'pending';
CREATE INDEX transfers_failed ON transfers (account) WHERE state = 'failed';
CREATE INDEX transfers_kind ON transfers (kind, booked);
CREATE TABLE events (stream int NOT NULL, version int NOT NULL, at timestamptz NOT NULL, type text NOT NULL, body jsonb NOT NULL,
    PRIMARY KEY (stream, version));
INSERT INTO events SELECT 1 + i / 10, i % 10, '2025-01-01 00:00+00'::timestamptz + i * interval '100 seconds',
    (ARRAY['opened', 'paid', 'paid', 'paid', 'held', 'released', 'noted', 'closed'])[1 + floor(draw(i, 10) * 8)],
    jsonb_build_object('amount', i % 977, 'by', 'user ' || i % 400) FROM generate_series(0, 299999) i;
CREATE INDEX events_at ON events USING brin (at);
CREATE INDEX events_closed ON events (at) WHERE type = 'closed';
CREATE TABLE holds (id int PRIMARY KEY, account int NOT NULL, amount numeric(12, 2) NOT NULL, valid tstzrange NOT NULL, released boolean NOT NULL);
INSERT INTO holds SELECT i, 1 + floor(draw(i, 11) * 100000), i % 500, tstzrange('2025-01-01 00:00+00'::timestamptz + i * interval '9 minutes',
    '2025-01-01 00:00+00'::timestamptz + i * interval '9 minutes' + draw(i, 12) * interval '5 days'), i < 55000 FROM generate_series(1, 60000) i;
CREATE INDEX holds_account ON holds (account) WHERE NOT released;
CREATE INDEX holds_valid ON holds USING gist (valid);
CREATE TABLE daily (account int NOT NULL, day date NOT NULL, balance numeric(14, 2) NOT NULL, PRIMARY KEY (account, day));
INSERT INTO daily SELECT a, '2025-01-01'::date + d, a % 1000 + d FROM generate_series(1, 100000, 20) a, generate_series(0, 59) d;
CREATE STATISTICS accounts_places (ndistinct, dependencies) ON branch, region, city, currency FROM accounts;
CREATE STATISTICS accounts_kinds (ndistinct, dependencies, mcv) ON kind, product FROM accounts;
CREATE STATISTICS transfers_kinds (ndistinct, dependencies, mcv) ON kind, subkind, reason FROM transfers;
DROP FUNCTION draw;
