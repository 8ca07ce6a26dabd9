//! Pages of the README and the guide, and their fenced blocks.

use crate::runs::repository;
use std::fs;
use std::path::Path;

/// A page of the README or the guide.
pub(super) struct Page {
    /// Path in the repository.
    pub(super) path: String,
    pub(super) text: String,
}

/// A fenced block of a page.
#[derive(Default)]
pub(super) struct Block {
    /// The word after the opening fence: `sh`, `toml`, `text`.
    pub(super) kind: String,
    pub(super) body: String,
    /// How the block's commands run in tests.
    pub(super) runs: Runs,
    /// Whether only empty lines separate it from the block before.
    pub(super) follows: bool,
}

/// How the commands of a block run in tests.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) enum Runs {
    /// As they are.
    #[default]
    Whole,
    /// On shortened scenarios of at most so many steps: they would take long.
    Short(i64),
    /// Not at all, for a reason in [`REASONS`].
    Not(String),
}

/// Number of steps of a shortened scenario, if the page does not say it.
const FEW_STEPS: i64 = 40;

/// Beginning of a command that builds `forebay` and runs it.
const BUILT_FIRST: &str = "cargo run --release --locked -- ";

/// What commands may need that not every machine with Rust has, or that a test must not do.
pub(super) const REASONS: [&str; 10] = [
    "needs-gpu",
    "needs-pytorch",
    "needs-docker",
    "needs-apptainer",
    "needs-spack",
    "needs-network",
    // Commands of a batch system.
    "needs-cluster",
    // Build, install or test the program.
    "builds",
    // Measure the machine for minutes.
    "calibrates",
    // Run what other blocks of the guide, or other tests, run piece by piece.
    "repeats",
];

impl Runs {
    /// Reads the comment before a block; `None` if the line is something else.
    fn parse(line: &str) -> Option<Runs> {
        let comment = line.strip_prefix("<!--")?.strip_suffix("-->")?.trim();
        match comment.split_once(':') {
            Some(("not run", reason)) => Some(Runs::Not(reason.trim().to_owned())),
            Some(("run short", steps)) => {
                Some(Runs::Short(steps.trim().strip_suffix(" steps")?.parse().ok()?))
            }
            _ => (comment == "run short").then_some(Runs::Short(FEW_STEPS)),
        }
    }
}

pub(super) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the README, all pages of the guide, and the pages for contributors.
pub(super) fn pages() -> Vec<Page> {
    let entries = fs::read_dir(repository("docs/src")).expect("a guide");
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut paths: Vec<String> = names.filter(|name| name.ends_with(".md")).collect();
    paths.sort();
    let paths = paths.into_iter().map(|name| format!("docs/src/{name}"));
    let page = |path: String| Page { text: read(&repository(&path)), path };
    let contributors = ["ARCHITECTURE.md", "CONTRIBUTING.md"].map(str::to_owned);
    let all = std::iter::once("README.md".to_owned()).chain(paths).chain(contributors);
    all.map(page).collect()
}

impl Page {
    pub(super) fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        let (mut inside, mut runs, mut follows) = (false, Runs::Whole, false);
        for line in self.text.lines() {
            match line.strip_prefix("```") {
                Some(kind) if !inside => {
                    let (kind, runs) = (kind.to_owned(), std::mem::take(&mut runs));
                    blocks.push(Block { kind, runs, follows, ..Block::default() });
                    inside = true;
                }
                Some(_) => (inside, follows) = (false, true),
                None if inside => blocks.last_mut().expect("a block").body += &format!("{line}\n"),
                None => {
                    runs = Runs::parse(line).unwrap_or_default();
                    follows &= line.trim().is_empty();
                }
            }
        }
        assert!(!inside, "{}: a block does not end", self.path);
        blocks
    }

    /// Returns the page's text without fenced blocks and HTML comments.
    pub(super) fn prose(&self) -> String {
        let mut inside = false;
        let outside = |line: &&str| {
            let fence = line.starts_with("```");
            inside ^= fence;
            !inside && !fence && !line.starts_with("<!--")
        };
        self.text.lines().filter(outside).collect::<Vec<_>>().join("\n")
    }
}

impl Block {
    /// Returns the block's commands, one for each line, without comments.
    pub(super) fn commands(&self) -> Vec<String> {
        let joined = self.body.replace("\\\n", " ");
        let plain = |line: &str| line.split(" # ").next().unwrap_or_default().trim().to_owned();
        joined
            .lines()
            .map(plain)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .collect()
    }

    /// Returns the block's commands that run `forebay`, and those that make folders for them. Those that build the program first
    /// run the one that the tests have built.
    pub(super) fn ours(&self) -> Vec<String> {
        let ours = |command: &String| {
            ["forebay ", "mkdir "].iter().any(|program| command.starts_with(program))
        };
        let built = |command: String| match command.strip_prefix(BUILT_FIRST) {
            Some(arguments) => format!("forebay {arguments}"),
            None => command,
        };
        self.commands().into_iter().map(built).filter(ours).collect()
    }

    /// Returns the file name in the first line of a whole scenario, or `None` if there is none.
    pub(super) fn file(&self) -> Option<&str> {
        let name = self.body.strip_prefix("# ")?.split(':').next()?;
        name.ends_with(".toml").then_some(name)
    }
}

/// Returns the words of a command up to a pipe or a redirection, without quotes.
pub(super) fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for letter in command.chars() {
        match (letter, quote) {
            ('\'' | '"', None) => quote = Some(letter),
            (_, Some(open)) if letter == open => quote = None,
            ('|' | '>' | ';', None) => break,
            (' ', None) if word.is_empty() => {}
            (' ', None) => words.push(std::mem::take(&mut word)),
            _ => word.push(letter),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}
