//! What files hold and are called, made fit for a terminal.

use std::path::Path;

/// Characters of a long word that are shown.
const WORD: usize = 80;
/// A word of this length may be a file's name, which is shown whole [characters].
const LONGEST_NAME: usize = 255;

/// Control characters, and those that change the direction of what follows.
#[must_use]
pub fn unsafe_to_show(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Text for a terminal: characters that would control it are escaped, line ends aside.
#[must_use]
pub fn printable(text: &str) -> String {
    escape(text, |c| c == '\n')
}

/// The same in one line: line ends are escaped, too.
#[must_use]
pub fn printable_line(text: &str) -> String {
    escape(text, |_| false)
}

/// A path for a message, in one line.
#[must_use]
pub fn shown(path: &Path) -> String {
    printable_line(&path.to_string_lossy())
}

/// A value for a message: its first 80 characters, and `…` for the rest.
#[must_use]
pub fn cut(text: &str) -> String {
    match text.char_indices().nth(WORD) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// A message in which numbers with many digits, and other words that are longer than any file's name, are cut. Paths
/// stay whole.
#[must_use]
pub fn cut_words(text: &str) -> String {
    let is_long = |word: &str| {
        let number = |c: char| !c.is_alphabetic() || matches!(c, 'e' | 'E' | 'x');
        let most = if word.chars().all(number) { WORD } else { LONGEST_NAME };
        word.len() > most && !word.contains('/')
    };
    if !text.split(char::is_whitespace).any(is_long) {
        return text.to_owned();
    }
    let word = |word: &str| {
        let (word, space) = match word.strip_suffix(char::is_whitespace) {
            Some(rest) => (rest, &word[rest.len()..]),
            None => (word, ""),
        };
        let word = if is_long(word) { cut(word) } else { word.to_owned() };
        word + space
    };
    text.split_inclusive(char::is_whitespace).map(word).collect()
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if unsafe_to_show(c) && !keep(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_shown_in_one_line() {
        assert_eq!(shown(Path::new("a\nb\u{1b}[31m")), "a\\u{a}b\\u{1b}[31m");
        assert_eq!(shown(Path::new("/tmp/a b.toml")), "/tmp/a b.toml");
    }

    #[test]
    fn long_words_are_cut_and_paths_are_not() {
        let long = "9".repeat(1000);
        let nines = "9".repeat(80);
        assert_eq!(
            cut_words(&format!("a {long} is\nno number")),
            format!("a {nines}… is\nno number")
        );
        assert_eq!(cut_words(&long), format!("{nines}…"));
        assert_eq!(cut_words(&format!("`{}`", "1".repeat(100))), format!("`{}…", "1".repeat(79)));
        for whole in [format!("/tmp/{long}"), "n".repeat(255), "a b\n".repeat(1000)] {
            assert_eq!(cut_words(&whole), whole);
        }
        assert_eq!((cut("é"), cut(&"é".repeat(81))), ("é".to_owned(), "é".repeat(80) + "…"));
    }
}
