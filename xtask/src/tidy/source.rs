//! Model of a Rust source file for the rules: its production items, functions, texts and imports.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A value with its line in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    /// Line, from 1.
    pub line: usize,
    /// The value at that line.
    pub value: T,
}

/// A struct, for the rule about booleans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StructFields {
    /// The struct's name.
    pub name: String,
    /// Number of fields of type `bool`.
    pub booleans: usize,
    /// Traits that it derives.
    pub derives: Vec<String>,
}

/// A Rust source file of the workspace.
#[derive(Debug)]
pub struct Source {
    /// Path from the workspace's root, with `/`.
    pub path: String,
    /// The text.
    pub text: String,
    /// Whether the file is part of what users run: not a test, an example or a benchmark.
    pub is_production: bool,
    /// Lines of items under `#[cfg(test)]`.
    pub test_lines: Vec<RangeInclusive<usize>>,
    /// Names of modules that are declared under `#[cfg(test)]` in files of their own.
    pub test_modules: Vec<String>,
    /// Functions, of tests as well, with their numbers of lines.
    pub functions: Vec<Located<(String, usize)>>,
    /// Structs of production code.
    pub structs: Vec<Located<StructFields>>,
    /// Doc comments, one entry for each line of a comment.
    pub docs: Vec<Located<String>>,
    /// String literals of production code.
    pub literals: Vec<Located<String>>,
    /// Paths of production code that begin with `crate`, `self` or `super`, re-exports left out.
    pub paths: Vec<Located<Vec<String>>>,
    /// Re-exported names, each with the path that it stands for.
    pub exports: Vec<(String, Vec<String>)>,
    /// Names of the items that the file defines.
    pub items: Vec<String>,
    /// Names of code (identifiers, macros with `!`), with their lines; comments and literals left out.
    pub names: Vec<Located<String>>,
}

impl Source {
    /// Parses the source text of the file at `path`.
    ///
    /// # Panics
    /// If the text is not Rust.
    pub fn parse(path: &str, text: &str) -> Self {
        let file = syn::parse_file(text).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut source = Source {
            path: path.to_owned(),
            text: text.to_owned(),
            is_production: path.contains("/src/"),
            test_lines: Vec::new(),
            test_modules: Vec::new(),
            functions: Vec::new(),
            structs: Vec::new(),
            docs: Vec::new(),
            literals: Vec::new(),
            paths: Vec::new(),
            exports: Vec::new(),
            items: Vec::new(),
            names: Vec::new(),
        };
        let tokens: TokenStream = text.parse().expect("syn parsed it");
        collect_names(tokens, &mut source.names);
        FunctionReader {
            functions: &mut source.functions,
        }
        .visit_file(&file);
        Reader {
            source: &mut source,
        }
        .visit_file(&file);
        source
    }

    /// The crate's folder: the part of the path before `src`, `tests`, `examples` or `benches`.
    pub fn crate_folder(&self) -> &str {
        ["/src/", "/tests/", "/examples/", "/benches/"]
            .iter()
            .filter_map(|part| self.path.find(part))
            .min()
            .map_or("", |end| &self.path[..end])
    }

    /// The file's module path within its crate; empty for the root.
    pub fn module(&self) -> Vec<String> {
        let inside = self.path.split("/src/").nth(1).unwrap_or_default();
        let mut parts: Vec<String> = inside
            .trim_end_matches(".rs")
            .split('/')
            .map(str::to_owned)
            .collect();
        if parts.last().is_some_and(|last| last == "mod") {
            parts.pop();
        }
        if parts == ["lib"] || parts == ["main"] {
            parts.clear();
        }
        parts
    }

    /// Whether a line belongs to tests.
    pub fn is_test_line(&self, line: usize) -> bool {
        !self.is_production || self.test_lines.iter().any(|lines| lines.contains(&line))
    }
}

