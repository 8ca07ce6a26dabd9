//! Whether runs fit into the memory that this process may use, told before they are built.

use super::Failure;
use crate::probe::limits;
use crate::report::format::bytes;
use crate::scenario::{Problem, Scenario};
use crate::sim;

/// Below this nobody is asked how much there is [B].
const SMALL: f64 = 256e6;

/// Refuses a scenario whose replications, `threads` of them at once, need more memory than there is.
pub(super) fn check(scenario: &Scenario, threads: usize) -> Result<(), Failure> {
    let replications = scenario.run.replications as usize;
    match lacking(scenario, threads.min(replications), limits::free_memory) {
        None => Ok(()),
        Some((what, remedy)) => Err(Failure::Machine(format!("{what}; {remedy}"))),
    }
}

/// The same as a problem of the file `name`, of which `threads` points are simulated at once.
pub(super) fn problem(name: &str, scenario: &Scenario, threads: usize) -> Option<Problem> {
    let (what, remedy) = lacking(scenario, threads, limits::free_memory)?;
    Some(Problem::new(name, what, remedy))
}

/// What is lacking for `at_once` replications at a time, and what to do about it.
fn lacking(
    scenario: &Scenario,
    at_once: usize,
    free: impl FnOnce() -> f64,
) -> Option<(String, String)> {
    let replications = scenario.run.replications as usize;
    let of = sim::memory(scenario);
    let with = |at_once: usize| at_once as f64 * of.world + replications as f64 * of.outcome;
    let needed = with(at_once.max(1));
    if needed <= SMALL {
        return None;
    }
    let free = free();
    if needed <= free {
        return None;
    }
    let what = format!(
        "`{}` needs about {} of memory to be simulated, and this process may use {}",
        scenario.name,
        bytes(needed),
        bytes(free)
    );
    let smaller =
        "write fewer `copies`, nodes, workers or steps, smaller buffers or a smaller data set";
    let remedy = match with(1) <= free {
        true => format!("simulate fewer at once, `--threads 1`, or {smaller}"),
        false => smaller.to_owned(),
    };
    Some((what, remedy))
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
        let (what, remedy) = lacking(&many, 2, || 1e9).unwrap();
        assert!(what.contains("`many` needs about") && what.ends_with("may use 1 GB"), "{what}");
        assert!(remedy.starts_with("write fewer `copies`"), "{remedy}");
        let of = sim::memory(&many);
        let one = of.world + 2.0 * of.outcome;
        let (_, remedy) = lacking(&many, 2, || 1.5 * one).unwrap();
        assert!(remedy.contains("--threads 1"), "{remedy}");
        assert_eq!(lacking(&many, 2, || 3.0 * one), None);
    }

    #[test]
    fn small_runs_are_not_looked_at() {
        assert_eq!(lacking(&scenario(10, 2), 2, || unreachable!("it is small")), None);
    }
}
