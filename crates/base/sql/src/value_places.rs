//! Places of values in a statement: the tables and columns that its parameters and literals are compared with, assigned
//! to or inserted into.
//!
//! It works on words. A place that it does not recognise plainly has no column. Values in lists, casts of columns and
//! functions of columns are not recognised, since they are not the column's values.

use std::collections::HashMap;
use std::ops::Range;

use super::fingerprint::lexer::{Lexer, LexicalRules, Token};
use super::statement_splitter::Lexeme;

/// Parameter or literal of a statement.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ValueToken {
    /// `$n`, counted from 0.
    Parameter(usize),
    /// Literal, as byte offsets into the text.
    Literal(Range<usize>),
}

/// Role of a value in its statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PlaceRole {
    /// The rows with this value of the column are selected (`column = value`, `column IN (value, …)`).
    Compared,
    /// The value is an array, and rows with one of its elements in the column are selected (`column = ANY (value)`).
    ComparedElements,
    /// `SET column = value`.
    Assigned,
    /// Value of the column in a new row.
    Inserted,
    /// Another one.
    Other,
}

/// Place of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValuePlace {
    /// The value.
    pub token: ValueToken,
    /// Role in the statement.
    pub role: PlaceRole,
    /// Table of the column, without its schema; `None` if it is unknown.
    pub table: Option<String>,
    /// Column; `None` if it is unknown.
    pub column: Option<String>,
    /// Number of the table's column, from 0, if `INSERT` names no columns.
    pub column_number: Option<usize>,
}

/// Use of a table in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TableUse {
    /// It is read.
    Read,
    /// Its rows are read and locked (`FOR UPDATE`, `FOR SHARE` …).
    Locked,
    /// Its rows are changed.
    Written,
}

/// Places of all values of a text, and its tables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ValuePlaces {
    /// Places in the order of the text.
    pub places: Vec<ValuePlace>,
    /// Tables without their schemas, each once with its greatest use.
    pub tables: Vec<(String, TableUse)>,
    /// Whether a condition has alternatives (`OR`) or is negated as a whole (`NOT (…)`), so that a comparison does not limit
    /// the rows.
    pub has_alternatives: bool,
}

impl ValuePlaces {
    /// Finds the places of a text's values.
    pub fn of(sql: &str, rules: LexicalRules) -> Self {
        let mut found = ValuePlaces::default();
        let mut statement: Vec<Word<'_>> = Vec::new();
        for token in Lexer::with_rules(sql, rules) {
            let (start, end) = (token.start(), token.end());
            let text = &sql[start..end];
            let lexeme = match token {
                Token::Comment { .. } => continue,
                Token::Word { .. } => Lexeme::Word(text),
                Token::Quoted { .. } => Lexeme::Quoted(text),
                Token::Value { .. } => Lexeme::Value(text),
                Token::Symbol { .. } => Lexeme::Symbol(text),
            };
            if lexeme.is_symbol(";") {
                Parser::parse(&std::mem::take(&mut statement), &mut found);
            } else {
                statement.push(Word { lexeme, start });
            }
        }
        Parser::parse(&statement, &mut found);
        found
    }

    /// Returns the table whose rows the text changes, if it is one.
    pub fn written_table(&self) -> Option<&str> {
        let mut written = self
            .tables
            .iter()
            .filter(|(_, of)| *of == TableUse::Written);
        let (name, _) = written.next()?;
        written.next().is_none().then_some(name)
    }

    fn add_table(&mut self, name: &str, of: TableUse) {
        match self.tables.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = of.max(*known),
            None => self.tables.push((name.to_owned(), of)),
        }
    }
}

struct Word<'a> {
    lexeme: Lexeme<'a>,
    start: usize,
}

impl Word<'_> {
    fn is(&self, keyword: &str) -> bool {
        self.lexeme.is(keyword)
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        self.lexeme.is_symbol(symbol)
    }
}

/// Words that follow a table and are no alias of it.
const NO_ALIAS: [&str; 28] = [
    "where",
    "on",
    "using",
    "join",
    "inner",
    "left",
    "right",
    "full",
    "cross",
    "natural",
    "set",
    "values",
    "select",
    "group",
    "order",
    "having",
    "limit",
    "offset",
    "fetch",
    "for",
    "union",
    "intersect",
    "except",
    "returning",
    "as",
    "default",
    "overriding",
    "window",
];

