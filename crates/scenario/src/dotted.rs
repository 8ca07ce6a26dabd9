//! Dotted keys: `job.lenet.batch`, `storage."my store".memory`.

use super::file;
use super::value::Tree;

/// Maximum number of parts of a key.
const MOST_PARTS: usize = 80;

/// Returns the parts of a dotted key; `None` if `key` is not a dotted key.
pub(super) fn split_key(key: &str) -> Option<Vec<String>> {
    dotted_key(key).filter(|(_, rest)| rest.is_empty()).map(|(parts, _)| parts)
}

/// Returns the parts of each of several dotted keys with commas between them; `None` if `keys` are no dotted keys.
pub(super) fn split_keys(keys: &str) -> Option<Vec<Vec<String>>> {
    dotted_keys(keys).filter(|(_, rest)| rest.is_empty()).map(|(keys, _)| keys)
}

/// Returns the dotted keys with commas between them at the beginning of `text`, and the rest of the text, which is empty or begins
/// with `=`; `None` if there are none.
pub(super) fn dotted_keys(text: &str) -> Option<(Vec<Vec<String>>, &str)> {
    let (mut keys, mut rest) = (Vec::new(), text);
    loop {
        let (parts, after) = key_before(rest, &['=', ','])?;
        keys.push(parts);
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None => return Some((keys, after)),
        }
    }
}

/// Returns the parts of the dotted key at the beginning of `text`, and the rest of the text, which is empty or begins with `=`;
/// `None` if there is no dotted key. A part is bare, or quoted as in TOML: `"…"` with escapes, `'…'` without.
pub(super) fn dotted_key(text: &str) -> Option<(Vec<String>, &str)> {
    key_before(text, &['='])
}

/// Returns the parts of the dotted key at the beginning of `text`, and the rest of the text, which is empty or begins with one of
/// `ends`.
fn key_before<'a>(text: &'a str, ends: &[char]) -> Option<(Vec<String>, &'a str)> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        let (part, after) = part(rest, ends)?;
        if parts.len() == MOST_PARTS {
            return None;
        }
        parts.push(part);
        let after = after.trim_start();
        match after.strip_prefix('.') {
            Some(more) => rest = more.trim_start(),
            None => return (after.is_empty() || after.starts_with(ends)).then_some((parts, after)),
        }
    }
}

/// Returns the first part of a dotted key, which ends before a dot or one of `ends`, and what follows it.
fn part<'a>(text: &'a str, ends: &[char]) -> Option<(String, &'a str)> {
    let (part, after) = match text.chars().next()? {
        '\'' => {
            let (inside, after) = text[1..].split_once('\'')?;
            (inside.to_owned(), after)
        }
        '"' => {
            let end = end_of_quoted(text)?;
            let Ok(Tree::Text(inside)) = file::parse_value(&text[..end]) else { return None };
            (inside, &text[end..])
        }
        _ => {
            let (bare, after) =
                text.split_at(text.find(|c| c == '.' || ends.contains(&c)).unwrap_or(text.len()));
            let bare = bare.trim_end();
            let quoted = bare.contains(['"', '\'', '[', ']']);
            (!quoted).then(|| (bare.to_owned(), after))?
        }
    };
    (!part.is_empty()).then_some((part, after))
}

/// Returns the position after the closing quote of the quoted text at the beginning of `text`.
fn end_of_quoted(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return Some(at + 1),
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Override;
    use crate::document::quoted;
    use proptest::prelude::*;

    proptest! {
        /// System: a key with any name, and any text as its value. Expectation: both are read back from the override as it is shown
        /// and sent.
        #[test]
        fn any_name_and_value_of_an_override_are_read_back(name in "\\PC+", text in "(?s).*") {
            let key = format!("job.{}.queue", quoted(&name));
            let change = Override::new(key, text.as_str().into());
            prop_assert_eq!(change.path().to_vec(), ["job", &name, "queue"].map(str::to_owned).to_vec());
            let json = serde_json::to_string(&change).expect("JSON");
            prop_assert_eq!(serde_json::from_str::<Override>(&json).expect("an override"), change);
        }
    }

    #[test]
    fn quoted_parts_of_dotted_keys_may_hold_any_character() {
        // System: names that TOML must quote, in a key with a value behind it. Expectation: the parts are read back.
        for name in [
            "a.b",
            "a b",
            "a=b",
            "it's",
            "say \"x\"",
            "back\\slash",
            "*",
            "[0]",
            "café",
            "\u{7}",
            "#",
        ] {
            let key = format!("job.{}.batch", quoted(name));
            let parts = ["job", name, "batch"].map(str::to_owned).to_vec();
            assert_eq!(split_key(&key), Some(parts.clone()), "{key}");
            assert_eq!(dotted_key(&format!("{key}=\"a=b\"")), Some((parts, "=\"a=b\"")), "{key}");
        }
        let literal = ["job", "a\\b", "batch"].map(str::to_owned).to_vec();
        assert_eq!(split_key(r"job.'a\b'.batch"), Some(literal));
    }

    #[test]
    fn texts_that_are_no_dotted_keys_are_refused() {
        for key in [
            "", ".", "a.", "a..b", "a.\"b", "a.'b", "\"a\"b", "a[0]", "a\"b\"", "a.\"\"", "\"\\q\"",
        ] {
            assert_eq!(split_key(key), None, "{key}");
        }
        assert_eq!(split_key("a=1"), None);
    }
}
