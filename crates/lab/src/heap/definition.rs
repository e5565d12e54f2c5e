//! Event definitions of customers: data, from which indexes are generated.

use super::event::{KINDS, PATHS};

/// A customer's definition of an event over raw events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// Number of the customer.
    pub customer: u32,
    /// Number among the customer's definitions, from 0.
    pub number: u32,
    /// Name that the customer gave it, such as `Submit on /login`.
    pub name: String,
    /// Type of the raw event.
    pub kind: String,
    /// Page of the raw event.
    pub path: String,
    /// CSS selector of the element, as a regular expression over the element hierarchy.
    pub selector: Option<String>,
    /// A property, and its required value.
    pub property: Option<(String, String)>,
}

impl Definition {
    /// Returns the first `count` definitions of a customer. No two have the same type and path.
    pub fn of_customer(customer: u32, count: u32) -> Vec<Self> {
        (0..count)
            .map(|number| {
                let kind = KINDS[number as usize % KINDS.len()];
                let page = number as usize % PATHS.len();
                let path = PATHS[page];
                Definition {
                    customer,
                    number,
                    name: format!("{kind} on {path}"),
                    kind: kind.to_owned(),
                    path: path.to_owned(),
                    // A page view has no element.
                    selector: (kind != "pageview").then(|| {
                        format!(r"@div;#page-{page}-of-{customer};(.*;)?@button;(\.[a-z]+;)*\.{kind}-[0-4]")
                    }),
                    property: (number % 10 == 9).then(|| ("plan".to_owned(), "pro".to_owned())),
                }
            })
            .collect()
    }

    /// Returns the condition over a raw event, with the cheap parts first.
    pub fn predicate(&self) -> String {
        let mut all = vec![
            format!("type = {}", literal(&self.kind)),
            format!("path = {}", literal(&self.path)),
        ];
        if let Some((name, value)) = &self.property {
            all.push(format!(
                "properties ->> {} = {}",
                literal(name),
                literal(value)
            ));
        }
        if let Some(selector) = &self.selector {
            all.push(format!("hierarchy ~ {}", literal(selector)));
        }
        all.join(" AND ")
    }

    /// Returns the name of its index.
    pub fn index(&self) -> String {
        format!("events_{}_defined_{}", self.customer, self.number)
    }

    /// Returns the statement that creates the partial index over its events.
    pub fn create_index(&self) -> String {
        format!(
            "CREATE INDEX {} ON {} (time) WHERE {}",
            self.index(),
            table(self.customer),
            self.predicate()
        )
    }
}

/// Returns the name of a customer's table.
pub fn table(customer: u32) -> String {
    format!("events_{customer}")
}

/// Quotes a text as an SQL literal.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn definitions_of_a_customer_are_distinct() {
        let all = Definition::of_customer(7, 50);
        let predicates: BTreeSet<String> = all.iter().map(Definition::predicate).collect();
        assert_eq!(predicates.len(), 50);
        assert!(all.iter().any(|one| one.property.is_some()));
        assert_eq!(
            all[0].create_index(),
            r"CREATE INDEX events_7_defined_0 ON events_7 (time) WHERE type = 'click' AND path = '/login' AND hierarchy ~ '@div;#page-0-of-7;(.*;)?@button;(\.[a-z]+;)*\.click-[0-4]'"
        );
    }
}
