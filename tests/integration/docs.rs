//! README and guide: their commands run and print the output that is shown, their scenarios resolve, their
//! links have targets.
//!
//! Commands that begin with `forebay` run, page by page, in a scratch directory with copies of the repository's
//! scenarios, recipes and data. A block after the line `<!-- not run: reason -->` is only parsed. A `toml` block that
//! begins with `# NAME.toml: question?` is written to that file; another one is added to the scenario above it, if there
//! is one on the page. A `text` block after commands is compared with what the last of them printed, where `…` stands
//! for any lines. `FOREBAY_DOCS=write` replaces each block whose first line is that of a report.

use super::runs::{repository, written};
use clap::Parser;
use forebay::cli::Cli;
use forebay::scenario::ScenarioFile;
use forebay::sweep::Grid;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A page of the README or the guide.
struct Page {
    /// Path in the repository.
    path: String,
    text: String,
}

/// A fenced block of a page.
#[derive(Default)]
struct Block {
    /// The word after the opening fence: `sh`, `toml`, `text`.
    kind: String,
    body: String,
    /// Reason why the block's commands do not run in tests.
    not_run: Option<String>,
    /// Whether only empty lines separate it from the block before.
    follows: bool,
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the README and all pages of the guide.
fn pages() -> Vec<Page> {
    let entries = fs::read_dir(repository("docs/src")).expect("a guide");
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut paths: Vec<String> = names.filter(|name| name.ends_with(".md")).collect();
    paths.sort();
    let paths = paths.into_iter().map(|name| format!("docs/src/{name}"));
    let page = |path: String| Page { text: read(&repository(&path)), path };
    std::iter::once("README.md".to_owned()).chain(paths).map(page).collect()
}

impl Page {
    fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        let (mut inside, mut not_run, mut follows) = (false, None, false);
        for line in self.text.lines() {
            match line.strip_prefix("```") {
                Some(kind) if !inside => {
                    let (kind, not_run) = (kind.to_owned(), not_run.take());
                    blocks.push(Block { kind, not_run, follows, ..Block::default() });
                    inside = true;
                }
                Some(_) => (inside, follows) = (false, true),
                None if inside => blocks.last_mut().expect("a block").body += &format!("{line}\n"),
                None => {
                    let note = line
                        .strip_prefix("<!-- not run:")
                        .and_then(|rest| rest.strip_suffix("-->"));
                    not_run = note.map(|reason| reason.trim().to_owned());
                    follows &= line.trim().is_empty();
                }
            }
        }
        assert!(!inside, "{}: a block does not end", self.path);
        blocks
    }

    /// Returns the page's text without fenced blocks and HTML comments.
    fn prose(&self) -> String {
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
    fn commands(&self) -> Vec<String> {
        let joined = self.body.replace("\\\n", " ");
        let plain = |line: &str| line.split(" # ").next().unwrap_or_default().trim().to_owned();
        joined
            .lines()
            .map(plain)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .collect()
    }

    /// Returns the block's commands that run `forebay`.
    fn ours(&self) -> Vec<String> {
        let commands = self.commands().into_iter();
        commands.filter(|command| command.starts_with("forebay ")).collect()
    }

    /// Returns the file name in the first line of a whole scenario, or `None` if there is none.
    fn file(&self) -> Option<&str> {
        let name = self.body.strip_prefix("# ")?.split(':').next()?;
        name.ends_with(".toml").then_some(name)
    }
}

/// Returns the words of a command up to a pipe or a redirection, without quotes.
fn words(command: &str) -> Vec<String> {
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

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a scratch directory");
    for entry in fs::read_dir(from).expect("a shipped directory").flatten() {
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy_tree(&source, &target);
        } else {
            fs::copy(&source, &target)
                .unwrap_or_else(|error| panic!("{}: {error}", source.display()));
        }
    }
}

