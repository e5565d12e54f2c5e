//! Plain English in what people read: doc comments, comments, messages, `--help` and guides.
//!
//! The list holds idioms that this project once used and that readers had to decode. A listed word may be
//! right in some sentence, but the standard term is as short.

use super::breach::Breach;
use super::source::Source;

/// The file whose literals are not checked: they are the lists below.
const THIS_FILE: &str = "xtask/src/tidy/prose.rs";

/// Words with which no doc comment begins: they start a clause without its noun.
const BARE_CLAUSES: [&str; 5] = ["What", "Who", "Whose", "Of", "Where"];

/// Phrases to avoid, each with its replacement.
const PHRASES: [(&str, &str); 22] = [
    ("behind", "after"),
    ("beside", "compared with, next to"),
    ("besides", "in addition"),
    ("dear", "expensive"),
    ("dearest", "most expensive"),
    ("is told", "receives, is passed"),
    ("are told", "receive, are passed"),
    ("is said", "is documented, reports, prints"),
    ("are said", "are documented"),
    ("so many", "N"),
    ("so long as", "while"),
    ("goes on", "continues, resumes"),
    ("go on", "continue, resume"),
    ("by itself", "separately"),
    ("was met", "was encountered"),
    ("were met", "were encountered"),
    ("of late", "recently"),
    ("whoever", "a user that"),
    ("made anew", "recreated"),
    ("at a stroke", "at once"),
    ("for want of", "without"),
    ("what there is", "the available …"),
];

/// Checks the texts of a source file: doc comments of all files, other comments and literals of production code.
pub fn check_source(source: &Source) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut previous_line = None;
    for doc in &source.docs {
        // The first line of a comment, not one that continues it.
        if previous_line != Some(doc.line - 1) {
            breaches.extend(bare_clause(&source.path, doc.line, &doc.value));
        }
        previous_line = Some(doc.line);
        breaches.extend(phrases(&source.path, doc.line, &without_code(&doc.value)));
    }
    for (index, line) in source.text.lines().enumerate() {
        let line_number = index + 1;
        if let Some(comment) = line.trim_start().strip_prefix("// ") {
            breaches.extend(phrases(&source.path, line_number, &without_code(comment)));
        }
    }
    for literal in &source.literals {
        // A text for people has several words; a single word is a key or an SQL name.
        let is_text = literal.value.trim().contains(' ');
        if is_text && !source.is_test_line(literal.line) && source.path != THIS_FILE {
            for (offset, line) in literal.value.lines().enumerate() {
                breaches.extend(phrases(
                    &source.path,
                    literal.line + offset,
                    &without_code(line),
                ));
            }
        }
    }
    breaches
}

/// Checks a guide, code blocks left out.
pub fn check_guide(path: &str, text: &str) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut in_code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            breaches.extend(phrases(path, index + 1, &without_code(line)));
        }
    }
    breaches
}

fn bare_clause(path: &str, line: usize, text: &str) -> Option<Breach> {
    let first = text
        .split_whitespace()
        .next()?
        .trim_matches(|c: char| !c.is_alphanumeric());
    BARE_CLAUSES.contains(&first).then(|| {
        let rule = format!("a doc comment starts with a verb or a noun phrase, not with `{first}`");
        Breach::new(path, line, rule)
    })
}

fn phrases(path: &str, line: usize, text: &str) -> Vec<Breach> {
    let lower = text.to_lowercase();
    PHRASES
        .iter()
        .filter(|(phrase, _)| holds_phrase(&lower, phrase))
        .map(|(phrase, instead)| {
            Breach::new(path, line, format!("`{phrase}` is idiom; write: {instead}"))
        })
        .collect()
}

/// Whether a text contains a phrase as whole words.
fn holds_phrase(text: &str, phrase: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    text.match_indices(phrase).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + phrase.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// Returns a text without the parts between backquotes.
fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let source = Source::parse("crates/x/src/a.rs", text);
        check_source(&source)
            .into_iter()
            .map(|breach| breach.line)
            .collect()
    }

    #[test]
    fn doc_comment_with_bare_clause_is_a_breach() {
        assert_eq!(lines("/// What was read.\nstruct A;"), [1]);
        assert_eq!(
            lines("/// Whether it was read.\nstruct A;"),
            Vec::<usize>::new()
        );
        assert_eq!(
            lines("/// The lines\n/// Of a file.\nstruct A;"),
            Vec::<usize>::new()
        );
        assert_eq!(lines("//! Who drives.\n\nstruct A;"), [1]);
        assert_eq!(
            lines("struct A {\n /// Of it.\n a: u8,\n /// Where.\n b: u8 }"),
            [2, 4]
        );
    }

    #[test]
    fn idiom_is_found_in_docs_comments_and_messages() {
        assert_eq!(lines("/// A line behind it.\nstruct A;"), [1]);
        assert_eq!(lines("fn a() {\n // It goes on.\n b();\n}"), [2]);
        assert_eq!(
            lines("fn a() {\n b(\"so many rows\");\n c!(\"is told {x}\");\n}"),
            [2, 3]
        );
        assert_eq!(lines("fn a() { b(\"behind\"); }"), Vec::<usize>::new());
        assert_eq!(
            lines("/// `behind` is a word of a format; so is left-behind.\nstruct A;"),
            Vec::<usize>::new()
        );
        assert_eq!(
            lines("#[cfg(test)]\nmod tests { fn a() { b(\"a thing behind\"); } }"),
            Vec::<usize>::new()
        );
    }

    #[test]
    fn guide_is_checked_outside_of_code_blocks() {
        let text = "It goes on.\n```\ngoes on\n```\nAlso `goes on`.\nDearest first.\n";
        let lines: Vec<usize> = check_guide("docs/a.md", text)
            .iter()
            .map(|b| b.line)
            .collect();
        assert_eq!(lines, [1, 6]);
    }
}
