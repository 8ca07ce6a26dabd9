//! Tests of files on disk: scenarios, and the files that they name.

use super::*;
use std::path::Path;

fn said(result: Result<ScenarioFile, Problems>) -> String {
    let problems = result.expect_err("wrong");
    assert!(problems.to_string().contains("= help: "), "{problems}");
    problems.to_string()
}

#[test]
fn files_that_cannot_be_read_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.toml");
    assert!(said(ScenarioFile::open(&path)).contains("cannot read the file: "));
    assert!(said(ScenarioFile::open(directory.path())).contains("directory"));
    std::fs::write(&path, b"name = \"x\"\nseed\xff").expect("written");
    let shown = said(ScenarioFile::open(&path));
    assert!(shown.contains("not UTF-8 text") && shown.contains("a.toml:2:5\n"), "{shown}");
    // A sparse file of 1 GiB, which takes no space.
    std::fs::File::create(&path).and_then(|file| file.set_len(1 << 30)).expect("written");
    assert!(said(ScenarioFile::open(&path)).contains("more than 16 MiB"));
    let missing = said(ScenarioFile::open(&directory.path().join("b.toml")));
    assert!(!missing.contains("os error"), "{missing}");
    std::fs::write(&path, FLETCHER).expect("written");
    assert!(ScenarioFile::open(&path).expect("right").resolve(&[]).is_ok());
}

#[cfg(unix)]
#[test]
fn a_pipe_that_may_have_no_writer_is_not_waited_for() {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    assert!(said(ScenarioFile::open(Path::new("/dev/zero"))).contains("not a regular file"));
    let directory = tempfile::tempdir().expect("a directory");
    let fifo = directory.path().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.is_ok_and(|status| status.success()));
    let shown = said(ScenarioFile::open(&fifo));
    assert!(shown.contains("not a regular file") && shown.contains("fifo"), "{shown}");
    // The shell's `<(…)` is a pipe that is already open.
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(FLETCHER.as_bytes()).expect("it fits into the pipe");
    drop(writer);
    let path = format!("/dev/fd/{}", reader.as_raw_fd());
    let file = ScenarioFile::open(Path::new(&path)).unwrap_or_else(|problems| panic!("{problems}"));
    assert!(file.resolve(&[]).is_ok());
    assert_eq!(file.directory, Path::new(""), "what it names is looked up from where the user is");
}

/// Returns the sizes that a file of values gives, or what is wrong with it.
fn sizes(content: Option<&[u8]>) -> Result<Distribution, Problems> {
    let directory = tempfile::tempdir().expect("a directory");
    if let Some(content) = content {
        std::fs::write(directory.path().join("sizes.csv"), content).expect("written");
    }
    let path = directory.path().join("a.toml");
    let text = FLETCHER.replace("\"784 B\"", "{ empirical = { file = \"sizes.csv\" } }");
    std::fs::write(&path, text).expect("written");
    let scenario = ScenarioFile::open(&path).expect("TOML").resolve(&[])?;
    let SampleSizes::Drawn(sizes) = scenario.datasets[0].sizes.clone() else { panic!("drawn") };
    Ok(sizes)
}

#[test]
fn sample_sizes_are_read_from_a_file_beside_the_scenario() {
    let content = b"size\n# a comment\n784\n\n1 KiB\n2,kB # two\n1e3\n";
    let expected = Distribution::Empirical([784.0, 1024.0, 2000.0, 1000.0].into());
    assert_eq!(sizes(Some(content)), Ok(expected));
}

#[test]
fn a_file_of_values_is_read_once_for_all_points_of_a_sweep() {
    let directory = tempfile::tempdir().expect("a directory");
    let values = directory.path().join("v.csv");
    std::fs::write(&values, "784\n1000\n").expect("written");
    let path = directory.path().join("a.toml");
    let text = FLETCHER.replace("\"784 B\"", "{ empirical = { file = \"v.csv\" } }");
    std::fs::write(&path, text).expect("written");
    let file = ScenarioFile::open(&path).expect("TOML");
    let first = file.resolve(&[]).expect("right");
    // Values for another setting from the same file are read separately.
    let decode = "job.loader.tf-queue.decode.empirical.file=\"v.csv\"".parse().expect("a change");
    assert!(file.resolve(&[decode]).is_ok());
    std::fs::remove_file(values).expect("it is there");
    let threads = "job.loader.tf-queue.threads=4".parse().expect("a change");
    let second = file.clone().resolve(&[threads]).expect("the values are known");
    assert_eq!(first.datasets, second.datasets);
    let again = ScenarioFile::open(&path).expect("TOML").resolve(&[]);
    assert!(again.expect_err("it is gone").to_string().contains("No such file"));
}

#[test]
fn invalid_sample_size_files_are_reported_with_a_remedy() {
    let large = vec![b'\n'; (64 << 20) + 1];
    let rows: [(Option<&[u8]>, &str); 10] = [
        (None, "\"sizes.csv\": cannot read the file: No such file or directory\n"),
        (Some(&large), "\"sizes.csv\": the input holds more than 64 MiB"),
        (Some(&[0; 100]), "this is no value"),
        (Some(b""), "holds no value above zero"),
        (Some(b"0\n0\n"), "holds no value above zero"),
        (Some(b"1\nabc\n"), "sizes.csv:2:1\n"),
        (Some(b"1\n2\n  -3\n"), "sizes.csv:3:1\n"),
        (Some(b"1\nnan\n"), "NaN is not between"),
        (Some(b"1\n3 ms\n"), "`ms` is a unit of a time"),
        (Some(b"\xff\xfe"), "not UTF-8 text"),
    ];
    for (content, expected) in rows {
        let problems = sizes(content).expect_err(expected);
        let shown = problems.to_string();
        assert!(shown.contains(expected) && shown.contains("= help: "), "{expected}\n{shown}");
        let problem = problems.iter().next().expect("not empty");
        assert!(problem.key.starts_with("dataset.mnist.sample_size.empirical"), "{shown}");
    }
}
