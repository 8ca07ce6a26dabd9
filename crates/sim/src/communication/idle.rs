//! Duration of a collective when nothing else is in progress: the collective is simulated on a separate, otherwise idle
//! network.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use forebay_collective::{Collective, Schedule};
use forebay_engine::fluid::{LinkId, LinkUse, Network};
use forebay_engine::{self, Calendar, Model, Span, Time};
use forebay_model::random::Streams;
use forebay_scenario::Members;

use super::exchange::{Around, Exchange, Messages, Whose};
use super::ways::{RankRoutes, Topology};
use crate::env::{ActivityId, Env, Event, broken};
use crate::ids::{CommunicatorId, IdVec, Ids, JobId};

struct Idle {
    env: Env,
    messages: Messages,
    ways: RankRoutes,
    /// The exchange of each communicator.
    exchanges: IdVec<CommunicatorId, Exchange>,
    end: Time,
}

/// Returns the time of a collective [s] if all `groups` of ranks do it at the same time, and nothing else uses the links.
pub(super) fn idle_seconds(ways: &RankRoutes, schedule: &Arc<Schedule>, groups: &[Members]) -> f64 {
    let mut env = nothing();
    let ways = ways.alone(&mut env.network, &mut env.stations);
    let exchanges = exchanges(groups);
    let messages = Messages::default();
    let mut idle = Idle { env, messages, ways, exchanges, end: Time::ZERO };
    idle.run(schedule, Time::NEVER);
    idle.end.seconds()
}

/// Simulates a collective of all ranks of `topology` from time zero to `until`.
pub(super) fn follow(topology: &Topology, schedule: &Arc<Schedule>, until: Time) -> Followed {
    let mut env = nothing();
    let ways = topology.routes(&mut env.network);
    let all = Members::new(0, 1, schedule.ranks());
    let (exchanges, messages) = (exchanges(&[all]), Messages::default());
    let mut idle = Idle { env, messages, ways, exchanges, end: Time::ZERO };
    idle.run(schedule, until);
    let at = if until == Time::NEVER { idle.end } else { until };
    let uses = topology.links().map(|link| idle.env.network.usage(at, link)).collect();
    Followed { takes: Span(idle.end.0), uses }
}

/// Returns an environment in which nothing else runs and no random numbers are sampled.
fn nothing() -> Env {
    Env::new(Streams::new(0, 0))
}

/// Returns an exchange for each of `groups`; all groups belong to one job copy.
fn exchanges(groups: &[Members]) -> IdVec<CommunicatorId, Exchange> {
    let ids = Ids::new(CommunicatorId::new(0), CommunicatorId::new(groups.len() as u32));
    let whose = ids.iter().map(|c| (JobId::default(), Whose::Communicator(c)));
    whose.zip(groups).map(|(whose, members)| Exchange::new(whose, *members)).collect()
}

impl Idle {
    /// Begins all exchanges and runs them up to `until`.
    fn run(&mut self, schedule: &Arc<Schedule>, until: Time) {
        for c in self.exchanges.ids() {
            let begin = |exchange: &mut Exchange, around: &mut Around<'_>| {
                exchange.begin(around, schedule);
            };
            self.act(Some(c), begin);
        }
        forebay_engine::run(self, until);
    }

    fn act(
        &mut self,
        communicator: Option<CommunicatorId>,
        act: impl FnOnce(&mut Exchange, &mut Around<'_>),
    ) {
        let Some(c) = communicator else {
            return broken("every message belongs to a collective");
        };
        let Idle { env, messages, ways, exchanges, end } = self;
        let mut around = Around { env, messages, ways, admitted: Vec::new() };
        act(&mut exchanges[c], &mut around);
        let admitted = around.admitted;
        *end = env.now;
        for next in admitted {
            env.after(next.delay, Event::Waited(next.activity));
        }
    }
}

impl Model for Idle {
    type Event = Event;

    fn calendar(&mut self) -> &mut Calendar<Event> {
        &mut self.env.calendar
    }

    fn pending(&mut self) -> Option<Time> {
        self.env.network.next()
    }

    fn advance(&mut self, now: Time) {
        self.env.now = now;
        while let Some(finished) = self.env.network.finish(now) {
            if let ActivityId::Message(m) = finished.token {
                let communicator = self.messages.communicator(m);
                self.act(communicator, |exchange, around| exchange.end_transfer(around, m));
            }
        }
    }

    fn handle(&mut self, now: Time, event: Event) {
        self.env.now = now;
        if let Event::Waited(ActivityId::Message(m)) = event {
            let communicator = self.messages.communicator(m);
            self.act(communicator, |exchange, around| exchange.end_delay(around, m));
        }
    }

    fn is_over(&self) -> bool {
        self.exchanges.iter().all(Exchange::is_over)
    }
}

/// Results of simulating collectives on links that nothing else uses. Copies of one value share
/// their results, so runs with such copies simulate each collective only once. Their outcomes are the same without it.
#[derive(Debug, Clone, Default)]
pub struct IdleCollectives(Arc<Mutex<Results>>);

