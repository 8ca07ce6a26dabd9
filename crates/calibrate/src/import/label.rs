//! Strips what launchers and collectors of logs put before each line, for all importers.

use std::borrow::Cow;

/// Longest label up to its last sign: `Fri Nov 27 10:00:00 2026[prterun-host-123@1,15]<stdout>` and a long host name [B].
const LONGEST_LABEL: usize = 200;
/// Most labels before a line: of a launcher, a container, a collector of logs, with the time of each.
const MOST_LABELS: usize = 8;
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Returns the text of a file without colours of terminals, without the mark that some editors put at its beginning, and without the
/// labels that all its lines carry, as of a log that holds nothing but a file. Indentation, which YAML needs, stays, and so does a
/// text without labels. Every importer reads what this returns.
pub(super) fn unlabelled(text: &str) -> Cow<'_, str> {
    let text = plain(text);
    let Some(mut lines) = without_label(text.lines()) else { return text };
    for _ in 1..MOST_LABELS {
        let Some(shorter) = without_label(lines.iter().copied()) else { break };
        lines = shorter;
    }
    Cow::Owned(lines.into_iter().flat_map(|line| [line, "\n"]).collect())
}

/// Returns whether JSON stands behind labels or colours in a file that begins with these bytes.
pub(super) fn has_labelled_json(start: &[u8]) -> bool {
    let text = String::from_utf8_lossy(&start[..start.len().min(2 * LONGEST_LABEL)]);
    let line = text.trim_start_matches('\u{feff}').trim_start().lines().next().unwrap_or_default();
    !begins_json(line) && begins_json(&unlabelled(line))
}

/// Returns whether a line begins with a table, or with a list that is no number in brackets.
fn begins_json(line: &str) -> bool {
    let inside = line.strip_prefix('[').map(str::trim_start);
    line.starts_with('{')
        || inside.is_some_and(|inside| inside.is_empty() || inside.starts_with('{'))
}

/// Returns lines without the first label of each; `None` if a line that is not blank has none.
fn without_label<'a>(lines: impl Iterator<Item = &'a str> + Clone) -> Option<Vec<&'a str>> {
    let is_blank = |line: &&str| line.trim().is_empty();
    if lines.clone().all(|line| is_blank(&line)) {
        return None;
    }
    let without = |line| if is_blank(&line) { Some("") } else { unmistakable(line) };
    let unmistakable = lines.clone().map(without).collect::<Option<_>>();
    unmistakable.or_else(|| without_name(lines.clone())).or_else(|| without_shared(lines))
}

/// Returns lines without the words that all of them begin with, as stern prints them (`pod container `); `None` if there are fewer
/// than three lines, or if these words may be data: numbers, or with marks of lists, comments or JSON.
fn without_shared<'a>(lines: impl Iterator<Item = &'a str> + Clone) -> Option<Vec<&'a str>> {
    let written = lines.clone().filter(|line| !line.trim().is_empty());
    // Of a line without a text after its label, the last space may have been cut.
    let shared_by = |one: &'a str, other: &'a str| {
        let end = one.char_indices().zip(other.chars().chain([' '])).find(|((_, a), b)| a != b);
        &one[..end.map_or(one.len().min(other.len() + 1), |((at, _), _)| at)]
    };
    let longest = written.clone().max_by_key(|line| line.len())?;
    if written.clone().count() < 3 {
        return None;
    }
    let shared = written.fold(longest, shared_by);
    let label = &shared[..shared.rfind(' ')? + 1];
    let of_data = |c: char| "#{}\"'".contains(c);
    let is_label = label.len() <= LONGEST_LABEL
        && !label.starts_with(['-', ' ', '['])
        && label.contains(|c: char| c.is_ascii_alphabetic())
        && !label.contains(of_data);
    is_label.then(|| lines.map(|line| line.get(label.len()..).unwrap_or_default()).collect())
}

/// Returns lines without the number of a rank, or the name of a host or program, and the colon with which each begins; `None` if a
/// line begins otherwise. The names must differ in nothing but digits: keys of YAML end with a colon, too, but never all alike. A line
/// alone must name a digit, as no key of a workload does.
fn without_name<'a>(lines: impl Iterator<Item = &'a str>) -> Option<Vec<&'a str>> {
    let mut names: Option<&str> = None;
    let mut written = 0;
    let mut without = |line: &'a str| {
        if line.trim().is_empty() {
            return Some("");
        }
        let (name, rest) = name(line)?;
        written += 1;
        are_alike(names.get_or_insert(name), name).then_some(rest)
    };
    let shorter = lines.map(&mut without).collect::<Option<Vec<_>>>()?;
    let digit = names?.contains(|c: char| c.is_ascii_digit());
    (written > 1 || digit).then_some(shorter)
}

