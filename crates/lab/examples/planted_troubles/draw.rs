//! Names and numbers of a generated application, drawn by a seed.

use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

/// Nouns of many domains, for tables.
const NOUNS: [&str; 64] = [
    "parcel",
    "invoice",
    "patient",
    "lecture",
    "vehicle",
    "ticket",
    "harvest",
    "sensor",
    "voyage",
    "tenant",
    "recipe",
    "auction",
    "shipment",
    "policy",
    "donor",
    "exhibit",
    "flight",
    "meter",
    "apartment",
    "contract",
    "ledger",
    "basket",
    "referee",
    "lesson",
    "machine",
    "permit",
    "ranger",
    "session",
    "survey",
    "tariff",
    "vendor",
    "warehouse",
    "barrel",
    "canal",
    "dossier",
    "engine",
    "filing",
    "garden",
    "hangar",
    "island",
    "journal",
    "kitchen",
    "lantern",
    "mission",
    "novel",
    "orchard",
    "pension",
    "quarry",
    "rebate",
    "stable",
    "tunnel",
    "upload",
    "violin",
    "workshop",
    "yield_report",
    "zone",
    "claim_form",
    "deposit",
    "episode",
    "fixture",
    "grant_award",
    "hostel",
    "intake",
    "junction",
];

/// Column names by their role.
const REFERENCES: [&str; 12] = [
    "owner",
    "holder",
    "branch",
    "depot",
    "agent",
    "carrier",
    "issuer",
    "region_code",
    "author",
    "station",
    "crew",
    "dealer",
];
const STATES: [&str; 8] = [
    "state", "stage", "phase", "standing", "progress", "outcome", "grade", "category",
];
const TIMES: [&str; 10] = [
    "recorded",
    "opened",
    "arrived",
    "booked",
    "received",
    "noted_at",
    "logged_at",
    "filed",
    "happened",
    "entered_on",
];
const AMOUNTS: [&str; 8] = [
    "amount",
    "weight",
    "fee",
    "quantity",
    "score",
    "volume",
    "charge",
    "duration_s",
];
const TEXTS: [&str; 10] = [
    "remark",
    "title",
    "label",
    "caption",
    "reference_no",
    "nickname",
    "mail",
    "handle",
    "tagline",
    "street",
];
const DOCUMENTS: [&str; 6] = [
    "details",
    "attributes",
    "payload",
    "extra",
    "profile",
    "facts",
];

/// Role of a column.
#[derive(Debug, Clone, Copy)]
pub enum Role {
    /// Refers to a row of another table, or to one of many groups.
    Reference,
    /// One of few values.
    State,
    /// A moment.
    Time,
    /// A number.
    Amount,
    /// A text.
    Text,
    /// A document or a list.
    Document,
}

/// Source of random names and numbers. No name is given twice.
pub struct Draw {
    random: Xoshiro256PlusPlus,
    tables: Vec<&'static str>,
    columns: [Vec<&'static str>; 6],
}

impl Draw {
    /// Creates the source of an application of a kind.
    pub fn new(kind: &str, seed: u64) -> Self {
        let mixed = kind.bytes().fold(seed, |mixed, byte| {
            mixed.wrapping_mul(31).wrapping_add(u64::from(byte))
        });
        let mut random = Xoshiro256PlusPlus::seed_from_u64(mixed);
        let mut shuffled = |names: &[&'static str]| {
            let mut names = names.to_vec();
            names.shuffle(&mut random);
            names
        };
        Self {
            tables: shuffled(&NOUNS),
            columns: [
                shuffled(&REFERENCES),
                shuffled(&STATES),
                shuffled(&TIMES),
                shuffled(&AMOUNTS),
                shuffled(&TEXTS),
                shuffled(&DOCUMENTS),
            ],
            random,
        }
    }

    /// Draws the name of a table.
    pub fn table(&mut self) -> &'static str {
        self.tables.pop().expect("enough names of tables")
    }

    /// Draws the name of a column.
    pub fn column(&mut self, role: Role) -> &'static str {
        let names = &mut self.columns[role as usize];
        names.pop().expect("enough names of columns")
    }

    /// Draws a number from `low` to `high`, without `high`.
    pub fn number(&mut self, low: u64, high: u64) -> u64 {
        self.random.random_range(low..high)
    }

    /// Draws one of these values.
    pub fn choose<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.random.random_range(0..values.len())]
    }

    /// Draws definitions of columns that no statement of the trouble uses, and their values as SQL of the row `i`.
    pub fn filler(&mut self) -> (String, String) {
        let width = self.number(1, 4);
        let (text, number) = (self.number(100, 999), self.number(3, 50));
        (
            format!("pad_{text} text, num_{number} int"),
            format!("repeat(md5(i::text), {width}), i % {number}"),
        )
    }
}
