//! No import cycle of more than two modules within a crate.
//!
//! An import is a `use` or a path in code; a re-export is followed to the module that defines the name.

use std::collections::{BTreeMap, BTreeSet};

use super::breach::Breach;
use super::source::Source;

/// Modules that may be in a cycle with the modules they list: registries of rules, as crate folder and module.
const REGISTRIES: [(&str, &str); 1] = [("crates/analysis/diagnose", "rules")];

/// Finds cycles of more than two modules among the production files of one crate.
pub fn check(sources: &[&Source]) -> Vec<Breach> {
    let files: BTreeMap<Vec<String>, &Source> = sources
        .iter()
        .filter(|source| source.is_production)
        .map(|source| (source.module(), *source))
        .collect();
    let mut imports: BTreeMap<&[String], BTreeSet<&[String]>> = BTreeMap::new();
    for (module, source) in &files {
        if is_registry(source) {
            continue;
        }
        for path in &source.paths {
            if let Some(used) = resolve(&files, module, &path.value)
                && used != module.as_slice()
            {
                imports.entry(module).or_default().insert(used);
            }
        }
    }
    components(&imports)
        .into_iter()
        .filter(|component| component.len() > 2)
        .map(|component| {
            let names: Vec<String> = component.iter().map(|module| module.join("::")).collect();
            let rule = format!(
                "an import cycle of {} modules: {}",
                names.len(),
                names.join(", ")
            );
            Breach::new(&files[component[0]].path, 0, rule)
        })
        .collect()
}

fn is_registry(source: &Source) -> bool {
    let module = source.module().join("::");
    REGISTRIES.contains(&(source.crate_folder(), module.as_str()))
}

/// Finds the module whose file defines the item that a path names. `None`: another crate's item, or an unknown
/// name.
fn resolve<'a>(
    files: &'a BTreeMap<Vec<String>, &Source>,
    from: &[String],
    path: &[String],
) -> Option<&'a [String]> {
    let mut target = absolute(from, path)?;
    // Chains of re-exports end; the bound is for a crate that does not compile.
    for _ in 0..8 {
        let known = (0..=target.len())
            .rev()
            .find(|&length| files.contains_key(&target[..length]))?;
        let (module, source) = files.get_key_value(&target[..known])?;
        let Some(name) = target.get(known) else {
            return Some(module);
        };
        if source.items.contains(name) {
            return Some(module);
        }
        let export = source.exports.iter().find(|(exported, _)| exported == name);
        match export.and_then(|(_, path)| absolute_export(files, module, path)) {
            Some(full) => target = [full, target[known + 1..].to_vec()].concat(),
            None => return Some(module),
        }
    }
    None
}

fn absolute(from: &[String], path: &[String]) -> Option<Vec<String>> {
    let mut base = from.to_vec();
    let mut rest = path;
    while let Some((first, others)) = rest.split_first() {
        match first.as_str() {
            "crate" => base.clear(),
            "self" => {}
            "super" => {
                base.pop()?;
            }
            _ => break,
        }
        rest = others;
    }
    Some([base, rest.to_vec()].concat())
}

/// A re-export's path may begin with a child module, without `self`.
fn absolute_export(
    files: &BTreeMap<Vec<String>, &Source>,
    module: &[String],
    path: &[String],
) -> Option<Vec<String>> {
    match path.first()?.as_str() {
        "crate" | "self" | "super" => absolute(module, path),
        child => {
            let full = [module, path].concat();
            let is_child = files.contains_key(&[module, &[child.to_owned()]].concat());
            is_child.then_some(full)
        }
    }
}

/// Strongly connected components by Tarjan's algorithm (R. Tarjan, SIAM J. Comput. 1(2), 1972).
fn components<'a>(
    imports: &BTreeMap<&'a [String], BTreeSet<&'a [String]>>,
) -> Vec<Vec<&'a [String]>> {
    struct Search<'a, 'b> {
        imports: &'b BTreeMap<&'a [String], BTreeSet<&'a [String]>>,
        index: BTreeMap<&'a [String], usize>,
        low: BTreeMap<&'a [String], usize>,
        stack: Vec<&'a [String]>,
        found: Vec<Vec<&'a [String]>>,
    }
    impl<'a> Search<'a, '_> {
        fn visit(&mut self, node: &'a [String]) {
            let number = self.index.len();
            self.index.insert(node, number);
            self.low.insert(node, number);
            self.stack.push(node);
            let imports = self.imports;
            for &next in imports.get(node).into_iter().flatten() {
                if !self.index.contains_key(next) {
                    self.visit(next);
                    let low = self.low[node].min(self.low[next]);
                    self.low.insert(node, low);
                } else if self.stack.contains(&next) {
                    let low = self.low[node].min(self.index[next]);
                    self.low.insert(node, low);
                }
            }
            if self.low[node] == number {
                let start = self.stack.iter().position(|at| *at == node).unwrap_or(0);
                let mut component = self.stack.split_off(start);
                component.sort();
                self.found.push(component);
            }
        }
    }
    let mut search = Search {
        imports,
        index: BTreeMap::new(),
        low: BTreeMap::new(),
        stack: Vec::new(),
        found: Vec::new(),
    };
    for &node in imports.keys() {
        if !search.index.contains_key(node) {
            search.visit(node);
        }
    }
    search.found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycles(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> = files
            .iter()
            .map(|(path, text)| Source::parse(&format!("crates/x/src/{path}"), text))
            .collect();
        let all: Vec<&Source> = sources.iter().collect();
        check(&all).into_iter().map(|breach| breach.rule).collect()
    }

    #[test]
    fn cycle_of_three_modules_is_found_and_of_two_is_not() {
        let ring = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "use super::c; pub struct B;"),
            ("c.rs", "fn f() { crate::a::A; }"),
        ];
        assert_eq!(cycles(&ring), ["an import cycle of 3 modules: a, b, c"]);
        assert!(cycles(&ring[..3]).is_empty());
        let pair = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "use super::a::A; pub struct B;"),
        ];
        assert!(cycles(&pair).is_empty());
    }

    #[test]
    fn reexport_is_followed_to_the_module_that_defines() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; pub use a::A;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "use crate::c::C; pub struct B;"),
            ("c.rs", "use crate::A; pub struct C;"),
        ];
        assert_eq!(cycles(&files), ["an import cycle of 3 modules: a, b, c"]);
    }

    #[test]
    fn imports_of_tests_do_not_count() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "use crate::c::C; pub struct B;"),
            (
                "c.rs",
                "pub struct C; #[cfg(test)] mod tests { use crate::a::A; }",
            ),
        ];
        assert!(cycles(&files).is_empty());
    }

    #[test]
    fn parent_whose_children_use_its_types_is_in_their_cycle() {
        let files = [
            ("lib.rs", "mod a;"),
            (
                "a/mod.rs",
                "mod b; mod c; pub struct A; fn f() { self::b::g(); self::c::h(); }",
            ),
            ("a/b.rs", "use super::A; pub fn g() {}"),
            ("a/c.rs", "use super::A; pub fn h() {}"),
        ];
        assert_eq!(cycles(&files).len(), 1);
    }
}
