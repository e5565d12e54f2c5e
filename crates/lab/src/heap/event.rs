//! Generates raw events.

use super::definition::literal;

/// Types of raw events.
pub(super) const KINDS: [&str; 4] = ["click", "submit", "change", "pageview"];

/// Pages of a customer's site.
pub(super) const PATHS: [&str; 25] = [
    "/login",
    "/signup",
    "/",
    "/pricing",
    "/cart",
    "/checkout",
    "/checkout/address",
    "/checkout/payment",
    "/checkout/done",
    "/search",
    "/products",
    "/products/new",
    "/products/sale",
    "/account",
    "/account/orders",
    "/account/settings",
    "/account/password",
    "/help",
    "/help/contact",
    "/help/returns",
    "/blog",
    "/about",
    "/jobs",
    "/terms",
    "/logout",
];

/// A raw event: one interaction of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Number of the customer whose site it happened on.
    pub customer: u32,
    /// Unique number.
    pub id: u64,
    /// Number of the user.
    pub user: u64,
    /// Number of the user's visit.
    pub visit: u64,
    /// Time of day, in milliseconds.
    pub at_ms: u64,
    /// Type of the event.
    pub kind: &'static str,
    /// Number of the page.
    page: usize,
    /// Number of the page's element.
    element: u64,
    /// A property.
    pub plan: &'static str,
}

impl Event {
    /// Returns the event as a row in parentheses.
    pub fn row(&self) -> String {
        let hierarchy = match self.kind {
            "pageview" => "NULL".to_owned(),
            kind => literal(&format!(
                "@html;@body;@div;#page-{}-of-{};@main;@form;.wide;@button;.primary;.{kind}-{}",
                self.page, self.customer, self.element
            )),
        };
        let (seconds, ms) = (self.at_ms / 1_000, self.at_ms % 1_000);
        format!(
            "({}, {}, {}, '2026-01-01 {:02}:{:02}:{:02}.{ms:03}+00', '{}', '{}', {hierarchy}, '{{\"plan\": \"{}\", \"browser\": \"Firefox\"}}')",
            self.id,
            self.user,
            self.visit,
            seconds / 3_600,
            seconds / 60 % 60,
            seconds % 60,
            self.kind,
            PATHS[self.page],
            self.plan
        )
    }
}

/// An endless stream of events, the same for the same seed (SplitMix64).
#[derive(Debug, Clone)]
pub struct Events {
    state: u64,
    next_id: u64,
    customers: u32,
    /// The first customer of a partition, and the distance to the next.
    first: u32,
    step: u32,
    users: u64,
}

impl Events {
    /// Generates events of the given number of customers. Event numbers and the random sequence begin at `first_id`.
    pub fn new(customers: u32, first_id: u64) -> Self {
        Events {
            state: first_id.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d,
            next_id: first_id,
            customers,
            first: 0,
            step: 1,
            users: 200,
        }
    }

    /// Restricts the stream to one of `partitions` partitions. Each customer belongs to one, and there are at least
    /// as many customers.
    pub fn of_partition(self, partition: u32, partitions: u32) -> Self {
        Events {
            customers: (self.customers - partition).div_ceil(partitions),
            first: partition,
            step: partitions,
            ..self
        }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit.max(1)
    }

    /// Generates the next event of a customer.
    pub fn of(&mut self, customer: u32) -> Event {
        let id = self.next_id;
        self.next_id += 1;
        let user = self.below(self.users);
        Event {
            customer,
            id,
            user,
            visit: user * 10 + self.below(10),
            at_ms: id * 7 % 86_400_000,
            kind: KINDS[self.below(KINDS.len() as u64) as usize],
            page: self.below(PATHS.len() as u64) as usize,
            element: self.below(10),
            plan: if self.below(3) == 0 { "pro" } else { "free" },
        }
    }
}

impl Iterator for Events {
    type Item = Event;

    /// Generates the next event of a random customer.
    fn next(&mut self) -> Option<Event> {
        let chosen = self.below(u64::from(self.customers)) as u32;
        Some(self.of(self.first + chosen * self.step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn events_cover_all_customers_and_repeat_for_the_same_seed() {
        let of = |first| Events::new(20, first).take(2_000).collect::<Vec<_>>();
        assert_eq!(of(5), of(5));
        assert_ne!(of(5), of(6));
        let customers: BTreeSet<u32> = of(5).iter().map(|event| event.customer).collect();
        assert_eq!(customers.len(), 20);
        let ids: BTreeSet<u64> = of(5).iter().map(|event| event.id).collect();
        assert_eq!((ids.len(), ids.first()), (2_000, Some(&5)));
        let of_types: BTreeSet<&str> = of(5).iter().map(|event| event.kind).collect();
        assert_eq!(of_types.len(), KINDS.len());
    }

    #[test]
    fn partitions_are_disjoint_and_cover_all_customers() {
        let of = |partition| -> BTreeSet<u32> {
            let events = Events::new(10, 1).of_partition(partition, 4);
            events.take(1_000).map(|event| event.customer).collect()
        };
        assert_eq!(of(1), BTreeSet::from([1, 5, 9]));
        assert_eq!(of(3), BTreeSet::from([3, 7]));
        assert_eq!((0..4).flat_map(of).count(), 10);
    }

    #[test]
    fn row_contains_page_and_element() {
        let mut events = Events::new(1, 1);
        let clicked = std::iter::repeat_with(|| events.of(3)).find(|event| event.kind == "click");
        let row = clicked.unwrap().row();
        assert!(row.contains("-of-3;") && row.contains(".click-"), "{row}");
    }
}