/// Returns what a command prints to standard output when run in `directory`.
fn print(page: &Page, command: &str, directory: &Path) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_forebay")).parent().expect("a directory");
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(directory).env("PATH", path).env_remove("NO_COLOR");
    let output = shell.output().expect("a shell");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {command}: {errors}", page.path);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the groups of lines between lines of `…` in a block.
fn shown(body: &str) -> Vec<String> {
    let segments = body.split("…\n").map(|segment| segment.trim_matches('\n').to_owned());
    segments.filter(|segment| !segment.is_empty()).collect()
}

/// Checks that the printed output contains the groups of lines of a block, in order.
fn compare(page: &Page, command: &str, body: &str, printed: &str) {
    let mut rest = printed;
    for segment in shown(body) {
        let Some(at) = rest.find(&segment) else {
            panic!("{}: `{command}` does not print\n{segment}\nbut\n{printed}", page.path);
        };
        rest = &rest[at + segment.len()..];
    }
}

/// Returns as many paragraphs of a printed report as the block shows.
fn renewed(body: &str, printed: &str) -> String {
    let head = shown(body).swap_remove(0);
    let paragraphs: Vec<&str> = printed.trim_end().split("\n\n").collect();
    let count = head.split("\n\n").count().min(paragraphs.len());
    let more = if count < paragraphs.len() { "\n\n…\n" } else { "\n" };
    paragraphs[..count].join("\n\n") + more
}

#[test]
fn commands_in_readme_and_guide_print_the_output_shown_there() {
    let write = std::env::var("FOREBAY_DOCS").is_ok_and(|value| value == "write");
    let mut ran = 0;
    for mut page in pages() {
        let place = tempfile::tempdir().expect("a temporary directory");
        for directory in ["scenarios", "plots", "calibrate", "tests/data"] {
            copy_tree(&repository(directory), &place.path().join(directory));
        }
        let mut last: Option<(String, String)> = None;
        for block in page.blocks() {
            let before = last.take().filter(|_| block.follows);
            match block.kind.as_str() {
                "toml" => {
                    if let Some(name) = block.file() {
                        fs::write(place.path().join(name), &block.body).expect("a scenario");
                    }
                }
                "sh" if block.not_run.is_none() => {
                    for command in block.ours() {
                        let printed = print(&page, &command, place.path());
                        last = Some((command, printed));
                        ran += 1;
                    }
                }
                "text" => {
                    let Some((command, printed)) = before else { continue };
                    let report =
                        block.body.lines().next().is_some_and(|line| {
                            line.contains(": `") && line.contains("accelerators")
                        });
                    if write && report {
                        page.text = page.text.replace(&block.body, &renewed(&block.body, &printed));
                    } else {
                        compare(&page, &command, &block.body, &printed);
                    }
                }
                _ => {}
            }
        }
        if write {
            fs::write(repository(&page.path), &page.text).expect("a page");
        }
    }
    assert!(ran > 20, "{ran} commands");
}

#[test]
fn every_documented_command_is_accepted_and_names_existing_files() {
    for page in pages() {
        for block in page.blocks().iter().filter(|block| block.kind == "sh") {
            assert_ne!(block.not_run.as_deref(), Some(""), "{}: no reason", page.path);
            for words in block.ours().iter().map(|command| words(command)) {
                if let Err(error) = Cli::try_parse_from(&words) {
                    panic!("{}: {words:?}: {error}", page.path);
                }
                let shipped = ["scenarios/", "plots/", "calibrate/", "tests/"];
                for word in words.iter().filter(|word| !word.contains('*')) {
                    let ours = shipped.iter().any(|directory| word.starts_with(directory));
                    assert!(!ours || repository(word).exists(), "{}: {word}", page.path);
                }
            }
        }
    }
}

