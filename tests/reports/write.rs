//! Writes reports of all shipped scenarios and of their variants.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Changes of each scenario, by the name of the variant. The error message of a refused change is a report,
/// too.
const VARIANTS: [(&str, &[&str]); 5] = [
    ("plain", &[]),
    ("seed", &["run.seed=20261"]),
    ("copies", &["job.copies=2", "cluster.nodes=512"]),
    ("batch", &["job.batch=48"]),
    ("nodes", &["job.nodes=2", "cluster.nodes=512"]),
];

/// Writes the report of each scenario and variant into a file of its own.
pub(crate) fn write(program: &Path, folder: &Path) -> Result<String, String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let entries = fs::read_dir(&scenarios).map_err(|error| error.to_string())?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    let all: Vec<_> = files.iter().flat_map(|file| VARIANTS.map(|of| (file, of))).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((file, variant)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            report(program, folder, file, variant)?;
        }
        Ok::<(), String>(())
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })?;
    Ok(format!("{} reports in {}", all.len(), folder.display()))
}

fn report(
    program: &Path,
    folder: &Path,
    file: &Path,
    (variant, changes): &(&str, &[&str]),
) -> Result<(), String> {
    let mut command = Command::new(program);
    // The short runs of a full verdict end at a number of events, which does not belong to the scenario's
    // figures.
    command.args(["run", "--format", "json", "--verdict", "quick", "--threads", "1"]).arg(file);
    command.args(changes.iter().flat_map(|change| ["--set", change]));
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = command.output().map_err(|error| format!("{}: {error}", program.display()))?;
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let (said, ending) =
        if output.status.success() { (output.stdout, "json") } else { (output.stderr, "refused") };
    let path = folder.join(format!("{name}.{variant}.{ending}"));
    fs::write(&path, said).map_err(|error| format!("{}: {error}", path.display()))
}
