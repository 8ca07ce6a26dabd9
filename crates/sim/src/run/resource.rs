//! Shared resources (links, stations, limiters, tables, disk heads), grouped as reports show them, and the nodes' energy.

use forebay_engine::Span;
use forebay_engine::fluid::{LinkId, LinkUse};
use forebay_report::{BurstOutcome, EnergyOutcome, Owner, Part, Resource, ResourceOutcome};
use forebay_scenario::{Cluster, Job, Power, SampledNodes, Scenario, ServerPlace};

use crate::communication::LinkUses;
use crate::env::Env;
use crate::ids::{DeviceId, DiskHeadId, IdVec, LimiterId, StationId, TableId, TokenBucketId};
use crate::job::Jobs;
use crate::storage::Site;

/// A shared resource as reports show it: the similar resources of all nodes together.
#[derive(Debug)]
pub(super) struct ResourceRun {
    pub(super) of: Resource,
    pub(super) unit: &'static str,
    /// Capacity of the first member.
    pub(super) capacity: f64,
    /// The members of the resource, each with its capacity relative to that of the first member.
    pub(super) members: Vec<(Member, f64)>,
    /// For each member, the number of its node or rack, if it belongs to one.
    pub(super) nodes: Vec<u32>,
    /// For each member, its use in repeated steps that were not simulated; empty if there are none.
    pub(super) left_out: Vec<LinkUse>,
}

/// A member of a resource: a link, station, limiter, table or disk head.
#[derive(Debug, Clone, Copy)]
pub(super) enum Member {
    Link(LinkId),
    Station(StationId),
    Limiter(LimiterId),
    Table(TableId),
    DiskHead(DiskHeadId),
}

impl Member {
    /// Returns the member's use until now. `relative` is its capacity relative to `capacity`, that of the first member;
    /// `beside` is the use of links by transfers that are simulated outside the network.
    fn usage(
        self,
        site: &mut Site<'_>,
        beside: &LinkUses,
        (relative, capacity): (f64, f64),
    ) -> LinkUse {
        let Site { env, storages } = site;
        let now = env.now;
        match self {
            Member::Link(link) => add(env.network.usage(now, link), beside.get(&link)),
            Member::Limiter(limiter) => storages.limiters[limiter].usage(),
            Member::DiskHead(head) => storages.disk_heads[head].usage(now),
            Member::Table(table) => storages.tables[table].usage(now),
            Member::Station(station) => {
                let service = &mut env.stations[station];
                let (has_tokens, queue) = (service.tokens().is_some(), &mut service.queue);
                let busy = queue.busy_seconds(now);
                let served = match has_tokens {
                    true => queue.served() as f64,
                    // A busy server uses its share of the capacity.
                    false => busy * capacity * relative / f64::from(queue.servers()),
                };
                LinkUse { busy, served, flow_seconds: queue.present_seconds(now) }
            }
        }
    }
}

fn add(all: LinkUse, beside: Option<&LinkUse>) -> LinkUse {
    let Some(beside) = beside else { return all };
    LinkUse {
        busy: all.busy + beside.busy,
        served: all.served + beside.served,
        flow_seconds: all.flow_seconds + beside.flow_seconds,
    }
}

impl ResourceRun {
    /// Returns the same resource with only the members on nodes of each group, and of none; empty if all members are alike.
    fn by_group(&self, cluster: &Cluster) -> Vec<ResourceRun> {
        if cluster.groups.is_empty() || self.of.owner != Owner::Node {
            return Vec::new();
        }
        let mut groups: Vec<ResourceRun> = Vec::new();
        for (at, ((member, relative), node)) in self.members.iter().zip(&self.nodes).enumerate() {
            let owner = cluster.group_index(*node).map_or(Owner::Node, Owner::Group);
            let of = Resource { owner, ..self.of };
            let known = groups.iter().position(|group| group.of == of).unwrap_or_else(|| {
                let (capacity, unit) = (self.capacity * relative, self.unit);
                let (members, nodes) = (Vec::new(), Vec::new());
                let left_out = Vec::new();
                groups.push(ResourceRun { of, unit, capacity, members, nodes, left_out });
                groups.len() - 1
            });
            let group = &mut groups[known];
            group.left_out.extend(self.left_out.get(at));
            group.members.push((*member, self.capacity * relative / group.capacity));
            group.nodes.push(*node);
        }
        if groups.len() > 1 { groups } else { Vec::new() }
    }

    /// Returns the token bucket of a member, if it has one.
    fn bucket(env: &Env, member: Member) -> Option<TokenBucketId> {
        let Member::Link(link) = member else { return None };
        env.bucket_of(link)
    }

