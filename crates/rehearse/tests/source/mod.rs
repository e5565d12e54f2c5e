//! Rust sources as the rules of the house read them: without what only looks like code.

use std::path::{Path, PathBuf};

/// A source file in the three forms that rules look at. All have the same lines.
pub struct Source {
    /// Relative to the workspace, with `/`.
    pub path: String,
    /// The crate's directory name.
    pub krate: String,
    /// As it is written.
    pub text: String,
    /// Without comments and without what stands in literals.
    pub code: String,
    /// The same without `#[cfg(test)]` items; `None` for files that are not built into the
    /// crate: tests, examples, benches, and modules under `#[cfg(test)]`.
    pub production: Option<String>,
}

impl Source {
    /// A file of `src`, for the rules' own tests.
    pub fn sample(path: &str, text: &str) -> Self {
        let code = code_of(text);
        Source {
            krate: path.split('/').nth(1).unwrap_or_default().to_owned(),
            path: path.to_owned(),
            text: text.to_owned(),
            production: path.contains("/src/").then(|| without_tests(&code)),
            code,
        }
    }
}

/// All Rust files of the crates in `workspace/crates`.
pub fn read_all(workspace: &Path) -> Vec<Source> {
    let mut files = Vec::new();
    find(&workspace.join("crates"), &mut files);
    files.sort();
    let mut sources: Vec<Source> = files
        .iter()
        .map(|file| {
            let path = file.strip_prefix(workspace).unwrap().to_str().unwrap();
            Source::sample(path, &std::fs::read_to_string(file).unwrap())
        })
        .collect();
    let under_test: Vec<String> = sources.iter().flat_map(modules_under_test).collect();
    for source in &mut sources {
        let inside = |module: &String| {
            source.path == format!("{module}.rs") || source.path.starts_with(&format!("{module}/"))
        };
        if under_test.iter().any(inside) {
            source.production = None;
        }
    }
    sources
}