/// Reads all Rust files below `crates` and `xtask`.
pub fn read_workspace(root: &Path) -> Vec<Source> {
    let mut files = Vec::new();
    for folder in ["crates", "xtask"] {
        find_sources(&root.join(folder), &mut files);
    }
    files.sort();
    let mut sources: Vec<Source> = files
        .iter()
        .map(|file| {
            let path = file.strip_prefix(root).expect("below the root");
            let text = std::fs::read_to_string(file).expect("a readable source");
            Source::parse(&path.to_string_lossy().replace('\\', "/"), &text)
        })
        .collect();
    let test_folders: Vec<String> = sources
        .iter()
        .flat_map(|source| {
            let home = module_folder(&source.path);
            source
                .test_modules
                .iter()
                .map(move |name| format!("{home}/{name}"))
        })
        .collect();
    for source in &mut sources {
        if test_folders.iter().any(|folder| {
            source.path == format!("{folder}.rs") || source.path.starts_with(&format!("{folder}/"))
        }) {
            source.is_production = false;
        }
    }
    sources
}

/// Returns the folder of the submodules of a file.
fn module_folder(path: &str) -> String {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    match file {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
        _ => path.trim_end_matches(".rs").to_owned(),
    }
}

fn find_sources(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            // Skips build folders, but not a module that is called `target`.
            if !path.ends_with("target") || path.parent().is_some_and(|up| up.ends_with("src")) {
                find_sources(&path, files);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn collect_names(tokens: TokenStream, names: &mut Vec<Located<String>>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) => collect_names(group.stream(), names),
            TokenTree::Ident(name) => {
                let called =
                    matches!(tokens.peek(), Some(TokenTree::Punct(p)) if p.as_char() == '!');
                let value = if called {
                    format!("{name}!")
                } else {
                    name.to_string()
                };
                let line = name.span().start().line;
                names.push(Located { line, value });
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// Reads the functions of a file.
struct FunctionReader<'a> {
    functions: &'a mut Vec<Located<(String, usize)>>,
}

impl FunctionReader<'_> {
    fn add(&mut self, name: &syn::Ident, span: Span) {
        let lines = lines_of(span);
        let count = lines.end() - lines.start() + 1;
        self.functions.push(Located {
            line: *lines.start(),
            value: (name.to_string(), count),
        });
    }
}

impl<'ast> Visit<'ast> for FunctionReader<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(&item.sig.ident, item.span());
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.sig.ident, item.span());
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.add(&item.sig.ident, item.span());
        visit::visit_trait_item_fn(self, item);
    }
}

/// Reads what a file's production code says.
struct Reader<'a> {
    source: &'a mut Source,
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let of = |word: &str| attribute.meta.path().is_ident(word);
        let condition = || match &attribute.meta {
            syn::Meta::List(list) => list.tokens.to_string() == "test",
            _ => false,
        };
        of("test") || of("cfg") && condition()
    })
}

fn lines_of(span: Span) -> RangeInclusive<usize> {
    span.start().line..=span.end().line
}

impl Reader<'_> {
    fn add_path(&mut self, line: usize, path: Vec<String>) {
        let within = path
            .first()
            .is_some_and(|first| ["crate", "self", "super"].contains(&first.as_str()));
        if within && path.len() > 1 {
            self.source.paths.push(Located { line, value: path });
        }
    }
}

fn leaves(tree: &syn::UseTree, before: &[String], found: &mut Vec<(String, Vec<String>)>) {
    let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
    match tree {
        syn::UseTree::Path(path) => leaves(&path.tree, &with(&path.ident), found),
        syn::UseTree::Name(name) if name.ident == "self" => {
            found.push((before.last().cloned().unwrap_or_default(), before.to_vec()));
        }
        syn::UseTree::Name(name) => found.push((name.ident.to_string(), with(&name.ident))),
        syn::UseTree::Rename(rename) => {
            found.push((rename.rename.to_string(), with(&rename.ident)))
        }
        syn::UseTree::Glob(_) => found.push(("*".to_owned(), before.to_vec())),
        syn::UseTree::Group(group) => {
            for item in &group.items {
                leaves(item, before, found);
            }
        }
    }
}