/// Splits a line after `0: `, `node1 0: `, or `host program[12]: `; of a line without a text after it, spaces may have been cut.
fn name(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let (name, rest) = match split_near(line, ": ") {
        Some(split) => split,
        None => (line.trim_end().strip_suffix(':').filter(|name| name.len() <= LONGEST_LABEL)?, ""),
    };
    let mut words = name.split_whitespace().skip(1);
    let number = |word: &str| word.parse::<u32>().is_ok() || word.ends_with(']');
    let few = words.next().is_none_or(number) && words.next().is_none();
    let of_name = |c: char| c.is_ascii_alphanumeric() || " .:-_[]".contains(c);
    let fine = name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(of_name);
    (few && fine).then_some((name, rest))
}

/// Splits a line at the first `separator` in its first [`LONGEST_LABEL`] bytes.
fn split_near<'a>(line: &'a str, separator: &str) -> Option<(&'a str, &'a str)> {
    let at = line[..line.floor_char_boundary(LONGEST_LABEL)].find(separator)?;
    Some((&line[..at], &line[at + separator.len()..]))
}

/// Returns a text without colours of terminals (ANSI escape sequences) and without the mark at its beginning (U+FEFF).
fn plain(text: &str) -> Cow<'_, str> {
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
    named_and_bare(line).1
}

/// Returns the name in the labels of a line (`node1 0` of `node1 0: `), which is empty if they have none, and the line without its
/// labels.
pub(super) fn named_and_bare(line: &str) -> (&str, &str) {
    let (mut said, mut rest) = ("", line.trim());
    loop {
        if let Some(shorter) = unmistakable(rest) {
            rest = shorter.trim();
        } else if let Some((name, shorter)) = named(rest) {
            (said, rest) = (name, shorter.trim());
        } else {
            return (said, rest);
        }
    }
}

/// Returns whether two names differ in nothing but digits, as those of ranks, hosts and pods do.
pub(super) fn are_alike(one: &str, other: &str) -> bool {
    let letters = |of: &'_ str| of.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    letters(one) == letters(other)
}

/// Returns what follows a label that no table or configuration begins with, after one space.
fn unmistakable(line: &str) -> Option<&str> {
    let rest = by_mpirun(line)
        .or_else(|| in_brackets(line))
        .or_else(|| by_compose(line))
        .or_else(|| by_github(line))
        .or_else(|| by_gitlab(line))
        .or_else(|| after_time(line))
        .or_else(|| by_ray(line))?;
    Some(rest.strip_prefix(' ').unwrap_or(rest))
}

/// Strips `[1,0]<stdout>:`, and the time or the name of the job before it.
fn by_mpirun(line: &str) -> Option<&str> {
    let ends = ["<stdout>", "<stderr>", "<stddiag>"];
    let (label, rest) = ends.iter().find_map(|end| split_near(line, end))?;
    if label.contains('#') {
        return None;
    }
    Some(rest.strip_prefix(':').unwrap_or(rest))
}

/// Strips a number, a time, a rank, a pod or a process in brackets.
fn in_brackets(line: &str) -> Option<&str> {
    let (label, rest) = split_near(line.strip_prefix('[')?, "]")?;
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
    let (label, rest) = split_near(line, "|")?;
    let name = label.trim_end_matches(' ');
    let of_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let fine = name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(of_name);
    (fine && name.len() < label.len() && (rest.is_empty() || rest.starts_with(' '))).then_some(rest)
}

/// Strips the names of a job and its step, and the time, as `gh run view --log` prints them: tabs stand after the names, and a mark of
/// the byte order before the first time of a step.
fn by_github(line: &str) -> Option<&str> {
    let (_job, rest) = split_near(line, "\t")?;
    let (_step, rest) = split_near(rest, "\t")?;
    let rest = rest.strip_prefix('\u{feff}').unwrap_or(rest);
    rest.starts_with(|c: char| c.is_ascii_digit()).then(|| after_time(rest))?
}

/// Strips the time, the number of a stream, and `O` or `E` for standard output or error, as GitLab prints them: `… 00O `.
fn by_gitlab(line: &str) -> Option<&str> {
    let rest = after_time(line)?.strip_prefix(' ')?;
    let (stream, rest) = rest.split_at_checked(3)?;
    let number = stream.strip_suffix(['O', 'E'])?;
    let fine = number.chars().all(|c| c.is_ascii_digit())
        && (rest.is_empty() || rest.starts_with([' ', '+']));
    fine.then(|| rest.strip_prefix('+').unwrap_or(rest))
}

