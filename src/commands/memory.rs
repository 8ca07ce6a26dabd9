//! Whether runs fit into the memory that this process may use, told before they are built.

use super::Failure;
use crate::probe::limits;
use crate::report::format::bytes;
use crate::scenario::Scenario;
use crate::sim;

/// Estimates below this are accepted without asking the system how much there is [B].
const SMALL: f64 = 256e6;
/// What runs have taken beyond the estimate, at most: allocators keep more than they are asked for.
const MARGIN: f64 = 1.25;

/// What simulations hold in memory together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Together {
    /// Replications that are simulated side by side.
    pub(super) at_once: usize,
    /// Outcomes that are kept until all of them are there.
    pub(super) kept: usize,
    /// Whether `--threads` lets fewer be simulated side by side.
    pub(super) threads: bool,
}

impl Together {
    /// How much they need of a scenario [B].
    pub(super) fn needs(self, scenario: &Scenario) -> f64 {
        let of = sim::memory(scenario);
        MARGIN * (self.at_once as f64 * of.world + self.kept as f64 * of.outcome)
    }
}

/// Refuses a scenario, called `name`, that needs more memory than there is.
pub(super) fn check(name: &str, scenario: &Scenario, together: Together) -> Result<(), Failure> {
    match lacking(name, scenario, together, limits::allocatable_memory) {
        None => Ok(()),
        Some(what) => Err(Failure::Machine(what)),
    }
}

/// What is lacking, and what to do about it.
fn lacking(
    name: &str,
    scenario: &Scenario,
    together: Together,
    free: impl FnOnce() -> f64,
) -> Option<String> {
    let needed = together.needs(scenario);
    if needed <= SMALL {
        return None;
    }
    let free = free();
    if needed <= free {
        return None;
    }
    let alone = Together { at_once: 1, ..together };
    let fewer = match together.threads && alone.needs(scenario) <= free {
        true => "simulate fewer at once, `--threads 1`, or ",
        false => "",
    };
    Some(format!(
        "{name} needs about {} of memory to be simulated, and this process may use {}; {fewer}write fewer `copies`, \
         nodes, workers or steps, smaller buffers or a smaller data set",
        bytes(needed),
        bytes(free)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::ScenarioFile;

    fn scenario(copies: u32, replications: u32) -> Scenario {
        let text = format!(
            "name = \"many\"\n[run]\nsteps = 1\nreplications = {replications}\n[cluster]\nnodes = 1\n\
             share_nodes = true\nnode.cores = 1\n[storage.m.memory]\n[dataset.d]\nsamples = 100\n\
             sample_size = \"10 B\"\n[[job]]\nname = \"j\"\ncopies = {copies}\ndataset = \"d\"\n\
             storage = \"m\"\nbatch = 1\nloader.tf-queue = {{ threads = 1, capacity = \"1 samples\" }}\n\
             model.step = \"1 ms\"\n"
        );
        ScenarioFile::parse("many.toml", text).unwrap().resolve(&[]).unwrap()
    }

    #[test]
    fn what_needs_more_than_there_is_is_refused_with_both_numbers() {
        let many = scenario(1_000_000, 2);
        let two = Together { at_once: 2, kept: 2, threads: true };
        let of = |free: f64, together| lacking("`many`", &many, together, || free);
        let said = of(1e9, two).unwrap();
        assert!(
            said.starts_with("`many` needs about") && said.contains("may use 1 GB; write"),
            "{said}"
        );
        let one = Together { at_once: 1, ..two }.needs(&many);
        let said = of(1.5 * one, two).unwrap();
        assert!(said.contains("--threads 1"), "{said}");
        let said = of(1.5 * one, Together { threads: false, ..two }).unwrap();
        assert!(!said.contains("--threads"), "{said}");
        assert_eq!(of(3.0 * one, two), None);
    }

    #[test]
    fn small_runs_are_not_looked_at() {
        let few = Together { at_once: 2, kept: 2, threads: true };
        let free = || unreachable!("it is small");
        assert_eq!(lacking("`few`", &scenario(10, 2), few, free), None);
    }
}
