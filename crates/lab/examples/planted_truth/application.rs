//! A generated application: its tables, its 22 statements, and the regressions that are planted in it.

use postgres::{Client, Error};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

/// Numbers of rows, chosen by a seed.
#[derive(Debug, Clone, Copy)]
pub struct Application {
    seed: u64,
    clients: i32,
    orders: i32,
    products: i32,
    batches: i32,
}

/// A regression that is planted, and the statements whose own time it makes longer, by a part of their text.
pub struct Plant {
    /// SQL that plants it.
    pub sql: &'static str,
    /// Parts of the statements' texts.
    pub statements: &'static [&'static str],
    /// Parts of the texts of statements that it may change too, depending on the numbers of rows. They are no innocents.
    pub may_change: &'static [&'static str],
    /// Whether it makes its statements at least twice as long on an idle machine.
    pub is_double: bool,
}

/// The planted regressions.
pub const PLANTS: [Plant; 5] = [
    Plant {
        // Index on a foreign key dropped.
        sql: "DROP INDEX orders_client",
        statements: &["from orders where client ="],
        may_change: &[],
        is_double: true,
    },
    Plant {
        // Index on a group dropped.
        sql: "DROP INDEX batch_grp",
        statements: &["from batch where grp ="],
        may_change: &[],
        is_double: true,
    },
    Plant {
        // Work_mem too small for a sort, which takes a tenth to a third longer, and for hash joins.
        sql: "ALTER ROLE CURRENT_USER SET work_mem = '64kB'",
        statements: &["order by total desc, placed"],
        may_change: &["select p.cat, sum", "select o.id, c.name"],
        is_double: false,
    },
    Plant {
        // Function's body slower.
        sql:
            "CREATE OR REPLACE FUNCTION price_of(wanted int) RETURNS numeric LANGUAGE plpgsql AS $$
              DECLARE found numeric; n int := 0;
              BEGIN
                SELECT price INTO found FROM product WHERE id = wanted;
                FOR i IN 1..20000 LOOP n := n + i % 7; END LOOP;
                RETURN found;
              END $$",
        statements: &["price_of("],
        may_change: &[],
        is_double: true,
    },
    Plant {
        // Trigger's body slower.
        sql: "CREATE OR REPLACE FUNCTION tag() RETURNS trigger LANGUAGE plpgsql AS $$
              DECLARE n int := 0;
              BEGIN
                FOR i IN 1..40000 LOOP n := n + i % 5; END LOOP;
                NEW.tag := upper(NEW.note);
                RETURN NEW;
              END $$",
        statements: &["into note"],
        may_change: &[],
        is_double: true,
    },
];

impl Application {
    /// Chooses an application by a seed.
    pub fn generate(seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Self {
            seed,
            clients: random.random_range(2_000..6_000),
            orders: random.random_range(30_000..80_000),
            products: random.random_range(1_000..4_000),
            batches: random.random_range(20_000..60_000),
        }
    }

    /// Creates its tables in an empty database.
    pub fn load(&self, client: &mut Client) -> Result<(), Error> {
        let Self {
            clients,
            orders,
            products,
            batches,
            ..
        } = self;
        client.batch_execute(&format!(
            "CREATE TABLE client (id int PRIMARY KEY, name text, region int, balance numeric, seen timestamptz);
             INSERT INTO client SELECT i, 'client ' || i, i % 50, i, now() FROM generate_series(1, {clients}) i;
             CREATE INDEX client_region ON client (region);
             CREATE TABLE product (id int PRIMARY KEY, cat int, sku text UNIQUE, price numeric, stock int);
             INSERT INTO product SELECT i, i % 40, 'sku-' || i, i % 97, 1000000 FROM generate_series(1, {products}) i;
             CREATE INDEX product_cat ON product (cat);
             CREATE TABLE orders (id int PRIMARY KEY, client int, placed timestamptz, status int, total numeric);
             INSERT INTO orders SELECT i, 1 + i * 7919 % {clients}, '2026-01-01'::timestamptz + i * interval '1 minute',
               i % 6, i % 1013 FROM generate_series(1, {orders}) i;
             CREATE INDEX orders_client ON orders (client);
             CREATE INDEX orders_placed ON orders (placed);
             CREATE TABLE item (id int PRIMARY KEY, orders int, product int, quantity int);
             INSERT INTO item SELECT i, 1 + i * 31 % {orders}, 1 + i * 17 % {products}, i % 9
               FROM generate_series(1, {orders} * 2) i;
             CREATE INDEX item_orders ON item (orders);
             CREATE TABLE batch (id int PRIMARY KEY, grp int, payload text);
             INSERT INTO batch SELECT i, i % 2000, repeat('x', 60) FROM generate_series(1, {batches}) i;
             CREATE INDEX batch_grp ON batch (grp);
             CREATE TABLE note (id int PRIMARY KEY, client int, note text, tag text);
             CREATE FUNCTION price_of(wanted int) RETURNS numeric LANGUAGE plpgsql AS
               $$ BEGIN RETURN (SELECT price FROM product WHERE id = wanted); END $$;
             CREATE FUNCTION tag() RETURNS trigger LANGUAGE plpgsql AS
               $$ BEGIN NEW.tag := upper(NEW.note); RETURN NEW; END $$;
             CREATE TRIGGER tag BEFORE INSERT ON note FOR EACH ROW EXECUTE FUNCTION tag();
             ANALYZE;"
        ))
    }

