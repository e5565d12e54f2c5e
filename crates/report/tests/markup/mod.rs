//! Checks of the markup of every page, without a browser.

#![allow(dead_code)] // each test file uses a part of it

/// Checks that elements are opened and closed correctly, without the contents of scripts and style.
pub fn check_nesting(html: &str) {
    const EMPTY: [&str; 6] = ["meta", "input", "br", "link", "img", "hr"];
    let mut open: Vec<String> = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at..];
        if rest.starts_with("<!") {
            rest = &rest[rest.find('>').unwrap() + 1..];
            continue;
        }
        let end = rest.find('>').expect("a tag ends");
        let tag = &rest[1..end];
        rest = &rest[end + 1..];
        let name: String = tag
            .trim_start_matches('/')
            .chars()
            .take_while(char::is_ascii_alphanumeric)
            .collect();
        assert!(!name.is_empty(), "<{tag}>");
        if tag.starts_with('/') {
            assert_eq!(
                open.pop().as_deref(),
                Some(&*name),
                "</{name}> closes something else"
            );
        } else if !tag.ends_with('/') && !EMPTY.contains(&&*name) {
            if name == "script" || name == "style" {
                let close = format!("</{name}>");
                let at = rest.find(&close).expect("it is closed");
                rest = &rest[at + close.len()..];
            } else {
                open.push(name);
            }
        }
    }
    assert_eq!(open, Vec::<String>::new());
}

/// Returns the content of a data element by its id.
pub fn data(html: &str, id: &str) -> serde_json::Value {
    let start = format!("<script type=\"application/json\" id=\"{id}\">");
    let from = html.find(&start).unwrap() + start.len();
    let to = from + html[from..].find("</script>").unwrap();
    serde_json::from_str(&html[from..to]).unwrap()
}

/// Checks that the page refers to nothing that would have to be fetched.
pub fn check_self_contained(html: &str) {
    for outside in [
        "http:", "https:", "//www", "src=", "url(", "@import", "<link", "fetch(",
    ] {
        assert!(!html.contains(outside), "{outside}");
    }
}

/// Checks that ids are unique, because scripts find elements by id.
pub fn check_ids(html: &str) {
    let mut ids: Vec<&str> = html
        .split(" id=\"")
        .skip(1)
        .map(|rest| &rest[..rest.find('"').unwrap()])
        .collect();
    assert!(ids.len() > 8, "{ids:?}");
    ids.sort_unstable();
    let all = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), all, "{ids:?}");
}
