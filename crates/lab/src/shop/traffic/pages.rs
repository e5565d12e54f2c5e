//! The statements of the shop's programs.

use super::choices;
use super::choices::{NOTES, Page, page_at, quoted, reference_of};
use super::{Program, Result, UnexpectedOutcome};
use crate::shop::tables::{CATEGORIES, CUSTOMERS, ORDERS, PRODUCTS};
use postgres::Row;
use postgres::error::SqlState;
use postgres::types::Type;
use rand::RngExt;

const HISTORY: &str = "SELECT id, reference, status, total, placed_at
FROM orders
WHERE customer_id = $1
ORDER BY placed_at DESC
LIMIT 20";
const OLDER_HISTORY: &str = "SELECT id, reference, status, total, placed_at
FROM orders
WHERE customer_id = $1 AND placed_at < $2::text::timestamptz
ORDER BY placed_at DESC
LIMIT $3";
const ITEMS: &str = "SELECT i.line, p.name, i.quantity, i.unit_price
FROM order_items i JOIN products p ON p.id = i.product_id
WHERE i.order_id = $1
ORDER BY i.line";
const NEW_ORDER: &str =
    "INSERT INTO orders (id, reference, customer_id, status, total, gift, message)
VALUES ($1, $2::text::uuid, $3, 'open', $4::text::numeric, $5, $6)";
const NEW_ITEM: &str = "INSERT INTO order_items (order_id, line, product_id, quantity, unit_price)
SELECT $1, $2, id, $4, price FROM products WHERE id = $3";
const TAKE_STOCK: &str = "UPDATE products SET stock = stock - $2 WHERE id = $1";
const NEW_CUSTOMER: &str =
    "INSERT INTO customers (id, email, full_name, phone, company, credit_limit, preferences, note)
VALUES ($1, $2, $3, $4, $5, $6::text::numeric, $7::text::jsonb, $8)";
const TAKE_PARCEL: &str = "UPDATE parcels SET state = 'taken', taken_by = $1
WHERE id = (SELECT id FROM parcels WHERE state = 'waiting' ORDER BY id LIMIT 1
            FOR UPDATE SKIP LOCKED)
RETURNING id, order_id";
const SHIP_ORDER: &str = "UPDATE orders SET status = 'shipped', shipped_at = now()
WHERE id IN (SELECT order_id FROM parcels WHERE state = 'taken' AND taken_by = $1)";
const PACK_PARCEL: &str = "UPDATE parcels SET state = 'packed', packed_at = now()
WHERE state = 'taken' AND taken_by = $1";

