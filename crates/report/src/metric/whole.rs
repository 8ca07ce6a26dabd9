//! Metrics of a whole run: energy, memory, resources.

use super::Better::{Lower, Neither};
use super::{Metric, Unit, Value, number};
use crate::{EnergyReport, Figure, Report};

/// Returns the metrics of a whole run that are columns of sweeps, after the columns of a job.
pub(super) fn columns() -> Vec<Metric> {
    vec![
        Metric::column("energy_per_sample", Unit::Joules, Lower, |report, _| {
            energy(report, |of| of.per_sample)
        })
        .at("energy.per_sample")
        .called("Energy per sample [J]")
        .means("Energy of all nodes for each sample that was trained on."),
        Metric::column("device_memory", Unit::Bytes, Lower, |_, job| {
            number(job.device_memory.map(|held| held.total))
        })
        .at("jobs.device_memory.total")
        .called("Device memory")
        .means("What the GPU that holds most of the model has in its memory."),
        Metric::column("cost_per_month", Unit::Money, Lower, |report, _| {
            report.cost.as_ref().map(|of| of.month).unwrap_or_default()
        })
        .at("cost.month")
        .called("Cost of a month")
        .means("What the whole cluster costs for 730 hours, by the prices of the scenario: rent, energy, and purchases spread over their lifetime."),
        Metric::column("cost_per_epoch", Unit::Money, Lower, |_, job| {
            job.cost.as_ref().map(|of| of.epoch).unwrap_or_default()
        })
        .at("jobs.cost.epoch")
        .called("Cost of an epoch")
        .means("What the nodes of one copy of the job cost for an epoch; nodes that no job uses are paid by all."),
        Metric::column("cost_to_accuracy", Unit::Money, Lower, |_, job| {
            job.cost.as_ref().map(|of| of.to_accuracy).unwrap_or_default()
        })
        .at("jobs.cost.to_accuracy")
        .called("Cost to accuracy")
        .means("What the nodes of one copy of the job cost until it reaches its target."),
        Metric::column("cost_of_run", Unit::Money, Lower, |report, _| {
            report.cost.as_ref().map(|of| of.run).unwrap_or_default()
        })
        .at("cost.run")
        .called("Cost of the run")
        .means("What the whole cluster costs from the start until the last step of all jobs."),
        Metric::column("makespan", Unit::Seconds, Lower, |report, _| report.makespan)
            .at("makespan")
            .called("Makespan")
            .means("Time of the last step of all jobs."),
    ]
}

/// Returns the metrics of a whole run that only JSON reports have.
pub(super) fn only_json() -> Vec<Metric> {
    vec![
        Metric::json("energy.total", Unit::Joules, Lower, |report, _| energy(report, |of| of.total))
            .called("Energy")
            .means("Energy that all nodes take in the whole run, warm-up included."),
        Metric::json("energy.idle", Unit::Joules, Lower, |report, _| energy(report, |of| of.idle))
            .called("Idle energy")
            .means("Energy that nodes take by being on."),
        Metric::json("energy.gpus", Unit::Joules, Neither, |report, _| energy(report, |of| of.gpus))
            .called("Energy of GPUs")
            .means("Energy that GPUs take beyond idle, by computing."),
        Metric::json("energy.cores", Unit::Joules, Neither, |report, _| energy(report, |of| of.cores))
            .called("Energy of cores")
            .means("Energy that busy cores take beyond idle."),
        Metric::json("energy.power", Unit::Watts, Lower, |report, _| energy(report, |of| of.power))
            .called("Power")
            .means("Power of all nodes, averaged over the run."),
        Metric::json("energy.per_step", Unit::Joules, Lower, |report, _| energy(report, |of| of.per_step))
            .called("Energy per step")
            .means("Energy for each step of a job copy; with several copies or jobs their steps are all counted."),
        Metric::json("cost.hour", Unit::Money, Lower, |report, _| {
            report.cost.as_ref().map(|of| of.hour).unwrap_or_default()
        })
        .called("Cost of an hour")
        .means("What the whole cluster costs for an hour."),
        Metric::json("cost.energy", Unit::Money, Lower, |report, _| {
            report.cost.as_ref().map(|of| of.energy).unwrap_or_default()
        })
        .called("Cost of energy for an hour")
        .means("What the energy of all nodes costs for an hour; part of the cost of an hour."),
        Metric::new("", Unit::Share, Neither, Value::Resource(|of| of.utilisation))
            .at("resources.utilisation")
            .called("Utilisation")
            .means("Share of the capacity in use over the whole run, averaged over all resources of the name."),
        Metric::new("", Unit::Share, Neither, Value::Resource(|of| of.utilisation_max))
            .at("resources.utilisation_max")
            .called("Utilisation of the busiest")
            .means("Share of the capacity in use of the busiest resource of the name."),
        Metric::new("", Unit::Count, Neither, Value::Resource(|of| of.mean_flows))
            .at("resources.mean_flows")
            .called("Flows")
            .means("Transfers or requests that use one such resource at a time, on average."),
    ]
}

/// Returns a figure of energy; an empty figure if the nodes' power is not known.
fn energy(report: &Report, of: impl Fn(&EnergyReport) -> Figure) -> Figure {
    report.energy.as_ref().map(of).unwrap_or_default()
}
