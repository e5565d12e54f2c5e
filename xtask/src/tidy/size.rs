//! Rules about the sizes of files, functions and structs.

use super::breach::Breach;
use super::source::Source;

/// File names that do not describe the content.
const EMPTY_NAMES: [&str; 8] = [
    "utils.rs",
    "util.rs",
    "helpers.rs",
    "helper.rs",
    "common.rs",
    "misc.rs",
    "manager.rs",
    "tools.rs",
];

const FILE_LINES_MAX: usize = 700;
const FUNCTION_LINES_MAX: usize = 100;
const BOOLEANS_MAX: usize = 3;
const CRATE_DOC_LINES_MIN: usize = 3;

/// Traits whose structs have flags or columns, which are no states.
const FLAG_TRAITS: [&str; 3] = ["Args", "Parser", "Serialize"];

/// Checks the sizes in a file.
pub fn check(source: &Source) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let name = source.path.rsplit('/').next().unwrap_or_default();
    if EMPTY_NAMES.contains(&name) {
        breaches.push(Breach::new(
            &source.path,
            0,
            "the name does not tell what the file holds",
        ));
    }
    let lines = source.text.lines().count();
    if lines > FILE_LINES_MAX {
        let rule = format!("{lines} lines; a file has at most {FILE_LINES_MAX}");
        breaches.push(Breach::new(&source.path, 0, rule));
    }
    for function in &source.functions {
        let (name, lines) = &function.value;
        if *lines > FUNCTION_LINES_MAX {
            let rule =
                format!("`{name}` has {lines} lines; a function has at most {FUNCTION_LINES_MAX}");
            breaches.push(Breach::new(&source.path, function.line, rule));
        }
    }
    if !source.is_production {
        return breaches;
    }
    for found in &source.structs {
        let fields = &found.value;
        let holds_flags = fields
            .derives
            .iter()
            .any(|name| FLAG_TRAITS.contains(&name.as_str()));
        if fields.booleans > BOOLEANS_MAX && !holds_flags {
            let rule = format!(
                "`{}` has {} booleans; make its states an enum",
                fields.name, fields.booleans
            );
            breaches.push(Breach::new(&source.path, found.line, rule));
        }
    }
    let is_root = ["lib.rs", "main.rs"].contains(&name) && source.module().is_empty();
    let doc = source
        .text
        .lines()
        .take_while(|line| line.starts_with("//!"));
    if is_root && doc.count() < CRATE_DOC_LINES_MIN {
        let rule =
            format!("a crate begins with at least {CRATE_DOC_LINES_MIN} lines that say what it is");
        breaches.push(Breach::new(&source.path, 1, rule));
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> usize {
        check(&Source::parse(path, text)).len()
    }

    #[test]
    fn long_file_and_empty_name_are_breaches() {
        assert_eq!(rules("crates/a/src/a.rs", ""), 0);
        assert_eq!(rules("crates/a/src/utils.rs", ""), 1);
        assert_eq!(rules("crates/a/tests/a.rs", &"\n".repeat(700)), 0);
        assert_eq!(rules("crates/a/tests/a.rs", &"\n".repeat(701)), 1);
    }

    #[test]
    fn long_function_is_a_breach_in_tests_too() {
        let long = format!("fn a() {{\n{}}}", "b();\n".repeat(99));
        let short = long.replacen("b();\n", "", 1);
        for path in [
            "crates/a/src/a.rs",
            "crates/a/tests/a.rs",
            "crates/a/examples/a.rs",
            "crates/a/benches/a.rs",
        ] {
            assert_eq!(rules(path, &long), 1, "{path}");
            assert_eq!(rules(path, &short), 0, "{path}");
        }
        for frame in [
            "#[test] FUNCTION",
            "#[cfg(test)] mod tests { #[test] FUNCTION }",
            "#[cfg(test)] impl A { FUNCTION }",
            "impl A { #[cfg(test)] FUNCTION }",
            "trait A { FUNCTION }",
        ] {
            for (function, breaches) in [(&long, 1), (&short, 0)] {
                let text = frame.replace("FUNCTION", function);
                assert_eq!(rules("crates/a/src/a.rs", &text), breaches, "{frame}");
            }
        }
    }

    #[test]
    fn struct_with_four_booleans_is_a_breach() {
        let text = "struct A { a: bool, b: bool, c: bool, d: bool }";
        assert_eq!(rules("crates/a/src/a.rs", text), 1);
        assert_eq!(
            rules(
                "crates/a/src/a.rs",
                &format!("#[derive(clap::Args)] {text}")
            ),
            0
        );
    }

    #[test]
    fn crate_without_introduction_is_a_breach() {
        assert_eq!(rules("crates/a/src/lib.rs", "//! One line.\nmod a;"), 1);
        assert_eq!(rules("crates/a/src/lib.rs", "//! A\n//!\n//! B\nmod a;"), 0);
    }
}