impl Program<'_> {
    fn product(&mut self) -> i32 {
        // Half of the interest goes to a twentieth of the products.
        let last = if self.random.random_bool(0.5) {
            PRODUCTS / 20
        } else {
            PRODUCTS
        };
        self.random.random_range(1..=last)
    }

    fn customer(&mut self) -> i64 {
        self.random.random_range(1..=CUSTOMERS)
    }

    fn own_customer(&mut self) -> i64 {
        let pick = self.random.random_range(0..CUSTOMERS);
        choices::own_customer(self.number, self.programs, pick)
    }

    fn note(&mut self) -> &'static str {
        NOTES[self.random.random_range(0..NOTES.len())]
    }

    pub(super) fn visit(&mut self) -> Result<()> {
        match page_at(self.random.random_range(0..100)) {
            Page::Category => self.category(),
            Page::Product => self.product_page(),
            Page::Search => self.search(),
            Page::Tags => self.tags(),
            Page::History => self.history(),
            Page::OlderHistory => self.older_history(),
            Page::Order => self.order(),
            Page::AbandonedOrder => self.abandoned_order(),
            Page::Profile => self.profile(),
            Page::Registration => self.registration(),
            Page::Mistake => self.provoke_error(),
        }
    }

    fn category(&mut self) -> Result<()> {
        let category = self.random.random_range(0..CATEGORIES);
        let price_limit = self.random.random_range(20..200);
        self.send_simple(&format!(
            "/* shop: category */ SELECT id, name, price, stock > 0 AS available\n\
             \tFROM products -- the cheapest first\n\
             \tWHERE category = 'category {category}' AND price <= {price_limit}.99\n\
             \tORDER BY price, id LIMIT 24"
        ))?;
        Ok(())
    }

    fn product_page(&mut self) -> Result<()> {
        let product = self.product();
        self.execute_named(
            "SELECT id, sku, name, price, stock, attributes, active FROM products WHERE id = $1",
            &[&product],
        )?;
        self.think(4);
        let active = true;
        self.execute_unnamed(
            "SELECT o.id, o.name, o.price FROM products p
JOIN products o ON o.category = p.category AND o.price >= p.price AND o.id <> p.id
WHERE p.id = $1 AND o.active = $2 ORDER BY o.price, o.id LIMIT $3",
            &[
                (&product, Type::INT4),
                (&active, Type::BOOL),
                (&4_i64, Type::INT8),
            ],
        )?;
        Ok(())
    }

    fn search(&mut self) -> Result<()> {
        const WORDS: [&str; 7] = ["lamp", "SILENT clock", "o'", "%", "_x\\", "größe", "kettle"];
        let word = WORDS[self.random.random_range(0..WORDS.len())];
        self.execute_once(
            "SELECT id, name, price FROM products WHERE name ILIKE '%' || $1 || '%' ORDER BY id LIMIT 20",
            &[&word],
        )?;
        Ok(())
    }

    fn tags(&mut self) -> Result<()> {
        let tag = self.random.random_range(0..50);
        let wanted = format!("{{tag{tag},\"sale\"}}");
        self.execute_named(
            "SELECT id, name, price, tags FROM products WHERE tags @> $1::text::text[] ORDER BY id LIMIT 50",
            &[&wanted],
        )?;
        Ok(())
    }

    fn history(&mut self) -> Result<()> {
        let customer = self.customer();
        self.driven.histories += 1;
        let orders = if self.random.random_bool(0.6) {
            self.execute_named(HISTORY, &[&customer])?
        } else {
            self.execute_unnamed(HISTORY, &[(&customer, Type::INT8)])?
        };
        // Some visitors open the newest order.
        if let Some(newest) = orders.first()
            && self.random.random_bool(0.3)
        {
            let order: i64 = newest.get(0);
            self.think(5);
            self.execute_named(ITEMS, &[&order])?;
        }
        Ok(())
    }

    fn older_history(&mut self) -> Result<()> {
        let customer = self.customer();
        self.driven.histories += 1;
        self.execute_unnamed(
            OLDER_HISTORY,
            &[
                (&customer, Type::INT8),
                (&"2024-07-01 00:00:00+00", Type::TEXT),
                (&10_i64, Type::INT8),
            ],
        )?;
        Ok(())
    }

    fn insert_order(&mut self, customer: i64) -> Result<i64> {
        let order = self.keys.next();
        let gift = self.random.random_bool(0.2);
        let message = gift.then(|| self.note());
        let total = format!("{}.{:02}", order % 500 + 1, order % 100);
        self.execute_named(
            NEW_ORDER,
            &[
                &order,
                &reference_of(order),
                &customer,
                &total,
                &gift,
                &message,
            ],
        )?;
        Ok(order)
    }

    fn order(&mut self) -> Result<()> {
        let customer = self.own_customer();
        let mut products: Vec<i32> = (0..self.random.random_range(1..=3))
            .map(|_| self.product())
            .collect();
        products.sort_unstable();
        products.dedup();

        self.send_simple("BEGIN")?;
        let order = self.insert_order(customer)?;
        for (line, product) in (1_i32..).zip(products) {
            self.think(2);
            let quantity = self.random.random_range(1..=3);
            self.execute_named(NEW_ITEM, &[&order, &line, &product, &quantity])?;
            self.execute_named(TAKE_STOCK, &[&product, &quantity])?;
        }
        self.think(3);
        let last_order = format!("{{\"last order\": {order}, \"text\": \"it's \\\"new\\\"\"}}");
        self.execute_unnamed(
            "UPDATE customers SET preferences = preferences || $2::text::jsonb WHERE id = $1",
            &[(&customer, Type::INT8), (&last_order, Type::TEXT)],
        )?;
        self.send_simple("COMMIT")?;
        Ok(())
    }

    fn abandoned_order(&mut self) -> Result<()> {
        let customer = self.own_customer();
        self.send_simple("BEGIN ISOLATION LEVEL REPEATABLE READ")?;
        let order = self.insert_order(customer)?;
        self.think(4);
        self.execute_named(NEW_ITEM, &[&order, &1_i32, &1_i32, &1_i32])?;
        self.think(10);
        self.send_simple("ROLLBACK")?;
        Ok(())
    }

    fn profile(&mut self) -> Result<()> {
        let customer = self.own_customer();
        let note = self.note();
        if self.random.random_bool(0.3) {
            // Two statements in one message, with their literals.
            self.send_simple(&format!(
                "UPDATE customers SET note = {} WHERE id = {customer};\n\
                 SELECT full_name, note FROM customers WHERE id = {customer};",
                quoted(note)
            ))?;
            return Ok(());
        }
        let phone = self.random.random_bool(0.5).then(|| format!("0{customer}"));
        self.execute_unnamed(
            "UPDATE customers SET note = $2, phone = $3, company = $4 WHERE id = $1",
            &[
                (&customer, Type::INT8),
                (&note, Type::TEXT),
                (&phone, Type::TEXT),
                (&(customer % 7 == 0), Type::BOOL),
            ],
        )?;
        Ok(())
    }

    fn insert_customer(&mut self, email: &str) -> Result<Vec<Row>, postgres::Error> {
        let customer = self.keys.next();
        let name = "Zoë D'Arc";
        let phone: Option<&str> = None;
        let preferences = "{\"newsletter\": null}";
        let note = self.note();
        self.execute_named(
            NEW_CUSTOMER,
            &[
                &customer,
                &email,
                &name,
                &phone,
                &false,
                &"99.90",
                &preferences,
                &note,
            ],
        )
    }

    fn registration(&mut self) -> Result<()> {
        let email = format!("new{}@example.org", self.keys.next());
        self.insert_customer(&email)?;
        Ok(())
    }

    /// Sends a statement that must fail.
    fn provoke_error(&mut self) -> Result<()> {
        match self.random.random_range(0..7) {
            0 => {
                let outcome = self.insert_customer("customer1@example.com");
                self.expect_error(&SqlState::UNIQUE_VIOLATION, outcome)
            }
            1 => {
                let outcome = self
                    .send_simple("SELECT total / (gift::int - gift::int) FROM orders WHERE id = 1");
                self.expect_error(&SqlState::DIVISION_BY_ZERO, outcome)
            }
            2 => {
                let outcome = self.send_simple("SELEC name\nFROM products\nWHERE name = 'it''s'");
                self.expect_error(&SqlState::SYNTAX_ERROR, outcome)
            }
            3 => {
                let customer = self.customer();
                let outcome = self.execute_once(
                    "SELECT product_id FROM wishes WHERE customer_id = $1",
                    &[&customer],
                );
                self.expect_error(&SqlState::UNDEFINED_TABLE, outcome)
            }
            4 => {
                let outcome = self.execute_named(
                    "SELECT name FROM products WHERE id = $1::text::integer",
                    &[&"12'; DROP TABLE products; --"],
                );
                self.expect_error(&SqlState::INVALID_TEXT_REPRESENTATION, outcome)
            }
            5 => {
                let order = -self.keys.next();
                let outcome = self.execute_named(NEW_ITEM, &[&order, &1_i32, &2_i32, &1_i32]);
                self.expect_error(&SqlState::FOREIGN_KEY_VIOLATION, outcome)
            }
            _ => self.order_beyond_stock(),
        }
    }

    /// Provokes a failure within a transaction, after which all statements fail until it is rolled back.
    fn order_beyond_stock(&mut self) -> Result<()> {
        let customer = self.own_customer();
        self.send_simple("BEGIN")?;
        self.insert_order(customer)?;
        self.think(3);
        let product = self.product();
        let outcome = self.execute_named(TAKE_STOCK, &[&product, &1_000_000_i32]);
        self.expect_error(&SqlState::CHECK_VIOLATION, outcome)?;
        let outcome = self.send_simple("SELECT 'too late'");
        self.expect_error(&SqlState::IN_FAILED_SQL_TRANSACTION, outcome)?;
        self.think(3);
        self.send_simple("ROLLBACK")?;
        Ok(())
    }

    pub(super) fn pack(&mut self) -> Result<()> {
        let packer = format!("packer {}", self.number);
        self.send_simple("BEGIN")?;
        let taken = self.execute_named(TAKE_PARCEL, &[&packer])?;
        if taken.is_empty() {
            return Err(UnexpectedOutcome::NoParcel);
        }
        self.think(15);
        self.execute_named(SHIP_ORDER, &[&packer])?;
        self.execute_named(PACK_PARCEL, &[&packer])?;
        self.send_simple("COMMIT")?;
        Ok(())
    }

    pub(super) fn report(&mut self) -> Result<()> {
        self.send_simple("BEGIN READ ONLY")?;
        self.send_simple(
            "SELECT p.category, sum(i.quantity) AS pieces, sum(i.quantity * i.unit_price) AS turnover
FROM order_items i
JOIN products p ON p.id = i.product_id
GROUP BY p.category
ORDER BY turnover DESC",
        )?;
        self.think(30);
        self.send_simple(
            "PREPARE months (text) AS SELECT date_trunc('month', placed_at) AS month, count(*), sum(total)
FROM orders WHERE status = $1 GROUP BY 1 ORDER BY 1",
        )?;
        self.send_simple("EXECUTE months ('shipped')")?;
        self.send_simple("DEALLOCATE months")?;
        self.send_simple("COMMIT")?;
        // Recent orders, found by key: the newest of the initial orders.
        let from = ORDERS - self.random.random_range(10..100);
        self.execute_once(
            "SELECT id, total FROM orders WHERE id BETWEEN $1 AND $2 ORDER BY total DESC LIMIT 5",
            &[&from, &ORDERS],
        )?;
        Ok(())
    }
}
