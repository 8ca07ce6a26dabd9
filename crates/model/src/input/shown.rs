//! Makes contents and names of files safe to show on a terminal.

use std::path::Path;

/// Number of characters to which a long word is shortened.
const WORD: usize = 80;
/// Length of the longest word that may be a file name [B]. Words up to this length are shown whole, except numbers.
const LONGEST_NAME: usize = 255;

/// Returns whether `c` is a control character or invisible, or changes the direction of the text after it.
#[must_use]
pub fn unsafe_to_show(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Escapes the characters of `text` that would control a terminal, except line ends.
#[must_use]
pub fn printable(text: &str) -> String {
    escape(text, |c| c == '\n')
}

/// Escapes the characters of `text` that would control a terminal, line ends too, so that the result is one line.
#[must_use]
pub fn printable_line(text: &str) -> String {
    escape(text, |_| false)
}

/// Formats a path for a message, in one line.
#[must_use]
pub fn shown(path: &Path) -> String {
    printable_line(&path.to_string_lossy())
}

/// Returns a text as one word of a shell's command line: in single quotes if it has characters that mean something to a shell.
#[must_use]
pub fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:=@%+,".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// Shortens a value for a message: returns its first 80 characters, and `…` in place of the rest.
#[must_use]
pub fn cut(text: &str) -> String {
    match text.char_indices().nth(WORD) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// Shortens long words in a message: numbers with more than 80 characters, and other words that are longer than any file name.
/// Paths stay whole.
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
    fn control_characters_in_displayed_paths_are_escaped() {
        assert_eq!(shown(Path::new("a\nb\u{1b}[31m")), "a\\u{a}b\\u{1b}[31m");
        assert_eq!(shown(Path::new("/tmp/a b.toml")), "/tmp/a b.toml");
    }

    #[test]
    fn words_of_commands_are_quoted_for_a_shell_if_it_would_split_them() {
        for (text, expected) in [
            ("a/b-1.toml", "a/b-1.toml"),
            ("two gpus.toml", "'two gpus.toml'"),
            ("it's $HOME", "'it'\\''s $HOME'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(text), expected);
        }
    }

    #[test]
    fn long_words_in_messages_are_shortened_but_long_paths_are_kept() {
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