fn attributes_of(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        _ => &[],
    }
}

fn name_of(item: &syn::Item) -> Option<String> {
    let name = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        _ => return None,
    };
    Some(name.to_string())
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_for_tests(attributes_of(item)) {
            self.source.test_lines.push(lines_of(item.span()));
            if let syn::Item::Mod(module) = item
                && module.content.is_none()
            {
                self.source.test_modules.push(module.ident.to_string());
            }
            return;
        }
        self.source.items.extend(name_of(item));
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if is_for_tests(&item.attrs) {
            self.source.test_lines.push(lines_of(item.span()));
            return;
        }
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let is_bool = |field: &&syn::Field| matches!(&field.ty, syn::Type::Path(path) if path.path.is_ident("bool"));
        let mut derives = Vec::new();
        for attribute in item.attrs.iter().filter(|a| a.path().is_ident("derive")) {
            // An attribute that is no list of paths derives no trait that a rule asks for.
            let _ = attribute.parse_nested_meta(|meta| {
                derives.extend(meta.path.segments.last().map(|last| last.ident.to_string()));
                Ok(())
            });
        }
        self.source.structs.push(Located {
            line: item.span().start().line,
            value: StructFields {
                name: item.ident.to_string(),
                booleans: item.fields.iter().filter(is_bool).count(),
                derives,
            },
        });
        visit::visit_item_struct(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let mut found = Vec::new();
        leaves(&item.tree, &[], &mut found);
        let line = item.span().start().line;
        for (name, path) in found {
            match item.vis {
                syn::Visibility::Inherited => self.add_path(line, path),
                _ => self.source.exports.push((name, path)),
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path.segments.iter().map(|part| part.ident.to_string());
        self.add_path(path.span().start().line, names.collect());
        visit::visit_path(self, path);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if attribute.path().is_ident("doc")
            && let syn::Meta::NameValue(pair) = &attribute.meta
            && let syn::Expr::Lit(literal) = &pair.value
            && let syn::Lit::Str(text) = &literal.lit
        {
            let first = attribute.span().start().line;
            for (offset, line) in text.value().lines().enumerate() {
                self.source.docs.push(Located {
                    line: first + offset,
                    value: line.strip_prefix(' ').unwrap_or(line).to_owned(),
                });
            }
        }
    }

    fn visit_lit_str(&mut self, literal: &'ast syn::LitStr) {
        self.source.literals.push(Located {
            line: literal.span().start().line,
            value: literal.value(),
        });
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        collect_literals(call.tokens.clone(), &mut self.source.literals);
        let mut tokens = call.tokens.clone().into_iter().peekable();
        collect_paths(&mut tokens, &mut |line, path| self.add_path(line, path));
        self.visit_path(&call.path);
    }
}

fn collect_literals(tokens: TokenStream, found: &mut Vec<Located<String>>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => collect_literals(group.stream(), found),
            TokenTree::Literal(literal) => {
                let line = literal.span().start().line;
                if let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) {
                    let value = text.value();
                    found.push(Located { line, value });
                }
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}

/// Finds paths such as `crate::a::B` among the tokens of a macro's call.
fn collect_paths(
    tokens: &mut std::iter::Peekable<proc_macro2::token_stream::IntoIter>,
    add: &mut impl FnMut(usize, Vec<String>),
) {
    let mut path: Vec<String> = Vec::new();
    let (mut line, mut colons) = (0, 0);
    for token in tokens {
        match &token {
            TokenTree::Ident(name) if colons == 2 && !path.is_empty() => {
                path.push(name.to_string())
            }
            TokenTree::Ident(name) => {
                add(line, std::mem::take(&mut path));
                line = name.span().start().line;
                path.push(name.to_string());
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' => {
                colons += 1;
                continue;
            }
            _ => add(line, std::mem::take(&mut path)),
        }
        colons = 0;
        if let TokenTree::Group(group) = token {
            collect_paths(&mut group.stream().into_iter().peekable(), add);
        }
    }
    add(line, path);
}