    /// Returns the capacity of the first member; with bursts, the most that it could give on average until now.
    fn capacity_until_now(&self, site: &mut Site<'_>) -> f64 {
        let Some((first, _)) = self.members.first() else { return self.capacity };
        if let Member::Station(station) = *first
            && let Some(law) = site.env.stations[station].tokens()
        {
            return law.most_over(site.env.now.seconds().max(f64::MIN_POSITIVE));
        }
        let bucket = Self::bucket(site.env, *first);
        bucket.map_or(self.capacity, |b| site.env.buckets[b].most_over(site.env.now))
    }

    /// Returns what the members have drawn from their token buckets until now; `None` if they have none that last for long.
    fn burst(&self, site: &mut Site<'_>) -> Option<BurstOutcome> {
        let mut all: Option<BurstOutcome> = None;
        if self.of.part == Part::CpuQuota {
            return all;
        }
        for (member, _) in &self.members {
            let found = match (*member, Self::bucket(site.env, *member)) {
                (Member::Station(station), _) => site.env.stations[station].drawn(site.env.now),
                (_, bucket) => bucket.map(|bucket| site.env.drawn_from(bucket)),
            };
            let Some((drawn, emptied)) = found else { continue };
            let of = all.get_or_insert(BurstOutcome::default());
            of.drawn += drawn.max(0.0);
            of.emptied = of.emptied.into_iter().chain(emptied).reduce(f64::min);
        }
        all
    }

    /// Returns the use of each member until now.
    fn uses(&self, site: &mut Site<'_>, beside: &LinkUses) -> Vec<LinkUse> {
        let usage = |(member, relative): &(Member, f64)| {
            member.usage(site, beside, (*relative, self.capacity))
        };
        self.members.iter().map(usage).collect()
    }

    /// Returns the resource's outcome until now, if repeated steps were left out for the time `left_out`.
    fn outcome(
        &self,
        site: &mut Site<'_>,
        beside: &LinkUses,
        (scenario, left_out): (&Scenario, Span),
    ) -> ResourceOutcome {
        let elapsed = (site.env.now + left_out).seconds().max(f64::MIN_POSITIVE);
        let capacity = self.capacity_until_now(site);
        let mut uses = self.uses(site, beside);
        uses.iter_mut().zip(&self.left_out).for_each(|(all, part)| *all = add(*all, Some(part)));
        let count = uses.len().max(1) as f64;
        let utilisation = |served: f64| served / (capacity * elapsed);
        // Bytes or seconds that each member would have served with the capacity of the first.
        let shares: Vec<f64> =
            uses.iter().zip(&self.members).map(|(u, (_, relative))| u.served / relative).collect();
        ResourceOutcome {
            of: self.of,
            name: self.of.name(scenario),
            count: uses.len() as u32,
            capacity,
            unit: self.unit,
            utilisation: utilisation(shares.iter().sum::<f64>() / count),
            utilisation_max: utilisation(shares.iter().copied().fold(0.0, f64::max)),
            mean_flows: uses.iter().map(|u| u.flow_seconds).sum::<f64>() / count / elapsed,
            served: uses.iter().map(|u| u.served).sum(),
            burst: self.burst(site),
            groups: (self.by_group(&scenario.cluster).iter())
                .map(|group| group.outcome(site, beside, (scenario, left_out)))
                .collect(),
        }
    }
}

/// All shared resources, and the node of each device.
#[derive(Debug, Default)]
pub(super) struct Resources {
    pub(super) all: Vec<ResourceRun>,
    /// Node of each device.
    pub(super) device_nodes: IdVec<DeviceId, u32>,
    /// Duration of repeated steps that were not simulated.
    pub(super) left_out: Span,
}

impl Resources {
    /// Returns the outcome of each resource until now; `beside` is the use of links by transfers that are simulated outside
    /// the network.
    pub(super) fn outcomes(
        &self,
        site: &mut Site<'_>,
        beside: &LinkUses,
        (scenario, sample): (&Scenario, Option<&SampledNodes>),
    ) -> Vec<ResourceOutcome> {
        let of = (scenario, self.left_out);
        let all = self.all.iter().map(|resource| resource.outcome(site, beside, of));
        let share = sample.map_or(1.0, |sample| sample.share);
        all.map(|outcome| of_all_nodes(outcome, share, scenario)).collect()
    }

    /// Returns the use of each member of each resource until now; `beside` is as in [`Resources::outcomes`].
    pub(super) fn uses(&self, site: &mut Site<'_>, beside: &LinkUses) -> Vec<Vec<LinkUse>> {
        self.all.iter().map(|resource| resource.uses(site, beside)).collect()
    }

