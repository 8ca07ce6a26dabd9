//! The option `--option NAME=KEY=VALUE,KEY=VALUE` of `plan` and `compare`.

use super::Failure;
use crate::scenario::{Override, PlanOption};

/// Reads options: a name, and behind `=` the changes with commas between them.
pub(super) fn parse(texts: &[String]) -> Result<Vec<PlanOption>, Failure> {
    let mut options: Vec<PlanOption> = Vec::new();
    for text in texts {
        let (name, changes) = match text.split_once('=') {
            Some((name, changes)) => (name.trim(), changes),
            None => (text.trim(), ""),
        };
        let refuse = |what: &str, remedy: &str| {
            Err(Failure::Input(format!("--option {text:?}: {what}; {remedy}")))
        };
        if name.is_empty() {
            return refuse("the option has no name", "write `--option NAME=KEY=VALUE`");
        }
        if options.iter().any(|option| option.name == name) {
            return refuse("another option has this name", "write another name");
        }
        if name.contains('.') && !changes.contains('=') {
            let remedy = format!("write a name first: `--option mine={name}={changes}`");
            return refuse("the option has a key in place of a name", &remedy);
        }
        let changes = split(changes);
        let changes = changes.iter().map(|change| change.parse::<Override>());
        let changes = changes.collect::<Result<Vec<_>, _>>()?;
        options.push(PlanOption { name: name.to_owned(), changes });
    }
    Ok(options)
}

/// Splits changes at the commas that are in no list, table or text of TOML and that a key follows.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let (mut depth, mut quote) = (0_usize, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 && begins_with_key(&text[at + 1..]) => {
                parts.push(String::new());
                continue;
            }
            (None, _) => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// Returns whether a text begins with a dotted key and `=`.
fn begins_with_key(text: &str) -> bool {
    let Some((key, _)) = text.split_once('=') else { return false };
    let is_part = |c: char| c.is_alphanumeric() || "._- \"'".contains(c);
    !key.trim().is_empty() && key.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_split_at_commas_that_a_key_follows() {
        let texts = [
            "as is",
            "nic=cluster.network.nic=100 Gbit/s",
            "both=cluster.network.nic=100 Gbit/s, job.batch=64",
            "layers=job.model.step={ table = [1, 2] },job.batch=[8, 9]",
            "quoted=job.name=\"a,b=c\"",
        ];
        let options = parse(&texts.map(str::to_owned)).unwrap_or_else(|why| panic!("{why}"));
        let shown: Vec<Vec<String>> = options
            .iter()
            .map(|option| option.changes.iter().map(Override::to_string).collect())
            .collect();
        assert_eq!(options[0].name, "as is");
        assert!(shown[0].is_empty());
        assert_eq!(shown[1], ["--set cluster.network.nic=\"100 Gbit/s\""]);
        assert_eq!(shown[2].len(), 2);
        assert_eq!(
            shown[3],
            ["--set job.model.step={ \"table\" = [1, 2] }", "--set job.batch=[8, 9]"]
        );
        assert_eq!(shown[4], ["--set job.name=\"a,b=c\""]);
    }

    #[test]
    fn options_without_name_or_with_a_name_twice_are_refused() {
        for texts in
            [&["=job.batch=8"][..], &["a", "a"], &["job.batch=8"], &["a=job.batch"], &["a=[=1"]]
        {
            let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            assert!(parse(&texts).is_err(), "{texts:?}");
        }
    }
}
