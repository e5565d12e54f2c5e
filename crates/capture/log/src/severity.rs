//! Parses the word before the message: a severity that begins an entry, or the label of a line that
//! belongs to the entry before it. Also recognises the words of other languages, to refuse such
//! logs.

/// Severity of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Severity {
    Log,
    Error,
    Fatal,
    Panic,
    Warning,
    /// DEBUG1 to DEBUG5, INFO, NOTICE: sent to the client, not caused by it.
    Notice,
}

impl Severity {
    /// Parses a severity as the server writes it in English.
    pub(super) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "LOG" => Severity::Log,
            "ERROR" => Severity::Error,
            "FATAL" => Severity::Fatal,
            "PANIC" => Severity::Panic,
            "WARNING" => Severity::Warning,
            "NOTICE" | "INFO" | "DEBUG" | "DEBUG1" | "DEBUG2" | "DEBUG3" | "DEBUG4" | "DEBUG5" => {
                Severity::Notice
            }
            _ => return None,
        })
    }
}

/// Kind of a stderr line, by the word before its text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Label {
    Head(Severity),
    Detail,
    Context,
    Statement,
    Location,
    /// HINT, QUERY, BACKTRACE: ignored.
    #[default]
    Aside,
}

/// Length of the longest label with its colon and two blanks.
pub(super) const LABEL_BYTES_MAX: usize = "BACKTRACE:  ".len();

/// Parses `WORD:  ` at the start of `line`; returns the label and its total length.
#[inline]
pub(super) fn label(line: &[u8]) -> Option<(Label, usize)> {
    // The hot case first.
    if line.starts_with(b"LOG:  ") {
        return Some((Label::Head(Severity::Log), 6));
    }
    if line.starts_with(b"DETAIL:  ") {
        return Some((Label::Detail, 9));
    }
    if !line.first()?.is_ascii_uppercase() {
        return None;
    }
    let window = &line[..line.len().min(LABEL_BYTES_MAX)];
    let colon = memchr::memchr(b':', window)?;
    // Some editors remove the blanks of an empty message; the server always writes two.
    if window.get(colon + 1..colon + 3)? != b"  " {
        return None;
    }
    let word = std::str::from_utf8(&window[..colon]).ok()?;
    let label = match word {
        "DETAIL" => Label::Detail,
        "CONTEXT" => Label::Context,
        "STATEMENT" => Label::Statement,
        "LOCATION" => Label::Location,
        "HINT" | "QUERY" | "BACKTRACE" => Label::Aside,
        word => Label::Head(Severity::parse(word)?),
    };
    Some((label, colon + 3))
}

/// Finds the first severity or label, which is where the prefix ends.
pub(super) fn find_label(line: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b':', line)
        .filter(|colon| line.get(colon + 1..colon + 3) == Some(b"  "))
        .find_map(|colon| {
            let word = line[..colon]
                .iter()
                .rev()
                .take_while(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
                .count();
            // A literal in capitals may directly precede the severity.
            (colon - word..colon).find(|start| label(&line[*start..]).is_some())
        })
}

/// Severities and labels as servers with another `lc_messages` write them.
const FOREIGN_LABELS: &[&str] = &[
    "FEHLER",
    "WARNUNG",
    "HINWEIS",
    "ANWEISUNG",
    "ZUSAMMENHANG",
    "TIPP", // German
    "ERREUR",
    "ATTENTION",
    "INSTRUCTION",
    "CONTEXTE",
    "ASTUCE",
    "DÉTAIL", // French
    "ADVERTENCIA",
    "SENTENCIA",
    "DETALLE",
    "CONTEXTO",
    "SUGERENCIA",
    "REGISTRO", // Spanish
    "ERRO",
    "AVISO",
    "COMANDO",
    "DETALHE",
    "DICA", // Portuguese
    "ERRORE",
    "ATTENZIONE",
    "ISTRUZIONE",
    "DETTAGLI",
    "CONTESTO",
    "SUGGERIMENTO", // Italian
    "СООБЩЕНИЕ",
    "ОШИБКА",
    "ВАЖНО",
    "ПРЕДУПРЕЖДЕНИЕ",
    "ОПЕРАТОР",
    "ПОДРОБНОСТИ",
    "ЗАМЕЧАНИЕ", // Russian
    "ЗАПИС",
    "ПОМИЛКА",
    "ОПЕРАТОР", // Ukrainian
    "DZIENNIK",
    "BŁĄD",
    "OSTRZEŻENIE",
    "WYRAŻENIE", // Polish
    "LOGG",
    "FEL",
    "VARNING",
    "SATS", // Swedish
    "HATA",
    "UYARI",
    "AYRINTI",
    "İFADE",
    "DEYİM", // Turkish
    "CHYBA",
    "VAROVÁNÍ",
    "PŘÍKAZ", // Czech
    "日志",
    "错误",
    "语句",
    "警告",
    "致命错误", // Chinese
    "エラー",
    "文",
    "詳細", // Japanese
    "로그",
    "오류",
    "경고",
    "명령 구문",
    "상세정보", // Korean
];

