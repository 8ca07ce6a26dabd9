//! Which rank of how many this process is, as its launcher says in environment variables.

use std::fs;

/// Place of this process among those that measure together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Number of this process, from 0.
    pub rank: u32,
    /// Number of processes.
    pub size: u32,
    /// Name of the node.
    pub node: String,
    /// Job of the launcher, if it says one: processes of another job do not belong together.
    pub job: Option<String>,
    /// Name of the launcher, for messages.
    pub launcher: &'static str,
}

/// Variables in which a launcher says rank, number of ranks, and job.
struct Launcher {
    name: &'static str,
    rank: &'static str,
    size: &'static str,
    /// Variables that together name the job.
    job: &'static [&'static str],
}

/// Known launchers. The first one whose variables are all set counts: `mpirun` inside a Slurm job leaves the variables of Slurm's own
/// step to its processes.
const LAUNCHERS: [Launcher; 6] = [
    Launcher {
        name: "FOREBAY_RANK",
        rank: "FOREBAY_RANK",
        size: "FOREBAY_RANKS",
        job: &["FOREBAY_JOB"],
    },
    Launcher {
        name: "Open MPI",
        rank: "OMPI_COMM_WORLD_RANK",
        size: "OMPI_COMM_WORLD_SIZE",
        job: &["PMIX_NAMESPACE"],
    },
    Launcher {
        name: "torchrun",
        rank: "RANK",
        size: "WORLD_SIZE",
        job: &["TORCHELASTIC_RUN_ID", "MASTER_PORT"],
    },
    // Only `srun` sets the number of tasks of a step; the variables of the job are also set in a batch script.
    Launcher {
        name: "srun",
        rank: "SLURM_PROCID",
        size: "SLURM_STEP_NUM_TASKS",
        job: &["SLURM_JOB_ID", "SLURM_STEP_ID"],
    },
    Launcher { name: "Hydra", rank: "PMI_RANK", size: "PMI_SIZE", job: &[] },
    Launcher {
        name: "Kubernetes",
        rank: "JOB_COMPLETION_INDEX",
        size: "FOREBAY_RANKS",
        job: &["FOREBAY_JOB"],
    },
];

/// Variables that name a node, the first that is set counts; otherwise the host name does.
const NODE: [&str; 3] = ["FOREBAY_NODE", "SLURMD_NODENAME", "NODE_NAME"];

impl Launch {
    /// Returns the place that a launcher has given this process; `None` if none has. `variable` returns the value of an environment
    /// variable.
    ///
    /// # Errors
    /// Returns a message if the variables contradict each other.
    pub fn find(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Launch>, String> {
        let set = |launcher: &&Launcher| {
            variable(launcher.rank).is_some() && variable(launcher.size).is_some()
        };
        let Some(launcher) = LAUNCHERS.iter().find(set) else { return Ok(None) };
        let number = |name: &str| {
            let text = variable(name).unwrap_or_default();
            let value = text.trim().parse::<u32>().ok().filter(|value| *value <= crate::MOST_RANKS);
            value.ok_or_else(|| {
                format!(
                    "the variable {name} is `{text}`: it should be a number of at most {}",
                    crate::MOST_RANKS
                )
            })
        };
        let (rank, size) = (number(launcher.rank)?, number(launcher.size)?);
        if rank >= size {
            return Err(format!(
                "the variables {} and {} say rank {rank} of {size} ranks: ranks count from 0",
                launcher.rank, launcher.size
            ));
        }
        let job: Vec<String> = launcher.job.iter().filter_map(|name| variable(name)).collect();
        let job = (!job.is_empty()).then(|| job.join("."));
        Ok(Some(Launch { rank, size, node: node(variable), job, launcher: launcher.name }))
    }
}

/// Returns the name of this node: what the launcher calls it, otherwise its host name.
#[must_use]
pub fn node(variable: &dyn Fn(&str) -> Option<String>) -> String {
    let said = NODE.iter().find_map(|name| variable(name).filter(|name| !name.is_empty()));
    let host = || fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = said.unwrap_or_else(host).trim().to_owned();
    // Names become keys of profiles and words of messages.
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = name.chars().take(crate::MOST_NAME).map(plain).collect();
    if name.is_empty() { "node".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(variables: &[(&str, &str)]) -> Result<Option<Launch>, String> {
        let value = |name: &str| {
            let found = variables.iter().find(|(of, _)| *of == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Launch::find(&value)
    }

    #[test]
    fn each_launcher_says_rank_and_size_in_variables_of_its_own() {
        let srun = [
            ("SLURM_PROCID", "3"),
            ("SLURM_STEP_NUM_TASKS", "16"),
            ("SLURM_JOB_ID", "77"),
            ("SLURM_STEP_ID", "0"),
            ("SLURMD_NODENAME", "n4"),
        ];
        let found = find(&srun).unwrap().unwrap();
        assert_eq!((found.rank, found.size, found.node.as_str()), (3, 16, "n4"));
        assert_eq!((found.job.as_deref(), found.launcher), (Some("77.0"), "srun"));
        // `mpirun` in an allocation of Slurm: its processes inherit the variables of the step that started its daemons.
        let both = [&srun[..], &[("OMPI_COMM_WORLD_RANK", "5"), ("OMPI_COMM_WORLD_SIZE", "8")]];
        let found = find(&both.concat()).unwrap().unwrap();
        assert_eq!((found.rank, found.size, found.launcher), (5, 8, "Open MPI"));
        for (variables, launcher) in [
            ([("RANK", "1"), ("WORLD_SIZE", "2")], "torchrun"),
            ([("PMI_RANK", "1"), ("PMI_SIZE", "2")], "Hydra"),
            ([("JOB_COMPLETION_INDEX", "1"), ("FOREBAY_RANKS", "2")], "Kubernetes"),
            ([("FOREBAY_RANK", "1"), ("FOREBAY_RANKS", "2")], "FOREBAY_RANK"),
        ] {
            let found = find(&variables).unwrap().unwrap();
            assert_eq!((found.rank, found.size, found.launcher), (1, 2, launcher));
        }
    }

    #[test]
    fn a_batch_script_is_no_rank_and_wrong_numbers_are_refused() {
        let script = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("SLURM_JOB_ID", "7")];
        assert_eq!(find(&script), Ok(None));
        let beyond = find(&[("RANK", "2"), ("WORLD_SIZE", "2")]).unwrap_err();
        assert!(beyond.contains("rank 2 of 2"), "{beyond}");
        let word = find(&[("RANK", "two"), ("WORLD_SIZE", "2")]).unwrap_err();
        assert!(word.contains("RANK is `two`"), "{word}");
        let many = find(&[("RANK", "0"), ("WORLD_SIZE", "4000000000")]).unwrap_err();
        assert!(many.contains("at most"), "{many}");
    }

    #[test]
    fn names_of_nodes_are_plain_words() {
        let name = |value: &str| {
            let value = value.to_owned();
            node(&move |name: &str| (name == "FOREBAY_NODE").then(|| value.clone()))
        };
        assert_eq!(name("gpu01.cluster"), "gpu01.cluster");
        assert_eq!(name("a b\"\n"), "a-b-");
        assert_eq!(name(&"x".repeat(500)).len(), crate::MOST_NAME);
    }
}