    /// Returns the actions of a session: a statement each, with its parameters, by weight.
    pub fn session(&self, number: u64) -> SessionActions {
        SessionActions {
            application: *self,
            random: Xoshiro256PlusPlus::seed_from_u64(self.seed << 20 | number),
            next_key: (number as i32 + 1) * 1_000_000,
        }
    }
}

/// Random actions of a session.
pub struct SessionActions {
    application: Application,
    random: Xoshiro256PlusPlus,
    next_key: i32,
}

/// Statements that read, with the number of their integer parameters.
const READS: [&str; 17] = [
    "select id, total from orders where client = $1",
    "select payload from batch where grp = $1",
    "select id, placed from orders where placed >= $1::int * interval '1 minute' + timestamptz '2026-01-01' order by total desc, placed limit 500 offset 1500",
    "select price_of($1)",
    "select name, balance from client where id = $1",
    "select id, name from client where region = $1 order by name limit 20",
    "select sku, price from product where id = $1",
    "select id, sku from product where cat = $1",
    "select sku, price, stock from product where sku = 'sku-' || $1::int",
    "select status, total from orders where id = $1",
    "select count(*) from orders where placed between timestamptz '2026-01-01' + $1::int * interval '1 minute' and timestamptz '2026-01-01' + ($1::int + 300) * interval '1 minute'",
    "select i.id, i.quantity, p.sku from item i join product p on p.id = i.product where i.orders = $1",
    "select o.id, c.name from orders o join client c on c.id = o.client where o.id between $1 and $1::int + 20",
    "select status, count(*), sum(total) from orders where id < $1 group by status",
    "select p.cat, sum(i.quantity) from item i join product p on p.id = i.product where i.orders between $1 and $1::int + 200 group by p.cat",
    "select max(placed) from orders where id > $1",
    "select payload from batch where id = $1",
];

/// How often each read is chosen. Those that read much are rare.
const WEIGHTS: [u32; 17] = [8, 6, 1, 8, 10, 4, 10, 4, 6, 10, 4, 8, 4, 1, 2, 1, 8];

impl SessionActions {
    /// Performs a random action.
    pub fn act(&mut self, client: &mut Client) -> Result<(), Error> {
        let Application {
            clients,
            orders,
            products,
            batches,
            ..
        } = self.application;
        match self.random.random_range(0..10) {
            0 => self.write(client),
            _ => {
                let which = self.weighted();
                let value = match which {
                    0 | 4 => self.random.random_range(1..=clients),
                    1 => self.random.random_range(0..2_000),
                    3 | 6 | 8 => self.random.random_range(1..=products),
                    5 => self.random.random_range(0..50),
                    7 => self.random.random_range(0..40),
                    13 => self.random.random_range(1..=5_000),
                    15 => self.random.random_range(orders - 2_000..orders),
                    16 => self.random.random_range(1..=batches),
                    2 => self.random.random_range(orders - 9_000..orders - 8_000),
                    _ => self.random.random_range(1..=orders - 400),
                };
                client.query(READS[which], &[&value]).map(drop)
            }
        }
    }

    fn weighted(&mut self) -> usize {
        let all: u32 = WEIGHTS.iter().sum();
        let mut left = self.random.random_range(0..all);
        for (which, weight) in WEIGHTS.iter().enumerate() {
            if left < *weight {
                return which;
            }
            left -= weight;
        }
        0
    }

    fn write(&mut self, client: &mut Client) -> Result<(), Error> {
        self.next_key += 1;
        let key = self.next_key;
        let owner = self.random.random_range(1..=self.application.clients);
        let product = self.random.random_range(1..=self.application.products);
        match self.random.random_range(0..5) {
            0 | 1 => client.execute(
                "insert into note (id, client, note) values ($1, $2, 'called')",
                &[&key, &owner],
            ),
            2 => client.execute(
                "insert into orders values ($1, $2, timestamptz '2027-01-01', 1, 5)",
                &[&key, &owner],
            ),
            3 => client.execute(
                "update client set balance = balance + 1 where id = $1",
                &[&owner],
            ),
            _ => client.execute(
                "update product set stock = stock - 1 where id = $1",
                &[&product],
            ),
        }
        .map(drop)
    }
}
