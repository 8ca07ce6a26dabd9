//! Describes this machine, and measures how fast it copies memory (the probe `host`).

use super::limits::{self, after};
use super::{Cell, Context, Count, Probe, ProbeError, Seconds, Trial, team};
use schemars::JsonSchema;
use serde::Deserialize;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

/// Description of this machine, without its host name.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// The processor's name.
    pub model: String,
    /// Version of the kernel.
    pub kernel: String,
    /// Number of cores that this process may use, by affinity and quota; may be a fraction.
    pub cores: f64,
    /// Main memory that this process may use [B].
    pub memory: f64,
    /// File system of the directory that is measured, such as `ext4`.
    pub file_system: String,
    /// Whether there is an NVIDIA GPU with its driver.
    pub gpu: bool,
}

impl Machine {
    /// Examines the machine, and the file system that holds `directory`.
    #[must_use]
    pub fn look(directory: &Path) -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let model = after(&read("/proc/cpuinfo"), "model name");
        Machine {
            model: model.unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            cores: limits::cores(),
            memory: limits::memory(),
            file_system: file_system(directory, &read("/proc/self/mountinfo")),
            gpu: Path::new("/proc/driver/nvidia/version").exists(),
        }
    }

    /// Describes the machine in one line.
    #[must_use]
    pub fn words(&self) -> String {
        let Machine { model, kernel, cores, file_system, .. } = self;
        let unit = if *cores == 1.0 { "core" } else { "cores" };
        let memory = match self.memory / (1 << 30) as f64 {
            // Without `/proc` the size of the memory is unknown.
            0.0 => "memory unknown".to_owned(),
            memory => format!("{memory:.1} GiB"),
        };
        format!("{model}, {cores} {unit}, {memory}, Linux {kernel}, {file_system}")
    }
}

/// Returns the type of the file system that holds `directory`, given a text in the format of
/// `/proc/self/mountinfo`.
fn file_system(directory: &Path, mounts: &str) -> String {
    let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let kind = |line: &str| {
        let (mount, kind) = line.split_once(" - ")?;
        let point = mount.split(' ').nth(4)?.replace("\\040", " ");
        Some((point, kind.split(' ').next()?.to_owned()))
    };
    let holding = mounts.lines().filter_map(kind).filter(|(point, _)| directory.starts_with(point));
    // Of several mounts at the same path the last one counts.
    holding.max_by_key(|(point, _)| point.len()).map_or_else(|| "unknown".to_owned(), |at| at.1)
}

/// The table `[host]` of a plan: memory copied by 1, 2, 4, … threads at once.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostSettings {
    /// Largest number of threads (default: the number of cores).
    pub threads: Option<Count>,
    /// Time limit for this probe (default: an equal share of the plan's remaining budget).
    pub budget: Option<Seconds>,
}

/// The probe `host`: each operation is the copy of one byte.
#[derive(Debug)]
pub struct HostProbe {
    threads: usize,
    budget: Option<Seconds>,
}

impl HostProbe {
    /// Returns a probe with these settings for a machine with `cores` cores.
    #[must_use]
    pub fn new(settings: &HostSettings, cores: f64) -> HostProbe {
        let threads = settings.threads.map_or(cores.ceil().max(1.0) as usize, |count| count.0);
        HostProbe { threads, budget: settings.budget }
    }
}

impl Probe for HostProbe {
    fn name(&self) -> &'static str {
        "host"
    }

    fn cells(&self) -> Vec<Cell> {
        let mut counts: Vec<usize> =
            (0..).map(|power| 1 << power).take_while(|&count| count < self.threads).collect();
        counts.push(self.threads);
        let cell = |&count: &usize| Cell::new(&[("what", "copy")], &[("threads", count as f64)]);
        counts.iter().map(cell).collect()
    }

    fn budget(&self) -> Option<Duration> {
        self.budget.map(Seconds::duration)
    }

    fn trial(&mut self, cell: &Cell, context: &Context<'_>) -> Result<Trial, ProbeError> {
        /// Size of a copied block [B]: larger than the private caches of a core.
        const BLOCK: usize = 8 << 20;
        let threads = cell.count("threads");
        let team = team(threads, |_| {
            let (from, mut to) = (vec![1_u8; BLOCK], vec![2_u8; BLOCK]);
            let (start, mut turns) = (Instant::now(), 0_u64);
            while start.elapsed() < context.length {
                to.copy_from_slice(black_box(&from));
                black_box(&mut to);
                turns += 1;
            }
            (turns, start.elapsed().as_secs_f64())
        })?;
        let bytes = |turns: u64| turns * BLOCK as u64;
        let operations = team.members.iter().map(|member| bytes(member.value.0)).sum();
        let rate: f64 = team.members.iter().map(|m| bytes(m.value.0) as f64 / m.value.1).sum();
        Ok(Trial {
            operations,
            seconds: operations as f64 / rate,
            core_seconds: team.core_seconds(),
            threads,
            waited: team.waited(),
            ..Trial::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_description_has_cores_and_memory_but_no_host_name() {
        let machine = Machine::look(Path::new("/"));
        assert!(machine.cores > 0.0 && machine.memory > 1e6, "{machine:?}");
        let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        assert!(name.len() < 6 || !machine.words().contains(name.trim()));
    }

    #[test]
    fn machine_descriptions_use_the_singular_for_one_core_only() {
        let of = |cores| Machine { cores, ..Machine::look(Path::new("/")) }.words();
        assert!(of(1.0).contains(", 1 core, "), "{}", of(1.0));
        assert!(of(1.5).contains(", 1.5 cores, "), "{}", of(1.5));
    }

    #[test]
    fn a_directory_has_the_file_system_of_its_innermost_mount() {
        let mounts = "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:5 / /proc rw shared:1 - proc p rw\n";
        assert_eq!(file_system(Path::new("/proc/self"), mounts), "proc");
        assert_eq!(file_system(Path::new("/"), mounts), "ext4");
        assert_eq!(file_system(Path::new("/"), ""), "unknown");
    }
}
