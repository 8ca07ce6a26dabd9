//! Checks whether simulations fit into the memory that this process may use, before the simulations are built.

use super::Failure;
use crate::probe::limits;
use crate::report::format::bytes;
use crate::scenario::Scenario;
use crate::sim;

/// Estimate of needed memory up to which simulations are accepted without asking the system for the free memory [B].
const SMALL: f64 = 256e6;
/// Maximum ratio of the memory that runs take to the estimated memory; above 1, because allocators keep more than is requested.
const MARGIN: f64 = 1.25;

/// Numbers of simulations and outcomes that are in memory at the same time while a scenario is simulated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Together {
    /// Number of replications that are simulated at the same time.
    pub(super) at_once: usize,
    /// Number of outcomes that are kept until all replications have ended.
    pub(super) kept: usize,
    /// Whether the command has the option `--threads`, which can reduce the number of simulations at the same time.
    pub(super) threads: bool,
}

impl Together {
    /// Returns the estimated memory for simulations of `scenario` [B].
    pub(super) fn needs(self, scenario: &Scenario) -> f64 {
        let of = sim::memory(scenario);
        MARGIN * (self.at_once as f64 * of.world + self.kept as f64 * of.outcome)
    }
}

/// Returns an error if `scenario`, called `name` in messages, needs more memory than this process may use.
pub(super) fn check(name: &str, scenario: &Scenario, together: Together) -> Result<(), Failure> {
    match lacking(name, scenario, together, limits::allocatable_memory) {
        None => Ok(()),
        Some(what) => Err(Failure::Machine(what)),
    }
}

/// Returns the message that memory is lacking and what to do about it; `None` if the memory suffices. `free` returns the memory
/// that the process may use [B]; this function is called only if the estimate is above [`SMALL`].
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
    fn too_large_runs_are_refused_with_needed_and_free_memory() {
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
    fn small_runs_do_not_query_free_memory() {
        let few = Together { at_once: 2, kept: 2, threads: true };
        let free = || unreachable!("it is small");
        assert_eq!(lacking("`few`", &scenario(10, 2), few, free), None);
    }
}
