//! Ranks on the hosts of a file, started by ssh. Each reads its number, the address of rank 0 and the secret from its standard input.

use crate::cluster::launch::Launch;
use crate::cluster::rank::{self, Way};
use crate::cluster::rendezvous::Rendezvous;
use crate::commands::{Failure, input, interrupt};
use crate::input::{path_as_json, shown};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write, stdin};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Argument with which this program is a rank on another host.
pub(in crate::commands) const RANK: &str = "calibrate-rank";
/// Largest number of hosts.
const MOST: usize = 10_000;
/// Largest size of what a rank has to know [B].
const MOST_TOLD: u64 = 1 << 16;
/// Time that ranks get to end by themselves.
const ENDING: Duration = Duration::from_secs(5);

/// What a rank has to know.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    rendezvous: Rendezvous,
    rank: u32,
    size: u32,
    #[serde(with = "path_as_json")]
    directory: PathBuf,
}

/// Reads the hosts of a file: the first word of each line. Empty lines and comments are left out, and so is this host.
pub(super) fn read(path: &Path, own: &str) -> Result<Vec<String>, Failure> {
    let text = input::text(path)?;
    let mut hosts: Vec<String> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let Some(host) = line.split_whitespace().next() else { continue };
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@:[]%".contains(c);
        if !host.chars().all(plain) || host.starts_with('-') {
            let file = shown(path);
            return Err(Failure::Input(format!(
                "{file}: line {}: `{}` is no name of a host",
                number + 1,
                crate::input::cut_words(host)
            )));
        }
        if host == own || host == "localhost" || hosts.iter().any(|known| known == host) {
            continue;
        }
        hosts.push(host.to_owned());
    }
    let file = shown(path);
    match hosts.len() {
        0 => Err(Failure::Input(format!(
            "{file} names no host besides {own}; write one on each line"
        ))),
        MOST.. => Err(Failure::Input(format!("{file} names more than {MOST} hosts"))),
        _ => Ok(hosts),
    }
}

/// Ranks on other hosts, which end with this value.
pub(super) struct Remote(Vec<(String, Child)>);

impl Remote {
    /// Starts a rank on each of `hosts`, by the words of `ssh` followed by the host.
    pub(super) fn start(
        hosts: &[String],
        ssh: &str,
        rendezvous: &Rendezvous,
        directory: &Path,
    ) -> Result<Remote, Failure> {
        let words: Vec<&str> = ssh.split_whitespace().collect();
        let [program, arguments @ ..] = &words[..] else {
            return Err(Failure::Input("--ssh: name a program, such as `ssh`".to_owned()));
        };
        let own = std::env::current_exe()
            .map_err(|error| Failure::Machine(format!("this program cannot be found: {error}")))?;
        let command = format!("{} {RANK}", quoted(&own.to_string_lossy()));
        let mut all = Remote(Vec::new());
        for (index, host) in hosts.iter().enumerate() {
            let child = Command::new(program)
                .args(arguments)
                .arg(host)
                .arg(&command)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn();
            let mut child = child.map_err(|error| {
                Failure::Machine(format!(
                    "cannot start {program}: {error}; --ssh names another program"
                ))
            })?;
            let told = Told {
                rendezvous: rendezvous.clone(),
                rank: index as u32 + 1,
                size: hosts.len() as u32 + 1,
                directory: directory.to_owned(),
            };
            if let Some(mut to) = child.stdin.take() {
                let line = serde_json::to_string(&told).unwrap_or_default();
                // A rank that could not start is missed when the others have joined.
                writeln!(to, "{line}").ok();
            }
            all.0.push((host.clone(), child));
        }
        Ok(all)
    }

    /// Returns the hosts whose rank has ended already, with how.
    pub(super) fn ended(&mut self) -> Vec<String> {
        let of = |(host, child): &mut (String, Child)| {
            let status = child.try_wait().ok().flatten()?;
            (!status.success()).then(|| format!("{host}: {status}"))
        };
        self.0.iter_mut().filter_map(of).collect()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let until = Instant::now() + ENDING;
        for (_, child) in &mut self.0 {
            while Instant::now() < until && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(20));
            }
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// Quotes a word for the shell of another host, unless it is plain.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.+".contains(c);
    match word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Is a rank: reads from standard input what it has to know, and serves until rank 0 ends.
pub(in crate::commands) fn serve() -> Result<(), Failure> {
    let mut line = String::new();
    let read = stdin().take(MOST_TOLD).read_to_string(&mut line);
    let told = read.ok().and_then(|_| serde_json::from_str::<Told>(&line).ok());
    let Some(told) = told else {
        let what = format!("{RANK} is for `forebay calibrate --hosts`, which tells it what to do");
        return Err(Failure::Input(what));
    };
    let node = crate::cluster::launch::node(&|name| std::env::var(name).ok());
    let (rank, size) = (told.rank, told.size);
    let launch = Launch { rank, size, node, job: None, launcher: "ssh" };
    let leave = interrupt::careful_flag();
    rank::serve(&launch, &Way::Told(told.rendezvous), &told.directory, leave)
        .map_err(Failure::Machine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_the_first_words_of_lines_without_this_one() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("hosts");
        let of = |text: &str| {
            std::fs::write(&file, text).unwrap();
            read(&file, "n1").map_err(|error| error.to_string())
        };
        let hosts = of("# nodes\nn1 slots=4\nn2 slots=4\n\nuser@n3.cluster # the third\nn2\n");
        assert_eq!(hosts, Ok(vec!["n2".to_owned(), "user@n3.cluster".to_owned()]));
        assert!(of("n1\nlocalhost\n").unwrap_err().contains("names no host besides n1"));
        assert!(of("n2\n-oProxyCommand=x\n").unwrap_err().contains("line 2"));
        assert!(of("a;b\n").unwrap_err().contains("no name of a host"));
    }

    #[test]
    fn paths_are_quoted_for_a_shell() {
        assert_eq!(quoted("/opt/forebay-0.2/bin/forebay"), "/opt/forebay-0.2/bin/forebay");
        assert_eq!(quoted("/my dir/it's"), r"'/my dir/it'\''s'");
    }
}
