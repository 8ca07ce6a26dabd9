//! Strips what launchers and collectors of logs put before each line, for all importers.

use std::borrow::Cow;

/// Longest label before `<stdout>` or `<stderr>`: `Fri Nov 27 10:00:00 2026[prterun-host-123@1,15]` and a long host name [B].
const LONGEST: usize = 200;
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Returns a text without colours of terminals (ANSI escape sequences) and without the mark that some editors put at the
/// beginning (U+FEFF).
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if !text.contains('\x1b') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut parts = text.split('\x1b');
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        plain.push_str(after_escape(part));
    }
    Cow::Owned(plain)
}

/// Returns what follows an escape sequence; `part` begins after its escape character.
fn after_escape(part: &str) -> &str {
    let from = |end: Option<usize>| end.map_or("", |end| &part[end..]);
    match part.as_bytes().first() {
        // Control sequences end with a letter or a few other signs; parameters come before.
        Some(b'[') => {
            let last = part.char_indices().skip(1).find(|(_, c)| ('@'..='~').contains(c));
            from(last.map(|(at, c)| at + c.len_utf8()))
        }
        // Titles of windows and links end with a bell, or with the next escape sequence.
        Some(b']') => from(part.find('\x07').map(|at| at + 1)),
        // Sets of characters have one more sign.
        Some(b'(' | b')') => part.get(2..).unwrap_or_default(),
        Some(_) => part.get(1..).unwrap_or_default(),
        None => "",
    }
}

/// Returns a line without the labels before its own text: by mpirun (`[1,0]<stdout>:`, also with the time), Hydra (`[0]`), srun
/// (`0:`), PALS (`node1 0:`), torchrun (`[rank0]:`), kubectl (`[pod/name/container]`), Docker Compose (`name-1  |`), GitHub Actions
/// and `docker logs -t` (the time).
pub(super) fn bare(line: &str) -> &str {
    let mut rest = line.trim();
    while let Some(shorter) = unmistakable(rest).or_else(|| named(rest)) {
        rest = shorter.trim();
    }
    rest
}

/// Returns a text without labels whose lines all carry one, as of a log that holds nothing but a file; indentation, which YAML
/// needs, stays.
pub(super) fn unlabelled(text: &str) -> Cow<'_, str> {
    let stripped = |line| {
        let mut rest = unmistakable(line)?;
        while let Some(shorter) = unmistakable(rest) {
            rest = shorter;
        }
        Some(rest)
    };
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    if lines().next().is_none() || !lines().all(|line| stripped(line).is_some()) {
        return Cow::Borrowed(text);
    }
    let lines = text.lines().map(|line| stripped(line).unwrap_or_default());
    Cow::Owned(lines.flat_map(|line| [line, "\n"]).collect())
}

/// Returns what follows a label that no table or configuration begins with, after one space.
fn unmistakable(line: &str) -> Option<&str> {
    let rest = by_mpirun(line)
        .or_else(|| in_brackets(line))
        .or_else(|| by_compose(line))
        .or_else(|| after_time(line))?;
    Some(rest.strip_prefix(' ').unwrap_or(rest))
}

/// Strips `[1,0]<stdout>:`, and the time or the name of the job before it.
fn by_mpirun(line: &str) -> Option<&str> {
    let at = ["<stdout>", "<stderr>", "<stddiag>"].iter().find_map(|end| {
        let at = line.find(end)?;
        (at <= LONGEST && !line[..at].contains('#')).then_some(at + end.len())
    });
    let rest = &line[at?..];
    Some(rest.strip_prefix(':').unwrap_or(rest))
}

/// Strips a number, a time, a rank, a pod or a process in brackets.
fn in_brackets(line: &str) -> Option<&str> {
    let (label, rest) = line.strip_prefix('[')?.split_once(']')?;
    let is = |allowed: &str| {
        label.starts_with(|c: char| c.is_ascii_digit())
            && label.chars().all(|c| c.is_ascii_digit() || allowed.contains(c))
    };
    let numbered = |start: &str| {
        let number = label.strip_prefix(start).unwrap_or_default();
        !number.is_empty() && number.chars().all(|c| c.is_ascii_digit())
    };
    let ranked = ["rank", "default", "worker", "proc"].into_iter().any(numbered);
    let named = !label.contains(char::is_whitespace) && label.contains(['/', '@']);
    // A list of numbers in brackets is data, not a label.
    let data = rest.starts_with(',') || label.contains(", ");
    let known = is(" :-./,+TZ") || ranked || named;
    (known && !data).then(|| rest.strip_prefix(':').unwrap_or(rest))
}

/// Strips the name of a service and the bar that Docker Compose draws after it.
fn by_compose(line: &str) -> Option<&str> {
    let (label, rest) = line.split_once('|')?;
    let name = label.trim_end_matches(' ');
    let of_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let fine = name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(of_name);
    (fine && name.len() < label.len() && (rest.is_empty() || rest.starts_with(' '))).then_some(rest)
}

