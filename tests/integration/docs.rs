//! README, guide and pages for contributors: their commands run and print the output that is shown, their scenarios
//! resolve, their links have targets.
//!
//! Commands that begin with `forebay`, or with `cargo run --release --locked --`, run, page by page, in a scratch
//! directory with copies of the repository's scenarios, recipes and data. Those of a block after the line `<!-- run short -->`, or
//! `<!-- run short: N steps -->`, run on shortened scenarios and with few trials, and those after `<!-- not run: reason -->` are only parsed; `page::REASONS` has the
//! reasons. A `toml` block that begins with `# NAME.toml: question?` is written to that file; another one is added to
//! the scenario above it, if there is one on the page. A `text` block after commands is compared with what the last of
//! them printed, where `…` stands for any lines, and a figure that the guide shows with the one that a command has
//! drawn.
//! `FOREBAY_DOCS=write` replaces each block whose first line is that of a report.

mod contributors;
mod page;
mod short;

use super::runs::{repository, written};
use clap::Parser;
use forebay::cli::Cli;
use forebay::scenario::ScenarioFile;
use forebay::sweep::Grid;
use page::{Block, Page, REASONS, Runs, pages, read, words};
use short::Shortened;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    shell.args(["-c", command]).current_dir(directory).env_remove("NO_COLOR");
    shell.env("PATH", path).env("HOME", directory.join("home"));
    let output = shell.output().expect("a shell");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {command}: {errors}", page.path);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a command as its block asks. Returns it with what it prints; `None` if that is not what the page shows.
fn output(page: &Page, runs: &Runs, command: &str, place: &Path) -> Option<(String, String)> {
    match runs {
        Runs::Whole => {
            let printed = print(page, command, place);
            compare_figures(page, command, place);
            Some((command.to_owned(), printed))
        }
        Runs::Short(steps) => {
            let words = words(command);
            let shortened = Shortened::scenarios_of(&words, place, *steps);
            print(page, &short::with_few_trials(command, &words), place);
            shortened.restore();
            // Figures of shortened scenarios are not those that the guide shows.
            let _ = fs::remove_dir_all(place.join("figures"));
            None
        }
        Runs::Not(_) => None,
    }
}

/// Checks that the figures which a command has drawn are those that the guide shows.
fn compare_figures(page: &Page, command: &str, place: &Path) {
    for drawn in fs::read_dir(place.join("figures")).into_iter().flatten().flatten() {
        let shown = repository("docs/src/figures").join(drawn.file_name());
        assert!(
            !shown.exists() || light(&shown) == light(&drawn.path()),
            "{}: `{command}` draws another figure than {}: draw it anew",
            page.path,
            shown.display()
        );
    }
}

/// Returns a figure without its colours for dark pages.
fn light(figure: &Path) -> String {
    let text = read(figure);
    let without = text.split_once("<style>").and_then(|(head, rest)| {
        let (_, body) = rest.split_once("</style>\n")?;
        Some(format!("{head}{body}"))
    });
    without.unwrap_or(text)
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
                "sh" => {
                    for command in block.ours() {
                        last = output(&page, &block.runs, &command, place.path());
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
}

#[test]
fn the_gallery_draws_every_recipe() {
    let gallery = read(&repository("docs/src/gallery.md"));
    for entry in fs::read_dir(repository("plots")).expect("recipes").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let command = format!("forebay plot plots/{name} --output figures");
        assert!(gallery.contains(&command), "{name}");
    }
}

#[test]
fn every_documented_command_is_accepted_and_names_existing_files() {
    for page in pages() {
        for block in page.blocks().iter().filter(|block| block.kind == "sh") {
            if let Runs::Not(reason) = &block.runs {
                assert!(REASONS.contains(&reason.as_str()), "{}: {reason:?}", page.path);
            }
            for words in block.ours().iter().map(|command| words(command)) {
                let parsed = Cli::try_parse_from(&words);
                if let Some(error) = parsed.err().filter(|_| words[0] == "forebay") {
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
fn figures_of_the_guide_have_colours_for_dark_pages() {
    for figure in fs::read_dir(repository("docs/src/figures")).expect("figures").flatten() {
        let text = read(&figure.path());
        assert!(text.contains("prefers-color-scheme: dark"), "{}", figure.path().display());
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
fn the_first_two_commands_of_the_readme_need_no_installed_program() {
    let readme = pages().remove(0);
    let commands: Vec<String> = readme.blocks().iter().flat_map(Block::commands).collect();
    assert!(commands[0].starts_with("cargo run --release --locked -- run "), "{commands:?}");
    assert_eq!(commands[1], "cargo test --locked");
    assert!(readme.blocks()[0].ours()[0].starts_with("forebay run scenarios/"));
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
