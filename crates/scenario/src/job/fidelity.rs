//! Chooses the fidelity of collectives where it is "auto": transfer by transfer, as long as a step has few enough
//! transfers.

use super::gradients;
use super::parallel::transfers::{
    context_transfers, dispatch_transfers, gradient_transfers, sum_transfers, sums_are_alone,
};
use super::rules::Rules;
use crate::{Cluster, Fidelity, Job, Method, Sync, Tensor};

/// Maximum number of transfers, in a step of all copies of a job, that "auto" simulates one by one; simulating a
/// million transfers takes about half a second.
const AFFORDABLE: f64 = 1e6;

impl Rules<'_> {
    /// Chooses the fidelity of each kind of collective where it is "auto", and remarks where the transfers are not
    /// simulated one by one.
    pub(super) fn choose_fidelity(&self, job: &mut Job) {
        let Some(cluster) = self.around.cluster else { return };
        if job.parallelism.is_some() && !job.can_be_laid_out() {
            return;
        }
        let cluster = cluster.weakest(self.nodes(job));
        let copies = f64::from(job.copies);
        let sync = job.sync.as_ref().map_or(0.0, |sync| copies * of_gradients(job, &cluster, sync));
        if let Some(of) = &mut job.sync
            && choose((&mut of.fidelity, &mut of.chosen_by), sync)
        {
            self.tell(&job.name, "sync", "collectives of gradients", sync);
        }
        let transfers = of_parts(job, &cluster);
        let Some(of) = &mut job.parallelism else { return };
        let methods = [
            of.tensor.as_mut().map(|of| &mut of.method),
            of.context.as_mut().map(|of| &mut of.method),
            of.expert.as_mut().map(|of| &mut of.method),
        ];
        let named = [
            ("parallel.tensor", "sums in layers"),
            ("parallel.context", "exchanges of keys and values"),
            ("parallel.expert", "all-to-alls of tokens"),
        ];
        for ((method, (table, what)), transfers) in methods.into_iter().zip(named).zip(transfers) {
            let transfers = copies * transfers;
            if let Some(Method { fidelity, chosen_by, .. }) = method
                && choose((fidelity, chosen_by), transfers)
            {
                self.tell(&job.name, table, what, transfers);
            }
        }
    }

    fn tell(&self, job: &str, table: &str, what: &str, transfers: f64) {
        self.check.remark(format!(
            "The {what} of `{job}` are timed as on an idle network, because a step has {transfers:.1e} transfers: to simulate each transfer, write `fidelity = \"flow\"` in the job's `{table}`."
        ));
    }
}

/// Chooses the fidelity if it is "auto": "analytic" (the time on an idle network) if a step has too many `transfers`,
/// otherwise "flow". Returns true if "analytic" was chosen.
fn choose((fidelity, by): (&mut Fidelity, &mut Option<f64>), transfers: f64) -> bool {
    if *fidelity != Fidelity::Auto {
        return false;
    }
    let analytic = transfers > AFFORDABLE;
    *fidelity = if analytic { Fidelity::Analytic } else { Fidelity::Flow };
    *by = Some(transfers);
    analytic
}

/// Returns the numbers of transfers in a step: of tensor parallel, of context parallel and of expert parallel
/// collectives.
fn of_parts(job: &Job, cluster: &Cluster) -> [f64; 3] {
    let Some(of) = &job.parallelism else { return [0.0; 3] };
    let sums = of.tensor.as_ref().filter(|of| of.ranks > 1);
    let keys = of.context.as_ref().filter(|of| of.ranks > 1);
    let tokens = of.expert.as_ref().filter(|of| of.ranks > 1);
    [
        sums.map_or(0.0, |of| of_sums(job, cluster, of)),
        keys.map_or(0.0, |of| context_transfers(job, cluster, of).unwrap_or(0.0)),
        tokens.map_or(0.0, |of| dispatch_transfers(job, cluster, of).unwrap_or(0.0)),
    ]
}

/// Returns the number of transfers that reduce the gradients of a step; 0 if the collective is impossible, because
/// another check reports this.
fn of_gradients(job: &Job, cluster: &Cluster, sync: &Sync) -> f64 {
    if job.gradient_ranks() < 2 || sync.servers.is_some() {
        return 0.0;
    }
    if job.parallelism.is_some() {
        return gradient_transfers(job, cluster, sync).unwrap_or(0.0);
    }
    gradients::transfers(sync, &job.fabric(cluster)).unwrap_or(0.0) / job.interval() as f64
}

/// Returns the number of transfers of a step's tensor parallel allreduces; 0 if simulating one allreduce gives the time
/// of all.
fn of_sums(job: &Job, cluster: &Cluster, tensor: &Tensor) -> f64 {
    if sums_are_alone(job, cluster, tensor) {
        return 0.0;
    }
    sum_transfers(job, cluster, tensor).unwrap_or(0.0)
}