#[derive(Debug, Default)]
struct Results {
    topologies: Vec<Arc<Topology>>,
    results: Vec<(Setup, Arc<OnceLock<Arc<Followed>>>)>,
}

/// Everything on which the result of a collective on idle links depends.
#[derive(Debug, Clone, PartialEq)]
struct Setup {
    /// Index of the topology in the shared list.
    topology: usize,
    collective: Collective,
    /// Time up to which the collective is simulated.
    until: Time,
}

/// The result of simulating a collective on an idle network.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) takes: Span,
    /// Use of each of the ranks' links during the collective.
    pub(super) uses: Vec<LinkUse>,
}

/// The topology of a group of ranks in one run: its index in the shared list, and its links in that run's network.
#[derive(Debug, Clone)]
pub(super) struct KnownTopology {
    index: usize,
    topology: Arc<Topology>,
    pub(super) links: Vec<LinkId>,
}

impl IdleCollectives {
    /// Returns the number of results and topologies.
    #[must_use]
    pub fn len(&self) -> usize {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.results.len() + known.topologies.len()
    }

    /// Returns whether no collective has been simulated.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the topology of `members`, whose routes in `network` are `ways`.
    pub(super) fn topology(
        &self,
        members: &Members,
        ways: &RankRoutes,
        network: &Network<ActivityId>,
    ) -> KnownTopology {
        let (topology, links) = ways.topology(members, network);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = known.topologies.iter().position(|of| **of == topology).unwrap_or_else(|| {
            known.topologies.push(Arc::new(topology));
            known.topologies.len() - 1
        });
        KnownTopology { index, topology: Arc::clone(&known.topologies[index]), links }
    }

    /// Returns the result of a collective of all ranks of a topology from time zero to `until`.
    pub(super) fn follow(
        &self,
        at: &KnownTopology,
        (collective, schedule): (&Collective, &Arc<Schedule>),
        until: Time,
    ) -> Arc<Followed> {
        let setup = Setup { topology: at.index, collective: collective.clone(), until };
        let result = self.result(setup);
        // The lock is free meanwhile, so that other runs can simulate other collectives.
        Arc::clone(result.get_or_init(|| Arc::new(follow(&at.topology, schedule, until))))
    }

    fn result(&self, setup: Setup) -> Arc<OnceLock<Arc<Followed>>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, result)) = known.results.iter().find(|(of, _)| *of == setup) {
            return Arc::clone(result);
        }
        known.results.push((setup, Arc::default()));
        Arc::clone(&known.results[known.results.len() - 1].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::run;
    use forebay_scenario::ScenarioFile;

    /// Simulates two-stage model copies with eight tensor-parallel ranks in each stage, on `nodes` nodes with fast links and `old`
    /// nodes with slow links. Returns the number of topologies, and of collectives simulated so far.
    fn simulated((nodes, old): (u32, u32), collectives: &IdleCollectives) -> [usize; 2] {
        let old_nodes = match old {
            0 => String::new(),
            _ => format!("group.old = {{ nodes = {old}, node.intra.bandwidth = \"100 GB/s\" }}"),
        };
        let all = nodes + old;
        let text = format!(
            r#"name = "groups"
run.steps = 2
[cluster]
nodes = {nodes}
node = {{ cores = 8, gpus = 8, intra = {{ kind = "switch", bandwidth = "450 GB/s" }} }}
network.nic = "400 Gbit/s"
{old_nodes}
[storage.ram.memory]
[dataset.tokens]
samples = 1000000
sample_size = "4 KiB"
[[job]]
name = "train"
nodes = {all}
dataset = "tokens"
storage = "ram"
batch = 8
loader.in-memory = {{}}
model.step = "80 ms"
sync.allreduce.gradients = "1 GB"
parallel.tensor = {{ ranks = 8, allreduces = 4, activations = "21 MB" }}
parallel.pipeline = {{ stages = 2, schedule = "1f1b", micro_batches = 8, stages_per_node = 1 }}
"#
        );
        let file = ScenarioFile::parse("groups.toml", text).unwrap();
        let scenario = file.resolve(&[]).unwrap_or_else(|problems| panic!("{problems}"));
        run(&scenario, 0, &Options { collectives: Some(collectives), ..Options::default() });
        let known = collectives.0.lock().unwrap();
        [known.topologies.len(), known.results.len()]
    }

    #[test]
    fn groups_with_equal_links_and_runs_that_share_results_simulate_each_collective_once() {
        // System: tensor-parallel groups on two, then on eight nodes, then on nodes of two kinds, then once more on eight.
        // Expectation: one group is simulated for all, and another one for the slower links.
        let known = IdleCollectives::default();
        let first = simulated((2, 0), &known);
        assert_eq!(first[0], 1);
        assert!(first[1] >= 1, "{first:?}");
        assert_eq!(simulated((8, 0), &known), first);
        let both = simulated((4, 4), &known);
        assert_eq!(both[0], 2);
        assert!(both[1] > first[1], "{both:?}");
        assert_eq!(simulated((8, 0), &known), both);
    }
}