/// Words after a NOT that negates no comparison.
const NEGATED_WORDS: [&str; 14] = [
    "in",
    "null",
    "exists",
    "like",
    "ilike",
    "between",
    "similar",
    "distinct",
    "matched",
    "materialized",
    "deferrable",
    "valid",
    "of",
    "enforced",
];

/// Whether a NOT negates comparisons: `NOT (a = 1)`, `NOT a = 1`.
fn has_negation(words: &[Word<'_>]) -> bool {
    let negates = |word: &Word<'_>| !NEGATED_WORDS.iter().any(|one| word.is(one));
    words
        .windows(2)
        .any(|pair| pair[0].is("not") && negates(&pair[1]))
}

/// Column of an inserted value.
struct InsertedColumn {
    table: String,
    name: Option<String>,
    number: Option<usize>,
}

/// Parser of one statement.
struct Parser<'p> {
    words: &'p [Word<'p>],
    /// Tables by alias and by name.
    aliases: HashMap<String, String>,
    /// Tables of the statement.
    tables: Vec<(String, TableUse)>,
}

impl<'p> Parser<'p> {
    fn parse(words: &'p [Word<'p>], found: &mut ValuePlaces) {
        if words.is_empty() {
            return;
        }
        let mut parser = Parser {
            words,
            aliases: HashMap::new(),
            tables: Vec::new(),
        };
        parser.find_tables();
        for (name, of) in &parser.tables {
            found.add_table(name, *of);
        }
        found.has_alternatives |= words.iter().any(|word| word.is("or")) || has_negation(words);
        parser.find_places(&mut found.places);
    }

    fn word(&self, at: usize) -> Option<&'p Word<'p>> {
        self.words.get(at)
    }

    fn is_word(&self, at: usize, keyword: &str) -> bool {
        self.word(at).is_some_and(|word| word.is(keyword))
    }

    fn is_symbol(&self, at: usize, symbol: &str) -> bool {
        self.word(at).is_some_and(|word| word.is_symbol(symbol))
    }

    /// Finds tables after FROM, JOIN, INTO, UPDATE and USING, with their aliases.
    fn find_tables(&mut self) {
        let locks = self.locks_rows();
        let mut at = 0;
        while at < self.words.len() {
            let of = match &self.words[at] {
                word if word.is("into") => Some(TableUse::Written),
                word if word.is("update") && !self.is_clause_of_another(at) => {
                    Some(TableUse::Written)
                }
                word if word.is("from") && at > 0 && self.words[at - 1].is("delete") => {
                    Some(TableUse::Written)
                }
                word if ["from", "join", "using"].iter().any(|one| word.is(one)) => {
                    Some(if locks {
                        TableUse::Locked
                    } else {
                        TableUse::Read
                    })
                }
                _ => None,
            };
            at += 1;
            let Some(of) = of else { continue };
            let lists = self.words[at - 1].is("from") || self.words[at - 1].is("using");
            while let Some(after) = self.add_table(at, of) {
                at = after;
                if !(lists && self.is_symbol(at, ",")) {
                    break;
                }
                at += 1;
            }
        }
    }

    /// Whether an UPDATE is part of `FOR UPDATE`, `FOR NO KEY UPDATE`, `DO UPDATE`, `ON UPDATE` or `THEN UPDATE`.
    fn is_clause_of_another(&self, at: usize) -> bool {
        at > 0
            && ["for", "key", "do", "on", "then"]
                .iter()
                .any(|one| self.words[at - 1].is(one))
    }

    fn locks_rows(&self) -> bool {
        self.words.windows(2).any(|pair| {
            let strengths = ["update", "no", "share", "key"];
            pair[0].is("for") && strengths.iter().any(|one| pair[1].is(one))
        })
    }

    /// Adds the table at a place. Returns the place after it and its alias; `None` if there is no table.
    fn add_table(&mut self, mut at: usize, of: TableUse) -> Option<usize> {
        if self.is_word(at, "only") {
            at += 1;
        }
        if self.is_word(at, "select") || self.is_word(at, "lateral") {
            return None;
        }
        let mut name = self.word(at)?.lexeme.name()?;
        at += 1;
        while self.is_symbol(at, ".") {
            name = self.word(at + 1)?.lexeme.name()?;
            at += 2;
        }
        // A function.
        if self.is_symbol(at, "(") && of != TableUse::Written {
            return None;
        }
        self.aliases.insert(name.clone(), name.clone());
        match self.tables.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = of.max(*known),
            None => self.tables.push((name.clone(), of)),
        }
        let has_as = self.is_word(at, "as");
        let alias = self.word(at + usize::from(has_as)).and_then(|word| {
            let is_keyword = NO_ALIAS.iter().any(|one| word.is(one));
            (!is_keyword).then(|| word.lexeme.name()).flatten()
        });
        if let Some(alias) = alias {
            at += 1 + usize::from(has_as);
            self.aliases.insert(alias, name);
        }
        Some(at)
    }

    fn find_places(&self, places: &mut Vec<ValuePlace>) {
        let inserted = self.inserted_columns();
        let mut assigns = false;
        let mut depth = 0_usize;
        let mut set_depth = 0;
        // Place after the column of the list that is being read: IN, or the `=` of `= ANY (ARRAY[…])`.
        let mut list = None;
        for (at, word) in self.words.iter().enumerate() {
            if word.is_symbol("(") {
                depth += 1;
                list = at
                    .checked_sub(1)
                    .filter(|before| self.is_word(*before, "in"));
            } else if word.is_symbol(")") {
                depth = depth.saturating_sub(1);
                assigns &= depth >= set_depth;
                list = None;
            } else if word.is_symbol("[") {
                list = self.list_of_array(at);
            } else if word.is_symbol("]") {
                list = None;
            } else if word.is("set") && at > 0 {
                (assigns, set_depth) = (true, depth);
            } else if depth == set_depth
                && ["where", "from", "returning"]
                    .iter()
                    .any(|one| word.is(one))
            {
                assigns = false;
            }
            let Lexeme::Value(text) = word.lexeme else {
                continue;
            };
            let token = match text
                .strip_prefix('$')
                .and_then(|number| number.parse::<usize>().ok())
            {
                Some(number) => ValueToken::Parameter(number.saturating_sub(1)),
                None => ValueToken::Literal(word.start..word.start + text.len()),
            };
            places.push(match inserted.get(&at) {
                Some(column) => ValuePlace {
                    token,
                    role: PlaceRole::Inserted,
                    table: Some(column.table.clone()),
                    column: column.name.clone(),
                    column_number: column.number,
                },
                None => self.other_place(at, token, list, assigns && depth == set_depth),
            });
        }
    }

    /// Returns the place of a value that is not inserted.
    fn other_place(
        &self,
        at: usize,
        token: ValueToken,
        list: Option<usize>,
        assigns: bool,
    ) -> ValuePlace {
        let elements = match list {
            None => self.column_of_elements(at),
            Some(_) => None,
        };
        let has_elements = elements.is_some();
        let found = match list {
            Some(list) if self.is_word(list.wrapping_sub(1), "not") => None,
            Some(list) => self.column_before(list),
            None => elements.or_else(|| self.compared_column(at)),
        };
        let role = match (&found, assigns) {
            (None, _) => PlaceRole::Other,
            (Some(_), _) if has_elements => PlaceRole::ComparedElements,
            (Some(_), true) => PlaceRole::Assigned,
            (Some(_), false) => PlaceRole::Compared,
        };
        let (table, column) = found.unzip();
        ValuePlace {
            token,
            role,
            table: table.flatten(),
            column,
            column_number: None,
        }
    }

    /// Returns the columns of the values of `INSERT INTO t (columns) VALUES (…), …`, by the values' places.
    fn inserted_columns(&self) -> HashMap<usize, InsertedColumn> {
        let mut found = HashMap::new();
        let Some(into) = self.words.iter().position(|word| word.is("into")) else {
            return found;
        };
        let mut at = into + 1;
        let Some(mut table) = self.word(at).and_then(|word| word.lexeme.name()) else {
            return found;
        };
        at += 1;
        while self.is_symbol(at, ".") {
            let Some(name) = self.word(at + 1).and_then(|word| word.lexeme.name()) else {
                return found;
            };
            table = name;
            at += 2;
        }
        if self.is_word(at, "as") {
            at += 2;
        }
        let columns = match self.is_symbol(at, "(") {
            true => self.names_in_brackets(&mut at),
            false => Some(Vec::new()),
        };
        let Some(columns) = columns else {
            return found;
        };
        while let Some(word) = self.word(at)
            && !word.is("values")
        {
            if word.is("select") {
                return found;
            }
            at += 1;
        }
        at += 1;
        while self.is_symbol(at, "(") {
            at = self.add_row(at + 1, &table, &columns, &mut found);
            if !self.is_symbol(at, ",") {
                break;
            }
            at += 1;
        }
        found
    }

    fn names_in_brackets(&self, at: &mut usize) -> Option<Vec<String>> {
        if !self.is_symbol(*at, "(") {
            return None;
        }
        let mut names = Vec::new();
        loop {
            names.push(self.word(*at + 1)?.lexeme.name()?);
            *at += 2;
            match self.word(*at)? {
                word if word.is_symbol(",") => {}
                word if word.is_symbol(")") => break,
                _ => return None,
            }
        }
        *at += 1;
        Some(names)
    }

    /// Adds the values of one row of VALUES. Returns the place after its bracket.
    fn add_row(
        &self,
        from: usize,
        table: &str,
        columns: &[String],
        found: &mut HashMap<usize, InsertedColumn>,
    ) -> usize {
        let (mut depth, mut column, mut begins) = (0_usize, 0, from);
        for at in from..self.words.len() {
            let word = &self.words[at];
            let ends = depth == 0 && (word.is_symbol(",") || word.is_symbol(")"));
            if ends {
                // One value, possibly with a cast.
                let is_plain = at == begins + 1 || self.is_symbol(begins + 1, "::");
                let is_value = matches!(
                    self.word(begins),
                    Some(Word {
                        lexeme: Lexeme::Value(_),
                        ..
                    })
                );
                let name = columns.get(column).cloned();
                if is_plain && is_value && (name.is_some() || columns.is_empty()) {
                    let inserted = InsertedColumn {
                        table: table.to_owned(),
                        number: name.is_none().then_some(column),
                        name,
                    };
                    found.insert(begins, inserted);
                }
                (column, begins) = (column + 1, at + 1);
                if word.is_symbol(")") {
                    return at + 1;
                }
            } else if word.is_symbol("(") {
                depth += 1;
            } else if word.is_symbol(")") {
                depth -= 1;
            }
        }
        self.words.len()
    }

    /// Returns the column that the value at a place is compared with for equality, or assigned to.
    fn compared_column(&self, at: usize) -> Option<(Option<String>, String)> {
        if at >= 2 && self.is_symbol(at - 1, "=") {
            return self.column_before(at - 1);
        }
        let mut after = at + 1;
        while self.is_symbol(after, "::") {
            after += 2;
        }
        if self.is_symbol(after, "=") {
            let first = self.word(after + 1)?.lexeme.name()?;
            return match self.is_symbol(after + 2, ".") {
                true => self.qualified(first, self.word(after + 3)?.lexeme.name()?),
                false if self.is_symbol(after + 2, "(") || self.is_symbol(after + 2, "::") => None,
                false => self.unqualified(first),
            };
        }
        None
    }

    /// Returns the column in `column = ANY (value)`, whose value is the whole array, possibly with a cast.
    fn column_of_elements(&self, at: usize) -> Option<(Option<String>, String)> {
        let is_any = at >= 4
            && self.is_symbol(at - 1, "(")
            && (self.is_word(at - 2, "any") || self.is_word(at - 2, "some"))
            && self.is_symbol(at - 3, "=");
        let ends = self.is_symbol(at + 1, ")") || self.is_symbol(at + 1, "::");
        match is_any && ends {
            true => self.column_before(at - 3),
            false => None,
        }
    }

    /// Returns the place of the `=` in `= ANY (ARRAY[`, whose bracket is at a place.
    fn list_of_array(&self, at: usize) -> Option<usize> {
        let is_any = at >= 5
            && self.is_word(at - 1, "array")
            && self.is_symbol(at - 2, "(")
            && (self.is_word(at - 3, "any") || self.is_word(at - 3, "some"))
            && self.is_symbol(at - 4, "=");
        is_any.then(|| at - 4)
    }

    /// Returns the column whose last word is before a place.
    fn column_before(&self, at: usize) -> Option<(Option<String>, String)> {
        let name = self.word(at.checked_sub(1)?)?.lexeme.name()?;
        let before = |words: usize| at.checked_sub(words);
        if before(2).is_some_and(|dot| self.is_symbol(dot, ".")) {
            let table = self.word(before(3)?)?.lexeme.name()?;
            return self.qualified(table, name);
        }
        // A cast of a column is not its value.
        if before(2).is_some_and(|cast| self.is_symbol(cast, "::")) {
            return None;
        }
        self.unqualified(name)
    }

    fn qualified(&self, table: String, column: String) -> Option<(Option<String>, String)> {
        Some((self.aliases.get(&table).cloned().or(Some(table)), column))
    }

    fn unqualified(&self, column: String) -> Option<(Option<String>, String)> {
        let table = match &self.tables[..] {
            [(table, _)] => Some(table.clone()),
            _ => None,
        };
        Some((table, column))
    }
}

#[cfg(test)]
mod tests;