fn find(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("target") || path.join("Cargo.toml").is_file() {
                find(&path, files);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The paths, without `.rs`, of modules that a file declares as `#[cfg(test)] mod name;`.
fn modules_under_test(source: &Source) -> Vec<String> {
    let Some((directory, file)) = source.path.rsplit_once('/') else {
        return Vec::new();
    };
    let home = match file {
        "lib.rs" | "main.rs" | "mod.rs" => directory.to_owned(),
        _ => source.path.trim_end_matches(".rs").to_owned(),
    };
    test_items(&source.code)
        .into_iter()
        .filter_map(|(start, end)| {
            let item = source.code[start..end].strip_suffix(';')?;
            let (_, name) = item.rsplit_once("mod ")?;
            Some(format!("{home}/{}", name.trim()))
        })
        .collect()
}

/// The text with comments and the insides of literals blanked, line for line.
pub fn code_of(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < characters.len() {
        let end = match characters[at] {
            '/' if characters.get(at + 1) == Some(&'/') => end_of_line(&characters, at),
            '/' if characters.get(at + 1) == Some(&'*') => end_of_comment(&characters, at),
            '"' => end_of_string(&characters, at),
            '\'' => end_of_character(&characters, at),
            'r' if begins_raw_string(&characters, at) => end_of_raw_string(&characters, at),
            first => {
                code.push(first);
                at += 1;
                continue;
            }
        };
        for &blanked in &characters[at..end] {
            code.push(if blanked == '\n' { '\n' } else { ' ' });
        }
        at = end;
    }
    code
}

fn end_of_line(characters: &[char], start: usize) -> usize {
    let rest = &characters[start..];
    start + rest.iter().position(|&c| c == '\n').unwrap_or(rest.len())
}

/// Block comments nest.
fn end_of_comment(characters: &[char], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0);
    while at < characters.len() {
        match (characters[at], characters.get(at + 1)) {
            ('/', Some('*')) => (at, depth) = (at + 2, depth + 1),
            ('*', Some('/')) => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    characters.len()
}

fn end_of_string(characters: &[char], start: usize) -> usize {
    let mut at = start + 1;
    while at < characters.len() {
        match characters[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    characters.len()
}

/// A character literal's end; a lifetime is only its tick.
fn end_of_character(characters: &[char], start: usize) -> usize {
    match (characters.get(start + 1), characters.get(start + 2)) {
        (Some('\\'), _) => {
            // The escaped character may be a tick itself.
            let rest = characters.get(start + 3..).unwrap_or_default();
            start + 4 + rest.iter().position(|&c| c == '\'').unwrap_or(rest.len())
        }
        (_, Some('\'')) => start + 3,
        _ => start + 1,
    }
    .min(characters.len())
}

/// Whether an `r` begins `r"…"`, `r#"…"#`, `br"…"` or `cr"…"`, and is not a name's last letter.
fn begins_raw_string(characters: &[char], at: usize) -> bool {
    let named = |c: char| c.is_alphanumeric() || c == '_';
    let mut before = at;
    if before > 0 && matches!(characters[before - 1], 'b' | 'c') {
        before -= 1;
    }
    let within_name = before > 0 && named(characters[before - 1]);
    let quote = characters[at + 1..].iter().find(|&&c| c != '#');
    !within_name && quote == Some(&'"')
}

fn end_of_raw_string(characters: &[char], start: usize) -> usize {
    let hashes = characters[start + 1..]
        .iter()
        .take_while(|&&c| c == '#')
        .count();
    let mut at = start + hashes + 2;
    while at < characters.len() {
        let after = characters[at + 1..].iter().take(hashes);
        if characters[at] == '"' && after.filter(|&&c| c == '#').count() == hashes {
            return at + 1 + hashes;
        }
        at += 1;
    }
    characters.len()
}

/// Code without the items that stand under `#[cfg(test)]`, line for line.
pub fn without_tests(code: &str) -> String {
    let mut rest = code.to_owned();
    for (start, end) in test_items(code) {
        let blank: String = code[start..end]
            .chars()
            // As many bytes as there were, so that places stay.
            .flat_map(|c| std::iter::repeat_n(if c == '\n' { '\n' } else { ' ' }, c.len_utf8()))
            .collect();
        rest.replace_range(start..end, &blank);
    }
    rest
}

/// Where the items under `#[cfg(test)]` begin and end.
fn test_items(code: &str) -> Vec<(usize, usize)> {
    const MARK: &str = "#[cfg(test)]";
    let mut items = Vec::new();
    let mut from = 0;
    while let Some(found) = code[from..].find(MARK) {
        let start = from + found;
        from = end_of_item(code, start + MARK.len());
        items.push((start, from));
    }
    items
}

/// An item ends with its first braces, or with a semicolon before any.
fn end_of_item(code: &str, start: usize) -> usize {
    let (mut braces, mut others) = (0, 0);
    for (offset, character) in code[start..].char_indices() {
        match character {
            '(' | '[' => others += 1,
            ')' | ']' => others -= 1,
            '{' => braces += 1,
            '}' => braces -= 1,
            _ => {}
        }
        let may_end = matches!(character, '}' | ';');
        if may_end && braces == 0 && others == 0 {
            return start + offset + 1;
        }
    }
    code.len()
}

#[test]
fn comments_and_literals_are_no_code() {
    let code = code_of(
        "a(); // b()\n/* c() /* d() */\n e() */ f(\"g() \\\" h()\", 'i', '\\'', '\"', j);\n\
         r#\"k() \" l()\"# m::<'n>() br\"\\\" o(); b'\\\\' p r#type q(bar\"r()\") s()",
    );
    for present in [
        "a()", "f(", "j)", "m::<", "n>()", "o()", "p", "r#type", "q(bar", "s()",
    ] {
        assert!(code.contains(present), "{present} is missing in {code}");
    }
    for absent in [
        "b()", "c()", "d()", "e()", "g()", "h()", "k()", "l()", "r()",
    ] {
        assert!(!code.contains(absent), "{absent} is left in {code}");
    }
    assert_eq!(code.lines().count(), 4);
}

#[test]
fn items_under_test_are_no_production() {
    let code = without_tests(
        "fn a() { b() }\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n fn c([d; 3]: e) { f() }\n}\n\
         #[cfg(test)]\nuse g::{h};\nfn i() {}\n#[cfg(test)]\nmod j;\nfn k() {}\n",
    );
    for present in ["a()", "b()", "i()", "k()"] {
        assert!(code.contains(present), "{present} is missing in {code}");
    }
    for absent in ["c(", "f()", "g::", "mod j"] {
        assert!(!code.contains(absent), "{absent} is left in {code}");
    }
    assert_eq!(code.lines().count(), 12);
}

#[test]
fn a_module_under_test_in_its_own_file_is_known() {
    let modules = |path: &str| {
        modules_under_test(&Source::sample(
            path,
            "#[cfg(test)]\nmod tests;\n#[cfg(test)]\nuse a::b;",
        ))
    };
    assert_eq!(modules("crates/a/src/lib.rs"), ["crates/a/src/tests"]);
    assert_eq!(modules("crates/a/src/b.rs"), ["crates/a/src/b/tests"]);
}