/// Strips the name and the process of a task of Ray: `(run pid=12, ip=10.0.0.1) `.
fn by_ray(line: &str) -> Option<&str> {
    let (label, rest) = split_near(line.strip_prefix('(')?, ")")?;
    let process = label.split_once("pid=")?.1;
    let fine = process.starts_with(|c: char| c.is_ascii_digit())
        && (rest.is_empty() || rest.starts_with(' '));
    fine.then_some(rest)
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
fn named(line: &str) -> Option<(&str, &str)> {
    // Messages name a place in a file so: `file.c:12: `.
    let (name, rest) = name(line).filter(|(name, _)| !name.contains(':'))?;
    let starts = rest.trim_start().starts_with(|c: char| c == '#' || c.is_ascii_digit());
    starts.then_some((name, rest))
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
            "bench\tRun nccl-tests / all (2)\t2026-11-27T10:00:00.1234567Z ",
            "bench\tUNKNOWN STEP\t\u{feff}2026-11-27T10:00:00.1234567Z ",
            "Nov 27 10:00:00 node1 launcher[12]: ",
            "2026-11-27T10:00:00.123456Z 00O ",
            "2026-11-27T10:00:00.123456Z 01E+",
            "(run pid=1234, ip=10.0.0.1) ",
            "(pid=1235) ",
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
        for label in [
            "[0] ",
            "2026-11-27T10:00:00.1Z ",
            "svc-1  | ",
            "[pod/a/b] 2026-11-27T10:00:00.1Z ",
            "job\tstep\t2026-11-27T10:00:00.1Z ",
            "0: ",
            "  12: ",
            "0:0: ",
            "node-1.cluster: ",
            "host: ",
            "Nov 27 10:00:00 node1 launcher[12]: ",
            "node1: [1,0]<stdout>: ",
            "launcher-abcde launcher ",
            "(run pid=1234, ip=10.0.0.1) ",
            "2026-11-27T10:00:00.123456Z 00O ",
        ] {
            let labelled: String = text.lines().map(|line| format!("{label}{line}\n")).collect();
            assert_eq!(unlabelled(&labelled), text, "{label}");
            let cut: String =
                labelled.lines().map(|line| line.trim_end().to_owned() + "\r\n").collect();
            assert_eq!(unlabelled(&cut), text, "{label}");
        }
        let ranks = "  9: a:\n 10:   b: 1\n 11:\n 12: c: 2\n";
        assert_eq!(unlabelled(ranks), text);
        assert_eq!(unlabelled(text), text);
        assert_eq!(unlabelled("[0] a: 1\nb: 2\n"), "[0] a: 1\nb: 2\n");
        assert_eq!(unlabelled(""), "");
    }

    #[test]
    fn files_without_labels_are_returned_as_they_are() {
        for text in [
            "dataset: {num_files_train: 8}\r\ntrain: {epochs: 1}\r\n",
            "dataset: {num_files_train: 8}",
            "train: [{a: 1}]\n\n",
            "- +a=1\n- +a=2\n",
            "- a 1\n- a 2\n- a 3\n",
            "# a 1\n# a 2\n# a 3\n",
            "  a b: 1\n  a c: 2\n  a d: 3\n",
            "a b: 1\na c: 2\n",
            "ranks,bytes,milliseconds\n2,8,1.0\n2,16,1.5\n",
            "[\n  [0],\n  [1]\n]\n",
            "\n \n",
        ] {
            assert!(matches!(unlabelled(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn a_line_of_many_labels_is_read_in_time_that_grows_with_its_length() {
        let line = format!("{}x", "[0] ".repeat(1 << 17));
        assert_eq!(unlabelled(&line).len(), line.len() + 1 - 4 * MOST_LABELS);
        assert_eq!(bare(&line), "x");
    }

    #[test]
    fn json_behind_labels_is_told_from_json_and_from_other_text() {
        for label in
            ["[0] ", "\u{feff}\x1b[32m", "node1: ", "<stdout>:", "a\tb\t2026-11-27T10:00:00Z "]
        {
            for json in ["{\"a\": 1}", "[{", "[\n", "[ {"] {
                assert!(has_labelled_json(format!("{label}{json}").as_bytes()), "{label}{json}");
            }
        }
        for text in [
            "{\"a\": \"[0] <stdout>:\"}",
            "[{\"ph\": 0}]",
            "[\n{",
            "[0] x",
            "a: 1",
            "",
            "\u{feff}{",
        ] {
            assert!(!has_labelled_json(text.as_bytes()), "{text}");
        }
    }
}
