//! Execution of schedules event by event on an idle network: the rule in the documentation of the
//! crate, word for word.

use super::super::{Cost, Kind, Schedule, Transfer};

/// A transfer under way.
#[derive(Debug, Clone)]
struct Active {
    transfer: usize,
    stage: Stage,
    /// Remainder of the transfer's present stage: latency [s], or bytes to send or reduce [B].
    left: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    Latency,
    Network,
    Reduction,
}

/// Returns the time until all transfers are done [s]. Each rank has a link out, a link in, and a
/// link for reductions.
pub(super) fn execute(schedule: &Schedule, cost: &Cost) -> f64 {
    let mut run = Execution::new(schedule, cost);
    run.start();
    while !run.active.is_empty() {
        run.step();
        run.start();
    }
    let all = run.begun.iter().all(|&begun| begun);
    assert!(all, "every transfer can start");
    run.now
}

struct Execution<'a> {
    schedule: &'a Schedule,
    cost: &'a Cost,
    all: Vec<(u64, Transfer)>,
    begun: Vec<bool>,
    /// Indices of the transfers of each rank and switch, in order of phase; the first `next` of
    /// them are done.
    own: Vec<Vec<usize>>,
    done: Vec<bool>,
    next: Vec<usize>,
    active: Vec<Active>,
    now: f64,
}

impl<'a> Execution<'a> {
    fn new(schedule: &'a Schedule, cost: &'a Cost) -> Execution<'a> {
        let phases = 0..schedule.phases();
        let all: Vec<(u64, Transfer)> =
            phases.flat_map(|phase| schedule.transfers(phase).map(move |t| (phase, t))).collect();
        let ends = (schedule.ranks() + schedule.switches()) as usize;
        let mut own = vec![Vec::new(); ends];
        for (i, (_, transfer)) in all.iter().enumerate() {
            own[transfer.from as usize].push(i);
            own[transfer.to as usize].push(i);
        }
        let (begun, done) = (vec![false; all.len()], vec![false; all.len()]);
        let next = vec![0; ends];
        Execution { schedule, cost, all, begun, own, done, next, active: Vec::new(), now: 0.0 }
    }

    /// Returns the earliest phase in which a rank or switch still has something to do.
    fn phase(&mut self, end: u32) -> u64 {
        let (own, next) = (&self.own[end as usize], &mut self.next[end as usize]);
        while own.get(*next).is_some_and(|&i| self.done[i]) {
            *next += 1;
        }
        own.get(*next).map_or(u64::MAX, |&i| self.all[i].0)
    }

    /// Starts all transfers for which sender and receiver are ready.
    fn start(&mut self) {
        for end in 0..self.own.len() as u32 {
            let phase = self.phase(end);
            let from = self.next[end as usize];
            let present = |&&i: &&usize| self.all[i].0 == phase;
            let ready: Vec<usize> =
                self.own[end as usize][from..].iter().take_while(present).copied().collect();
            for i in ready {
                let (at, transfer) = self.all[i];
                let both = self.phase(transfer.from) == at && self.phase(transfer.to) == at;
                if both && !self.begun[i] {
                    self.begun[i] = true;
                    let left = self.cost.alpha;
                    self.active.push(Active { transfer: i, stage: Stage::Latency, left });
                }
            }
        }
    }

    /// Moves time on to the next instant at which a transfer ends its stage.
    fn step(&mut self) {
        let rates = self.rates();
        let times = self.active.iter().zip(&rates).map(|(active, rate)| active.left / rate);
        let span = times.fold(f64::INFINITY, f64::min);
        self.now += span;
        let mut going = Vec::new();
        for (mut active, rate) in std::mem::take(&mut self.active).into_iter().zip(rates) {
            active.left -= rate * span;
            // Rounding must not separate stages that end together.
            if active.left > rate * (self.now * 1e-12) {
                going.push(active);
            } else {
                going.extend(self.further(active));
            }
        }
        self.active = going;
    }

    /// Returns the transfer in its next stage; `None` after the last one.
    fn further(&mut self, active: Active) -> Option<Active> {
        let transfer = self.all[active.transfer].1;
        let left = transfer.bytes as f64;
        let rank = transfer.to < self.schedule.ranks();
        let reduces = transfer.kind == Kind::Reduce && rank && self.cost.gamma > 0.0;
        match active.stage {
            Stage::Latency => Some(Active { stage: Stage::Network, left, ..active }),
            Stage::Network if reduces => Some(Active { stage: Stage::Reduction, left, ..active }),
            _ => {
                self.done[active.transfer] = true;
                None
            }
        }
    }

    /// Returns the links that a transfer uses in its present stage.
    fn route(&self, active: &Active) -> Vec<usize> {
        let (transfer, ranks) = (self.all[active.transfer].1, self.schedule.ranks());
        let links = match active.stage {
            Stage::Latency => vec![],
            Stage::Network => vec![(transfer.from, 0), (transfer.to, 1)],
            Stage::Reduction => vec![(transfer.to, 2)],
        };
        let ours = links.into_iter().filter(|(end, _)| *end < ranks);
        ours.map(|(end, kind)| 3 * end as usize + kind).collect()
    }

    /// Returns the max-min fair rates, by progressive filling: the link that gives the smallest
    /// share is filled first.
    fn rates(&self) -> Vec<f64> {
        let routes: Vec<Vec<usize>> = self.active.iter().map(|active| self.route(active)).collect();
        let mut rates: Vec<Option<f64>> =
            self.active.iter().map(|a| (a.stage == Stage::Latency).then_some(1.0)).collect();
        let mut free: Vec<f64> = (0..3 * self.schedule.ranks())
            .map(|link| 1.0 / if link % 3 == 2 { self.cost.gamma } else { self.cost.beta })
            .collect();
        while rates.iter().any(Option::is_none) {
            let mut users = vec![0.0; free.len()];
            for (route, _) in routes.iter().zip(&rates).filter(|(_, rate)| rate.is_none()) {
                route.iter().for_each(|&link| users[link] += 1.0);
            }
            let shares: Vec<f64> =
                free.iter().zip(&users).map(|(free, users)| free / users).collect();
            let least =
                shares.iter().copied().filter(|s| !s.is_nan()).fold(f64::INFINITY, f64::min);
            let full = |link: &usize| shares[*link] <= least * (1.0 + 1e-12);
            for (route, rate) in routes.iter().zip(&mut rates).filter(|(_, rate)| rate.is_none()) {
                if route.iter().any(full) {
                    *rate = Some(least);
                    route.iter().for_each(|&link| free[link] = (free[link] - least).max(0.0));
                }
            }
        }
        rates.into_iter().map(|rate| rate.expect("all have a rate")).collect()
    }
}
