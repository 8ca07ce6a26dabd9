//! Nominal numbers of a scenario that have a range of published results.

use super::reached::{self, Reached};
use crate::scenario::cluster::{Intra, IntraKind};
use crate::scenario::{Achieved, Job, Line, Scenario, Setting};

/// Bandwidth of one NVLink of the first generation in one direction [B/s], the slowest there is.
const SLOWEST_NVLINK: f64 = 20e9;

/// A number that a scenario takes from a data sheet, and what publications reached of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Nominal {
    /// Key of the number.
    pub key: &'static str,
    /// Its value, as the scenario has it.
    pub value: String,
    /// What publications reached.
    pub range: &'static Reached,
    /// Whether gradients of a job use it without a transport that says how, so that sockets are taken.
    pub unset: bool,
    carries: Carries,
}

/// What a number limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Carries {
    /// Gradients that go over sockets, or whose transport does not say otherwise.
    Sockets,
    /// Gradients that go by RDMA.
    Rdma,
    /// Whatever GPUs of a node send each other.
    Inside,
    /// What jobs read over the network.
    Reads,
}

impl Carries {
    fn range(self) -> &'static str {
        match self {
            Self::Sockets => "gradients-sockets",
            Self::Rdma => "gradients-rdma",
            Self::Inside => "gradients-nvlink",
            Self::Reads => "bulk-reads",
        }
    }

    /// Returns whether gradients on such a line are meant.
    fn is_on(self, line: Line) -> bool {
        match self {
            Self::Sockets => matches!(line, Line::Unset | Line::Sockets),
            Self::Rdma => line == Line::Rdma,
            Self::Inside | Self::Reads => false,
        }
    }
}

/// Returns the numbers of a scenario that come from data sheets and have a range: those that its file or an override sets, and does
/// not call achieved. What a profile gives was measured.
#[must_use]
pub fn nominal(scenario: &Scenario) -> Vec<Nominal> {
    let settings = scenario.origins.settings();
    let jobs = || scenario.jobs.iter();
    let gradients = |carries: Carries| jobs().any(|job| carries.is_on(line(job)));
    let storage_nic = scenario.cluster.storage_nic.is_some();
    let data = if storage_nic { Achieved::StorageNic } else { Achieved::Nic };
    let remote = |job: &Job| {
        let storage = scenario.storage.get(job.reads_from());
        job.reads_data() && storage.is_some_and(|storage| storage.path.is_remote())
    };
    let inside = is_nvlink(&scenario.cluster.node.intra) && jobs().any(sends_inside);
    let all = [
        (Achieved::Nic, Carries::Sockets, gradients(Carries::Sockets)),
        (Achieved::Nic, Carries::Rdma, gradients(Carries::Rdma)),
        (Achieved::Intra, Carries::Inside, inside),
        (data, Carries::Reads, jobs().any(remote)),
    ];
    let used = all.into_iter().filter(|(key, _, used)| *used && !scenario.achieved.contains(key));
    used.filter_map(|(key, carries, _)| {
        let range = reached::all().iter().find(|range| range.name == carries.range())?;
        let unset = carries == Carries::Sockets && jobs().any(|job| line(job) == Line::Unset);
        let value = value(&settings, key.key())?;
        Some(Nominal { key: key.key(), value, range, unset, carries })
    })
    .collect()
}

/// Returns what is said of the line that gradients of a job take between nodes.
fn line(job: &Job) -> Line {
    match &job.sync {
        Some(sync) if job.nodes > 1 || sync.servers.is_some() => sync.transport.line,
        _ => Line::Achieved,
    }
}

/// Returns whether a link between GPUs can be NVLink, which joins them by switches or in rings.
fn is_nvlink(link: &Intra) -> bool {
    matches!(link.kind, IntraKind::Switch | IntraKind::Ring) && link.bandwidth >= SLOWEST_NVLINK
}

fn sends_inside(job: &Job) -> bool {
    job.copies_per_node > 1 && job.sync.is_some() || job.parallelism.is_some()
}

/// Returns the value of a key as the scenario has it, without quotes; `None` if it is not set.
fn value(settings: &[Setting], key: &str) -> Option<String> {
    let setting = settings.iter().find(|setting| setting.key == key)?;
    Some(setting.value.trim_matches('"').to_owned())
}

/// Returns the scenario in which these shares of its numbers are reached, on all nodes alike.
#[must_use]
pub fn with(scenario: &Scenario, shares: &[(&Nominal, f64)]) -> Scenario {
    let mut changed = scenario.clone();
    let of = |wanted: Carries| {
        let found = shares.iter().find(|(number, _)| number.carries == wanted);
        found.map_or(1.0, |(_, share)| *share)
    };
    let cluster = &mut changed.cluster;
    let mut shared = 1.0;
    match &mut cluster.storage_nic {
        Some(nic) => *nic *= of(Carries::Reads),
        None => {
            shared = of(Carries::Reads);
            cluster.nic *= shared;
            cluster.groups.iter_mut().for_each(|group| group.nic *= shared);
        }
    }
    let groups = cluster.groups.iter_mut().map(|group| &mut group.node);
    for node in std::iter::once(&mut cluster.node).chain(groups) {
        node.intra.bandwidth *= of(Carries::Inside);
    }
    for job in &mut changed.jobs {
        let carrier = [Carries::Sockets, Carries::Rdma].into_iter().find(|of| of.is_on(line(job)));
        let share = carrier.map_or(1.0, of);
        if let Some(sync) = &mut job.sync {
            // A NIC that reads less than its line still sends gradients at their own share of it.
            let efficiency = sync.transport.efficiency * share;
            sync.transport.efficiency = (efficiency / shared).min(1.0);
        }
    }
    changed
}
