//! Texts with code in them, and texts of several lines.

use maud::{Markup, html};

/// Returns a text in which what stands between two backticks is code.
pub(super) fn marked(text: &str) -> Markup {
    let pieces: Vec<&str> = text.split('`').collect();
    // A backtick without a partner is a backtick.
    let is_paired = pieces.len() % 2 == 1;
    html! {
        @if is_paired {
            @for (index, piece) in pieces.iter().enumerate() {
                @if index % 2 == 1 { code { (piece) } } @else { (piece) }
            }
        } @else {
            (text)
        }
    }
}

/// A paragraph of a text, or consecutive indented lines.
#[derive(Debug, PartialEq)]
pub(super) enum Lines<'t> {
    /// A line that is a paragraph.
    Paragraph(&'t str),
    /// Indented lines, such as a table or commands. The page shows them unchanged.
    Fixed(Vec<&'t str>),
}

/// Splits a text: every line is a paragraph, but consecutive indented lines stay together.
pub(super) fn split(text: &str) -> Vec<Lines<'_>> {
    let mut found: Vec<Lines<'_>> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match (line.starts_with("  "), found.last_mut()) {
            (true, Some(Lines::Fixed(lines))) => lines.push(line),
            (true, _) => found.push(Lines::Fixed(vec![line])),
            (false, _) => found.push(Lines::Paragraph(line)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_between_backticks_is_code_and_everything_is_escaped() {
        let written = |text: &str| marked(text).into_string();
        assert_eq!(written("a `b` c"), "a <code>b</code> c");
        assert_eq!(written("a ` <b>"), "a ` &lt;b&gt;");
        assert_eq!(written("`<i>`"), "<code>&lt;i&gt;</code>");
    }

    #[test]
    fn indented_lines_of_a_text_stay_together() {
        let found = split("a\n  b\n  c\n\nd");
        assert_eq!(
            found,
            [Lines::Paragraph("a"), Lines::Fixed(vec!["  b", "  c"]), Lines::Paragraph("d")]
        );
    }
}