    /// Leaves out repeated steps that take `span`: `times` repetitions of the steps since the members' uses were `before`, up to now.
    pub(super) fn leave_out(
        &mut self,
        site: &mut Site<'_>,
        beside: &LinkUses,
        (before, span, times): (&[Vec<LinkUse>], Span, u64),
    ) {
        self.left_out = span;
        let times = times as f64;
        for (resource, before) in self.all.iter_mut().zip(before) {
            let now = resource.uses(site, beside);
            let gained = now.iter().zip(before).map(|(now, before)| LinkUse {
                busy: times * (now.busy - before.busy),
                served: times * (now.served - before.served),
                flow_seconds: times * (now.flow_seconds - before.flow_seconds),
            });
            resource.left_out = gained.collect();
        }
    }

    /// Returns the total that the members of the resource `of` have served until now; each member's part is multiplied by the
    /// `weight` of the member's node.
    pub(super) fn served_by_node(
        &self,
        site: &mut Site<'_>,
        of: Resource,
        weight: impl Fn(u32) -> f64,
    ) -> f64 {
        let Some(resource) = self.all.iter().find(|resource| resource.of == of) else {
            return 0.0;
        };
        let none = LinkUses::new();
        let members = resource.members.iter().zip(&resource.nodes);
        let served = members.map(|((member, relative), node)| {
            weight(*node) * member.usage(site, &none, (*relative, resource.capacity)).served
        });
        served.sum()
    }
}

/// Returns the outcome of a resource of all nodes, given that of the sampled `share` of them.
fn of_all_nodes(outcome: ResourceOutcome, share: f64, scenario: &Scenario) -> ResourceOutcome {
    if share == 1.0 {
        return outcome;
    }
    let remote = |index: usize| scenario.storage[index].path.is_remote();
    let groups = outcome.groups.into_iter().map(|group| of_all_nodes(group, share, scenario));
    let burst = outcome.burst.map(|burst| BurstOutcome { drawn: burst.drawn / share, ..burst });
    let whole = ResourceOutcome {
        served: outcome.served / share,
        burst,
        groups: groups.collect(),
        ..outcome
    };
    match outcome.of.owner {
        // A storage that nodes share had the capacity of the sample's share.
        Owner::Storage(index) if remote(index) => ResourceOutcome {
            capacity: outcome.capacity / share,
            mean_flows: outcome.mean_flows / share,
            ..whole
        },
        _ => ResourceOutcome { count: (f64::from(outcome.count) / share).round() as u32, ..whole },
    }
}

impl Resources {
    /// Returns the energy that all nodes have used until now; `None` if the power of any node is not set. Nodes of parameter
    /// servers count too, with the power settings of the first node.
    pub(super) fn energy(
        &self,
        (env, jobs): (&mut Env, &mut Jobs),
        scenario: &Scenario,
        sample: Option<&SampledNodes>,
    ) -> Option<EnergyOutcome> {
        let cluster = &scenario.cluster;
        let represents = |node: u32| sample.map_or(1.0, |sample| sample.represents(node));
        let power = |node: u32| cluster.node_at(node).power;
        let (seconds, mut idle) = (env.now.seconds(), 0.0);
        for alike in cluster.alike(0..cluster.nodes) {
            idle += alike.len() as f64 * power(alike.start)?.idle * seconds;
        }
        let server = power(0)?;
        idle += own_servers(scenario) * server.idle * seconds;
        let of =
            |node: u32, part: fn(Power) -> f64| power(node).map_or(0.0, part) * represents(node);
        let mut gpus = 0.0;
        for d in jobs.devices() {
            let job = &scenario.jobs[jobs.job_of_device(d)];
            let seconds = f64::from(job.ranks_of_stage()) * jobs.gpu_seconds(env.now, d);
            gpus += of(self.device_nodes[d], |power| power.gpu) * seconds;
        }
        let site = &mut Site { env, storages: &mut jobs.loaders.storages };
        let shared = Resource::node(Part::Gpu);
        gpus += self.served_by_node(site, shared, |node| of(node, |power| power.gpu));
        let on_nodes = Resource::node(Part::Cores);
        let mut cores = self.served_by_node(site, on_nodes, |node| of(node, |power| power.core));
        cores += self.served_by_node(site, Resource::server(Part::Cores), |_| server.core);
        Some(EnergyOutcome { seconds, idle, gpus, cores })
    }
}

/// Returns the number of nodes that only serve as parameter servers of job copies, in addition to the cluster's nodes.
fn own_servers(scenario: &Scenario) -> f64 {
    let of = |job: &Job| {
        let own = job.servers().filter(|of| matches!(of.place, ServerPlace::Own { .. }));
        own.map_or(0.0, |of| f64::from(job.copies) * f64::from(of.number()))
    };
    scenario.jobs.iter().map(of).sum()
}
