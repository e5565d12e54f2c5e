//! The pure part of the traffic: frequencies of actions, and generated values.

use crate::shop::tables::CUSTOMERS;

/// Kind of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The web shop: one long session.
    Web,
    /// The app: connects for a few pages, and disconnects.
    App,
    /// Packs parcels.
    Warehouse,
    /// Runs expensive queries, rarely.
    Reports,
}

impl Role {
    /// Returns the kind of a program. Of sixteen programs, ten are the web shop, four the app, and two are background
    /// workers.
    pub(super) fn of(number: usize) -> Self {
        match number % 16 {
            7 => Role::Warehouse,
            15 => Role::Reports,
            5 | 6 | 13 | 14 => Role::App,
            _ => Role::Web,
        }
    }

    pub(super) fn application(self) -> &'static str {
        match self {
            Role::Web => "shop-web",
            Role::App => "shop-app",
            Role::Warehouse => "warehouse",
            Role::Reports => "reports",
        }
    }
}

/// An action of a visitor of the shop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    Category,
    Product,
    Search,
    Tags,
    History,
    OlderHistory,
    Order,
    AbandonedOrder,
    Profile,
    Registration,
    Mistake,
}

/// Frequency of each page, in per cent.
pub(super) const PAGES: [(Page, u32); 11] = [
    (Page::Category, 17),
    (Page::Product, 19),
    (Page::Search, 3),
    (Page::Tags, 6),
    (Page::History, 26),
    (Page::OlderHistory, 10),
    (Page::Order, 7),
    (Page::AbandonedOrder, 2),
    (Page::Profile, 6),
    (Page::Registration, 2),
    (Page::Mistake, 2),
];

/// Returns the page at a position from 0 to 99.
pub(super) fn page_at(place: u32) -> Page {
    let mut below = 0;
    for (page, share) in PAGES {
        below += share;
        if place < below {
            return page;
        }
    }
    unreachable!("the shares of the pages are 100 in all, and {place} is below")
}

/// Generates keys of new rows. They differ from those of other programs and of the initial rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewKeys {
    program: i64,
    given: i64,
}

impl NewKeys {
    pub(super) fn of(program: usize) -> Self {
        Self {
            program: program as i64,
            given: 0,
        }
    }

    /// Lower bound of new keys, above all initial keys.
    const FIRST: i64 = 1_000_000_000;
    const PER_PROGRAM: i64 = 1_000_000;

    pub(super) fn next(&mut self) -> i64 {
        self.given += 1;
        assert!(
            self.given < Self::PER_PROGRAM,
            "the demo is never that long"
        );
        Self::FIRST + self.program * Self::PER_PROGRAM + self.given
    }
}

/// Derives a UUID from a key, in SQL's text form.
pub(super) fn reference_of(key: i64) -> String {
    let scattered = (key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        scattered >> 32,
        scattered >> 16 & 0xffff,
        scattered >> 4 & 0xfff,
        scattered & 0xfff,
        key
    )
}

/// Returns a customer that only this program changes. Customers are assigned to programs in turn.
pub(super) fn own_customer(program: usize, programs: usize, pick: i64) -> i64 {
    let (program, programs) = (program as i64, programs as i64);
    let own = (CUSTOMERS - 1 - program) / programs + 1;
    1 + program + programs * pick.rem_euclid(own)
}

/// Quotes a string literal, for `standard_conforming_strings`.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Customers' notes with characters that are difficult to parse from a log.
pub(super) const NOTES: [&str; 12] = [
    "",
    " ",
    "Leave it at O'Malley's, don't ring",
    "two\nlines",
    "a\ttab, and\n\ta line that begins with one",
    "C:\\temp\\new\\",
    "', $2 = 'x",
    "$1 = '5', $2 = NULL",
    "NULL",
    "naïve café, Grüße, 日本語, ☕️",
    "ERROR:  not one\nDETAIL:  parameters: $1 = 'none'",
    "for the café''s \"best\" customer; -- /* really */ 100 %",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shop::tables::ORDERS;
    use std::collections::HashSet;

    #[test]
    fn page_frequencies_sum_to_one_hundred() {
        assert_eq!(PAGES.iter().map(|(_, share)| share).sum::<u32>(), 100);
        for (page, share) in PAGES {
            let visits = (0..100).filter(|&place| page_at(place) == page).count();
            assert_eq!(visits, share as usize, "{page:?}");
        }
    }

    #[test]
    fn new_keys_are_unique_across_programs() {
        let mut seen = HashSet::new();
        for program in 0..50 {
            let mut keys = NewKeys::of(program);
            for _ in 0..100 {
                let key = keys.next();
                assert!(key > ORDERS.max(CUSTOMERS));
                assert!(seen.insert(key));
            }
        }
        let references: HashSet<_> = seen.iter().map(|&key| reference_of(key)).collect();
        assert_eq!(references.len(), seen.len());
        assert!(
            references.iter().all(|text| text.len() == 36),
            "{references:?}"
        );
    }

    #[test]
    fn own_customer_belongs_to_one_program() {
        for programs in [1, 7, 24] {
            let mut owner = HashSet::new();
            for program in 0..programs {
                let own: HashSet<_> = (0..CUSTOMERS)
                    .map(|pick| own_customer(program, programs, pick))
                    .collect();
                for customer in own {
                    assert!((1..=CUSTOMERS).contains(&customer));
                    assert!(owner.insert(customer), "{customer} has two owners");
                }
            }
            assert_eq!(owner.len() as i64, CUSTOMERS);
        }
    }

    #[test]
    fn role_of_twenty_four_programs_covers_all_roles() {
        let count = |role| (0..24).filter(|&number| Role::of(number) == role).count();
        assert_eq!(count(Role::Web), 15);
        assert_eq!(count(Role::App), 6);
        assert_eq!(count(Role::Warehouse), 2);
        assert_eq!(count(Role::Reports), 1);
    }

    #[test]
    fn quoted_escapes_quotes() {
        assert_eq!(quoted("it's '' \\"), "'it''s '''' \\'");
    }
}
