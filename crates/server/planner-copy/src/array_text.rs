//! Reads the text of an array of one dimension.

/// Returns the elements of an array in text form, as the server writes it (`array_out`): `{a,"b \"c\"",NULL}`. An element that
/// is an array itself is in quotes. Returns `None` for another text.
pub(crate) fn elements(array: &str) -> Option<Vec<Option<String>>> {
    let inner = array.strip_prefix('{')?.strip_suffix('}')?;
    let mut all = Vec::new();
    if inner.is_empty() {
        return Some(all);
    }
    let mut rest = inner.chars().peekable();
    loop {
        let mut element = String::new();
        let is_quoted = rest.next_if_eq(&'"').is_some();
        if is_quoted {
            loop {
                match rest.next()? {
                    '"' => break,
                    '\\' => element.push(rest.next()?),
                    other => element.push(other),
                }
            }
        } else {
            while let Some(character) = rest.next_if(|one| *one != ',') {
                // The server puts an element with such a character, and an empty one, in quotes.
                (!matches!(character, '{' | '}' | '"' | '\\')).then_some(())?;
                element.push(character);
            }
            (!element.is_empty()).then_some(())?;
        }
        let is_null = !is_quoted && element.eq_ignore_ascii_case("null");
        all.push(Some(element).filter(|_| !is_null));
        match rest.next() {
            None => return Some(all),
            Some(',') => {}
            Some(_) => return None,
        }
    }
}

/// Writes an array of one dimension in text form. `None` is NULL.
pub(crate) fn write(elements: &[Option<String>]) -> String {
    let written: Vec<String> = elements
        .iter()
        .map(|element| match element {
            Some(text) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
            None => "NULL".to_owned(),
        })
        .collect();
    format!("{{{}}}", written.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_array_has_the_same_elements_when_it_is_read() {
        let some = |text: &str| Some(text.to_owned());
        let elements_written = [
            some(""),
            None,
            some("NULL"),
            some(r#"a "b" \ c"#),
            some("{1,2}, 'x'"),
        ];
        let text = write(&elements_written);
        assert_eq!(text, r#"{"",NULL,"NULL","a \"b\" \\ c","{1,2}, 'x'"}"#);
        assert_eq!(elements(&text), Some(elements_written.to_vec()));
        assert_eq!(write(&[]), "{}");
    }

    #[test]
    fn elements_of_an_array_are_read_without_quotes_and_escapes() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(elements("{}"), Some(Vec::new()));
        assert_eq!(
            elements(r#"{a b,"",NULL,"null","{1,\"x y\"}","c\\d",12:30:00}"#),
            Some(vec![
                some("a b"),
                some(""),
                None,
                some("null"),
                some("{1,\"x y\"}"),
                some("c\\d"),
                some("12:30:00"),
            ])
        );
        for text in [
            "",
            "a",
            "{a",
            "{a,}",
            "{,a}",
            "{\"a}",
            "{\"a\"b}",
            "{{1},{2}}",
            "[0:1]={a,b}",
        ] {
            assert_eq!(elements(text), None, "{text}");
        }
    }
}