/// Beginnings of the relevant messages in other languages, for which the severity stays `LOG`.
const FOREIGN_MESSAGES: &[&str] = &[
    "Dauer: ",
    "Anweisung: ",
    "Verbindung empfangen",
    "Verbindung autorisiert",
    "Verbindungsende",
    "durée : ",
    "durée :",
    "instruction : ",
    "instruction :",
    "connexion reçue",
    "connexion autorisée",
    "déconnexion",
    "duración: ",
    "sentencia: ",
    "conexión recibida",
    "conexión autorizada",
    "desconexión",
    "duração: ",
    "comando: ",
    "conexão recebida",
    "conexão autorizada",
    "desconexão",
    "durata: ",
    "istruzione: ",
    "connessione ricevuta",
    "connessione autorizzata",
    "disconnessione",
    "продолжительность: ",
    "оператор: ",
    "подключение ",
    "отключение",
    "соединение",
    "czas trwania: ",
    "wyrażenie: ",
    "varaktighet: ",
    "sats: ",
    "süre: ",
    "trvání: ",
    "期間: ",
    "文: ",
    "接続",
    "执行时间: ",
    "语句: ",
    "连接",
    "실행시간: ",
    "명령 구문: ",
];

/// Returns whether a severity or label column is translated.
pub(super) fn is_foreign_label(word: &str) -> bool {
    FOREIGN_LABELS.contains(&word)
}

/// Returns whether a message begins as a translation of a relevant one.
pub(super) fn is_foreign_message(message: &str) -> bool {
    FOREIGN_MESSAGES
        .iter()
        .any(|start| message.starts_with(start))
}

/// Returns the translated word of a stderr line, if it has one: `FEHLER:  `, `ERREUR:  ` or, after
/// `LOG:  `, a translated message.
pub(super) fn foreign_word(line: &str) -> Option<&str> {
    let mut from = 0;
    while let Some(colon) = line[from..].find(":  ").map(|at| at + from) {
        let before = line[..colon].trim_end();
        let start = before
            .char_indices()
            .rev()
            .take_while(|(_, c)| c.is_alphabetic())
            .last()
            .map_or(before.len(), |(at, _)| at);
        let word = &before[start..];
        if is_foreign_label(word)
            || line[colon + 3..]
                .lines()
                .next()
                .is_some_and(is_foreign_message)
        {
            return Some(if is_foreign_label(word) {
                word
            } else {
                line[colon + 3..]
                    .split(':')
                    .next()
                    .unwrap_or(word)
                    .trim_end()
            });
        }
        if Severity::parse(word).is_some() {
            return None;
        }
        from = colon + 3;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_a_known_word_a_colon_and_two_blanks() {
        assert_eq!(label(b"LOG:  x"), Some((Label::Head(Severity::Log), 6)));
        assert_eq!(label(b"PANIC:  x"), Some((Label::Head(Severity::Panic), 8)));
        assert_eq!(label(b"STATEMENT:  select"), Some((Label::Statement, 12)));
        assert_eq!(label(b"BACKTRACE:  "), Some((Label::Aside, 12)));
        for not in [
            &b"LOG: x"[..],
            b"log:  x",
            b"LOGS:  x",
            b"",
            b"LOG:",
            b"FEHLER:  x",
        ] {
            assert_eq!(label(not), None);
        }
    }

    #[test]
    fn fact_19_a_translated_line_is_told_by_its_word() {
        for (line, word) in [
            (
                "2026-01-01 10:00:00 CET [1] FEHLER:  Relation »x« existiert nicht",
                Some("FEHLER"),
            ),
            (
                "2026-01-01 10:00:00 CET [1] LOG:  Dauer: 0.1 ms  Anweisung: select 1",
                Some("Dauer"),
            ),
            (
                "2026-01-01 10:00:00 CET [1] LOG:  durée : 0.1 ms",
                Some("durée"),
            ),
            ("2026-01-01 10:00:00 MSK [1] ОШИБКА:  нет", Some("ОШИБКА")),
            (
                "2026-01-01 10:00:00 CET [1] LOG:  duration: 0.1 ms  statement: select 'FEHLER:  '",
                None,
            ),
            ("nothing", None),
        ] {
            assert_eq!(foreign_word(line), word, "{line}");
        }
    }
}