/// Strips a date with its time: of RFC 3339, of syslog (`Nov 27 10:00:00`), or of C (`Fri Nov 27 10:00:00 2026`).
fn after_time(line: &str) -> Option<&str> {
    let (first, rest) = word(line)?;
    if let Some((date, time)) = first.split_once('T') {
        return (is_date(date) && is_time(time)).then_some(rest);
    }
    if is_date(first) {
        let (time, rest) = word(rest.trim_start())?;
        return is_time(time).then_some(rest);
    }
    let weekday = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"].contains(&first);
    let (month, rest) = if weekday { word(rest.trim_start())? } else { (first, rest) };
    let (day, rest) = word(rest.trim_start()).filter(|_| MONTHS.contains(&month))?;
    let (time, rest) = word(rest.trim_start()).filter(|_| day.parse::<u8>().is_ok())?;
    if !is_time(time) {
        return None;
    }
    let year = word(rest.trim_start()).filter(|(year, _)| weekday && year.parse::<u16>().is_ok());
    Some(year.map_or(rest, |(_, rest)| rest))
}

/// Splits a text after its first word.
fn word(text: &str) -> Option<(&str, &str)> {
    let end = text.find(' ').unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

fn is_date(word: &str) -> bool {
    let parts: Vec<&str> = word.split(['-', '/']).collect();
    parts.len() == 3
        && parts[0].len() == 4
        && parts.iter().all(|part| part.chars().all(|c| c.is_ascii_digit()))
}

/// Whether a word is a time of day, with fractions and time zone: `10:00:00.1234567Z`, `10:00:00,123`, `10:00:00+02:00`.
fn is_time(word: &str) -> bool {
    let digit = |c: char| c.is_ascii_digit();
    let start: Vec<&str> = word.splitn(3, ':').collect();
    start.len() == 3
        && start[..2].iter().all(|part| part.len() == 2 && part.chars().all(digit))
        && start[2].starts_with(digit)
        && word.chars().all(|c| digit(c) || ":.,Z+-".contains(c))
}

/// Strips `0:`, `node1 0:`, `host program[12]:` before a comment or a number; other words before a colon are text of the log.
fn named(line: &str) -> Option<&str> {
    let (label, rest) = line.split_once(": ")?;
    let mut second = label.split_whitespace().skip(1);
    let number = |word: &str| word.parse::<u32>().is_ok() || word.ends_with(']');
    let one = second.next().is_none_or(number) && second.next().is_none();
    let starts = rest.trim_start().starts_with(|c: char| c == '#' || c.is_ascii_digit());
    let plain = |c: char| c.is_ascii_alphanumeric() || " .-_[]".contains(c);
    (starts && one && label.chars().all(plain)).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_launchers_and_log_collectors_are_stripped() {
        for label in [
            "[1,0]<stdout>:",
            "[1,0]<stdout>: ",
            "Fri Nov 27 10:00:00 2026[1,0]<stdout>:",
            "Fri Nov 27 10:00:00 2026<stdout>:",
            "[prterun-node1-1234@1,0]<stdout>: ",
            "[0] ",
            "[12] ",
            "[rank0]: ",
            "[default3]:",
            "[proxy:0:0@node1] ",
            "[pod/launcher-abcde/launcher] ",
            "[pod/launcher-abcde/launcher] 2026-11-27T10:00:00.123456789Z ",
            "2026-11-27T10:00:00.1234567Z ",
            "2026-11-27T10:00:00+02:00 ",
            "2026-11-27 10:00:00,123 ",
            "[2026-11-27 10:00:00] ",
            "Nov 27 10:00:00 node1 launcher[12]: ",
            "launcher-1  | ",
            "launcher_1 | ",
            "0: ",
            "node1 0: ",
            "node-1: ",
        ] {
            assert_eq!(bare(&format!("{label}# Using devices")), "# Using devices", "{label}");
            assert_eq!(bare(&format!("{label}  1024  256 float")), "1024  256 float", "{label}");
        }
    }

    #[test]
    fn text_that_only_resembles_a_label_stays() {
        for line in [
            "[a:mpi_rank_0][rdma_param] 2 nodes",
            "a:11:22 [0] NCCL INFO Channel 00/24 :    0   1   2   3",
            "[Performance Warning]: 42 entries",
            "[1, 2, 3]",
            "read_threads: 4",
            "1024 256 float sum | 1.0",
            "Nov 27",
            "",
        ] {
            let stays = unmistakable(line).is_none();
            assert!(stays, "{line}");
        }
        assert_eq!(
            bare("[a:mpi_rank_0][rdma_param] 2 nodes"),
            "[a:mpi_rank_0][rdma_param] 2 nodes"
        );
    }

    #[test]
    fn colours_and_byte_order_marks_are_stripped() {
        let text = "\u{feff}\x1b[1;32m# size\x1b[0m\x1b]0;title\x07 count\x1b(B\x1b[K\n\x1b";
        assert_eq!(plain(text), "# size count\n");
        assert_eq!(plain("\x1b[1;3"), "");
    }

    #[test]
    fn files_within_logs_keep_their_indentation() {
        let text = "a:\n  b: 1\n\nc: 2\n";
        for label in ["[0] ", "2026-11-27T10:00:00.1Z ", "svc-1  | "] {
            let labelled: String = text.lines().map(|line| format!("{label}{line}\n")).collect();
            assert_eq!(unlabelled(&labelled), text, "{label}");
        }
        assert_eq!(unlabelled(text), text);
        assert_eq!(unlabelled("[0] a: 1\nb: 2\n"), "[0] a: 1\nb: 2\n");
        assert_eq!(unlabelled(""), "");
    }
}
