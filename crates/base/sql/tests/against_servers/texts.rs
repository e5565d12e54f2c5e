//! Generated texts. They are the same in every run.

/// Pieces that mean something to a lexer.
const PIECES: &[&str] = &[
    "'",
    "''",
    "\\",
    "\\'",
    "\\\\",
    "\n",
    "\r",
    " ",
    "\t",
    "--",
    "-- x\n",
    "--\r",
    "/*",
    "*/",
    "/**/",
    "$",
    "$$",
    "$a$",
    "E'",
    "U&'",
    "N'",
    "B'",
    "X'",
    "e",
    "-",
    "+",
    ".",
    "..",
    "1",
    "0x1",
    "0b1",
    "1_0",
    ";",
    ",",
    "\"",
    "uescape '!'",
    "a",
    "é",
    "'\n'",
    "'\r\n '",
    "' --\n'",
    "' -- '\n  '",
    "\u{b}",
    "\u{c}",
    "1e--'\n",
    "1e",
    "$1",
];

/// Source of generated texts: Marsaglia's xorshift64.
pub struct Texts(u64);

impl Texts {
    pub fn new(seed: u64) -> Self {
        Texts(0x9e37_79b9_7f4a_7c15 ^ seed)
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }

    pub fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    fn several(&mut self, most: usize, of: &[&str]) -> String {
        let count = self.below(most + 1);
        (0..count).map(|_| self.pick(of)).collect()
    }

    /// Returns white space or a comment.
    pub fn space(&mut self) -> &'static str {
        self.pick(&[
            " ",
            "\n",
            "\r",
            "\t ",
            "/* ' */",
            "/*/* ; */*/",
            "--'\n",
            "-- ;\r",
            " -- $$\n\r",
            "\u{c}",
        ])
    }

    fn quoted(&mut self, prefix: &str, of: &[&str]) -> String {
        let gap = match self.below(3) {
            0 => self.pick(&[
                "'\n'",
                "'\r'",
                "' -- '' ;\n '",
                "'--\r\n--x\n'",
                "' \n\t\u{c}'",
            ]),
            _ => "",
        };
        let (first, second) = (self.several(4, of), self.several(4, of));
        format!("{prefix}'{first}{gap}{second}'")
    }

    /// Returns a literal of text. With backslashes that escape, some are none.
    pub fn text(&mut self) -> String {
        const PLAIN: &[&str] = &[
            "a", "''", "\\\\", ";", "--", "/*", "$$", "\"", "é", "\n", "1",
        ];
        const ESCAPED: &[&str] = &[
            "a", "''", "\\'", "\\\\", "\\x41", "\\101", "\\u00e9", "\\n", ";", "--",
        ];
        const UNICODE: &[&str] = &["a", "''", "\\0041", "\\+01F600", "\\\\", ";", "--"];
        const CHOSEN: &[&str] = &["a", "''", "!0041", "!+01F600", "!!", ";", "\\", "--"];
        match self.below(6) {
            0 | 1 => self.quoted("", PLAIN),
            2 | 3 => self.quoted("E", ESCAPED),
            4 => self.quoted("U&", UNICODE),
            _ => {
                let literal = self.quoted("u&", CHOSEN);
                format!("{literal}{}UESCAPE{}'!'", self.space(), self.space())
            }
        }
    }

    fn literal(&mut self) -> String {
        match self.below(10) {
            0..=5 => self.text(),
            6 => self.quoted("n", &["a", "''", "\\\\", ";"]),
            7 => self.quoted("b", &["0", "1", "10"]),
            8 => self.quoted("X", &["0", "1f"]),
            _ if self.below(3) == 0 => {
                let inner = self.several(5, &["a", "'", "\\", ";", "--", "$b", "$ "]);
                format!("$a${inner}$a$")
            }
            _ => {
                let numbers = [
                    "0", "12", "1.5", ".5", "1.", "1e3", "1.5E-3", "-7", "1_000", "0x1F", "0b1",
                ];
                self.pick(&numbers).to_owned()
            }
        }
    }

    /// Returns statements that select literals.
    pub fn well_formed(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..1 + self.below(3) {
            text.push_str("select");
            text.push_str(self.space());
            for place in 0..1 + self.below(3) {
                if place > 0 {
                    text.push_str(self.pick(&[",", ", ", ",\n"]));
                }
                text.push_str(&self.literal());
                text.push_str(self.pick(&["", "", " ", "/*x*/", "--\n", "--\r"]));
            }
            text.push_str(self.pick(&[";", "; ", ";;", ";-- x\r"]));
        }
        text
    }

    /// Returns such statements with pieces added and removed.
    pub fn mutated(&mut self) -> String {
        let mut text = self.well_formed();
        for _ in 0..1 + self.below(3) {
            let boundaries: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            let at = boundaries[self.below(boundaries.len())];
            if self.below(3) == 0 {
                text.remove(at);
            } else {
                text.insert_str(at, self.pick(PIECES));
            }
        }
        text
    }
}

/// Generated statements over the table of [`super::TABLE`].
pub struct Statements {
    pub texts: Texts,
    /// The server groups lists of any length.
    pub folds_lists: bool,
    /// The server reads `0x1F` and `1_000`.
    pub has_new_numbers: bool,
}

impl Statements {
    fn number(&mut self) -> &'static str {
        let numbers = ["0", "7", "12345", "-3", "0x1F", "1_000"];
        let known = if self.has_new_numbers { 6 } else { 4 };
        self.texts.pick(&numbers[..known])
    }

    fn list(&mut self) -> String {
        let length = match self.folds_lists {
            true => 2 + self.texts.below(4),
            false => 3,
        };
        let items: Vec<&str> = (0..length).map(|_| self.number()).collect();
        items.join(",")
    }

    fn condition(&mut self) -> String {
        let operator = self.texts.pick(&["=", "<", ">=", "<>"]);
        let space = self.texts.space();
        match self.texts.below(7) {
            0 => format!("id{space}{operator} {}", self.number()),
            1 => format!("name {operator}{space}{}", self.texts.text()),
            2 => {
                let price = self.texts.pick(&["1.5", ".5", "1e3", "-1.5E-3", "2."]);
                format!("price{operator}{price}")
            }
            3 => {
                let flags = self.texts.pick(&["b'10'", "B'0'\n'1'", "b'1'--x\r'1'"]);
                format!("flags {operator} {flags}")
            }
            4 => format!("id in{space}({})", self.list()),
            5 => format!(
                "price is distinct from {}",
                self.texts.pick(&["-1.5", ".5"])
            ),
            _ => format!("id - {} > 1{space}", self.texts.pick(&["1", "23"])),
        }
    }

    pub fn statement(&mut self) -> String {
        let select = self.texts.pick(&["select", "SELECT", "Select"]);
        let columns = [
            "id",
            "ID , name",
            "count(*)",
            "-1, U&\"n!0061me\" uescape '!'",
        ];
        let columns = self.texts.pick(&columns);
        let table = self.texts.pick(&["orders", "Orders"]);
        let space = self.texts.space();
        let condition = self.condition();
        let mut text = format!("{select} {columns}{space}from {table} where {condition}");
        if self.texts.below(2) == 0 {
            text.push_str(" and ");
            text.push_str(&self.condition());
        }
        text.push_str(self.texts.pick(&["", ";", " -- end", " /* end */ ;"]));
        text
    }
}
