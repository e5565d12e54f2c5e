//! The truth about a planted trouble, and the judgement of a diagnosis by it.
//!
//! The truth names the objects of the trouble and the terms of its remedy. It does not know the program's rules.

use serde_json::Value as Json;

/// Terms, each of which must be found; of each the alternatives are separated by `|`.
pub type Terms = Vec<String>;

/// Truth about a trouble. The default is that there is none.
#[derive(Debug, Default, Clone)]
pub struct Truth {
    /// Whether there is a trouble.
    pub is_trouble: bool,
    /// Terms of the finding's subject, title and changes that name the right cause. Any of these is right.
    pub causes: Vec<Terms>,
    /// Terms of a change that only the application's developers can make. Any of these is right.
    pub by_hand: Vec<Terms>,
    /// Share of the troubled action's time that a right change leaves at most.
    pub share: f64,
}

impl Truth {
    /// Creates a truth whose right change leaves half of the time.
    pub fn new(causes: &[&[&str]]) -> Self {
        Self {
            is_trouble: true,
            causes: terms(causes),
            by_hand: Vec::new(),
            share: 0.5,
        }
    }

    /// Sets the share of the time that a right change leaves at most.
    pub fn leaving(self, share: f64) -> Self {
        Self { share, ..self }
    }

    /// Adds right changes of the application.
    pub fn or_by_hand(self, by_hand: &[&[&str]]) -> Self {
        Self {
            by_hand: terms(by_hand),
            ..self
        }
    }
}

fn terms(all: &[&[&str]]) -> Vec<Terms> {
    let owned = |one: &&[&str]| one.iter().map(|term| term.to_lowercase()).collect();
    all.iter().map(owned).collect()
}

/// Change that a finding proposes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proposal {
    /// SQL.
    Sql(String),
    /// Setting and its value.
    Setting(String, String),
    /// Rewriting of the workload.
    Rewrite(String),
    /// Words.
    ByHand(String),
}

/// Finding, as the program printed it.
#[derive(Debug, Clone)]
pub struct Found {
    /// Title.
    pub title: String,
    /// Rule.
    pub rule: String,
    /// Subject, title and changes, in lower case.
    text: String,
    /// Changes in their order.
    pub proposals: Vec<Proposal>,
}

/// Returns the problems and warnings of a diagnosis in their order.
pub fn findings(diagnosis: &Json) -> Vec<Found> {
    let all = diagnosis["findings"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    all.iter()
        .filter(|one| one["severity"] != "note")
        .map(found)
        .collect()
}

fn found(one: &Json) -> Found {
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    let changes = one["changes"].as_array().cloned().unwrap_or_default();
    let proposals: Vec<Proposal> = changes.iter().map(proposal).collect();
    let words = changes.iter().map(|change| format!("{}", change));
    let all = [text(&one["subject"]["name"]), text(&one["title"])];
    let all: Vec<String> = all.into_iter().chain(words).collect();
    Found {
        title: text(&one["title"]),
        rule: text(&one["rule"]),
        text: normalise(&all.join(" \n ")),
        proposals,
    }
}

fn proposal(change: &Json) -> Proposal {
    let form = &change["form"];
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    if let Some(sql) = form["sql"].as_str() {
        Proposal::Sql(sql.to_owned())
    } else if let Some(rewrite) = form["rewrite"].as_str() {
        Proposal::Rewrite(rewrite.to_owned())
    } else if form["setting"].is_array() {
        Proposal::Setting(text(&form["setting"][0]), text(&form["setting"][1]))
    } else {
        Proposal::ByHand(text(&change["message"]))
    }
}

/// Lowers the case, and removes what quoting and the default schema add to names.
fn normalise(text: &str) -> String {
    let text = text.to_lowercase().replace("public.", "");
    let text = text.replace(['"', '\\'], "");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn has(text: &str, terms: &Terms) -> bool {
    terms
        .iter()
        .all(|term| term.split('|').any(|word| text.contains(word)))
}

impl Truth {
    /// Whether a finding names the right cause. One that says that nothing explains a statement names none.
    pub fn is_right_cause(&self, found: &Found) -> bool {
        let names_none = ["no finding explains", "findings explain only"];
        if names_none.iter().any(|text| found.title.starts_with(text)) {
            return false;
        }
        self.causes.iter().any(|cause| has(&found.text, cause))
    }

    /// Whether a change that cannot be applied is right by its words.
    pub fn is_right_in_words(&self, proposal: &Proposal) -> bool {
        let (Proposal::ByHand(words) | Proposal::Rewrite(words)) = proposal else {
            return false;
        };
        let words = normalise(words);
        self.by_hand.iter().any(|one| has(&words, one))
    }
}
