-- A shop that is large enough for a planner to have a choice, and the same each time.
CREATE TABLE customers (id int PRIMARY KEY, name text NOT NULL, region int NOT NULL);
CREATE TABLE orders (
    id int PRIMARY KEY,
    customer int NOT NULL,
    status text NOT NULL,
    placed date NOT NULL,
    total numeric NOT NULL DEFAULT 0
) WITH (fillfactor = 90);
INSERT INTO customers SELECT n, 'customer ' || n, n % 20 FROM generate_series(1, 5000) n;
INSERT INTO orders
    SELECT n, 1 + (n::bigint * 7919 % 5000)::int, CASE n % 50 WHEN 0 THEN 'open' ELSE 'done' END,
           date '2026-01-01' + n % 365, n % 1000
    FROM generate_series(1, 100000) n;
CREATE INDEX orders_customer ON orders (customer);
CREATE INDEX orders_open ON orders (placed) WHERE status = 'open';
CREATE TABLE events (at date NOT NULL, what text NOT NULL) PARTITION BY RANGE (at);
CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE events_2 PARTITION OF events FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
CREATE TABLE events_3 PARTITION OF events FOR VALUES FROM ('2026-03-01') TO ('2026-05-01');
INSERT INTO events SELECT date '2026-01-01' + n % 90, 'event ' || n FROM generate_series(1, 9000) n;
CREATE INDEX events_at ON events (at);
VACUUM ANALYZE;
