//! Defines one report of the server, before it is written in any format, and its backend.

/// State of a backend that the server has when it writes a line.
#[derive(Debug, Clone, Default)]
pub struct Backend {
    pub pid: u32,
    /// Start time of the process, in seconds since 1970: `%c`, `%s`, `session_start`.
    pub started: i64,
    /// The backend's slot, the first half of `%v`.
    pub slot: u32,
    pub user: &'static str,
    pub database: &'static str,
    pub application: &'static str,
    /// Empty for the server's own processes.
    pub host: &'static str,
    pub port: u16,
    /// Lines so far, for `%l`.
    pub line: u64,
}

/// One report. Empty text means absent. [`Entry::clear`] resets it for reuse, so that a generator
/// of gigabytes allocates nothing.
#[derive(Debug, Clone, Default)]
pub struct Entry {
    /// When it is written, in microseconds since 1970.
    pub wall_us: i64,
    pub severity: &'static str,
    /// `00000` for LOG.
    pub sqlstate: &'static str,
    pub message: String,
    pub detail: String,
    pub hint: String,
    pub context: String,
    pub statement: String,
    /// Character of the statement that an error points at, from 1; 0 for none.
    pub position: u32,
    /// `%i`: the command tag, or the event that the backend waits for.
    pub tag: &'static str,
    /// The second half of `%v`; `None` where the backend is in no transaction slot.
    pub local_transaction: Option<u32>,
    pub transaction: u32,
    pub backend_type: &'static str,
    /// The client has authenticated: user, database and application are known.
    pub authenticated: bool,
    /// `application_name` is set only after authentication.
    pub named: bool,
}

impl Entry {
    /// Resets it to an empty LOG of a client's backend.
    pub fn clear(&mut self, wall_us: i64) {
        self.wall_us = wall_us;
        self.severity = "LOG";
        self.sqlstate = "00000";
        for text in [
            &mut self.message,
            &mut self.detail,
            &mut self.hint,
            &mut self.context,
            &mut self.statement,
        ] {
            text.clear();
        }
        self.position = 0;
        self.tag = "idle";
        self.local_transaction = Some(0);
        self.transaction = 0;
        self.backend_type = "client backend";
        self.authenticated = true;
        self.named = true;
    }
}

/// A session's lines in the order of their times: cleared and filled again and again.
#[derive(Debug, Default)]
pub struct Pending {
    entries: Vec<Entry>,
    used: usize,
    next: usize,
}

impl Pending {
    /// Appends another line.
    pub fn add(&mut self, wall_us: i64) -> &mut Entry {
        if self.next == self.used {
            (self.next, self.used) = (0, 0);
        }
        if self.used == self.entries.len() {
            self.entries.push(Entry::default());
        }
        let entry = &mut self.entries[self.used];
        entry.clear(wall_us);
        self.used += 1;
        entry
    }

    /// The next line to be written.
    pub fn front(&self) -> Option<&Entry> {
        self.entries[..self.used].get(self.next)
    }

    /// The next line to be written, for additions.
    pub fn front_mut(&mut self) -> Option<&mut Entry> {
        self.entries[..self.used].get_mut(self.next)
    }

    /// Removes the line that was written.
    pub fn pop(&mut self) {
        self.next += 1;
    }
}

/// Appends a number in decimal.
pub fn push_number(text: &mut String, number: i64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        text.push('-');
    }
    text.push_str(std::str::from_utf8(&digits[at..]).expect("digits"));
}

/// Appends microseconds as the server does: milliseconds with three decimals.
pub fn push_milliseconds(text: &mut String, microseconds: i64) {
    push_number(text, microseconds / 1_000);
    let rest = microseconds % 1_000;
    text.push('.');
    for digit in [rest / 100, rest / 10 % 10, rest % 10] {
        text.push(char::from(b'0' + digit as u8));
    }
}