#[test]
fn every_scenario_in_readme_and_guide_is_valid() {
    let mut whole = 0;
    for page in pages() {
        let mut above = String::new();
        for block in page.blocks().into_iter().filter(|block| block.kind == "toml") {
            let Some(name) = block.file() else {
                if above.is_empty() {
                    let table: Result<toml::Table, _> = block.body.parse();
                    table.unwrap_or_else(|error| panic!("{}: {}: {error}", page.path, block.body));
                } else {
                    written(&format!("{above}\n{}", block.body), &[]);
                }
                continue;
            };
            let file = ScenarioFile::parse(name, block.body.clone());
            let file = file.unwrap_or_else(|problems| panic!("{}: {problems}", page.path));
            let axes = file.axes().unwrap_or_else(|problems| panic!("{}: {problems}", page.path));
            let grid = Grid::new(axes).expect("a grid of sensible size");
            for index in 0..grid.len() {
                let overrides: Vec<_> = grid.overrides(index).into_iter().collect();
                file.resolve(&overrides)
                    .unwrap_or_else(|problems| panic!("{}: {problems}", page.path));
            }
            whole += 1;
            above = block.body.split("[sweep]").next().unwrap_or_default().to_owned();
        }
    }
    assert!(whole > 5, "{whole} scenarios");
}

/// Returns the anchor that GitHub and mdBook give a heading.
fn anchor(heading: &str) -> String {
    let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    heading.trim().to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
}

/// Returns the anchors of a page.
fn anchors(page: &Page) -> Vec<String> {
    let prose = page.prose();
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#'))).collect()
}

#[test]
fn links_and_pictures_of_readme_and_guide_have_existing_targets() {
    let pages = pages();
    let known: HashMap<PathBuf, Vec<String>> =
        pages.iter().map(|page| (repository(&page.path), anchors(page))).collect();
    for page in &pages {
        let here = repository(&page.path);
        let prose = page.prose();
        for link in prose.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.starts_with("http") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target =
                if file.is_empty() { here.clone() } else { here.with_file_name("").join(file) };
            assert!(target.exists(), "{}: {link}", page.path);
            // The book contains only files of its own folder.
            assert!(page.path == "README.md" || !file.starts_with(".."), "{}: {link}", page.path);
            if !anchor.is_empty() {
                let anchors = known.get(&target).unwrap_or_else(|| panic!("{}: {link}", page.path));
                assert!(
                    anchors.iter().any(|known| known == anchor),
                    "{}: {link}: {anchors:?}",
                    page.path
                );
            }
        }
        // Checks files of the repository that the text names.
        for name in prose.split('`').skip(1).step_by(2) {
            let shipped = ["scenarios/", "plots/", "calibrate/", "tests/", "benches/", "docs/"];
            let ours = shipped.iter().any(|directory| name.starts_with(directory));
            let one = !name.contains(['*', ' ']) && !name.contains("NAME");
            assert!(!ours || !one || repository(name).exists(), "{}: {name}", page.path);
        }
    }
}

#[test]
fn the_guide_summary_lists_every_page() {
    let summary = read(&repository("docs/src/SUMMARY.md"));
    for page in pages() {
        let Some(name) = page.path.strip_prefix("docs/src/") else { continue };
        assert!(name == "SUMMARY.md" || summary.contains(&format!("]({name})")), "{name}");
    }
}

#[test]
fn the_readme_has_at_most_200_lines_and_1800_words() {
    let readme = read(&repository("README.md"));
    assert!(readme.lines().count() <= 200, "{} lines", readme.lines().count());
    assert!(
        readme.split_whitespace().count() <= 1800,
        "{} words",
        readme.split_whitespace().count()
    );
}

#[test]
fn ci_runs_the_test_command_of_the_readme() {
    let readme = pages().remove(0);
    let commands: Vec<String> = readme.blocks().iter().flat_map(Block::commands).collect();
    let tests = commands.iter().find(|command| command.starts_with("cargo test"));
    let tests = tests.expect("a test command in the README");
    let ci = read(&repository(".ci/run"));
    assert!(ci.lines().any(|line| line.trim_start().ends_with(tests.as_str())), "{tests}");
}
