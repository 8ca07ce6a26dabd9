//! Says by how much nodes that differ from the others slow a job: simulates the scenario on usual nodes, then again with one of these nodes
//! among them, for each.

use crate::commands::Failure;
use crate::input::shown;
use crate::profile::{Profile, UNLIKE};
use crate::report::format::{seconds, share};
use crate::report::{self, JobReport};
use crate::scenario::{Override, Reading, ScenarioFile};
use crate::sim;
use std::path::Path;

/// Returns the step time of each job of a scenario on usual nodes, and what it becomes with each node that is unlike them.
pub(in crate::commands) fn table(path: &Path, profile: &Profile) -> Result<String, Failure> {
    let name = shown(path);
    let file = ScenarioFile::open(path)?;
    let count = nodes_of(&file, profile)?;
    let names: Vec<String> = profile.node.keys().cloned().collect();
    let groups = profile.alike(&names).unwrap_or_default();
    let (usual, unlike): (Vec<_>, Vec<_>) = groups.iter().partition(|group| group.usual);
    let usual: Vec<String> = usual.iter().flat_map(|group| group.names.clone()).collect();
    if usual.len() + 1 < count {
        let (most, all) = (usual.len() + 1, names.len());
        return Err(Failure::Input(format!(
            "{name} runs on {count} nodes, and {} of the profile's {all} are alike; write `cluster.nodes` of at most {most}",
            usual.len()
        )));
    }
    // Any nodes are usual ones.
    let base = simulate(&file, profile, &count.to_string())?;
    let mut text = format!("{name} on {count} usual nodes:");
    for (job, time) in &base {
        text.push_str(&format!(" a step of `{job}` takes {}", seconds(*time)));
    }
    text.push('\n');
    for group in unlike {
        let node = &group.names[0];
        let with: Vec<String> = usual[..count - 1].iter().cloned().chain([node.clone()]).collect();
        let with: Vec<String> = with.iter().map(|name| format!("{name:?}")).collect();
        let with = format!("[{}]", with.join(", "));
        for ((job, before), (_, after)) in base.iter().zip(simulate(&file, profile, &with)?) {
            let more = after / before - 1.0;
            text.push_str(&match more >= 0.001 {
                true => format!("  with {node} in place of one of them, a step of `{job}` takes {} longer ({})\n", share(more), seconds(after)),
                false => format!("  with {node} in place of one of them, a step of `{job}` takes as long\n"),
            });
        }
    }
    if groups.len() < 2 {
        let within = share(UNLIKE);
        text.push_str(&format!("  all {} nodes are within {within} of each other\n", names.len()));
    }
    Ok(text)
}

/// Returns the number of nodes that the scenario runs on.
fn nodes_of(file: &ScenarioFile, profile: &Profile) -> Result<usize, Failure> {
    let reading = Reading { profile: Some(profile), ..Reading::default() };
    let scenario = file.resolve_as(&[], reading)?;
    Ok((scenario.cluster.nodes as usize).max(1))
}

/// Simulates the scenario on these nodes, as `cluster.nodes` says them; returns the mean step time of each job [s].
fn simulate(
    file: &ScenarioFile,
    profile: &Profile,
    nodes: &str,
) -> Result<Vec<(String, f64)>, Failure> {
    let named: Override = format!("cluster.nodes={nodes}").parse()?;
    let reading = Reading { profile: Some(profile), ..Reading::default() };
    let scenario = file.resolve_as(&[named], reading)?;
    let outcomes: Vec<_> = (0..scenario.run.replications)
        .map(|number| sim::run(&scenario, number, &sim::Options::default()))
        .collect();
    let report = report::summarise(&scenario, &outcomes, 0.0);
    let time = |job: &JobReport| Some((job.name.clone(), job.figures.step_time.mean?));
    Ok(report.jobs.iter().filter_map(time).collect())
}
