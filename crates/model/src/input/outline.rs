//! Counts the tables and values of a TOML file before it is parsed: the parsed tree takes up to a hundred times as much
//! memory as the text.

use super::InputError;

/// Limit for the number of tables; each takes about 1.5 kB in memory.
const MOST_TABLES: usize = 100_000;
/// Limit for the number of values; each takes about 250 B in memory.
const MOST_VALUES: usize = 500_000;

/// Refuses a text whose parsed tree would take more than some hundreds of megabytes. It does not check that the text is
/// valid TOML. Each dot in a header or key counts as a table.
///
/// # Errors
/// If the text has more tables or values than a limit.
pub fn check_toml(text: &str) -> Result<(), InputError> {
    let bytes = text.as_bytes();
    let (mut tables, mut values, mut dots) = (0, 0, 0);
    let (mut in_header, mut line_begins, mut at) = (false, true, 0);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'#' => at = end_of_line(bytes, at) - 1,
            b'"' | b'\'' => at = end_of_string(bytes, at) - 1,
            b'.' => dots += 1,
            b'=' => (values, tables, dots) = (values + 1, tables + dots, 0),
            b',' => (values, dots) = (values + 1, 0),
            b'{' => (tables, dots) = (tables + 1, 0),
            b'[' if line_begins => (tables, dots, in_header) = (tables + 1, 0, true),
            b'[' => (values, dots) = (values + 1, 0),
            b']' if in_header => (tables, dots) = (tables + dots, 0),
            b'\n' | b']' => dots = 0,
            _ => {}
        }
        if tables > MOST_TABLES {
            return Err(InputError::Crowded { what: "tables", most: MOST_TABLES, at });
        }
        if values > MOST_VALUES {
            return Err(InputError::Crowded { what: "values", most: MOST_VALUES, at });
        }
        in_header &= byte != b'\n';
        line_begins = byte == b'\n' || line_begins && byte.is_ascii_whitespace();
        at += 1;
    }
    Ok(())
}

/// Returns the offset of the end of the line that contains byte `at`.
fn end_of_line(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| at + end)
}

/// Returns the offset after the string that begins with the quotation mark at `at`. A string that is not closed ends at the end
/// of its line, or of the text if it has three quotation marks.
fn end_of_string(bytes: &[u8], at: usize) -> usize {
    let mark = bytes[at];
    let long = bytes[at..].starts_with(&[mark; 3]);
    let mut next = at + if long { 3 } else { 1 };
    while let Some(&byte) = bytes.get(next) {
        match byte {
            b'\\' if mark == b'"' => next += 1,
            b'\n' if !long => return next,
            _ if byte == mark && !long => return next + 1,
            _ if bytes[next..].starts_with(&[mark; 3]) => return next + 3,
            _ => {}
        }
        next += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Option<String> {
        check_toml(text).err().map(|error| error.to_string())
    }

    #[test]
    fn toml_tables_are_counted_in_every_notation() {
        for text in [
            "[[job]]\nbatch = 1\n".repeat(MOST_TABLES + 1),
            format!("job = [{}]", "{a=1},".repeat(MOST_TABLES + 1)),
            "a.b = 1\n".repeat(MOST_TABLES + 1),
            "  [a.b]\n".repeat(MOST_TABLES / 2 + 1),
        ] {
            let said = said(&text).unwrap_or_default();
            assert_eq!(said, "the file has more than 100000 tables", "{}", &text[..20]);
        }
        for text in [
            format!("a = [{}]", "0.5,".repeat(MOST_TABLES + 1)),
            format!("a = \"{}\"", "{".repeat(MOST_TABLES + 1)),
            format!("a = '''\n{}'''", "[a.b]\n".repeat(MOST_TABLES + 1)),
            format!("a = \"\\\"{}\"", "{".repeat(MOST_TABLES + 1)),
            "# {.\n".repeat(MOST_TABLES + 1),
        ] {
            assert_eq!(said(&text), None, "{}", &text[..20]);
        }
    }

    #[test]
    fn toml_values_are_counted_in_lists_and_tables() {
        for text in [
            format!("a = [{}]", "1,".repeat(MOST_VALUES)),
            "a = 1\n".repeat(MOST_VALUES + 1),
            format!("a = {}", "[".repeat(MOST_VALUES + 1)),
        ] {
            assert_eq!(said(&text).unwrap_or_default(), "the file has more than 500000 values");
        }
    }

    #[test]
    fn unclosed_toml_strings_end_at_the_end_of_the_line() {
        let text = format!("a = \"x\n{}", "b = {}\n".repeat(MOST_TABLES + 1));
        assert!(said(&text).is_some());
        assert_eq!((said("a = \"\"\"x"), said("a = \"x\\")), (None, None));
    }
}
