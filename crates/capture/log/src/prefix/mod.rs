//! Parses lines by their `log_line_prefix`.
//!
//! A prefix is compiled into pieces once; a line is matched piece by piece. Pieces of a fixed form
//! (times, numbers, addresses) match exactly that; names take the fewest bytes with which the rest
//! of the prefix and a severity still match. [`Prefix::doubts`] reports the ambiguities that
//! remain.

mod evidence;
mod fast_path;
mod infer;
mod match_cache;
mod matching;
mod percent_q;
mod readings;
mod server_words;
mod shape;

pub(super) use evidence::{LineFacts, is_of_statement, is_raised};
use fast_path::FastPath;
pub(super) use infer::{
    Inference, announced_prefix, announced_prefixes, infer, infer_with, is_structured,
};
pub(super) use match_cache::MatchCache;
pub(super) use matching::{Fields, LineMatch};

/// The value that an escape stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Escape {
    Application,
    User,
    Database,
    /// `host(port)`
    Remote,
    Host,
    BackendType,
    Pid,
    LeaderPid,
    /// `%t` and `%s` have whole seconds, `%m` has milliseconds.
    Time,
    TimeMilliseconds,
    Epoch,
    CommandTag,
    Sqlstate,
    Session,
    LineNumber,
    SessionStart,
    VirtualTransaction,
    Transaction,
    QueryId,
}

impl Escape {
    fn from_letter(letter: u8) -> Option<Self> {
        Some(match letter {
            b'a' => Escape::Application,
            b'u' => Escape::User,
            b'd' => Escape::Database,
            b'r' => Escape::Remote,
            b'h' => Escape::Host,
            b'b' => Escape::BackendType,
            b'p' => Escape::Pid,
            b'P' => Escape::LeaderPid,
            b't' => Escape::Time,
            b'm' => Escape::TimeMilliseconds,
            b'n' => Escape::Epoch,
            b'i' => Escape::CommandTag,
            b'e' => Escape::Sqlstate,
            b'c' => Escape::Session,
            b'l' => Escape::LineNumber,
            b's' => Escape::SessionStart,
            b'v' => Escape::VirtualTransaction,
            b'x' => Escape::Transaction,
            b'Q' => Escape::QueryId,
            _ => return None,
        })
    }

    /// Returns its letter in a prefix.
    fn letter(self) -> char {
        (b'a'..=b'z')
            .chain([b'P', b'Q'])
            .find(|letter| Self::from_letter(*letter) == Some(self))
            .map_or('?', char::from)
    }

    /// Returns whether the value may contain any text, so that only the text after it ends it.
    fn is_free(self) -> bool {
        matches!(
            self,
            Escape::Application
                | Escape::User
                | Escape::Database
                | Escape::BackendType
                | Escape::CommandTag
        )
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(Box<[u8]>),
    Field {
        escape: Escape,
        /// Minimum width; negative pads on the right.
        width: i32,
    },
    /// `%q`: processes without a client stop here.
    Quit,
}

/// Knowledge of which name is the user's and which the database's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameOrder {
    Known,
    Usual,
}

/// A compiled `log_line_prefix`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Prefix {
    text: String,
    pieces: Vec<Piece>,
    fast_path: Option<FastPath>,
    /// Whether it begins with `%m`.
    dates_first: bool,
    forgery: readings::Forgery,
    /// Its user and database are distinguished by their usual order alone.
    names: NameOrder,
    /// Whether a line may show that the prefix has `%q`, or has shown it.
    may_learn_quit: bool,
    learnt: bool,
}

/// Maximum supported width of padding.
const PADDING_MAX: i32 = 1_000;

impl Prefix {
    /// Compiles a prefix from the server's configuration. Escapes that the server does not know
    /// print nothing there, and match nothing here.
    pub(super) fn compile(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut literal = Vec::new();
        let mut bytes = text.bytes().peekable();
        while let Some(byte) = bytes.next() {
            if byte != b'%' {
                literal.push(byte);
                continue;
            }
            let mut number = String::new();
            while let Some(digit) =
                bytes.next_if(|b| b.is_ascii_digit() || (*b == b'-' && number.is_empty()))
            {
                number.push(char::from(digit));
            }
            let width = number.parse().unwrap_or(0).clamp(-PADDING_MAX, PADDING_MAX);
            let piece = match bytes.next() {
                None => break,
                Some(b'%') => {
                    literal.push(b'%');
                    continue;
                }
                Some(b'q') => Piece::Quit,
                Some(letter) => match Escape::from_letter(letter) {
                    Some(escape) => Piece::Field { escape, width },
                    None => continue,
                },
            };
            if !literal.is_empty() {
                pieces.push(Piece::Literal(std::mem::take(&mut literal).into()));
            }
            pieces.push(piece);
        }
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal.into()));
        }
        let fast_path = FastPath::compile(&pieces);
        Prefix {
            text: text.to_owned(),
            dates_first: fast_path.as_ref().is_some_and(FastPath::starts_with_time),
            fast_path,
            forgery: readings::Forgery::of(&pieces),
            names: NameOrder::Known,
            pieces,
            may_learn_quit: false,
            learnt: false,
        }
    }

    /// The text of the prefix.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn has(&self, wanted: &[Escape]) -> bool {
        self.pieces
            .iter()
            .any(|piece| matches!(piece, Piece::Field { escape, .. } if wanted.contains(escape)))
    }

    /// Returns whether lines can be dated.
    pub(super) fn has_time(&self) -> bool {
        self.has(&[Escape::Time, Escape::TimeMilliseconds, Escape::Epoch])
    }

    /// Returns whether every time in its lines is in whole seconds.
    pub(super) fn has_whole_seconds_only(&self) -> bool {
        self.has_time() && !self.has(&[Escape::TimeMilliseconds, Escape::Epoch])
    }

    /// Returns whether a reused process number can be told from its previous session.
    pub(super) fn tells_sessions_apart(&self) -> bool {
        self.has(&[Escape::Session, Escape::LineNumber])
    }

    /// Returns whether sessions can be told apart.
    pub(super) fn has_process(&self) -> bool {
        self.has(&[Escape::Pid, Escape::Session])
    }

    /// Describes the ambiguities in lines with this prefix, each a sentence for the user. Missing
    /// escapes are reported by [`super::Finding`].
    pub(super) fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        for pair in self.pieces.windows(2) {
            if let [
                Piece::Field { escape: first, .. },
                Piece::Field { escape: second, .. },
            ] = pair
                && first.is_free()
            {
                doubts.push(format!(
                    "nothing stands between %{} and %{} in it, so where the one ends and the other begins is guessed",
                    first.letter(),
                    second.letter()
                ));
            }
        }
        if self.names == NameOrder::Usual {
            doubts.push(
                "no line says which of its names is the user's and which the database's: their usual order is a guess, so give --prefix if SHOW log_line_prefix says another".to_owned(),
            );
        }
        doubts
    }
}
